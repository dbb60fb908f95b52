//! Carries the comments of a YAML file over to a new text of it.

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// A line of YAML, with the comments and blank lines above it.
struct Line<'a> {
    above: Vec<&'a str>,
    code: &'a str,
    /// The comment at the end of the line, with the blanks before it.
    comment: &'a str,
}

/// The new text with all comments and blank lines of the old one: each stays with its line or, where that
/// is gone, between the lines that are left.
///
/// # Caveats
/// A block scalar may contain what looks like a comment: the caller has to check what the result says.
pub fn keep(old: &str, new: &str) -> String {
    let (lines, end) = lines(old);
    let old: Vec<&str> = lines.iter().map(|line| line.code).collect();
    let new: Vec<&str> = new.lines().collect();
    let mut text = Text::default();
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let old = &lines[op.old_range()];
        let new = &new[op.new_range()];
        match op {
            DiffOp::Equal { .. } => {
                for line in old {
                    text.push_all(&line.above);
                    text.push_line(line.code, line.comment);
                }
            }
            // A changed line keeps the comment at its end.
            _ if old.len() == new.len() => {
                for (line, code) in old.iter().zip(new) {
                    text.push_all(&line.above);
                    text.push_line(code, line.comment);
                }
            }
            _ => {
                for line in old {
                    text.push_all(&line.above);
                    let comment = line.comment.trim_start();
                    if !comment.is_empty() {
                        let indentation = line.code.len() - line.code.trim_start().len();
                        text.push_line(&line.code[..indentation], comment);
                    }
                }
                text.push_all(new);
            }
        }
    }
    text.push_all(&end);
    text.0
}

/// The lines of a text, and the comments below the last one.
fn lines(text: &str) -> (Vec<Line<'_>>, Vec<&str>) {
    let (mut lines, mut above) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let (code, comment) = line.split_at(end_of_code(line));
        if code.is_empty() {
            above.push(line);
        } else {
            lines.push(Line { above: std::mem::take(&mut above), code, comment });
        }
    }
    (lines, above)
}

/// Where the comment of a line begins, with the blanks before it.
fn end_of_code(line: &str) -> usize {
    let (mut quote, mut previous) = (None, ' ');
    let mut end = line.len();
    for (index, c) in line.char_indices() {
        match quote {
            Some(open) if c == open && (open == '\'' || previous != '\\') => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') && " \t[{,:-'".contains(previous) => quote = Some(c),
            None if c == '#' && previous.is_whitespace() => {
                end = index;
                break;
            }
            None => {}
        }
        previous = c;
    }
    line[..end].trim_end().len()
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn push_line(&mut self, code: &str, comment: &str) {
        self.0.push_str(code);
        self.0.push_str(comment);
        self.0.push('\n');
    }

    fn push_all(&mut self, lines: &[&str]) {
        lines.iter().for_each(|line| self.push_line(line, ""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stay_with_their_lines() {
        let old = "# top\na: 1 # one\n\n# list\nb:\n- x # 'ex'\n# gone\n- y # why\nc: \"# no\" # sea\n# end\n";
        let new = "a: 2\nb:\n- w\n- x\nc: \"# no\"\nd: 4\n";
        let expected = "# top\na: 2 # one\n\n# list\nb:\n- w\n- x # 'ex'\n# gone\n# why\nc: \"# no\" # sea\nd: 4\n# end\n";
        assert_eq!(keep(old, new), expected);
    }

    #[test]
    fn apostrophes_and_hashes_in_words_are_no_comments() {
        for line in ["a: it's # that's", "a: b#c # x", "a: 'it''s # x' # y", "a: \"\\\"# x\" # y"] {
            assert_eq!(keep(line, "a: 2"), format!("a: 2{}\n", &line[line.rfind(" #").unwrap()..]));
        }
    }
}
