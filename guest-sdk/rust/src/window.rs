//! Windows of event time: tumbling, hopping and session windows, with allowed lateness.
//!
//! [`Windows`] is a state like others: it belongs in a field of the operator, rows are
//! [`add`](Windows::add)ed to it in `process`, and [`on_timer`](Windows::on_timer) passes timers on
//! to it. What it gives back are [`Pane`]s: windows with what their rows were aggregated to.
//!
//! ```
//! use howdah_sdk::prelude::*;
//! use howdah_sdk::testing::{Event, TestHost};
//! use howdah_sdk::window::{Tumbling, WindowOptions, Windows};
//!
//! #[derive(Row, Clone)]
//! struct Bid { auction: i64, price: i64 }
//! #[derive(Key)]
//! struct Auction { auction: i64 }
//!
//! /// What the bids of a window are aggregated to.
//! #[derive(Row, Reduce, Clone)]
//! struct Prices {
//!     #[reduce(count)]
//!     bids: i64,
//!     #[reduce(max)]
//!     highest: i64,
//! }
//!
//! #[derive(Row, Debug, PartialEq)]
//! struct Minute { auction: i64, start: Timestamp, bids: i64, highest: i64 }
//!
//! struct Minutes { windows: Windows<Auction, Tumbling, Prices> }
//!
//! #[operator]
//! impl Minutes {
//!     fn open(open: &mut Open<Auction>) -> Result<Self> {
//!         let minute = Tumbling::of_millis(60_000);
//!         Ok(Self { windows: open.windows("minutes", minute, WindowOptions::default())? })
//!     }
//!
//!     fn process(
//!         &mut self,
//!         bid: Bid,
//!         record: &Record<Auction>,
//!         out: &mut Emitter<Minute>,
//!     ) -> Result<()> {
//!         let added = self.windows.add(record, &Prices { bids: 1, highest: bid.price })?;
//!         added.into_iter().try_for_each(|pane| Self::emit(record, pane, out))
//!     }
//!
//!     fn on_timer(&mut self, timer: &Timer<Auction>, out: &mut Emitter<Minute>) -> Result<()> {
//!         let pane = self.windows.on_timer(timer)?;
//!         pane.into_iter().try_for_each(|pane| Self::emit(timer, pane, out))
//!     }
//!
//!     fn emit(
//!         key: &CurrentKey<Auction>,
//!         pane: Pane<Prices>,
//!         out: &mut Emitter<Minute>,
//!     ) -> Result<()> {
//!         let Auction { auction } = key.key()?;
//!         let Prices { bids, highest } = pane.result;
//!         out.emit(&Minute { auction, start: pane.window.start, bids, highest });
//!         Ok(())
//!     }
//! }
//! # use howdah_sdk::window::Pane;
//!
//! # fn main() -> Result<()> {
//! let mut host = TestHost::<Minutes>::new()?;
//! let bid = |price, ms| Event::insert(Bid { auction: 1, price }).at(Timestamp::from_millis(ms));
//! host.process_events([bid(30, 1_000), bid(20, 59_999), bid(70, 60_000)])?;
//! let minutes = host.advance_watermark(Timestamp::from_millis(59_999))?;
//! let start = Timestamp::from_millis(0);
//! assert_eq!(minutes[0].row, Minute { auction: 1, start, bids: 2, highest: 30 });
//! # Ok(())
//! # }
//! ```
//!
//! # Semantics
//!
//! They are those of Apache Flink's event-time windows, to the millisecond.
//!
//! * A window has its `start` and not its `end`: `[start, end)`. Its greatest timestamp is
//!   `end - 1`.
//! * [`Tumbling`] windows of a size lie side by side, from an offset after the Unix epoch. A row
//!   belongs to one of them.
//! * [`Hopping`] windows of a size begin every `slide`. A row belongs to `size / slide` of them, and
//!   to none if it falls into a gap between windows smaller than their slide.
//! * [`Session`] windows belong to a key alone. A row opens `[time, time + gap)`; windows that overlap
//!   or touch become one, from the first start to the last end, and so do their results.
//! * A window **fires** when the watermark reaches `end - 1`: its pane is given out, by a timer of
//!   the key for that time. Each key fires its windows in the order of their ends.
//! * A row is **late** for a window if the watermark has reached `end - 1 + allowed lateness`. A row
//!   that is late for all its windows changes nothing: [`Added::is_late`] says so, and the counter
//!   `<name>_late_rows_total` counts it. A session is judged by the window that the row would make it.
//!   In a pipeline the watermark rises after each batch of a source, so how many rows are late depends
//!   on batches: a small file is one batch, of which none is late.
//! * A row for a window that has fired, but for which it is not late, is added and fires it again at
//!   once. When the watermark reaches `end - 1 + allowed lateness`, the window is removed. Without
//!   allowed lateness that is when it fires.
//! * A session that has fired and is extended past the watermark fires again at its new end.
//! * After a restart the watermark may be lower than it was. A window that had fired fires again at
//!   its end if a row comes for it before.
//!
//! # State
//!
//! One [`MapState`] with the map key `window_start`, and the columns `window_end`,
//! `fired` and those of the result; one family of timers, `<name>-timers`. The windows of all rows of a
//! batch are read in one call.

use std::marker::PhantomData;

use crate::columns::{Column, ColumnBuilder};
use crate::metrics::Counter;
use crate::{
    CurrentKey, Error, Field, Key, MapState, Open, Record, Reduce, Result, Row, Timer, Timers,
    Timestamp, Value, row,
};

/// A span of event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// The first moment of it.
    pub start: Timestamp,
    /// The first moment after it.
    pub end: Timestamp,
}

impl Window {
    /// The last moment of it: the event time with which its result should be emitted.
    pub fn max_timestamp(&self) -> Timestamp {
        self.end.plus_millis(-1)
    }

    /// Whether they have a moment in common, or one begins where the other ends.
    fn touches(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// A window that fired, and what its rows were aggregated to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pane<A> {
    /// The window.
    pub window: Window,
    /// What its rows were aggregated to.
    pub result: A,
}

/// What the rows of a window are aggregated to: a row of the state that takes in others of its
/// kind. `#[derive(Row, Reduce)]` makes one; write it by hand for what that cannot say.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot aggregate the rows of a window",
    note = "derive it: #[derive(Row, Reduce, Clone)]; or implement `window::Aggregate`"
)]
pub trait Aggregate: Row + Clone + 'static {
    /// Takes another in. Sessions merge, so `other` may stand for several rows.
    ///
    /// # Errors
    /// What the operator should fail with, for example that a sum does not fit.
    fn merge(&mut self, other: &Self) -> Result<()>;
}

impl<A: Row + Reduce + Clone + 'static> Aggregate for A {
    fn merge(&mut self, other: &Self) -> Result<()> {
        Reduce::merge(self, other)
    }
}

/// Windows of one size, side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tumbling {
    /// How long a window is, in milliseconds; at least 1.
    pub size_ms: i64,
    /// Where the first window after the Unix epoch begins, in milliseconds.
    pub offset_ms: i64,
}

impl Tumbling {
    /// Windows of this size, from the Unix epoch on.
    pub const fn of_millis(size_ms: i64) -> Self {
        Self { size_ms, offset_ms: 0 }
    }
}

/// Windows of one size, of which one begins every `slide_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hopping {
    /// How long a window is, in milliseconds; at least 1.
    pub size_ms: i64,
    /// How far the starts of two windows lie apart, in milliseconds; at least 1.
    pub slide_ms: i64,
    /// Where the first window after the Unix epoch begins, in milliseconds.
    pub offset_ms: i64,
}

impl Hopping {
    /// Windows of this size and slide, from the Unix epoch on.
    pub const fn of_millis(size_ms: i64, slide_ms: i64) -> Self {
        Self { size_ms, slide_ms, offset_ms: 0 }
    }
}

/// Windows that end when a key had no row for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// How long after its last row a window ends, in milliseconds; at least 1.
    pub gap_ms: i64,
}

impl Session {
    /// Windows that end so long after their last row.
    pub const fn of_millis(gap_ms: i64) -> Self {
        Self { gap_ms }
    }
}

/// How rows come into windows: [`Tumbling`], [`Hopping`] or [`Session`].
pub trait Windowing: sealed::Assign {}

impl Windowing for Tumbling {}
impl Windowing for Hopping {}
impl Windowing for Session {}

mod sealed {
    use super::{Hopping, Session, Timestamp, Tumbling, Window};

    pub trait Assign {
        /// Whether windows that touch become one.
        const MERGES: bool;

        /// The smallest number that says how long windows are or how far apart; at least 1.
        fn smallest_ms(&self) -> i64;

        /// How long a window is, in milliseconds.
        fn size_ms(&self) -> i64;

        /// The windows of a row.
        fn windows(&self, time: Timestamp) -> impl Iterator<Item = Window>;
    }

    /// The start of the last window that begins at or before the time.
    fn last_start(time: Timestamp, slide_ms: i64, offset_ms: i64) -> i64 {
        let since = i128::from(time.millis()) - i128::from(offset_ms);
        let start = i128::from(time.millis()) - since.rem_euclid(i128::from(slide_ms.max(1)));
        i64::try_from(start).unwrap_or(i64::MIN)
    }

    fn window(start: i64, size_ms: i64) -> Window {
        let start = Timestamp::from_millis(start);
        Window { start, end: start.plus_millis(size_ms) }
    }

    impl Assign for Tumbling {
        const MERGES: bool = false;

        fn smallest_ms(&self) -> i64 {
            self.size_ms
        }

        fn size_ms(&self) -> i64 {
            self.size_ms
        }

        fn windows(&self, time: Timestamp) -> impl Iterator<Item = Window> {
            std::iter::once(window(last_start(time, self.size_ms, self.offset_ms), self.size_ms))
        }
    }

    impl Assign for Hopping {
        const MERGES: bool = false;

        fn smallest_ms(&self) -> i64 {
            self.size_ms.min(self.slide_ms)
        }

        fn size_ms(&self) -> i64 {
            self.size_ms
        }

        fn windows(&self, time: Timestamp) -> impl Iterator<Item = Window> {
            let Self { size_ms, slide_ms, offset_ms } = *self;
            let last = last_start(time, slide_ms, offset_ms);
            let starts =
                std::iter::successors(Some(last), move |start| start.checked_sub(slide_ms));
            starts
                .map(move |start| window(start, size_ms))
                .take_while(move |window| window.end > time)
        }
    }

    impl Assign for Session {
        const MERGES: bool = true;

        fn smallest_ms(&self) -> i64 {
            self.gap_ms
        }

        fn size_ms(&self) -> i64 {
            self.gap_ms
        }

        fn windows(&self, time: Timestamp) -> impl Iterator<Item = Window> {
            std::iter::once(window(time.millis(), self.gap_ms))
        }
    }
}

/// What windows are declared with, beside their name and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowOptions {
    /// How long after its end a window still takes in rows, in milliseconds of event time; 0 or
    /// more.
    pub allowed_lateness_ms: i64,
}

/// The windows `W` of the keys `K`, with a result `A` each. See the [module](self).
#[derive(Debug)]
pub struct Windows<K, W, A> {
    windowing: W,
    allowed_lateness_ms: i64,
    map: MapState<K, Start, Stored<A>>,
    timers: Timers<K>,
    late_rows: Counter,
    /// Sessions that a row joins; kept for its room.
    joined: Vec<(Start, Stored<A>)>,
}

impl<K: Key> Open<K> {
    /// Declares windows: a map state of this name, a family of timers `<name>-timers` and a counter
    /// `<name>_late_rows_total`, in which `-` is `_`. Fails if a size is less than a millisecond or the
    /// allowed lateness is negative.
    pub fn windows<W: Windowing, A: Aggregate>(
        &mut self,
        name: &str,
        windowing: W,
        options: WindowOptions,
    ) -> Result<Windows<K, W, A>> {
        let WindowOptions { allowed_lateness_ms } = options;
        if windowing.smallest_ms() < 1 || allowed_lateness_ms < 0 {
            return Err(Error::invalid_config(format!(
                "windows `{name}`: size, slide and gap are at least 1 ms, the allowed lateness at \
                 least 0"
            )));
        }
        Ok(Windows {
            windowing,
            allowed_lateness_ms,
            map: self.map(name)?,
            timers: self.event_timers(&format!("{name}-timers"))?,
            late_rows: self.counter(&format!("{}_late_rows_total", name.replace('-', "_")))?,
            joined: Vec::new(),
        })
    }
}

/// What became of a row that was added to windows.
#[derive(Debug)]
#[must_use = "windows that have fired already fire again with a late row"]
pub struct Added<A> {
    is_late: bool,
    panes: Vec<Pane<A>>,
}

impl<A> Added<A> {
    /// Whether the row came too late for all its windows, and was dropped.
    pub fn is_late(&self) -> bool {
        self.is_late
    }
}

/// The windows that fired at once, since the watermark is past their end.
impl<A> IntoIterator for Added<A> {
    type Item = Pane<A>;
    type IntoIter = std::vec::IntoIter<Pane<A>>;

    fn into_iter(self) -> Self::IntoIter {
        self.panes.into_iter()
    }
}

impl<K: Key, W: Windowing, A: Aggregate> Windows<K, W, A> {
    /// Adds a row to its windows: `result` is what a window with this row alone would have.
    pub fn add(&mut self, record: &Record<'_, K>, result: &A) -> Result<Added<A>> {
        let time = record.timestamp();
        let mut added = Added { is_late: true, panes: Vec::new() };
        if W::MERGES {
            self.join(record, time, result, &mut added)?;
        } else {
            self.prefetch(record);
            let mut windows = self.windowing.windows(time).peekable();
            if windows.peek().is_none() {
                added.is_late = time.plus_millis(self.allowed_lateness_ms) <= record.watermark();
            }
            for window in windows {
                if self.end_of_life(window.end) > record.watermark() {
                    added.is_late = false;
                    let start = Start { window_start: window.start };
                    let stored = match self.map.get(record, &start)? {
                        None => {
                            Stored { end: window.end, state: Phase::New, result: result.clone() }
                        }
                        Some(mut stored) => {
                            stored.result.merge(result)?;
                            stored
                        }
                    };
                    put(
                        (&mut self.map, &mut self.timers),
                        record,
                        (start, stored),
                        self.allowed_lateness_ms,
                        &mut added,
                    );
                }
            }
        }
        if added.is_late {
            self.late_rows.add(1);
        }
        Ok(added)
    }

    /// Adds a row to a session, which may become one with others by it.
    fn join(
        &mut self,
        key: &CurrentKey<'_, K>,
        time: Timestamp,
        result: &A,
        added: &mut Added<A>,
    ) -> Result<()> {
        for own in self.windowing.windows(time) {
            let joined = &mut self.joined;
            self.map.each(key, |start, stored| {
                if own.touches(&stored.window(start)) {
                    joined.push((start.clone(), stored.clone()));
                }
            })?;
            if joined.is_empty() && self.end_of_life(own.end) <= key.watermark() {
                continue;
            }
            added.is_late = false;
            let mut start = Start { window_start: own.start };
            let mut end = own.end;
            let mut state = Phase::New;
            let mut whole: Option<A> = None;
            for (other, stored) in self.joined.drain(..) {
                start.window_start = start.window_start.min(other.window_start);
                end = end.max(stored.end);
                state = state.with(stored.state);
                match &mut whole {
                    None => whole = Some(stored.result),
                    Some(whole) => whole.merge(&stored.result)?,
                }
                self.map.remove(key, other);
            }
            let result = match whole {
                None => result.clone(),
                Some(mut whole) => {
                    whole.merge(result)?;
                    whole
                }
            };
            put(
                (&mut self.map, &mut self.timers),
                key,
                (start, Stored { end, state, result }),
                self.allowed_lateness_ms,
                added,
            );
        }
        Ok(())
    }

    /// Does what is due at the time of a timer. Gives the window that fires by it, if one does;
    /// `None` too if the timer is none of these windows'.
    pub fn on_timer(&mut self, timer: &Timer<'_, K>) -> Result<Option<Pane<A>>> {
        if !timer.is(&self.timers) {
            return Ok(None);
        }
        self.joined.clear();
        if !W::MERGES {
            // The windows that end now, or whose life does.
            self.prefetch_due(timer);
            for start in self.due(timer.time()) {
                if let Some(stored) = self.map.get(timer, &start)? {
                    self.joined.push((start, stored));
                }
            }
        }
        if self.joined.is_empty() {
            // Sessions have any length; others too, if the operator was opened with other sizes.
            let joined = &mut self.joined;
            self.map.each(timer, |start, stored| {
                if start.window_start <= timer.time() {
                    joined.push((start.clone(), stored.clone()));
                }
            })?;
        }
        let mut pane = None;
        let mut windows = std::mem::take(&mut self.joined);
        for (start, stored) in windows.drain(..) {
            let fired = self.due_window(timer, start, stored);
            pane = pane.or(fired);
        }
        self.joined = windows;
        Ok(pane)
    }

    /// Does what is due for a window.
    fn due_window(
        &mut self,
        timer: &Timer<'_, K>,
        start: Start,
        mut stored: Stored<A>,
    ) -> Option<Pane<A>> {
        let window = stored.window(&start);
        let time = timer.time();
        match stored.state {
            Phase::Fired => {
                if self.end_of_life(stored.end) <= time {
                    self.map.remove(timer, start);
                }
                None
            }
            _ if window.max_timestamp() == time => {
                let result = stored.result.clone();
                if self.allowed_lateness_ms == 0 {
                    self.map.remove(timer, start);
                } else {
                    self.timers.set(timer, self.end_of_life(stored.end));
                    stored.state = Phase::Fired;
                    self.map.put(timer, start, stored);
                }
                Some(Pane { window, result })
            }
            // A session that has grown since the timer was set.
            _ if window.max_timestamp() > time && window.start <= time => {
                self.timers.set(timer, window.max_timestamp());
                None
            }
            _ => None,
        }
    }

    /// When a window is removed.
    fn end_of_life(&self, end: Timestamp) -> Timestamp {
        end.plus_millis(-1).plus_millis(self.allowed_lateness_ms)
    }

    /// The starts of windows that fire or end at this time.
    fn due(&self, time: Timestamp) -> impl Iterator<Item = Start> + use<K, W, A> {
        let fires = time.plus_millis(1).plus_millis(-self.windowing.size_ms());
        let ends = fires.plus_millis(-self.allowed_lateness_ms);
        let both = [Some(fires), (ends != fires).then_some(ends)];
        both.into_iter().flatten().map(|window_start| Start { window_start })
    }

    /// Wants the windows of all rows of the call.
    fn prefetch(&self, key: &CurrentKey<'_, K>) {
        if self.map.is_first_use() {
            for (index, time) in key.call.rows() {
                for window in self.windowing.windows(time) {
                    if self.end_of_life(window.end) > key.watermark() {
                        self.map.want_at(index, Start { window_start: window.start });
                    }
                }
            }
        }
    }

    /// Wants the windows of all timers of the call.
    fn prefetch_due(&self, key: &CurrentKey<'_, K>) {
        if self.map.is_first_use() {
            for (index, time) in key.call.rows() {
                self.due(time).for_each(|start| self.map.want_at(index, start));
            }
        }
    }
}

/// Writes a window that got a row, sets the timer that it needs, and fires it if it is over.
fn put<K: Key, A: Aggregate>(
    (map, timers): (&mut MapState<K, Start, Stored<A>>, &mut Timers<K>),
    key: &CurrentKey<'_, K>,
    (start, mut stored): (Start, Stored<A>),
    allowed_lateness_ms: i64,
    added: &mut Added<A>,
) {
    let window = stored.window(&start);
    if window.max_timestamp() <= key.watermark() {
        // Its row is late, but not too late.
        timers.set(key, window.max_timestamp().plus_millis(allowed_lateness_ms));
        stored.state = Phase::Fired;
        added.panes.push(Pane { window, result: stored.result.clone() });
    } else if !matches!(stored.state, Phase::Waiting) {
        timers.set(key, window.max_timestamp());
        stored.state = Phase::Waiting;
    }
    map.put(key, start, stored);
}

/// The map key of a window.
#[derive(Key, Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Start {
    window_start: Timestamp,
}

/// What a window waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It has no timer yet. Never stored.
    New,
    /// A timer at or before its last moment, which will set one there if it comes before.
    Waiting,
    /// The end of its life. A timer for that is set.
    Fired,
}

impl Phase {
    /// What two sessions that become one wait for.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Waiting, _) | (_, Self::Waiting) => Self::Waiting,
            (Self::Fired, _) | (_, Self::Fired) => Self::Fired,
            (Self::New, Self::New) => Self::New,
        }
    }
}

/// A window as it is stored: its end, whether it has fired, and its result.
#[derive(Debug, Clone)]
struct Stored<A> {
    end: Timestamp,
    state: Phase,
    result: A,
}

impl<A> Stored<A> {
    fn window(&self, start: &Start) -> Window {
        Window { start: start.window_start, end: self.end }
    }
}

/// The columns before those of the result.
const OWN_FIELDS: [Field; 2] = [
    Field { name: "window_end", value_type: <Timestamp as Value>::TYPE, nullable: false },
    Field { name: "fired", value_type: <bool as Value>::TYPE, nullable: false },
];

/// How many columns a result may have.
const RESULT_FIELDS_LIMIT: usize = 126;

/// Puts the columns of two rows side by side.
struct Fields<A>(PhantomData<A>);

#[expect(clippy::indexing_slicing, reason = "all of it is done when the crate is compiled")]
impl<A: Row> Fields<A> {
    const ALL: ([Field; RESULT_FIELDS_LIMIT + 2], usize) = {
        assert!(A::FIELDS.len() <= RESULT_FIELDS_LIMIT, "a result has at most 126 fields");
        let [end, fired] = OWN_FIELDS;
        let mut all = [end; RESULT_FIELDS_LIMIT + 2];
        all[1] = fired;
        let mut index = 0;
        while index < A::FIELDS.len() {
            all[index + 2] = A::FIELDS[index];
            index += 1;
        }
        (all, A::FIELDS.len() + 2)
    };
    const FIELDS: &'static ([Field; RESULT_FIELDS_LIMIT + 2], usize) = &Self::ALL;
}

impl<A: Row> Row for Stored<A> {
    const FIELDS: &'static [Field] = Fields::<A>::FIELDS.0.split_at(Fields::<A>::FIELDS.1).0;

    fn read(columns: &[Column], index: usize) -> Result<Self> {
        let [end, fired, result @ ..] = columns else {
            return Err(row::wrong_column_count(Self::FIELDS.len(), columns.len()));
        };
        let has_fired = <bool as Value>::read(fired, index)?;
        Ok(Self {
            end: <Timestamp as Value>::read(end, index)?,
            state: if has_fired { Phase::Fired } else { Phase::Waiting },
            result: A::read(result, index)?,
        })
    }

    fn write(&self, columns: &mut [ColumnBuilder]) {
        if let [end, fired, result @ ..] = columns {
            Value::write(&self.end, end);
            Value::write(&(self.state == Phase::Fired), fired);
            self.result.write(result);
        }
    }

    fn matches(&self, columns: &[Column], index: usize) -> bool {
        match columns {
            [end, fired, result @ ..] => {
                Value::matches(&self.end, end, index)
                    && Value::matches(&(self.state == Phase::Fired), fired, index)
                    && self.result.matches(result, index)
            }
            _ => false,
        }
    }
}
