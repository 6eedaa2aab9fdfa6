"""Runs the operator over states in memory: `python -m unittest`."""

import unittest

from highest_bid import Bid, HighestBid
from howdah.testing import Event, TestHost


class TestHighestBid(unittest.TestCase):
    def test_a_higher_bid_is_emitted_and_a_lower_one_is_not(self) -> None:
        first, lower, higher = Bid(1, 10, 1000), Bid(1, 5, 2000), Bid(1, 20, 3000)
        events = TestHost(HighestBid).process([first, lower, higher])
        self.assertEqual(events, [Event("records", first), Event("records", higher)])

    def test_the_highest_bid_survives_a_crash(self) -> None:
        host = TestHost(HighestBid)
        host.process([Bid(1, 10, 1000)])
        host.barrier()
        host.process([Bid(1, 30, 2000)])
        host.crash()
        again = Bid(1, 20, 3000)
        self.assertEqual(host.process([again]), [Event("records", again)])


if __name__ == "__main__":
    unittest.main()
