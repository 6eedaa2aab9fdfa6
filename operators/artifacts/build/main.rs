//! Builds the operators to core modules with a cargo of its own, encodes each as a
//! component, and writes the constants of the crate.
#![expect(clippy::print_stdout, reason = "how a build script talks to cargo")]

mod operators;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};

/// The operators: packages, which lie in folders of the same name.
const OPERATORS: [&str; 14] = [
    "last-bid",
    "auction-stats",
    "auction-winners",
    "bidder-sessions",
    "distinct-bidders",
    "echo",
    "failing-bid",
    "forgetful-bid",
    "hostile",
    "conformance",
    "obedient",
    "scripted",
    "with-wasi",
    "built-for-0-1-0",
];

/// Those of the Nexmark queries: packages `nexmark-<folder>` in folders of `operators/nexmark`.
const NEXMARK: [&str; 29] = [
    "nexmark-q0",
    "nexmark-q1",
    "nexmark-q2",
    "nexmark-q3",
    "nexmark-q4",
    "nexmark-q4-average",
    "nexmark-q5",
    "nexmark-q5-hottest",
    "nexmark-q7",
    "nexmark-q7-highest",
    "nexmark-q8",
    "nexmark-q9",
    "nexmark-q10",
    "nexmark-q11",
    "nexmark-q12",
    "nexmark-q13-key",
    "nexmark-q13",
    "nexmark-q14",
    "nexmark-q15-day",
    "nexmark-q15",
    "nexmark-q16",
    "nexmark-q17",
    "nexmark-q18",
    "nexmark-q19",
    "nexmark-q20",
    "nexmark-q21",
    "nexmark-q22",
    "nexmark-q23",
    "nexmark-q23-seller",
];

fn main() -> Result<()> {
    let workspace = workspace()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    watch();

    let packages = [&OPERATORS[..], &NEXMARK].concat();
    let modules = operators::build(&workspace, &out, &packages)?;
    let mut constants = String::new();
    let (mut all, mut nexmark) = (String::new(), String::new());
    for (name, module) in packages.into_iter().zip(modules) {
        let component = out.join(format!("{name}.wasm"));
        howdah_componentize::encode(&module, &component)
            .with_context(|| format!("operator `{name}`"))?;
        write!(all, "(\"{name}\", {component:?}), ")?;
        if NEXMARK.contains(&name) {
            write!(nexmark, "(\"{name}\", {component:?}), ")?;
        } else {
            let constant = name.replace('-', "_").to_uppercase();
            writeln!(constants, "/// The path of the component `{name}`.")?;
            writeln!(constants, "pub const {constant}: &str = {component:?};")?;
        }
    }
    writeln!(constants, "/// The name of each operator and the path of its component.")?;
    writeln!(constants, "pub const ALL: &[(&str, &str)] = &[{all}];")?;
    writeln!(constants, "/// The same for those of the Nexmark queries alone.")?;
    writeln!(constants, "pub const NEXMARK: &[(&str, &str)] = &[{nexmark}];")?;
    fs::write(out.join("components.rs"), constants)?;
    Ok(())
}

/// The folder of the workspace, two above this crate.
fn workspace() -> Result<PathBuf> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR").context("cargo sets CARGO_MANIFEST_DIR")?;
    let workspace = Path::new(&manifest).ancestors().nth(2).context("the crate lies too high")?;
    Ok(workspace.to_path_buf())
}

/// Tells cargo what the components are made from. Relative to this crate: a target directory that
/// several checkouts share would otherwise keep to the sources of the first.
fn watch() {
    let shared = ["Cargo.toml", "Cargo.lock", "wit", "guest-sdk/rust", "operators/nexmark"];
    let shared = shared.map(str::to_owned);
    let operators = OPERATORS.map(|name| format!("operators/{name}"));
    for path in shared.iter().chain(&operators) {
        println!("cargo::rerun-if-changed=../../{path}");
    }
    println!("cargo::rerun-if-env-changed={}", howdah_componentize::OVERRIDE);
}
