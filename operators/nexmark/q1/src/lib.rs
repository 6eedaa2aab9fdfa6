//! The price of each bid in euros (Nexmark query 1).
//!
//! Works on whole columns: all but the price go out as they came.

use howdah_sdk::columns::column;
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

/// A number of euros.
type Euros = Decimal<23, 3>;

/// A bid in euros.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct EuroBid {
    auction: i64,
    bidder: i64,
    price: Euros,
    date_time: Timestamp,
    extra: String,
}

/// The operator.
#[derive(States)]
pub struct Conversion;

#[operator]
impl Conversion {
    fn process_batch(
        &mut self,
        batch: &Batch<Bid, Auction>,
        out: &mut Emitter<EuroBid>,
    ) -> Result<()> {
        let prices =
            batch.column::<i64>("price")?.iter().map(in_euros).collect::<Result<Vec<_>>>()?;
        let mut columns = batch.copy(&["auction", "bidder"])?;
        columns.push(column(prices));
        columns.extend(batch.copy(&["date_time", "extra"])?);
        out.emit_columns_of(batch, columns)
    }
}

/// A dollar is 0.908 euros.
fn in_euros(dollars: i64) -> Result<Euros> {
    Decimal::from_unscaled(i128::from(dollars) * 908)
        .ok_or_else(|| Error::new(format!("a price of {dollars} has too many digits in euros")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::{Event, TestHost};

    #[test]
    fn a_price_is_converted_to_the_last_digit() -> Result<()> {
        let mut host = TestHost::<Conversion>::new()?;
        let date_time = Timestamp::from_millis(7);
        let extra = || "x".to_owned();
        let bid = |price| Bid { auction: 1, bidder: 2, price, date_time, extra: extra() };
        let euros = host.process([bid(0), bid(1), bid(12_345)])?;
        let in_euros = |thousandths| {
            let price = Euros::from_unscaled(thousandths).expect("a few digits");
            Event::insert(EuroBid { auction: 1, bidder: 2, price, date_time, extra: extra() })
        };
        assert_eq!(euros, [in_euros(0), in_euros(908), in_euros(11_209_260)]);
        assert_eq!(euros[2].row.price.to_string(), "11209.260");
        Ok(())
    }

    #[test]
    fn every_price_fits() {
        assert!(in_euros(i64::MAX).is_ok());
        assert!(in_euros(i64::MIN).is_ok());
    }
}
