//! How many bids, bidders and auctions there were on each day (second part of Nexmark query 15):
//! distinct counts with filters.
//!
//! Takes in what `nexmark-q15-day` emits. Emits a changelog.

use howdah_sdk::distinct::Distinct;
use howdah_sdk::prelude::*;
use nexmark_counts::{Counts, FILTERS, filters};

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct DayBid {
    day: Date,
    auction: i64,
    bidder: i64,
    price: i64,
}

/// What is counted for.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Day {
    day: Date,
}

/// Who bids.
#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bidder {
    bidder: i64,
}

/// What is bid on.
#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Auction {
    auction: i64,
}

/// The counts of a day.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct DayCounts {
    day: String,
    #[column(flatten)]
    counts: Counts,
}

/// The operator.
#[derive(States)]
pub struct CountsOfDays {
    counts: ValueState<Day, Counts>,
    bidders: Distinct<Day, Bidder, FILTERS>,
    auctions: Distinct<Day, Auction, FILTERS>,
}

#[operator]
impl CountsOfDays {
    const OUTPUT_CHANGELOG: bool = true;

    fn prepare(&mut self, bid: &DayBid, record: &Record<Day>) -> Result<()> {
        self.bidders.want(record, Bidder { bidder: bid.bidder });
        self.auctions.want(record, Auction { auction: bid.auction });
        Ok(())
    }

    fn process(
        &mut self,
        bid: DayBid,
        record: &Record<Day>,
        _: &mut Emitter<DayCounts>,
    ) -> Result<()> {
        let DayBid { auction, bidder, price, .. } = bid;
        let passes = filters(price);
        let new_bidder = self.bidders.add(record, Bidder { bidder }, passes)?;
        let new_auction = self.auctions.add(record, Auction { auction }, passes)?;
        let mut counts = self.counts.get(record)?.unwrap_or_default();
        counts.add(passes, new_bidder, new_auction);
        self.counts.put(record, counts);
        Ok(())
    }

    fn finish_batch(&mut self, keys: &Keys<Day>, out: &mut Emitter<DayCounts>) -> Result<()> {
        self.counts.each_change(keys, |key, before, after| {
            let day = key.key()?.day.to_string();
            let row = |counts: &Counts| DayCounts { day: day.clone(), counts: counts.clone() };
            out.emit_change(before.map(row).as_ref(), after.map(row).as_ref());
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RowKind::{Insert, UpdateAfter, UpdateBefore};
    use howdah_sdk::testing::{Event, TestHost};

    fn bid(day: i32, auction: i64, bidder: i64, price: i64) -> DayBid {
        DayBid { day: Date::from_days(day), auction, bidder, price }
    }

    /// The counts of bids, bidders and auctions of all prices.
    fn totals(events: &[Event<DayCounts>]) -> Vec<(RowKind, &str, [i64; 3])> {
        let totals =
            |counts: &Counts| [counts.total_bids, counts.total_bidders, counts.total_auctions];
        events.iter().map(|e| (e.kind, e.row.day.as_str(), totals(&e.row.counts))).collect()
    }

    #[test]
    fn a_bidder_counts_once_a_day_and_once_for_each_rank_of_prices() -> Result<()> {
        let mut host = TestHost::<CountsOfDays>::new()?;
        let first = host.process([bid(0, 1, 7, 5), bid(0, 2, 7, 6)])?;
        assert_eq!(totals(&first), [(Insert, "1970-01-01", [2, 1, 2])]);
        let changes = host.process([bid(0, 1, 7, 20_000), bid(1, 1, 7, 5)])?;
        let expected = [
            (UpdateBefore, "1970-01-01", [2, 1, 2]),
            (UpdateAfter, "1970-01-01", [3, 1, 2]),
            (Insert, "1970-01-02", [1, 1, 1]),
        ];
        assert_eq!(totals(&changes), expected);
        let Counts { rank1_bidders, rank2_bidders, rank1_auctions, rank2_auctions, .. } =
            changes[1].row.counts;
        assert_eq!((rank1_bidders, rank2_bidders), (1, 1));
        assert_eq!((rank1_auctions, rank2_auctions), (2, 1));
        Ok(())
    }

    #[test]
    fn a_batch_looks_each_state_up_once() -> Result<()> {
        let mut host = TestHost::<CountsOfDays>::new()?;
        host.process((0..100).map(|n| bid(0, n % 7, n % 10, n)))?;
        for state in ["counts", "bidders", "auctions"] {
            let calls = host.calls(state)?;
            assert_eq!((calls.gets, calls.puts), (1, 1), "{state}");
        }
        Ok(())
    }

    #[test]
    fn who_bid_before_a_crash_is_not_counted_again() -> Result<()> {
        let mut host = TestHost::<CountsOfDays>::new()?;
        host.process([bid(0, 1, 7, 5)])?;
        host.barrier()?;
        host.process([bid(0, 2, 8, 5)])?;
        host.crash();
        host.restore()?;
        let changes = host.process([bid(0, 2, 7, 5)])?;
        let expected =
            [(UpdateBefore, "1970-01-01", [1, 1, 1]), (UpdateAfter, "1970-01-01", [2, 1, 2])];
        assert_eq!(totals(&changes), expected);
        Ok(())
    }
}
