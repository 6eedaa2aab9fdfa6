//! Text of operators, fit to be shown.

use std::borrow::Cow;

/// The text with all that a terminal or a log would obey, instead of showing it, written out:
/// control characters other than the ends of lines and tabs, and characters that turn the
/// direction of text or end lines elsewhere. What operators say, and rows, may have any.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_obeyed(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Whether a name, which has no lines, is as it is shown.
pub(crate) fn is_name_printable(name: &str) -> bool {
    !name.contains(|character: char| is_obeyed(character) || character.is_control())
}

fn is_obeyed(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // Separators of lines and paragraphs; embeddings, overrides and isolates of direction.
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(printable("a\x1b[31mb\0\r\u{9b}c"), "a\\u{1b}[31mb\\u{0}\\r\\u{9b}c");
        assert_eq!(printable("\u{202e}tpo\u{2069}"), "\\u{202e}tpo\\u{2069}");
    }

    #[test]
    fn words_of_all_scripts_and_lines_stay_as_they_are() {
        let text = "line\n\tשלום e\u{301} 👩\u{200d}🚀 𐍈";
        assert!(matches!(printable(text), Cow::Borrowed(shown) if shown == text));
    }

    #[test]
    fn a_name_has_no_lines() {
        assert!(is_name_printable("größe 😀"));
        assert!(!is_name_printable("a\nb"));
        assert!(!is_name_printable("a\u{202e}b"));
    }
}
