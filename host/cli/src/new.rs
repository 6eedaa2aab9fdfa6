//! `howdah new`: makes a project of an operator.

use crate::failure::{Failure, Result};
use crate::project::{Language, Name};
use anyhow::{Context, anyhow};
use std::io::Write;
use std::path::{Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/templates.rs"));

/// The name of the operator in the templates, in its three spellings.
const PLACEHOLDERS: [&str; 3] = ["highest-bid", "highest_bid", "HighestBid"];

/// How the README of the Rust template names that of the SDK.
const SDK_README: &str = "SDK/README.md";
/// How the Rust template names the SDK.
const SDK_IN_TEMPLATE: &str = "path = \"..\"";

/// The Rust SDK of the checkout that this binary was built from.
const BUILT_WITH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest-sdk/rust");

/// Make a project of an operator: its source, a test, a pipeline and some events
///
/// The operator keeps the highest bid of each auction: a start to change into what you need. The
/// project builds and passes its own test as it is. Nothing is downloaded; Cargo gets the crates that the
/// Rust SDK stands on when it builds.
///
/// A Rust project takes the SDK from a checkout of howdah, since it is on no registry yet: from the
/// one that this command was built from, or from the one that --sdk names. Projects in other
/// languages get a copy of their SDK.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  howdah new --lang rust highest-bid
  howdah new --lang rust highest-bid --sdk ../howdah/guest-sdk/rust
  howdah new --lang python highest-bid

Then, in the new directory:
  howdah build                  makes highest-bid.wasm, and checks it
  howdah run pipeline.toml      runs it over events.csv

Exit codes: 0 made, 1 it could not be written, 2 wrong arguments, or the directory is there already.")]
pub(crate) struct Args {
    /// The language of the operator
    #[arg(long, value_enum)]
    lang: Language,
    /// The name of the operator, and of the new directory; lower-case letters, digits and `-`
    name: String,
    /// The Rust SDK (`guest-sdk/rust` of a checkout), or the checkout
    #[arg(long, value_name = "PATH")]
    sdk: Option<PathBuf>,
}

/// Runs `howdah new`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let name = Name::parse(&args.name)?;
    let files = template(args.lang)?;
    if args.sdk.is_some() && args.lang != Language::Rust {
        return Err(Failure::usage(format!(
            "--sdk is for Rust alone: a project in {} gets a copy of its SDK",
            args.lang
        )));
    }
    let sdk = match args.lang {
        Language::Rust => Some(rust_sdk(args.sdk.as_deref())?),
        _ => None,
    };
    let directory = Path::new(&name.kebab);
    if directory.exists() {
        return Err(Failure::usage(format!(
            "{} is there already; take another name, or remove it",
            directory.display()
        )));
    }
    let made = write_project(directory, files, &name, sdk.as_deref());
    if made.is_err() {
        // What is half there would be in the way of another try.
        let _ = std::fs::remove_dir_all(directory);
    }
    made?;
    write!(std::io::stdout(), "{}", next_steps(args.lang, &name, sdk.as_deref()))?;
    Ok(())
}

/// The files of a template: name and text.
fn template(language: Language) -> Result<&'static [(&'static str, &'static str)]> {
    let mut templates = TEMPLATES.iter();
    let found = templates.find(|(id, _)| *id == language.id()).map(|(_, files)| *files);
    found.ok_or_else(|| {
        let known: Vec<&str> = TEMPLATES.iter().map(|(id, _)| *id).collect();
        Failure::usage(format!(
            "this howdah was built without a template for {language}; it has: {}",
            known.join(", ")
        ))
    })
}

/// The directory of the Rust SDK, whole.
fn rust_sdk(stated: Option<&Path>) -> Result<PathBuf> {
    let place = stated.unwrap_or(Path::new(BUILT_WITH));
    let inside = place.join("guest-sdk/rust");
    let sdk = if is_rust_sdk(&inside) { inside } else { place.to_owned() };
    if !is_rust_sdk(&sdk) {
        let whose =
            if stated.is_some() { "--sdk" } else { "the checkout that this was built from" };
        return Err(Failure::usage(format!(
            "there is no Rust SDK in {} ({whose}); say with --sdk where guest-sdk/rust of a checkout \
             of howdah is",
            place.display()
        )));
    }
    Ok(sdk.canonicalize().with_context(|| format!("cannot resolve {}", sdk.display()))?)
}

fn is_rust_sdk(directory: &Path) -> bool {
    let manifest = std::fs::read_to_string(directory.join("Cargo.toml"));
    manifest.is_ok_and(|text| text.contains("name = \"howdah-sdk\""))
}

fn write_project(
    directory: &Path,
    files: &[(&str, &str)],
    name: &Name,
    sdk: Option<&Path>,
) -> anyhow::Result<()> {
    for (file, text) in files {
        let mut text = named(text, name);
        match (sdk, *file) {
            (Some(sdk), "Cargo.toml") => text = with_sdk(&text, sdk)?,
            (Some(sdk), "README.md") => {
                text = text.replace(SDK_README, &sdk.join("README.md").display().to_string());
            }
            _ => {}
        }
        write(&directory.join(named(file, name)), text.as_bytes())?;
    }
    write(&directory.join(".gitignore"), GIT_IGNORE.as_bytes())?;
    // The versions that the SDK was tested with.
    let lock =
        sdk.and_then(|sdk| sdk.ancestors().nth(2)).map(|checkout| checkout.join("Cargo.lock"));
    if let Some(lock) = lock.filter(|lock| lock.is_file()) {
        let bytes =
            std::fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
        write(&directory.join("Cargo.lock"), &bytes)?;
    }
    Ok(())
}

const GIT_IGNORE: &str =
    "/.venv\n/output\n/state\n/target\nnode_modules\n__pycache__\n*.wasm\n*_test\n";

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let directory = path.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(path, bytes))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// With the project's name in place of the template's.
fn named(text: &str, name: &Name) -> String {
    let spellings = [&name.kebab, &name.snake, &name.camel];
    PLACEHOLDERS
        .into_iter()
        .zip(spellings)
        .fold(text.to_owned(), |text, (placeholder, spelling)| text.replace(placeholder, spelling))
}

/// With the path of the SDK.
fn with_sdk(manifest: &str, sdk: &Path) -> anyhow::Result<String> {
    let path = sdk.to_str().ok_or_else(|| {
        anyhow!("the path of the SDK is no UTF-8, which Cargo.toml needs: {}", sdk.display())
    })?;
    let quoted = if path.contains(['\'', '\n']) {
        return Err(anyhow!(
            "the path of the SDK has quotes, which Cargo.toml cannot have: {path}"
        ));
    } else {
        format!("path = '{path}'")
    };
    Ok(manifest.replace(SDK_IN_TEMPLATE, &quoted))
}

fn next_steps(language: Language, name: &Name, sdk: Option<&Path>) -> String {
    let kebab = &name.kebab;
    let c_test = format!(
        "cc -I howdah -o {snake}_test {snake}_test.c howdah/*.c && ./{snake}_test",
        snake = name.snake
    );
    let test = match language {
        Language::Rust => "cargo test",
        Language::Python => "python3 -m unittest",
        Language::Js => "node --test",
        Language::C => &c_test,
    };
    let mut text = format!(
        "made {kebab}, an operator in {language}\n\
         \x20 cd {kebab}\n\
         \x20 {test:26}  tests it, without a host\n\
         \x20 howdah build                makes {kebab}.wasm, and checks it\n\
         \x20 howdah run pipeline.toml    runs it over events.csv; the results are in output/\n"
    );
    if let Some(sdk) = sdk {
        text.push_str(&format!(
            "The first test and the first build compile the SDK and what it stands on, in a minute or \
             two.\nCargo.toml takes the SDK from {}, as it is on no registry yet; --sdk names another \
             checkout\n",
            sdk.display()
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_template_keeps_its_own_name() {
        let name = Name::parse("my-own").expect("a name");
        for (language, files) in TEMPLATES {
            for (file, text) in *files {
                let (file, text) = (named(file, &name), named(text, &name));
                for placeholder in PLACEHOLDERS {
                    assert!(!file.contains(placeholder), "{language}: {file}");
                    assert!(!text.contains(placeholder), "{language}: {file}");
                }
            }
            let names: Vec<&str> = files.iter().map(|(file, _)| *file).collect();
            for needed in ["README.md", "pipeline.toml", "events.csv"] {
                assert!(names.contains(&needed), "{language}: {names:?}");
            }
        }
    }

    #[test]
    fn the_manifest_of_a_rust_project_names_the_sdk() {
        let files = template(Language::Rust).expect("a template");
        let manifest = files.iter().find(|(file, _)| *file == "Cargo.toml").expect("a manifest").1;
        let manifest = with_sdk(manifest, Path::new("/a checkout/sdk")).expect("a path");
        assert!(manifest.contains("howdah-sdk = { path = '/a checkout/sdk' }"), "{manifest}");
    }
}
