//! The journal of a commit: what has to be known to undo it.

use std::collections::HashMap;
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
        let mut missing = HashMap::from([(root, false)]);
        let mut entries = Vec::new();
        for step in steps(plan) {
            let place = relative(&step.place)?;
            let is_new = step.place.parent().is_some_and(|it| is_missing(it, &mut missing));
            entries.push(Entry {
                place,
                new: step.contents.as_deref().map(Hash::of),
                replaces: !is_new && step.place.exists(),
            });
        }
        let missing = missing.into_iter().filter(|(_, is_missing)| *is_missing);
        let mut directories: Vec<PathBuf> =
            missing.map(|(directory, _)| relative(directory)).collect::<Result<_>>()?;
        directories.sort();
        Ok(Self { directories, entries })
    }

    /// The directories of everything that the commit changes. Some come more than once.
    pub fn parents(&self) -> Vec<&Path> {
        let paths = self.entries.iter().map(|entry| &entry.place).chain(&self.directories);
        let mut parents: Vec<&Path> = paths.filter_map(|path| path.parent()).collect();
        // Paths of one directory mostly follow each other.
        parents.dedup();
        parents
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

/// Whether a directory does not exist. Nothing is looked up in one that does not.
fn is_missing<'a>(directory: &'a Path, known: &mut HashMap<&'a Path, bool>) -> bool {
    if let Some(is_missing) = known.get(directory) {
        return *is_missing;
    }
    let parent = directory.parent();
    let is_missing = parent.is_some_and(|it| self::is_missing(it, known)) || !directory.exists();
    known.insert(directory, is_missing);
    is_missing
}

/// The steps of a plan that are entries of its journal.
pub fn steps(plan: &Plan) -> impl Iterator<Item = &Step> {
    plan.steps.iter().filter(|step| step.writes())
}

/// The file of the journal. The commit can be undone as long as it exists.
pub fn entries(root: &Path) -> PathBuf {
    root.join(DIRECTORY).join("entries")
}

/// Where the new files of a commit are until they are in their places. Those of a new directory are renamed with
/// it, all at once.
pub struct Staging<'a> {
    pub journal: &'a Journal,
    pub root: &'a Path,
    /// The topmost of the new directories.
    trees: Vec<&'a Path>,
}

impl<'a> Staging<'a> {
    /// Where the files of a journal are staged.
    pub fn new(journal: &'a Journal, root: &'a Path) -> Self {
        let mut trees: Vec<&Path> = Vec::new();
        for directory in &journal.directories {
            if !trees.last().is_some_and(|tree| directory.starts_with(tree)) {
                trees.push(directory);
            }
        }
        Self { journal, root, trees }
    }

    /// The topmost of the new directories: where each is staged, and its path in the project.
    pub fn trees(&self) -> impl Iterator<Item = (PathBuf, &Path)> {
        self.trees.iter().enumerate().map(|(number, directory)| (self.tree(number), *directory))
    }

    /// Where a new directory or what is in it is; none if no new directory contains the path.
    pub fn in_tree(&self, path: &Path) -> Option<PathBuf> {
        let mut trees = self.trees.iter().enumerate();
        let (number, path) =
            trees.find_map(|(number, tree)| Some((number, path.strip_prefix(tree).ok()?)))?;
        let tree = self.tree(number);
        Some(if path.as_os_str().is_empty() { tree } else { tree.join(path) })
    }

    /// Where the new contents of an entry are.
    pub fn file(&self, number: usize, entry: &Entry) -> PathBuf {
        self.in_tree(&entry.place).unwrap_or_else(|| self.alone(number))
    }

    /// Where the new contents of an entry are that no new directory contains.
    pub fn alone(&self, number: usize) -> PathBuf {
        self.root.join(DIRECTORY).join(format!("new-{number}"))
    }

    fn tree(&self, number: usize) -> PathBuf {
        self.root.join(DIRECTORY).join(format!("tree-{number}"))
    }
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
