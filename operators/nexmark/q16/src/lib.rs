//! How many bids, bidders and auctions each channel had on each day (Nexmark query 16): distinct counts
//! with filters.
//!
//! Grouped by the channel; its days are entries of maps. Emits a changelog.

use howdah_sdk::distinct::Distinct;
use howdah_sdk::prelude::*;
use nexmark_counts::{Counts, FILTERS, filters};

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    channel: String,
    auction: i64,
    bidder: i64,
    price: i64,
    date_time: Timestamp,
}

impl Bid {
    fn day(&self) -> Day {
        Day { day: self.date_time.date() }
    }

    fn day_bidder(&self) -> DayBidder {
        DayBidder { day: self.date_time.date(), bidder: self.bidder }
    }

    fn day_auction(&self) -> DayAuction {
        DayAuction { day: self.date_time.date(), auction: self.auction }
    }
}

/// Where bids come from.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Channel {
    channel: String,
}

/// A day of UTC.
#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day {
    day: Date,
}

/// Who bids on a day.
#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DayBidder {
    day: Date,
    bidder: i64,
}

/// What is bid on on a day.
#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DayAuction {
    day: Date,
    auction: i64,
}

/// What is kept of a day.
#[derive(Row, Debug, Clone, PartialEq, Default)]
pub struct Total {
    /// The time of the last bid.
    last: Timestamp,
    #[column(flatten)]
    counts: Counts,
}

/// The counts of a channel and day.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct ChannelCounts {
    channel: String,
    day: String,
    minute: String,
    #[column(flatten)]
    counts: Counts,
}

/// The operator.
#[derive(States)]
pub struct CountsOfChannels {
    totals: MapState<Channel, Day, Total>,
    bidders: Distinct<Channel, DayBidder, FILTERS>,
    auctions: Distinct<Channel, DayAuction, FILTERS>,
}

#[operator]
impl CountsOfChannels {
    const OUTPUT_CHANGELOG: bool = true;

    fn prepare(&mut self, bid: &Bid, record: &Record<Channel>) -> Result<()> {
        self.totals.want(record, bid.day());
        self.bidders.want(record, bid.day_bidder());
        self.auctions.want(record, bid.day_auction());
        Ok(())
    }

    fn process(
        &mut self,
        bid: Bid,
        record: &Record<Channel>,
        _: &mut Emitter<ChannelCounts>,
    ) -> Result<()> {
        let passes = filters(bid.price);
        let new_bidder = self.bidders.add(record, bid.day_bidder(), passes)?;
        let new_auction = self.auctions.add(record, bid.day_auction(), passes)?;
        let mut total = self.totals.get(record, &bid.day())?.unwrap_or_default();
        total.last = total.last.max(bid.date_time);
        total.counts.add(passes, new_bidder, new_auction);
        self.totals.put(record, bid.day(), total);
        Ok(())
    }

    fn finish_batch(
        &mut self,
        keys: &Keys<Channel>,
        out: &mut Emitter<ChannelCounts>,
    ) -> Result<()> {
        self.totals.each_change(keys, |key, day, before, after| {
            let Channel { channel } = key.key()?;
            let row = |total: &Total| ChannelCounts {
                channel: channel.clone(),
                day: day.day.to_string(),
                minute: format!("{:.5}", total.last.time_of_day()),
                counts: total.counts.clone(),
            };
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

    const MINUTE_MS: i64 = 60_000;
    const DAY_MINUTES: i64 = 24 * 60;

    fn bid(channel: &str, auction: i64, bidder: i64, minutes: i64) -> Bid {
        let date_time = Timestamp::from_millis(minutes * MINUTE_MS);
        Bid { channel: channel.to_owned(), auction, bidder, price: 5, date_time }
    }

    /// Channel, day and minute, and the counts of bids, bidders and auctions of all prices.
    fn totals(events: &[Event<ChannelCounts>]) -> Vec<(RowKind, String, [i64; 3])> {
        let totals = |event: &Event<ChannelCounts>| {
            let ChannelCounts { channel, day, minute, counts } = &event.row;
            let totals = [counts.total_bids, counts.total_bidders, counts.total_auctions];
            (event.kind, format!("{channel} {day} {minute}"), totals)
        };
        events.iter().map(totals).collect()
    }

    #[test]
    fn channels_and_days_count_for_themselves() -> Result<()> {
        let mut host = TestHost::<CountsOfChannels>::new()?;
        let changes = host.process([
            bid("Apple", 1, 7, 61),
            bid("Baidu", 1, 7, 61),
            bid("Apple", 2, 7, 60),
            bid("Apple", 2, 7, DAY_MINUTES),
        ])?;
        let row = |kind, text: &str, totals| (kind, text.to_owned(), totals);
        let expected = [
            row(Insert, "Apple 1970-01-01 01:01", [2, 1, 2]),
            row(Insert, "Apple 1970-01-02 00:00", [1, 1, 1]),
            row(Insert, "Baidu 1970-01-01 01:01", [1, 1, 1]),
        ];
        assert_eq!(totals(&changes), expected);
        Ok(())
    }

    #[test]
    fn a_batch_looks_each_state_up_once() -> Result<()> {
        let mut host = TestHost::<CountsOfChannels>::new()?;
        let channel = |n: i64| if n % 2 == 0 { "Apple" } else { "Baidu" };
        host.process((0..100).map(|n| bid(channel(n), n % 7, n % 10, n)))?;
        for state in ["totals", "bidders", "auctions"] {
            let calls = host.calls(state)?;
            assert_eq!((calls.gets, calls.puts), (1, 1), "{state}");
        }
        Ok(())
    }

    #[test]
    fn counts_come_back_after_a_crash() -> Result<()> {
        let mut host = TestHost::<CountsOfChannels>::new()?;
        host.process([bid("Apple", 1, 7, 5)])?;
        host.barrier()?;
        host.process([bid("Apple", 2, 8, 6)])?;
        host.crash();
        host.restore()?;
        let changes = host.process([bid("Apple", 2, 7, 7)])?;
        let expected = [
            (UpdateBefore, "Apple 1970-01-01 00:05".to_owned(), [1, 1, 1]),
            (UpdateAfter, "Apple 1970-01-01 00:07".to_owned(), [2, 1, 2]),
        ];
        assert_eq!(totals(&changes), expected);
        Ok(())
    }
}
