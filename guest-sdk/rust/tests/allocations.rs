//! The SDK allocates for a batch, never for a row: rows of fixed width go through states, timers
//! and windows without one allocation, once the first batches have made room.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use howdah_sdk::prelude::*;
use howdah_sdk::testing::{Event, TestHost};
use howdah_sdk::window::{Tumbling, WindowOptions, Windows};

thread_local! {
    /// Allocations of this thread so far.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Allocations when the row or timer before was done; `None` before the first of a call.
    static MARK: Cell<Option<u64>> = const { Cell::new(None) };
    /// Allocations from the first row or timer of a call to its last.
    static BY_ROWS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: `System` does the work, and meets the conditions.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps to the conditions of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the conditions of `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Row, Clone, Copy, Debug, PartialEq)]
struct Bid {
    auction: i64,
    price: i64,
    weight: Option<f64>,
}

#[derive(Key, Debug)]
struct Auction {
    auction: i64,
}

#[derive(Row, Clone, Debug)]
struct Last {
    price: i64,
    weight: Option<f64>,
    time: Timestamp,
}

#[derive(Row, Reduce, Clone, Debug)]
struct Totals {
    #[reduce(count)]
    bids: i64,
    #[reduce(max)]
    highest: i64,
}

struct Everything {
    last: ValueState<Auction, Last>,
    totals: ReducingState<Auction, Totals>,
    read_totals: ReducingState<Auction, Totals>,
    timers: Timers<Auction>,
    windows: Windows<Auction, Tumbling, Totals>,
    bids: Counter,
}

/// What a row allocated, from the end of the one before to its own.
fn row_done() {
    let now = ALLOCATIONS.get();
    if let Some(mark) = MARK.replace(Some(now)) {
        BY_ROWS.set(BY_ROWS.get() + now - mark);
    }
}

#[operator]
impl Everything {
    fn open(open: &mut Open<Auction>) -> Result<Self> {
        let minute = Tumbling::of_millis(60_000);
        Ok(Self {
            last: open.value("last")?,
            totals: open.reducing("totals")?,
            read_totals: open.reducing("read-totals")?,
            timers: open.event_timers("timers")?,
            windows: open.windows("windows", minute, WindowOptions::default())?,
            bids: open.counter("bids_total")?,
        })
    }

    fn process(
        &mut self,
        bid: Bid,
        record: &Record<Auction>,
        out: &mut Emitter<Bid>,
    ) -> Result<()> {
        let Bid { price, weight, .. } = bid;
        let time = record.timestamp();
        if self.last.get(record)?.is_none_or(|last| (price, time) > (last.price, last.time)) {
            self.last.put(record, Last { price, weight, time });
            out.emit(&bid);
        }
        let totals = Totals { bids: 1, highest: price };
        self.totals.add(record, totals.clone())?;
        self.read_totals.add(record, totals.clone())?;
        let read = self.read_totals.get(record)?;
        assert!(read.is_some_and(|read| read.highest >= price));
        self.timers.set(record, record.timestamp().plus_millis(price % 7));
        assert!(!self.windows.add(record, &totals)?.is_late());
        self.bids.add(1);
        row_done();
        Ok(())
    }

    /// Timers that were set by rows: nothing is measured, but they make room as they do elsewhere.
    fn on_timer(&mut self, timer: &Timer<Auction>, _: &mut Emitter<Bid>) -> Result<()> {
        self.windows.on_timer(timer).map(drop)
    }
}

#[test]
fn rows_of_fixed_width_allocate_nothing() {
    let mut host = TestHost::<Everything>::new().unwrap();
    for batch in 0..6_i64 {
        MARK.set(None);
        BY_ROWS.set(0);
        let bids = (0..2_000_i64).map(|n| {
            // The first null of a batch makes room for which rows have a value.
            let weight = (n % 3 != 0).then_some(0.5);
            let bid = Bid { auction: n % 100, price: batch * 1_000 + n % 50, weight };
            Event::insert(bid).at(Timestamp::from_millis(batch * 100_000 + n))
        });
        assert!(host.process_events(bids).unwrap().len() > 100);
        let by_rows = BY_ROWS.get();
        assert!(batch < 2 || by_rows == 0, "batch {batch}: {by_rows} allocations for 2000 rows");
        host.advance_watermark(Timestamp::from_millis(batch * 100_000 + 60_000)).unwrap();
    }
    assert_eq!(host.counter("bids_total"), 12_000);
}

struct Alarms {
    last: ValueState<Auction, Last>,
    rings: ReducingState<Auction, Totals>,
    timers: Timers<Auction>,
}

impl Operator for Alarms {
    type Input = Bid;
    type Key = Auction;
    type Output = Bid;

    fn open(open: &mut Open<Auction>) -> Result<Self> {
        Ok(Self {
            last: open.value("last")?,
            rings: open.reducing("rings")?,
            timers: open.event_timers("timers")?,
        })
    }

    fn process(
        &mut self,
        _: Bid,
        record: &Record<'_, Auction>,
        _: &mut Emitter<Bid>,
    ) -> Result<()> {
        self.timers.set(record, record.timestamp());
        Ok(())
    }

    /// Rings again 10 later.
    fn on_timer(&mut self, timer: &Timer<'_, Auction>, out: &mut Emitter<Bid>) -> Result<()> {
        let price = self.last.get(timer)?.map_or(0, |last| last.price + 1);
        self.last.put(timer, Last { price, weight: None, time: timer.time() });
        self.rings.add(timer, Totals { bids: 1, highest: price })?;
        self.timers.set(timer, timer.time().plus_millis(10));
        out.emit(&Bid { auction: timer.key()?.auction, price, weight: None });
        row_done();
        Ok(())
    }
}

#[test]
fn timers_allocate_nothing() {
    let mut host = TestHost::<Alarms>::new().unwrap();
    host.process((0..2_000).map(|auction| Bid { auction, price: 0, weight: None })).unwrap();
    for round in 0..6_i64 {
        MARK.set(None);
        BY_ROWS.set(0);
        let rung = host.advance_watermark(Timestamp::from_millis(round * 10)).unwrap();
        assert_eq!(rung.len(), 2_000, "all in one call, since each key has one timer");
        let by_timers = BY_ROWS.get();
        assert!(round < 2 || by_timers == 0, "round {round}: {by_timers} allocations");
    }
}
