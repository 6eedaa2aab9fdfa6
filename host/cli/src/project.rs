//! Projects of operators: in which languages, and what their names may be.

mod reserved;

use crate::failure::{Failure, Result};
use reserved::is_reserved;
use std::fmt;
use std::path::Path;

/// A language that operators are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Language {
    Rust,
    Python,
    Js,
    C,
}

impl Language {
    const ALL: [Self; 4] = [Self::Rust, Self::Python, Self::Js, Self::C];

    /// As the command line writes it.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Js => "js",
            Self::C => "c",
        }
    }

    /// The language of the project in a directory.
    pub(crate) fn of(project: &Path) -> Result<Self> {
        let is = |language: &&Self| language.is_in(project);
        Self::ALL.iter().find(is).copied().ok_or_else(|| {
            Failure::usage(format!(
                "{} is no project of an operator: it has no Cargo.toml (Rust), package.json \
                 (JavaScript), or .py or .c file beside a pipeline.toml; `howdah new` makes one",
                project.display()
            ))
        })
    }

    fn is_in(self, project: &Path) -> bool {
        match self {
            Self::Rust => project.join("Cargo.toml").is_file(),
            Self::Js => project.join("package.json").is_file(),
            Self::Python => has_file(project, "py"),
            Self::C => has_file(project, "c"),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::Js => "JavaScript",
            Self::C => "C",
        })
    }
}

fn has_file(directory: &Path, extension: &str) -> bool {
    directory.read_dir().is_ok_and(|entries| {
        entries
            .flatten()
            .any(|entry| entry.path().extension().is_some_and(|found| found == extension))
    })
}

/// The longest name: names of tables have it in them.
const NAME_LIMIT_BYTES: usize = 64;

/// A name in its three spellings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// `highest-bid`.
    pub(crate) kebab: String,
    /// `highest_bid`.
    pub(crate) snake: String,
    /// `HighestBid`.
    pub(crate) camel: String,
}

impl Name {
    /// Checks a name from the command line.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split('-').collect();
        let is_word = |word: &&str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        if !begins || !words.iter().all(is_word) || text.len() > NAME_LIMIT_BYTES {
            let close = suggestion(text);
            return Err(Failure::usage(format!(
                "`{text}` is no name for a project: it has lower-case letters, digits and single \
                 `-`, begins with a letter, and is at most {NAME_LIMIT_BYTES} long{close}"
            )));
        }
        if is_reserved(text) {
            return Err(Failure::usage(format!(
                "`{text}` means something else in one of the languages; take another name, like `my-{text}`"
            )));
        }
        let capital = |word: &&str| {
            let mut letters = word.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        };
        Ok(Self {
            kebab: text.to_owned(),
            snake: text.replace('-', "_"),
            camel: words.iter().map(capital).collect(),
        })
    }
}

/// ``; `my-name` would do``, when a name can be made of it.
fn suggestion(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        if letter.is_ascii_uppercase() && name.ends_with(|last: char| last.is_ascii_lowercase()) {
            name.push('-');
        }
        match letter.to_ascii_lowercase() {
            letter if letter.is_ascii_alphanumeric() => name.push(letter),
            _ if name.ends_with('-') || name.is_empty() => {}
            _ => name.push('-'),
        }
    }
    let name = name.trim_matches('-');
    let fits = name.len() <= NAME_LIMIT_BYTES && name.starts_with(|c: char| c.is_ascii_lowercase());
    if fits { format!("; `{name}` would do") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Name::parse(text).expect_err("refused").message()
    }

    #[test]
    fn a_name_has_three_spellings() {
        let name = Name::parse("top-10-bids").expect("a name");
        let Name { kebab, snake, camel } = name;
        assert_eq!(
            (kebab.as_str(), snake.as_str(), camel.as_str()),
            ("top-10-bids", "top_10_bids", "Top10Bids")
        );
    }

    #[test]
    fn what_is_no_name_is_refused_with_one_that_is() {
        assert!(refused("HighestBid").ends_with("`highest-bid` would do"));
        assert!(refused("my_operator").ends_with("`my-operator` would do"));
        assert!(refused("a--b").ends_with("`a-b` would do"));
        for text in ["", "1st", "-", "../x", "a/b", &"a".repeat(65)] {
            assert!(refused(text).contains("is no name for a project"), "{text}");
        }
        for text in ["struct", "crate", "lambda", "none", "json", "re", "howdah-sdk"] {
            assert!(refused(text).contains(&format!("`my-{text}`")), "{text}");
        }
    }
}
