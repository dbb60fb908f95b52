//! Conflicts of a merge by lines that are none: changes side by side, and entries of a table.

use std::collections::BTreeMap;
use std::ops::Range;

use similar::{Algorithm, DiffTag, TextDiff, capture_diff_slices};

/// How much of a line must stay for it to count as changed, and not as replaced by another line.
const SIMILAR: f32 = 0.5;

/// Some lines with the changes of both sides, unless they touch the same ones.
pub fn resolve(base: &[&str], ours: &[&str], theirs: &[&str]) -> Option<String> {
    side_by_side(base, ours, theirs)
        .or_else(|| appended(base, ours, theirs))
        .or_else(|| appended(base, theirs, ours))
        .or_else(|| entries(base, ours, theirs))
}

/// What one side has appended to lines that the other has changed, such as the end of a file.
fn appended(base: &[&str], appended: &[&str], changed: &[&str]) -> Option<String> {
    let rest = appended.strip_prefix(base)?;
    let is_changed = !changed.is_empty() && !changed.starts_with(base);
    is_changed.then(|| changed.concat() + &rest.concat())
}

/// A change of some lines of the base.
#[derive(Debug, PartialEq, Eq)]
struct Edit<'a> {
    base: Range<usize>,
    lines: &'a [&'a str],
}

impl Edit<'_> {
    /// Whether there is more than one way to make both changes. Beside a line that changes, there is room for
    /// one that the other side adds; beside one that is deleted, it may be the same line that has moved.
    fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (&self.base, &other.base);
        let is_same_place = a.is_empty() && b.is_empty() && a.start == b.start;
        let touch = a.start <= b.end && b.start <= a.end;
        let is_move = touch && (self.is_deletion_beside(other) || other.is_deletion_beside(self));
        is_same_place || is_move || (a.start < b.end && b.start < a.end)
    }

    fn is_deletion_beside(&self, other: &Self) -> bool {
        self.lines.is_empty() && other.lines.len() > other.base.len()
    }
}

/// Merges changes of neighbouring lines. git takes them for a conflict.
fn side_by_side(base: &[&str], ours: &[&str], theirs: &[&str]) -> Option<String> {
    // Of two lines that are the same, nobody knows which one has changed.
    let is_once = |line: &&str| base.iter().filter(|it| *it == line).count() == 1;
    if !base.iter().all(is_once) {
        return None;
    }
    let (ours, theirs) = (edits(base, ours), edits(base, theirs));
    let is_blocked =
        |edit: &Edit<'_>| theirs.iter().any(|other| edit.overlaps(other) && edit != other);
    if ours.iter().any(is_blocked) {
        return None;
    }
    let mut all: Vec<_> = ours.iter().chain(&theirs).collect();
    all.sort_by_key(|edit| (edit.base.start, edit.base.end));
    all.dedup();
    let (mut merged, mut position) = (String::new(), 0);
    for edit in all {
        merged.extend(base[position..edit.base.start].iter().copied());
        merged.extend(edit.lines.iter().copied());
        position = edit.base.end;
    }
    merged.extend(base[position..].iter().copied());
    Some(merged)
}

fn edits<'a>(base: &[&str], new: &'a [&'a str]) -> Vec<Edit<'a>> {
    let mut edits = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, base, new) {
        let (old, new_range) = (op.old_range(), op.new_range());
        let pairs = || old.clone().zip(new_range.clone());
        match op.tag() {
            DiffTag::Equal => {}
            DiffTag::Replace
                if old.len() == new_range.len()
                    && pairs().all(|(i, j)| is_similar(base[i], new[j])) =>
            {
                edits.extend(pairs().map(|(i, j)| Edit { base: i..i + 1, lines: &new[j..=j] }));
            }
            _ => edits.push(Edit { base: old, lines: &new[new_range] }),
        }
    }
    edits
}

fn is_similar(old: &str, new: &str) -> bool {
    TextDiff::from_chars(old, new).ratio() >= SIMILAR
}

/// Merges the entries of a TOML table, such as dependencies, by their keys.
fn entries(base: &[&str], ours: &[&str], theirs: &[&str]) -> Option<String> {
    let (old, mine) = (table(base)?, table(ours)?);
    let theirs_by_key = table(theirs)?;
    let mut merged: Vec<(&str, &str)> = Vec::new();
    for line in theirs {
        let key = key(line)?;
        match (old.get(key), mine.get(key)) {
            (Some(old), Some(mine)) if mine == old => merged.push((key, line)),
            (Some(old), Some(mine)) if line == old => merged.push((key, mine)),
            (Some(old), None) if line == old => {}
            (None, None) => merged.push((key, line)),
            (_, Some(mine)) if mine == line => merged.push((key, line)),
            _ => return None,
        }
    }
    let is_sorted = merged.is_sorted_by_key(|(key, _)| *key);
    for line in ours {
        let key = key(line)?;
        match (old.get(key), theirs_by_key.contains_key(key)) {
            (_, true) => {}
            (Some(old), false) if line == old => {}
            (Some(_), false) => return None,
            (None, false) => {
                let place = merged.partition_point(|(other, _)| !is_sorted || *other < key);
                merged.insert(place, (key, line));
            }
        }
    }
    Some(merged.into_iter().map(|(_, line)| line).collect())
}

/// The lines of a table by key, if all of them are entries, each with a key of its own.
fn table<'a>(lines: &[&'a str]) -> Option<BTreeMap<&'a str, &'a str>> {
    let table: BTreeMap<_, _> =
        lines.iter().map(|line| Some((key(line)?, *line))).collect::<Option<_>>()?;
    (table.len() == lines.len()).then_some(table)
}

/// The key of an entry that is on one line.
fn key(line: &str) -> Option<&str> {
    let (key, value) = line.trim_end().split_once(" = ")?;
    let is_key = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = value.ends_with(['"', ']', '}']) || matches!(value, "true" | "false");
    (ends && !key.is_empty() && key.chars().all(is_key)).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(base: &str, ours: &str, theirs: &str) -> Option<String> {
        let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<_>>();
        resolve(&lines(base), &lines(ours), &lines(theirs))
    }

    #[test]
    fn neighbouring_lines_are_merged() {
        assert_eq!(
            resolved("# old\nIMG ?= a\n", "# old\nIMG ?= b\n", "# new\nIMG ?= a\n").unwrap(),
            "# new\nIMG ?= b\n"
        );
        assert_eq!(
            resolved(
                "#[test]\nfn a() {\n",
                "#[test]\nfn mine() {}\n#[test]\nfn a() {\n",
                "#[test]\nfn b() {\n"
            )
            .unwrap(),
            "#[test]\nfn mine() {}\n#[test]\nfn b() {\n"
        );
    }

    #[test]
    fn a_line_stays_between_two_that_change() {
        let base =
            "    let options = Options::parse();\n    let manager = Manager::new(options);\n";
        let theirs =
            "    let options = Flags::parse();\n    let manager = Manager::connect(options);\n";
        let ours = "    let options = Options::parse();\n    hello();\n    let manager = Manager::new(options);\n";
        let merged = "    let options = Flags::parse();\n    hello();\n    let manager = Manager::connect(options);\n";
        assert_eq!(resolved(base, ours, theirs).unwrap(), merged);
        // In what is another text now, it has no place.
        assert_eq!(resolved(base, ours, "something\nelse\n"), None);
    }

    #[test]
    fn changes_of_one_line_are_a_conflict() {
        assert_eq!(resolved("a\nb\n", "a\nmine\n", "a\ntheirs\n"), None);
        assert_eq!(resolved("a\n", "a\nmine\n", "a\ntheirs\n"), None);
        assert_eq!(resolved("a\nb\n", "mine\n", "a\ntheirs\n"), None);
    }

    #[test]
    fn what_is_appended_stays_behind_what_changes() {
        assert_eq!(resolved("a\n\na\n", "a\n\na\nmine\n", "b\nc\n").unwrap(), "b\nc\nmine\n");
        assert_eq!(resolved("a\na\n", "a\na\nmine\n", ""), None);
    }

    #[test]
    fn entries_of_a_table_are_merged_by_key() {
        let base = "axum = \"0.8\"\nbackon = \"1\"\nclap = { version = \"4\" }\n";
        let ours = "axum = \"0.8\"\nbackon = \"1\"\nbytes = \"1\"\nclap = { version = \"4\" }\n";
        let theirs = "clap = { version = \"5\" }\n";
        assert_eq!(
            resolved(base, ours, theirs).unwrap(),
            "bytes = \"1\"\nclap = { version = \"5\" }\n"
        );
        assert_eq!(resolved(theirs, "clap = \"4\"\n", "clap = \"6\"\n"), None);
        assert_eq!(resolved(base, &base.replace("0.8", "0.9"), theirs), None, "not just dropped");
        assert_eq!(key("let a = \"b\"\n"), None);
        assert_eq!(key("a = [\n"), None);
    }
}
