//! Splits CSV into records and fields (RFC 4180), without copying unless a quote is escaped.

use crate::source::column_builder::Value;

/// The fields of a record: ranges of the bytes that it was split from.
#[derive(Debug, Default)]
pub(in crate::source) struct Record {
    fields: Vec<Field>,
    /// Fields whose quotes were escaped, unescaped.
    unescaped: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    start: usize,
    end: usize,
    /// A quoted field is never null.
    quoted: bool,
    /// The range is one of `unescaped`.
    unescaped: bool,
}

/// What is at the front of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::source) enum Split {
    /// A record; its fields are in the `Record`.
    Record {
        /// Bytes, with the line break.
        length: usize,
        /// Line breaks in it.
        lines: u64,
        /// Whether it ends with a line break, rather than with the file.
        terminated: bool,
    },
    /// A line without anything.
    Blank { length: usize, lines: u64 },
    /// Something that ends, but is no record.
    Malformed { length: usize, lines: u64, reason: &'static str },
    /// A quote that is never closed.
    Unclosed,
    /// It takes more bytes to tell.
    More,
    /// It takes more bytes than a record may have.
    TooLong,
    /// The end of the file.
    End,
}

impl Record {
    pub(in crate::source) fn len(&self) -> usize {
        self.fields.len()
    }

    /// A field's value. `bytes` are those that the record was split from.
    pub(in crate::source) fn value<'a>(&'a self, bytes: &'a [u8], index: usize) -> Value<'a> {
        let Some(field) = self.fields.get(index) else { return Value::Null };
        if field.start == field.end && !field.quoted {
            return Value::Null;
        }
        let bytes = if field.unescaped { self.unescaped.as_slice() } else { bytes };
        Value::Field(bytes.get(field.start..field.end).unwrap_or_default())
    }

    /// All fields as text; `None` when one is not UTF-8.
    pub(in crate::source) fn texts(&self, bytes: &[u8]) -> Option<Vec<String>> {
        let text = |index| match self.value(bytes, index) {
            Value::Field(field) => String::from_utf8(field.to_vec()).ok(),
            _ => Some(String::new()),
        };
        (0..self.len()).map(text).collect()
    }

    fn push(&mut self, start: usize, end: usize, quoted: bool) {
        self.fields.push(Field { start, end, quoted, unescaped: false });
    }

    /// A quoted field with `""` in it.
    fn push_escaped(&mut self, field: &[u8]) {
        let start = self.unescaped.len();
        let mut rest = field;
        while let Some(quote) = memchr::memchr(b'"', rest) {
            let (kept, after) = rest.split_at(quote + 1);
            self.unescaped.extend_from_slice(kept);
            rest = after.get(1..).unwrap_or_default();
        }
        self.unescaped.extend_from_slice(rest);
        let end = self.unescaped.len();
        self.fields.push(Field { start, end, quoted: true, unescaped: true });
    }
}

/// Splits the record at the front of `bytes`. `at_end`: nothing follows them.
pub(in crate::source) fn split(bytes: &[u8], at_end: bool, record: &mut Record) -> Split {
    record.fields.clear();
    record.unescaped.clear();
    let newline = memchr::memchr(b'\n', bytes);
    let line = match newline {
        Some(newline) => bytes.get(..newline).unwrap_or_default(),
        None if !at_end => return Split::More,
        None if bytes.is_empty() => return Split::End,
        None => bytes,
    };
    if memchr::memchr(b'"', line).is_some() {
        return split_quoted(bytes, at_end, record);
    }
    let length = line.len() + usize::from(newline.is_some());
    let lines = u64::from(newline.is_some());
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        return Split::Blank { length, lines };
    }
    let mut start = 0;
    for comma in memchr::memchr_iter(b',', line) {
        record.push(start, comma, false);
        start = comma + 1;
    }
    record.push(start, line.len(), false);
    Split::Record { length, lines, terminated: newline.is_some() }
}

/// The same for a record in which there is a quote.
fn split_quoted(bytes: &[u8], at_end: bool, record: &mut Record) -> Split {
    let from = |at: usize| bytes.get(at..).unwrap_or_default();
    let mut at = 0;
    loop {
        let next = if bytes.get(at) == Some(&b'"') {
            let close = match closing_quote(bytes, at + 1, at_end) {
                Quote::Closed { at } => at,
                Quote::Unclosed if at_end => return Split::Unclosed,
                Quote::Unclosed => return Split::More,
            };
            let field = bytes.get(at + 1..close).unwrap_or_default();
            if memchr::memchr(b'"', field).is_some() {
                record.push_escaped(field);
            } else {
                record.push(at + 1, close, true);
            }
            close + 1
        } else {
            match memchr::memchr2(b',', b'\n', from(at)) {
                None if !at_end => return Split::More,
                None => {
                    record.push(at, bytes.len(), false);
                    bytes.len()
                }
                Some(length) => {
                    let end = at + length;
                    let ended = bytes.get(end) == Some(&b'\n');
                    let cut = ended && end > at && bytes.get(end - 1) == Some(&b'\r');
                    record.push(at, end - usize::from(cut), false);
                    end
                }
            }
        };
        let whole = |length: usize, terminated| Split::Record {
            length,
            lines: lines(bytes, length),
            terminated,
        };
        match from(next) {
            [b',', ..] => at = next + 1,
            [b'\n', ..] => return whole(next + 1, true),
            [b'\r', b'\n', ..] => return whole(next + 2, true),
            [b'\r'] | [] if !at_end => return Split::More,
            [] => return whole(next, false),
            rest => {
                let length = match memchr::memchr(b'\n', rest) {
                    Some(newline) => next + newline + 1,
                    None if at_end => bytes.len(),
                    None => return Split::More,
                };
                return Split::Malformed {
                    length,
                    lines: lines(bytes, length),
                    reason: "a quoted field goes on after its closing quote",
                };
            }
        }
    }
}

enum Quote {
    Closed { at: usize },
    Unclosed,
}

/// The quote that closes a field which begins at `start`.
fn closing_quote(bytes: &[u8], start: usize, at_end: bool) -> Quote {
    let mut from = start;
    while let Some(quote) = memchr::memchr(b'"', bytes.get(from..).unwrap_or_default()) {
        let at = from + quote;
        match bytes.get(at + 1) {
            Some(b'"') => from = at + 2,
            // The next byte may be a second quote.
            None if !at_end => return Quote::Unclosed,
            _ => return Quote::Closed { at },
        }
    }
    Quote::Unclosed
}

fn lines(bytes: &[u8], length: usize) -> u64 {
    let count = memchr::memchr_iter(b'\n', bytes.get(..length).unwrap_or_default()).count();
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All records of a text, read to the end with our splitter, `chunk` bytes at a time.
    fn records(text: &[u8], chunk: usize) -> Vec<Vec<Vec<u8>>> {
        let (mut records, mut record) = (Vec::new(), Record::default());
        let (mut start, mut end) = (0, 0);
        loop {
            match split(&text[start..end], end == text.len(), &mut record) {
                Split::More => end = (end + chunk).min(text.len()),
                Split::End => return records,
                Split::Blank { length, .. } => start += length,
                Split::Record { length, .. } => {
                    let bytes = &text[start..end];
                    let field = |index| match record.value(bytes, index) {
                        Value::Field(field) => field.to_vec(),
                        _ => Vec::new(),
                    };
                    records.push((0..record.len()).map(field).collect());
                    start += length;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn what_the_csv_crate_writes_is_split_as_it_was(
            rows in prop::collection::vec(
                prop::collection::vec("[a,\"\r\n ]{0,6}", 3), 0..20),
            crlf: bool,
            chunk in 1_usize..50,
        ) {
            let terminator =
                if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
            let mut writer = csv::WriterBuilder::new().terminator(terminator).from_writer(vec![]);
            for row in &rows {
                writer.write_record(row).unwrap();
            }
            let text = writer.into_inner().unwrap();
            let rows: Vec<Vec<Vec<u8>>> = rows
                .iter()
                .map(|row| row.iter().map(|field| field.as_bytes().to_vec()).collect())
                .collect();
            prop_assert_eq!(records(&text, chunk), rows);
        }
    }

    #[test]
    fn text_after_a_closing_quote_is_malformed() {
        let split = split(b"\"a\"b,c\nd,e\n", true, &mut Record::default());
        let reason = "a quoted field goes on after its closing quote";
        assert_eq!(split, Split::Malformed { length: 7, lines: 1, reason });
    }

    #[test]
    fn a_quote_in_a_plain_field_is_text() {
        assert_eq!(records(b"5\" pipe,x\n", 100), [[b"5\" pipe".to_vec(), b"x".to_vec()]]);
    }

    #[test]
    fn a_quoted_empty_field_is_a_value_and_a_bare_one_is_none() {
        let mut record = Record::default();
        split(b"\"\",\n", true, &mut record);
        assert_eq!(record.value(b"\"\",\n", 0), Value::Field(b""));
        assert_eq!(record.value(b"\"\",\n", 1), Value::Null);
    }

    #[test]
    fn an_unclosed_quote_is_found_at_the_end() {
        assert_eq!(split(b"a,\"b\nc", false, &mut Record::default()), Split::More);
        assert_eq!(split(b"a,\"b\nc", true, &mut Record::default()), Split::Unclosed);
    }
}
