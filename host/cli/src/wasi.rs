//! What the command line permits operators of WASI.

use howdah_runtime::WasiPermission;
use std::path::PathBuf;

/// Operators get no WASI unless both the pipeline file and these options say so.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct WasiArgs {
    /// Let the operator have what [operator.wasi] of the pipeline file grants it of WASI
    #[arg(long)]
    allow_wasi: bool,
    /// With --allow-wasi: a directory that [operator.wasi] may grant to read
    #[arg(long, value_name = "DIR", requires = "allow_wasi")]
    allow_read: Vec<PathBuf>,
    /// With --allow-wasi: a directory that [operator.wasi] may grant to read and write
    #[arg(long, value_name = "DIR", requires = "allow_wasi")]
    allow_write: Vec<PathBuf>,
}

impl WasiArgs {
    /// WASI without directories, or none.
    pub(crate) fn of(allow_wasi: bool) -> Self {
        Self { allow_wasi, ..Self::default() }
    }

    /// For the engine.
    pub(crate) fn permission(&self) -> Option<WasiPermission> {
        self.allow_wasi.then(|| WasiPermission {
            readable: self.allow_read.clone(),
            writable: self.allow_write.clone(),
        })
    }
}
