//! The pipeline of a query in a directory of its own.

use crate::build::Built;
use crate::command::{run as run_command, typed};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use std::fmt::Write as _;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use toml_edit::{DocumentMut, TableLike, table, value};

/// Where pipelines read their events, beside the pipeline file.
const EVENTS: &str = "events.csv";

/// Where q13 reads what it joins with.
const SIDE_INPUT: &str = "side_input.csv";

/// How many keys that has.
const SIDE_INPUT_KEYS: u32 = 10_000;

/// The state whose rows are compared with the output: windows of processing time that are not over
/// when the events end.
const OPEN_WINDOWS: (&str, &str) = ("q12", "windows");

/// Where they are written to.
const OPEN_WINDOWS_FILE: &str = "windows.ndjson";

/// Where all pipelines have their state, and what they put out.
const STATE: &str = "state";
const OUTPUT: &str = "output";

/// Makes the directory anew, with a file of so many events in it.
pub(super) fn write_events(built: &Built, directory: &Path, count: u64) -> Result<PathBuf> {
    remove(directory)?;
    make(directory)?;
    let events = directory.join(EVENTS);
    let mut nexmark = Command::new(&built.howdah);
    nexmark.args(["nexmark", "--events", &count.to_string(), "--out"]).arg(&events);
    run_command(&mut nexmark)?;
    Ok(events)
}

/// The pipeline of a query at a parallelism, ready to be run.
pub(super) struct Pipeline {
    howdah: PathBuf,
    /// Where compiled components are kept, with those of the tests.
    cache: PathBuf,
    directory: PathBuf,
    query: String,
    /// The pipeline file, by its name and as it is read.
    file: String,
    document: DocumentMut,
}

impl Pipeline {
    /// Puts what it needs into a directory of its own, beside the events.
    pub(super) fn lay_out(
        workspace: &Workspace,
        built: &Built,
        events: &Path,
        query: &str,
        parallelism: u32,
    ) -> Result<Self> {
        let file = format!("{query}.toml");
        let example = workspace.root.join("examples/nexmark").join(&file);
        let mut document: DocumentMut = std::fs::read_to_string(&example)
            .with_context(|| format!("cannot read {}", example.display()))?
            .parse()
            .with_context(|| format!("{} is no TOML", example.display()))?;
        document.insert("parallelism", value(i64::from(parallelism)));

        let directory = events.with_file_name(format!("{query}-{parallelism}"));
        remove(&directory)?;
        make(&directory)?;
        for component in components(document.as_table()) {
            let built = built.components.join(component);
            std::fs::copy(&built, directory.join(component))
                .with_context(|| format!("cannot copy {}", built.display()))?;
        }
        std::fs::hard_link(events, directory.join(EVENTS)).context("cannot link the events")?;
        if query == "q13" {
            std::fs::write(directory.join(SIDE_INPUT), side_input())
                .with_context(|| format!("cannot write {SIDE_INPUT}"))?;
        }
        let (howdah, cache) = (built.howdah.clone(), workspace.target.join("tmp/compiled"));
        Ok(Self { howdah, cache, directory, query: query.to_owned(), file, document })
    }

    /// The next run begins at the beginning; with checkpoints as often as the pipeline file says, or
    /// each so many milliseconds.
    pub(super) fn start_over(&mut self, interval_ms: Option<u32>) -> Result<()> {
        if let Some(interval_ms) = interval_ms {
            let checkpoint = self.document.entry("checkpoint").or_insert_with(table);
            let checkpoint = checkpoint.as_table_like_mut().context("`checkpoint` is no table")?;
            checkpoint.insert("interval-ms", value(i64::from(interval_ms)));
        }
        std::fs::write(self.directory.join(&self.file), self.document.to_string())
            .with_context(|| format!("cannot write {}", self.file))?;
        [STATE, OUTPUT].iter().try_for_each(|name| remove(&self.directory.join(name)))
    }

    /// Removes all that there is of it.
    pub(super) fn remove(self) -> Result<()> {
        remove(&self.directory)
    }

    /// Where everything of it is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where its output files appear.
    pub(super) fn output(&self) -> PathBuf {
        self.directory.join(OUTPUT)
    }

    /// Runs it to the end of its input.
    pub(super) fn run_to_end(&self) -> Result<()> {
        let status = self.start()?.wait().context("cannot wait for howdah")?;
        if status.success() { self.export() } else { self.failed(status) }
    }

    /// Writes what of its state is compared, too.
    fn export(&self) -> Result<()> {
        let (query, state) = OPEN_WINDOWS;
        if self.query != query {
            return Ok(());
        }
        let mut export = Command::new(&self.howdah);
        export.current_dir(&self.directory).stdout(Stdio::null());
        export.args(["state", "export", &self.file, state, "--force", "--to", OPEN_WINDOWS_FILE]);
        let status = export.status().with_context(|| format!("cannot run {}", typed(&export)))?;
        if !status.success() {
            bail!("`{}` ended with {status}", typed(&export));
        }
        Ok(())
    }

    /// Starts it, or lets it go on.
    pub(super) fn start(&self) -> Result<Child> {
        let mut command = self.command();
        let log = File::create(self.log())
            .with_context(|| format!("cannot write {}", self.log().display()))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("cannot run {}", typed(&command)))
    }

    /// What is said of a run that has failed.
    pub(super) fn failed<T>(&self, status: ExitStatus) -> Result<T> {
        let log = std::fs::read_to_string(self.log()).unwrap_or_default();
        bail!("`{}` ended with {status}:\n{}", typed(&self.command()), log.trim_end());
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.howdah);
        command.current_dir(&self.directory).env("HOWDAH_CACHE_DIR", &self.cache);
        command.args(["run", &self.file]);
        command
    }

    fn log(&self) -> PathBuf {
        self.directory.join("run.log")
    }
}

/// The components that a pipeline file names.
fn components(table: &dyn TableLike) -> Vec<&str> {
    let mut found = Vec::new();
    for (key, item) in table.iter() {
        match item.as_table_like() {
            Some(below) => found.extend(components(below)),
            None => found.extend(item.as_str().filter(|_| key == "component")),
        }
    }
    found
}

/// What q13 joins with: a name for each key.
fn side_input() -> String {
    let mut text = "key,value\n".to_owned();
    for key in 0..SIDE_INPUT_KEYS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{key},value-{key}");
    }
    text
}

fn make(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))
}

/// Removes a directory, if there is one.
fn remove(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_found_in_any_form_of_a_pipeline_file() {
        let of = |text: &str| {
            let document: DocumentMut = text.parse().unwrap();
            components(document.as_table()).join(" ")
        };
        assert_eq!(of("[operator]\nname = 'q'\ncomponent = 'a.wasm'"), "a.wasm");
        let several =
            "[operator.a]\ncomponent = 'a.wasm'\n[operator]\nb = { component = 'b.wasm' }";
        assert_eq!(of(several), "a.wasm b.wasm");
    }
}
