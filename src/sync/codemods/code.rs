//! Finds code by its tokens, and replaces it.

use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};

use crate::sync::rename::paths::{self, Edit};

/// The places of a Rust file that have the tokens of `old`, each with the text of `new`. `$x` in both stands for
/// code without a comma or a semicolon of its own, and at the start of `old` for one token.
pub fn edits(text: &str, old: &str, new: &str) -> Vec<Edit> {
    // Few files have all the words, and to look for them is cheap.
    let mut words = old.split(|c: char| !c.is_alphanumeric() && !"_$".contains(c));
    if words.any(|word| !word.starts_with('$') && !text.contains(word)) {
        return Vec::new();
    }
    let (Some(found), Some(expected)) = (tokens(text), tokens(old)) else { return Vec::new() };
    let expected: Vec<&str> = expected.iter().map(|token| token.text).collect();
    let (mut edits, mut start) = (Vec::new(), 0);
    while start < found.len() {
        let mut captures = Captures { text, values: BTreeMap::new() };
        match captures.length_from(&found, start, &expected) {
            Some(length) => {
                let range = found[start].range.start..found[start + length - 1].range.end;
                edits.push((range, captures.fill(new)));
                start += length;
            }
            None => start += 1,
        }
    }
    edits
}

/// A token, or a bracket of a group.
struct Token<'a> {
    text: &'a str,
    range: Range<usize>,
}

fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut ranges = Vec::new();
    flatten(paths::tokens(text)?, &mut ranges);
    Some(ranges.into_iter().map(|range| Token { text: &text[range.clone()], range }).collect())
}

fn flatten(tokens: TokenStream, ranges: &mut Vec<Range<usize>>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                ranges.push(group.span_open().byte_range());
                flatten(group.stream(), ranges);
                ranges.push(group.span_close().byte_range());
            }
            token => ranges.push(token.span().byte_range()),
        }
    }
}

/// What each `$x` stands for.
struct Captures<'a> {
    text: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Captures<'a> {
    /// How many tokens from `start` on are the expected ones.
    fn length_from(
        &mut self,
        found: &[Token<'a>],
        start: usize,
        expected: &[&'a str],
    ) -> Option<usize> {
        let is_name = expected[0].starts_with(char::is_alphabetic);
        let before = start.checked_sub(1).map(|index| found[index].text);
        if is_name && before.is_some_and(|before| [".", "fn"].contains(&before)) {
            return None; // a field, a method or a definition of that name
        }
        match expected {
            ["$", name, rest @ ..] => {
                self.values.insert(name, found[start].text);
                Some(1 + self.length(&found[start + 1..], rest)?)
            }
            _ => self.length(&found[start..], expected),
        }
    }

    /// How many tokens at the start are the expected ones.
    fn length(&mut self, found: &[Token<'a>], expected: &[&'a str]) -> Option<usize> {
        match (expected, found) {
            ([], _) => Some(0),
            (["$", name, rest @ ..], _) => self.length_of_capture(name, found, rest),
            ([first, rest @ ..], [token, found @ ..]) if token.text == *first => {
                Some(1 + self.length(found, rest)?)
            }
            // rustfmt adds a comma before a bracket on a line of its own.
            ([")" | "}" | "]", ..], [comma, found @ ..]) if comma.text == "," => {
                Some(1 + self.length(found, expected)?)
            }
            _ => None,
        }
    }

    /// How many tokens are captured, with those after them that are expected.
    fn length_of_capture(
        &mut self,
        name: &'a str,
        found: &[Token<'a>],
        rest: &[&'a str],
    ) -> Option<usize> {
        let known = self.values.get(name).copied();
        for end in ends(found) {
            let captured = &self.text[found[0].range.start..found[end - 1].range.end];
            if known.is_none_or(|known| known == captured) {
                self.values.insert(name, captured);
                if let Some(length) = self.length(&found[end..], rest) {
                    return Some(end + length);
                }
            }
        }
        None
    }

    /// The text with what its `$x` stand for.
    fn fill(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(part.len());
            let (name, rest) = part.split_at(end);
            filled.push_str(self.values.get(name).copied().unwrap_or_default());
            filled.push_str(rest);
        }
        filled
    }
}

/// Where code that begins with these tokens may end: outside of brackets, and before a comma or a semicolon.
fn ends(found: &[Token<'_>]) -> Vec<usize> {
    let (mut ends, mut depth, mut is_arrow) = (Vec::new(), 0, false);
    for (index, token) in found.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" | "<" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            ">" if !is_arrow => depth -= 1,
            "," | ";" if depth == 0 => break,
            _ => {}
        }
        let next = found.get(index + 1).map_or("", |next| next.text);
        is_arrow = ["-", "="].contains(&token.text) && next == ">";
        if depth < 0 {
            break;
        }
        if depth == 0 && !is_arrow {
            ends.push(index + 1);
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str, old: &str, new: &str) -> String {
        paths::apply(text, edits(text, old, new))
    }

    #[test]
    fn code_keeps_its_format() {
        let text =
            "fn f() {\n    a . run ( // one\n        first( 1,2 ),\n        |x| x+1,\n    ) ;\n}\n";
        let expected = "fn f() {\n    b.go(|x| x+1, first( 1,2 )) ;\n}\n";
        assert_eq!(replaced(text, "a.run($first, $second)", "b.go($second, $first)"), expected);
    }

    #[test]
    fn types_are_balanced() {
        let text = "x: Map<Vec<Option<u8>>, fn(u8) -> Set<u8>>, y: Map<A, B>";
        let expected = "x: Map<Vec<Option<u8>>>, y: Map<A>";
        assert_eq!(replaced(text, "Map<$key, $value>", "Map<$key>"), expected);
    }

    #[test]
    fn a_start_is_one_token() {
        let text = "use operator::a::{b, c}; let x = crate::a::b;";
        let expected = "use other::a::{b, c}; let x = other::a::b;";
        assert_eq!(replaced(text, "$crate::a", "other::a"), expected);
    }

    #[test]
    fn what_occurs_twice_is_the_same() {
        let pattern = ("f($x.a, $x.b)", "g($x)");
        assert_eq!(
            replaced("f(x.a, x.b) + f(x.a, y.b)", pattern.0, pattern.1),
            "g(x) + f(x.a, y.b)"
        );
    }

    #[test]
    fn other_code_stays() {
        for text in [
            "// f(1, 2)\n",
            "\"f(1, 2)\"",
            "x.f(1, 2)",
            "fn f(a: u8, b: u8) {}",
            "f(1)",
            "f(1, 2, 3)",
            "f(1; 2)",
            "f(1, 2",
        ] {
            assert_eq!(replaced(text, "f($a, $b)", "g($a, $b)"), text);
        }
    }
}
