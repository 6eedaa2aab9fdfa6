//! Lists, maps, reducing state and timers against plain collections, with random batches,
//! barriers and crashes.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};

use howdah_sdk::prelude::*;
use howdah_sdk::testing::{Event, TestHost};
use proptest::collection::vec;
use proptest::prelude::*;

/// What to do to a key.
#[derive(Row, Clone, Debug, PartialEq)]
struct Order {
    key: i64,
    verb: String,
    a: i64,
    b: i64,
}

/// What came of it.
#[derive(Row, Clone, Debug, PartialEq)]
struct Answer {
    text: String,
}

#[derive(Key, Clone, Debug, PartialEq)]
struct OrderKey {
    key: i64,
}

#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    group: String,
    number: i64,
}

#[derive(Row, Clone, Debug, PartialEq)]
struct Number {
    value: i64,
}

#[derive(Row, Reduce, Clone, Debug, PartialEq)]
struct Folded {
    #[reduce(sum)]
    sum: i64,
    #[reduce(count)]
    count: i64,
    #[reduce(min)]
    min: Option<i64>,
    #[reduce(max)]
    max: String,
    #[reduce(first)]
    first: i64,
    #[reduce(last)]
    last: i64,
}

#[derive(States)]
struct Obedient {
    list: ListState<OrderKey, Number>,
    map: MapState<OrderKey, Item, Number>,
    folded: ReducingState<OrderKey, Folded>,
}

/// Items whose order by size is not that of their bytes.
fn item(a: i64) -> Item {
    Item { group: if a % 3 == 0 { "z".to_owned() } else { "a".to_owned() }, number: a - 3 }
}

fn limit(b: i64) -> usize {
    usize::try_from(b).unwrap()
}

fn folded(a: i64, b: i64) -> Folded {
    let min = (a % 2 == 0).then_some(b);
    Folded { sum: a, count: 1, min, max: format!("{b}"), first: a, last: b }
}

impl Obedient {
    fn obey(&mut self, order: &Order, record: &Record<'_, OrderKey>) -> Result<String> {
        let Order { verb, a, b, .. } = order;
        Ok(match verb.as_str() {
            "append" => {
                self.list.append(record, Number { value: *a });
                String::new()
            }
            "list" => format!("{:?}", self.list.get(record)?),
            "clear list" => {
                self.list.clear(record);
                String::new()
            }
            "put" => {
                self.map.put(record, item(*a), Number { value: *b });
                String::new()
            }
            "get" => format!("{:?}", self.map.get(record, &item(*a))?),
            "remove" => {
                self.map.remove(record, item(*a));
                String::new()
            }
            "entries" => format!("{:?}", self.map.entries(record)?),
            "range" => format!("{:?}", self.map.range(record, item(*a).., limit(*b))?),
            "range to" => format!("{:?}", self.map.range(record, ..=item(*a), limit(*b))?),
            "clear map" => {
                self.map.clear(record);
                String::new()
            }
            "add" => {
                self.folded.add(record, folded(*a, *b))?;
                String::new()
            }
            "folded" => format!("{:?}", self.folded.get(record)?),
            _ => {
                self.folded.clear(record);
                String::new()
            }
        })
    }
}

#[operator]
impl Obedient {
    fn prepare(&mut self, order: &Order, record: &Record<OrderKey>) -> Result<()> {
        if order.verb == "get" {
            self.map.want(record, item(order.a));
        }
        Ok(())
    }

    fn process(
        &mut self,
        order: Order,
        record: &Record<OrderKey>,
        out: &mut Emitter<Answer>,
    ) -> Result<()> {
        let text = self.obey(&order, record)?;
        out.emit(&Answer { text });
        Ok(())
    }
}

const VERBS: [&str; 13] = [
    "append",
    "list",
    "clear list",
    "put",
    "get",
    "remove",
    "entries",
    "range",
    "range to",
    "clear map",
    "add",
    "folded",
    "clear folded",
];

/// Plain collections.
#[derive(Clone, Default)]
struct Model {
    lists: BTreeMap<i64, Vec<Number>>,
    maps: BTreeMap<i64, BTreeMap<Item, Number>>,
    folded: BTreeMap<i64, Folded>,
}

impl Model {
    fn obey(&mut self, order: &Order) -> String {
        let Order { key, verb, a, b } = order;
        let list = self.lists.entry(*key).or_default();
        let map = self.maps.entry(*key).or_default();
        let owned = |(item, number): (&Item, &Number)| (item.clone(), number.clone());
        match verb.as_str() {
            "append" => list.push(Number { value: *a }),
            "list" => return format!("{list:?}"),
            "clear list" => list.clear(),
            "put" => drop(map.insert(item(*a), Number { value: *b })),
            "get" => return format!("{:?}", map.get(&item(*a))),
            "remove" => drop(map.remove(&item(*a))),
            "entries" => return format!("{:?}", map.iter().map(owned).collect::<Vec<_>>()),
            "range" => {
                let range = map.range(item(*a)..).take(limit(*b));
                return format!("{:?}", range.map(owned).collect::<Vec<_>>());
            }
            "range to" => {
                let range = map.range(..=item(*a)).take(limit(*b));
                return format!("{:?}", range.map(owned).collect::<Vec<_>>());
            }
            "clear map" => map.clear(),
            "add" => self.add(*key, &folded(*a, *b)),
            "folded" => return format!("{:?}", self.folded.get(key)),
            _ => drop(self.folded.remove(key)),
        }
        String::new()
    }

    fn add(&mut self, key: i64, added: &Folded) {
        let Some(old) = self.folded.get_mut(&key) else {
            self.folded.insert(key, added.clone());
            return;
        };
        old.sum += added.sum;
        old.count += 1;
        old.min = [old.min, added.min].into_iter().flatten().min();
        old.max = old.max.clone().max(added.max.clone());
        old.last = added.last;
    }
}

#[derive(Debug, Clone)]
enum Step {
    Batch(Vec<Order>),
    Barrier,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let order = (0..4_i64, proptest::sample::select(&VERBS[..]), 0..9_i64, 0..5_i64)
        .prop_map(|(key, verb, a, b)| Order { key, verb: verb.to_owned(), a, b });
    let step = prop_oneof![
        6 => vec(order, 1..25).prop_map(Step::Batch),
        1 => Just(Step::Barrier),
        1 => Just(Step::Crash),
    ];
    vec(step, 1..25)
}

proptest! {
    #[test]
    fn states_are_what_plain_collections_are(steps in steps()) {
        let mut host = TestHost::<Obedient>::new().unwrap();
        let mut model = Model::default();
        let mut committed = model.clone();
        for step in steps {
            match step {
                Step::Batch(orders) => {
                    let expected: Vec<_> = orders
                        .iter()
                        .map(|order| Event::insert(Answer { text: model.obey(order) }))
                        .collect();
                    let before = ["list", "map", "folded"].map(|state| host.calls(state).unwrap());
                    prop_assert_eq!(host.process(orders).unwrap(), expected);
                    let after = ["list", "map", "folded"].map(|state| host.calls(state).unwrap());
                    for (before, after) in before.iter().zip(&after) {
                        prop_assert!(after.puts - before.puts <= 1);
                    }
                    prop_assert!(after[0].gets - before[0].gets <= 1, "one look-up of lists");
                    prop_assert!(after[2].gets - before[2].gets <= 1, "one look-up of sums");
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
            for key in 0..4 {
                let order_key = OrderKey { key };
                let list = model.lists.get(&key).cloned().unwrap_or_default();
                prop_assert_eq!(host.list::<Number>("list", &order_key).unwrap(), list);
                let map = model.maps.get(&key).cloned().unwrap_or_default();
                let stored = host.map::<Item, Number>("map", &order_key).unwrap();
                prop_assert_eq!(stored, map.into_iter().collect::<Vec<_>>());
                let folded = host.value::<Folded>("folded", &order_key).unwrap();
                prop_assert_eq!(folded.as_ref(), model.folded.get(&key));
            }
        }
    }
}

fn order(key: i64, verb: &str, a: i64, b: i64) -> Order {
    Order { key, verb: verb.to_owned(), a, b }
}

#[test]
fn entries_that_are_wanted_come_in_one_call() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process((0..60).map(|n| order(n % 4, "put", n, n)))?;
    host.process((0..60).map(|n| order(n % 4, "get", n, 0)))?;
    let calls = host.calls("map")?;
    assert_eq!((calls.gets, calls.keys_read, calls.puts), (1, 60, 1));
    Ok(())
}

#[test]
fn an_append_or_an_addition_reads_nothing() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    for _ in 0..3 {
        host.process((0..60).flat_map(|n| [order(n % 4, "append", n, n), order(n, "add", n, n)]))?;
    }
    assert_eq!((host.calls("list")?.gets, host.calls("list")?.puts), (0, 3));
    assert_eq!((host.calls("folded")?.gets, host.calls("folded")?.puts), (0, 3));
    Ok(())
}

#[test]
fn an_entry_that_is_written_as_it_was_is_not_written() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process([order(1, "put", 5, 6)])?;
    host.process([order(1, "get", 5, 0), order(1, "put", 5, 7), order(1, "put", 5, 6)])?;
    assert_eq!(host.calls("map")?.puts, 1);
    Ok(())
}

#[test]
fn a_map_of_many_pages_is_read_whole() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process((0..10_000).map(|n| order(1, "put", n, n)))?;
    let all = host.map::<Item, Number>("map", &OrderKey { key: 1 })?;
    let answers = host.process([order(1, "remove", 30, 0), order(1, "entries", 0, 0)])?;
    let left: Vec<_> = all.into_iter().filter(|(other, _)| *other != item(30)).collect();
    assert_eq!(answers[1].row.text, format!("{left:?}"));
    assert!(host.calls("map")?.gets < 10);
    Ok(())
}

#[test]
fn a_long_list_among_many_is_read_whole() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process((0..3_000).map(|n| order(n % 1_000 / 999, "append", n, 0)))?;
    host.process((0..1_000).map(|n| order(n, "append", n, 0)))?;
    let answers = host.process((0..1_000).map(|n| order(n, "list", 0, 0)))?;
    let list = host.list::<Number>("list", &OrderKey { key: 0 })?;
    assert_eq!((answers[0].row.text.clone(), list.len()), (format!("{list:?}"), 2_998));
    assert_eq!(answers[999].row.text, format!("{:?}", [Number { value: 999 }]));
    assert_eq!(host.calls("list")?.gets, 2, "the others, and the long one");
    Ok(())
}

#[test]
fn a_sum_that_does_not_fit_fails_the_batch_and_names_the_field() -> Result<()> {
    let mut host = TestHost::<Obedient>::new()?;
    host.process([order(1, "add", i64::MAX, 0)])?;
    let error = host.process([order(1, "folded", 0, 0), order(1, "add", 1, 0)]).unwrap_err();
    assert!(error.message().contains("`folded`"), "{error}");
    assert!(error.message().contains("`sum`"), "{error}");
    Ok(())
}

// ---------------------------------------------------------------------------------------------

/// A timer to set or delete, at once or from the timer before it.
#[derive(Row, Clone, Debug, PartialEq)]
struct Wish {
    key: i64,
    family: i32,
    /// Set, or delete.
    set: bool,
    time: Timestamp,
}

#[derive(Row, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rang {
    key: i64,
    family: i32,
    time: Timestamp,
    /// How many timers of the key rang before.
    number: i64,
}

#[derive(States)]
struct Clockwork {
    rung: ValueState<OrderKey, Number>,
    early: Timers<OrderKey>,
    late: Timers<OrderKey>,
    #[state(processing_time)]
    wall: Timers<OrderKey>,
}

struct ClockworkOperator(Clockwork);

impl Operator for ClockworkOperator {
    type Input = Wish;
    type Key = OrderKey;
    type Output = Rang;

    fn open(open: &mut Open<OrderKey>) -> Result<Self> {
        States::open(open).map(Self)
    }

    fn process(
        &mut self,
        wish: Wish,
        record: &Record<'_, OrderKey>,
        _: &mut Emitter<Rang>,
    ) -> Result<()> {
        let Clockwork { early, late, wall, .. } = &mut self.0;
        let timers = match wish.family {
            0 => early,
            1 => late,
            _ => wall,
        };
        if wish.set {
            timers.set(record, wish.time);
        } else {
            timers.delete(record, wish.time);
        }
        Ok(())
    }

    /// Each timer at a time that is a multiple of 10 sets another of the same family, 7 later.
    fn on_timer(&mut self, timer: &Timer<'_, OrderKey>, out: &mut Emitter<Rang>) -> Result<()> {
        let Clockwork { rung, early, late, wall } = &mut self.0;
        let number = rung.get(timer)?.map_or(0, |number| number.value);
        rung.put(timer, Number { value: number + 1 });
        let (family, timers) = match () {
            () if timer.is(early) => (0, early),
            () if timer.is(late) => (1, late),
            () => (2, wall),
        };
        let time = timer.time();
        if time.millis() % 10 == 0 {
            timers.set(timer, time.plus_millis(7));
        }
        out.emit(&Rang { key: timer.key()?.key, family, time, number });
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Tick {
    Wishes(Vec<Wish>),
    Watermark(i64),
    Clock(i64),
    Barrier,
    Crash,
}

fn ticks() -> impl Strategy<Value = Vec<Tick>> {
    let wish =
        (0..4_i64, 0..3_i32, any::<bool>(), 0..60_i64).prop_map(|(key, family, set, time)| Wish {
            key,
            family,
            set,
            time: Timestamp::from_millis(time),
        });
    let tick = prop_oneof![
        5 => vec(wish, 1..15).prop_map(Tick::Wishes),
        3 => (0..80_i64).prop_map(Tick::Watermark),
        2 => (0..80_i64).prop_map(Tick::Clock),
        1 => Just(Tick::Barrier),
        1 => Just(Tick::Crash),
    ];
    vec(tick, 1..25)
}

/// All timers, in one set.
#[derive(Clone, Default)]
struct Clocks {
    watermark: Option<i64>,
    clock: i64,
    /// Time, family and key.
    set: BTreeSet<(i64, i32, i64)>,
    rung: BTreeMap<i64, i64>,
}

impl Clocks {
    fn rings(&mut self) -> Vec<Rang> {
        let mut rang = Vec::new();
        loop {
            let next = |wanted: &dyn Fn(i32) -> bool, until: i64| {
                self.set.iter().find(|(time, family, _)| wanted(*family) && *time <= until).copied()
            };
            let event_time = self.watermark.and_then(|until| next(&|family| family < 2, until));
            let Some(timer) = event_time.or_else(|| next(&|family| family == 2, self.clock)) else {
                return rang;
            };
            self.set.remove(&timer);
            let (time, family, key) = timer;
            if time % 10 == 0 {
                self.set.insert((time + 7, family, key));
            }
            let number = self.rung.entry(key).or_default();
            rang.push(Rang { key, family, time: Timestamp::from_millis(time), number: *number });
            *number += 1;
        }
    }
}

proptest! {
    /// Each timer rings once, and those of a key in order: its state counts them.
    #[test]
    fn timers_ring_once_and_in_order(ticks in ticks()) {
        let mut host = TestHost::<ClockworkOperator>::new().unwrap();
        let mut model = Clocks::default();
        let mut committed = model.clone();
        for tick in ticks {
            let rang = match tick {
                Tick::Wishes(wishes) => {
                    for Wish { key, family, set, time } in &wishes {
                        let timer = (time.millis(), *family, *key);
                        if *set {
                            model.set.insert(timer);
                        } else {
                            model.set.remove(&timer);
                        }
                    }
                    host.process(wishes).unwrap()
                }
                Tick::Watermark(watermark) => {
                    model.watermark = model.watermark.max(Some(watermark));
                    host.advance_watermark(Timestamp::from_millis(watermark)).unwrap()
                }
                Tick::Clock(clock) => {
                    model.clock = model.clock.max(clock);
                    host.advance_clock(Timestamp::from_millis(clock)).unwrap()
                }
                Tick::Barrier => {
                    let rang = host.barrier().unwrap();
                    committed = model.clone();
                    rang
                }
                Tick::Crash => {
                    host.crash();
                    host.restore().unwrap();
                    model = Clocks { clock: model.clock, ..committed.clone() };
                    // What the clock made due comes back with the next call.
                    host.advance_clock(Timestamp::from_millis(0)).unwrap()
                }
            };
            for event in &rang {
                prop_assert_eq!(event.timestamp, event.row.time);
            }
            let by_key = |rang: Vec<Rang>| {
                let mut by_key: BTreeMap<i64, Vec<Rang>> = BTreeMap::new();
                rang.into_iter().for_each(|rang| by_key.entry(rang.key).or_default().push(rang));
                by_key
            };
            let rang = rang.into_iter().map(|event| event.row).collect();
            prop_assert_eq!(by_key(rang), by_key(model.rings()));
            for (family, name) in (0..).zip(["early", "late", "wall"]) {
                let set = model.set.iter().filter(|timer| timer.1 == family);
                let set: Vec<_> = set.map(|(time, _, key)| (*time, *key)).collect();
                let timers = host.timers(name).unwrap().into_iter();
                let timers: Vec<_> = timers.map(|(key, time)| (time.millis(), key.key)).collect();
                prop_assert_eq!(timers, set);
            }
        }
    }
}

fn wish(key: i64, set: bool, time: i64) -> Wish {
    Wish { key, family: 0, set, time: Timestamp::from_millis(time) }
}

#[test]
fn timers_of_a_batch_are_set_in_one_call_and_of_the_same_one_the_last_order_counts() -> Result<()> {
    let mut host = TestHost::<ClockworkOperator>::new()?;
    host.process((0..100).map(|n| wish(n % 3, true, 50 + n % 2)))?;
    let calls = host.calls("early")?;
    assert_eq!((calls.puts, calls.keys_written, calls.deletes), (1, 6, 0));
    host.process([wish(1, false, 50), wish(1, true, 50), wish(2, true, 50), wish(2, false, 50)])?;
    let times: Vec<_> = host.timers("early")?.into_iter().map(|(key, _)| key.key).collect();
    assert_eq!(times, [0, 1, 0, 1, 2]);
    Ok(())
}
