//! Puts the templates of `guest-sdk/*/template` into the binary, with what projects take along of
//! their SDK. A language without a template yet is left out.
#![expect(clippy::print_stdout, reason = "how a build script talks to cargo")]

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const LANGUAGES: [&str; 4] = ["rust", "python", "js", "c"];

/// For a language, what lies where in the workspace, and where in a project.
const VENDORED: [(&str, &str, &str); 18] = [
    ("python", "guest-sdk/python/README.md", "howdah/README.md"),
    ("python", "guest-sdk/python/howdah", "howdah"),
    ("python", "wit", "howdah/wit"),
    ("js", "guest-sdk/js/README.md", "howdah/README.md"),
    ("js", "guest-sdk/js/build.mjs", "howdah/build.mjs"),
    ("js", "guest-sdk/js/howdah.d.ts", "howdah/howdah.d.ts"),
    ("js", "guest-sdk/js/howdah.js", "howdah/howdah.js"),
    ("js", "guest-sdk/js/package-lock.json", "howdah/package-lock.json"),
    ("js", "guest-sdk/js/package.json", "howdah/package.json"),
    ("js", "guest-sdk/js/testing.d.ts", "howdah/testing.d.ts"),
    ("js", "guest-sdk/js/testing.js", "howdah/testing.js"),
    ("js", "wit", "howdah/wit"),
    ("c", "guest-sdk/c/README.md", "howdah/README.md"),
    ("c", "guest-sdk/c/bindings", "howdah/bindings"),
    ("c", "guest-sdk/c/howdah.c", "howdah/howdah.c"),
    ("c", "guest-sdk/c/howdah.h", "howdah/howdah.h"),
    ("c", "guest-sdk/c/howdah_testing.c", "howdah/howdah_testing.c"),
    ("c", "guest-sdk/c/howdah_testing.h", "howdah/howdah_testing.h"),
];

/// What tools leave behind.
const LEFT_OUT: [&str; 6] =
    ["target", "__pycache__", "node_modules", "output", "state", "Cargo.lock"];

fn main() -> Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("cargo sets it")?);
    let workspace = manifest.ancestors().nth(2).ok_or("the crate lies too high")?;
    let mut text = String::from("const TEMPLATES: &[(&str, &[(&str, &str)])] = &[\n");
    for language in LANGUAGES {
        let own = format!("guest-sdk/{language}/template");
        let vendored = VENDORED.iter().filter(|(of, ..)| *of == language);
        let places = vendored.map(|(_, from, to)| (*from, *to));
        let mut files = Vec::new();
        for (from, to) in std::iter::once((own.as_str(), "")).chain(places) {
            // Relative to this crate, since checkouts may share a target directory.
            println!("cargo::rerun-if-changed=../../{from}");
            let from = workspace.join(from);
            collect(&from, Path::new(to), &mut files)?;
        }
        if !workspace.join(&own).is_dir() {
            continue;
        }
        files.sort();
        writeln!(text, "({language:?}, &[")?;
        for (name, path) in files {
            writeln!(text, "({name:?}, include_str!({path:?})),")?;
        }
        writeln!(text, "]),")?;
    }
    text.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets it")?);
    fs::write(out.join("templates.rs"), text)?;
    Ok(())
}

/// The files of a directory, or the file: the name in a project, and the path.
fn collect(directory: &Path, to: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> Result<()> {
    if directory.is_file() {
        files.push((to.to_owned(), directory.to_owned()));
    }
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let left_out = LEFT_OUT.contains(&name) || name.starts_with('.');
        if left_out || path.extension().is_some_and(|extension| extension == "wasm") {
            continue;
        }
        let to = to.join(name);
        if path.is_dir() {
            collect(&path, &to, files)?;
        } else {
            files.push((to, path));
        }
    }
    Ok(())
}
