"""Emits each bid that is the highest of its auction so far."""

from typing import NamedTuple

from howdah import Input, Operator, Output, Timestamp, ValueState


class Bid(NamedTuple):
    """A bid: what comes in and, if it is the highest, goes out."""

    auction: int
    price: int
    at: Timestamp


class Auction(NamedTuple):
    """Rows are grouped by this."""

    auction: int


class Highest(NamedTuple):
    """The highest bid on an auction."""

    price: int


class HighestBid(Operator):
    """The operator."""

    bids = Input(Bid, key=Auction)
    records = Output(Bid)
    highest = ValueState(Highest)

    @bids.each
    def on_bid(self, bid: Bid) -> None:
        highest = self.highest.get()
        if highest is None or bid.price > highest.price:
            self.highest.put(Highest(bid.price))
            self.records.emit(bid)
