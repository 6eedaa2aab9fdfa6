//! From a component file to an instance, and the sizes of the files.

use crate::contestant::{Stored, context, engine, limits};
use crate::{SUITE, Setting};
use anyhow::Result;
use howdah_bench_figures::{Figure, Stopwatch, median};

/// Instances of a component, one after the other.
const INSTANCES: u32 = 64;
const STARTS: usize = 21;

/// A further instance of a component that is loaded: made, linked, and its `open` called.
pub(crate) fn instantiate(
    setting: &Setting,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    let engine = engine(&setting.directory)?;
    for (language, path) in setting.components("echo") {
        let component = engine.load(&path)?;
        let spec = component.describe("{}", &limits())?;
        let stored = Stored::open(&spec, &setting.directory, INSTANCES)?;
        let mut samples = Vec::new();
        for subtask in 0..INSTANCES {
            let context = context(subtask, INSTANCES);
            let stopwatch = Stopwatch::start();
            let instance = component.instantiate(&spec, context, &limits(), &stored.tables)?;
            samples.push(stopwatch.cost().wall_s * 1e6);
            drop(instance);
        }
        report(
            Figure::new(SUITE, format!("instantiate: {}", language.name), "us", median(&samples))
                .bar(language.instantiate_bar)
                .detail("with its call of open"),
        )?;
    }
    Ok(())
}

/// Load with compiled code in the cache, describe, instantiate and open.
pub(crate) fn cached(
    setting: &Setting,
    report: &mut dyn FnMut(Figure) -> Result<()>,
) -> Result<()> {
    for (language, path) in setting.components("echo") {
        // Compiles it if nothing did yet.
        engine(&setting.directory)?.load(&path)?;
        let mut samples = [const { Vec::new() }; 4];
        for _ in 0..setting.rounds(STARTS) {
            let stopwatch = Stopwatch::start();
            let engine = engine(&setting.directory)?;
            let engine_ms = stopwatch.cost().wall_s * 1e3;
            let stopwatch = Stopwatch::start();
            let component = engine.load(&path)?;
            let load_ms = stopwatch.cost().wall_s * 1e3;
            let stopwatch = Stopwatch::start();
            let spec = component.describe("{}", &limits())?;
            let describe_ms = stopwatch.cost().wall_s * 1e3;
            let stored = Stored::open(&spec, &setting.directory, 1)?;
            let stopwatch = Stopwatch::start();
            component.instantiate(&spec, context(0, 1), &limits(), &stored.tables)?;
            let instantiate_ms = stopwatch.cost().wall_s * 1e3;
            for (samples, ms) in
                samples.iter_mut().zip([engine_ms, load_ms, describe_ms, instantiate_ms])
            {
                samples.push(ms);
            }
        }
        let [engine, load, describe, instantiate] = samples.map(|samples| median(&samples));
        let total = load + describe + instantiate;
        report(
            Figure::new(SUITE, format!("cached start: {}", language.name), "ms", total)
                .bar(language.start_bar)
                .detail(format!(
                    "load {load:.2}, describe {describe:.2}, instantiate {instantiate:.2}; not \
                     counted: engine {engine:.2}"
                )),
        )?;
    }
    Ok(())
}

/// Bytes of the component files.
pub(crate) fn sizes(setting: &Setting, report: &mut dyn FnMut(Figure) -> Result<()>) -> Result<()> {
    for name in ["echo", "last-bid"] {
        for (language, path) in setting.components(name) {
            let kib = std::fs::metadata(&path)?.len() as f64 / 1024.0;
            let case = format!("size of {name}.wasm: {}", language.name);
            report(Figure::new(SUITE, case, "KiB", kib))?;
        }
    }
    Ok(())
}
