//! The one place where the command line asks for the time and ends the process.

#![expect(clippy::disallowed_methods, reason = "this module is the seam")]

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A point on the monotonic clock.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The time of day, in milliseconds since the Unix epoch.
pub(crate) fn epoch_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Ends the process at once, without running destructors: what a second Ctrl-C asks for.
pub(crate) fn exit_at_once(code: i32) -> ! {
    std::process::exit(code)
}

/// Makes a write beyond the limit on the size of a file fail, as one to a full disk does; by
/// default the signal for it ends the process without a word.
pub(crate) fn ignore_file_size_signal() {
    #[cfg(unix)]
    // SAFETY: no handler is installed that could run; the call is made before there is another
    // thread.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Writes a file so that it is there whole or as it was, with the rights that it had.
pub(crate) fn replace_file(path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let write = || {
        let mut file = std::fs::File::create(&temporary)?;
        if let Ok(metadata) = std::fs::metadata(path) {
            file.set_permissions(metadata.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

/// Where compiled operators are kept between runs: `$HOWDAH_CACHE_DIR`, or `howdah` in the
/// user's cache directory. `None`: nowhere.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    let directory =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    directory("HOWDAH_CACHE_DIR")
        .or_else(|| Some(directory("XDG_CACHE_HOME")?.join("howdah")))
        .or_else(|| Some(directory("HOME")?.join(".cache/howdah")))
}

/// The directories of `$HOWDAH_ALLOW_DIRS`, written as `$PATH` is.
pub(crate) fn allowed_directories() -> Vec<PathBuf> {
    let named = std::env::var_os("HOWDAH_ALLOW_DIRS").unwrap_or_default();
    std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Where OpenTelemetry's own environment has traces sent.
#[cfg(feature = "opentelemetry")]
pub(crate) const OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// What it says.
#[cfg(feature = "opentelemetry")]
pub(crate) fn otlp_endpoint() -> Option<String> {
    std::env::var(OTLP_ENDPOINT).ok().filter(|endpoint| !endpoint.trim().is_empty())
}

/// Where `cargo xtask setup` has put a toolchain, beside the build that this binary is of.
pub(crate) fn toolchain(name: &str) -> Option<PathBuf> {
    let binary = std::env::current_exe().ok()?;
    // <target>/<profile>/howdah
    Some(binary.ancestors().nth(2)?.join("toolchains").join(name))
}

/// The directories in which programs are looked for.
pub(crate) fn search_path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}
