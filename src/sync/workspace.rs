//! A project's folder: open it, plan a change of its model, carry the plan out.

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
use crate::project::{self, Project};
use crate::render::{Renderer, TemplateSet, Tree};

/// How long a command waits for another one in the same project: a command takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// A folder that holds a project or will.
pub struct Workspace {
    disk: Disk,
    /// What `PROJECT` says, if it is there.
    current: Option<Current>,
    /// Held until the command ends.
    _lock: Option<File>,
}

struct Current {
    text: String,
    project: Project,
}

impl Workspace {
    /// The folder of a project.
    ///
    /// # Errors
    /// A [`UserError`] if there is no `PROJECT`, if it is not ours to work on, or if another opctl is at work.
    pub fn open(directory: &Path) -> Result<Self> {
        let workspace = Self::at(directory)?;
        if workspace.current.is_none() {
            return Err(no_project(workspace.disk.root()).into());
        }
        Ok(workspace)
    }

    /// A folder that may hold a project or not.
    pub fn at(directory: &Path) -> Result<Self> {
        let disk = Disk::new(directory)?;
        let lock = lock(disk.root())?;
        commit::clean_up(&disk, &mut FileSystem)?;
        let current = match disk.read(project::FILE)?.contents {
            Some(bytes) => {
                let text = String::from_utf8(bytes)
                    .map_err(|_| UserError::failure("PROJECT is damaged: it is no text"))?;
                let project = Project::parse(&text)?;
                Some(Current { text, project })
            }
            None => None,
        };
        Ok(Self { disk, current, _lock: lock })
    }

    /// The model, if there is one.
    pub fn project(&self) -> Option<&Project> {
        self.current.as_ref().map(|current| &current.project)
    }

    /// What it takes to make `base` into `new`, where `base` is the model that the files were made from.
    pub fn plan(
        &self,
        base: Option<&Project>,
        new: &Project,
        options: PlanOptions,
    ) -> Result<Plan> {
        self.plan_with(base, new, Tree::new(), options)
    }

    /// Like [`Workspace::plan`], with files that neither of the models stands for.
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
            // It is written again, because it is what a commit begins and ends with.
            project.contents = Some(current.text.clone().into_bytes());
        }
        plan.steps.push(project);
        Ok(plan)
    }

    /// `PROJECT` is a function of the model, but its comments are the user's: they stay where they can.
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
                let says_the_same =
                    |text: &String| Project::parse(text).is_ok_and(|project| project == *new);
                (Action::Update, Some(merged.filter(says_the_same).unwrap_or(text)))
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

    /// Carries a plan out.
    ///
    /// # Errors
    /// If a file cannot be written. `PROJECT` is the last one: until then running the command again
    /// completes it.
    pub fn carry_out(&self, plan: &Plan) -> Result<()> {
        commit::commit(plan, &mut FileSystem)
    }
}

fn no_project(directory: &Path) -> UserError {
    let error = UserError::failure(format!("there is no PROJECT in {}", directory.display()));
    match directory.ancestors().skip(1).find(|parent| parent.join(project::FILE).is_file()) {
        Some(parent) => error.with_hint(format!(
            "run the command at the root of the project: `cd {}`",
            parent.display()
        )),
        None => error.with_hint("create a project with `opctl init`"),
    }
}

/// Keeps other commands out of the folder, and waits for one that is about to be done. A file system
/// that cannot lock is no reason to stop.
fn lock(directory: &Path) -> Result<Option<File>> {
    let file =
        File::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if begin.elapsed() < LOCK_TIMEOUT => {
                thread::sleep(LOCK_TIMEOUT / 100);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(UserError::failure("another opctl is at work in this project")
                    .with_hint("run the command again when it is done")
                    .into());
            }
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}
