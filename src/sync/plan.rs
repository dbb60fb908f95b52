//! The plan of a command: the merge of base, ours and theirs for each file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::action::{Action, Reason};
use super::commit;
use super::disk::{Disk, Found};
use super::lockfile::Lockfile;
use super::merge::{self, Merged};
use super::moves;
use super::rename::Rename;
use crate::error::UserError;
use crate::render::files::Ownership;
use crate::render::{LOCK, RenderedFile, Tree};

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
    pub(super) contents: Option<Vec<u8>>,
    /// The file whose permissions a new file gets.
    pub(super) like: Option<PathBuf>,
    pub(super) executable: bool,
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
    /// What is renamed, also in the user's files.
    pub rename: Option<Rename>,
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
        let rename = options.rename.as_ref();
        let moves = moves::find(base, theirs, rename);
        let moved: BTreeSet<&String> = moves.values().copied().collect();
        let paths: BTreeSet<&String> = base.keys().chain(theirs.keys()).chain(gone).collect();
        for path in paths.difference(&moved) {
            let old = *moves.get(path).unwrap_or(path);
            let (base, theirs) = (base.get(old), theirs.get(*path));
            let changes = base.map(|file| &file.text) != theirs.map(|file| &file.text)
                || old != *path
                || gone.contains(*path)
                || options.overwrite.contains(*path);
            let ours = if changes || rename.is_some() { disk.read(old)? } else { continue };
            let names = |rename: &Rename| rename.changes(old, ours.contents.as_deref());
            if changes || rename.is_some_and(names) {
                let file = File { path: old, base, theirs, ours, lock, rename };
                steps.extend(if old == *path {
                    file.steps(options)
                } else {
                    file.moved_steps(path, disk.read(path)?, options)
                });
            }
        }
        if let Some(rename) = rename {
            let directories = moves::directories(&moves, theirs);
            for path in disk.files(&BTreeSet::from(["src", "tests", "benches", "examples"]))? {
                if !base.contains_key(&path) && !theirs.contains_key(&path) {
                    let new = moves::follow(&path, &directories);
                    steps.extend(renamed_steps(&path, &new, rename, options, disk)?);
                }
            }
        }
        check_places(&steps)?;
        Ok(Self { steps })
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
        contents: Option<Vec<u8>>,
    ) -> Self {
        let path = path.to_owned();
        Self { path, from: None, action, place, contents, like: None, executable: false }
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

/// The steps of a file of the user in which something is renamed, or whose directory moves.
fn renamed_steps(
    old: &str,
    new: &str,
    rename: &Rename,
    options: &PlanOptions,
    disk: &Disk,
) -> Result<Vec<Step>> {
    let (ours, target) = (disk.read(old)?, disk.read(new)?);
    let Some(contents) = ours.contents else { return Ok(Vec::new()) };
    let renamed = rename.rewrite_bytes(old, &contents);
    if renamed != contents && ours.read_only {
        return Ok(vec![Step::of(old, Action::Conflict(Reason::ReadOnly), ours.place, None)]);
    }
    if new == old {
        let is_same = renamed == contents;
        let step = Step::of(old, Action::Merge, ours.place, Some(renamed));
        return Ok(if is_same { Vec::new() } else { vec![step] });
    }
    let mut steps = Vec::new();
    if target.contents.is_some() {
        if !options.overwrite.contains(new) {
            let exists = Action::Conflict(Reason::Exists);
            return Ok(vec![Step::of(new, exists, target.place, None)]);
        }
        steps.extend(copy(new, &target));
    }
    let step = Step::of(new, Action::Move, target.place, Some(renamed));
    let (from, like) = (Some(old.to_owned()), Some(ours.place.clone()));
    steps.push(Step { from, like, ..step });
    steps.push(Step::of(old, Action::Delete, ours.place, None));
    Ok(steps)
}

/// Keeps the user's version of a file that is replaced.
fn copy(path: &str, ours: &Found) -> Option<Step> {
    let place = commit::unused_name(&ours.place);
    let path = Path::new(path).parent()?.join(place.file_name()?).to_str()?.to_owned();
    let step = Step::of(&path, Action::Copy, place, Some(ours.contents.clone()?));
    Some(Step { like: Some(ours.place.clone()), ..step })
}

/// A file that a command may change.
struct File<'a> {
    path: &'a str,
    base: Option<&'a RenderedFile>,
    theirs: Option<&'a RenderedFile>,
    ours: Found,
    lock: &'a Lockfile,
    rename: Option<&'a Rename>,
}

impl File<'_> {
    /// The step of the file, and before it the copy of a version that is lost otherwise.
    fn steps(self, options: &PlanOptions) -> Vec<Step> {
        let (action, contents) = self.decide(options);
        let mut steps = Vec::new();
        if action == Action::Overwrite {
            steps.extend(copy(self.path, &self.ours));
        }
        let executable = self.theirs.is_some_and(RenderedFile::is_executable);
        let step = Step::of(self.path, action, self.ours.place, contents);
        steps.push(Step { executable, ..step });
        steps
    }

    /// The steps of a file that moves to another path. What is on the disk moves along.
    fn moved_steps(self, path: &str, target: Found, options: &PlanOptions) -> Vec<Step> {
        let Some(ours) = self.ours.contents.clone() else {
            return vec![Step::of(path, Action::Keep("deleted by you"), target.place, None)];
        };
        let mut steps = Vec::new();
        if target.contents.is_some() {
            if !options.overwrite.contains(path) {
                let exists = Action::Conflict(Reason::Exists);
                return vec![Step::of(path, exists, target.place, None)];
            }
            steps.extend(copy(path, &target));
        }
        let (action, contents) = self.decide(options);
        let action = match action {
            Action::Conflict(_) => {
                return vec![Step::of(self.path, action, self.ours.place, None)];
            }
            Action::Overwrite => {
                steps.extend(copy(self.path, &self.ours));
                action
            }
            Action::Update | Action::Identical | Action::Keep(_) => Action::Move,
            action => action,
        };
        let (from, like) = (Some(self.path.to_owned()), Some(self.ours.place.clone()));
        let step = Step::of(path, action, target.place, contents.or(Some(ours)));
        steps.push(Step { from, like, ..step });
        steps.push(Step::of(self.path, Action::Delete, self.ours.place, None));
        steps
    }

    /// The table of the three-way merge: the action, and the contents to write.
    fn decide(&self, options: &PlanOptions) -> (Action, Option<Vec<u8>>) {
        let bytes = |file: &RenderedFile| Some(file.text.clone().into_bytes());
        let overwrite = options.overwrite.contains(self.path);
        match (self.base, self.ours.contents.as_deref(), self.theirs) {
            (_, None, None) => (Action::Identical, None),
            (Some(_), None, Some(_)) if !overwrite => (Action::Keep("deleted by you"), None),
            (_, None, Some(theirs)) => (Action::Create, bytes(theirs)),
            (_, Some(ours), Some(theirs)) if merge::same(ours, &theirs.text) => {
                (Action::Identical, None)
            }
            (_, Some(_), Some(theirs)) if overwrite => (Action::Overwrite, bytes(theirs)),
            (_, Some(ours), None)
                if (self.is_pristine(ours) || self.is_derived()) && !self.ours.read_only =>
            {
                (Action::Delete, None)
            }
            (_, Some(_), None) => (Action::Keep(Step::NO_LONGER_GENERATED), None),
            (base, Some(ours), Some(theirs)) => self.update(base, ours, theirs, options),
        }
    }

    /// Changes a file that exists.
    fn update(
        &self,
        base: Option<&RenderedFile>,
        ours: &[u8],
        theirs: &RenderedFile,
        options: &PlanOptions,
    ) -> (Action, Option<Vec<u8>>) {
        let conflict = |reason, marked| self.conflict(reason, theirs, marked, options);
        if self.ours.read_only {
            return conflict(Reason::ReadOnly, None);
        }
        if self.is_pristine(ours) {
            return (Action::Update, Some(merge::in_style_of(ours, &theirs.text)));
        }
        let Some(base) = base else {
            return match self.lock.contains(self.path) {
                true if merge::has_markers(ours) => conflict(Reason::Markers, None),
                true => conflict(Reason::Edited, merge::both(ours, &theirs.text)),
                false => conflict(Reason::Exists, None),
            };
        };
        if self.rename.is_none() && self.lock.wrote(self.path, &theirs.text) {
            return (Action::Identical, None); // opctl has nothing new, and the edits stay
        }
        if merge::has_markers(ours) {
            return conflict(Reason::Markers, None);
        }
        if !self.lock.is_base(self.path, &base.text) {
            return conflict(Reason::UnknownBase, None);
        }
        let is_list = theirs.ownership == Ownership::Generated;
        let renamed = self.rename.map(|rename| {
            (rename.rewrite(self.path, &base.text), rename.rewrite_bytes(self.path, ours))
        });
        let (base, edited) = match &renamed {
            Some((base, ours)) => (base.as_str(), ours.as_slice()),
            None => (base.text.as_str(), ours),
        };
        match merge::merge(base, edited, &theirs.text, is_list) {
            Merged::Clean(merged) if merged == ours => (Action::Identical, None),
            Merged::Clean(merged) => (Action::Merge, Some(merged)),
            Merged::Conflict(marked) => conflict(Reason::Overlap, Some(marked)),
            Merged::Duplicate(marked) => conflict(Reason::Duplicate, Some(marked)),
            Merged::Binary => conflict(Reason::Binary, None),
        }
    }

    /// Whether the user has not edited the file.
    fn is_pristine(&self, ours: &[u8]) -> bool {
        let is_base = |base: &RenderedFile| merge::same(ours, &base.text);
        self.base.is_some_and(is_base)
            || merge::texts(ours).iter().any(|text| self.lock.wrote(self.path, text))
    }

    /// Whether the file is made from the user's code, and has no edits of its own.
    fn is_derived(&self) -> bool {
        self.base.is_some_and(|file| file.ownership == Ownership::Derived)
    }

    fn conflict(
        &self,
        reason: Reason,
        theirs: &RenderedFile,
        marked: Option<Vec<u8>>,
        options: &PlanOptions,
    ) -> (Action, Option<Vec<u8>>) {
        match (theirs.ownership, marked) {
            (Ownership::Derived, _) if self.path == LOCK => {
                (Action::Keep("kept; cargo updates it"), None)
            }
            (Ownership::Derived, _) => {
                (Action::Keep("kept; `make manifests` regenerates it"), None)
            }
            (_, Some(marked)) if options.conflicts == Conflicts::Inline => {
                (Action::Mark, Some(marked))
            }
            _ => (Action::Conflict(reason), None),
        }
    }
}
