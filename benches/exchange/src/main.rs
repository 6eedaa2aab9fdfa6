//! What an exchange between subtasks costs a row, for `cargo xtask bench pipeline`.
//!
//! Bids of the Nexmark benchmark that are in memory go from producers to subtasks, keyed by bidder and
//! auction. What is measured is the CPU time of the process: the keys of the rows are encoded and
//! hashed, the rows are split by them and copied, sent through channels, and gathered to batches again.
//!
//! Arguments: rounds, batches of a producer and round. Prints a line of JSON for each round and number
//! of producers and subtasks.

use anyhow::{Context, Result, ensure};
use howdah_bench_figures::Stopwatch;
use howdah_pipeline::bench::Bids;
use std::io::Write;

/// Producers and subtasks.
const SHAPES: [(usize, u32); 3] = [(1, 1), (1, 2), (2, 2)];

fn main() -> Result<()> {
    let arguments: Vec<usize> = std::env::args()
        .skip(1)
        .map(|word| word.parse().with_context(|| format!("{word} is no number")))
        .collect::<Result<_>>()?;
    let [rounds, batches] = *arguments.as_slice() else {
        anyhow::bail!("usage: howdah-bench-exchange ROUNDS BATCHES");
    };
    let bids = Bids::generate()?;
    // One more, not counted: it warms up.
    for round in 0..=rounds {
        for (producers, subtasks) in SHAPES {
            let watch = Stopwatch::start();
            let rows = bids.exchange(producers, subtasks, batches)?;
            let cost = watch.cost().each(rows);
            ensure!(rows > 0, "no rows arrived");
            if round > 0 {
                let line = serde_json::json!({
                    "producers": producers,
                    "subtasks": subtasks,
                    "rows": rows,
                    "cpu_ns": cost.cpu_s * 1e9,
                    "wall_ns": cost.wall_s * 1e9,
                });
                writeln!(std::io::stdout(), "{line}")?;
            }
        }
    }
    Ok(())
}
