//! Counts the bytes that Rust code has allocated, so that the page cache is not taken for heap.
//! Memory that RocksDB allocates is not seen.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The system's allocator, with a count while one is asked for.
pub(crate) struct CountingAllocator;

static COUNTING: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicI64 = AtomicI64::new(0);
static PEAK_BYTES: AtomicI64 = AtomicI64::new(0);

fn add(bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        let now = BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if bytes > 0 {
            PEAK_BYTES.fetch_max(now, Ordering::Relaxed);
        }
    }
}

/// Counts what is allocated and not freed from now on.
pub(crate) fn start() {
    BYTES.store(0, Ordering::Relaxed);
    PEAK_BYTES.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
}

/// Bytes allocated and not freed since [`start`].
pub(crate) fn bytes() -> i64 {
    BYTES.load(Ordering::Relaxed)
}

/// The most that [`bytes`] has been since the last call.
pub(crate) fn take_peak_bytes() -> i64 {
    PEAK_BYTES.swap(BYTES.load(Ordering::Relaxed), Ordering::Relaxed)
}

pub(crate) fn stop() {
    COUNTING.store(false, Ordering::Relaxed);
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller keeps to the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        add(new_size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
