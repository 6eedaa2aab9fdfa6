//! Value get and put for each row.

use crate::contestant::{Contestant, engine};
use crate::work::{check_same, echo, echo_round};
use crate::{SUITE, Setting};
use anyhow::{Context as _, Result, ensure};
use howdah_bench_figures::{Figure, median};

/// Rows of a round.
const ROUND_ROWS: usize = 80_000;
/// Batches with keys of their own.
const BATCHES: usize = 4;
const ROUNDS: usize = 15;

pub(crate) fn run(setting: &Setting, report: &mut dyn FnMut(Figure) -> Result<()>) -> Result<()> {
    let engine = engine(&setting.directory)?;
    let mut languages = Vec::new();
    for (language, path) in setting.components("echo") {
        languages.push((language, engine.load(&path)?));
    }
    let (_, rust) = languages.first().context("the Rust component is built with the bench")?;
    let spec = rust.describe("{}", &crate::contestant::limits())?;
    for (rows, size) in [(1_000, "1K"), (10_000, "10K")] {
        let batches = echo(&spec, rows, BATCHES)?;
        let mut contestants = vec![Contestant::native("echo", &spec, &setting.directory)?];
        for (language, component) in &languages {
            contestants.push(Contestant::component(language, component, &setting.directory)?);
        }
        let mut samples = vec![Vec::new(); contestants.len()];
        // The first round, not counted, brings the keys into the write buffer.
        for round in 0..=setting.rounds(ROUNDS) {
            let mut emitted = Vec::new();
            let passes = ROUND_ROWS / (rows * BATCHES);
            for (contestant, samples) in contestants.iter_mut().zip(&mut samples) {
                let (cost, out) = echo_round(contestant, &batches, passes)?;
                if round > 0 {
                    samples.push(cost.each(ROUND_ROWS).thread_cpu_s * 1e9);
                }
                emitted.push((contestant.name, out));
            }
            check_same(&emitted)?;
        }
        let medians: Vec<f64> = samples.iter().map(|samples| median(samples)).collect();
        let native = medians[0];
        report(Figure::new(SUITE, format!("echo {size}: native"), "ns/row", native))?;
        for ((language, _), ns) in languages.iter().zip(&medians[1..]) {
            // It does the same and more: a native operator that is slower is no baseline.
            let name = language.name;
            ensure!(
                *ns > native,
                "{name} took {ns:.1} ns a row and native {native:.1}: not the same work"
            );
            report(
                Figure::new(SUITE, format!("echo {size}: {name}"), "ns/row", *ns)
                    .against("native", Some(native))
                    .bar(language.echo_bar)
                    .detail(format!("{:.1} over native", ns - native)),
            )?;
        }
    }
    Ok(())
}
