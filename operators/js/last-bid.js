// The last bid of each bidder on each auction (Nexmark query 18).
//
// The bid with the greatest time is the last; of bids at the same time, the one with the greatest
// event number. Emits a bid whenever it becomes the last one.

import { Operator, int64, safeInt64, safeTimestamp, valueState } from "../../guest-sdk/js/howdah.js";

/** A bid: what comes in and, if it is the last, goes out. */
const bid = { auction: safeInt64, bidder: safeInt64, price: int64, date_time: safeTimestamp, seq: safeInt64 };

/** The last bid of a bidder on an auction. */
const last = { price: int64, date_time: safeTimestamp, seq: safeInt64 };

export default class LastBid extends Operator {
  /** Whose last bid, on what. */
  static key = { bidder: safeInt64, auction: safeInt64 };
  static inputs = { input: { row: bid, each: "onBid" } };
  static outputs = { output: { row: bid } };
  static states = { last: valueState(last) };

  onBid(bid) {
    const last = this.last.get();
    const isLater =
      !last || bid.date_time > last.date_time || (bid.date_time === last.date_time && bid.seq > last.seq);
    if (isLater) {
      const { price, date_time, seq } = bid;
      this.last.put({ price, date_time, seq });
      this.output.emit(bid);
    }
  }
}
