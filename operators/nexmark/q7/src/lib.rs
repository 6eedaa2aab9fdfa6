//! Bids that may be the highest of a window of ten seconds (first part of Nexmark query 7): what goes
//! over to `nexmark-q7-highest` is a fraction of the bids, and the window they are grouped by.
//!
//! A bid goes on if its price is not below one that went on before. Which prices those were is no
//! state: after a failure a few bids more go on, which the second part drops.
//!
//! The query joins windows and bids with `BETWEEN`, so a bid at the very end of a window belongs to
//! it, too, if its price is the highest of those inside.

use std::collections::BTreeMap;

use howdah_sdk::columns::column;
use howdah_sdk::prelude::*;

/// How long a window is.
const SIZE_MS: i64 = 10_000;

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
    date_time: Timestamp,
    extra: String,
}

/// What rows are spread over subtasks by.
#[derive(Key, Debug)]
pub struct Auction {
    auction: i64,
}

/// A bid, and a window whose highest it may be.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Candidate {
    window_start: Timestamp,
    #[column(flatten)]
    bid: Bid,
}

/// The operator.
#[derive(States)]
pub struct Candidates {
    /// The highest price that this instance knows of each window, by its start.
    #[state(skip)]
    highest: BTreeMap<Timestamp, i64>,
}

#[operator]
impl Candidates {
    fn process_batch(
        &mut self,
        batch: &Batch<Bid, Auction>,
        out: &mut Emitter<Candidate>,
    ) -> Result<()> {
        let prices = batch.column::<i64>("price")?.iter();
        let times = batch.column::<Timestamp>("date_time")?.iter();
        let (mut rows, mut starts) = (Vec::new(), Vec::new());
        for (row, (price, time)) in (0..).zip(prices.zip(times)) {
            let start = time.plus_millis(-time.millis().rem_euclid(SIZE_MS));
            let before = start.plus_millis(-SIZE_MS);
            let ends_window = time == start && self.is_candidate(before, price);
            // A bid that is late for its window is in none.
            if start.plus_millis(SIZE_MS - 1) > batch.watermark() && self.raise(start, price) {
                rows.push(row);
                starts.push(start);
            }
            if ends_window && time > batch.watermark() {
                rows.push(row);
                starts.push(before);
            }
        }
        // Windows that are over, and their ends.
        let oldest = batch.watermark().plus_millis(-SIZE_MS);
        self.highest = self.highest.split_off(&oldest);
        let mut columns = vec![column(starts)];
        columns
            .extend(batch.copy_rows(&["auction", "bidder", "price", "date_time", "extra"], &rows)?);
        out.emit_columns_of_rows(batch, &rows, columns)
    }

    /// Whether nothing higher is known in the window.
    fn is_candidate(&self, start: Timestamp, price: i64) -> bool {
        self.highest.get(&start).is_none_or(|highest| price >= *highest)
    }

    /// Takes the price in, and says whether nothing higher is known.
    fn raise(&mut self, start: Timestamp, price: i64) -> bool {
        let is_candidate = self.is_candidate(start, price);
        if is_candidate {
            self.highest.insert(start, price);
        }
        is_candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn bid(price: i64, millis: i64) -> Event<Bid> {
        let extra = "x".to_owned();
        let bid = Bid { auction: 1, bidder: 2, price, date_time: at(millis), extra };
        Event::insert(bid).at(at(millis))
    }

    /// The windows and prices that go on.
    fn candidates(events: &[Event<Candidate>]) -> Vec<(i64, i64)> {
        events.iter().map(|event| (event.row.window_start.millis(), event.row.bid.price)).collect()
    }

    #[test]
    fn bids_go_on_that_are_not_below_one_before() -> Result<()> {
        let mut host = TestHost::<Candidates>::new()?;
        let bids = [bid(20, 1), bid(10, 2), bid(20, 3), bid(30, 4), bid(10, 10_001)];
        let candidates_of_batch = host.process_events(bids)?;
        assert_eq!(candidates(&candidates_of_batch), [(0, 20), (0, 20), (0, 30), (10_000, 10)]);
        assert_eq!(host.process_events([bid(29, 5)])?, []);
        Ok(())
    }

    #[test]
    fn a_bid_at_the_end_of_a_window_goes_on_to_both() -> Result<()> {
        let mut host = TestHost::<Candidates>::new()?;
        host.process_events([bid(20, 1)])?;
        let both = host.process_events([bid(20, 10_000)])?;
        assert_eq!(candidates(&both), [(10_000, 20), (0, 20)]);
        let one = host.process_events([bid(30, 1_000), bid(20, 10_000)])?;
        assert_eq!(candidates(&one), [(0, 30), (10_000, 20)]);
        Ok(())
    }

    #[test]
    fn a_late_bid_is_left_out() -> Result<()> {
        let mut host = TestHost::<Candidates>::new()?;
        host.advance_watermark(at(9_999))?;
        assert_eq!(host.process_events([bid(20, 9_999)])?, []);
        assert_eq!(host.process_events([bid(20, 10_000)])?.len(), 2);
        Ok(())
    }

    #[test]
    fn after_a_crash_more_bids_go_on() -> Result<()> {
        let mut host = TestHost::<Candidates>::new()?;
        host.process_events([bid(20, 1)])?;
        host.barrier()?;
        host.crash();
        host.restore()?;
        assert_eq!(candidates(&host.process_events([bid(10, 2), bid(5, 3)])?), [(0, 10)]);
        Ok(())
    }
}
