//! Which directories a pipeline may use, as the command line and the environment say.

use crate::environment;
use howdah_pipeline::{Directories, PipelineConfig};
use std::path::PathBuf;

/// Where the files of sources and sinks may be.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct DirectoryArgs {
    /// A directory that sources, sinks and dead-letter files may be in, besides that of the pipeline
    /// file, the state directory and the current one; $HOWDAH_ALLOW_DIRS may name more
    #[arg(long, value_name = "DIR")]
    allow_dir: Vec<PathBuf>,
    /// Grant only what --allow-dir and $HOWDAH_ALLOW_DIRS name; the state directory must be in there
    #[arg(long)]
    only_allowed_dirs: bool,
}

impl DirectoryArgs {
    /// Grants them to a pipeline.
    pub(crate) fn grant(&self, config: &mut PipelineConfig) {
        let allowed = environment::allowed_directories().into_iter().chain(self.allow_dir.clone());
        if self.only_allowed_dirs {
            config.directories = Directories::only(allowed);
        } else {
            config.directories.allow(allowed);
        }
    }
}
