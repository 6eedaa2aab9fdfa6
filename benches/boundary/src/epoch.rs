//! What looking for deadlines costs.

use crate::contestant::{Contestant, engine, engine_options};
use crate::work::{check_same, echo, echo_round};
use crate::{SUITE, Setting};
use anyhow::Result;
use howdah_bench_figures::{Bar, Figure, median};
use howdah_runtime::Engine;

const BATCH_ROWS: usize = 10_000;
/// Pairs of contestants, one after the other: where their memory and code lie makes a difference of
/// some percent too. A Python component also comes to its limit of memory after some rounds.
const PAIRS: usize = 6;
/// Rounds of a pair.
const ROUNDS: usize = 12;

pub(crate) fn run(setting: &Setting, report: &mut dyn FnMut(Figure) -> Result<()>) -> Result<()> {
    let with = engine(&setting.directory)?;
    let without = Engine::without_deadlines(engine_options(&setting.directory))?;
    for (language, path) in setting.components("echo") {
        let components = [with.load(&path)?, without.load(&path)?];
        let spec = components[0].describe("{}", &crate::contestant::limits())?;
        let batches = echo(&spec, BATCH_ROWS, 4)?;
        let mut samples = [const { Vec::new() }; 2];
        for pair in 0..setting.rounds(PAIRS) {
            let mut contestants = Vec::new();
            for turn in 0..2 {
                let component = &components[(turn + pair) % 2];
                contestants.push(Contestant::component(language, component, &setting.directory)?);
            }
            for round in 0..=ROUNDS {
                let mut emitted = vec![("", Vec::new()); 2];
                // Whoever comes second finds warmer caches: they change places.
                for turn in 0..2 {
                    let which = (turn + round) % 2;
                    let contestant = &mut contestants[which];
                    let (cost, out) = echo_round(contestant, &batches, 2)?;
                    if round > 0 {
                        let cost = cost.each(2 * 4 * BATCH_ROWS).thread_cpu_s * 1e9;
                        samples[(which + pair) % 2].push(cost);
                    }
                    emitted[which] = (contestant.name, out);
                }
                check_same(&emitted)?;
            }
        }
        let [with, without] = [&samples[0], &samples[1]].map(|samples| median(samples));
        report(
            Figure::new(SUITE, format!("deadlines, echo 10K: {}", language.name), "ns/row", with)
                .against("without", Some(without))
                .bar(Bar::RatioAtMost(1.05)),
        )?;
    }
    Ok(())
}
