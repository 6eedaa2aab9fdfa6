//! Several inputs and outputs, changelogs, calls between batches, metrics.

use howdah_sdk::prelude::*;
use howdah_sdk::testing::{Event, TestHost};

#[derive(Row, Clone, Debug, PartialEq)]
struct Person {
    id: i64,
    name: String,
}

#[derive(Row, Clone, Debug, PartialEq)]
struct Bid {
    bidder: i64,
    price: i64,
}

#[derive(Inputs, Clone, Debug, PartialEq)]
enum In {
    #[input(name = "persons", key("id"), changelog)]
    Person(Person),
    #[input(key("bidder"))]
    Bid(Bid),
}

#[derive(Key, Clone, Debug, PartialEq)]
struct Bidder {
    person: i64,
}

#[derive(Row, Clone, Debug, PartialEq)]
struct Named {
    name: String,
}

#[derive(Row, Clone, Debug, PartialEq)]
struct Spending {
    name: String,
    price: i64,
}

#[derive(Outputs)]
struct Out {
    #[output(changelog)]
    names: Emitter<Named>,
    #[output(name = "spent")]
    spending: Emitter<Spending>,
}

/// Joins bids with a table of persons; counts what it does not know.
#[derive(States)]
struct Join {
    persons: ValueState<Bidder, Named>,
    #[state(name = "unknown_total")]
    unknown: Counter,
    #[state(skip)]
    watermarks: Vec<Timestamp>,
    #[state(skip)]
    completed: u64,
}

#[operator]
impl Join {
    fn process(&mut self, row: In, record: &Record<Bidder>, out: &mut Out) -> Result<()> {
        match row {
            In::Person(Person { name, .. }) => {
                let before = self.persons.get(record)?;
                self.persons.apply(record, Named { name });
                out.names.emit_change(before.as_ref(), self.persons.get(record)?.as_ref());
            }
            In::Bid(Bid { price, .. }) => match self.persons.get(record)? {
                Some(Named { name }) => out.spending.emit(&Spending { name, price }),
                None => self.unknown.add(1),
            },
        }
        Ok(())
    }

    fn on_watermark(&mut self, watermark: Timestamp, out: &mut Out) -> Result<()> {
        self.watermarks.push(watermark);
        let watermarks = self.watermarks.len();
        out.names.emit(&Named { name: format!("watermark {watermarks}") });
        Ok(())
    }

    fn on_checkpoint_complete(&mut self, checkpoint: u64) -> Result<()> {
        self.completed = checkpoint;
        Ok(())
    }

    fn close(&mut self, out: &mut Out) -> Result<()> {
        let name = format!("after checkpoint {}", self.completed);
        out.names.emit(&Named { name });
        Ok(())
    }
}

fn person(kind: RowKind, id: i64, name: &str) -> Event<In> {
    Event::new(kind, In::Person(Person { id, name: name.to_owned() }))
}

fn bid(bidder: i64, price: i64) -> Event<In> {
    Event::insert(In::Bid(Bid { bidder, price }))
}

fn named(name: &str) -> Named {
    Named { name: name.to_owned() }
}

fn spent(name: &str, price: i64) -> Event<Spending> {
    Event::insert(Spending { name: name.to_owned(), price })
}

#[test]
fn rows_of_both_inputs_meet_by_their_keys() -> Result<()> {
    let mut host = TestHost::<Join>::new()?;
    let events = [bid(1, 5), person(RowKind::Insert, 1, "ann"), bid(1, 6), bid(2, 7)];
    let (names, spending) = host.process_events(events)?;
    assert_eq!(names, [Event::insert(named("ann"))]);
    assert_eq!(spending, [spent("ann", 6)]);
    assert_eq!(host.counter("unknown_total"), 2);
    assert_eq!(host.value("persons", &Bidder { person: 1 })?, Some(named("ann")));
    Ok(())
}

#[test]
fn a_changelog_becomes_state_and_the_state_a_changelog() -> Result<()> {
    use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
    let mut host = TestHost::<Join>::new()?;
    let (names, _) = host.process_events([
        person(Insert, 1, "ann"),
        person(UpdateBefore, 1, "ann"),
        person(UpdateAfter, 1, "bea"),
        person(UpdateAfter, 1, "bea"),
        person(Delete, 1, "bea"),
        person(Delete, 1, "bea"),
    ])?;
    let expected = [(Insert, "ann"), (UpdateBefore, "ann"), (UpdateAfter, "bea"), (Delete, "bea")];
    assert_eq!(names, expected.map(|(kind, name)| Event::new(kind, named(name))));
    assert_eq!(host.values::<Named>("persons")?, []);
    assert!(Insert.adds() && UpdateAfter.adds() && !UpdateBefore.adds() && !Delete.adds());
    Ok(())
}

#[test]
fn a_change_on_an_input_that_is_no_changelog_is_refused() -> Result<()> {
    let mut host = TestHost::<Join>::new()?;
    let row = In::Bid(Bid { bidder: 1, price: 2 });
    let error = host.process_events([Event::new(RowKind::Delete, row)]).err();
    assert!(error.is_some_and(|error| error.message().contains("INPUT_CHANGELOG")));
    Ok(())
}

#[test]
fn a_watermark_is_told_once_if_it_rises() -> Result<()> {
    let mut host = TestHost::<Join>::new()?;
    let at = Timestamp::from_millis;
    let (names, _) = host.advance_watermark(at(5))?;
    assert_eq!(names, [Event::insert(named("watermark 1")).at(at(5))]);
    assert_eq!(host.advance_watermark(at(5))?.0, []);
    assert_eq!(host.advance_watermark(at(4))?.0, []);
    assert_eq!(host.watermark(), at(5));
    assert_eq!(host.advance_watermark(at(6))?.0.len(), 1);
    Ok(())
}

#[test]
fn a_completed_checkpoint_is_told() -> Result<()> {
    let mut host = TestHost::<Join>::new()?;
    host.barrier()?;
    host.barrier()?;
    let (names, _) = host.close()?;
    let name = named("after checkpoint 2");
    assert_eq!(names, [Event::insert(name).at(Timestamp::MIN)]);
    Ok(())
}

#[test]
fn two_metrics_of_the_same_name_are_refused() {
    #[derive(States, Debug)]
    struct Twice {
        #[state(name = "rows_total")]
        _rows: Counter,
        #[state(name = "rows_total")]
        _again: Counter,
    }

    #[operator]
    impl Twice {
        fn process(&mut self, _: Bid, _: &Record<Bidder>, (): &mut ()) -> Result<()> {
            Ok(())
        }
    }

    #[derive(Key)]
    struct Bidder {
        bidder: i64,
    }

    let error = TestHost::<Twice>::new().err().unwrap();
    assert!(error.message().contains("the metric `rows_total` is there already"), "{error}");
}

#[test]
fn what_a_failed_batch_counted_is_not_counted() -> Result<()> {
    #[derive(States)]
    struct Failing {
        #[state(name = "rows_total")]
        rows: Counter,
        #[state(name = "last_bytes")]
        last: Gauge,
    }

    impl Operator for Failing {
        type Input = Bid;
        type Key = BidKey;
        type Output = ();

        fn open(open: &mut Open<BidKey>) -> Result<Self> {
            States::open(open)
        }

        fn process(&mut self, bid: Bid, _: &Record<'_, BidKey>, (): &mut ()) -> Result<()> {
            self.rows.add(1);
            self.last.set(if bid.price > 0 { 1.0 } else { -1.0 });
            if bid.price < 0 { Err(Error::new("a bid of less than nothing")) } else { Ok(()) }
        }
    }

    #[derive(Key)]
    struct BidKey {
        #[column(name = "bidder")]
        person: i64,
    }

    let mut host = TestHost::<Failing>::new()?;
    let bid = |price| Bid { bidder: 1, price };
    host.process([bid(1), bid(2)])?;
    assert!(host.process([bid(3), bid(-1)]).is_err());
    assert_eq!((host.counter("rows_total"), host.gauge("last_bytes")), (2, Some(1.0)));
    Ok(())
}

#[test]
fn rows_end_when_their_time_to_live_is_over() -> Result<()> {
    #[derive(States)]
    struct Memory {
        #[state(ttl_ms = 100, version = 3)]
        seen: ValueState<Bidder, Price>,
    }

    #[derive(Row, Clone, Debug, PartialEq)]
    struct Price {
        price: i64,
    }

    #[derive(Row, Clone, Debug, PartialEq)]
    struct Seen {
        person: i64,
        price: i64,
    }

    impl Operator for Memory {
        type Input = Seen;
        type Key = Bidder;
        type Output = Price;

        fn open(open: &mut Open<Bidder>) -> Result<Self> {
            States::open(open)
        }

        fn process(
            &mut self,
            seen: Seen,
            record: &Record<'_, Bidder>,
            out: &mut Emitter<Price>,
        ) -> Result<()> {
            if let Some(price) = self.seen.get(record)? {
                out.emit(&price);
            }
            assert_eq!(record.now(), howdah_sdk::now());
            self.seen.put(record, Price { price: seen.price + record.now().millis() });
            Ok(())
        }
    }

    let mut host = TestHost::<Memory>::new()?;
    let seen = |price| Seen { person: 1, price };
    host.process([seen(1)])?;
    host.advance_clock(Timestamp::from_millis(99))?;
    assert_eq!(host.process([seen(2)])?, [Event::insert(Price { price: 1 })]);
    host.advance_clock(Timestamp::from_millis(198))?;
    assert_eq!(host.value("seen", &Bidder { person: 1 })?, Some(Price { price: 101 }));
    host.advance_clock(Timestamp::from_millis(199))?;
    assert_eq!(host.process([seen(3)])?, []);
    Ok(())
}

#[test]
fn a_name_that_a_host_would_refuse_is_refused_when_it_is_declared() {
    struct Named;

    #[derive(serde::Deserialize)]
    struct Config {
        state: String,
        metric: String,
    }

    impl Operator for Named {
        type Input = Bid;
        type Key = BidKey;
        type Output = ();

        fn open(open: &mut Open<BidKey>) -> Result<Self> {
            let Config { state, metric } = open.config()?;
            let _: ValueState<BidKey, elsewhere::Number> = open.value(&state)?;
            open.event_timers("timers")?;
            open.counter(&metric)?;
            Ok(Self)
        }

        fn process(&mut self, _: Bid, _: &Record<'_, BidKey>, (): &mut ()) -> Result<()> {
            Ok(())
        }
    }

    #[derive(Key)]
    struct BidKey {
        #[column(name = "bidder")]
        _person: i64,
    }

    let refusal = |state: &str, metric: &str| {
        let config = format!(r#"{{"state": "{state}", "metric": "{metric}"}}"#);
        TestHost::<Named>::with_config(&config).err().map(|error| error.message().to_owned())
    };
    assert_eq!(refusal("state", "rows_total"), None);
    for state in ["", "a b", "timers"] {
        assert!(refusal(state, "rows_total").is_some(), "`{state}`");
    }
    for metric in ["Rows_total", "rows", "rows-total"] {
        assert!(refusal("state", metric).is_some_and(|refusal| refusal.contains(metric)));
    }
}

mod elsewhere {
    use howdah_sdk::prelude::*;

    /// A row in another module.
    #[derive(Row, Clone)]
    pub(crate) struct Number {
        pub(crate) value: i64,
    }
}
