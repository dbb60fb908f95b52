//! What a plan does with one file.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::action::{Action, Reason};
use super::codemods::Codemod;
use super::commit;
use super::disk::{Disk, Found};
use super::lockfile::Lockfile;
use super::merge::{self, Merged};
use super::plan::{Conflicts, Contents, PlanOptions, Step};
use super::rewrite::Rewrite;
use super::style;
use crate::render::files::Ownership;
use crate::render::{LOCK, RenderedFile};

/// The steps of a file of the user that is rewritten, or whose directory moves.
pub fn rewritten_steps(
    old: &str,
    new: &str,
    rewrite: &Rewrite,
    options: &PlanOptions,
    disk: &Disk,
) -> Result<Vec<Step>> {
    let (ours, target) = (disk.read(old)?, disk.read(new)?);
    let Some(contents) = ours.contents else { return Ok(Vec::new()) };
    let rewritten = rewrite.rewrite_bytes(old, &contents);
    if rewritten != contents && ours.read_only {
        return Ok(vec![Step::of(old, Action::Conflict(Reason::ReadOnly), ours.place, None)]);
    }
    if new == old {
        if rewritten == contents {
            return Ok(Vec::new());
        }
        let codemods = rewrite.applied(old, "", &contents);
        let step = Step::of(old, Action::Merge, ours.place, Some(rewritten.into()));
        return Ok(vec![Step { codemods, ..step }]);
    }
    if is_occupied(new, &target, options) {
        return Ok(vec![Step::of(new, Action::Conflict(Reason::Exists), target.place, None)]);
    }
    let mut steps: Vec<_> = copy(new, &target).into_iter().collect();
    let step = Step::of(new, Action::Move, target.place, Some(rewritten.into()));
    steps.extend(moving(step, old, ours.place));
    Ok(steps)
}

/// Whether a file cannot move to a path because of what is there.
fn is_occupied(path: &str, target: &Found, options: &PlanOptions) -> bool {
    target.contents.is_some() && !options.overwrite.contains(path)
}

/// The step that writes a file at its new path, and the one that deletes it at the old one.
fn moving(step: Step, old: &str, place: PathBuf) -> [Step; 2] {
    let (from, like) = (Some(old.to_owned()), Some(place.clone()));
    [Step { from, like, ..step }, Step::of(old, Action::Delete, place, None)]
}

/// Keeps the user's version of a file that is replaced.
fn copy(path: &str, ours: &Found) -> Option<Step> {
    let place = commit::unused_name(&ours.place);
    let path = Path::new(path).parent()?.join(place.file_name()?).to_str()?.to_owned();
    let step = Step::of(&path, Action::Copy, place, Some(ours.contents.clone()?.into()));
    Some(Step { like: Some(ours.place.clone()), ..step })
}

/// A file that a command may change.
pub struct File<'a> {
    pub path: &'a str,
    pub base: Option<&'a RenderedFile>,
    pub theirs: Option<&'a RenderedFile>,
    pub ours: Found,
    pub lock: &'a Lockfile,
    pub rewrite: Option<&'a Rewrite>,
}

impl File<'_> {
    /// The step of the file, and before it the copy of a version that is lost otherwise.
    pub fn steps(self, options: &PlanOptions) -> Vec<Step> {
        let (action, contents) = self.decide(options);
        let mut steps = Vec::new();
        if action == Action::Overwrite {
            steps.extend(copy(self.path, &self.ours));
        }
        let executable = self.theirs.is_some_and(RenderedFile::is_executable);
        let codemods = self.codemods(action);
        let step = Step::of(self.path, action, self.ours.place, None).with(contents);
        steps.push(Step { executable, codemods, ..step });
        steps
    }

    /// The steps of a file that moves to another path. What is on the disk moves along.
    pub fn moved_steps(self, path: &str, target: Found, options: &PlanOptions) -> Vec<Step> {
        let Some(ours) = self.ours.contents.clone() else {
            return vec![Step::of(path, Action::Keep("deleted by you"), target.place, None)];
        };
        if is_occupied(path, &target, options) {
            return vec![Step::of(path, Action::Conflict(Reason::Exists), target.place, None)];
        }
        let mut steps: Vec<_> = copy(path, &target).into_iter().collect();
        let (action, contents) = self.decide(options);
        let action = match action {
            Action::Conflict(_) => {
                return vec![Step::of(self.path, action, self.ours.place, None).with(contents)];
            }
            Action::Overwrite => {
                steps.extend(copy(self.path, &self.ours));
                action
            }
            Action::Update | Action::Identical | Action::Keep(_) => Action::Move,
            action => action,
        };
        let step = Step::of(path, action, target.place, contents.or(Some(ours.into())));
        steps.extend(moving(step, self.path, self.ours.place));
        steps
    }

    /// The codemods that the merge applies to the user's edits.
    fn codemods(&self, action: Action) -> Vec<Codemod> {
        match (self.rewrite, self.base, &self.ours.contents) {
            (Some(rewrite), Some(base), Some(ours))
                if matches!(action, Action::Merge | Action::Mark) =>
            {
                rewrite.applied(self.path, &base.text, ours)
            }
            _ => Vec::new(),
        }
    }

    /// The table of the three-way merge: the action, and the contents to write.
    fn decide(&self, options: &PlanOptions) -> (Action, Option<Contents>) {
        let bytes = |file: &RenderedFile| {
            Some(match &file.text {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.clone().into_bytes()),
            })
        };
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
                if !self.ours.read_only
                    && (self.is_pristine(ours)
                        || self.lock.is_substitute(self.path, ours)
                        || self.is_derived()
                        || self.is_formatted(ours)) =>
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
    ) -> (Action, Option<Contents>) {
        let conflict = |reason, marked| self.conflict(reason, theirs, marked, options);
        if self.ours.read_only {
            return conflict(Reason::ReadOnly, None);
        }
        if self.is_pristine(ours) {
            return (Action::Update, Some(merge::in_style_of(ours, &theirs.text).into()));
        }
        let Some(base) = base else {
            return match self.lock.contains(self.path) {
                true if merge::has_markers(ours) => conflict(Reason::Markers, None),
                true => conflict(Reason::Edited, merge::both(ours, &theirs.text).map(Cow::Owned)),
                false => conflict(Reason::Exists, None),
            };
        };
        if self.rewrite.is_none() && self.lock.wrote(self.path, &theirs.text) {
            return (Action::Identical, None); // opctl has nothing new, and the edits stay
        }
        if merge::has_markers(ours) {
            return conflict(Reason::Markers, None);
        }
        if !self.lock.is_base(self.path, &base.text) {
            return conflict(Reason::UnknownBase, None);
        }
        let is_list = theirs.ownership == Ownership::Generated;
        let rewritten = self.rewrite.map(|rewrite| {
            (rewrite.rewrite(self.path, &base.text), rewrite.rewrite_bytes(self.path, ours))
        });
        let base = &*base.text;
        let (new_base, edited) = match &rewritten {
            Some((base, ours)) => (base.as_str(), ours.as_slice()),
            None => (base, ours),
        };
        let mut merged = merge::merge(new_base, edited, &theirs.text, is_list);
        if matches!(merged, Merged::Conflict(_)) {
            if !is_list && merge::is_rewritten(new_base, edited) {
                return (Action::Keep("rewritten by you"), None);
            }
            let styled = self.rust_directory().and_then(|directory| {
                style::merge(directory, (base, new_base), (ours, edited), &theirs.text)
            });
            merged = styled.unwrap_or(merged);
        }
        match merged {
            Merged::Clean(merged) if merged == ours => (Action::Identical, None),
            Merged::Clean(merged) => (Action::Merge, Some(merged.into())),
            Merged::Conflict(marked) => conflict(Reason::Overlap, Some(marked.into())),
            Merged::Duplicate(marked) => conflict(Reason::Duplicate, Some(marked.into())),
            Merged::Binary => conflict(Reason::Binary, None),
        }
    }

    /// Whether the user has not edited the file.
    fn is_pristine(&self, ours: &[u8]) -> bool {
        let is_base = |base: &RenderedFile| merge::same(ours, &base.text);
        self.base.is_some_and(is_base) || self.lock.wrote_file(self.path, ours)
    }

    /// Whether the user has only formatted the file, which is one of Rust.
    fn is_formatted(&self, ours: &[u8]) -> bool {
        let (Some(base), Some(directory)) = (self.base, self.rust_directory()) else {
            return false;
        };
        self.lock.is_base(self.path, &base.text) && style::is_formatted(directory, &base.text, ours)
    }

    /// The directory of a file of Rust.
    fn rust_directory(&self) -> Option<&Path> {
        self.ours.place.parent().filter(|_| self.path.ends_with(".rs"))
    }

    /// Whether the file is made from the user's code, and has no edits of its own.
    fn is_derived(&self) -> bool {
        self.base.is_some_and(|file| file.ownership == Ownership::Derived)
    }

    fn conflict(
        &self,
        reason: Reason,
        theirs: &RenderedFile,
        marked: Option<Contents>,
        options: &PlanOptions,
    ) -> (Action, Option<Contents>) {
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
            (_, marked) => (Action::Conflict(reason), marked),
        }
    }
}
