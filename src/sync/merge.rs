//! The three-way merge of one file.

use std::borrow::Cow;

use similar::TextMerge;

/// The result of a three-way merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// The text contains both changes.
    Clean(Vec<u8>),
    /// The changes overlap. The text contains both versions between conflict markers.
    Conflict(Vec<u8>),
    /// The user's version is not a text.
    Binary,
}

/// The user's version of a text, with its style (line ends) separated from its contents.
struct Ours<'a> {
    text: Cow<'a, str>,
    crlf: bool,
    /// Whether the last line has no end, although it has one in the template.
    open_end: bool,
}

impl<'a> Ours<'a> {
    fn new(bytes: &'a [u8], like: &str) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
        let crlfs = text.matches("\r\n").count();
        let crlf = crlfs > 0 && crlfs == text.matches('\n').count();
        let mut text =
            if crlf { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) };
        let open_end = like.ends_with('\n') && !text.is_empty() && !text.ends_with('\n');
        if open_end {
            text.to_mut().push('\n');
        }
        Some(Self { text, crlf, open_end })
    }

    /// A text in the style of the user's version.
    fn style(&self, text: &str) -> Vec<u8> {
        let text = if self.open_end { text.strip_suffix('\n').unwrap_or(text) } else { text };
        if self.crlf { text.replace('\n', "\r\n") } else { text.to_owned() }.into_bytes()
    }
}

/// Merges the change from `base` to `theirs` with the user's version. The user's style stays.
pub fn merge(base: &str, ours: &[u8], theirs: &str) -> Merged {
    let Some(text) = Ours::new(ours, theirs) else { return Merged::Binary };
    let mut merge = TextMerge::from_lines(base, &text.text, theirs);
    merge.labels("before", "yours", "opctl");
    let merged = text.style(&merge.to_string());
    if merge.is_conflicted() { Merged::Conflict(merged) } else { Merged::Clean(merged) }
}

/// Whether the user's version equals a text, ignoring style.
pub fn same(ours: &[u8], theirs: &str) -> bool {
    ours == theirs.as_bytes() || Ours::new(ours, theirs).is_some_and(|ours| ours.text == theirs)
}

/// A text in the style of the user's version.
pub fn in_style_of(ours: &[u8], text: &str) -> Vec<u8> {
    match Ours::new(ours, text) {
        Some(ours) => ours.style(text),
        None => text.as_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn clean(merged: Merged) -> String {
        match merged {
            Merged::Clean(text) => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn separate_changes_are_merged() {
        assert_eq!(clean(merge("a\nb\nc\n", b"A\nb\nc\n", "a\nb\nC\n")), "A\nb\nC\n");
    }

    #[test]
    fn style_stays() {
        assert_eq!(clean(merge("a\nb\nc\n", b"A\r\nb\r\nc\r\n", "a\nb\nC\n")), "A\r\nb\r\nC\r\n");
        assert_eq!(clean(merge("a\nb\nc\n", b"A\nb\nc", "a\nb\nc\nd\n")), "A\nb\nc\nd");
        assert!(same(b"a\r\nb", "a\nb\n") && !same(b"a\r\nb\n", "a\nb\n"));
        assert_eq!(in_style_of(b"a\r\nb", "c\nd\n"), b"c\r\nd");
    }

    #[test]
    fn overlaps_are_conflicts() {
        let Merged::Conflict(text) = merge("a\n", b"b\n", "c\n") else { panic!("no conflict") };
        assert_eq!(text, b"<<<<<<< yours\nb\n=======\nc\n>>>>>>> opctl\n");
    }

    #[test]
    fn binary_file_is_reported() {
        assert_eq!(merge("a\n", b"\xff\n", "c\n"), Merged::Binary);
        assert_eq!(merge("a\n", b"a\0\n", "c\n"), Merged::Binary);
    }

    /// Repeated lines, the hardest input for a merge.
    fn text(lines: std::ops::Range<usize>) -> impl Strategy<Value = String> {
        vec(
            prop_oneof![
                Just("\n"),
                Just("}\n"),
                Just("a\n"),
                Just("b\n"),
                Just("c\n"),
                Just("d\n")
            ],
            lines,
        )
        .prop_map(|lines| lines.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn without_edits_the_change_is_taken(base in text(0..8), theirs in text(0..8)) {
            prop_assert_eq!(merge(&base, base.as_bytes(), &theirs), Merged::Clean(theirs.into_bytes()));
        }

        #[test]
        fn without_a_change_the_edits_stay(base in text(0..8), ours in text(0..8)) {
            prop_assert_eq!(merge(&base, ours.as_bytes(), &base), Merged::Clean(ours.into_bytes()));
        }
    }
}
