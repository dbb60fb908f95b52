//! The directory of a project: opens it, plans a change of its model, and applies the plan.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::commit::{self, FileSystem};
use super::disk::Disk;
use super::merge::{self, Merged};
use super::plan::{Action, Plan, PlanOptions, Step};
use crate::error::UserError;
use crate::project::{self, Project, invalid_project};
use crate::render::{Renderer, TemplateSet, Tree};

/// How long a command waits for another one in the same project. Commands take milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The directory of a project, or of one that is to be created.
pub struct Workspace {
    disk: Disk,
    /// The contents of `PROJECT`, if it exists.
    current: Option<Current>,
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
        let workspace = Self::at(directory)?;
        if workspace.current.is_none() {
            return Err(no_project(workspace.disk.root()).into());
        }
        Ok(workspace)
    }

    /// Opens a directory that may contain a project.
    ///
    /// # Errors
    /// A [`UserError`] if `PROJECT` is invalid, or if another opctl command is running.
    pub fn at(directory: &Path) -> Result<Self> {
        let disk = Disk::new(directory)?;
        let lock = lock(disk.root())?;
        commit::clean_up(&disk, &mut FileSystem)?;
        let current = match disk.read(project::FILE)?.contents {
            Some(bytes) => {
                let text =
                    String::from_utf8(bytes).map_err(|_| invalid_project("not a text file"))?;
                let project = Project::parse(&text)?;
                Some(Current { text, project })
            }
            None => None,
        };
        Ok(Self { disk, current, _lock: lock })
    }

    /// The model of the project, if it exists.
    pub fn project(&self) -> Option<&Project> {
        self.current.as_ref().map(|current| &current.project)
    }

    /// Plans the change from `base`, the model that the files were rendered from, to `new`.
    ///
    /// # Errors
    /// If a model cannot be rendered, or if a file cannot be read.
    pub fn plan(
        &self,
        base: Option<&Project>,
        new: &Project,
        options: PlanOptions,
    ) -> Result<Plan> {
        self.plan_with(base, new, Tree::new(), options)
    }

    /// Like [`Workspace::plan`], with additional files that no model renders.
    ///
    /// # Errors
    /// If a model cannot be rendered, or if a file cannot be read.
    pub fn plan_with(
        &self,
        base: Option<&Project>,
        new: &Project,
        extra_files: Tree,
        options: PlanOptions,
    ) -> Result<Plan> {
        let set = TemplateSet::for_version(&new.cli_version);
        let mut renderer = Renderer::new(set)?;
        let base = match base {
            Some(project) => renderer.render(project)?,
            None => Tree::new(),
        };
        let mut theirs = renderer.render(new)?;
        theirs.extend(extra_files);
        let mut plan = Plan::new(&base, &theirs, &self.disk, options)?;
        let mut project = self.project_step(new)?;
        if project.contents.is_none()
            && let Some(current) = self.current.as_ref().filter(|_| !plan.is_empty())
        {
            // A commit begins and ends with PROJECT, so it is written even if it does not change.
            project.contents = Some(current.text.clone().into_bytes());
        }
        plan.steps.push(project);
        Ok(plan)
    }

    /// The step that writes `PROJECT`. The text depends on the model alone, except for the user's comments,
    /// which stay if they can be merged.
    fn project_step(&self, new: &Project) -> Result<Step> {
        let text = new.to_text()?;
        let (action, contents) = match &self.current {
            None => (Action::Create, Some(text)),
            Some(current) if current.project == *new => (Action::Identical, None),
            Some(current) => {
                let merged =
                    merge::merge(&current.project.to_text()?, current.text.as_bytes(), &text);
                let merged = match merged {
                    Merged::Clean(merged) => String::from_utf8(merged).ok(),
                    Merged::Conflict(_) | Merged::Binary => None,
                };
                let has_same_model =
                    |text: &String| Project::parse(text).is_ok_and(|project| project == *new);
                (Action::Update, Some(merged.filter(has_same_model).unwrap_or(text)))
            }
        };
        let place = self.disk.read(project::FILE)?.place;
        let contents = contents.map(String::into_bytes);
        Ok(Step {
            path: project::FILE.to_owned(),
            action,
            place,
            contents,
            receipt: None,
            executable: false,
        })
    }

    /// Applies a plan.
    ///
    /// # Errors
    /// If a file cannot be written. `PROJECT` is written last: until then, running the command again
    /// completes the plan.
    pub fn apply(&self, plan: &Plan) -> Result<()> {
        commit::commit(plan, &mut FileSystem)
    }
}

fn no_project(directory: &Path) -> UserError {
    let error = UserError::failure(format!("no PROJECT file in {}", directory.display()));
    match directory.ancestors().skip(1).find(|parent| parent.join(project::FILE).is_file()) {
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
