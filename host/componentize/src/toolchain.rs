//! A compiler for `wasm32-unknown-unknown`, or `wasm32-wasip2`.

use anyhow::{Result, bail};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The target of the operators.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Names a `rustc` to use instead of the one that is found.
pub const OVERRIDE: &str = "HOWDAH_WASM_RUSTC";

/// The target of operators that have WASI.
const WASI_TARGET: &str = "wasm32-wasip2";

/// Where Debian's `rustc-web` has its compiler.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// A compiler that can build operators.
#[derive(Debug, Clone)]
pub struct Toolchain {
    rustc: OsString,
    target: &'static str,
    /// It has the sources of the standard library, but not built for the target. Then this
    /// is the linker to use.
    build_std_with: Option<PathBuf>,
}

impl Toolchain {
    /// The one the environment names, else the one that cargo uses, else Debian's.
    ///
    /// # Errors
    /// When there is none; says how to get one.
    pub fn find() -> Result<Self> {
        if let Some(rustc) = env::var_os(OVERRIDE) {
            let Some(toolchain) = Self::of(&rustc) else {
                bail!(
                    "{OVERRIDE} is {}, which can build no {TARGET}: it has neither a standard \
                     library for it nor the library's sources and a wasm-ld",
                    rustc.display()
                );
            };
            return Ok(toolchain);
        }
        let current = current();
        if has_target(&current, TARGET) {
            return Ok(Self { rustc: current, target: TARGET, build_std_with: None });
        }
        match Self::of(OsStr::new(DEBIAN_RUSTC)) {
            Some(toolchain) => Ok(toolchain),
            None => bail!(
                "no Rust compiler for {TARGET} is installed: `rustup target add {TARGET}`, or on \
                 Debian `apt-get install rustc-web rust-web-src lld-22`; in a checkout of howdah \
                 `cargo xtask setup` does it"
            ),
        }
    }

    /// The one that cargo uses, for operators with WASI: what it links is a component.
    ///
    /// # Errors
    /// When it lacks the target; says how to get it.
    pub fn find_for_wasi() -> Result<Self> {
        let rustc = current();
        if !has_target(&rustc, WASI_TARGET) {
            bail!(
                "an operator with WASI needs Rust's standard library for {WASI_TARGET}: `rustup \
                 target add {WASI_TARGET}`"
            );
        }
        Ok(Self { rustc, target: WASI_TARGET, build_std_with: None })
    }

    /// The compiler.
    pub fn rustc(&self) -> &OsStr {
        &self.rustc
    }

    /// Whether it builds the standard library with what it compiles, which takes a while the first
    /// time.
    pub fn builds_std(&self) -> bool {
        self.build_std_with.is_some()
    }

    /// Has a `cargo build` compile with it, for its target.
    pub fn apply(&self, cargo: &mut Command) {
        cargo.args(["--target", self.target]).env("RUSTC", &self.rustc);
        let flags = self.target.to_uppercase().replace('-', "_");
        let flags = format!("CARGO_TARGET_{flags}_RUSTFLAGS");
        if env::var_os(&flags).is_none() {
            // Loops over columns take several values at a time. The engine has it on.
            cargo.env(flags, "-Ctarget-feature=+simd128");
        }
        if let Some(linker) = &self.build_std_with {
            // Debian's compiler has the standard library as sources only; to build it is a
            // matter for nightly compilers, or for one that is told to pass for one.
            cargo
                .arg("-Zbuild-std=std,panic_abort")
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
    }

    /// How this compiler can build the target, if it can.
    fn of(rustc: &OsStr) -> Option<Self> {
        let rustc = rustc.to_owned();
        if has_target(&rustc, TARGET) {
            return Some(Self { rustc, target: TARGET, build_std_with: None });
        }
        let sources = print(&rustc, &["--print", "sysroot"])?.join("lib/rustlib/src/rust/library");
        let linker = wasm_linker()?;
        sources.is_dir().then_some(Self { rustc, target: TARGET, build_std_with: Some(linker) })
    }
}

/// The compiler that cargo uses.
fn current() -> OsString {
    env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// Whether the compiler comes with a standard library for the target.
fn has_target(rustc: &OsStr, target: &str) -> bool {
    print(rustc, &["--print", "target-libdir", "--target", target])
        .is_some_and(|folder| has_std(&folder))
}

fn has_std(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
    })
}

/// The path that the compiler prints.
fn print(rustc: &OsStr, arguments: &[&str]) -> Option<PathBuf> {
    let output = Command::new(rustc).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(text.trim()))
}

/// `wasm-ld`, or the newest `wasm-ld-<version>`, on the search path.
fn wasm_linker() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let version = |file: &Path| -> Option<u32> {
        let name = file.file_name()?.to_str()?.strip_prefix("wasm-ld")?;
        if name.is_empty() { Some(u32::MAX) } else { name.strip_prefix('-')?.parse().ok() }
    };
    env::split_paths(&path)
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter_map(|file| version(&file).map(|version| (version, file)))
        .max_by_key(|(version, _)| *version)
        .map(|(_, file)| file)
}
