//! What is in a component file, found without running it.

mod contract;
mod sections;
mod signature;

pub use contract::{CONTRACT_SOURCES, Difference, DifferenceKind};
pub use sections::{CoreModule, CustomSection, Memory, Producer};

use crate::{Error, ErrorKind, Result, check, component, engine};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::Path;
use wit_component::{DecodedWasm, WitPrinter};

/// The stack of the thread that takes a component apart: types of a component may nest deeply.
const STACK_BYTES: usize = 64 << 20;

/// What is in a component file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// What errors call it: the path of the file.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its bytes, in hex.
    pub sha256: String,
    /// The version of package `howdah:operator` that this host has.
    pub host_version: String,
    /// Interfaces and functions that it imports, with versions.
    pub imports: Vec<String>,
    /// Interfaces and functions that it exports, with versions.
    pub exports: Vec<String>,
    /// How that differs from the contract; one that is fatal keeps it from running.
    pub differences: Vec<Difference>,
    /// Interfaces of WASI among its imports that it was granted.
    pub granted: Vec<String>,
    /// What it was made with.
    pub producers: Vec<Producer>,
    /// The core modules in it, in their order.
    pub modules: Vec<CoreModule>,
    /// Custom sections, those of the same name together.
    pub custom_sections: Vec<CustomSection>,
    /// Its imports and exports, as WIT.
    pub wit: String,
}

impl Inspection {
    /// Looks into a component file.
    ///
    /// # Errors
    /// [`ErrorKind::Host`] if the file cannot be read, [`ErrorKind::Component`] if it is no
    /// component or damaged. A component that does not fit the contract is no error here: see
    /// [`Inspection::differences`].
    pub fn read(path: &Path) -> Result<Self> {
        Self::of(&path.display().to_string(), &engine::read_component(path)?)
    }

    /// The same for bytes in memory; `name` is what errors call it.
    ///
    /// # Errors
    /// [`ErrorKind::Component`] if it is no component or damaged.
    pub fn of(name: &str, bytes: &[u8]) -> Result<Self> {
        check::header(name, bytes)?;
        let host =
            |why: String| Error::new(ErrorKind::Host, format!("{name} cannot be inspected: {why}"));
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("inspect".to_owned())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || take_apart(name, bytes))
                .map_err(|error| host(format!("no thread for it: {error}")))?;
            let panicked = "the decoder gave up; is the file damaged?".to_owned();
            thread.join().map_err(|_| host(panicked))?
        })
    }

    /// Who grants it WASI: the host, and the pipeline. If both do, importing what the host has of it
    /// is no difference any more; if one does, the difference says which is missing.
    pub fn grant_wasi(&mut self, host: bool, pipeline: bool) {
        if !(host && pipeline) {
            let mut wasi =
                self.differences.iter_mut().filter(|difference| difference.wasi.is_some());
            if let Some(first) = wasi.next() {
                first.way_out = Some(check::wasi_way_out(host, pipeline));
            }
            return;
        }
        let differences = std::mem::take(&mut self.differences);
        let (wasi, others): (Vec<_>, Vec<_>) =
            differences.into_iter().partition(|difference| difference.wasi.is_some());
        self.differences = others;
        self.granted.extend(wasi.into_iter().filter_map(|difference| difference.wasi));
    }

    /// Why the component does not run, with every difference; `None`: it links.
    pub fn refusal(&self) -> Option<String> {
        let (wasi, others): (Vec<&Difference>, Vec<_>) =
            self.refusals().partition(|difference| difference.wasi.is_some());
        let refusals: Vec<String> =
            wasi_refusal(&wasi).into_iter().chain(others.iter().map(ToString::to_string)).collect();
        (!refusals.is_empty()).then(|| {
            format!(
                "{} does not run on this host, which has howdah:operator@{}:\n  {}",
                self.name,
                self.host_version,
                refusals.join("\n  ")
            )
        })
    }

    /// The same as an error.
    pub fn refusal_error(&self) -> Option<Error> {
        self.refusal().map(|what| Error::new(ErrorKind::Component, what))
    }

    /// The differences because of which the component cannot run.
    pub fn refusals(&self) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(|difference| difference.fatal)
    }
}

/// Imports of WASI, as one: those who import some of it mostly import much.
fn wasi_refusal(differences: &[&Difference]) -> Option<String> {
    let first = differences.first()?;
    let name = |difference: &&Difference| difference.wasi.clone();
    let names: Vec<String> = differences.iter().filter_map(name).collect();
    let way_out = first.way_out.as_deref().unwrap_or_default();
    Some(format!("imports {}\n    {way_out}", names.join(", ")))
}

fn take_apart(name: &str, bytes: &[u8]) -> Result<Inspection> {
    let refuse = |error: &dyn std::fmt::Display| {
        let error = error.to_string();
        let problem = if error.contains("unexpected end") {
            "is cut off: build or copy it again"
        } else {
            "is no valid component: build it again"
        };
        Error::new(ErrorKind::Component, format!("{name} {problem} ({error})"))
    };
    let sections = sections::read(bytes).map_err(|error| refuse(&error))?;
    let decoded =
        wit_component::decode(bytes).map_err(|error| refuse(&format_args!("{error:#}")))?;
    let DecodedWasm::Component(resolve, world) = &decoded else {
        let problem = "holds WIT alone, no code: build the operator, not its interfaces";
        return Err(Error::new(ErrorKind::Component, format!("{name} {problem}")));
    };
    let the_world = resolve.worlds.get(*world);
    let imports = the_world.into_iter().flat_map(|world| world.imports.keys());
    let exports = the_world.into_iter().flat_map(|world| world.exports.keys());
    Ok(Inspection {
        name: name.to_owned(),
        bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        sha256: component::hex(&Sha256::digest(bytes)),
        host_version: contract::version()?,
        imports: imports.map(|key| resolve.name_world_key(key)).collect(),
        exports: exports.map(|key| resolve.name_world_key(key)).collect(),
        differences: contract::compare(resolve, *world)?,
        granted: Vec::new(),
        producers: sections.producers,
        modules: sections.modules,
        custom_sections: sections.custom,
        wit: wit(&decoded).map_err(|error| refuse(&error))?,
    })
}

/// The world of the component and every interface in it.
fn wit(decoded: &DecodedWasm) -> Result<String, String> {
    let resolve = decoded.resolve();
    let others: Vec<_> =
        resolve.packages.iter().map(|(id, _)| id).filter(|id| *id != decoded.package()).collect();
    let mut printer = WitPrinter::default();
    printer
        .print(resolve, decoded.package(), &others)
        .map_err(|error| format!("its WIT cannot be shown: {error:#}"))?;
    Ok(String::from(printer.output))
}

#[cfg(test)]
mod tests;
