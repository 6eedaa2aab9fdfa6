// Emits each bid that is the highest of its auction so far.

import { Operator, safeInt64, safeTimestamp, valueState } from "./howdah/howdah.js";

/** A bid: what comes in and, if it is the highest, goes out. */
const bid = { auction: safeInt64, price: safeInt64, at: safeTimestamp };

export default class HighestBid extends Operator {
  static key = { auction: safeInt64 };
  static inputs = { bids: { row: bid, each: "onBid" } };
  static outputs = { records: { row: bid } };
  /** The highest bid on an auction. */
  static states = { highest: valueState({ price: safeInt64 }) };

  onBid(bid) {
    const highest = this.highest.get();
    if (!highest || bid.price > highest.price) {
      this.highest.put({ price: bid.price });
      this.records.emit(bid);
    }
  }
}
