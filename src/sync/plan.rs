//! What a command will do to the files of a project: the merge of base, ours and theirs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;

use super::disk::Disk;
use super::merge::{self, Merged};
use super::temporary;
use crate::render::files::Ownership;
use crate::render::{RenderedFile, Tree};

/// What happens to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is new.
    Create,
    /// It was as we left it, and gets our new text.
    Update,
    /// It has the user's edits and gets ours beside them.
    Merge,
    /// It was as we left it, and goes.
    Delete,
    /// The user's version is replaced, as `--force` asked for.
    Overwrite,
    /// It stays as it is, for the reason given.
    Keep(&'static str),
    /// It is what it should be.
    Identical,
    /// It cannot get our text, for the reason given, without the loss of the user's.
    Conflict(Reason),
    /// Like [`Reason::Overlap`], but written with markers for the user to resolve.
    Mark,
}

/// Why there is a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There is a file where we have not written one.
    Exists,
    /// Our change and the user's edits touch the same lines.
    Overlap,
    /// The user's file cannot be merged line by line.
    NoText,
}

impl Action {
    /// The word for it.
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

    /// Why, where the verb does not say it.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Self::Keep(why) => Some(why),
            Self::Conflict(Reason::Exists) => Some("it exists"),
            Self::Conflict(Reason::Overlap) => Some("your edits and the change meet"),
            Self::Conflict(Reason::NoText) => Some("it is no text"),
            Self::Mark => Some("to be resolved between the markers"),
            _ => None,
        }
    }

    /// Whether markers could be written for it.
    pub fn can_be_marked(self) -> bool {
        self == Self::Conflict(Reason::Overlap)
    }
}

/// One file of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its path in the project.
    pub path: String,
    /// What happens to it.
    pub action: Action,
    /// Where it is, after symbolic links.
    pub(super) place: PathBuf,
    /// What it will hold, if that changes.
    pub(super) contents: Option<Vec<u8>>,
    /// What tells that this very merge was done, where it cannot be done twice.
    pub(super) receipt: Option<PathBuf>,
    pub(super) executable: bool,
}

/// What is done about conflicts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Conflicts {
    /// Stop before anything is written
    #[default]
    Stop,
    /// Write both versions between conflict markers
    Inline,
}

/// How a plan is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlanOptions {
    /// Take our version where there is a conflict.
    pub force: bool,
    /// What is done about conflicts otherwise.
    pub conflicts: Conflicts,
}

/// All steps of a command, by path; the last one is `PROJECT`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps. Files that the command has nothing to do with are no steps.
    pub steps: Vec<Step>,
}

impl Plan {
    /// Merges the trees of the old and of the new model with the disk.
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
        let (mut action, mut contents) = decide(base, ours.contents.as_deref(), theirs, options);
        let mut receipt = None;
        if let (Some(base), Some(theirs), Some(ours)) = (base, theirs, &ours.contents) {
            let name = temporary::receipt_name(path, &base.text, &theirs.text);
            // A command that was killed before it came to PROJECT has done this merge already.
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

/// The table of the three-way merge. The contents are what is to be written.
fn decide(
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
        (Some(_), None, Some(_)) => (Action::Keep("you deleted it"), None),
        (_, Some(ours), Some(theirs)) if merge::same(ours, &theirs.text) => {
            (Action::Identical, None)
        }
        (_, Some(ours), None) if is_base(ours) => (Action::Delete, None),
        (_, Some(_), None) => (Action::Keep("you changed it, and opctl would delete it"), None),
        (_, Some(ours), Some(theirs)) if is_base(ours) => {
            (Action::Update, Some(merge::in_style_of(ours, &theirs.text)))
        }
        (None, Some(_), Some(theirs)) => conflict(Reason::Exists, theirs, None, options),
        (Some(base), Some(ours), Some(theirs)) => {
            match merge::merge(&base.text, ours, &theirs.text) {
                Merged::Clean(merged) if merged == ours => (Action::Identical, None),
                Merged::Clean(merged) => (Action::Merge, Some(merged)),
                Merged::Conflict(marked) => {
                    conflict(Reason::Overlap, theirs, Some(marked), options)
                }
                Merged::Binary => conflict(Reason::NoText, theirs, None, options),
            }
        }
    }
}

fn conflict(
    why: Reason,
    theirs: &RenderedFile,
    marked: Option<Vec<u8>>,
    options: PlanOptions,
) -> (Action, Option<Vec<u8>>) {
    match (theirs.ownership, marked) {
        _ if options.force => (Action::Overwrite, Some(theirs.text.clone().into_bytes())),
        (Ownership::Derived, _) => (Action::Keep("yours; it is written anew from the code"), None),
        (_, Some(marked)) if options.conflicts == Conflicts::Inline => (Action::Mark, Some(marked)),
        _ => (Action::Conflict(why), None),
    }
}
