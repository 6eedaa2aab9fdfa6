//! Windows against a model that follows Apache Flink's window operator step by step: one timer
//! for each window and purpose, rows one by one.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic, in its helpers too"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use howdah_sdk::prelude::*;
use howdah_sdk::testing::{Event, TestHost};
use howdah_sdk::window::{Hopping, Pane, Session, Tumbling, WindowOptions, Windowing, Windows};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Row, Clone, Debug, PartialEq)]
struct Sale {
    shop: i64,
    amount: i64,
}

#[derive(Key, Debug)]
struct Shop {
    shop: i64,
}

#[derive(Row, Reduce, Clone, Debug, PartialEq)]
struct Totals {
    #[reduce(count)]
    sales: i64,
    #[reduce(sum)]
    amount: i64,
    #[reduce(min)]
    smallest: i64,
}

impl Totals {
    fn of(amount: i64) -> Self {
        Self { sales: 1, amount, smallest: amount }
    }
}

#[derive(Row, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fired {
    shop: i64,
    start: i64,
    end: i64,
    sales: i64,
    amount: i64,
    smallest: i64,
}

#[derive(Outputs)]
struct Out {
    fired: Emitter<Fired>,
    late: Emitter<Sale>,
}

/// Windows of the test.
trait Sizes: 'static {
    type Windowing: Windowing;
    const SIZES: Self::Windowing;
    const MERGES: bool = false;

    /// The windows of a row, as the model has them.
    fn model(time: i64) -> Vec<Span>;
}

/// Starts and ends of windows of a size that begin every `slide`, found by trying.
fn spans(time: i64, size: i64, slide: i64, offset: i64) -> Vec<Span> {
    (-200..400)
        .filter(|start| (start - offset) % slide == 0 && (*start..start + size).contains(&time))
        .map(|start| (start, start + size))
        .collect()
}

struct Tumbles;
struct Hops;
/// Windows with gaps between them.
struct Gaps;
struct Sessions;

impl Sizes for Tumbles {
    type Windowing = Tumbling;
    const SIZES: Tumbling = Tumbling { size_ms: 20, offset_ms: 3 };

    fn model(time: i64) -> Vec<Span> {
        spans(time, 20, 20, 3)
    }
}

impl Sizes for Hops {
    type Windowing = Hopping;
    const SIZES: Hopping = Hopping { size_ms: 30, slide_ms: 10, offset_ms: -4 };

    fn model(time: i64) -> Vec<Span> {
        spans(time, 30, 10, -4)
    }
}

impl Sizes for Gaps {
    type Windowing = Hopping;
    const SIZES: Hopping = Hopping { size_ms: 8, slide_ms: 20, offset_ms: 0 };

    fn model(time: i64) -> Vec<Span> {
        spans(time, 8, 20, 0)
    }
}

impl Sizes for Sessions {
    type Windowing = Session;
    const SIZES: Session = Session::of_millis(15);
    const MERGES: bool = true;

    fn model(time: i64) -> Vec<Span> {
        vec![(time, time + 15)]
    }
}

/// How late rows may be.
trait Lateness: 'static {
    const MS: i64;
}

struct Prompt;
struct Patient;

impl Lateness for Prompt {
    const MS: i64 = 0;
}

impl Lateness for Patient {
    const MS: i64 = 25;
}

struct Sales<W: Sizes, L> {
    windows: Windows<Shop, W::Windowing, Totals>,
    lateness: PhantomData<L>,
}

impl<W: Sizes, L: Lateness> Sales<W, L> {
    fn emit(key: &CurrentKey<'_, Shop>, pane: Pane<Totals>, out: &mut Out) -> Result<()> {
        let Shop { shop } = key.key()?;
        let (window, Totals { sales, amount, smallest }) = (pane.window, pane.result);
        let (start, end) = (window.start.millis(), window.end.millis());
        let row = Fired { shop, start, end, sales, amount, smallest };
        out.fired.emit_at(RowKind::Insert, window.max_timestamp(), &row);
        Ok(())
    }
}

impl<W: Sizes, L: Lateness> Operator for Sales<W, L> {
    type Input = Sale;
    type Key = Shop;
    type Output = Out;

    fn open(open: &mut Open<Shop>) -> Result<Self> {
        let options = WindowOptions { allowed_lateness_ms: L::MS };
        Ok(Self { windows: open.windows("sales", W::SIZES, options)?, lateness: PhantomData })
    }

    fn process(&mut self, sale: Sale, record: &Record<'_, Shop>, out: &mut Out) -> Result<()> {
        let added = self.windows.add(record, &Totals::of(sale.amount))?;
        if added.is_late() {
            out.late.emit(&sale);
        }
        added.into_iter().try_for_each(|pane| Self::emit(record, pane, out))
    }

    fn on_timer(&mut self, timer: &Timer<'_, Shop>, out: &mut Out) -> Result<()> {
        let pane = self.windows.on_timer(timer)?;
        pane.into_iter().try_for_each(|pane| Self::emit(timer, pane, out))
    }
}

type Span = (i64, i64);

/// Flink's window operator, for one subtask.
#[derive(Clone)]
struct Model {
    lateness_ms: i64,
    merges: bool,
    watermark: i64,
    windows: BTreeMap<(i64, Span), Totals>,
    /// Time, shop and window.
    timers: BTreeSet<(i64, i64, Span)>,
}

impl Model {
    fn new(lateness_ms: i64, merges: bool) -> Self {
        Self {
            lateness_ms,
            merges,
            watermark: i64::MIN,
            windows: BTreeMap::new(),
            timers: BTreeSet::new(),
        }
    }

    fn cleanup_time(&self, window: Span) -> i64 {
        window.1 - 1 + self.lateness_ms
    }

    fn fired(&self, shop: i64, window: Span) -> Fired {
        let Totals { sales, amount, smallest } = self.windows[&(shop, window)].clone();
        Fired { shop, start: window.0, end: window.1, sales, amount, smallest }
    }

    /// Gives the windows that fire, or `None` for a row that is late.
    fn add(&mut self, shop: i64, time: i64, amount: i64, windows: &[Span]) -> Option<Vec<Fired>> {
        let mut fired = Vec::new();
        let mut is_skipped = true;
        for &own in windows {
            let mut window = own;
            let mut merged: Option<Totals> = None;
            if self.merges {
                let touching: Vec<Span> = self
                    .windows
                    .keys()
                    .filter(|(other, (start, end))| {
                        *other == shop && *start <= own.1 && own.0 <= *end
                    })
                    .map(|(_, span)| *span)
                    .collect();
                for other in touching {
                    window = (window.0.min(other.0), window.1.max(other.1));
                    let totals = self.windows.remove(&(shop, other)).unwrap();
                    self.timers.retain(|(_, at, span)| (*at, *span) != (shop, other));
                    match &mut merged {
                        None => merged = Some(totals),
                        Some(merged) => add(merged, &totals),
                    }
                }
                if merged.is_some() && window.1 - 1 > self.watermark {
                    self.timers.insert((window.1 - 1, shop, window));
                }
            }
            if self.cleanup_time(window) <= self.watermark {
                assert_eq!(merged, None, "a window that is kept is not late");
                continue;
            }
            is_skipped = false;
            let mut totals = merged.or_else(|| self.windows.get(&(shop, window)).cloned());
            match &mut totals {
                None => totals = Some(Totals::of(amount)),
                Some(totals) => add(totals, &Totals::of(amount)),
            }
            self.windows.insert((shop, window), totals.unwrap());
            if window.1 - 1 <= self.watermark {
                fired.push(self.fired(shop, window));
            } else {
                self.timers.insert((window.1 - 1, shop, window));
            }
            self.timers.insert((self.cleanup_time(window), shop, window));
        }
        let is_late = time + self.lateness_ms <= self.watermark;
        (!(is_skipped && is_late)).then_some(fired)
    }

    fn advance(&mut self, watermark: i64) -> Vec<Fired> {
        self.watermark = self.watermark.max(watermark);
        let mut fired = Vec::new();
        while let Some((time, shop, window)) = self.timers.first().copied() {
            if time > self.watermark {
                break;
            }
            self.timers.pop_first();
            if time == window.1 - 1 {
                fired.push(self.fired(shop, window));
            }
            if time == self.cleanup_time(window) {
                self.windows.remove(&(shop, window));
            }
        }
        fired
    }
}

fn add(totals: &mut Totals, other: &Totals) {
    totals.sales += other.sales;
    totals.amount += other.amount;
    totals.smallest = totals.smallest.min(other.smallest);
}

#[derive(Debug, Clone)]
enum Step {
    /// Shop, event time and amount of each row.
    Batch(Vec<(i64, i64, i64)>),
    Watermark(i64),
    Barrier,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Mostly in order, with stragglers.
    let batch = |base: i64| {
        let time = prop_oneof![4 => base..base + 40, 1 => base - 60..base];
        vec((0..3_i64, time, 1..100_i64), 1..15).prop_map(Step::Batch)
    };
    let step = (0..250_i64).prop_flat_map(move |base| {
        prop_oneof![
            5 => batch(base),
            4 => (base - 20..base + 20).prop_map(Step::Watermark),
            1 => Just(Step::Barrier),
            1 => Just(Step::Crash),
        ]
    });
    vec(step, 1..30).prop_map(|mut steps| {
        // Time goes on, here and there back.
        let base = |step: &Step| match step {
            Step::Batch(rows) => rows[0].1,
            Step::Watermark(watermark) => *watermark,
            Step::Barrier | Step::Crash => 125,
        };
        let middle = steps.len() / 2;
        steps[..middle].sort_by_key(base);
        steps
    })
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort();
    values
}

/// Whether an operator and the model agree on all steps.
fn check<W: Sizes, L: Lateness>(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut host = TestHost::<Sales<W, L>>::new().unwrap();
    let mut model = Model::new(L::MS, W::MERGES);
    let mut committed = model.clone();
    let mut late_rows = 0;
    let last = Step::Watermark(i64::MAX);
    for step in steps.into_iter().chain([last]) {
        match step {
            Step::Batch(rows) => {
                let sale = |(shop, time, amount): &(i64, i64, i64)| {
                    let sale = Sale { shop: *shop, amount: *amount };
                    Event::insert(sale).at(Timestamp::from_millis(*time))
                };
                let mut expected = Vec::new();
                let mut expected_late = Vec::new();
                for row in &rows {
                    match model.add(row.0, row.1, row.2, &W::model(row.1)) {
                        Some(fired) => expected.extend(fired),
                        None => expected_late.push(sale(row)),
                    }
                }
                let before = host.calls("sales").unwrap();
                let (fired, late) = host.process_events(rows.iter().map(sale)).unwrap();
                let after = host.calls("sales").unwrap();
                prop_assert!(after.gets - before.gets <= 1, "one look-up for a batch");
                let fired = fired.into_iter().map(|event| event.row).collect();
                prop_assert_eq!(sorted(fired), sorted(expected));
                late_rows += expected_late.len() as u64;
                prop_assert_eq!(late, expected_late);
            }
            Step::Watermark(watermark) => {
                let (fired, late) =
                    host.advance_watermark(Timestamp::from_millis(watermark)).unwrap();
                prop_assert_eq!(late, []);
                for shop in 0..3 {
                    let of_shop = fired.iter().filter(|event| event.row.shop == shop);
                    let ends: Vec<i64> = of_shop.map(|event| event.row.end).collect();
                    prop_assert!(ends.is_sorted(), "a key fires in the order of ends: {:?}", ends);
                }
                for event in &fired {
                    prop_assert_eq!(event.timestamp.millis(), event.row.end - 1);
                }
                let fired = fired.into_iter().map(|event| event.row).collect();
                prop_assert_eq!(sorted(fired), sorted(model.advance(watermark)));
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
        prop_assert_eq!(host.counter("sales_late_rows_total"), late_rows);
        prop_assert_eq!(stored(&host), model.windows.clone());
    }
    prop_assert_eq!(host.timers("sales-timers").unwrap().len(), 0, "nothing is left behind");
    Ok(())
}

#[derive(Row)]
struct Start {
    window_start: Timestamp,
}

#[derive(Row)]
struct Stored {
    window_end: Timestamp,
    fired: bool,
    sales: i64,
    amount: i64,
    smallest: i64,
}

/// The windows that the operator keeps.
fn stored<W: Sizes, L: Lateness>(host: &TestHost<Sales<W, L>>) -> BTreeMap<(i64, Span), Totals> {
    let mut windows = BTreeMap::new();
    for shop in 0..3 {
        for (start, stored) in host.map::<Start, Stored>("sales", &Shop { shop }).unwrap() {
            let span = (start.window_start.millis(), stored.window_end.millis());
            let Stored { sales, amount, smallest, fired, .. } = stored;
            assert!(!fired || L::MS > 0, "without lateness, a window goes when it fires");
            windows.insert((shop, span), Totals { sales, amount, smallest });
        }
    }
    windows
}

proptest! {
    #[test]
    fn tumbling_windows_are_those_of_the_model(steps in steps()) {
        check::<Tumbles, Prompt>(steps)?;
    }

    #[test]
    fn tumbling_windows_with_lateness_are_those_of_the_model(steps in steps()) {
        check::<Tumbles, Patient>(steps)?;
    }

    #[test]
    fn hopping_windows_are_those_of_the_model(steps in steps()) {
        check::<Hops, Prompt>(steps)?;
    }

    #[test]
    fn hopping_windows_with_lateness_are_those_of_the_model(steps in steps()) {
        check::<Hops, Patient>(steps)?;
    }

    #[test]
    fn windows_with_gaps_are_those_of_the_model(steps in steps()) {
        check::<Gaps, Patient>(steps)?;
    }

    #[test]
    fn session_windows_are_those_of_the_model(steps in steps()) {
        check::<Sessions, Prompt>(steps)?;
    }

    #[test]
    fn session_windows_with_lateness_are_those_of_the_model(steps in steps()) {
        check::<Sessions, Patient>(steps)?;
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn sale(amount: i64, millis: i64) -> Event<Sale> {
    Event::insert(Sale { shop: 1, amount }).at(at(millis))
}

#[test]
fn rows_at_the_ends_of_time_are_no_trouble() {
    let mut host = TestHost::<Sales<Hops, Patient>>::new().unwrap();
    let (fired, late) =
        host.process_events([sale(1, i64::MIN), sale(2, i64::MAX), sale(3, i64::MAX - 5)]).unwrap();
    assert_eq!((fired.len(), late.len()), (0, 0));
    let (fired, _) = host.advance_watermark(at(i64::MIN + 1_000)).unwrap();
    assert!(fired.iter().all(|event| event.row.amount == 1), "{fired:?}");
    let (fired, _) = host.advance_watermark(Timestamp::MAX).unwrap();
    assert!(fired.iter().all(|event| event.row.amount >= 2), "{fired:?}");
}
