//! The three-way merge of one file.

mod refine;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use similar::{MergeResolution, TextDiff, TextMerge};

/// The result of a three-way merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// The text contains both changes.
    Clean(Vec<u8>),
    /// The changes overlap. The text contains both versions between conflict markers.
    Conflict(Vec<u8>),
    /// Both changes add the same lines, at different places. The text contains both versions between
    /// conflict markers.
    Duplicate(Vec<u8>),
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

const OURS: &str = "yours";
const THEIRS: &str = "opctl";

/// Merges the change from `base` to `theirs` with the user's version. The user's style stays. In a list
/// of modules or of manifests, an entry that both have added stays where the user has added it.
pub fn merge(base: &str, ours: &[u8], theirs: &str, is_list: bool) -> Merged {
    let Some(text) = Ours::new(ours, theirs) else { return Merged::Binary };
    let added: BTreeSet<&str> = additions(base, &text.text).into_iter().flatten().collect();
    let without_entries = is_list.then(|| without_entries(base, theirs, &added));
    let theirs = without_entries.as_deref().unwrap_or(theirs);
    let (merged, is_conflicted) = merge_lines(base, &text.text, theirs);
    if is_conflicted {
        return Merged::Conflict(text.style(&merged));
    }
    if repeats_lines(base, &text.text, theirs, &merged, &added) {
        return Merged::Duplicate(text.style(&marked(&text.text, theirs)));
    }
    Merged::Clean(text.style(&merged))
}

/// The merged lines, and whether there are conflicts between markers among them.
fn merge_lines(base: &str, ours: &str, theirs: &str) -> (String, bool) {
    let merge = TextMerge::from_lines(base, ours, theirs);
    let [base, ours, theirs] = [base, ours, theirs].map(lines);
    let (mut merged, mut is_conflicted) = (String::new(), false);
    for region in merge.regions() {
        let yours = &ours[region.ours_range()];
        let new = &theirs[region.theirs_range()];
        match region.resolution() {
            MergeResolution::Theirs => merged.extend(new.iter().copied()),
            MergeResolution::Conflict => {
                match refine::resolve(&base[region.base_range()], yours, new) {
                    Some(resolved) => merged.push_str(&resolved),
                    None => {
                        is_conflicted = true;
                        merged.push_str(&marked(&yours.concat(), &new.concat()));
                    }
                }
            }
            _ => merged.extend(yours.iter().copied()),
        }
    }
    (merged, is_conflicted)
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Both versions between conflict markers.
fn marked(ours: &str, theirs: &str) -> String {
    let end = |text: &str| if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let (after_ours, after_theirs) = (end(ours), end(theirs));
    format!("<<<<<<< {OURS}\n{ours}{after_ours}=======\n{theirs}{after_theirs}>>>>>>> {THEIRS}\n")
}

/// Both versions of a text without a known base: what they share once, and between conflict markers what
/// differs.
pub fn both(ours: &[u8], theirs: &str) -> Option<Vec<u8>> {
    let ours = Ours::new(ours, theirs)?;
    let diff = TextDiff::from_lines(ours.text.as_ref(), theirs);
    let (old, new) = (lines(&ours.text), lines(theirs));
    let mut both = String::new();
    for op in diff.ops() {
        let old = old[op.old_range()].concat();
        if op.tag() == similar::DiffTag::Equal {
            both.push_str(&old);
        } else {
            both.push_str(&marked(&old, &new[op.new_range()].concat()));
        }
    }
    Some(ours.style(&both))
}

/// Whether next to nothing is left of a text in the user's version: what changes in it has no place there.
pub fn is_rewritten(base: &str, ours: &[u8]) -> bool {
    let Some(ours) = Ours::new(ours, base) else { return false };
    let kept: BTreeSet<&str> = ours.text.lines().collect();
    let all = base.lines().filter(|line| is_significant(line));
    let left = all.clone().filter(|line| kept.contains(line)).count();
    left * 20 < all.count()
}

/// Whether a text has the markers of a conflict that opctl wrote.
pub fn has_markers(ours: &[u8]) -> bool {
    let text = String::from_utf8_lossy(ours);
    let has = |marker: String| text.lines().any(|line| line == marker);
    has(format!("<<<<<<< {OURS}")) && has(format!(">>>>>>> {THEIRS}"))
}

/// The change without those entries of a list that the user has added already.
fn without_entries(base: &str, theirs: &str, added: &BTreeSet<&str>) -> String {
    let is_entry = |line: &str| {
        let line = line.trim_start();
        ["pub mod ", "mod ", "- "].iter().any(|start| line.starts_with(start))
    };
    let kept = additions_and_rest(base, theirs)
        .into_iter()
        .filter(|(line, is_added)| !(*is_added && is_entry(line) && added.contains(line)));
    kept.map(|(line, _)| line).collect()
}

/// Whether a merge repeats lines that both changes add: all that `theirs` adds at one place.
fn repeats_lines(
    base: &str,
    ours: &str,
    theirs: &str,
    merged: &str,
    added: &BTreeSet<&str>,
) -> bool {
    let (merged, in_ours, in_theirs) = (count(merged), count(ours), count(theirs));
    let is_repeated = |line: &&&str| {
        let in_one = in_ours.get(*line).max(in_theirs.get(*line));
        added.contains(*line) && merged.get(*line) > in_one
    };
    additions(base, theirs).iter().any(|place| {
        let mut significant = place.iter().filter(|line| is_significant(line)).peekable();
        significant.peek().is_some() && significant.all(|line| is_repeated(&line))
    })
}

/// Whether a line says something: brackets and empty lines are often the same by chance.
fn is_significant(line: &str) -> bool {
    line.chars().filter(|c| c.is_alphanumeric()).count() > 2
}

/// How often a text has each of its lines.
fn count(text: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for line in text.split_inclusive('\n') {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

/// The lines that a change adds, place by place.
fn additions<'a>(base: &'a str, new: &'a str) -> Vec<Vec<&'a str>> {
    let lines = additions_and_rest(base, new);
    let places = lines.chunk_by(|a, b| a.1 == b.1).filter(|place| place[0].1);
    places.map(|place| place.iter().map(|(line, _)| *line).collect()).collect()
}

/// The lines of a new text, and whether each is an addition.
fn additions_and_rest<'a>(base: &'a str, new: &'a str) -> Vec<(&'a str, bool)> {
    let diff = TextDiff::from_lines(base, new);
    let mut all: Vec<(&str, bool)> = lines(new).into_iter().map(|line| (line, true)).collect();
    for op in diff.ops().iter().filter(|op| op.tag() == similar::DiffTag::Equal) {
        for line in &mut all[op.new_range()] {
            line.1 = false;
        }
    }
    all
}

/// Whether the user's version equals a text, ignoring style.
pub fn same(ours: &[u8], theirs: &str) -> bool {
    ours == theirs.as_bytes() || Ours::new(ours, theirs).is_some_and(|ours| ours.text == theirs)
}

/// The user's version of a text in the style of opctl, unless it is not a text.
pub fn text_of(ours: &[u8], theirs: &str) -> Option<String> {
    Ours::new(ours, theirs).map(|ours| ours.text.into_owned())
}

/// The texts in the style of opctl that the user's version may be: an editor may have removed the end of
/// the last line.
pub fn texts(ours: &[u8]) -> Vec<String> {
    let Some(Ours { text, .. }) = Ours::new(ours, "") else { return Vec::new() };
    let mut texts = vec![text.into_owned()];
    if !texts[0].ends_with('\n') {
        texts.push(format!("{}\n", texts[0]));
    }
    texts
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
        assert_eq!(clean(merge("a\nb\nc\n", b"A\nb\nc\n", "a\nb\nC\n", false)), "A\nb\nC\n");
    }

    #[test]
    fn style_stays() {
        assert_eq!(
            clean(merge("a\nb\nc\n", b"A\r\nb\r\nc\r\n", "a\nb\nC\n", false)),
            "A\r\nb\r\nC\r\n"
        );
        assert_eq!(clean(merge("a\nb\nc\n", b"A\nb\nc", "a\nb\nc\nd\n", false)), "A\nb\nc\nd");
        assert!(same(b"a\r\nb", "a\nb\n") && !same(b"a\r\nb\n", "a\nb\n"));
        assert_eq!(in_style_of(b"a\r\nb", "c\nd\n"), b"c\r\nd");
    }

    #[test]
    fn without_a_base_only_differences_are_between_markers() {
        let both = both(b"a\r\nmine\r\nc\r\n", "a\nb\nc\nd\n").unwrap();
        let expected = "a\n<<<<<<< yours\nmine\n=======\nb\n>>>>>>> opctl\nc\n<<<<<<< yours\n=======\nd\n>>>>>>> opctl\n";
        assert_eq!(String::from_utf8(both).unwrap().replace("\r\n", "\n"), expected);
        assert_eq!(super::both(b"\xff", "a\n"), None);
    }

    #[test]
    fn overlaps_are_conflicts() {
        let Merged::Conflict(text) = merge("a\n", b"b\n", "c\n", false) else {
            panic!("no conflict")
        };
        assert_eq!(text, b"<<<<<<< yours\nb\n=======\nc\n>>>>>>> opctl\n");
    }

    #[test]
    fn binary_file_is_reported() {
        assert_eq!(merge("a\n", b"\xff\n", "c\n", false), Merged::Binary);
        assert_eq!(merge("a\n", b"a\0\n", "c\n", false), Merged::Binary);
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

    /// What git makes of the same texts: the merge, or nothing if there is a conflict.
    fn merged_by_git(base: &str, ours: &str, theirs: &str) -> Option<String> {
        let directory = tempfile::tempdir().unwrap();
        let files = [("ours", ours), ("base", base), ("theirs", theirs)];
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let mut git = std::process::Command::new("git");
        git.args(["merge-file", "--stdout", "ours", "base", "theirs"]);
        let output = git.current_dir(directory.path()).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn entry_that_both_add_stays_where_the_user_added_it() {
        let (base, theirs) = ("resources:\n- a\n- b\n- c\n", "resources:\n- a\n- b\n- c\n- d\n");
        let ours = "resources:\n- d\n- a\n- b\n- c\n";
        assert_eq!(clean(merge(base, ours.as_bytes(), theirs, true)), ours);
    }

    #[test]
    fn lines_that_both_add_are_a_conflict() {
        let (base, theirs) = ("a\nb\nc\n", "a\nb\nc\nlet d = 1;\n}\n");
        let duplicate = merge(base, b"let d = 1;\na\nb\nc\n", theirs, false);
        assert!(matches!(duplicate, Merged::Duplicate(text) if has_markers(&text)));
        assert_eq!(clean(merge(base, b"}\na\nb\nc\n", "a\nb\nc\n}\n", false)), "}\na\nb\nc\n}\n");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn merge_is_that_of_git(base in text(0..12), ours in text(0..12), theirs in text(0..12)) {
            // What git takes for a conflict is none for it alone.
            let is_clean = !TextMerge::from_lines(&*base, &*ours, &*theirs).is_conflicted();
            if let (true, Merged::Clean(merged), Some(git)) = (
                is_clean,
                merge(&base, ours.as_bytes(), &theirs, false),
                merged_by_git(&base, &ours, &theirs),
            ) {
                prop_assert_eq!(String::from_utf8(merged).unwrap(), git);
            }
        }

        #[test]
        fn merge_loses_no_line(base in text(0..12), ours in text(0..12), theirs in text(0..12)) {
            if let Merged::Clean(merged) = merge(&base, ours.as_bytes(), &theirs, false) {
                let merged = String::from_utf8(merged).unwrap();
                let swapped = clean(merge(&base, theirs.as_bytes(), &ours, false));
                prop_assert_eq!(&swapped, &merged);
                for line in ["a\n", "b\n", "c\n", "d\n"] {
                    let [before, after] = [&base, &merged].map(|text| text.matches(line).count());
                    let [(added, deleted), (new, gone)] = [&ours, &theirs].map(|text| {
                        let lines = additions_and_rest(&base, text);
                        let added = lines.iter().filter(|it| **it == (line, true)).count();
                        (added, before + added - text.matches(line).count())
                    });
                    // Both may add the same line, and delete it.
                    let least = before - before.min(deleted + gone) + added.max(new);
                    let most = before + added + new;
                    prop_assert!(
                        (least..=most).contains(&after),
                        "{line:?}: {before} became {after}, not {least} to {most}"
                    );
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn without_edits_the_change_is_taken(base in text(0..8), theirs in text(0..8)) {
            prop_assert_eq!(merge(&base, base.as_bytes(), &theirs, false), Merged::Clean(theirs.into_bytes()));
        }

        #[test]
        fn without_a_change_the_edits_stay(base in text(0..8), ours in text(0..8)) {
            prop_assert_eq!(merge(&base, ours.as_bytes(), &base, false), Merged::Clean(ours.into_bytes()));
        }
    }
}
