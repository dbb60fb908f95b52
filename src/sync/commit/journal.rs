//! The journal of a commit: what has to be known to undo it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::error::UserError;
use crate::hash::Hash;
use crate::sync::plan::{Plan, Step};

/// The directory of the journal, in the root directory of a project.
pub const DIRECTORY: &str = ".opctl-journal";

/// The changes of a commit. Paths are relative to the root directory of the project.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Journal {
    /// The directories that the commit creates, parents first.
    pub directories: Vec<PathBuf>,
    /// The files that it changes.
    pub entries: Vec<Entry>,
}

/// A file that a commit changes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Where the file is.
    pub place: PathBuf,
    /// The hash of the new contents; none if the file is deleted.
    pub new: Option<Hash>,
    /// Whether there was a file before.
    pub replaces: bool,
}

impl Journal {
    /// The journal of a plan, whose writing steps are the entries.
    ///
    /// # Errors
    /// If a step leaves `root`.
    pub fn new(plan: &Plan, root: &Path) -> Result<Self> {
        let relative = |place: &Path| -> Result<PathBuf> {
            let path = place.strip_prefix(root);
            Ok(path.with_context(|| format!("{} is not in the project", place.display()))?.into())
        };
        let (mut directories, mut entries) = (BTreeSet::new(), Vec::new());
        let mut known = BTreeSet::new();
        for step in steps(plan) {
            for parent in step.place.ancestors().skip(1) {
                if !known.insert(parent) || parent.exists() {
                    break; // and what is above it is known
                }
                directories.insert(relative(parent)?);
            }
            entries.push(Entry {
                place: relative(&step.place)?,
                new: step.contents.as_deref().map(Hash::of),
                replaces: step.place.exists(),
            });
        }
        Ok(Self { directories: directories.into_iter().collect(), entries })
    }

    /// Reads the journal of an interrupted command. There is none if the command was interrupted before
    /// it changed anything.
    ///
    /// # Errors
    /// If the journal was not written by opctl, so that to undo it could do harm.
    pub fn read(root: &Path) -> Result<Option<Self>> {
        let directory = root.join(DIRECTORY);
        let damaged = |problem: String| {
            UserError::failure(format!("the journal {DIRECTORY} is damaged: {problem}"))
                .with_hint("compare the project with your last commit, then delete the directory")
        };
        match fs::symlink_metadata(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(format!("cannot read {DIRECTORY}")),
            Ok(metadata) if !metadata.is_dir() => {
                return Err(damaged("not a directory".to_owned()).into());
            }
            Ok(_) => {}
        }
        let text = match fs::read(entries(root)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {DIRECTORY}"))?,
        };
        let journal: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        let files = journal.entries.iter().map(|entry| &entry.place);
        match journal.directories.iter().chain(files).find(|path| !is_inside(root, path)) {
            Some(path) => Err(damaged(format!("{} is not in the project", path.display())).into()),
            None => Ok(Some(journal)),
        }
    }
}

/// The steps of a plan that are entries of its journal.
pub fn steps(plan: &Plan) -> impl Iterator<Item = &Step> {
    plan.steps.iter().filter(|step| step.writes())
}

/// The file of the journal. The commit can be undone as long as it exists.
pub fn entries(root: &Path) -> PathBuf {
    root.join(DIRECTORY).join("entries")
}

/// Where the new contents of an entry are until they are in their place.
pub fn new(root: &Path, number: usize) -> PathBuf {
    root.join(DIRECTORY).join(format!("new-{number}"))
}

/// The file that an entry replaces or deletes.
pub fn old(root: &Path, number: usize) -> PathBuf {
    root.join(DIRECTORY).join(format!("old-{number}"))
}

/// Whether a path stays in the project: a journal can come with a project of somebody else.
fn is_inside(root: &Path, path: &Path) -> bool {
    let is_normal = path.components().all(|part| matches!(part, Component::Normal(_)));
    let parents = path.ancestors().skip(1);
    let is_real = |parent: &Path| match root.join(parent).canonicalize() {
        Ok(real) => real == root.join(parent),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    is_normal && !path.starts_with(".git") && parents.into_iter().all(is_real)
}
