//! Count, lowest, highest and sum of the prices bid on each auction.
//!
//! Emits the new figures of an auction with every bid on it.

use howdah_sdk::prelude::*;

/// A bid. Its other columns do not matter here.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    price: i64,
}

/// What the figures are about.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Auction {
    auction: i64,
}

/// The figures of an auction so far.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Totals {
    bids: i64,
    min_price: i64,
    max_price: i64,
    sum_price: i64,
}

/// An auction and its figures.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Stats {
    auction: i64,
    bids: i64,
    min_price: i64,
    max_price: i64,
    sum_price: i64,
}

/// The operator.
#[derive(States)]
pub struct AuctionStats {
    #[state(name = "stats")]
    totals: ValueState<Auction, Totals>,
}

impl Totals {
    /// The figures of an auction with this one bid.
    fn of(price: i64) -> Self {
        Self { bids: 1, min_price: price, max_price: price, sum_price: price }
    }

    /// The figures with one bid more; `None` if a sum does not fit its column.
    fn with(&self, price: i64) -> Option<Self> {
        Some(Self {
            bids: self.bids.checked_add(1)?,
            min_price: self.min_price.min(price),
            max_price: self.max_price.max(price),
            sum_price: self.sum_price.checked_add(price)?,
        })
    }
}

#[operator]
impl AuctionStats {
    fn process(
        &mut self,
        bid: Bid,
        record: &Record<Auction>,
        out: &mut Emitter<Stats>,
    ) -> Result<()> {
        let Bid { auction, price } = bid;
        let totals = match self.totals.get(record)? {
            None => Totals::of(price),
            Some(totals) => totals.with(price).ok_or_else(|| {
                Error::new(format!(
                    "the prices bid on auction {auction} add up to more than an int64"
                ))
            })?,
        };
        let Totals { bids, min_price, max_price, sum_price } = totals;
        out.emit(&Stats { auction, bids, min_price, max_price, sum_price });
        self.totals.put(record, totals);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::TestHost;

    fn bid(auction: i64, price: i64) -> Bid {
        Bid { auction, price }
    }

    fn stats(auction: i64, bids: i64, prices: [i64; 3]) -> Stats {
        let [min_price, max_price, sum_price] = prices;
        Stats { auction, bids, min_price, max_price, sum_price }
    }

    fn process(host: &mut TestHost<AuctionStats>, bids: &[Bid]) -> Result<Vec<Stats>> {
        let events = host.process(bids.iter().cloned())?;
        Ok(events.into_iter().map(|event| event.row).collect())
    }

    #[test]
    fn each_bid_emits_the_new_figures_of_its_auction() -> Result<()> {
        let mut host = TestHost::new()?;
        let out = process(&mut host, &[bid(1, 50), bid(2, 7), bid(1, 20), bid(1, 90)])?;
        let expected = [
            stats(1, 1, [50, 50, 50]),
            stats(2, 1, [7, 7, 7]),
            stats(1, 2, [20, 50, 70]),
            stats(1, 3, [20, 90, 160]),
        ];
        assert_eq!(out, expected);
        Ok(())
    }

    #[test]
    fn figures_go_on_over_batches_and_crashes() -> Result<()> {
        let mut host = TestHost::new()?;
        process(&mut host, &[bid(1, 50)])?;
        host.barrier()?;
        process(&mut host, &[bid(1, 1_000)])?;
        host.crash();
        host.restore()?;
        assert_eq!(process(&mut host, &[bid(1, -3)])?, [stats(1, 2, [-3, 50, 47])]);
        Ok(())
    }

    #[test]
    fn a_batch_looks_up_and_writes_once() -> Result<()> {
        let mut host = TestHost::new()?;
        let bids: Vec<_> = (0..30).map(|n| bid(n % 3, n)).collect();
        process(&mut host, &bids)?;
        let calls = host.calls("stats")?;
        assert_eq!((calls.gets, calls.puts, calls.keys_written), (1, 1, 3));
        Ok(())
    }

    #[test]
    fn a_sum_that_does_not_fit_fails_the_batch_and_names_the_auction() -> Result<()> {
        let mut host = TestHost::new()?;
        process(&mut host, &[bid(4, i64::MAX)])?;
        host.barrier()?;
        let error = process(&mut host, &[bid(4, 1)]).unwrap_err();
        assert!(error.message().contains("auction 4"), "{error}");
        let auction = Auction { auction: 4 };
        let totals = host.value::<Totals>("stats", &auction)?.map(|totals| totals.sum_price);
        assert_eq!(totals, Some(i64::MAX));
        Ok(())
    }
}
