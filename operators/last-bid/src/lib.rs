//! The last bid of each bidder on each auction (Nexmark query 18).
//!
//! The bid with the greatest time is the last; of bids at the same time, the one with the
//! greatest event number. Emits a bid whenever it becomes the last one.

use howdah_sdk::prelude::*;

/// A bid: what comes in and, if it is the last, goes out.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
    date_time: Timestamp,
    /// The number of the event in its stream.
    seq: i64,
}

/// Whose last bid, on what.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct BidderAuction {
    bidder: i64,
    auction: i64,
}

/// The last bid of a bidder on an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Last {
    price: i64,
    date_time: Timestamp,
    seq: i64,
}

/// The operator.
#[derive(States)]
pub struct LastBid {
    last: ValueState<BidderAuction, Last>,
}

#[operator]
impl LastBid {
    fn process(
        &mut self,
        bid: Bid,
        record: &Record<BidderAuction>,
        out: &mut Emitter<Bid>,
    ) -> Result<()> {
        let is_last = match self.last.get(record)? {
            None => true,
            Some(last) => (bid.date_time, bid.seq) > (last.date_time, last.seq),
        };
        if is_last {
            let Bid { price, date_time, seq, .. } = bid;
            self.last.put(record, Last { price, date_time, seq });
            out.emit(&bid);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// A bid of bidder 1 on auction 2.
    fn bid(price: i64, millis: i64, seq: i64) -> Bid {
        Bid { auction: 2, bidder: 1, price, date_time: Timestamp::from_millis(millis), seq }
    }

    /// The bids that are emitted if these come in one batch.
    fn emitted(bids: impl IntoIterator<Item = Bid>) -> Result<Vec<Bid>> {
        let events = TestHost::<LastBid>::new()?.process(bids)?;
        Ok(events.into_iter().map(|event| event.row).collect())
    }

    #[test]
    fn the_first_bid_is_the_last() -> Result<()> {
        assert_eq!(emitted([bid(100, 10, 1)])?, [bid(100, 10, 1)]);
        Ok(())
    }

    #[test]
    fn a_later_bid_replaces_the_last_whatever_its_price() -> Result<()> {
        let bids = || [bid(100, 10, 1), bid(50, 11, 2)];
        assert_eq!(emitted(bids())?, bids());
        Ok(())
    }

    #[test]
    fn a_bid_that_comes_late_changes_nothing() -> Result<()> {
        assert_eq!(emitted([bid(100, 10, 2), bid(200, 9, 3)])?, [bid(100, 10, 2)]);
        Ok(())
    }

    #[test]
    fn the_greater_event_number_wins_a_tie() -> Result<()> {
        let bids = [bid(100, 10, 5), bid(200, 10, 4), bid(300, 10, 6)];
        assert_eq!(emitted(bids)?, [bid(100, 10, 5), bid(300, 10, 6)]);
        Ok(())
    }

    #[test]
    fn bidders_and_auctions_are_apart() -> Result<()> {
        let bids = || {
            let first = bid(100, 10, 3);
            [
                Bid { bidder: 7, date_time: Timestamp::from_millis(9), ..first.clone() },
                Bid { auction: 7, seq: 1, ..first.clone() },
                first,
            ]
        };
        assert_eq!(emitted(bids())?, bids());
        Ok(())
    }

    #[test]
    fn a_batch_looks_up_and_writes_once() -> Result<()> {
        let mut host = TestHost::<LastBid>::new()?;
        host.process((0..50).map(|n| Bid { auction: n % 10, ..bid(n, n, n) }))?;
        let calls = host.calls("last")?;
        assert_eq!((calls.gets, calls.puts, calls.keys_written), (1, 1, 10));
        Ok(())
    }

    #[test]
    fn bids_that_change_nothing_write_nothing() -> Result<()> {
        let mut host = TestHost::<LastBid>::new()?;
        host.process([bid(100, 10, 1)])?;
        host.process([bid(200, 9, 0)])?;
        assert_eq!(host.calls("last")?.puts, 1);
        Ok(())
    }

    fn bids() -> impl Strategy<Value = Vec<Bid>> {
        vec((0..3_i64, 0..3_i64, any::<i64>(), 0..5_i64), 0..60).prop_map(|bids| {
            (0..)
                .zip(bids)
                .map(|(seq, (auction, bidder, price, millis))| Bid {
                    auction,
                    bidder,
                    ..bid(price, millis, seq)
                })
                .collect()
        })
    }

    proptest! {
        /// However the bids are cut into batches, the state ends as the greatest bid by time
        /// and number of each key, and is what was emitted last.
        #[test]
        fn the_state_is_the_greatest_bid(bids in bids(), batch_rows in 1..20_usize) {
            let mut host = TestHost::<LastBid>::new().unwrap();
            let mut emitted = HashMap::new();
            for batch in bids.chunks(batch_rows) {
                for Event { row, .. } in host.process(batch.iter().cloned()).unwrap() {
                    emitted.insert((row.bidder, row.auction), row);
                }
            }
            let mut greatest = HashMap::new();
            for bid in &bids {
                let last = greatest.entry((bid.bidder, bid.auction)).or_insert_with(|| bid.clone());
                if (bid.date_time, bid.seq) > (last.date_time, last.seq) {
                    *last = bid.clone();
                }
            }
            prop_assert_eq!(&emitted, &greatest);
            let state: HashMap<_, _> = host
                .values::<Last>("last")
                .unwrap()
                .into_iter()
                .map(|(BidderAuction { bidder, auction }, last)| {
                    let Last { price, date_time, seq } = last;
                    ((bidder, auction), Bid { auction, bidder, price, date_time, seq })
                })
                .collect();
            prop_assert_eq!(state, greatest);
        }
    }
}
