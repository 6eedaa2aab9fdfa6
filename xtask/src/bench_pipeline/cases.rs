//! What is measured, a case each.

use super::flink::{self, Flink};
use super::pipelines::{Source, q18};
use super::runs::{Latency, Run, Runs, Sizes, Summary};
use super::{Bench, Case, SUITE};
use crate::command::run as run_command;
use crate::measure;
use anyhow::{Context, Result, ensure};
use howdah_bench_figures::{Bar, Figure, median};
use serde::Deserialize;
use std::process::Command;

impl Bench<'_> {
    pub(super) fn measure(&self, case: Case) -> Result<Vec<Figure>> {
        match case {
            Case::Read => self.read(),
            Case::Flink => self.flink(),
            Case::Exchange => self.exchange(),
            Case::Checkpoints => self.checkpoints(),
            Case::Subtasks => self.subtasks(),
            Case::Latency => self.latency(),
        }
    }

    fn sizes(&self, few: u64, many: u64) -> Sizes {
        Sizes { few: self.scaled(few), many: self.scaled(many) }
    }

    fn scaled(&self, events: u64) -> u64 {
        if self.quick { events / 10 } else { events }
    }

    fn read(&self) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for source in Source::ALL {
            let sizes = self.sizes(500_000, 2_000_000);
            self.write_events(source, sizes)?;
            let [slope] = self.slopes(sizes, [&|events| self.pass_through(source, events)])?;
            let figure = |what: &str, unit, figure| {
                Figure::new(SUITE, format!("{source} to nowhere: {what}"), unit, figure)
            };
            figures.push(figure("speed", "rows/s", slope.rows_per_second()));
            figures.push(
                figure("CPU", "ns/row", slope.cpu_ns())
                    .detail(format!("peak {:.0} MiB", slope.peak_mib())),
            );
        }
        Ok(figures)
    }

    fn flink(&self) -> Result<Vec<Figure>> {
        let sizes = self.sizes(1_000_000, 4_000_000);
        self.write_events(Source::Csv, sizes)?;
        let own = |events: u64| self.pass_through(Source::Csv, events);
        let case = "CSV to nowhere, beside Flink: CPU";
        let bar = Bar::RatioAtMost(0.4);
        if self.no_peer {
            let [own] = self.slopes(sizes, [&own])?;
            let figure = Figure::new(SUITE, case, "ns/row", own.cpu_ns());
            return Ok(vec![figure.against(flink::NAME, None).bar(bar)]);
        }
        let flink = Flink::find(self.workspace)?;
        for events in [sizes.few, sizes.many] {
            flink.check(&self.directory, &self.events(Source::Csv, events), events)?;
        }
        let theirs = |events: u64| {
            let measured = flink.pass(&self.directory, &self.events(Source::Csv, events))?;
            Ok(Run { measured, summary: Summary::default() })
        };
        let [own, theirs] = self.slopes(sizes, [&own, &theirs])?;
        let cpu = Figure::new(SUITE, case, "ns/row", own.cpu_ns())
            .against(flink::NAME, Some(theirs.cpu_ns()))
            .bar(bar)
            .detail(format!(
                "peak {:.0} beside {:.0} MiB, whole runs {:.2} beside {:.2} s of CPU",
                own.peak_mib(),
                theirs.peak_mib(),
                own.many.median(|run| run.measured.cpu_s),
                theirs.many.median(|run| run.measured.cpu_s),
            ));
        let case = "CSV to nowhere, beside Flink: speed";
        let speed = Figure::new(SUITE, case, "rows/s", own.rows_per_second());
        Ok(vec![cpu, speed.against(flink::NAME, Some(theirs.rows_per_second()))])
    }

    fn exchange(&self) -> Result<Vec<Figure>> {
        // The packages that the other benches build are named too: so all share what they stand on.
        run_command(self.workspace.cargo().args([
            "build",
            "--release",
            "--package=howdah",
            "--package=howdah-operator-artifacts",
            "--package=howdah-bench-state",
            "--package=howdah-bench-exchange",
            "--bin=howdah-bench-exchange",
        ]))?;
        let mut bench = Command::new(self.workspace.target.join("release/howdah-bench-exchange"));
        let batches = if self.quick { "200" } else { "2000" };
        bench.args([&self.runs.to_string(), batches]);
        let printed = measure::run(&mut bench, &self.directory.join("stdout"))?.stdout;
        let rounds: Vec<Exchanged> = printed
            .lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("no figures: {line}")))
            .collect::<Result<_>>()?;
        let figures = [(1, 1, Bar::None), (1, 2, Bar::None), (2, 2, Bar::AtMost(25.0))];
        Ok(figures
            .map(|(producers, subtasks, bar)| of_exchange(&rounds, (producers, subtasks)).bar(bar))
            .into())
    }

    fn checkpoints(&self) -> Result<Vec<Figure>> {
        // So many that a million keys come of them.
        let events = self.scaled(3_500_000);
        let every = |interval_ms: u64| {
            move || {
                self.run(&q18(Source::Generated, events).parallelism(2).interval_ms(interval_ms))
            }
        };
        let [often, seldom] = self.take_turns([&every(100), &every(10_000)])?;
        let speed = |runs: &Runs| runs.median(|run| run.summary.rows_per_second);
        let completed = |runs: &Runs| runs.median(|run| run.summary.checkpoints.completed);
        let keys = often.median(|run| run.summary.states.iter().map(|state| state.rows).sum());
        let case = "q18, checkpoints each 100 ms beside 10 s: speed";
        let figure = Figure::new(SUITE, case, "rows/s", speed(&often))
            .against("each 10 s", Some(speed(&seldom)))
            .bar(Bar::RatioAtLeast(0.85))
            .detail(format!(
                "{keys:.0} keys at the end, {:.0} and {:.0} checkpoints, of {:.0} ms and {:.0} ms",
                completed(&often),
                completed(&seldom),
                often.median(|run| run.summary.checkpoints.duration_median_ms),
                seldom.median(|run| run.summary.checkpoints.duration_median_ms),
            ));
        Ok(vec![figure])
    }

    fn subtasks(&self) -> Result<Vec<Figure>> {
        let sizes = self.sizes(500_000, 2_000_000);
        let source = Source::Parquet;
        self.write_events(source, sizes)?;
        let with = |parallelism: u32| {
            move |events: u64| self.run(&q18(source, events).parallelism(parallelism))
        };
        let [one, two] = self.slopes(sizes, [&with(1), &with(2)])?;
        let case = "q18 of Parquet, 2 subtasks beside 1: speed";
        let figure = Figure::new(SUITE, case, "rows/s", two.rows_per_second())
            .against("1 subtask", Some(one.rows_per_second()))
            .detail(format!(
                "CPU {:.0} beside {:.0} ns/row, peak {:.0} beside {:.0} MiB",
                two.cpu_ns(),
                one.cpu_ns(),
                two.peak_mib(),
                one.peak_mib()
            ));
        Ok(vec![figure])
    }

    fn latency(&self) -> Result<Vec<Figure>> {
        let sizes = self.sizes(500_000, 2_000_000);
        let flat_out = |events: u64| self.run(&q18(Source::Generated, events));
        let [peak] = self.slopes(sizes, [&flat_out])?;
        let peak = peak.rows_per_second();
        ensure!(
            peak >= 2.0,
            "the peak rate came out as {peak} rows/s: run it again, without --quick"
        );
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small rate")]
        let rate = (peak / 2.0) as u64;
        let seconds = if self.quick { 5 } else { 20 };
        let limited = || self.run(&q18(Source::Generated, rate * seconds).rate(rate));
        let [runs] = self.take_turns([&limited])?;
        let of =
            |figure: fn(&Latency) -> f64| runs.median(|run| figure(&run.summary.latency)) / 1e3;
        let kept = runs.median(|run| run.summary.rows_per_second) / rate as f64;
        // A source that is held up reads later, and what it reads later seems quick.
        ensure!(kept > 0.95, "the pipeline kept only {:.0}% of {rate} rows/s", kept * 100.0);
        let figure = Figure::new(
            SUITE,
            "q18 at half of its peak rate: p99",
            "ms",
            of(|it| it.p99_us),
        )
        .bar(Bar::AtMost(50.0))
        .detail(format!(
            "median {:.1} ms, longest {:.1} ms, {rate} rows/s for {seconds} s, {:.0} checkpoints",
            of(|it| it.median_us),
            of(|it| it.max_us),
            runs.median(|run| run.summary.checkpoints.completed),
        ));
        Ok(vec![figure])
    }
}

/// A round of `howdah-bench-exchange`.
#[derive(Debug, Deserialize)]
struct Exchanged {
    producers: u32,
    subtasks: u32,
    cpu_ns: f64,
    wall_ns: f64,
}

fn of_exchange(rounds: &[Exchanged], shape: (u32, u32)) -> Figure {
    let of = |figure: fn(&Exchanged) -> f64| {
        let of_shape = rounds.iter().filter(|round| (round.producers, round.subtasks) == shape);
        median(&of_shape.map(figure).collect::<Vec<_>>())
    };
    let case = format!("exchange from {} to {}: CPU", shape.0, shape.1);
    Figure::new(SUITE, case, "ns/row", of(|round| round.cpu_ns))
        .detail(format!("wall {:.1} ns/row", of(|round| round.wall_ns)))
}
