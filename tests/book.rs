//! The book: its pages are linked, its pipeline files are read, and its commands do what it shows.

use crate::support::job::{howdah, scratch};
use crate::support::{Finished, is_full, wait_for};
use howdah_pipeline::PipelineConfig;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use toml_edit::DocumentMut;

/// A page, with what it includes.
struct Page {
    name: String,
    text: String,
}

/// A block of code.
struct Fence {
    language: String,
    /// What else its first line says.
    attributes: Vec<String>,
    /// Its first line.
    line: usize,
    text: String,
}

impl Fence {
    fn is(&self, attribute: &str) -> bool {
        self.attributes.iter().any(|it| it == attribute)
    }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src")
}

fn page(name: &str) -> Page {
    let text = std::fs::read_to_string(source().join(name)).unwrap();
    let line = |line: &str| match line.strip_prefix("{{#include ") {
        Some(path) => {
            let path = source().join(path.trim_end_matches("}}"));
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {line}: {error}"))
        }
        None => format!("{line}\n"),
    };
    Page { name: name.to_owned(), text: text.lines().map(line).collect() }
}

fn pages() -> Vec<Page> {
    let files = std::fs::read_dir(source()).unwrap().map(|entry| entry.unwrap().file_name());
    files.map(|name| page(name.to_str().unwrap())).collect()
}

impl Page {
    fn fences(&self) -> Vec<Fence> {
        let mut fences = Vec::new();
        let mut open: Option<Fence> = None;
        for (number, line) in (1..).zip(self.text.lines()) {
            match (line.strip_prefix("```"), &mut open) {
                (Some(_), Some(_)) => fences.extend(open.take()),
                (Some(info), None) => {
                    let mut words = info.split([' ', ',']).map(str::to_owned);
                    let language = words.next().unwrap_or_default();
                    let (attributes, text) = (words.collect(), String::new());
                    open = Some(Fence { language, attributes, line: number, text });
                }
                (None, Some(fence)) => fence.text = format!("{}{line}\n", fence.text),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block of code has no end", self.name);
        fences
    }

    /// The text without blocks of code.
    fn prose(&self) -> String {
        self.text.split("```").step_by(2).collect()
    }

    /// Targets of links, as they are written.
    fn links(&self) -> Vec<String> {
        let prose = self.prose();
        let parts = prose.split("](").skip(1);
        parts.map(|part| part.split(')').next().unwrap().to_owned()).collect()
    }

    /// What headings are called in links.
    fn anchors(&self) -> Vec<String> {
        let prose = self.prose();
        let headings = prose.lines().filter(|line| line.starts_with('#'));
        let anchor = |heading: &str| {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
            kept.map(|it| if it == ' ' { '-' } else { it }).collect()
        };
        headings.map(anchor).collect()
    }
}

#[test]
fn every_page_is_in_the_summary() {
    let listed = page("SUMMARY.md").links();
    for page in pages() {
        let is_listed = listed.contains(&page.name) || page.name == "SUMMARY.md";
        assert!(is_listed, "{} is not in SUMMARY.md", page.name);
    }
    for name in listed {
        assert!(source().join(&name).is_file(), "SUMMARY.md names {name}, which is not there");
    }
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        for link in page.links().iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let name = if path.is_empty() { &page.name } else { path };
            assert!(source().join(name).exists(), "{}: {link} leads nowhere", page.name);
            if !anchor.is_empty() && !name.contains('/') {
                let anchors = self::page(name).anchors();
                assert!(anchors.iter().any(|it| it == anchor), "{}: {link}", page.name);
            }
        }
    }
}

/// What a part of a pipeline file stands in.
const AROUND: &str = "name = 'part'
[source]
path = 'events.csv'
[operator]
name = 'last-bid'
component = 'last-bid.wasm'
[sink]
type = 'null'
";

/// A pipeline file with the tables of another.
fn within(around: &str, part: &str) -> String {
    let mut whole: DocumentMut = around.parse().unwrap();
    let part: DocumentMut = part.parse().unwrap();
    for (key, value) in part.iter() {
        whole[key] = value.clone();
    }
    whole.to_string()
}

#[test]
fn its_pipeline_files_are_read() {
    let mut read = 0;
    for page in pages() {
        for fence in page.fences().iter().filter(|fence| fence.language == "toml") {
            // A manifest, not a pipeline file.
            if fence.text.contains("[dependencies]") {
                continue;
            }
            let is_part = fence.is("fragment");
            let text = if is_part { within(AROUND, &fence.text) } else { fence.text.clone() };
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("pipeline.toml");
            std::fs::write(&file, text).unwrap();
            let config = PipelineConfig::load_alone(&file);
            config.unwrap_or_else(|error| panic!("{}:{}: {error}", page.name, fence.line));
            read += 1;
        }
    }
    assert!(read >= 5, "{read}");
}

/// A directory in which the commands of a page are typed.
struct Shell {
    root: TempDir,
    directory: PathBuf,
    background: Vec<Child>,
}

impl Shell {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().to_owned();
        std::fs::copy(howdah_operator_artifacts::LAST_BID, directory.join("last-bid.wasm"))
            .unwrap();
        // The same with another digest: a custom section more.
        let mut other = std::fs::read(howdah_operator_artifacts::LAST_BID).unwrap();
        other.extend(b"\0\x03\x01a!");
        std::fs::write(directory.join("new.wasm"), other).unwrap();
        Self { root, directory, background: Vec::new() }
    }

    /// With a pipeline file that a page shows.
    fn with_file_of(page: &Page) -> Self {
        let shell = Self::new();
        for fence in page.fences() {
            let name = fence.attributes.iter().find_map(|it| it.strip_prefix("file="));
            if let Some(name) = name {
                std::fs::write(shell.root.path().join(name), &fence.text).unwrap();
            }
        }
        shell
    }

    fn command(&self, line: &str) -> Command {
        let binaries = Path::new(env!("CARGO_BIN_EXE_howdah")).parent().unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(&self.directory).stdin(Stdio::null());
        command.env("PATH", format!("{}:{}", binaries.display(), path.display()));
        command.env("HOWDAH_CACHE_DIR", scratch().join("compiled"));
        command.env("CARGO_TARGET_DIR", scratch().join("new-project"));
        command.env("CARGO_NET_OFFLINE", "true");
        command
    }

    /// Does what a line of a page says; what it prints.
    fn type_in(&mut self, line: &str) -> String {
        if let Some(directory) = line.strip_prefix("cd ") {
            self.directory.push(directory);
            return String::new();
        }
        if let Some(line) = line.strip_suffix('&') {
            let mut command = self.command(&format!("exec {line}"));
            let command = command.stdout(Stdio::null()).stderr(Stdio::null());
            self.background.push(command.spawn().unwrap());
            let file = line.split_whitespace().find(|word| word.ends_with(".toml")).unwrap();
            self.wait_for_checkpoint(file);
            return String::new();
        }
        let finished = Finished::of(self.command(line).output().unwrap());
        assert_eq!(finished.code, Some(0), "{line}: {}{}", finished.stdout, finished.stderr);
        finished.stdout + &finished.stderr
    }

    fn wait_for_checkpoint(&self, file: &str) {
        wait_for("a checkpoint", || {
            let mut status = howdah();
            status.args(["status", file]).current_dir(&self.directory);
            let status = Finished::of(status.output().unwrap()).stdout;
            (status.contains(": runs") && status.contains("is the last")).then_some(())
        });
    }

    /// Types all commands of a page, and compares what they print with what it shows.
    fn follow(&mut self, page: &Page) {
        let fences = page.fences();
        let fences = fences.iter().filter(|fence| fence.language == "console");
        let mut typed = 0;
        for fence in fences.filter(|fence| is_full() || !fence.is("full")) {
            for example in fence.text.split("$ ").skip(1) {
                let (line, shown) = example.split_once('\n').unwrap();
                let printed = self.type_in(line);
                let at = format!("{}:{}", page.name, fence.line);
                check(&format!("{at}: {line}"), shown, &printed);
                typed += 1;
            }
        }
        assert!(typed > 0, "{} has no commands", page.name);
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        for child in &mut self.background {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Each line that a page shows must have been printed, in this order.
fn check(at: &str, shown: &str, printed: &str) {
    let mut lines = printed.lines();
    for shown in shown.lines().filter(|line| !line.trim().is_empty()) {
        let found = lines.any(|line| is_like(line.trim_end(), shown.trim_end()));
        assert!(found, "{at}\nshows: {shown}\nprinted:\n{printed}");
    }
}

/// Whether a line is what a page shows, where `…` stands for anything.
fn is_like(line: &str, shown: &str) -> bool {
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut is_open = false;
    for part in parts {
        is_open = part.is_empty();
        match rest.find(part) {
            Some(start) => rest = &rest[start + part.len()..],
            None => return false,
        }
    }
    is_open || rest.is_empty()
}

#[test]
fn its_quick_start_is_as_it_says() {
    let mut shell = Shell::new();
    let pipeline = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/last-bid.toml");
    std::fs::copy(pipeline, shell.directory.join("last-bid.toml")).unwrap();
    shell.follow(&page("quick-start.md"));
}

#[test]
fn its_pipeline_is_operated_as_it_says() {
    let operating = page("operating.md");
    Shell::with_file_of(&operating).follow(&operating);
}

#[test]
fn its_commands_about_state_and_operators_do_what_they_show() {
    let mut shell = Shell::with_file_of(&page("operating.md"));
    shell.type_in("howdah run q18.toml &");
    shell.follow(&page("state.md"));
    shell.follow(&page("operators.md"));
}

#[test]
fn the_schema_of_its_reference_is_printed() {
    let schema = Finished::of(howdah().arg("schema").output().unwrap()).success().stdout;
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
    let retained = &schema["properties"]["checkpoint"]["properties"]["retained"];
    assert_eq!(retained["default"], 3, "{retained}");
}
