"""The operator of the examples, with the tests that its Rust sister has."""

import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "operators" / "python"))

from howdah.testing import Event, TestHost  # noqa: E402
from last_bid import Bid, BidderAuction, Last, LastBid  # noqa: E402


def bid(price: int, millis: int, seq: int, auction: int = 2, bidder: int = 1) -> Bid:
    return Bid(auction, bidder, price, millis, seq)


def emitted(*bids: Bid) -> list[Bid]:
    """The bids that are emitted if these come in one batch."""
    return [event.row for event in TestHost(LastBid).process(bids)]


class TestLastBid(unittest.TestCase):
    def test_a_later_bid_replaces_the_last_whatever_its_price(self):
        bids = [bid(100, 10, 1), bid(50, 11, 2)]
        self.assertEqual(emitted(*bids), bids)

    def test_a_bid_that_comes_late_changes_nothing(self):
        self.assertEqual(emitted(bid(100, 10, 2), bid(200, 9, 3)), [bid(100, 10, 2)])

    def test_the_greater_event_number_wins_a_tie(self):
        bids = [bid(100, 10, 5), bid(200, 10, 4), bid(300, 10, 6)]
        self.assertEqual(emitted(*bids), [bids[0], bids[2]])

    def test_bidders_and_auctions_are_apart(self):
        bids = [bid(100, 9, 3, bidder=7), bid(100, 10, 1, auction=7), bid(100, 10, 3)]
        self.assertEqual(emitted(*bids), bids)

    def test_a_batch_looks_up_and_writes_once(self):
        host = TestHost(LastBid)
        host.process([bid(n, n, n, auction=n % 10) for n in range(50)])
        self.assertEqual(host.calls, {("last", "get"): 1, ("last", "put"): 1})

    def test_bids_that_change_nothing_write_nothing(self):
        host = TestHost(LastBid)
        host.process([bid(100, 10, 1)])
        host.process([bid(200, 9, 0)])
        self.assertEqual(host.calls["last", "put"], 1)

    def test_the_state_survives_a_crash(self):
        host = TestHost(LastBid)
        host.process([bid(100, 10, 1)])
        host.barrier()
        host.process([bid(300, 30, 3)])
        host.crash()
        again = bid(200, 20, 2)
        self.assertEqual(host.process([again]), [Event("output", again)])

    def test_the_state_is_the_greatest_bid_however_bids_are_cut_into_batches(self):
        for seed in range(50):
            made = random.Random(seed)
            bids = [
                bid(made.randrange(9), made.randrange(5), seq, made.randrange(3), made.randrange(3))
                for seq in range(60)
            ]
            host, rest = TestHost(LastBid), bids
            while rest:
                rows = made.randrange(1, 20)
                host.process(rest[:rows])
                rest = rest[rows:]
            greatest = {}
            for row in sorted(bids, key=lambda row: (row.date_time, row.seq)):
                key = BidderAuction(row.bidder, row.auction)
                greatest[key] = Last(row.price, row.date_time, row.seq)
            self.assertEqual(host.state("last"), greatest, f"seed {seed}")


if __name__ == "__main__":
    unittest.main()
