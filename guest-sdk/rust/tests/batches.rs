//! Operators that work on whole columns.

use howdah_sdk::columns::column;
use howdah_sdk::prelude::*;
use howdah_sdk::testing::{Event, TestHost};

#[derive(Row, Clone, Debug, PartialEq)]
struct Bid {
    auction: i64,
    bidder: String,
    price: i64,
}

#[derive(Key, Clone, Debug, PartialEq)]
struct Auction {
    auction: i64,
}

#[derive(Row, Clone, Debug, PartialEq)]
struct Spent {
    total: i64,
}

#[derive(Row, Reduce, Clone, Debug, PartialEq)]
struct Prices {
    #[reduce(count)]
    bids: i64,
    #[reduce(max)]
    highest: i64,
}

/// Sums prices in columns, passes batches on as they are, and reads no row by itself.
#[derive(States)]
struct Columnar {
    spent: ValueState<Auction, Spent>,
    prices: ReducingState<Auction, Prices>,
}

#[operator]
impl Columnar {
    fn process_batch(&mut self, batch: &Batch<Bid, Auction>, out: &mut Emitter<Bid>) -> Result<()> {
        let prices = batch.column::<i64>("price")?;
        let keys: Vec<u32> = batch.row_keys().collect();

        let mut totals = vec![0; batch.keys()];
        let spent = self.spent.load()?;
        for (key, (total, stored)) in
            totals.iter_mut().zip(spent.column::<i64>("total")?.iter()).enumerate()
        {
            *total = if spent.has(key) { stored } else { 0 };
        }
        drop(spent);
        for (price, key) in prices.iter().zip(&keys) {
            if let Some(total) = totals.get_mut(*key as usize) {
                *total += price;
            }
        }
        let all: Vec<u32> = (0..).take(totals.len()).collect();
        self.spent.store(&all, &[column(totals)])?;

        self.prices.add_columns(&keys, &[prices.column().clone(), prices.column().clone()])?;

        let columns = vec![
            batch.column::<i64>("auction")?.column().clone(),
            batch.column::<String>("bidder")?.column().clone(),
            prices.column().clone(),
        ];
        let times: Vec<_> = batch.timestamps().collect();
        out.emit_columns(columns, &times)
    }
}

/// Emits each bid with what its auction spent with it, if all auctions are known and each has one
/// bid; else it writes zeros.
#[derive(States)]
struct InPlace {
    spent: ValueState<Auction, Spent>,
}

#[operator]
impl InPlace {
    fn process_batch(
        &mut self,
        batch: &Batch<Bid, Auction>,
        out: &mut Emitter<Spent>,
    ) -> Result<()> {
        let spent = self.spent.take()?;
        if !batch.has_one_row_a_key() || !spent.has_all() {
            assert!((0..batch.keys()).any(|key| !spent.has(key)) || batch.keys() < batch.rows());
            return self.spent.store_all(&[column(vec![0_i64; batch.keys()])]);
        }
        let totals = spent.column::<i64>("total")?.iter().zip(batch.column::<i64>("price")?.iter());
        let totals = column(totals.map(|(total, price)| total + price));
        assert_eq!(spent.into_columns().len(), 1);
        self.spent.store_all(std::slice::from_ref(&totals))?;
        assert_eq!(self.spent.take()?.into_columns(), std::slice::from_ref(&totals));
        out.emit_columns_of(batch, vec![totals])
    }
}

#[test]
fn rows_are_taken_changed_and_stored() -> Result<()> {
    let mut host = TestHost::<InPlace>::new()?;
    assert_eq!(host.process_events([bid(1, 5), bid(2, 7)])?, []);
    assert_eq!(host.process_events([bid(1, 5), bid(1, 7)])?, []);
    let total = |total, millis| Event::insert(Spent { total }).at(Timestamp::from_millis(millis));
    assert_eq!(host.process_events([bid(2, 3), bid(1, 4)])?, [total(3, 3), total(4, 4)]);
    assert_eq!(host.process_events([bid(1, 2), bid(2, 9)])?, [total(6, 2), total(12, 9)]);
    assert_eq!(host.process_events([bid(1, 2), bid(3, 9)])?, []);
    Ok(())
}

fn bid(auction: i64, price: i64) -> Event<Bid> {
    let bid = Bid { auction, bidder: format!("bidder {price}"), price };
    Event::insert(bid).at(Timestamp::from_millis(price))
}

#[test]
fn whole_columns_go_through_states_and_out() -> Result<()> {
    let mut host = TestHost::<Columnar>::new()?;
    let bids = || [bid(1, 5), bid(2, 7), bid(1, 9)];
    assert_eq!(host.process_events(bids())?, bids());
    host.process_events([bid(2, 1)])?;
    let auction = |auction| Auction { auction };
    assert_eq!(host.value("spent", &auction(1))?, Some(Spent { total: 14 }));
    assert_eq!(host.value("spent", &auction(2))?, Some(Spent { total: 8 }));
    assert_eq!(host.value("prices", &auction(1))?, Some(Prices { bids: 2, highest: 9 }));
    assert_eq!(host.value("prices", &auction(2))?, Some(Prices { bids: 2, highest: 7 }));
    let calls = host.calls("spent")?;
    assert_eq!((calls.gets, calls.puts), (2, 2));
    Ok(())
}

/// Asks for a column of its configuration, as an `i64`.
struct Asking {
    column: String,
}

#[derive(serde::Deserialize)]
struct Config {
    column: String,
}

#[operator]
impl Asking {
    fn open(open: &mut Open<Auction>) -> Result<Self> {
        let Config { column } = open.config()?;
        Ok(Self { column })
    }

    fn process_batch(&mut self, batch: &Batch<Bid, Auction>, out: &mut Emitter<Bid>) -> Result<()> {
        batch.column::<i64>(&self.column)?;
        let (row, record) = batch.read(batch.rows() - 1)?;
        assert_eq!(record.key()?.auction, row.auction);
        out.emit(&row);
        Ok(())
    }
}

/// What is said about a column that is asked for as an `i64`.
fn refusal(column: &str) -> Option<String> {
    let config = format!(r#"{{"column": "{column}"}}"#);
    let mut host = TestHost::<Asking>::with_config(&config).ok()?;
    host.process_events([bid(1, 2)]).err().map(|error| error.message().to_owned())
}

#[test]
fn a_column_of_another_name_or_type_is_refused() {
    assert_eq!(refusal("price"), None);
    assert_eq!(
        refusal("prize").as_deref(),
        Some("there is no column `prize`; there are auction, bidder, price")
    );
    let wrong_type = refusal("bidder");
    assert!(wrong_type.is_some_and(|message| message.starts_with("column `bidder` is")));
}

#[test]
fn columns_that_do_not_fit_are_refused() -> Result<()> {
    #[derive(States)]
    struct Wrong {
        spent: ValueState<Auction, Spent>,
    }

    impl Operator for Wrong {
        type Input = Bid;
        type Key = Auction;
        type Output = Bid;

        fn open(open: &mut Open<Auction>) -> Result<Self> {
            States::open(open)
        }

        fn process(&mut self, _: Bid, _: &Record<'_, Auction>, _: &mut Emitter<Bid>) -> Result<()> {
            Ok(())
        }

        fn process_batch(
            &mut self,
            _: &Batch<'_, Bid, Auction>,
            out: &mut Emitter<Bid>,
        ) -> Result<()> {
            assert!(self.spent.store(&[0], &[column(["text".to_owned()])]).is_err());
            assert!(self.spent.store(&[0, 1], &[column([1_i64])]).is_err());
            let short = vec![column([1_i64]), column(["a".to_owned()]), column([2_i64, 3])];
            assert!(out.emit_columns(short, &[Timestamp::default()]).is_err());
            Ok(())
        }
    }

    let mut host = TestHost::<Wrong>::new()?;
    assert_eq!(host.process_events([bid(1, 2)])?, []);
    assert_eq!(host.values::<Spent>("spent")?, []);
    Ok(())
}

/// Passes on the rows of a changelog that cost something.
#[derive(States)]
struct Priced;

#[operator]
impl Priced {
    const INPUT_CHANGELOG: bool = true;
    const OUTPUT_CHANGELOG: bool = true;

    fn process_batch(&mut self, batch: &Batch<Bid, Auction>, out: &mut Emitter<Bid>) -> Result<()> {
        let prices = batch.column::<i64>("price")?;
        let rows: Vec<u32> =
            (0..).zip(prices.iter()).filter(|(_, price)| *price > 0).map(|(row, _)| row).collect();
        let columns = batch.copy_rows(&["auction", "bidder", "price"], &rows)?;
        out.emit_columns_of_rows(batch, &rows, columns)
    }
}

#[test]
fn rows_that_are_passed_on_keep_their_kinds() -> Result<()> {
    let mut host = TestHost::<Priced>::new()?;
    let of = |kind, price| Event { kind, ..bid(1, price) };
    let (before, after) = (of(RowKind::UpdateBefore, 5), of(RowKind::UpdateAfter, 7));
    let events = [before.clone(), of(RowKind::Delete, 0), after.clone()];
    assert_eq!(host.process_events(events)?, [before, after]);
    Ok(())
}

/// Counts each batch at its end.
#[derive(States)]
struct Counted {
    #[state(skip)]
    rows: i64,
}

#[operator]
impl Counted {
    fn process(&mut self, _: Bid, _: &Record<Auction>, _: &mut Emitter<Spent>) -> Result<()> {
        self.rows += 1;
        Ok(())
    }

    fn finish_batch(&mut self, _: &Keys<Auction>, out: &mut Emitter<Spent>) -> Result<()> {
        out.emit(&Spent { total: self.rows });
        Ok(())
    }
}

#[test]
fn what_the_end_of_a_batch_emits_has_the_latest_time_of_its_rows() -> Result<()> {
    let mut host = TestHost::<Counted>::new()?;
    let counted = Event::insert(Spent { total: 3 }).at(Timestamp::from_millis(9));
    assert_eq!(host.process_events([bid(1, 5), bid(2, 9), bid(1, 3)])?, [counted]);
    Ok(())
}
