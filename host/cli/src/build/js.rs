//! Components of projects in JavaScript: `howdah/build.mjs`, with componentize-qjs.

use super::{Project, run_tool};
use crate::environment;
use crate::failure::{Failure, Result};
use std::path::PathBuf;
use std::process::Command;

/// What makes the components.
const TOOL: &str = "componentize-qjs";
/// Where it is in the project, once its author has installed it.
const MODULES: &str = "howdah/node_modules";

pub(super) fn build(project: &Project) -> Result<()> {
    let (component, source) = (project.whole_component()?, project.source("js")?);
    if !environment::search_path().iter().any(|place| place.join("node").is_file()) {
        return Err(Failure::usage(
            "a project in JavaScript needs Node.js, and there is no `node` on the search path: \
             install it (nodejs.org, or the system's package nodejs)",
        ));
    }
    let mut node = Command::new("node");
    node.current_dir(&project.directory)
        .arg("howdah/build.mjs")
        .arg(source)
        .arg(component)
        .env("HOWDAH_NODE_MODULES", modules(project)?);
    run_tool(node, "howdah/build.mjs")
}

/// Where componentize-qjs is: in the project, or in the checkout that this binary was built in.
fn modules(project: &Project) -> Result<PathBuf> {
    let own = std::path::absolute(project.directory.join(MODULES))?;
    let ours = environment::toolchain("js/node_modules");
    std::iter::once(own).chain(ours).find(|place| place.join(TOOL).is_dir()).ok_or_else(|| {
        Failure::usage(format!(
            "a project in JavaScript needs {TOOL}: `npm ci` in the project's howdah/, or in a \
             checkout of howdah `cargo xtask setup --js`"
        ))
    })
}
