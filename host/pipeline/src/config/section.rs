//! A table of the pipeline file, read key by key with the line of everything.

use crate::config::Located;
use crate::config::keys::{Key, Kind};
use crate::error::{Error, Result, suggestion};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Display;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong with a pipeline file: all of it, each with its line.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<(u32, String)>>);

impl Problems {
    pub(super) fn add(&self, line: u32, message: impl Display) {
        self.0.borrow_mut().push((line, message.to_string()));
    }

    /// One error for all of them, in the order of the file.
    pub(super) fn check(&self, file: &Path) -> Result<()> {
        let mut problems = self.0.take();
        problems.sort_by_key(|(line, _)| *line);
        problems.dedup();
        let problems = problems.iter().map(|(line, message)| Error::config(file, *line, message));
        Error::all(problems.collect())
    }
}

/// The text of a pipeline file, to turn offsets into lines, and what is wrong with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
    pub(super) problems: &'a Problems,
}

impl<'a> Document<'a> {
    /// Parses TOML; a syntax error is named with its line.
    pub(super) fn parse(self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            let line = self.line(span.start);
            let message = error.message();
            match self.text.get(span).filter(|_| message == "duplicate key") {
                Some(key) => Error::config(self.file, line, format!("{message} `{key}`")),
                None => Error::config(self.file, line, message),
            }
        })
    }

    fn line(self, offset: usize) -> u32 {
        let before = self.text.as_bytes().get(..offset).unwrap_or_default();
        let breaks = before.iter().filter(|byte| **byte == b'\n').count();
        u32::try_from(breaks).map_or(u32::MAX, |breaks| breaks.saturating_add(1))
    }
}

/// A table of the file. Whatever it has that it should not have is added to the problems of the
/// document, and as if it were not there.
#[derive(Debug, Clone)]
pub(super) struct Section<'a> {
    document: Document<'a>,
    /// Dotted name without brackets; empty for the file itself.
    name: String,
    /// What it may have.
    kind: Kind,
    /// `None`: the file does not have it.
    table: Option<&'a DeTable<'a>>,
    line: u32,
}

impl<'a> Section<'a> {
    /// The whole file, which may have these keys.
    pub(super) fn root(
        document: Document<'a>,
        table: &'a DeTable<'a>,
        keys: &'static [Key],
    ) -> Self {
        let kind = Kind::Table(keys);
        let section = Self { document, name: String::new(), kind, table: Some(table), line: 1 };
        section.refuse_unknown();
        section
    }

    /// The table under `key`, empty when the file does not have it.
    pub(super) fn section(&self, key: &str) -> Self {
        let section = self.open_section(key);
        section.refuse_unknown();
        section
    }

    /// The table under `key`, whose keys are free.
    pub(super) fn open_section(&self, key: &str) -> Self {
        let name =
            if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
        let kind = self.kind_of(key);
        let absent = Self { document: self.document, name, kind, table: None, line: self.line };
        let Some(value) = self.get(key) else { return absent };
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type::<()>(key, value, "a table");
            return absent;
        };
        Self { table: Some(table), line: self.line_of(value), ..absent }
    }

    /// Whether the file has this table.
    pub(super) fn is_there(&self) -> bool {
        self.table.is_some()
    }

    /// Whether the table has this key, whatever is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// Something is wrong on a line of the file.
    pub(super) fn problem(&self, line: u32, message: impl Display) {
        self.document.problems.add(line, message);
    }

    /// `` `key` in [section] ``.
    pub(super) fn describe(&self, key: &str) -> String {
        if self.name.is_empty() {
            format!("`{key}`")
        } else {
            format!("`{key}` in [{}]", self.name)
        }
    }

    /// `[section]`.
    pub(super) fn title(&self) -> String {
        if self.name.is_empty() { "the file".into() } else { format!("[{}]", self.name) }
    }

    /// All keys and values, in the order of the file.
    pub(super) fn entries(&self) -> Vec<(Located<String>, &'a Spanned<DeValue<'a>>)> {
        let entries = self.table.into_iter().flat_map(|table| table.iter());
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        entries.into_iter().map(|(key, value)| (self.locate_key(key), value)).collect()
    }

    pub(super) fn text(&self, key: &str) -> Option<Located<String>> {
        let text = self.text_of(key, self.get(key)?)?;
        if text.value.contains('\0') {
            let what = self.describe(key);
            self.problem(text.line, format!("{what} has a NUL in it, which no path or name has"));
            return None;
        }
        Some(text)
    }

    pub(super) fn required_text(&self, key: &str) -> Option<Located<String>> {
        if !self.has(key) {
            self.problem(self.line, format!("{} lacks `{key}`", self.title()));
        }
        self.text(key)
    }

    /// A text, or a list of them.
    pub(super) fn text_or_texts(&self, key: &str) -> Vec<Located<String>> {
        self.get(key).map(|value| self.text_or_texts_of(key, value)).unwrap_or_default()
    }

    /// A value that must be a text, or a list of them.
    pub(super) fn text_or_texts_of(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Vec<Located<String>> {
        let texts: Vec<_> = match value.get_ref() {
            DeValue::Array(texts) => {
                texts.iter().filter_map(|text| self.text_of(key, text)).collect()
            }
            DeValue::String(_) => return self.text_of(key, value).into_iter().collect(),
            _ => {
                return self
                    .wrong_type(key, value, "a string or a list of strings")
                    .unwrap_or_default();
            }
        };
        if texts.is_empty() {
            let problem = format!("{} names nothing", self.describe(key));
            self.problem(self.line_of(value), problem);
        }
        texts
    }

    /// A text that is a name: letters, digits, `_` and `-`, at most 64.
    pub(super) fn name(&self, key: &str, value: Located<String>) -> Option<Located<String>> {
        let what = self.describe(key);
        self.is_name(&what, &value).then_some(value)
    }

    /// The same of what is called `what`.
    pub(super) fn is_name(&self, what: &str, value: &Located<String>) -> bool {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let text = value.value.as_str();
        let is_name = !text.is_empty() && text.len() <= 64 && text.bytes().all(good);
        if !is_name {
            let problem =
                format!("{what} is `{text}`; a name has 1 to 64 letters, digits, `_` and `-`");
            self.problem(value.line, problem);
        }
        is_name
    }

    pub(super) fn boolean(&self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        match value.get_ref() {
            DeValue::Boolean(boolean) => Some(*boolean),
            _ => self.wrong_type(key, value, "true or false"),
        }
    }

    /// A whole number in the range that the key has.
    pub(super) fn integer(&self, key: &str) -> Option<u64> {
        self.integer_up_to(key, u64::MAX, "")
    }

    /// The same, and no more than `limit`; with a reason for the range.
    pub(super) fn integer_up_to(&self, key: &str, limit: u64, reason: &str) -> Option<u64> {
        let value = self.get(key)?;
        let Kind::Integer(least, most) = self.kind_of(key) else {
            debug_assert!(false, "{} is no whole number", self.describe(key));
            return None;
        };
        let range = least..=most.min(limit);
        let DeValue::Integer(integer) = value.get_ref() else {
            return self.wrong_type(key, value, "a whole number");
        };
        match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) if range.contains(&number) => Some(number),
            _ => {
                let (what, stated) = (self.describe(key), integer.as_str());
                let (least, most) = (range.start(), range.end());
                let problem = format!("{what} is {stated}; it must be {least} to {most}{reason}");
                self.problem(self.line_of(value), problem);
                None
            }
        }
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        debug_assert!(
            matches!(self.kind_of(key), Kind::Choice(words)
                if choices.iter().all(|(word, _)| words.contains(word))),
            "{} has other choices",
            self.describe(key)
        );
        let text = self.text(key)?;
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text.value) {
            return Some(*choice);
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let problem = format!(
            "{} is `{}`; it must be {}{}",
            self.describe(key),
            text.value,
            enumerate(&words, "or"),
            suggestion(&text.value, words.iter().copied()),
        );
        self.problem(text.line, problem);
        None
    }

    /// A list of texts; empty when the file does not have it.
    pub(super) fn texts(&self, key: &str) -> Vec<Located<String>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_type::<()>(key, value, "a list of strings");
            return Vec::new();
        };
        array.iter().filter_map(|value| self.text_of(key, value)).collect()
    }

    /// The value as a text.
    pub(super) fn text_of(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<Located<String>> {
        match value.get_ref() {
            DeValue::String(text) => {
                Some(Located { value: text.clone().into_owned(), line: self.line_of(value) })
            }
            _ => self.wrong_type(key, value, "a string"),
        }
    }

    /// Says that a value is of another type than it should be; is `None`.
    pub(super) fn wrong_type<T>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        expected: &str,
    ) -> Option<T> {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let problem = format!("{} must be {expected}, not {found}", self.describe(key));
        self.problem(self.line_of(value), problem);
        None
    }

    pub(super) fn line_of<T>(&self, value: &Spanned<T>) -> u32 {
        self.document.line(value.span().start)
    }

    /// Whether a table behind this key is the node's own, so that it is no name.
    pub(super) fn is_own(&self, key: &str) -> bool {
        self.kind.keys().iter().any(|known| known.name == key && known.kind.takes_table())
    }

    /// The one node, where it has no name.
    pub(super) fn only(self) -> Self {
        Self { kind: Kind::Table(self.kind.keys()), ..self }
    }

    /// Refuses keys that are not for this kind of source or sink, which `chooser` states.
    pub(super) fn refuse_unfit(&self, chooser: &str, chosen: &str) {
        for (key, _) in self.entries() {
            let known = self.kind.keys().iter().find(|known| known.name == key.value);
            let Some(known) = known.filter(|known| !known.only.is_empty()) else { continue };
            if !known.only.contains(&chosen) {
                let kinds: Vec<String> = known.only.iter().map(|it| format!("\"{it}\"")).collect();
                let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
                let (what, kinds) = (self.describe(&key.value), enumerate(&kinds, "or"));
                self.problem(key.line, format!("{what} is for {chooser} = {kinds}; remove it"));
            }
        }
    }

    pub(super) fn refuse_unknown(&self) {
        let known = self.kind.names();
        for (key, _) in self.entries() {
            if known.contains(&key.value.as_str()) {
                continue;
            }
            let close = suggestion(&key.value, known.iter().copied());
            let way_out = if close.is_empty() {
                format!("; {} takes {}", self.title(), enumerate(&known, "and"))
            } else {
                close
            };
            let problem = format!("unknown key {}{way_out}", self.describe(&key.value));
            self.problem(key.line, problem);
        }
    }

    fn locate_key(&self, key: &Spanned<Cow<'_, str>>) -> Located<String> {
        Located { value: key.get_ref().clone().into_owned(), line: self.line_of(key) }
    }

    fn kind_of(&self, key: &str) -> Kind {
        let kind = self.kind.of(key);
        debug_assert!(kind.is_some(), "{} is not among the keys", self.describe(key));
        kind.unwrap_or(Kind::Any)
    }

    fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table?.get(key)
    }
}

/// `a, b and c`.
pub(crate) fn enumerate(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).to_owned(),
        [words @ .., word] => format!("{} {last} {word}", words.join(", ")),
    }
}
