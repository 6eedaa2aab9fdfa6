//! How many different bidders each auction has.
//!
//! Emits a changelog: the count of an auction changes when somebody bids on it for the first time.

use howdah_sdk::prelude::*;

/// A bid. Its other columns do not matter here.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
}

/// What is counted for.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Auction {
    auction: i64,
}

/// Who bids: the map key of the state.
#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bidder {
    bidder: i64,
}

/// What is known about a bidder of an auction.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Since {
    first_bid: Timestamp,
}

/// The bidders of an auction so far.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Count {
    bidders: i64,
}

/// An auction and the number of its bidders.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bidders {
    auction: i64,
    bidders: i64,
}

/// The operator.
#[derive(States)]
pub struct DistinctBidders {
    seen: MapState<Auction, Bidder, Since>,
    counts: ValueState<Auction, Count>,
}

#[operator]
impl DistinctBidders {
    const OUTPUT_CHANGELOG: bool = true;

    fn prepare(&mut self, bid: &Bid, record: &Record<Auction>) -> Result<()> {
        self.seen.want(record, Bidder { bidder: bid.bidder });
        Ok(())
    }

    fn process(
        &mut self,
        bid: Bid,
        record: &Record<Auction>,
        out: &mut Emitter<Bidders>,
    ) -> Result<()> {
        let Bid { auction, bidder } = bid;
        if self.seen.contains(record, &Bidder { bidder })? {
            return Ok(());
        }
        self.seen.put(record, Bidder { bidder }, Since { first_bid: record.timestamp() });
        let before = self.counts.get(record)?.map(|count| count.bidders);
        let bidders = before.unwrap_or(0) + 1;
        self.counts.put(record, Count { bidders });
        let row = |bidders| Bidders { auction, bidders };
        out.emit_change(before.map(row).as_ref(), Some(&row(bidders)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn bid(auction: i64, bidder: i64) -> Bid {
        Bid { auction, bidder }
    }

    fn bidders(kind: RowKind, auction: i64, bidders: i64) -> Event<Bidders> {
        Event::new(kind, Bidders { auction, bidders })
    }

    #[test]
    fn a_bidder_counts_once_for_each_auction() -> Result<()> {
        use RowKind::{Insert, UpdateAfter, UpdateBefore};
        let mut host = TestHost::<DistinctBidders>::new()?;
        let changes = host.process([bid(1, 7), bid(1, 7), bid(2, 7), bid(1, 8)])?;
        let expected = [
            bidders(Insert, 1, 1),
            bidders(Insert, 2, 1),
            bidders(UpdateBefore, 1, 1),
            bidders(UpdateAfter, 1, 2),
        ];
        assert_eq!(changes, expected);
        assert_eq!(host.process([bid(1, 8), bid(2, 7)])?, []);
        Ok(())
    }

    #[test]
    fn a_batch_looks_all_bidders_up_at_once() -> Result<()> {
        let mut host = TestHost::<DistinctBidders>::new()?;
        host.process((0..100).map(|n| bid(n % 5, n % 20)))?;
        host.process((0..100).map(|n| bid(n % 5, n % 10)))?;
        let (seen, counts) = (host.calls("seen")?, host.calls("counts")?);
        assert_eq!((seen.gets, seen.puts, seen.keys_written), (2, 1, 20));
        assert_eq!((counts.gets, counts.puts), (1, 1), "the second batch has nobody new");
        Ok(())
    }

    #[test]
    fn bidders_are_remembered_over_a_crash() -> Result<()> {
        let mut host = TestHost::<DistinctBidders>::new()?;
        host.process([bid(1, 7)])?;
        host.barrier()?;
        host.process([bid(1, 8)])?;
        host.crash();
        host.restore()?;
        assert_eq!(host.process([bid(1, 7)])?, []);
        assert_eq!(host.process([bid(1, 8)])?.len(), 2);
        let seen = host.map::<Bidder, Since>("seen", &Auction { auction: 1 })?;
        let seen: Vec<_> = seen.into_iter().map(|(bidder, _)| bidder.bidder).collect();
        assert_eq!(seen, [7, 8]);
        Ok(())
    }
}
