//! What Nexmark queries 15 and 16 count: bids, bidders and auctions, each of all prices and of three
//! ranks of them.

use howdah_sdk::prelude::*;

/// All prices, and the three ranks of them.
pub const FILTERS: usize = 4;

/// Which of the filters let a price through: the first does, and one of the others.
pub fn filters(price: i64) -> [bool; FILTERS] {
    [true, price < 10_000, (10_000..1_000_000).contains(&price), price >= 1_000_000]
}

/// How many bids, and different bidders and auctions, there were.
#[derive(Row, Debug, Clone, PartialEq, Default)]
#[expect(missing_docs, reason = "they are called like what they count")]
pub struct Counts {
    pub total_bids: i64,
    pub rank1_bids: i64,
    pub rank2_bids: i64,
    pub rank3_bids: i64,
    pub total_bidders: i64,
    pub rank1_bidders: i64,
    pub rank2_bidders: i64,
    pub rank3_bidders: i64,
    pub total_auctions: i64,
    pub rank1_auctions: i64,
    pub rank2_auctions: i64,
    pub rank3_auctions: i64,
}

impl Counts {
    /// Counts a bid that these filters let through, and for which of them its bidder and its auction
    /// are new.
    pub fn add(
        &mut self,
        bid: [bool; FILTERS],
        new_bidder: [bool; FILTERS],
        new_auction: [bool; FILTERS],
    ) {
        let counts = [
            [
                &mut self.total_bids,
                &mut self.rank1_bids,
                &mut self.rank2_bids,
                &mut self.rank3_bids,
            ],
            [
                &mut self.total_bidders,
                &mut self.rank1_bidders,
                &mut self.rank2_bidders,
                &mut self.rank3_bidders,
            ],
            [
                &mut self.total_auctions,
                &mut self.rank1_auctions,
                &mut self.rank2_auctions,
                &mut self.rank3_auctions,
            ],
        ];
        let grows = [bid, new_bidder, new_auction];
        for (count, grows) in counts.into_iter().flatten().zip(grows.into_iter().flatten()) {
            *count += i64::from(grows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_has_one_rank() {
        assert_eq!(filters(9_999), [true, true, false, false]);
        assert_eq!(filters(10_000), [true, false, true, false]);
        assert_eq!(filters(999_999), [true, false, true, false]);
        assert_eq!(filters(1_000_000), [true, false, false, true]);
    }

    #[test]
    fn each_count_grows_by_what_is_new() {
        let mut counts = Counts::default();
        let [yes, no] = [true, false];
        counts.add([yes, no, no, yes], [no, no, no, yes], [yes, no, no, no]);
        let expected = Counts {
            total_bids: 1,
            rank3_bids: 1,
            rank3_bidders: 1,
            total_auctions: 1,
            ..Counts::default()
        };
        assert_eq!(counts, expected);
    }
}
