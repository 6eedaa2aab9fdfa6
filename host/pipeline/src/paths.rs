//! Keeps the files of a pipeline apart: what is written must not damage what is read or kept.

use crate::config::{Located, PipelineConfig};
use crate::directory::resolve;
use crate::error::Result;
use crate::{checkpoint, dead_letter, pipeline, restore, sink};
use std::path::{Path, PathBuf};

/// What is in a state directory beside a dead-letter file.
const STATE_DIRECTORY_ENTRIES: [&str; 6] = [
    pipeline::LOCK,
    pipeline::WAREHOUSE,
    checkpoint::DIRECTORY,
    dead_letter::MARKER,
    restore::FRESH_START,
    sink::STDOUT_STAGING,
];

/// Refuses a pipeline whose paths overlap. Changes nothing.
pub(crate) fn check(config: &PipelineConfig) -> Result<()> {
    let state = resolve(&config.state_directory)?;
    let source = resolve(&config.source.path.value)?;
    let sink = config.sink.path.as_ref().map(located).transpose()?;
    if let Some(Located { value: sink, line }) = &sink {
        let refuse = |problem: String| {
            let shown = sink.display();
            let message = format!("the output directory {shown} {problem}; name another one");
            Err(config.error(*line, message))
        };
        if state.starts_with(sink) {
            return refuse(format!("has the state directory {} in it", state.display()));
        }
        if let Some(entry) = entry_of(&state, sink) {
            return refuse(format!("is in `{entry}` of the state directory"));
        }
        if source.starts_with(sink) {
            return refuse(format!("has the source {} in it", source.display()));
        }
    }
    let Some(letters) = config.dead_letters() else { return Ok(()) };
    let Located { value: letters, line } = located(letters)?;
    let refuse = |problem: String| {
        let shown = letters.display();
        Err(config.error(line, format!("the dead-letter file {shown} {problem}; name another one")))
    };
    let component = resolve(&config.operator.component.value)?;
    for (path, what) in [
        (&source, "the source"),
        (&component, "the component"),
        (&resolve(&config.file)?, "the pipeline file"),
    ] {
        if letters == *path {
            return refuse(format!("is {what}"));
        }
    }
    if sink.is_some_and(|sink| letters.starts_with(sink.value)) {
        return refuse("is in the output directory".to_owned());
    }
    match entry_of(&state, &letters) {
        Some(entry) => refuse(format!("is `{entry}` of the state directory, or in it")),
        None => Ok(()),
    }
}

fn located(path: &Located<PathBuf>) -> Result<Located<PathBuf>> {
    Ok(Located { value: resolve(&path.value)?, line: path.line })
}

/// The entry of the state directory that the path is, or is in.
fn entry_of(state: &Path, path: &Path) -> Option<&'static str> {
    let first = path.strip_prefix(state).ok()?.components().next()?;
    STATE_DIRECTORY_ENTRIES.into_iter().find(|entry| first.as_os_str() == *entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    /// Why these paths are refused, without the directory; `None`: they are not.
    fn refused(source: &str, dead_letter: &str, sink: &str) -> Option<String> {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        std::fs::create_dir_all(root.join("state/warehouse")).expect("made");
        std::os::unix::fs::symlink(root.join("state"), root.join("link")).expect("linked");
        std::fs::create_dir(root.join("in")).expect("made");
        for name in ["in/rows.csv", "rows.csv", "o.wasm"] {
            std::fs::write(root.join(name), "").expect("written");
        }
        let text = format!(
            "name = \"q\"\nstate-directory = \"state\"\n[source]\npath = \"{source}\"\n\
             dead-letter = \"{dead_letter}\"\n[operator]\nname = \"o\"\ncomponent = \
             \"o.wasm\"\n[sink]\ntype = \"files\"\npath = \"{sink}\"\n"
        );
        let config = PipelineConfig::parse(&root.join("q.toml"), &text).expect("a configuration");
        let error = check(&config).err()?;
        assert_eq!(error.kind(), ErrorKind::Config);
        Some(error.to_string().replace(&format!("{}/", root.display()), ""))
    }

    #[test]
    fn paths_that_are_apart_are_taken() {
        assert_eq!(refused("rows.csv", "bad.ndjson", "out"), None);
        assert_eq!(refused("rows.csv", "state/dead-letter.ndjson", "state/out"), None);
    }

    #[test]
    fn output_that_would_damage_the_state_is_refused() {
        for sink in
            ["state", ".", "state/warehouse", "link/warehouse/x", "out/../state/checkpoints"]
        {
            let message = refused("rows.csv", "bad.ndjson", sink).unwrap_or_default();
            assert!(message.starts_with("q.toml:11: the output directory "), "{sink}: {message}");
        }
        assert_eq!(
            refused("rows.csv", "bad.ndjson", "link/checkpoints").as_deref(),
            Some(
                "q.toml:11: the output directory state/checkpoints is in `checkpoints` of the \
                 state directory; name another one"
            )
        );
    }

    #[test]
    fn output_around_the_source_is_refused() {
        assert_eq!(
            refused("in/rows.csv", "bad.ndjson", "in").as_deref(),
            Some(
                "q.toml:11: the output directory in has the source in/rows.csv in it; name \
                  another one"
            )
        );
    }

    #[test]
    fn a_dead_letter_file_that_is_something_else_is_refused() {
        for (letters, problem) in [
            ("in/../rows.csv", "rows.csv is the source"),
            ("o.wasm", "o.wasm is the component"),
            ("q.toml", "q.toml is the pipeline file"),
            ("out/bad.ndjson", "out/bad.ndjson is in the output directory"),
            ("link/LOCK", "state/LOCK is `LOCK` of the state directory, or in it"),
            (
                "state/warehouse/x",
                "state/warehouse/x is `warehouse` of the state directory, or in it",
            ),
        ] {
            let expected = format!("q.toml:5: the dead-letter file {problem}; name another one");
            assert_eq!(refused("rows.csv", letters, "out"), Some(expected));
        }
    }
}
