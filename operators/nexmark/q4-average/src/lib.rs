//! The average of the highest bids of each category (second part of Nexmark query 4): an aggregate of
//! a changelog.
//!
//! Takes in what `nexmark-q4` emits: a price that is outbid is taken back.

use howdah_sdk::prelude::*;

/// The highest bid of an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct HighestBid {
    category: i64,
    price: i64,
}

/// What the average is of.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Category {
    category: i64,
}

/// What the prices of a category come to.
#[derive(Row, Debug, Clone, PartialEq, Default)]
pub struct Prices {
    sum: i64,
    count: i64,
}

impl Prices {
    /// With a price more, or one less.
    fn with(&self, price: i64, adds: bool) -> Result<Self> {
        let (sum, count) = match adds {
            true => (self.sum.checked_add(price), self.count + 1),
            false => (self.sum.checked_sub(price), self.count - 1),
        };
        let sum = sum.ok_or_else(|| Error::new("the sum of the prices does not fit an int64"))?;
        Ok(Self { sum, count })
    }

    /// Their average, rounded towards zero; none of none.
    fn average(&self) -> Option<i64> {
        self.sum.checked_div(self.count)
    }
}

/// The average of a category.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Average {
    category: i64,
    average: i64,
}

/// The operator.
#[derive(States)]
pub struct Averages {
    prices: ValueState<Category, Prices>,
}

#[operator]
impl Averages {
    const INPUT_CHANGELOG: bool = true;
    const OUTPUT_CHANGELOG: bool = true;

    fn process(
        &mut self,
        bid: HighestBid,
        record: &Record<Category>,
        _: &mut Emitter<Average>,
    ) -> Result<()> {
        let prices = self.prices.get(record)?.unwrap_or_default();
        self.prices.put(record, prices.with(bid.price, record.kind().adds())?);
        Ok(())
    }

    fn finish_batch(&mut self, keys: &Keys<Category>, out: &mut Emitter<Average>) -> Result<()> {
        self.prices.each_change(keys, |key, before, after| {
            let Category { category } = key.key()?;
            let row =
                |prices: Option<&Prices>| Some(Average { category, average: prices?.average()? });
            out.emit_change(row(before).as_ref(), row(after).as_ref());
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
    use howdah_sdk::testing::{Event, TestHost};

    fn bid(kind: RowKind, price: i64) -> Event<HighestBid> {
        Event::new(kind, HighestBid { category: 10, price })
    }

    fn average(kind: RowKind, average: i64) -> Event<Average> {
        Event::new(kind, Average { category: 10, average })
    }

    #[test]
    fn a_price_that_is_outbid_no_longer_counts() -> Result<()> {
        let mut host = TestHost::<Averages>::new()?;
        let changes = host.process_events([bid(Insert, 10), bid(Insert, 21)])?;
        assert_eq!(changes, [average(Insert, 15)], "31 / 2 is 15");
        let changes = host.process_events([bid(UpdateBefore, 21), bid(UpdateAfter, 40)])?;
        assert_eq!(changes, [average(UpdateBefore, 15), average(UpdateAfter, 25)]);
        Ok(())
    }

    #[test]
    fn an_average_of_nothing_is_gone() -> Result<()> {
        let mut host = TestHost::<Averages>::new()?;
        host.process_events([bid(Insert, 10)])?;
        assert_eq!(host.process_events([bid(UpdateBefore, 10)])?, [average(Delete, 10)]);
        assert_eq!(host.process_events([bid(UpdateAfter, 12)])?, [average(Insert, 12)]);
        Ok(())
    }

    #[test]
    fn sums_come_back_after_a_crash() -> Result<()> {
        let mut host = TestHost::<Averages>::new()?;
        host.process_events([bid(Insert, 10)])?;
        host.barrier()?;
        host.process_events([bid(Insert, 1_000)])?;
        host.crash();
        host.restore()?;
        let changes = host.process_events([bid(Insert, 20)])?;
        assert_eq!(changes, [average(UpdateBefore, 10), average(UpdateAfter, 15)]);
        Ok(())
    }

    #[test]
    fn a_sum_that_does_not_fit_is_an_error() -> Result<()> {
        let mut host = TestHost::<Averages>::new()?;
        let error = host.process_events([bid(Insert, i64::MAX), bid(Insert, 1)]).unwrap_err();
        assert!(error.message().contains("does not fit"), "{error}");
        Ok(())
    }
}
