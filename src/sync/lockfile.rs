//! `PROJECT.lock`: what opctl wrote. A line for each file, sorted by path: the hash of its text, what the
//! file belongs to, and its path.
//!
//! A file that has the hash is pristine, whatever version of opctl wrote it. The base of a merge is rendered
//! again, and used only if it has the hash: a wrong base would undo changes of the user without a word.
//!
//! What opctl wrote in place of what it renders, such as the types of a CRD that a project takes over, has a line
//! with `!` before what the file belongs to. It is no base of a merge, but it has no edits.
//!
//! Two branches that change the same file each have a line for it. git merges the lines of both; until the
//! next command writes the file, each of them counts.

use std::collections::{BTreeMap, BTreeSet};

use super::merge;
use crate::error::UserError;
use crate::hash::Hash;
use crate::render::{RenderedFile, Tree};

/// The path of the file.
pub const FILE: &str = "PROJECT.lock";

const HEADER: &str = "\
# What opctl wrote: the SHA-256 of each file, what it belongs to, and its path. Commit this file; opctl
# updates it. In a merge conflict, keep the lines of both sides.
";

/// The contents of `PROJECT.lock`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lockfile {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    /// More than one after a merge of two branches.
    hashes: BTreeSet<Hash>,
    /// What was written in place of the text with the hash.
    substitutes: BTreeSet<Hash>,
    subject: String,
}

/// What is before the subject of a substitute.
const SUBSTITUTE: char = '!';

impl Lockfile {
    /// Parses the text of the file. Comments, and the markers of a merge conflict in git, are skipped.
    ///
    /// # Errors
    /// If a line is damaged.
    pub fn parse(text: &str) -> Result<Self, UserError> {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !is_skipped(line)) {
            let invalid = |reason| {
                UserError::failure(format!("invalid {FILE}: line {}: {reason}", number + 1))
                    .with_hint(format!("restore the file, for example with `git checkout {FILE}`"))
            };
            let mut fields = line.splitn(3, ' ');
            let (Some(hash), Some(subject), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                return Err(invalid("not a hash, an owner and a path"));
            };
            let hash = hash.parse().map_err(invalid)?;
            let entry = entries.entry(path.to_owned()).or_default();
            let (hashes, subject) = match subject.strip_prefix(SUBSTITUTE) {
                Some(subject) => (&mut entry.substitutes, subject),
                None => (&mut entry.hashes, subject),
            };
            hashes.insert(hash);
            subject.clone_into(&mut entry.subject);
        }
        Ok(Self { entries })
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = HEADER.to_owned();
        for (path, Entry { hashes, substitutes, subject }) in &self.entries {
            for hash in hashes {
                text.push_str(&format!("{hash} {subject} {path}\n"));
            }
            for hash in substitutes {
                text.push_str(&format!("{hash} {SUBSTITUTE}{subject} {path}\n"));
            }
        }
        text
    }

    /// The lock file without these files.
    #[must_use]
    pub fn without(&self, paths: &BTreeSet<String>) -> Self {
        let mut lock = self.clone();
        lock.entries.retain(|path, _| !paths.contains(path));
        lock
    }

    /// The lock file after a command that renders `theirs` instead of `base`. What it does not change, it
    /// does not write: the entry stays. A lock file that was lost is made again.
    #[must_use]
    pub fn after(&self, base: &Tree, theirs: &Tree) -> Self {
        let mut entries = self.entries.clone();
        entries.retain(|path, _| !base.contains_key(path) || theirs.contains_key(path));
        for (path, file) in theirs {
            let is_same = base.get(path).is_some_and(|base| base.text == file.text);
            match entries.get_mut(path).filter(|_| is_same) {
                Some(entry) => entry.subject.clone_from(&file.subject),
                None if is_same && !self.entries.is_empty() => {}
                None => drop(entries.insert(path.clone(), Entry::of(file))),
            }
        }
        Self { entries }
    }

    /// The lock file as if opctl had written another text in place of `written`, if it has written that.
    #[must_use]
    pub fn with_choice(&self, path: &str, written: &RenderedFile, chosen: &RenderedFile) -> Self {
        let mut lock = self.clone();
        if self.wrote(path, &written.text) {
            lock.entries.insert(path.to_owned(), Entry::of(chosen));
        }
        lock
    }

    /// Records what was written in place of the text that the file has a line for.
    pub fn substitute(&mut self, path: &str, text: &str) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.substitutes = BTreeSet::from([Hash::of(text)]);
        }
    }

    /// Whether the user's version of a file is what opctl wrote in place of what it renders.
    pub fn is_substitute(&self, path: &str, ours: &[u8]) -> bool {
        let is_one = |entry: &Entry| {
            merge::texts(ours).iter().any(|text| entry.substitutes.contains(&Hash::of(text)))
        };
        self.has_substitute(path) && self.entries.get(path).is_some_and(is_one)
    }

    /// Whether something was written in place of what a file is rendered to.
    pub fn has_substitute(&self, path: &str) -> bool {
        self.entries.get(path).is_some_and(|entry| !entry.substitutes.is_empty())
    }

    /// The paths of all files that opctl wrote.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Whether opctl has written a file.
    pub fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// Whether a text is what opctl wrote at a path.
    pub fn wrote(&self, path: &str, text: &str) -> bool {
        self.entries.get(path).is_some_and(|entry| entry.hashes.contains(&Hash::of(text)))
    }

    /// Whether the user's version of a file is what opctl wrote, but for its style.
    pub fn wrote_file(&self, path: &str, ours: &[u8]) -> bool {
        merge::texts(ours).iter().any(|text| self.wrote(path, text))
    }

    /// Whether a text can be the base of a merge: it is what opctl wrote, or two branches changed the file,
    /// so that nobody wrote what follows from both.
    pub fn is_base(&self, path: &str, text: &str) -> bool {
        let is_merged = |entry: &Entry| entry.hashes.len() > 1;
        self.wrote(path, text) || self.entries.get(path).is_some_and(is_merged)
    }
}

impl Entry {
    fn of(file: &RenderedFile) -> Self {
        let hashes = BTreeSet::from([Hash::of(file.text.as_bytes())]);
        Self { hashes, subject: file.subject.clone(), ..Self::default() }
    }
}

fn is_skipped(line: &str) -> bool {
    let markers = ["<<<<<<<", "|||||||", "=======", ">>>>>>>"];
    line.trim().is_empty()
        || line.starts_with('#')
        || markers.iter().any(|marker| line.starts_with(marker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::files::Ownership;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let file = |text: &str| RenderedFile {
            text: text.to_owned().into(),
            ownership: Ownership::Scaffolded,
            subject: "project".to_owned(),
            template: String::new(),
            copy_of: None,
        };
        files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    #[test]
    fn text_is_read_back() {
        let lock = Lockfile::default().after(&Tree::new(), &tree(&[("a b", "1"), ("c", "2")]));
        assert_eq!(Lockfile::parse(&lock.to_text()).unwrap(), lock);
        assert!(lock.wrote("a b", "1") && !lock.wrote("a b", "2") && !lock.wrote("d", "1"));
    }

    #[test]
    fn file_that_is_no_longer_rendered_goes_and_attached_files_stay() {
        let attached = Lockfile::default().after(&Tree::new(), &tree(&[("attached", "1")]));
        let with_api = attached.after(&Tree::new(), &tree(&[("api", "1")]));
        assert_eq!(with_api.after(&tree(&[("api", "1")]), &Tree::new()), attached);
    }

    #[test]
    fn lines_of_two_branches_count_until_the_next_command() {
        let branch = |text| Lockfile::default().after(&Tree::new(), &tree(&[("f", text)]));
        let (ours, theirs) = (branch("1").to_text(), branch("2").to_text());
        let theirs = theirs.strip_prefix(HEADER).unwrap();
        let conflict = format!("<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> branch\n");
        let merged = Lockfile::parse(&conflict).unwrap();
        assert!(merged.wrote("f", "1") && merged.wrote("f", "2") && merged.is_base("f", "12"));
        assert!(!branch("1").is_base("f", "12"));
        assert_eq!(merged.after(&Tree::new(), &tree(&[("f", "12")])), branch("12"));
    }

    #[test]
    fn a_substitute_is_known_and_no_base() {
        let mut lock = Lockfile::default().after(&Tree::new(), &tree(&[("f", "rendered")]));
        lock.substitute("f", "written");
        assert_eq!(Lockfile::parse(&lock.to_text()).unwrap(), lock);
        assert!(lock.is_substitute("f", b"written") && !lock.is_substitute("f", b"rendered"));
        assert!(lock.wrote("f", "rendered") && !lock.wrote("f", "written"));
        assert!(!lock.is_base("f", "written"));
    }

    #[test]
    fn damaged_line_is_refused() {
        for line in ["abc", "abc project f", "zz project"] {
            let error = Lockfile::parse(&format!("# fine\n{line}\n")).unwrap_err().to_string();
            assert!(error.starts_with("invalid PROJECT.lock: line 2: "), "{error}");
        }
    }
}
