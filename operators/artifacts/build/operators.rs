//! Runs cargo for the operators.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use howdah_componentize::{TARGET, Toolchain};

/// Variables that say how *this* build goes, and must not reach the one of the operators.
const OURS: [&str; 12] = [
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_INCREMENTAL",
    "CARGO_TARGET_DIR",
    "DEBUG",
    "HOST",
    "OPT_LEVEL",
    "OUT_DIR",
    "PROFILE",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "TARGET",
];

/// The same, by how their names begin.
const OUR_PREFIXES: [&str; 8] = [
    "CARGO_BUILD_",
    "CARGO_CFG_",
    "CARGO_FEATURE_",
    "CARGO_MANIFEST_",
    "CARGO_PKG_",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "DEP_",
];

/// Builds the packages as core modules and returns where they are, in that order.
pub(crate) fn build(workspace: &Path, out: &Path, packages: &[&str]) -> Result<Vec<PathBuf>> {
    let toolchain = Toolchain::find()?;
    let target = target_folder(out, &toolchain)?;
    let mut cargo = Command::new(env::var_os("CARGO").context("cargo sets CARGO")?);
    for (name, _) in env::vars_os().filter(|(name, _)| is_ours(name)) {
        cargo.env_remove(name);
    }
    cargo
        .current_dir(workspace)
        .args(["build", "--locked", "--profile", "operator"])
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .env("CARGO_TARGET_DIR", &target);
    toolchain.apply(&mut cargo);
    let output = cargo.output().with_context(|| format!("starting {cargo:?}"))?;
    ensure!(
        output.status.success(),
        "building the operators with {} failed ({}):\n{}",
        toolchain.rustc().display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let modules = target.join(TARGET).join("operator");
    let module = |package: &&str| modules.join(format!("{}.wasm", package.replace('-', "_")));
    Ok(packages.iter().map(module).collect())
}

fn is_ours(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    OURS.contains(&&*name) || OUR_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A target folder beside those of the workspace's profiles, so that they share it. It must
/// not be theirs: the cargo that waits for this script holds their lock.
fn target_folder(out: &Path, toolchain: &Toolchain) -> Result<PathBuf> {
    // <target>/<profile>/build/<package>/out
    let target = out.ancestors().nth(4).context("OUT_DIR lies too high")?;
    let kind = if toolchain.builds_std() { "operators-std" } else { "operators" };
    let folder = target.join(kind);
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}
