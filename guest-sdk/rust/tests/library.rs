//! What the SDK has on top of its states, against models: joins, top-N, distinct counts.

use std::collections::{BTreeMap, BTreeSet};

use howdah_sdk::distinct::Distinct;
use howdah_sdk::join::{DimensionJoin, Join};
use howdah_sdk::prelude::*;
use howdah_sdk::testing::{Event, TestHost};
use howdah_sdk::top::TopN;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    id: i64,
}

#[derive(Row, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    id: i64,
    value: i64,
}

#[derive(Row, Debug, Clone, PartialEq)]
struct Value {
    value: i64,
}

#[derive(Inputs, Debug, Clone)]
enum Side {
    #[input(changelog)]
    Left(Item),
    #[input(changelog)]
    Right(Item),
}

#[derive(Row, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    id: i64,
    left: i64,
    right: i64,
}

mod joined {
    use super::*;

    #[derive(States)]
    pub(super) struct Joined {
        rows: Join<Id, Value, Value>,
    }

    #[operator]
    impl Joined {
        const OUTPUT_CHANGELOG: bool = true;

        fn process(
            &mut self,
            row: Side,
            record: &Record<Id>,
            out: &mut Emitter<Pair>,
        ) -> Result<()> {
            match row {
                Side::Left(Item { id, value: left }) => {
                    for Value { value: right } in self.rows.left(record, &Value { value: left })? {
                        out.emit_kind(record.kind(), &Pair { id, left, right });
                    }
                }
                Side::Right(Item { id, value: right }) => {
                    for Value { value: left } in self.rows.right(record, &Value { value: right })? {
                        out.emit_kind(record.kind(), &Pair { id, left, right });
                    }
                }
            }
            Ok(())
        }
    }
}

mod enriched {
    use super::*;

    /// Joins facts on the right with the dimension on the left.
    #[derive(States)]
    pub(super) struct Enriched {
        rows: DimensionJoin<Id, Value, Value>,
    }

    #[operator]
    impl Enriched {
        fn process(
            &mut self,
            row: Side,
            record: &Record<Id>,
            out: &mut Emitter<Pair>,
        ) -> Result<()> {
            match row {
                Side::Left(Item { id, value: left }) => {
                    for Value { value: right } in
                        self.rows.dimension(record, Value { value: left })?
                    {
                        out.emit(&Pair { id, left, right });
                    }
                }
                Side::Right(Item { id, value: right }) => {
                    if let Some(found) = self.rows.fact(record, &Value { value: right })? {
                        out.emit(&Pair { id, left: found.value, right });
                    }
                }
            }
            Ok(())
        }
    }
}

mod ranked {
    use super::*;

    #[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) struct Sort {
        minus: i64,
    }

    #[derive(Row, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) struct Rank {
        pub(super) id: i64,
        pub(super) value: i64,
        pub(super) rank: i64,
    }

    #[derive(States)]
    pub(super) struct Ranked {
        pub(super) top: TopN<Id, Sort, Value, 3>,
    }

    #[operator]
    impl Ranked {
        const OUTPUT_CHANGELOG: bool = true;

        fn process(
            &mut self,
            item: Item,
            record: &Record<Id>,
            _: &mut Emitter<Rank>,
        ) -> Result<()> {
            let value = item.value;
            self.top.add(record, Sort { minus: -value }, Value { value })
        }

        fn finish_batch(&mut self, keys: &Keys<Id>, out: &mut Emitter<Rank>) -> Result<()> {
            self.top.each_change(keys, |key, rank, before, after| {
                let Id { id } = key.key()?;
                let row = |row: &Value| Rank { id, value: row.value, rank };
                out.emit_change(before.map(row).as_ref(), after.map(row).as_ref());
                Ok(())
            })
        }
    }
}

mod counted {
    use super::*;

    #[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) struct Seen {
        pub(super) seen: i64,
    }

    #[derive(Row, Debug, Clone, PartialEq)]
    pub(super) struct New {
        pub(super) id: i64,
        pub(super) all: bool,
        pub(super) even: bool,
        pub(super) small: bool,
    }

    #[derive(States)]
    pub(super) struct Counted {
        values: Distinct<Id, Seen, 3>,
    }

    #[operator]
    impl Counted {
        fn prepare(&mut self, item: &Item, record: &Record<Id>) -> Result<()> {
            self.values.want(record, Seen { seen: item.value % 10 });
            Ok(())
        }

        fn process(
            &mut self,
            item: Item,
            record: &Record<Id>,
            out: &mut Emitter<New>,
        ) -> Result<()> {
            let Item { id, value } = item;
            let filters = [true, value % 2 == 0, value < 20];
            let [all, even, small] = self.values.add(record, Seen { seen: value % 10 }, filters)?;
            out.emit(&New { id, all, even, small });
            Ok(())
        }
    }
}

/// What the changelog comes to: each row and how often it is there.
fn table<R: Ord>(events: impl IntoIterator<Item = Event<R>>) -> BTreeMap<R, i64> {
    let mut rows = BTreeMap::new();
    for event in events {
        *rows.entry(event.row).or_insert(0) += if event.kind.adds() { 1 } else { -1 };
    }
    rows.retain(|_, count| *count != 0);
    rows
}

fn item(id: i64, value: i64) -> Item {
    Item { id, value }
}

fn pair(id: i64, left: i64, right: i64) -> Pair {
    Pair { id, left, right }
}

#[test]
fn a_row_that_is_taken_back_takes_back_what_it_joined() -> Result<()> {
    use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
    let mut host = TestHost::<joined::Joined>::new()?;
    host.process([Side::Left(item(1, 10)), Side::Left(item(1, 11)), Side::Left(item(2, 10))])?;
    host.barrier()?;
    let joined = host.process([Side::Right(item(1, 5))])?;
    assert_eq!(joined, [pair(1, 10, 5), pair(1, 11, 5)].map(Event::insert));

    host.crash();
    host.restore()?;
    let changes = host.process_events([
        Event::new(Insert, Side::Right(item(1, 6))),
        Event::new(UpdateBefore, Side::Left(item(1, 11))),
        Event::new(UpdateAfter, Side::Left(item(1, 12))),
        Event::new(Delete, Side::Right(item(1, 6))),
    ])?;
    let expected = [
        Event::new(Insert, pair(1, 10, 6)),
        Event::new(Insert, pair(1, 11, 6)),
        Event::new(UpdateBefore, pair(1, 11, 6)),
        Event::new(UpdateAfter, pair(1, 12, 6)),
        Event::new(Delete, pair(1, 10, 6)),
        Event::new(Delete, pair(1, 12, 6)),
    ];
    assert_eq!(changes, expected);
    Ok(())
}

#[test]
fn a_row_that_was_never_there_cannot_be_taken_back() -> Result<()> {
    let mut host = TestHost::<joined::Joined>::new()?;
    let refusal = host.process_events([Event::new(RowKind::Delete, Side::Left(item(1, 10)))]);
    assert!(refusal.unwrap_err().message().contains("no changelog of whole rows"));
    Ok(())
}

#[test]
fn facts_wait_over_a_crash_and_are_let_go_when_their_dimension_comes() -> Result<()> {
    let mut host = TestHost::<enriched::Enriched>::new()?;
    assert_eq!(host.process([Side::Right(item(1, 5)), Side::Right(item(2, 7))])?, []);
    host.barrier()?;
    host.process([Side::Right(item(1, 6))])?;
    host.crash();
    host.restore()?;
    let joined = host.process([Side::Left(item(1, 10)), Side::Right(item(1, 8))])?;
    assert_eq!(joined, [pair(1, 10, 5), pair(1, 10, 8)].map(Event::insert));
    assert_eq!(host.list::<Value>("rows-waiting", &Id { id: 1 })?, []);
    assert_eq!(host.list::<Value>("rows-waiting", &Id { id: 2 })?, [Value { value: 7 }]);
    Ok(())
}

#[test]
fn facts_with_a_dimension_are_not_kept_and_cost_one_look_up_a_batch() -> Result<()> {
    let mut host = TestHost::<enriched::Enriched>::new()?;
    host.process((0..20).map(|id| Side::Left(item(id, id))))?;
    let before = host.calls("rows-waiting")?;
    assert_eq!(host.process((0..100).map(|n| Side::Right(item(n % 20, n))))?.len(), 100);
    assert_eq!(host.calls("rows-waiting")?, before);
    assert_eq!(host.calls("rows")?.gets, 1);
    Ok(())
}

#[test]
fn a_row_that_comes_among_the_first_moves_those_behind_it() -> Result<()> {
    use RowKind::{Insert, UpdateAfter, UpdateBefore};
    let mut host = TestHost::<ranked::Ranked>::new()?;
    host.process([30, 20, 10].map(|value| item(1, value)))?;
    host.barrier()?;
    host.process([item(1, 40)])?;
    host.crash();
    host.restore()?;
    let row = |kind, value, rank| Event::new(kind, ranked::Rank { id: 1, value, rank });
    let expected = [
        row(UpdateBefore, 20, 2),
        row(UpdateAfter, 25, 2),
        row(UpdateBefore, 10, 3),
        row(UpdateAfter, 20, 3),
    ];
    assert_eq!(host.process([item(1, 25)])?, expected);
    assert_eq!(host.process([item(1, 5)])?, [], "it is not among the first three");
    assert_eq!(
        host.process([item(2, 5)])?,
        [Event::new(Insert, ranked::Rank { id: 2, value: 5, rank: 1 })]
    );
    assert_eq!(host.values::<Value>("top")?.len(), 4, "what was pushed out is gone");
    Ok(())
}

#[test]
fn a_batch_reads_the_first_rows_once_and_tells_what_they_are_in_the_end() -> Result<()> {
    let mut host = TestHost::<ranked::Ranked>::new()?;
    assert_eq!(host.process((0..100).map(|n| item(n % 10, n)))?.len(), 30);
    assert_eq!(host.process((0..100).map(|n| item(n % 10, n + 1000)))?.len(), 60);
    let calls = host.calls("top")?;
    assert_eq!((calls.gets, calls.puts), (2, 2));
    Ok(())
}

#[test]
fn a_value_is_new_once_for_each_filter() -> Result<()> {
    let mut host = TestHost::<counted::Counted>::new()?;
    let new =
        |id, [all, even, small]: [bool; 3]| Event::insert(counted::New { id, all, even, small });
    assert_eq!(host.process([item(1, 32)])?, [new(1, [true, true, false])]);
    host.barrier()?;
    host.process([item(1, 12)])?;
    host.crash();
    host.restore()?;
    let expected =
        [new(1, [false, false, true]), new(1, [false, false, false]), new(2, [true, true, true])];
    assert_eq!(host.process([item(1, 12), item(1, 12), item(2, 12)])?, expected);
    let calls = host.calls("values")?;
    assert_eq!(calls.gets, 3, "one look-up for each batch");
    Ok(())
}

proptest! {
    /// However rows of both sides come, the join is that of the rows that are there.
    #[test]
    fn a_join_is_that_of_what_is_there(
        rows in vec((any::<bool>(), any::<bool>(), 0..3_i64, 0..3_i64), 0..60),
        batch_rows in 1..20_usize,
    ) {
        let mut there = [BTreeMap::new(), BTreeMap::new()];
        let mut events = Vec::new();
        for (is_left, adds, id, value) in rows {
            let count = there[usize::from(is_left)].entry((id, value)).or_insert(0);
            if adds || *count > 0 {
                *count += if adds { 1 } else { -1 };
                let kind = if adds { RowKind::Insert } else { RowKind::Delete };
                let side = if is_left { Side::Left } else { Side::Right };
                events.push(Event::new(kind, side(item(id, value))));
            }
        }
        let mut host = TestHost::<joined::Joined>::new().unwrap();
        let mut emitted = Vec::new();
        for batch in events.chunks(batch_rows) {
            emitted.extend(host.process_events(batch.iter().cloned()).unwrap());
        }
        let [right, left] = there;
        let mut expected = BTreeMap::new();
        for ((id, left), lefts) in &left {
            for ((_, right), rights) in right.iter().filter(|((other, _), _)| other == id) {
                expected.insert(pair(*id, *left, *right), lefts * rights);
            }
        }
        expected.retain(|_, count| *count != 0);
        prop_assert_eq!(table(emitted), expected);
    }

    /// The changelog of a ranking comes to the first rows of each key.
    #[test]
    fn a_ranking_is_that_of_all_rows(
        rows in vec((0..3_i64, 0..50_i64), 0..60),
        batch_rows in 1..20_usize,
    ) {
        let rows: BTreeSet<_> = rows.into_iter().collect();
        let mut shuffled: Vec<_> = rows.iter().map(|(id, value)| item(*id, *value)).collect();
        shuffled.sort_by_key(|item| item.value * 7 % 50);
        let mut host = TestHost::<ranked::Ranked>::new().unwrap();
        let mut emitted = Vec::new();
        for batch in shuffled.chunks(batch_rows) {
            emitted.extend(host.process(batch.iter().cloned()).unwrap());
        }
        let mut expected = BTreeMap::new();
        for id in 0..3 {
            let values = rows.iter().rev().filter(|(other, _)| *other == id).take(3);
            for ((_, value), rank) in values.zip(1..) {
                expected.insert(ranked::Rank { id, value: *value, rank }, 1);
            }
        }
        prop_assert_eq!(table(emitted), expected);
    }
}
