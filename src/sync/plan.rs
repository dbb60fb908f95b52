//! The plan of a command: the merge of base, ours and theirs for each file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::action::Action;
use super::codemods::Codemod;
use super::disk::Disk;
use super::file::{File, rewritten_steps};
use super::lockfile::Lockfile;
use super::moves;
use super::rewrite::Rewrite;
use crate::error::UserError;
use crate::render::{RenderedFile, Tree};

/// What a step writes. What opctl embeds is not copied.
pub(super) type Contents = Cow<'static, [u8]>;

/// One file of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The path in the project.
    pub path: String,
    /// Where the file was before, if it moves.
    pub from: Option<String>,
    /// What the step does with the file.
    pub action: Action,
    /// The real path, after symbolic links.
    pub(super) place: PathBuf,
    /// The new contents, if they change.
    pub(super) contents: Option<Contents>,
    /// The file whose permissions a new file gets.
    pub(super) like: Option<PathBuf>,
    pub(super) executable: bool,
    /// How the user's code follows the API of the runtime in this file.
    pub codemods: Vec<Codemod>,
    /// The file with both versions between markers, if the step is a conflict that has them.
    pub(super) marked: Option<Contents>,
}

/// How conflicts are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Conflicts {
    /// Stop before anything is written
    #[default]
    Stop,
    /// Write both versions between conflict markers
    Inline,
}

/// The options of a plan.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// The files to overwrite, by their paths.
    pub overwrite: BTreeSet<String>,
    /// How other conflicts are handled.
    pub conflicts: Conflicts,
    /// What changes in the user's files, also where opctl renders the same.
    pub rewrite: Option<Rewrite>,
}

/// The steps of a command, sorted by path; the last one is `PROJECT`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps. Files that the command does not affect have none.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Merges the trees of the old and the new model with the files on the disk. The files that are `gone`
    /// are in neither: opctl wrote them, but no model renders them.
    ///
    /// # Errors
    /// If a file cannot be read, or if two paths lead to the same file.
    pub(super) fn new(
        base: &Tree,
        theirs: &Tree,
        gone: &BTreeSet<String>,
        lock: &Lockfile,
        disk: &Disk,
        options: &PlanOptions,
    ) -> Result<Self> {
        let mut steps = Vec::new();
        let rewrite = options.rewrite.as_ref();
        let moves = moves::find(base, theirs, rewrite);
        let moved: BTreeSet<&String> = moves.values().copied().collect();
        let paths: BTreeSet<&String> = base.keys().chain(theirs.keys()).chain(gone).collect();
        for path in paths.difference(&moved) {
            let old = *moves.get(path).unwrap_or(path);
            let (base, theirs) = (base.get(old), theirs.get(*path));
            let changes = base.map(|file| &file.text) != theirs.map(|file| &file.text)
                || old != *path
                || gone.contains(*path)
                || options.overwrite.contains(*path);
            let ours = if changes || rewrite.is_some() { disk.read(old)? } else { continue };
            let rewrites = |rewrite: &Rewrite| rewrite.changes(old, ours.contents.as_deref());
            if changes || rewrite.is_some_and(rewrites) {
                let is_new = ours.contents.is_none() || options.overwrite.contains(*path);
                let copy = if is_new { copy_of_original(theirs, disk)? } else { None };
                let theirs = copy.as_ref().or(theirs);
                let file = File { path: old, base, theirs, ours, lock, rewrite };
                steps.extend(if old == *path {
                    file.steps(options)
                } else {
                    file.moved_steps(path, disk.read(path)?, options)
                });
            }
        }
        if let Some(rewrite) = rewrite {
            let directories = moves::directories(&moves, theirs);
            for path in disk.files(&BTreeSet::from(["src", "tests", "benches", "examples"]))? {
                if !base.contains_key(&path) && !theirs.contains_key(&path) {
                    let new = moves::follow(&path, &directories);
                    steps.extend(rewritten_steps(&path, &new, rewrite, options, disk)?);
                }
            }
        }
        check_places(&steps)?;
        Ok(Self { steps })
    }

    /// The same plan for a copy of the project in another directory.
    pub(super) fn relocated(&self, root: &Path, copy: &Path) -> Self {
        let relocate = |place: &PathBuf| match place.strip_prefix(root) {
            Ok(path) => copy.join(path),
            Err(_) => place.clone(),
        };
        let steps = self.steps.iter().cloned().map(|step| Step {
            place: relocate(&step.place),
            like: step.like.as_ref().map(relocate),
            ..step
        });
        Self { steps: steps.collect() }
    }

    /// The steps that stop the command.
    pub fn conflicts(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| matches!(step.action, Action::Conflict(_)))
    }

    /// Whether there is anything to write.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| !step.writes())
    }
}

impl Step {
    /// Why a file stays that opctl would delete if it had no edits.
    pub const NO_LONGER_GENERATED: &str = "edited by you; opctl no longer generates it";

    /// A step on a file that is not merged.
    pub(super) fn of(
        path: &str,
        action: Action,
        place: PathBuf,
        contents: Option<Contents>,
    ) -> Self {
        let path = path.to_owned();
        Self {
            path,
            from: None,
            action,
            place,
            contents,
            like: None,
            executable: false,
            codemods: Vec::new(),
            marked: None,
        }
    }

    /// The step with what it writes or, if it is a conflict, with what it would write between markers.
    #[must_use]
    pub(super) fn with(self, contents: Option<Contents>) -> Self {
        match self.action {
            Action::Conflict(_) => Self { marked: contents, ..self },
            _ => Self { contents, ..self },
        }
    }

    /// The lines of a conflict, between markers.
    pub fn hunks(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(self.marked.as_deref().unwrap_or_default());
        let mut hunks: Vec<String> = Vec::new();
        let mut is_inside = false;
        for line in text.lines() {
            let is_start = line.starts_with("<<<<<<< ");
            if is_start {
                hunks.push(String::new());
            }
            is_inside |= is_start;
            if let Some(hunk) = hunks.last_mut().filter(|_| is_inside) {
                hunk.push_str(line);
                hunk.push('\n');
            }
            is_inside &= !line.starts_with(">>>>>>> ");
        }
        hunks
    }

    /// Whether the step changes the disk or stops the command.
    pub fn is_change(&self) -> bool {
        self.writes() || matches!(self.action, Action::Conflict(_))
    }

    /// Whether the step changes the disk.
    pub fn writes(&self) -> bool {
        self.contents.is_some() || self.action == Action::Delete
    }
}

/// A copy with what its original says on the disk: the code may say something else than the model.
fn copy_of_original(file: Option<&RenderedFile>, disk: &Disk) -> Result<Option<RenderedFile>> {
    let Some((file, original)) = file.and_then(|file| Some((file, file.copy_of.as_deref()?)))
    else {
        return Ok(None);
    };
    let text = disk.read(original)?.contents.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(text.map(|text| RenderedFile { text: text.into(), ..file.clone() }))
}

/// Two steps on one file would undo each other.
fn check_places(steps: &[Step]) -> Result<(), UserError> {
    let mut paths: BTreeMap<&Path, &str> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.writes()) {
        if let Some(other) = paths.insert(&step.place, &step.path) {
            let problem = format!("{other} and {} are the same file", step.path);
            return Err(UserError::failure(problem)
                .with_hint("replace the symbolic link with a file or a directory"));
        }
    }
    Ok(())
}
