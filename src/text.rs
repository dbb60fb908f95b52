//! Text from outside, such as the names and descriptions of a CRD, which may hide characters.

use std::borrow::Cow;
use std::ops::RangeInclusive;

/// The characters that are not displayed, or that change how others are displayed, besides control
/// characters: those with the property `Default_Ignorable_Code_Point`, and other formatting characters
/// and separators. Variation selectors are not among them, because they are a part of many emoji.
const FORMAT: &[RangeInclusive<char>] = &[
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

/// Whether a terminal or an editor does not display a character, or displays others differently because
/// of it.
pub fn is_hidden(c: char) -> bool {
    c.is_control() || FORMAT.iter().any(|range| range.contains(&c))
}

/// The first hidden character besides line feeds and tabs, as `U+202E`.
pub fn find_hidden(text: &str) -> Option<String> {
    let hidden = text.chars().find(|c| is_hidden(*c) && !matches!(c, '\n' | '\t'));
    hidden.map(|c| format!("U+{:04X}", u32::from(c)))
}

/// The text with escapes such as `\u{202e}` for its hidden characters, except for line feeds and tabs.
pub fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

/// The text on one line, with escapes for all hidden characters.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden)
}

/// The text as a Rust literal in ASCII, so that its width is its length.
pub fn rust_literal(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '\'' => c.to_string(),
        _ => c.escape_default().to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            escaped.extend(c.escape_unicode());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_become_visible() {
        for (text, expected) in [
            ("Zoë\n\tand 日本 ⚠\u{fe0f}", "Zoë\n\tand 日本 ⚠\u{fe0f}"),
            ("a\u{202e}b\u{1b}[2J\r", r"a\u{202e}b\u{1b}[2J\u{d}"),
            ("\u{feff}\u{2028}\u{85}\u{e0041}", r"\u{feff}\u{2028}\u{85}\u{e0041}"),
        ] {
            assert_eq!(visible(text), expected);
        }
        assert_eq!(one_line("a\nb\t"), r"a\u{a}b\u{9}");
        assert_eq!(find_hidden("a\n\u{200b}").as_deref(), Some("U+200B"));
        assert_eq!(find_hidden("a\n\tb"), None);
    }

    #[test]
    fn rust_literals_are_ascii_on_one_line() {
        let text = "it's \"a\" \\ {} <$ é\n\0";
        assert_eq!(rust_literal(text), r#""it's \"a\" \\ {} <$ \u{e9}\n\u{0}""#);
    }
}
