//! The plan of a command: the merge of base, ours and theirs for each file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;

use super::disk::Disk;
use super::merge::{self, Merged};
use super::temporary;
use crate::render::files::Ownership;
use crate::render::{LOCK, RenderedFile, Tree};

/// What a plan does with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The file is new.
    Create,
    /// The file has no edits and gets the new text.
    Update,
    /// The file has edits, which are merged with the change.
    Merge,
    /// The file has no edits and is no longer generated.
    Delete,
    /// The file is replaced, because of `--force`.
    Overwrite,
    /// The file stays as it is, for the given reason.
    Keep(&'static str),
    /// The file already has the new text.
    Identical,
    /// The change cannot be made without the loss of the user's version, for the given reason.
    Conflict(Reason),
    /// A [`Reason::Overlap`] that is written to the file between conflict markers.
    Mark,
}

/// Why there is a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The file exists, although opctl has not written it.
    Exists,
    /// The change and the user's edits touch the same lines.
    Overlap,
    /// The user's version is not a text and cannot be merged.
    Binary,
}

impl Action {
    /// The verb that is printed before the path.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Merge => "merge",
            Self::Delete => "delete",
            Self::Overwrite => "overwrite",
            Self::Keep(_) => "keep",
            Self::Identical => "identical",
            Self::Conflict(_) | Self::Mark => "conflict",
        }
    }

    /// The reason that is printed after the path, unless the verb is enough.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Keep(reason) => Some(reason),
            Self::Conflict(Reason::Exists) => Some("already exists"),
            Self::Conflict(Reason::Overlap) => Some("conflicts with your edits"),
            Self::Conflict(Reason::Binary) => Some("not a text file"),
            Self::Mark => Some("resolve the conflict markers"),
            _ => None,
        }
    }

    /// Whether the conflict can be written to the file between markers.
    pub fn can_be_marked(self) -> bool {
        self == Self::Conflict(Reason::Overlap)
    }
}

/// One file of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The path in the project.
    pub path: String,
    /// What the step does with the file.
    pub action: Action,
    /// The real path, after symbolic links.
    pub(super) place: PathBuf,
    /// The new contents, if they change.
    pub(super) contents: Option<Vec<u8>>,
    /// The path of the receipt of a merge, which must not be done twice.
    pub(super) receipt: Option<PathBuf>,
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
#[derive(Debug, Clone, Copy, Default)]
pub struct PlanOptions {
    /// Overwrite files in a conflict.
    pub force: bool,
    /// How conflicts are handled without `force`.
    pub conflicts: Conflicts,
}

/// The steps of a command, sorted by path; the last one is `PROJECT`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps. Files that the command does not affect have none.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Merges the trees of the old and the new model with the files on the disk.
    pub(super) fn new(
        base: &Tree,
        theirs: &Tree,
        disk: &Disk,
        options: PlanOptions,
    ) -> Result<Self> {
        let mut steps = Vec::new();
        let paths: BTreeSet<&String> = base.keys().chain(theirs.keys()).collect();
        for path in paths {
            let (base, theirs) = (base.get(path), theirs.get(path));
            if base.map(|file| &file.text) != theirs.map(|file| &file.text) {
                steps.push(Self::step(path, base, theirs, disk, options)?);
            }
        }
        Ok(Self { steps })
    }

    fn step(
        path: &str,
        base: Option<&RenderedFile>,
        theirs: Option<&RenderedFile>,
        disk: &Disk,
        options: PlanOptions,
    ) -> Result<Step> {
        let ours = disk.read(path)?;
        let (mut action, mut contents) =
            decide(path, base, ours.contents.as_deref(), theirs, options);
        let mut receipt = None;
        if let (Some(base), Some(theirs), Some(ours)) = (base, theirs, &ours.contents) {
            let name = temporary::receipt_name(path, &base.text, &theirs.text);
            // A command that was killed before it wrote PROJECT has already done this merge.
            let done = disk.read(&name)?.contents.is_some_and(|merged| merged == *ours);
            if done {
                (action, contents) = (Action::Identical, None);
            }
            let merges = matches!(action, Action::Merge | Action::Mark);
            receipt = (done || merges).then(|| disk.root().join(name));
        }
        let executable = theirs.is_some_and(RenderedFile::is_executable);
        Ok(Step { path: path.to_owned(), action, place: ours.place, contents, receipt, executable })
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
    /// Whether the step changes the disk.
    pub fn writes(&self) -> bool {
        self.contents.is_some() || self.action == Action::Delete
    }
}

/// The table of the three-way merge: the action, and the contents to write.
fn decide(
    path: &str,
    base: Option<&RenderedFile>,
    ours: Option<&[u8]>,
    theirs: Option<&RenderedFile>,
    options: PlanOptions,
) -> (Action, Option<Vec<u8>>) {
    let is_base = |ours: &[u8]| base.is_some_and(|base| merge::same(ours, &base.text));
    match (base, ours, theirs) {
        (_, None, None) => (Action::Identical, None),
        (None, None, Some(theirs)) => (Action::Create, Some(theirs.text.clone().into_bytes())),
        (Some(_), None, Some(theirs)) if options.force => {
            (Action::Create, Some(theirs.text.clone().into_bytes()))
        }
        (Some(_), None, Some(_)) => (Action::Keep("deleted by you"), None),
        (_, Some(ours), Some(theirs)) if merge::same(ours, &theirs.text) => {
            (Action::Identical, None)
        }
        (_, Some(ours), None) if is_base(ours) => (Action::Delete, None),
        (_, Some(_), None) => (Action::Keep("edited by you; opctl no longer generates it"), None),
        (_, Some(ours), Some(theirs)) if is_base(ours) => {
            (Action::Update, Some(merge::in_style_of(ours, &theirs.text)))
        }
        (None, Some(_), Some(theirs)) => conflict(path, Reason::Exists, theirs, None, options),
        (Some(base), Some(ours), Some(theirs)) => {
            match merge::merge(&base.text, ours, &theirs.text) {
                Merged::Clean(merged) if merged == ours => (Action::Identical, None),
                Merged::Clean(merged) => (Action::Merge, Some(merged)),
                Merged::Conflict(marked) => {
                    conflict(path, Reason::Overlap, theirs, Some(marked), options)
                }
                Merged::Binary => conflict(path, Reason::Binary, theirs, None, options),
            }
        }
    }
}

fn conflict(
    path: &str,
    reason: Reason,
    theirs: &RenderedFile,
    marked: Option<Vec<u8>>,
    options: PlanOptions,
) -> (Action, Option<Vec<u8>>) {
    match (theirs.ownership, marked) {
        _ if options.force => (Action::Overwrite, Some(theirs.text.clone().into_bytes())),
        (Ownership::Derived, _) if path == LOCK => (Action::Keep("kept; cargo updates it"), None),
        (Ownership::Derived, _) => (Action::Keep("kept; `make manifests` regenerates it"), None),
        (_, Some(marked)) if options.conflicts == Conflicts::Inline => (Action::Mark, Some(marked)),
        _ => (Action::Conflict(reason), None),
    }
}
