//! The bids with the highest price of each window of ten seconds (second part of Nexmark query 7).
//!
//! Takes in the candidates that `nexmark-q7` finds, grouped by the window. Nothing is read before the
//! window is over: prices are folded by the host, and bids only appended.

use howdah_sdk::prelude::*;

/// How long a window is.
const SIZE_MS: i64 = 10_000;

/// A bid, as it is kept and goes out.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
    date_time: Timestamp,
    extra: String,
}

/// A bid, and a window whose highest it may be.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Candidate {
    window_start: Timestamp,
    #[column(flatten)]
    bid: Bid,
}

/// A window.
#[derive(Key, Debug, Clone, PartialEq)]
pub struct Start {
    window_start: Timestamp,
}

/// The highest price of a window.
#[derive(Row, Reduce, Debug, Clone, PartialEq)]
pub struct Highest {
    #[reduce(max)]
    highest: i64,
}

/// The operator.
#[derive(States)]
pub struct HighestBids {
    highest: ReducingState<Start, Highest>,
    bids: ListState<Start, Bid>,
    ends: Timers<Start>,
}

#[operator]
impl HighestBids {
    fn process(
        &mut self,
        candidate: Candidate,
        record: &Record<Start>,
        _: &mut Emitter<Bid>,
    ) -> Result<()> {
        let Candidate { window_start, bid } = candidate;
        let end = window_start.plus_millis(SIZE_MS);
        // A bid at the end may equal the highest, but is not one of those that are compared.
        if bid.date_time < end {
            self.highest.add(record, Highest { highest: bid.price })?;
        }
        self.bids.append(record, bid);
        self.ends.set(record, end);
        Ok(())
    }

    fn on_timer(&mut self, timer: &Timer<Start>, out: &mut Emitter<Bid>) -> Result<()> {
        let highest = self.highest.get(timer)?.map(|price| price.highest);
        let bids = self.bids.get(timer)?;
        bids.iter().filter(|bid| Some(bid.price) == highest).for_each(|bid| out.emit(bid));
        self.highest.clear(timer);
        self.bids.clear(timer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn bid(bidder: i64, price: i64, millis: i64) -> Bid {
        Bid { auction: 1, bidder, price, date_time: at(millis), extra: "x".to_owned() }
    }

    fn candidate(start: i64, bid: Bid) -> Event<Candidate> {
        let time = bid.date_time;
        Event::insert(Candidate { window_start: at(start), bid }).at(time)
    }

    #[test]
    fn the_highest_bids_come_when_none_can_come_at_the_end_of_the_window_any_more() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        let bids = [bid(1, 20, 1), bid(2, 30, 2), bid(3, 30, 9_999)];
        host.process_events(bids.map(|bid| candidate(0, bid)))?;
        assert_eq!(host.advance_watermark(at(9_999))?, []);
        let highest = [bid(2, 30, 2), bid(3, 30, 9_999)];
        let highest = highest.map(|bid| Event::insert(bid).at(at(10_000)));
        assert_eq!(host.advance_watermark(at(10_000))?, highest);
        assert_eq!(host.values::<Bid>("bids")?, []);
        Ok(())
    }

    #[test]
    fn a_bid_at_the_end_counts_if_it_equals_the_highest_inside() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        host.process_events([
            candidate(0, bid(1, 40, 10_000)),
            candidate(0, bid(2, 30, 10_000)),
            candidate(0, bid(3, 30, 5)),
            candidate(20_000, bid(4, 50, 30_000)),
        ])?;
        let highest = host.advance_watermark(Timestamp::MAX)?;
        let bidders: Vec<_> = highest.iter().map(|event| event.row.bidder).collect();
        assert_eq!(bidders, [2, 3], "a window without bids inside has no highest");
        Ok(())
    }

    #[test]
    fn nothing_is_read_before_the_window_is_over() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        host.process_events((0..50).map(|n| candidate(n / 10 * 10_000, bid(n, n, n * 1_000))))?;
        assert_eq!((host.calls("bids")?.gets, host.calls("highest")?.gets), (0, 0));
        Ok(())
    }

    #[test]
    fn a_window_goes_on_over_a_crash() -> Result<()> {
        let mut host = TestHost::<HighestBids>::new()?;
        host.process_events([candidate(0, bid(1, 20, 1))])?;
        host.barrier()?;
        host.process_events([candidate(0, bid(2, 90, 2))])?;
        host.crash();
        host.restore()?;
        host.process_events([candidate(0, bid(3, 20, 2))])?;
        let bidders: Vec<_> =
            host.advance_watermark(at(10_000))?.iter().map(|event| event.row.bidder).collect();
        assert_eq!(bidders, [1, 3]);
        Ok(())
    }
}
