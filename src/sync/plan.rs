//! What a command will do to the files of a project: the merge of base, ours and theirs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;

use super::disk::{Disk, Found};
use super::merge::{self, Merged};
use crate::render::files::Class;
use crate::render::{Rendered, Tree};

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
    /// Our change and the user's edits touch the same lines.
    Conflict(&'static str),
    /// Like [`Action::Conflict`], but written with markers for the user to resolve.
    Mark,
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
            Self::Keep(why) | Self::Conflict(why) => Some(why),
            Self::Mark => Some("written with markers"),
            _ => None,
        }
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
pub struct Options {
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
    pub(super) fn new(base: &Tree, theirs: &Tree, disk: &Disk, options: Options) -> Result<Self> {
        let mut steps = Vec::new();
        let paths: BTreeSet<&String> = base.keys().chain(theirs.keys()).collect();
        for path in paths {
            let (base, theirs) = (base.get(path), theirs.get(path));
            if base.map(|file| &file.text) != theirs.map(|file| &file.text) {
                steps.push(Self::step(path, base, theirs, disk.read(path)?, options));
            }
        }
        Ok(Self { steps })
    }

    fn step(
        path: &str,
        base: Option<&Rendered>,
        theirs: Option<&Rendered>,
        ours: Found,
        options: Options,
    ) -> Step {
        let (action, contents) = decide(base, ours.contents.as_deref(), theirs, options);
        let executable = theirs.is_some_and(Rendered::is_executable);
        Step { path: path.to_owned(), action, place: ours.place, contents, executable }
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
    base: Option<&Rendered>,
    ours: Option<&[u8]>,
    theirs: Option<&Rendered>,
    options: Options,
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
            (Action::Update, Some(with_line_ends_of(ours, &theirs.text)))
        }
        (None, Some(_), Some(theirs)) => conflict("it exists", theirs, None, options),
        (Some(base), Some(ours), Some(theirs)) => {
            match merge::merge(&base.text, ours, &theirs.text) {
                Merged::Clean(merged) if merged == ours => (Action::Identical, None),
                Merged::Clean(merged) => (Action::Merge, Some(merged)),
                Merged::Conflict(marked) => {
                    conflict("your edits and opctl's change meet", theirs, Some(marked), options)
                }
                Merged::Binary => conflict("it is no text", theirs, None, options),
            }
        }
    }
}

fn conflict(
    why: &'static str,
    theirs: &Rendered,
    marked: Option<Vec<u8>>,
    options: Options,
) -> (Action, Option<Vec<u8>>) {
    match (theirs.class, marked) {
        (Class::Derived, _) => (Action::Keep("`make manifests` writes it"), None),
        _ if options.force => (Action::Overwrite, Some(theirs.text.clone().into_bytes())),
        (_, Some(marked)) if options.conflicts == Conflicts::Inline => (Action::Mark, Some(marked)),
        _ => (Action::Conflict(why), None),
    }
}

fn with_line_ends_of(ours: &[u8], text: &str) -> Vec<u8> {
    if ours.windows(2).any(|pair| pair == b"\r\n") {
        text.replace('\n', "\r\n")
    } else {
        text.to_owned()
    }
    .into_bytes()
}
