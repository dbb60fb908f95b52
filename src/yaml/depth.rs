//! The depth of a text, without parsing it.

use std::borrow::Cow;

/// The line at which collections are nested more than `max` levels deep, if there is one.
pub fn find_deeper(text: &str, max: usize) -> Option<usize> {
    let text = with_line_feeds(text);
    Scanner { bytes: text.as_bytes(), position: 0, line_start: 0, depth: 0, indents: Vec::new() }
        .find_deeper(max)
}

/// The text with line feeds for the other line breaks of YAML 1.1.
fn with_line_feeds(text: &str) -> Cow<'_, str> {
    const OTHERS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];
    if !text.contains(OTHERS) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace("\r\n", "\n").replace(OTHERS, "\n"))
}

/// Splits a text into tokens as the parser does, as far as it decides which brackets are text.
struct Scanner<'a> {
    bytes: &'a [u8],
    position: usize,
    /// The start of the current line.
    line_start: usize,
    /// The number of open flow collections.
    depth: usize,
    /// The columns of the open block collections.
    indents: Vec<usize>,
}

impl Scanner<'_> {
    fn find_deeper(mut self, max: usize) -> Option<usize> {
        // The column of a token that can be a key, with its anchor and its tag.
        let mut key = None;
        let mut line_start = 0;
        loop {
            self.skip_blanks();
            let byte = self.peek(0)?;
            let column = self.column();
            if self.line_start != line_start {
                line_start = self.line_start;
                key = None;
            }
            if self.is_marker() {
                self.position += 3;
                self.depth = 0;
                self.indents.clear();
                continue;
            }
            if self.depth == 0 {
                while self.indents.pop_if(|indent| *indent > column).is_some() {}
            }
            match byte {
                b'[' | b'{' => {
                    self.depth += 1;
                    self.position += 1;
                }
                b']' | b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.position += 1;
                }
                b',' if self.depth > 0 => self.position += 1,
                b':' if self.ends_word(1) => {
                    self.position += 1;
                    self.indent(key.take().unwrap_or(column));
                }
                b'-' | b'?' if self.ends_word(1) => {
                    self.position += 1;
                    self.indent(column);
                }
                b'"' => {
                    key.get_or_insert(column);
                    self.skip_double_quoted();
                }
                b'\'' => {
                    key.get_or_insert(column);
                    self.skip_one();
                    self.skip_until(|byte| byte == b'\'');
                    self.skip_one();
                }
                b'&' | b'*' | b'!' => {
                    key.get_or_insert(column);
                    while !self.ends_word(0) {
                        self.position += 1;
                    }
                }
                b'|' | b'>' if self.depth == 0 => self.skip_block_scalar(),
                _ => {
                    key.get_or_insert(column);
                    self.skip_plain();
                }
            }
            if self.depth + self.indents.len() > max {
                let newlines = self.bytes[..self.position].iter().filter(|byte| **byte == b'\n');
                return Some(newlines.count() + 1);
            }
        }
    }

    fn peek(&self, offset: usize) -> Option<u8> {
        self.bytes.get(self.position + offset).copied()
    }

    fn column(&self) -> usize {
        self.position - self.line_start
    }

    /// Opens a block collection, if it is nested more deeply than the others.
    fn indent(&mut self, column: usize) {
        if self.depth == 0 && self.indents.last().is_none_or(|last| *last < column) {
            self.indents.push(column);
        }
    }

    /// Whether there is no character of a word at an offset.
    fn ends_word(&self, offset: usize) -> bool {
        match self.peek(offset) {
            None | Some(b' ' | b'\t' | b'\n') => true,
            Some(b',' | b'[' | b']' | b'{' | b'}') => self.depth > 0,
            Some(_) => false,
        }
    }

    /// Whether a document begins or ends here.
    fn is_marker(&self) -> bool {
        let rest = &self.bytes[self.position..];
        let is_blank = rest.get(3).is_none_or(|byte| b" \t\n".contains(byte));
        self.column() == 0 && is_blank && (rest.starts_with(b"---") || rest.starts_with(b"..."))
    }

    fn skip_until(&mut self, is_end: impl Fn(u8) -> bool) {
        while let Some(byte) = self.peek(0).filter(|byte| !is_end(*byte)) {
            self.position += 1;
            if byte == b'\n' {
                self.line_start = self.position;
            }
        }
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) {
        loop {
            self.skip_until(|byte| !b" \t\n".contains(&byte));
            let after_blank = self.position == self.line_start
                || self.bytes[..self.position].last().is_some_and(|byte| b" \t".contains(byte));
            if self.peek(0) != Some(b'#') || !after_blank {
                return;
            }
            self.skip_until(|byte| byte == b'\n');
        }
    }

    /// Skips a character, unless the text ends here: quotes can be missing.
    fn skip_one(&mut self) {
        if self.peek(0) == Some(b'\n') {
            self.line_start = self.position + 1;
        }
        self.position = self.bytes.len().min(self.position + 1);
    }

    fn skip_double_quoted(&mut self) {
        self.skip_one();
        self.skip_until(|byte| byte == b'"' || byte == b'\\');
        while self.peek(0) == Some(b'\\') {
            self.skip_one();
            self.skip_one();
            self.skip_until(|byte| byte == b'"' || byte == b'\\');
        }
        self.skip_one();
    }

    /// Skips a scalar without quotes, which can have several lines.
    fn skip_plain(&mut self) {
        loop {
            while let Some(byte) = self.peek(0) {
                let is_end = match byte {
                    b'\n' => true,
                    b':' => self.ends_word(1),
                    b'#' => self.position > 0 && b" \t".contains(&self.bytes[self.position - 1]),
                    b',' | b'[' | b']' | b'{' | b'}' => self.depth > 0,
                    _ => false,
                };
                if is_end {
                    break;
                }
                self.position += 1;
            }
            if self.peek(0) != Some(b'\n') {
                return;
            }
            self.skip_until(|byte| !b" \t\n".contains(&byte));
            let is_nested = self.indents.last().is_none_or(|indent| self.column() > *indent);
            let goes_on = (self.depth > 0 || is_nested) && !self.is_marker();
            if !goes_on || self.peek(0).is_none_or(|byte| byte == b'#') {
                return;
            }
        }
    }

    /// Skips a scalar that begins with `|` or `>`: the lines that are indented more deeply.
    fn skip_block_scalar(&mut self) {
        let header = self.bytes[self.position..].split(|byte| *byte == b'\n').next();
        let header = header.unwrap_or_default();
        let digit = header[1..].iter().take(2).find(|byte| byte.is_ascii_digit());
        let parent = self.indents.last().map_or(0, |indent| *indent + 1).max(1);
        let mut indent = digit.map(|digit| {
            self.indents.last().copied().unwrap_or_default() + usize::from(digit - b'0')
        });
        self.position += header.len();
        loop {
            // The start of the next line.
            self.skip_until(|byte| byte != b'\n');
            let rest = &self.bytes[self.position..];
            let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let spaces = line.iter().take_while(|byte| **byte == b' ').count();
            if spaces < line.len() && spaces < *indent.get_or_insert(spaces.max(parent)) {
                return;
            }
            if rest.len() == line.len() {
                self.position = self.bytes.len();
                return;
            }
            self.position += line.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(text: &str) -> usize {
        (0..).find(|max| find_deeper(text, *max).is_none()).unwrap()
    }

    #[test]
    fn collections_are_counted() {
        for (text, expected) in [
            ("", 0),
            ("a", 0),
            ("a: b", 1),
            ("a:\n  b:\n    c: d\ne:\n  f: g", 3),
            ("- - - a\n- b", 3),
            ("? ? a", 2),
            ("[a, [b], {c: [d]}]", 3),
            // A list at the column of its key does not count.
            ("a:\n- b: [[]]\n- {}\n", 4),
            ("a: &x [*x, !t [c]]", 3),
            ("&a b: c\n&d e: f", 1),
            ("a: b # [[\n  # [[\nc: [ # [[\n]", 2),
            ("--- [[]]\n--- {}\n", 2),
            ("a: -[b\nc: [-[d], -e]", 3),
            ("[a:b, {c: [d:]}]", 3),
        ] {
            assert_eq!(depth(text), expected, "{text}");
        }
    }

    #[test]
    fn brackets_in_text_are_not_counted() {
        for (text, expected) in [
            ("'[': \"[\"", 1),
            ("'it''s [': [a]", 2),
            ("[\"\\\"[\", \"\\\\\", [\"\\\n\"]]", 2),
            ("a: b [c\n  [d\n  e\nf: [g]", 2),
            ("a: b#c [\nd: {}", 2),
            ("a: it's [\nb: ['[']", 2),
            ("[it's, [b's]]", 2),
            ("[a\n 'b, [c]]", 2),
            ("# a\r[[]] # b\u{2028}", 2),
            ("'a\r\n[[': [b]", 2),
            ("a: |\n  [[\n\n  [\nb: [c]", 2),
            ("- a: >-\n    [[\n  b: [[c]]", 4),
            ("- |2\n   [[\n  [[\n- [c]", 2),
            ("a:\n  b:\n    c: d\n    e: |\n      - [{\n      - [{\n      \n", 3),
            ("&a b: |\n [[\nc: [d]", 2),
            ("? |\n [[\n: [d]", 2),
            ("--- |\n [[\n--- [[]]\n", 2),
            ("- - - |\n      [[\n    - [[[]]]", 6),
        ] {
            assert_eq!(depth(text), expected, "{text}");
        }
    }

    #[test]
    fn text_may_end_anywhere() {
        for (text, expected) in
            [("a: [\"", 2), ("a: [\"\\", 2), ("[['", 2), ("a: |", 1), ("a: &", 1)]
        {
            assert_eq!(depth(text), expected, "{text}");
        }
    }

    #[test]
    fn line_is_that_of_the_bracket() {
        assert_eq!(find_deeper("a: 'b\n\n  c'\nd: [\n [\n", 2), Some(5));
    }
}
