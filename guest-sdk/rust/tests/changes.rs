//! What states tell of their changes at the end of a batch, against the states themselves.

use std::collections::BTreeMap;

use howdah_sdk::prelude::*;
use howdah_sdk::testing::{Event, TestHost};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Row, Debug, Clone, PartialEq)]
struct Order {
    id: i64,
    entry: i64,
    /// What to write; none: remove it.
    value: Option<i64>,
    /// Whether to read before.
    reads: bool,
}

#[derive(Key, Debug, Clone, PartialEq)]
struct Id {
    id: i64,
}

#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    entry: i64,
}

#[derive(Row, Debug, Clone, PartialEq)]
struct Value {
    value: i64,
}

#[derive(Row, Debug, Clone, PartialEq)]
struct Changed {
    id: i64,
    /// None of a value.
    entry: Option<i64>,
    value: i64,
}

#[derive(States)]
struct Obedient {
    values: ValueState<Id, Value>,
    entries: MapState<Id, Entry, Value>,
}

#[operator]
impl Obedient {
    const OUTPUT_CHANGELOG: bool = true;

    fn process(
        &mut self,
        order: Order,
        record: &Record<Id>,
        _: &mut Emitter<Changed>,
    ) -> Result<()> {
        let Order { entry, value, reads, .. } = order;
        let entry = Entry { entry };
        if reads {
            self.values.get(record)?;
            self.entries.get(record, &entry)?;
        }
        match value {
            Some(value) => {
                self.values.put(record, Value { value });
                self.entries.put(record, entry, Value { value });
            }
            None => {
                self.values.delete(record);
                self.entries.remove(record, entry);
            }
        }
        Ok(())
    }

    fn finish_batch(&mut self, keys: &Keys<Id>, out: &mut Emitter<Changed>) -> Result<()> {
        self.values.each_change(keys, |key, before, after| {
            let Id { id } = key.key()?;
            let row = |row: &Value| Changed { id, entry: None, value: row.value };
            out.emit_change(before.map(row).as_ref(), after.map(row).as_ref());
            Ok(())
        })?;
        self.entries.each_change(keys, |key, entry, before, after| {
            let Id { id } = key.key()?;
            let row = |row: &Value| Changed { id, entry: Some(entry.entry), value: row.value };
            out.emit_change(before.map(row).as_ref(), after.map(row).as_ref());
            Ok(())
        })
    }
}

fn put(id: i64, entry: i64, value: i64) -> Order {
    Order { id, entry, value: Some(value), reads: false }
}

fn changed(kind: RowKind, id: i64, entry: Option<i64>, value: i64) -> Event<Changed> {
    Event::new(kind, Changed { id, entry, value })
}

#[test]
fn what_was_written_without_being_read_is_told_with_what_it_was() -> Result<()> {
    use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
    let mut host = TestHost::<Obedient>::new()?;
    let changes = host.process([put(1, 5, 10), put(1, 5, 20)])?;
    assert_eq!(changes, [changed(Insert, 1, None, 20), changed(Insert, 1, Some(5), 20)]);
    let remove = Order { id: 1, entry: 5, value: None, reads: false };
    let changes = host.process([remove.clone(), put(1, 6, 30)])?;
    let expected = [
        changed(UpdateBefore, 1, None, 20),
        changed(UpdateAfter, 1, None, 30),
        changed(Delete, 1, Some(5), 20),
        changed(Insert, 1, Some(6), 30),
    ];
    assert_eq!(changes, expected);
    assert_eq!(host.calls("entries")?.gets, 2, "one look-up for each batch");
    Ok(())
}

#[test]
fn a_batch_that_writes_nothing_tells_nothing() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process([put(1, 5, 10)])?;
    assert_eq!(host.process([put(1, 5, 10)])?, [], "it is the same as before");
    Ok(())
}

fn orders() -> impl Strategy<Value = Vec<Order>> {
    let order = (0..3_i64, 0..3_i64, proptest::option::of(0..3_i64), any::<bool>());
    let order = order.prop_map(|(id, entry, value, reads)| Order { id, entry, value, reads });
    vec(order, 0..60)
}

proptest! {
    /// However orders are cut into batches, the changelog comes to the states as they are.
    #[test]
    fn the_changelog_comes_to_the_states(orders in orders(), batch_rows in 1..20_usize) {
        let mut host = TestHost::<Obedient>::new().unwrap();
        let mut table = BTreeMap::new();
        for batch in orders.chunks(batch_rows) {
            for Event { row, kind, .. } in host.process(batch.iter().cloned()).unwrap() {
                let Changed { id, entry, value } = row;
                if kind.adds() {
                    prop_assert_eq!(table.insert((id, entry), value), None);
                } else {
                    prop_assert_eq!(table.remove(&(id, entry)), Some(value));
                }
            }
        }
        let mut expected = BTreeMap::new();
        for (Id { id }, Value { value }) in host.values::<Value>("values").unwrap() {
            expected.insert((id, None), value);
        }
        for id in 0..3 {
            for (Entry { entry }, Value { value }) in host.map("entries", &Id { id }).unwrap() {
                expected.insert((id, Some(entry)), value);
            }
        }
        prop_assert_eq!(table, expected);
    }
}
