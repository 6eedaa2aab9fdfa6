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

fn main() -> Result<()> {
    let workspace = workspace()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").context("cargo sets OUT_DIR")?);
    watch();

    let modules = operators::build(&workspace, &out, &OPERATORS)?;
    let mut constants = String::new();
    let mut all = String::new();
    for (name, module) in OPERATORS.iter().zip(modules) {
        let component = out.join(format!("{name}.wasm"));
        howdah_componentize::encode(&module, &component)
            .with_context(|| format!("operator `{name}`"))?;
        let constant = name.replace('-', "_").to_uppercase();
        writeln!(constants, "/// The path of the component `{name}`.")?;
        writeln!(constants, "pub const {constant}: &str = {component:?};")?;
        write!(all, "(\"{name}\", {constant}), ")?;
    }
    writeln!(constants, "/// Each operator's name and the path of its component.")?;
    writeln!(constants, "pub const ALL: &[(&str, &str)] = &[{all}];")?;
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
    let shared = ["Cargo.toml", "Cargo.lock", "wit", "guest-sdk/rust"].map(str::to_owned);
    let operators = OPERATORS.map(|name| format!("operators/{name}"));
    for path in shared.iter().chain(&operators) {
        println!("cargo::rerun-if-changed=../../{path}");
    }
    println!("cargo::rerun-if-env-changed={}", howdah_componentize::OVERRIDE);
}
