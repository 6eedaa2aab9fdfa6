// Runs the operator over states in memory: `node --test`.

import assert from "node:assert/strict";
import { test } from "node:test";
import HighestBid from "./highest-bid.js";
import { TestHost } from "./howdah/testing.js";

const bid = (price, at) => ({ auction: 1, price, at });
const rows = (events) => events.map(({ row }) => row);

test("a higher bid is emitted and a lower one is not", () => {
  const emitted = rows(new TestHost(HighestBid).process([bid(10, 1000), bid(5, 2000), bid(20, 3000)]));
  assert.deepEqual(emitted, [bid(10, 1000), bid(20, 3000)]);
});

test("the highest bid survives a crash", () => {
  const host = new TestHost(HighestBid);
  host.process([bid(10, 1000)]);
  host.barrier();
  host.process([bid(30, 2000)]);
  host.crash();
  assert.deepEqual(rows(host.process([bid(20, 3000)])), [bid(20, 3000)]);
});
