//! Components of projects in Python: `python -m howdah.build`, with componentize-py.

use super::{Project, run_tool};
use crate::environment;
use crate::failure::{Failure, Result};
use std::path::PathBuf;
use std::process::Command;

/// What makes the components.
const TOOL: &str = "componentize-py";

pub(super) fn build(project: &Project) -> Result<()> {
    let (component, source) = (project.whole_component()?, project.source("py")?);
    let mut python = Command::new(python()?);
    python
        .current_dir(&project.directory)
        .args(["-m", "howdah.build"])
        .arg(source)
        .arg("--output")
        .arg(&component);
    run_tool(python, "howdah.build")
}

/// The Python that has componentize-py beside it: of the checkout that this binary was built in,
/// or on the search path.
fn python() -> Result<PathBuf> {
    let places = environment::toolchain("python/bin").into_iter().chain(environment::search_path());
    places
        .filter(|place| place.join(TOOL).is_file())
        .flat_map(|place| [place.join("python3"), place.join("python")])
        .find(|python| python.is_file())
        .ok_or_else(|| {
            Failure::usage(format!(
                "a Python project needs {TOOL}, and there is none on the search path: `pip install \
                 {TOOL}==0.25.1` (in a virtual environment that is active), or in a checkout of \
                 howdah `cargo xtask setup --python`"
            ))
        })
}
