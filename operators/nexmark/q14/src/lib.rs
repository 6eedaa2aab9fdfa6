//! Bids of some prices, with their time of day and a count of letters (Nexmark query 14).
//!
//! Works on whole columns: texts are read where they lie, and only those of wanted bids are copied.

use howdah_sdk::columns::{column, texts};
use howdah_sdk::prelude::*;

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

/// What is computed of a bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Calculated {
    auction: i64,
    bidder: i64,
    price: Decimal<23, 3>,
    bid_time_type: String,
    date_time: Timestamp,
    extra: String,
    c_counts: i64,
}

/// The operator.
#[derive(States)]
pub struct Calculation;

#[operator]
impl Calculation {
    fn process_batch(
        &mut self,
        batch: &Batch<Bid, Auction>,
        out: &mut Emitter<Calculated>,
    ) -> Result<()> {
        let times = batch.column::<Timestamp>("date_time")?;
        let extras = batch.column::<String>("extra")?;
        let (mut rows, mut prices, mut types, mut counts) = (vec![], vec![], vec![], vec![]);
        for (row, dollars) in (0_u32..).zip(batch.column::<i64>("price")?.iter()) {
            if let Some(price) = wanted(dollars) {
                let letters = extras.bytes(row as usize)?;
                rows.push(row);
                prices.push(price);
                types.push(Some(time_type(times.get(row as usize)?)));
                counts.push(letters.iter().fold(0, |count, c| count + i64::from(*c == b'c')));
            }
        }
        let mut columns = batch.copy_rows(&["auction", "bidder"], &rows)?;
        columns.extend([column(prices), texts(types)]);
        columns.extend(batch.copy_rows(&["date_time", "extra"], &rows)?);
        columns.push(column(counts));
        out.emit_columns_of_rows(batch, &rows, columns)
    }
}

/// 0.908 of the price, if that is between a million and fifty.
fn wanted(price: i64) -> Option<Decimal<23, 3>> {
    let thousandths = i128::from(price) * 908;
    let is_wanted = 1_000_000_000 < thousandths && thousandths < 50_000_000_000;
    if is_wanted { Decimal::from_unscaled(thousandths) } else { None }
}

fn time_type(time: Timestamp) -> &'static str {
    match time.time_of_day().hour() {
        8..=18 => "dayTime",
        ..=6 | 20.. => "nightTime",
        _ => "otherTime",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_millis(1_699_920_000_000 + hour * 3_600_000)
    }

    fn bid(price: i64, hour: i64, extra: &str) -> Event<Bid> {
        let bid =
            Bid { auction: 1, bidder: 2, price, date_time: at(hour), extra: extra.to_owned() };
        Event::insert(bid).at(at(hour))
    }

    #[test]
    fn wanted_bids_get_what_is_computed() -> Result<()> {
        let mut host = TestHost::<Calculation>::new()?;
        let bids = [bid(1_000_000, 9, "ccc"), bid(2_000_000, 9, "chic"), bid(60_000_000, 9, "")];
        let row = Calculated {
            auction: 1,
            bidder: 2,
            price: Decimal::from_unscaled(1_816_000_000).expect("a few digits"),
            bid_time_type: "dayTime".to_owned(),
            date_time: at(9),
            extra: "chic".to_owned(),
            c_counts: 2,
        };
        assert_eq!(host.process_events(bids)?, [Event::insert(row).at(at(9))]);
        assert_eq!(host.process_events([bid(1, 9, "c")])?, [], "of none there is no batch");
        Ok(())
    }

    #[test]
    fn the_bounds_of_the_price_are_left_out() {
        assert_eq!(wanted(1_101_321), None);
        assert!(wanted(1_101_322).is_some());
        assert!(wanted(55_066_079).is_some());
        assert_eq!(wanted(55_066_080), None);
        assert_eq!(wanted(i64::MAX), None);
    }

    #[test]
    fn the_day_has_three_types_of_time() {
        let hours = |wanted| (0..24).filter(move |hour| time_type(at(*hour)) == wanted);
        assert!(hours("dayTime").eq(8..=18));
        assert!(hours("nightTime").eq((0..=6).chain(20..24)));
        assert!(hours("otherTime").eq([7, 19]));
    }
}
