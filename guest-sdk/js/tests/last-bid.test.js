// The operator of the examples, with tests that its Rust sister has.

import assert from "node:assert/strict";
import { test } from "node:test";
import LastBid from "../../../operators/js/last-bid.js";
import { TestHost } from "../testing.js";

const bid = (price, date_time, seq, more = {}) => ({ auction: 2, bidder: 1, price: BigInt(price), date_time, seq, ...more });
const emitted = (...bids) => new TestHost(LastBid).process(bids).map(({ row }) => row);

test("a later bid replaces the last, whatever its price", () => {
  const bids = [bid(100, 10, 1), bid(50, 11, 2)];
  assert.deepEqual(emitted(...bids), bids);
});

test("a bid that comes late changes nothing", () => {
  assert.deepEqual(emitted(bid(100, 10, 2), bid(200, 9, 3)), [bid(100, 10, 2)]);
});

test("the greater event number wins a tie", () => {
  const bids = [bid(100, 10, 5), bid(200, 10, 4), bid(300, 10, 6)];
  assert.deepEqual(emitted(...bids), [bids[0], bids[2]]);
});

test("bidders and auctions are apart", () => {
  const bids = [bid(100, 9, 3, { bidder: 7 }), bid(100, 10, 1, { auction: 7 }), bid(100, 10, 3)];
  assert.deepEqual(emitted(...bids), bids);
});

test("a batch looks up and writes once", () => {
  const host = new TestHost(LastBid);
  host.process(Array.from({ length: 50 }, (_, n) => bid(n, n, n, { auction: n % 10 })));
  assert.deepEqual(host.calls, { "last.get": 1, "last.put": 1 });
});

test("the state survives a crash", () => {
  const host = new TestHost(LastBid);
  host.process([bid(100, 10, 1)]);
  host.barrier();
  host.process([bid(300, 30, 3)]);
  host.crash();
  assert.deepEqual(host.process([bid(200, 20, 2)]).map(({ row }) => row), [bid(200, 20, 2)]);
  assert.deepEqual(host.state("last", { bidder: 1, auction: 2 }), { price: 200n, date_time: 20, seq: 2 });
});
