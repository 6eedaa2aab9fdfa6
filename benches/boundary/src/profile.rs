//! One contestant at work by itself, for `perf record`.

use crate::contestant::{Contestant, Stored, context, engine_options, limits};
use crate::queries::{self, QUERIES};
use crate::work::{echo, echo_round};
use crate::{Case, Setting};
use anyhow::{Context as _, Result, bail};
use howdah_runtime::{Component, Engine, EngineOptions};
use std::io::Write as _;

const ECHO_ROWS: usize = 10_000;
const ECHO_ROUNDS: usize = 60;
const QUERY_ROUNDS: usize = 12;
const INSTANCES: u32 = 64;
const INSTANTIATE_ROUNDS: usize = 60;

/// Runs the cases for the contestant of this name alone. Its functions get names that `perf` finds,
/// in `/tmp/perf-PID.map`.
pub(crate) fn run(setting: &Setting, cases: &[Case], name: &str) -> Result<()> {
    // Code that is mapped from the cache has no names.
    let options = EngineOptions { cache_directory: None, ..engine_options(&setting.directory) };
    let engine = Engine::with_perf_map(options)?;
    for case in cases {
        match case {
            Case::Echo => {
                let which = Which::find(setting, &engine, name, "echo")?;
                let batches = echo(&which.component.describe("{}", &limits())?, ECHO_ROWS, 4)?;
                let mut contestant = which.contestant(setting)?;
                let mut nanos = Vec::new();
                for _ in 0..ECHO_ROUNDS {
                    let (cost, _) = echo_round(&mut contestant, &batches, 4)?;
                    nanos.push(cost.each(16 * ECHO_ROWS).thread_cpu_s * 1e9);
                }
                say(name, "echo", &nanos)?;
            }
            Case::Queries => {
                for (query, operator) in QUERIES {
                    let which = Which::find(setting, &engine, name, operator)?;
                    let batches = queries::batches(&which.component)?;
                    let rows = batches.iter().map(|batch| batch.rows.num_rows()).sum();
                    let mut nanos = Vec::new();
                    for _ in 0..QUERY_ROUNDS {
                        let mut contestant = which.contestant(setting)?;
                        let (cost, _) = queries::run_job(&mut contestant, &batches)?;
                        nanos.push(cost.each(rows).thread_cpu_s * 1e9);
                    }
                    say(name, query, &nanos)?;
                }
            }
            Case::Instantiate => {
                let Which { component, .. } = Which::find(setting, &engine, name, "echo")?;
                let spec = component.describe("{}", &limits())?;
                for _ in 0..INSTANTIATE_ROUNDS {
                    let stored = Stored::open(&spec, &setting.directory, INSTANCES)?;
                    for subtask in 0..INSTANCES {
                        let context = context(subtask, INSTANCES);
                        component.instantiate(&spec, context, &limits(), &stored.tables)?;
                    }
                }
            }
            _ => bail!("there is nothing to profile in case {case:?}"),
        }
    }
    Ok(())
}

fn say(name: &str, case: &str, nanos: &[f64]) -> Result<()> {
    let least = nanos.iter().copied().fold(f64::INFINITY, f64::min);
    let median = howdah_bench_figures::median(nanos);
    writeln!(std::io::stdout(), "{case}: {name}: median {median:.1}, least {least:.1} ns/row")?;
    Ok(())
}

/// A contestant that can be made again.
struct Which {
    language: usize,
    operator: &'static str,
    /// That of the language, or one that the native operator does the same as.
    component: Component,
    is_native: bool,
}

impl Which {
    fn find(
        setting: &Setting,
        engine: &Engine,
        name: &str,
        operator: &'static str,
    ) -> Result<Self> {
        let is_native = name == "native";
        let language = setting
            .languages
            .iter()
            .position(|language| is_native || language.name == name)
            .with_context(|| format!("there is no contestant {name}"))?;
        let path = setting.languages[language].component(operator).context("no component")?;
        Ok(Self { language, operator, component: engine.load(&path)?, is_native })
    }

    fn contestant(&self, setting: &Setting) -> Result<Contestant> {
        if self.is_native {
            let spec = self.component.describe("{}", &limits())?;
            return Contestant::native(self.operator, &spec, &setting.directory);
        }
        let language = &setting.languages[self.language];
        Contestant::component(language, &self.component, &setting.directory)
    }
}
