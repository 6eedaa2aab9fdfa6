//! Keeps the files of a pipeline where it may have them, and apart: what is written must not damage
//! what is read or kept.

use crate::config::{Located, PipelineConfig, SinkConfig, SourceConfig, SourceConnector};
use crate::directory::resolve;
use crate::error::{Error, Result};
use crate::{checkpoint, control, dead_letter, pipeline, restore, sink};
use std::path::{Path, PathBuf};

/// What is in a state directory beside a dead-letter file.
const STATE_DIRECTORY_ENTRIES: [&str; 7] = [
    control::SOCKET,
    pipeline::LOCK,
    pipeline::WAREHOUSE,
    checkpoint::DIRECTORY,
    dead_letter::MARKER,
    restore::FRESH_START,
    sink::STDOUT_STAGING,
];

/// Refuses a pipeline with paths that are not granted, or that overlap; all of them are named. Changes
/// nothing.
pub(crate) fn check(config: &PipelineConfig) -> Result<()> {
    check_granted(config)?;
    let state = resolve(&config.state_directory)?;
    let sources: Vec<PathBuf> =
        config.sources.iter().map(|source| resolve(&source.place())).collect::<Result<_>>()?;
    let sinks = config.sinks.iter().filter_map(SinkConfig::place);
    let sinks: Vec<Located<PathBuf>> = sinks.map(|sink| located(&sink)).collect::<Result<_>>()?;
    let mut errors = Vec::new();
    for (index, sink) in sinks.iter().enumerate() {
        let before = sinks.get(..index).unwrap_or_default();
        if let Some(problem) = sink_problem(&sink.value, &state, &sources, before) {
            let shown = sink.value.display();
            let message = format!("the output directory {shown} {problem}; name another one");
            errors.push(config.error(sink.line, message));
        }
    }
    let mut known = Vec::new();
    for source in &sources {
        known.push((source.clone(), "the source"));
    }
    for operator in &config.operators {
        known.push((resolve(&operator.component.value)?, "the component"));
    }
    known.push((resolve(&config.file)?, "the pipeline file"));
    for letters in config.sources.iter().filter_map(|source| source.dead_letters()) {
        let Located { value: letters, line } = located(letters)?;
        if let Some(problem) = letters_problem(&letters, &state, &known, &sinks) {
            let shown = letters.display();
            let message = format!("the dead-letter file {shown} {problem}; name another one");
            errors.push(config.error(line, message));
        }
        known.push((letters, "the dead-letter file of another source"));
    }
    Error::all(errors)
}

/// Refuses paths that lead out of the directories that are granted.
fn check_granted(config: &PipelineConfig) -> Result<()> {
    let has_path = |source: &&SourceConfig| {
        matches!(source.connector, SourceConnector::File | SourceConnector::Paimon)
    };
    let sources = config.sources.iter().filter(has_path);
    let sources = sources.map(|source| Located { value: source.place(), ..source.path.clone() });
    let letters = config.sources.iter().filter_map(|source| source.dead_letters().cloned());
    let sinks = config.sinks.iter().filter_map(SinkConfig::place);
    let state = Located { value: config.state_directory.clone(), line: 1 };
    let all = std::iter::once(state).chain(sources).chain(letters).chain(sinks);
    let refused = all.filter_map(|path| {
        let error = config.directories.check(&path.value).err()?;
        Some(error.at(&config.file, path.line))
    });
    Error::all(refused.collect())
}

/// What is wrong with an output directory.
fn sink_problem(
    sink: &Path,
    state: &Path,
    sources: &[PathBuf],
    others: &[Located<PathBuf>],
) -> Option<String> {
    if state.starts_with(sink) {
        return Some(format!("has the state directory {} in it", state.display()));
    }
    if let Some(entry) = entry_of(state, sink) {
        return Some(format!("is in `{entry}` of the state directory"));
    }
    if let Some(source) = sources.iter().find(|source| source.starts_with(sink)) {
        return Some(format!("has the source {} in it", source.display()));
    }
    let overlaps =
        |other: &&Located<PathBuf>| other.value.starts_with(sink) || sink.starts_with(&other.value);
    let other = others.iter().find(overlaps)?;
    Some(format!("and that of another sink, {}, overlap", other.value.display()))
}

/// What is wrong with a dead-letter file.
fn letters_problem(
    letters: &Path,
    state: &Path,
    known: &[(PathBuf, &str)],
    sinks: &[Located<PathBuf>],
) -> Option<String> {
    if let Some((_, what)) = known.iter().find(|(path, _)| path == letters) {
        return Some(format!("is {what}"));
    }
    if sinks.iter().any(|sink| letters.starts_with(&sink.value)) {
        return Some("is in the output directory".to_owned());
    }
    let entry = entry_of(state, letters)?;
    Some(format!("is `{entry}` of the state directory, or in it"))
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

    #[test]
    fn all_paths_outside_of_what_is_granted_are_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        for name in ["here", "there"] {
            std::fs::create_dir(root.join(name)).expect("made");
            std::fs::write(root.join(name).join("rows.csv"), "").expect("written");
            std::fs::write(root.join(name).join("o.wasm"), "").expect("written");
        }
        std::os::unix::fs::symlink("../there", root.join("here/link")).expect("linked");
        let text = "name = \"q\"\n[source]\npath = \"../there/rows.csv\"\ndead-letter = \
                    \"link/bad\"\n[operator]\nname = \"o\"\ncomponent = \"o.wasm\"\n[sink]\ntype = \
                    \"files\"\npath = \"link/out\"\n";
        let mut config = PipelineConfig::parse(&root.join("here/q.toml"), text).expect("parsed");
        let error = check(&config).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Config);
        let message = error.to_string();
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines.len(), 3, "{message}");
        for (line, number) in lines.iter().zip([3, 4, 10]) {
            let start = format!("{}:{number}: ", root.join("here/q.toml").display());
            assert!(line.starts_with(&start), "{line}");
            let end = format!("--allow-dir {}", root.join("there").display());
            assert!(line.contains(&end), "{line}");
        }
        config.directories.allow([root.join("there")]);
        check(&config).expect("granted");
        config.directories = crate::Directories::only([root.join("there")]);
        let message = check(&config).expect_err("refused").to_string();
        assert!(message.contains(".howdah/q is in no directory"), "the state: {message}");
    }
}
