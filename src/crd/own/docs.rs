//! Descriptions as doc comments, and doc comments as the descriptions that schemars makes of them.

use crate::text::visible;

/// The width of a line of text, without its indentation and `///`.
const WIDTH: usize = 92;

/// The lines of a doc comment, without `///`. Lists keep their lines; other paragraphs are filled if a line
/// of them is too long.
pub fn lines(description: &str) -> Vec<String> {
    let description = visible(description.trim());
    let mut lines: Vec<String> = Vec::new();
    for paragraph in description.split("\n\n").filter(|text| !text.trim().is_empty()) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let texts: Vec<&str> = paragraph.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let has_list = texts.iter().any(|text| is_item(text));
        if has_list {
            lines.extend(list(&texts));
        } else if texts.iter().any(|text| text.chars().count() > WIDTH) {
            lines.extend(fill(&texts));
        } else {
            lines.extend(texts.iter().map(|text| (*text).to_owned()));
        }
    }
    lines
}

/// The description that schemars makes of the doc comment.
pub fn description(text: &str) -> String {
    lines(text).join("\n")
}

/// The doc comment with its indentation.
pub fn comment(indent: &str, text: &str) -> String {
    let line = |line: &String| match line.as_str() {
        "" => format!("{indent}///\n"),
        line => format!("{indent}/// {line}\n"),
    };
    lines(text).iter().map(line).collect()
}

fn is_item(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.starts_with(['-', '*', '+']) && text[1..].starts_with(' ')
        || digits > 0
            && text[digits..].starts_with([')', '.'])
            && text[digits + 1..].starts_with(' ')
}

/// The lines of a list. Markdown needs a blank line before it, and continues an item in indented lines.
fn list(texts: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut is_inside = false;
    for text in texts {
        if is_item(text) {
            if !is_inside && !lines.is_empty() {
                lines.push(String::new());
            }
            is_inside = true;
            lines.push((*text).to_owned());
        } else if is_inside {
            lines.push(format!("  {text}"));
        } else {
            lines.push((*text).to_owned());
        }
    }
    lines
}

fn fill(texts: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in texts.iter().flat_map(|text| text.split_whitespace()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_lines_and_long_lines_are_filled() {
        let text = "Types:\n- \"A\": one\n  that goes on\n- B\n\nEnd.";
        assert_eq!(
            lines(text),
            ["Types:", "", "- \"A\": one", "  that goes on", "- B", "", "End."]
        );
        assert_eq!(lines("  Short.\nLines. "), ["Short.", "Lines."]);
        let long = format!("{} end", "word ".repeat(30).trim());
        assert_eq!(lines(&long).len(), 2);
        assert!(lines(&long).iter().all(|line| line.len() <= WIDTH));
        assert_eq!(comment("    ", "a\n\nb\u{202e}"), "    /// a\n    ///\n    /// b\\u{202e}\n");
    }
}
