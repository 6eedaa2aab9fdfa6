//! A table of the pipeline file, read key by key with the line of everything.

use crate::config::Located;
use crate::error::{Error, Result, suggestion};
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of a pipeline file, to turn offsets into lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
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

/// A table whose keys are known.
#[derive(Debug, Clone)]
pub(super) struct Section<'a> {
    document: Document<'a>,
    /// Dotted name without brackets; empty for the file itself.
    name: String,
    /// `None`: the file does not have it.
    table: Option<&'a DeTable<'a>>,
    line: u32,
}

impl<'a> Section<'a> {
    /// The whole file. `known` are all keys that it may have.
    pub(super) fn root(
        document: Document<'a>,
        table: &'a DeTable<'a>,
        known: &[&str],
    ) -> Result<Self> {
        let section = Self { document, name: String::new(), table: Some(table), line: 1 };
        section.refuse_unknown(known)?;
        Ok(section)
    }

    /// The table under `key`, empty when the file does not have it.
    pub(super) fn section(&self, key: &str, known: &[&str]) -> Result<Self> {
        let section = self.open_section(key)?;
        section.refuse_unknown(known)?;
        Ok(section)
    }

    /// The table under `key`, whose keys are free.
    pub(super) fn open_section(&self, key: &str) -> Result<Self> {
        let name =
            if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
        let Some(value) = self.get(key) else {
            return Ok(Self { document: self.document, name, table: None, line: self.line });
        };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong_type(key, value, "a table"));
        };
        Ok(Self { document: self.document, name, table: Some(table), line: self.line_of(value) })
    }

    /// Fails when the file does not have this table.
    pub(super) fn required(self) -> Result<Self> {
        if self.table.is_some() {
            return Ok(self);
        }
        Err(Error::config(self.document.file, 1, format!("there is no [{}] table", self.name)))
    }

    /// Whether the file has this table.
    pub(super) fn is_there(&self) -> bool {
        self.table.is_some()
    }

    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// An error on a line of the file.
    pub(super) fn error(&self, line: u32, message: impl std::fmt::Display) -> Error {
        Error::config(self.document.file, line, message)
    }

    /// `` `key` in [section] ``.
    pub(super) fn describe(&self, key: &str) -> String {
        if self.name.is_empty() {
            format!("`{key}`")
        } else {
            format!("`{key}` in [{}]", self.name)
        }
    }

    /// All keys and values.
    pub(super) fn entries(&self) -> Vec<(Located<String>, &'a Spanned<DeValue<'a>>)> {
        let entries = self.table.into_iter().flat_map(|table| table.iter());
        entries.map(|(key, value)| (self.locate_key(key), value)).collect()
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<Located<String>>> {
        self.get(key).map(|value| self.text_of(key, value)).transpose()
    }

    pub(super) fn required_text(&self, key: &str) -> Result<Located<String>> {
        self.text(key)?.ok_or_else(|| {
            let whole =
                if self.name.is_empty() { "the file".into() } else { format!("[{}]", self.name) };
            self.error(self.line, format!("{whole} lacks `{key}`"))
        })
    }

    /// A text that is a name: letters, digits, `_` and `-`, at most 64.
    pub(super) fn name(&self, key: &str, value: Located<String>) -> Result<Located<String>> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let text = value.value.as_str();
        if !text.is_empty() && text.len() <= 64 && text.bytes().all(good) {
            return Ok(value);
        }
        let what = self.describe(key);
        Err(self.error(
            value.line,
            format!("{what} is `{text}`; a name has 1 to 64 letters, digits, `_` and `-`"),
        ))
    }

    pub(super) fn boolean(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Boolean(boolean) => Ok(Some(*boolean)),
            _ => Err(self.wrong_type(key, value, "true or false")),
        }
    }

    /// A whole number in a range.
    pub(super) fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Result<Option<u64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let DeValue::Integer(integer) = value.get_ref() else {
            return Err(self.wrong_type(key, value, "a whole number"));
        };
        match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => Err(self.error(
                self.line_of(value),
                format!(
                    "{} is {}; it must be {} to {}",
                    self.describe(key),
                    integer.as_str(),
                    range.start(),
                    range.end()
                ),
            )),
        }
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text.value) {
            return Ok(Some(*choice));
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        Err(self.error(
            text.line,
            format!(
                "{} is `{}`; it must be {}{}",
                self.describe(key),
                text.value,
                enumerate(&words, "or"),
                suggestion(&text.value, words.iter().copied()),
            ),
        ))
    }

    /// A list of texts; empty when the file does not have it.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<Located<String>>> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let DeValue::Array(array) = value.get_ref() else {
            return Err(self.wrong_type(key, value, "a list of strings"));
        };
        array.iter().map(|value| self.text_of(key, value)).collect()
    }

    /// The value as a text.
    pub(super) fn text_of(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Located<String>> {
        match value.get_ref() {
            DeValue::String(text) => {
                Ok(Located { value: text.clone().into_owned(), line: self.line_of(value) })
            }
            _ => Err(self.wrong_type(key, value, "a string")),
        }
    }

    pub(super) fn wrong_type(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        expected: &str,
    ) -> Error {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(
            self.line_of(value),
            format!("{} must be {expected}, not {found}", self.describe(key)),
        )
    }

    pub(super) fn line_of<T>(&self, value: &Spanned<T>) -> u32 {
        self.document.line(value.span().start)
    }

    fn locate_key(&self, key: &Spanned<Cow<'_, str>>) -> Located<String> {
        Located { value: key.get_ref().clone().into_owned(), line: self.line_of(key) }
    }

    fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table?.get(key)
    }

    fn refuse_unknown(&self, known: &[&str]) -> Result<()> {
        let unknown = self
            .entries()
            .into_iter()
            .map(|(key, _)| key)
            .filter(|key| !known.contains(&key.value.as_str()))
            .min_by_key(|key| key.line);
        let Some(key) = unknown else { return Ok(()) };
        let whole =
            if self.name.is_empty() { "the file".into() } else { format!("[{}]", self.name) };
        let close = suggestion(&key.value, known.iter().copied());
        let way_out = if close.is_empty() {
            format!("; {whole} takes {}", enumerate(known, "and"))
        } else {
            close
        };
        Err(self.error(key.line, format!("unknown key {}{way_out}", self.describe(&key.value))))
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
