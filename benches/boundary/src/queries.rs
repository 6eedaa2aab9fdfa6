//! Nexmark queries with keys, state and checkpoints.

use crate::contestant::{Call, Contestant, engine, limits};
use crate::language::Language;
use crate::work::{Batch, Emitted, bids, check_same};
use crate::{SUITE, Setting};
use anyhow::{Context as _, Result, ensure};
use howdah_bench_figures::{Bar, Cost, Figure, Stopwatch, median};
use howdah_runtime::Component;

/// Cases, and the operators that do them.
pub(crate) const QUERIES: [(&str, &str); 2] =
    [("aggregate (q17)", "auction-stats"), ("dedup (q18)", "last-bid")];
/// The rows that a subtask hands to its operator at once, at most.
const BATCH_ROWS: usize = 8_192;
/// Batches between two barriers: about 100,000 rows.
const BARRIER_BATCHES: usize = 12;
const EVENTS: usize = 500_000;
const ROUNDS: usize = 9;
/// By how much of the native operator's time a figure may be off.
const NOISE: f64 = 0.03;

pub(crate) fn run(setting: &Setting, report: &mut dyn FnMut(Figure) -> Result<()>) -> Result<()> {
    for (case, name) in QUERIES {
        run_query(setting, case, name, report)?;
    }
    Ok(())
}

fn run_query(
    setting: &Setting,
    case: &str,
    name: &str,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let engine = engine(&setting.directory)?;
    let mut languages = Vec::new();
    for (language, path) in setting.components(name) {
        languages.push((language, engine.load(&path)?));
    }
    let (_, rust) = languages.first().context("the Rust component is built with the bench")?;
    let spec = rust.describe("{}", &limits())?;
    let batches = batches(rust)?;
    let rows = batches.iter().map(|batch| batch.rows.num_rows()).sum::<usize>();

    let mut samples: Vec<Vec<Cost>> = vec![Vec::new(); languages.len() + 1];
    for round in 0..=setting.rounds(ROUNDS) {
        let mut emitted = Vec::new();
        for (number, samples) in samples.iter_mut().enumerate() {
            let mut contestant = match number.checked_sub(1) {
                None => Contestant::native(name, &spec, &setting.directory)?,
                Some(number) => {
                    let (language, component): &(&Language, Component) = &languages[number];
                    // An interpreter takes seconds, and has no bar here.
                    if round > 1 && matches!(language.query_bar, Bar::None) {
                        continue;
                    }
                    Contestant::component(language, component, &setting.directory)?
                }
            };
            let (cost, out) = run_job(&mut contestant, &batches)?;
            if round > 0 {
                samples.push(cost);
            }
            emitted.push((contestant.name, out));
        }
        check_same(&emitted)?;
    }
    let of = |costs: &[Cost], figure: fn(&Cost) -> f64| {
        median(&costs.iter().map(figure).collect::<Vec<_>>()) / rows as f64 * 1e9
    };
    let thread = |costs: &[Cost]| of(costs, |cost| cost.thread_cpu_s);
    let native = &samples[0];
    report(Figure::new(SUITE, format!("{case}: native"), "ns/row", thread(native)).detail(
        format!(
            "all threads {:.0}, wall {:.0}",
            of(native, |cost| cost.cpu_s),
            of(native, |cost| cost.wall_s)
        ),
    ))?;
    for ((language, _), costs) in languages.iter().zip(&samples[1..]) {
        let ratio = |figure| of(costs, figure) / of(native, figure);
        // It does the same and more: a native operator that is slower is no baseline.
        ensure!(
            ratio(|cost| cost.thread_cpu_s) > 1.0 - NOISE,
            "{} took {:.1} ns a row and native {:.1}: not the same work",
            language.name,
            thread(costs),
            thread(native)
        );
        report(
            Figure::new(SUITE, format!("{case}: {}", language.name), "ns/row", thread(costs))
                .against("native", Some(thread(native)))
                .bar(language.query_bar)
                .detail(format!(
                    "all threads {:.2}x, wall {:.2}x",
                    ratio(|cost| cost.cpu_s),
                    ratio(|cost| cost.wall_s)
                )),
        )?;
    }
    Ok(())
}

/// What the operator reads.
pub(crate) fn batches(component: &Component) -> Result<Vec<Batch>> {
    bids(&component.describe("{}", &limits())?, EVENTS, BATCH_ROWS)
}

/// All batches and their checkpoints; the last is waited for.
pub(crate) fn run_job(contestant: &mut Contestant, batches: &[Batch]) -> Result<(Cost, Emitted)> {
    let mut emitted = Vec::with_capacity(batches.len());
    let mut checkpoint = 0;
    let stopwatch = Stopwatch::start();
    for part in batches.chunks(BARRIER_BATCHES) {
        for batch in part {
            let (keys, row_keys) = batch.keys()?;
            emitted.push(contestant.operator.process(Call {
                batch: &batch.rows,
                timestamps: &batch.timestamps,
                keys,
                row_keys: &row_keys,
            })?);
        }
        checkpoint += 1;
        contestant.operator.barrier(checkpoint)?;
    }
    contestant.wait_published(checkpoint)?;
    Ok((stopwatch.cost(), emitted))
}
