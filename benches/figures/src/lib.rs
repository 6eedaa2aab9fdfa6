//! What the benches share: clocks, the arithmetic of samples, and rows of results.

mod figure;
mod measure;

pub use figure::{Bar, Figure};
pub use measure::{Cost, Stopwatch, children_cpu_s, median, percentile, wait_until_idle};
