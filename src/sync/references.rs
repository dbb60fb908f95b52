//! What the user's code mentions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::Result;

use super::action::Action;
use super::disk::Disk;
use super::lockfile;
use super::plan::{Plan, Step};
use crate::project;
use crate::render::{LOCK, RUNTIME, Tree};

/// A line of the user's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The path in the project.
    pub path: String,
    /// The number of the line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
}

/// `<path>:<line>`.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.line)
    }
}

/// The lines with one of these words that remain after a plan, except for those that are `rendered`.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn find(
    words: &[String],
    rendered: &Tree,
    plan: &Plan,
    disk: &Disk,
) -> Result<Vec<Reference>> {
    let mut references = Vec::new();
    let directories =
        BTreeSet::from(["src", "tests", "benches", "examples", "config", "chart", "docs"]);
    let mut paths: BTreeSet<String> = disk.files(&directories)?.into_iter().collect();
    paths.extend(plan.steps.iter().map(|step| step.path.clone()));
    let is_searched = |path: &String| {
        ![project::FILE, lockfile::FILE, LOCK].contains(&path.as_str())
            && !path.starts_with(RUNTIME)
    };
    // The first step of a path counts: one that copies its version comes with another path.
    let steps = plan.steps.iter().rev().map(|step| (step.path.as_str(), step));
    let steps: BTreeMap<&str, &Step> = steps.collect();
    for path in paths.into_iter().filter(is_searched) {
        let contents = match steps.get(path.as_str()) {
            Some(step) if matches!(step.action, Action::Copy) => None,
            Some(step) if step.contents.is_some() => step.contents.clone(),
            // What is deleted, and what stays but no longer belongs to the project.
            Some(step) if step.writes() || matches!(step.action, Action::Keep(_)) => None,
            _ => disk.read(&path)?.contents.map(Cow::Owned),
        };
        let Some(contents) = contents else { continue };
        let text = String::from_utf8_lossy(&contents);
        let rendered = rendered.get(&path).map_or("", |file| &file.text);
        let rendered: BTreeSet<&str> = rendered.lines().collect();
        for (number, line) in text.lines().enumerate() {
            if words.iter().any(|word| has_word(line, word)) && !rendered.contains(line) {
                let (line, text) = (number + 1, line.to_owned());
                references.push(Reference { path: path.clone(), line, text });
            }
        }
    }
    Ok(references)
}

/// Whether a line has a word, not as a part of another one.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_between_others() {
        for line in ["Box", "v1::Box>", "&Box,"] {
            assert!(has_word(line, "Box"), "{line}");
        }
        for line in ["Boxes", "BoxSpec", "a_Box", "box"] {
            assert!(!has_word(line, "Box"), "{line}");
        }
    }
}
