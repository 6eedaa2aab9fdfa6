//! Tells the processor what will be read soon, so that the reads of a batch overlap.

/// Bytes that the processor fetches at a time.
const LINE_BYTES: usize = 64;

/// Begins to fetch these bytes from memory. Changes nothing but how long later reads take.
pub(super) fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        prefetch_line(line);
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the one place that prefetches")]
fn prefetch_line(line: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint for any address; it neither faults nor reads. The instruction
    // is part of SSE, which every x86-64 processor has.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch_line(_: &[u8]) {}
