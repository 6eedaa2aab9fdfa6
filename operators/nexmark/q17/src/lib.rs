//! How the bids on each auction went on each day (Nexmark query 17): an aggregate with filters.
//!
//! Grouped by the auction; the days of an auction are entries of a map. Emits a changelog.

use howdah_sdk::prelude::*;

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    price: i64,
    date_time: Timestamp,
}

impl Bid {
    fn day(&self) -> Day {
        Day { day: self.date_time.date() }
    }
}

/// What is bid on.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Auction {
    auction: i64,
}

/// A day of UTC: the map key.
#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day {
    day: Date,
}

/// What the bids of a day come to.
#[derive(Row, Reduce, Debug, Clone, PartialEq)]
pub struct Bids {
    #[reduce(count)]
    total_bids: i64,
    #[reduce(sum)]
    rank1_bids: i64,
    #[reduce(sum)]
    rank2_bids: i64,
    #[reduce(sum)]
    rank3_bids: i64,
    #[reduce(min)]
    min_price: i64,
    #[reduce(max)]
    max_price: i64,
    #[reduce(sum)]
    sum_price: i64,
}

impl Bids {
    /// What a single one comes to.
    fn of(price: i64) -> Self {
        Self {
            total_bids: 1,
            rank1_bids: i64::from(price < 10_000),
            rank2_bids: i64::from((10_000..1_000_000).contains(&price)),
            rank3_bids: i64::from(price >= 1_000_000),
            min_price: price,
            max_price: price,
            sum_price: price,
        }
    }
}

/// An auction on a day.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Statistics {
    auction: i64,
    day: String,
    total_bids: i64,
    rank1_bids: i64,
    rank2_bids: i64,
    rank3_bids: i64,
    min_price: i64,
    max_price: i64,
    avg_price: i64,
    sum_price: i64,
}

impl Statistics {
    fn of(auction: i64, day: &str, bids: &Bids) -> Self {
        let Bids { total_bids, rank1_bids, rank2_bids, rank3_bids, .. } = *bids;
        let Bids { min_price, max_price, sum_price, .. } = *bids;
        // Rounded towards zero.
        let avg_price = sum_price.checked_div(total_bids).unwrap_or_default();
        let day = day.to_owned();
        Self {
            auction,
            day,
            total_bids,
            rank1_bids,
            rank2_bids,
            rank3_bids,
            min_price,
            max_price,
            avg_price,
            sum_price,
        }
    }
}

/// The operator.
#[derive(States)]
pub struct AuctionStatistics {
    days: MapState<Auction, Day, Bids>,
}

#[operator]
impl AuctionStatistics {
    const OUTPUT_CHANGELOG: bool = true;

    fn prepare(&mut self, bid: &Bid, record: &Record<Auction>) -> Result<()> {
        self.days.want(record, bid.day());
        Ok(())
    }

    fn process(
        &mut self,
        bid: Bid,
        record: &Record<Auction>,
        _: &mut Emitter<Statistics>,
    ) -> Result<()> {
        let mut bids = Bids::of(bid.price);
        if let Some(before) = self.days.get(record, &bid.day())? {
            bids.merge(&before)?;
        }
        self.days.put(record, bid.day(), bids);
        Ok(())
    }

    fn finish_batch(&mut self, keys: &Keys<Auction>, out: &mut Emitter<Statistics>) -> Result<()> {
        self.days.each_change(keys, |key, day, before, after| {
            let Auction { auction } = key.key()?;
            let day = day.day.to_string();
            let row = |bids: &Bids| Statistics::of(auction, &day, bids);
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

    const DAY_MS: i64 = 86_400_000;

    fn bid(auction: i64, price: i64, day: i64) -> Bid {
        Bid { auction, price, date_time: Timestamp::from_millis(day * DAY_MS) }
    }

    #[test]
    fn a_bid_counts_by_its_price_and_day() -> Result<()> {
        let mut host = TestHost::<AuctionStatistics>::new()?;
        let prices = [9_999, 10_000, 999_999, 1_000_000];
        let changes = host.process(prices.map(|price| bid(1, price, 19_675)))?;
        let last = Statistics {
            auction: 1,
            day: "2023-11-14".to_owned(),
            total_bids: 4,
            rank1_bids: 1,
            rank2_bids: 2,
            rank3_bids: 1,
            min_price: 9_999,
            max_price: 1_000_000,
            avg_price: 504_999,
            sum_price: 2_019_998,
        };
        assert_eq!(changes, [Event::insert(last)], "once for a batch");
        let kinds: Vec<_> =
            host.process([bid(1, 5, 19_675)])?.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [UpdateBefore, UpdateAfter]);
        Ok(())
    }

    #[test]
    fn auctions_and_days_are_apart() -> Result<()> {
        let mut host = TestHost::<AuctionStatistics>::new()?;
        let changes = host.process([bid(1, 5, 0), bid(2, 5, 0), bid(1, 5, 1)])?;
        assert!(changes.iter().all(|event| event.kind == Insert && event.row.total_bids == 1));
        assert_eq!(host.calls("days")?.gets, 1);
        Ok(())
    }

    #[test]
    fn statistics_come_back_after_a_crash() -> Result<()> {
        let mut host = TestHost::<AuctionStatistics>::new()?;
        host.process([bid(1, 5, 0)])?;
        host.barrier()?;
        host.process([bid(1, 500, 0)])?;
        host.crash();
        host.restore()?;
        let changes = host.process([bid(1, 7, 0)])?;
        let after: Vec<_> = changes.iter().map(|event| event.row.sum_price).collect();
        assert_eq!(after, [5, 12]);
        Ok(())
    }
}
