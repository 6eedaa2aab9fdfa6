//! What an operator can rely on: one look-up for each batch and state, only changes written,
//! nothing of a failed batch kept.

use std::collections::BTreeMap;

use howdah_sdk::log::Level;
use howdah_sdk::prelude::*;
use howdah_sdk::testing::{Event, TestHost};
use proptest::collection::vec;
use proptest::prelude::*;

/// What to do to a key.
#[derive(Row, Clone, Debug, PartialEq)]
struct Order {
    key: String,
    verb: String,
    value: Option<i64>,
}

#[derive(Key, Clone, Debug, PartialEq)]
struct OrderKey {
    key: String,
}

#[derive(Row, Clone, Debug, PartialEq)]
struct Stored {
    value: Option<i64>,
}

/// Obeys; emits what it reads.
struct Obedient {
    main: ValueState<OrderKey, Stored>,
    other: ValueState<OrderKey, Stored>,
    held: Vec<OrderKey>,
}

impl Operator for Obedient {
    type Input = Order;
    type Key = OrderKey;
    type Output = Order;
    const INPUT_CHANGELOG: bool = true;

    fn open(open: &mut Open<OrderKey>) -> Result<Self> {
        Ok(Self { main: open.value("main")?, other: open.value("other")?, held: Vec::new() })
    }

    fn process(
        &mut self,
        order: Order,
        record: &Record<'_, OrderKey>,
        out: &mut Emitter<Order>,
    ) -> Result<()> {
        let value = order.value;
        match order.verb.as_str() {
            "get" => {
                let value = self.main.get(record)?.and_then(|stored| stored.value);
                out.emit(&Order { value, ..order });
            }
            "put" => self.main.put(record, Stored { value }),
            "delete" => self.main.delete(record),
            "put other" => self.other.put(record, Stored { value }),
            "hold" => self.held.push(record.key()?),
            "kind" => out.emit(&Order { verb: format!("{:?}", record.kind()), ..order }),
            "retract" => out.emit_delete(&order),
            "get many" => drop(self.main.get_many(&[record.key()?])?),
            "fail" => return Err(Error::new("as ordered")),
            verb => log::warn!("no idea what {verb} is"),
        }
        Ok(())
    }

    fn on_barrier(&mut self, checkpoint: u64, out: &mut Emitter<Order>) -> Result<()> {
        let keys = std::mem::take(&mut self.held);
        for (key, stored) in keys.iter().zip(self.main.get_many(&keys)?) {
            let verb = format!("checkpoint {checkpoint}");
            let value = stored.and_then(|stored| stored.value);
            out.emit(&Order { key: key.key.clone(), verb, value });
        }
        let rows: Vec<_> = keys.into_iter().map(|key| (key, Stored { value: Some(0) })).collect();
        if !rows.is_empty() {
            self.main.put_many(&rows)?;
        }
        Ok(())
    }

    fn close(&mut self, out: &mut Emitter<Order>) -> Result<()> {
        let key = OrderKey { key: "last".to_owned() };
        self.main.delete_many(std::slice::from_ref(&key))?;
        out.emit(&order("end", "close", None));
        Ok(())
    }
}

fn order(key: &str, verb: &str, value: impl Into<Option<i64>>) -> Order {
    Order { key: key.to_owned(), verb: verb.to_owned(), value: value.into() }
}

fn key(key: &str) -> OrderKey {
    OrderKey { key: key.to_owned() }
}

fn stored(value: i64) -> Option<Stored> {
    Some(Stored { value: Some(value) })
}

#[test]
fn a_batch_looks_a_state_up_once() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process((0..100).map(|n| order(&format!("{}", n % 7), "get", None)))?;
    let calls = host.calls("main")?;
    assert_eq!((calls.gets, calls.keys_read), (1, 7));
    Ok(())
}

#[test]
fn a_state_that_a_batch_does_not_read_is_not_looked_up() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process([order("a", "get", None), order("b", "put other", 1)])?;
    let calls = host.calls("other")?;
    assert_eq!((calls.gets, calls.puts, calls.keys_written), (0, 1, 1));
    Ok(())
}

#[test]
fn a_later_record_of_a_batch_sees_what_an_earlier_one_wrote() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    let batch = ["put", "get", "delete", "get"].map(|verb| order("a", verb, 5));
    let out = host.process(batch)?;
    assert_eq!(out, [5.into(), None].map(|value| Event::insert(order("a", "get", value))));
    Ok(())
}

#[test]
fn only_keys_whose_row_changed_are_written() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process(["a", "b", "c"].map(|key| order(key, "put", 1)))?;
    let before = host.calls("main")?;

    host.process([
        order("a", "get", None),
        order("a", "put", 2), // changed and changed back
        order("a", "put", 1),
        order("b", "put", 2),
        order("c", "put", 1), // the same as before
        order("d", "delete", None),
    ])?;
    let calls = host.calls("main")?;
    assert_eq!((calls.puts - before.puts, calls.keys_written - before.keys_written), (1, 1));
    assert_eq!(calls.deletes, 0);
    assert_eq!(host.value("main", &key("b"))?, stored(2));
    Ok(())
}

#[test]
fn a_null_is_told_from_a_value_when_changes_are_found() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process([order("a", "put", 0)])?;
    host.process([order("a", "get", None), order("a", "put", None)])?;
    assert_eq!(host.value("main", &key("a"))?, Some(Stored { value: None }));
    Ok(())
}

#[test]
fn deletes_of_a_batch_go_in_one_call() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process(["a", "b", "c"].map(|key| order(key, "put", 1)))?;
    host.process([
        order("a", "delete", None),
        order("b", "get", None),
        order("c", "delete", None),
    ])?;
    let calls = host.calls("main")?;
    assert_eq!((calls.deletes, calls.keys_deleted), (1, 2));
    assert_eq!(host.values::<Stored>("main")?.len(), 1);
    Ok(())
}

#[test]
fn a_failed_batch_leaves_nothing_and_goes_back_to_the_barrier() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process([order("a", "put", 1)])?;
    host.barrier()?;
    host.process([order("a", "put", 2)])?;
    let error = host.process([order("a", "put", 3), order("a", "fail", None)]).unwrap_err();
    assert_eq!(error.message(), "as ordered");
    assert_eq!(host.value("main", &key("a"))?, stored(1));

    assert!(host.process([order("a", "get", None)]).is_err(), "it has not been restored");
    host.restore()?;
    assert_eq!(host.process([order("a", "get", None)])?, [Event::insert(order("a", "get", 1))]);
    Ok(())
}

#[test]
fn what_an_operator_holds_in_memory_is_lost_in_a_crash() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process([order("a", "hold", None)])?;
    host.crash();
    host.restore()?;
    assert_eq!(host.barrier()?, []);
    Ok(())
}

#[test]
fn at_a_barrier_an_operator_reads_and_writes_keys_of_its_choice() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process([order("a", "put", 8), order("a", "hold", None), order("b", "hold", None)])?;
    let out = host.barrier()?;
    let expected = [order("a", "checkpoint 1", 8), order("b", "checkpoint 1", None)];
    assert_eq!(out, expected.map(|row| Event::insert(row).at(Timestamp::MIN)));
    assert_eq!(host.value("main", &key("a"))?, stored(0));
    assert_eq!(host.value("main", &key("b"))?, stored(0));
    Ok(())
}

#[test]
fn in_process_keys_of_its_choice_are_refused() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    let error = host.process([order("a", "get many", None)]).unwrap_err();
    assert!(error.message().contains("give the record"), "{error}");
    Ok(())
}

#[test]
fn close_may_write_and_emit() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process([order("last", "put", 1)])?;
    host.advance_watermark(Timestamp::from_millis(40))?;
    host.process_events([Event::insert(order("a", "put", 1)).at(Timestamp::from_millis(50))])?;
    let end = Event::insert(order("end", "close", None)).at(Timestamp::from_millis(40));
    assert_eq!(host.close()?, [end]);
    assert_eq!(host.value::<Stored>("main", &key("last"))?, None);
    Ok(())
}

#[test]
fn a_row_is_emitted_at_the_event_time_of_its_record() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    let at = |millis| Event::insert(order("a", "get", None)).at(Timestamp::from_millis(millis));
    assert_eq!(host.process_events([at(7), at(3)])?, [at(7), at(3)]);
    Ok(())
}

#[test]
fn a_record_knows_its_row_kind() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    let out = host.process_events([Event::new(RowKind::Delete, order("a", "kind", None))])?;
    assert_eq!(out, [Event::insert(order("a", "Delete", None))]);
    Ok(())
}

#[test]
fn a_retraction_on_an_output_that_is_no_changelog_fails_the_batch() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    let error = host.process([order("a", "retract", None)]).unwrap_err();
    assert!(error.message().contains("OUTPUT_CHANGELOG"), "{error}");
    Ok(())
}

#[test]
fn log_messages_reach_the_host() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process([order("a", "dance", None)])?;
    assert_eq!(host.logs(), [(Level::Warn, "no idea what dance is".to_owned())]);
    Ok(())
}

#[test]
fn a_state_that_is_not_declared_cannot_be_looked_at() -> Result<()> {
    let host = TestHost::<Obedient>::new()?;
    let error = host.values::<Stored>("mian").unwrap_err();
    assert!(error.message().contains("`mian`"), "{error}");
    assert!(host.values::<Order>("main").is_err(), "its rows have other fields");
    Ok(())
}

#[derive(Debug, Clone)]
enum Step {
    Batch(Vec<(u8, Verb)>),
    Barrier,
    Crash,
}

#[derive(Debug, Clone, Copy)]
enum Verb {
    Get,
    Put(i64),
    Delete,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let verb = prop_oneof![Just(Verb::Get), (0..3_i64).prop_map(Verb::Put), Just(Verb::Delete)];
    let step = prop_oneof![
        4 => vec((0..12_u8, verb), 1..20).prop_map(Step::Batch),
        1 => Just(Step::Barrier),
        1 => Just(Step::Crash),
    ];
    vec(step, 1..20)
}

proptest! {
    /// Whatever batches, barriers and crashes come, the operator sees what a map would say.
    #[test]
    fn the_state_is_a_map_that_goes_back_to_the_last_barrier(steps in steps()) {
        let mut host = TestHost::<Obedient>::new().unwrap();
        let mut model: BTreeMap<String, i64> = BTreeMap::new();
        let mut committed = model.clone();
        for step in steps {
            match step {
                Step::Batch(orders) => {
                    let mut expected = Vec::new();
                    let mut batch = Vec::new();
                    for (key, verb) in orders {
                        let key = format!("key {key}");
                        batch.push(match verb {
                            Verb::Get => order(&key, "get", None),
                            Verb::Put(value) => order(&key, "put", value),
                            Verb::Delete => order(&key, "delete", None),
                        });
                        match verb {
                            Verb::Get => {
                                let row = order(&key, "get", model.get(&key).copied());
                                expected.push(Event::insert(row));
                            }
                            Verb::Put(value) => drop(model.insert(key, value)),
                            Verb::Delete => drop(model.remove(&key)),
                        }
                    }
                    let before = host.calls("main").unwrap();
                    prop_assert_eq!(host.process(batch).unwrap(), expected);
                    let after = host.calls("main").unwrap();
                    prop_assert!(after.gets - before.gets <= 1);
                    prop_assert!(after.puts - before.puts <= 1);
                    prop_assert!(after.deletes - before.deletes <= 1);
                }
                Step::Barrier => {
                    host.barrier().unwrap();
                    committed = model.clone();
                }
                Step::Crash => {
                    host.crash();
                    host.restore().unwrap();
                    model = committed.clone();
                }
            }
            let rows: BTreeMap<_, _> = host
                .values::<Stored>("main")
                .unwrap()
                .into_iter()
                .map(|(key, stored)| (key.key, stored.value.unwrap()))
                .collect();
            prop_assert_eq!(&rows, &model);
        }
    }
}

/// Keeps the value under the name of the key, which is a column of the same table.
struct Clashing;

#[derive(Row, Clone)]
struct CalledLikeTheKey {
    #[column(name = "Key")]
    value: i64,
}

impl Operator for Clashing {
    type Input = Order;
    type Key = OrderKey;
    type Output = Order;

    fn open(open: &mut Open<OrderKey>) -> Result<Self> {
        open.value::<CalledLikeTheKey>("main")?;
        Ok(Self)
    }

    fn process(
        &mut self,
        _: Order,
        _: &Record<'_, OrderKey>,
        _: &mut Emitter<Order>,
    ) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_field_of_a_state_called_like_a_key_field_is_refused_as_by_a_host() {
    let error = TestHost::<Clashing>::new().err().unwrap();
    let said = "state `main`: its field `Key` is called like a key field: rename it";
    assert_eq!(error.to_string(), said);
}
