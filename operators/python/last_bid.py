"""The last bid of each bidder on each auction (Nexmark query 18).

The bid with the greatest time is the last; of bids at the same time, the one with the greatest
event number. Emits a bid whenever it becomes the last one.
"""

from typing import NamedTuple

from howdah import Input, Operator, Output, Timestamp, ValueState


class Bid(NamedTuple):
    """A bid: what comes in and, if it is the last, goes out."""

    auction: int
    bidder: int
    price: int
    date_time: Timestamp
    seq: int


class BidderAuction(NamedTuple):
    """Whose last bid, on what."""

    bidder: int
    auction: int


class Last(NamedTuple):
    """The last bid of a bidder on an auction."""

    price: int
    date_time: Timestamp
    seq: int


class LastBid(Operator):
    """The operator."""

    input = Input(Bid, key=BidderAuction)
    output = Output(Bid)
    last = ValueState(Last)

    @input.each
    def on_bid(self, bid: Bid) -> None:
        last = self.last.get()
        if last is None or (bid.date_time, bid.seq) > (last.date_time, last.seq):
            self.last.put(Last(bid.price, bid.date_time, bid.seq))
            self.output.emit(bid)
