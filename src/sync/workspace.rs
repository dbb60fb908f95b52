//! The directory of a project: opens it, plans a change of its model, and applies the plan.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::action::Action;
use super::adopt::{self, Adopted};
use super::choice;
use super::comments;
use super::commit::{self, FileSystem};
use super::diff::{self, DiffOptions, FileDiff};
use super::disk::Disk;
use super::lockfile::{self, Lockfile};
use super::merge::{self, Merged};
use super::modules;
use super::output::Output;
use super::plan::{Plan, PlanOptions, Step};
use super::references::{self, Reference};
use super::status::{self, FileStatus};
use super::trial::{self, Trial};
use crate::error::UserError;
use crate::project::{self, Feature, Project, Settings, VERSION, invalid_project};
use crate::render::{self, RenderedFile, Renderer, TemplateSet, Tree};

/// How long a command waits for another one in the same project. Commands take milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The directory of a project, or of one that is to be created.
pub struct Workspace {
    disk: Disk,
    /// The contents of `PROJECT`, if it exists.
    current: Option<Current>,
    lock: Lockfile,
    /// What opctl wrote, if `PROJECT` was lost.
    lost: Lockfile,
    /// Whether a command was undone that was interrupted.
    was_restored: bool,
    /// Held until the command ends.
    _lock: Option<File>,
}

struct Current {
    text: String,
    project: Project,
}

impl Workspace {
    /// Opens the directory of a project.
    ///
    /// # Errors
    /// A [`UserError`] if there is no valid `PROJECT`, or if another opctl command is running.
    pub fn open(directory: &Path) -> Result<Self> {
        let workspace = Self::open_any_version(directory)?;
        workspace.project().map_or(Ok(()), check_version)?;
        Ok(workspace)
    }

    /// Opens the directory of a project to inspect it, whatever version of opctl wrote it.
    ///
    /// # Errors
    /// A [`UserError`] if there is no valid `PROJECT`, or if another opctl command is running.
    pub fn open_any_version(directory: &Path) -> Result<Self> {
        let workspace = Self::at_any_version(directory)?;
        if workspace.current.is_none() {
            return Err(no_project(workspace.disk.root()).into());
        }
        Ok(workspace)
    }

    /// Opens a directory that may contain a project.
    ///
    /// # Errors
    /// A [`UserError`] if `PROJECT` is invalid or was written by another version of opctl, or if another
    /// opctl command is running.
    pub fn at(directory: &Path) -> Result<Self> {
        let workspace = Self::at_any_version(directory)?;
        workspace.project().map_or(Ok(()), check_version)?;
        Ok(workspace)
    }

    /// Opens a directory that may contain a project, whatever version of opctl wrote it.
    ///
    /// # Errors
    /// A [`UserError`] if `PROJECT` is invalid, or if another opctl command is running.
    pub fn at_any_version(directory: &Path) -> Result<Self> {
        let disk = Disk::new(directory)?;
        let lock = lock(disk.root())?;
        let was_restored = commit::undo(disk.root(), &mut FileSystem)?;
        let current = match disk.read(project::FILE)?.contents {
            Some(bytes) => {
                let text =
                    String::from_utf8(bytes).map_err(|_| invalid_project("not a text file"))?;
                let project = Project::parse(&text)?;
                Some(Current { text, project })
            }
            None => None,
        };
        let written = match disk.read(lockfile::FILE)?.contents {
            Some(bytes) => Lockfile::parse(&String::from_utf8_lossy(&bytes))?,
            None => Lockfile::default(),
        };
        let (written, lost) = match current {
            Some(_) => (written, Lockfile::default()),
            None => (Lockfile::default(), written),
        };
        Ok(Self { disk, current, lock: written, lost, was_restored, _lock: lock })
    }

    /// Whether an earlier command was undone, because it was interrupted.
    pub fn was_restored(&self) -> bool {
        self.was_restored
    }

    /// Whether opctl wrote the files of the directory, and `PROJECT` is gone.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn has_lost_project(&self) -> Result<bool> {
        Ok(self.current.is_none() && adopt::is_project(&self.disk, &self.lost)?)
    }

    /// What the files of a project say of the `PROJECT` that was lost. `settings` are what the user says.
    ///
    /// # Errors
    /// If the model cannot be recognized, or if a file cannot be read.
    pub fn adopt(&self, settings: &Settings, default_name: &str) -> Result<Adopted> {
        adopt::adopt(&self.disk, &self.lost, settings, default_name)
    }

    /// Plans to write the `PROJECT` that was lost. A `PROJECT.lock` that was lost, too, has the files that are as
    /// opctl would write them: of others nobody knows what it wrote.
    ///
    /// # Errors
    /// If the model cannot be rendered, or if a file cannot be read.
    pub fn plan_adoption(&self, project: &Project) -> Result<Plan> {
        let lock = if self.lost == Lockfile::default() {
            let mut pristine = Tree::new();
            for (path, file) in render(project)? {
                let ours = self.disk.read(&path)?.contents;
                if ours.is_some_and(|ours| merge::same(&ours, &file.text)) {
                    pristine.insert(path, file);
                }
            }
            Lockfile::default().after(&Tree::new(), &pristine)
        } else {
            self.lost.clone()
        };
        Ok(Plan { steps: vec![self.lock_step(&lock)?, self.project_step(project)?] })
    }

    /// The project that the directory is in, without being its root.
    pub fn parent_project(&self) -> Option<&Path> {
        parent_project(self.disk.root())
    }

    /// The model of the project, if it exists.
    pub fn project(&self) -> Option<&Project> {
        self.current.as_ref().map(|current| &current.project)
    }

    /// The features that the project has: those of the model, except that the user's file says which
    /// components there are, if it can be read.
    ///
    /// # Errors
    /// If there is something else than a file.
    pub fn features(&self, project: &Project) -> Result<BTreeSet<Feature>> {
        let contents = self.disk.read(project::FEATURES_FILE)?.contents;
        let text = contents.and_then(|bytes| String::from_utf8(bytes).ok());
        let mut features = project.features().clone();
        if let Some(listed) = text.and_then(|text| project::listed(&text)) {
            features.retain(|feature| !feature.is_component());
            features.extend(listed);
        }
        Ok(features)
    }

    /// The files of the project, compared with what opctl wrote and with what `project` renders.
    ///
    /// # Errors
    /// If the model cannot be rendered, or if a file cannot be read.
    pub fn status(&self, project: &Project) -> Result<Vec<FileStatus>> {
        status::files(&render(project)?, &self.lock, &self.disk)
    }

    /// The differences between what `project` renders and the files on the disk, sorted by path.
    ///
    /// # Errors
    /// If the model cannot be rendered, or if a file cannot be read.
    pub fn diff(&self, project: &Project, options: &DiffOptions) -> Result<Vec<FileDiff>> {
        diff::files(&render(project)?, &self.lock, &self.disk, options)
    }

    /// Plans the change from `base`, the model that the files were rendered from, to `new`.
    ///
    /// # Errors
    /// If a model cannot be rendered, or if a file cannot be read.
    pub fn plan(
        &self,
        base: Option<&Project>,
        new: &Project,
        options: &PlanOptions,
    ) -> Result<Plan> {
        self.plan_with(base, new, Tree::new(), options)
    }

    /// Like [`Workspace::plan`], with additional files. Those at the paths of rendered files replace them, as if
    /// the user had edited them at once: later commands merge with the rendered ones.
    ///
    /// # Errors
    /// If a model cannot be rendered, or if a file cannot be read.
    pub fn plan_with(
        &self,
        old: Option<&Project>,
        new: &Project,
        extra_files: Tree,
        options: &PlanOptions,
    ) -> Result<Plan> {
        let mut renderer = Renderer::new(TemplateSet::current())?;
        let (mut base, mut lock) = (Tree::new(), self.lock.clone());
        if let Some(project) = old {
            base = renderer.render(project)?;
            if new.features() != project.features() {
                choice::begin_with(&self.features(project)?, &mut base, &mut lock);
            }
        }
        let rendered = renderer.render(new)?;
        let mut theirs = Cow::Borrowed(&rendered);
        let mut written = Cow::Borrowed(&rendered);
        for (path, extra) in extra_files {
            let file = match rendered.get(&path) {
                Some(file) => RenderedFile { text: extra.text, ..file.clone() },
                None => {
                    written.to_mut().insert(path.clone(), extra.clone());
                    extra
                }
            };
            theirs.to_mut().insert(path, file);
        }
        let kept = render::extra_paths(new);
        let mut gone = old.map(render::extra_paths).unwrap_or_default();
        gone.retain(|path| {
            !kept.contains(path) && !theirs.contains_key(path) && lock.contains(path)
        });
        self.finish(new, &base, (&theirs, &written), &gone, &lock, options)
    }

    /// Plans the update of the project to `new`, the same model with the templates `target`, and with the features
    /// that were chosen by hand. What opctl once wrote is the base of a file only if `old` is still rendered to it by
    /// `set`.
    ///
    /// # Errors
    /// If a model cannot be rendered, or if a file cannot be read.
    pub fn plan_update(
        &self,
        old: &Project,
        set: &'static TemplateSet,
        new: &Project,
        target: &'static TemplateSet,
        options: &PlanOptions,
    ) -> Result<Plan> {
        let mut base = Renderer::new(set)?.render(old)?;
        base.retain(|path, file| self.lock.is_base(path, &file.text));
        let mut lock = self.lock.clone();
        choice::begin_with(new.features(), &mut base, &mut lock);
        let theirs = Renderer::new(target)?.render(new)?;
        for (path, file) in &theirs {
            // Without its base it would come back.
            let is_unknown = self.lock.contains(path) && !base.contains_key(path);
            if is_unknown && self.disk.read(path)?.contents.is_none() {
                base.insert(path.clone(), RenderedFile { text: "".into(), ..file.clone() });
            }
        }
        let kept = render::extra_paths(new);
        let gone = self.lock.paths().filter(|path| {
            !kept.contains(*path) && !theirs.contains_key(*path) && !base.contains_key(*path)
        });
        let gone = gone.map(str::to_owned).collect();
        self.finish(new, &base, (&theirs, &theirs), &gone, &lock, options)
    }

    /// Plans the files that a command generates from others, which are not part of the model.
    ///
    /// # Errors
    /// If a path leaves the project, or if a file cannot be read.
    pub fn plan_output(&self, output: &Output) -> Result<Plan> {
        output.plan(&self.disk)
    }

    /// The text of a file in the project, if it exists.
    ///
    /// # Errors
    /// If the path leaves the project, or if the file cannot be read.
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let contents = self.disk.read(path)?.contents;
        Ok(contents.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Merges the trees of a change, and writes down what was `written`, which can be the base of a merge.
    fn finish(
        &self,
        new: &Project,
        base: &Tree,
        (theirs, written): (&Tree, &Tree),
        gone: &BTreeSet<String>,
        lock: &Lockfile,
        options: &PlanOptions,
    ) -> Result<Plan> {
        let mut plan = Plan::new(base, theirs, gone, lock, &self.disk, options)?;
        let project = self.project_step(new)?;
        let mut lock = self.lock.without(gone).after(base, written);
        self.record_substitutes(&mut lock, &plan, theirs, written)?;
        plan.steps.extend([self.lock_step(&lock)?, project]);
        Ok(plan)
    }

    /// Records what is written in place of what is rendered, and what the plan makes of what was so before.
    fn record_substitutes(
        &self,
        lock: &mut Lockfile,
        plan: &Plan,
        theirs: &Tree,
        written: &Tree,
    ) -> Result<()> {
        for (path, file) in theirs {
            if written.get(path).is_some_and(|rendered| rendered.text != file.text) {
                lock.substitute(path, &file.text);
            }
        }
        for step in &plan.steps {
            let old = step.from.as_deref().unwrap_or(&step.path);
            if self.lock.has_substitute(old)
                && let Some(ours) = self.disk.read(old)?.contents
                && self.lock.is_substitute(old, &ours)
            {
                let text = step.contents.as_deref().unwrap_or(&ours);
                lock.substitute(&step.path, &String::from_utf8_lossy(text));
            }
        }
        Ok(())
    }

    /// The step that writes `PROJECT.lock`, which users do not edit.
    fn lock_step(&self, lock: &Lockfile) -> Result<Step> {
        let text = lock.to_text().into_bytes();
        let found = self.disk.read(lockfile::FILE)?;
        let (action, contents) = match &found.contents {
            None => (Action::Create, Some(text.into())),
            Some(old) if *old == text => (Action::Identical, None),
            Some(_) => (Action::Update, Some(text.into())),
        };
        Ok(Step::of(lockfile::FILE, action, found.place, contents))
    }

    /// The step that writes `PROJECT`. The text depends on the model alone, except for the user's comments
    /// and style.
    fn project_step(&self, new: &Project) -> Result<Step> {
        let text = new.to_text()?;
        let (action, contents) = match &self.current {
            None => (Action::Create, Some(text)),
            Some(current) if current.project == *new => (Action::Identical, None),
            Some(current) => (Action::Update, Some(current.edited(new, text)?)),
        };
        let place = self.disk.read(project::FILE)?.place;
        Ok(Step::of(project::FILE, action, place, contents.map(|text| text.into_bytes().into())))
    }

    /// The lines of the user's code that mention one of these words after a plan.
    ///
    /// # Errors
    /// If the model cannot be rendered, or if a file cannot be read.
    pub fn references(
        &self,
        new: &Project,
        plan: &Plan,
        words: &[String],
    ) -> Result<Vec<Reference>> {
        references::find(words, &render(new)?, plan, &self.disk)
    }

    /// Those of the Rust files that are asked for that nobody compiles, because no `mod` leads to them.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn uncompiled(&self, is_asked_for: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        // The directories may be new.
        modules::uncompiled(&Disk::new(self.disk.root())?, is_asked_for)
    }

    /// Tries a plan in a copy of the project. cargo prints its progress, and why something fails.
    ///
    /// # Errors
    /// If the copy cannot be made or changed.
    pub fn try_plan(&self, plan: &Plan) -> Result<Trial> {
        trial::try_plan(plan, self.disk.root())
    }

    /// Applies a plan.
    ///
    /// # Errors
    /// If a file cannot be written; then nothing is changed.
    pub fn apply(&self, plan: &Plan) -> Result<()> {
        commit::commit(plan, self.disk.root(), &mut FileSystem)
    }
}

impl Current {
    /// The text of a changed model, with what the user has added to the text of this one. A merge keeps
    /// comments and style. Where it has conflicts, comments are kept.
    fn edited(&self, new: &Project, text: String) -> Result<String> {
        let base = self.project.to_text()?;
        let merged = match merge::merge(&base, self.text.as_bytes(), &text, false) {
            Merged::Clean(merged) => String::from_utf8(merged).ok(),
            _ => None,
        };
        let commented = comments::keep(&self.text, &text);
        let has_same_model =
            |text: &String| Project::parse(text).is_ok_and(|project| project == *new);
        Ok(merged.into_iter().chain([commented]).find(has_same_model).unwrap_or(text))
    }
}

/// What the templates of this opctl make of a model.
fn render(project: &Project) -> Result<Tree> {
    Renderer::new(TemplateSet::current())?.render(project)
}

/// Refuses the projects of other versions of opctl. Their files were rendered from other templates, so that
/// what changes in the model cannot be told from what has changed in the templates.
fn check_version(project: &Project) -> Result<(), UserError> {
    let version = &project.cli_version;
    if version == VERSION {
        return Ok(());
    }
    Err(UserError::failure(format!(
        "opctl {version} wrote the files of this project, and this is opctl {VERSION}"
    ))
    .with_hint(format!("run `opctl update`, or install opctl {version}")))
}

fn parent_project(directory: &Path) -> Option<&Path> {
    directory.ancestors().skip(1).find(|parent| parent.join(project::FILE).is_file())
}

/// Whether opctl wrote the files of a directory, and `PROJECT` is gone.
fn is_lost(directory: &Path) -> bool {
    directory.join(lockfile::FILE).is_file()
}

fn no_project(directory: &Path) -> UserError {
    let error = UserError::failure(format!("no PROJECT file in {}", directory.display()));
    if is_lost(directory) {
        return error.with_hint(
            "restore it, for example with `git checkout PROJECT`, or make it again from the other files with `opctl init`",
        );
    }
    match parent_project(directory) {
        Some(parent) => error.with_hint(format!(
            "run the command in the root directory of the project: `cd {}`",
            parent.display()
        )),
        None => error.with_hint("create a project with `opctl init`"),
    }
}

/// Locks the directory against other commands, after waiting for one that is about to finish. On file
/// systems without locks, commands run unlocked.
fn lock(directory: &Path) -> Result<Option<File>> {
    let file =
        File::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                thread::sleep(LOCK_TIMEOUT / 100);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(UserError::failure("another opctl command is running in this project")
                    .with_hint("run the command again when the other one has finished")
                    .into());
            }
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}
