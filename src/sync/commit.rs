//! The only writer of projects. A kill at any moment is healed by running the command again:
//!
//! 1. every file is written beside its place, `PROJECT` first; what cannot be written shows here,
//!    and nothing was changed;
//! 2. all files are moved to their places, those that hold the user's edits last;
//! 3. `PROJECT` is moved to its place: the command is done.
//!
//! A killed command finds in the second run what it did in the first: a file that is what it should
//! be is left alone. Only a merge could be done twice; a receipt at the root, a copy of the merged
//! text that is kept until `PROJECT` is in its place, tells that it was done.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::disk::Disk;
use super::names;
use super::plan::{Action, Plan, Step};
use crate::project;

/// The effects of a commit, one at a time.
pub trait Writer {
    /// Creates a folder whose parent exists.
    fn create_folder(&mut self, folder: &Path) -> io::Result<()>;
    /// Writes a new file that is meant for a place, with that place's permissions.
    fn write(
        &mut self,
        file: &Path,
        place: &Path,
        contents: &[u8],
        executable: bool,
    ) -> io::Result<()>;
    /// Moves a file to its place.
    fn rename(&mut self, file: &Path, place: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, file: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&mut self, folder: &Path) -> io::Result<()>;
}

/// Writes a plan.
///
/// # Errors
/// If a file cannot be written; the error says whether nothing was changed or how to go on.
pub fn commit(plan: &Plan, writer: &mut impl Writer) -> Result<()> {
    if plan.is_empty() {
        return Ok(());
    }
    let mut stage = Stage::default();
    if let Err(error) = stage.fill(plan, writer) {
        stage.undo(writer);
        return Err(error.context("nothing was changed"));
    }
    stage
        .publish(plan, writer)
        .context("PROJECT is unchanged, running the command again completes it")?;
    for receipt in plan.steps.iter().filter_map(|step| step.receipt.as_ref()) {
        writer.remove(receipt).with_context(|| format!("cannot delete {}", receipt.display()))?;
    }
    Ok(())
}

/// Removes the receipts of a command that was killed after it was done.
pub fn clean_up(disk: &Disk, writer: &mut impl Writer) -> Result<()> {
    // While PROJECT waits for its place, the receipts are needed.
    if names::temporary(&disk.read(project::FILE)?.place).exists() {
        return Ok(());
    }
    let entries = fs::read_dir(disk.root())
        .with_context(|| format!("cannot read {}", disk.root().display()))?;
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(names::is_receipt) {
            writer
                .remove(&entry.path())
                .with_context(|| format!("cannot delete {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// What is on the disk, but not in its place yet.
#[derive(Default)]
struct Stage {
    folders: Vec<PathBuf>,
    files: BTreeSet<PathBuf>,
}

impl Stage {
    fn fill(&mut self, plan: &Plan, writer: &mut impl Writer) -> Result<()> {
        // PROJECT, the last step, comes first: its waiting file tells that a command is at work.
        for step in plan.steps.iter().rev() {
            let Some(contents) = &step.contents else { continue };
            self.create_parents(&step.place, writer)
                .with_context(|| format!("cannot create the folder of {}", step.path))?;
            let files = [step.receipt.clone(), Some(names::temporary(&step.place))];
            for file in files.into_iter().flatten() {
                let written = writer.write(&file, &step.place, contents, step.executable);
                self.files.insert(file);
                written.with_context(|| format!("cannot write {}", step.path))?;
            }
        }
        Ok(())
    }

    fn create_parents(&mut self, place: &Path, writer: &mut impl Writer) -> io::Result<()> {
        let missing: Vec<&Path> =
            place.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            writer.create_folder(folder)?;
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }

    fn publish(&mut self, plan: &Plan, writer: &mut impl Writer) -> Result<()> {
        let Some((project, others)) = plan.steps.split_last() else { return Ok(()) };
        let (merged, others): (Vec<&Step>, Vec<&Step>) =
            others.iter().partition(|step: &&Step| step.receipt.is_some());
        for step in others.into_iter().chain(merged).chain([project]) {
            if step.action == Action::Delete {
                writer
                    .remove(&step.place)
                    .with_context(|| format!("cannot delete {}", step.path))?;
            } else if step.contents.is_some() {
                writer
                    .rename(&names::temporary(&step.place), &step.place)
                    .with_context(|| format!("cannot write {}", step.path))?;
            }
        }
        Ok(())
    }

    /// Removes what was written. Errors do not count: there is one to report already.
    fn undo(&self, writer: &mut impl Writer) {
        for file in &self.files {
            let _ = writer.remove(file);
        }
        for folder in self.folders.iter().rev() {
            let _ = writer.remove_folder(folder);
        }
    }
}

/// The real disk.
pub struct FileSystem;

impl Writer for FileSystem {
    fn create_folder(&mut self, folder: &Path) -> io::Result<()> {
        fs::create_dir(folder)
    }

    fn write(
        &mut self,
        file: &Path,
        place: &Path,
        contents: &[u8],
        executable: bool,
    ) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if executable {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o777);
        }
        let mut new = match options.open(file) {
            // A killed command left it behind.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(file)?;
                options.open(file)?
            }
            opened => opened?,
        };
        new.write_all(contents)?;
        match fs::metadata(place) {
            Ok(old) => new.set_permissions(old.permissions()),
            Err(_) => Ok(()),
        }
    }

    fn rename(&mut self, file: &Path, place: &Path) -> io::Result<()> {
        fs::rename(file, place)
    }

    fn remove(&mut self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }

    fn remove_folder(&mut self, folder: &Path) -> io::Result<()> {
        fs::remove_dir(folder)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::project::{Answers, ApiRequest, Project, Settings};
    use crate::sync::{Conflicts, Options, Workspace};

    /// Fails for good after some operations, as a process does that is killed, or just once.
    struct Mortal {
        left: usize,
        once: bool,
        tired: bool,
    }

    impl Mortal {
        fn new(left: usize, once: bool) -> Self {
            Self { left, once, tired: false }
        }

        fn act(
            &mut self,
            effect: impl FnOnce(&mut FileSystem) -> io::Result<()>,
        ) -> io::Result<()> {
            if self.left == 0 && !(self.once && self.tired) {
                self.tired = true;
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            self.left = self.left.saturating_sub(1);
            effect(&mut FileSystem)
        }
    }

    impl Writer for Mortal {
        fn create_folder(&mut self, folder: &Path) -> io::Result<()> {
            self.act(|disk| disk.create_folder(folder))
        }
        fn write(
            &mut self,
            file: &Path,
            place: &Path,
            contents: &[u8],
            executable: bool,
        ) -> io::Result<()> {
            // A kill in the middle of a write leaves half of it.
            if self.left == 0 && !self.once {
                FileSystem.write(file, place, &contents[..contents.len() / 2], executable)?;
            }
            self.act(|disk| disk.write(file, place, contents, executable))
        }
        fn rename(&mut self, file: &Path, place: &Path) -> io::Result<()> {
            self.act(|disk| disk.rename(file, place))
        }
        fn remove(&mut self, file: &Path) -> io::Result<()> {
            self.act(|disk| disk.remove(file))
        }
        fn remove_folder(&mut self, folder: &Path) -> io::Result<()> {
            self.act(|disk| disk.remove_folder(folder))
        }
    }

    type Tree = BTreeMap<PathBuf, Vec<u8>>;

    fn tree(folder: &Path) -> Tree {
        let mut tree = Tree::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => tree.extend(tree_of_folder(&path)),
                false => _ = tree.insert(path.clone(), fs::read(path).unwrap()),
            }
        }
        tree
    }

    /// With a line for the folder itself, so that an empty one shows.
    fn tree_of_folder(folder: &Path) -> Tree {
        let mut tree = tree(folder);
        tree.insert(folder.to_owned(), Vec::new());
        tree
    }

    fn relative(folder: &Path) -> Tree {
        tree(folder)
            .into_iter()
            .map(|(path, bytes)| (path.strip_prefix(folder).unwrap().to_owned(), bytes))
            .collect()
    }

    fn assert_same(actual: &Tree, expected: &Tree, when: &str) {
        let paths = actual.keys().chain(expected.keys());
        let different: Vec<&PathBuf> =
            paths.filter(|path| actual.get(*path) != expected.get(*path)).collect();
        assert!(different.is_empty(), "{when}: these files differ: {different:?}");
    }

    /// One of the commands, as far as its effects go. A command that finds its work done does nothing.
    #[derive(Clone, Copy, Debug)]
    enum Command {
        Init,
        CreateApi,
        DeleteApi,
        InlineConflict,
    }

    fn request() -> ApiRequest {
        let (group, version, kind) =
            ("cache".to_owned(), "v1alpha1".to_owned(), "Memcached".to_owned());
        ApiRequest { group, version, kind, plural: None, namespaced: None, force: false }
    }

    fn with_api(project: &Project) -> Option<Project> {
        let new = project.check_api(&request()).unwrap();
        let answers = Answers { resource: true, controller: true, recipe: "none".to_owned() };
        project.with_api(&new, &request(), &answers).ok()
    }

    impl Command {
        /// A folder in the state that the command begins with, with a user's edits in it.
        fn prepare(self, folder: &Path) {
            fs::write(folder.join("notes.txt"), "mine\n").unwrap();
            if matches!(self, Self::Init) {
                return;
            }
            Self::Init.run(folder, &mut FileSystem).unwrap();
            if matches!(self, Self::DeleteApi) {
                Self::CreateApi.run(folder, &mut FileSystem).unwrap();
            }
            let registry = folder.join("src/api/mod.rs");
            let edited = format!("// mine\n{}", fs::read_to_string(&registry).unwrap());
            fs::write(&registry, edited).unwrap();
            fs::remove_file(folder.join("LICENSE")).unwrap();
            if matches!(self, Self::InlineConflict) {
                fs::write(folder.join("src/controller/mod.rs"), "// all mine\n").unwrap();
            }
        }

        fn run(self, folder: &Path, writer: &mut impl Writer) -> Result<()> {
            let workspace = Workspace::at(folder)?;
            let (base, new) = match (self, workspace.project()) {
                (Self::Init, None) => {
                    (None, Some(Project::new("p".to_owned()).with(Settings::default())?))
                }
                (Self::CreateApi | Self::InlineConflict, Some(old)) => (Some(old), with_api(old)),
                (Self::DeleteApi, Some(old)) => (Some(old), Some(old.without_api(&request()))),
                _ => (None, None),
            };
            let Some(new) = new else { return Ok(()) };
            let options = Options { force: false, conflicts: Conflicts::Inline };
            commit(&workspace.plan(base, &new, options)?, writer)
        }
    }

    const COMMANDS: [Command; 4] =
        [Command::Init, Command::CreateApi, Command::DeleteApi, Command::InlineConflict];

    #[test]
    fn a_kill_at_any_moment_is_healed_by_running_the_command_again() {
        for command in COMMANDS {
            let undisturbed = tempfile::tempdir().unwrap();
            command.prepare(undisturbed.path());
            command.run(undisturbed.path(), &mut FileSystem).unwrap();
            let expected = relative(undisturbed.path());

            for steps in 0.. {
                let folder = tempfile::tempdir().unwrap();
                command.prepare(folder.path());
                let killed = command.run(folder.path(), &mut Mortal::new(steps, false));
                command.run(folder.path(), &mut FileSystem).unwrap();
                assert_same(
                    &relative(folder.path()),
                    &expected,
                    &format!("{command:?}, killed after {steps} operations"),
                );
                if killed.is_ok() {
                    assert!(steps > 10, "{command:?} has only {steps} operations");
                    break;
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_written_changes_nothing_or_is_completed_by_the_second_run() {
        for command in COMMANDS {
            for steps in 0.. {
                let folder = tempfile::tempdir().unwrap();
                command.prepare(folder.path());
                let before = relative(folder.path());
                let Err(error) = command.run(folder.path(), &mut Mortal::new(steps, true)) else {
                    break;
                };
                let message = format!("{error:#}");
                if message.starts_with("nothing was changed: cannot ") {
                    assert_same(
                        &relative(folder.path()),
                        &before,
                        &format!("{command:?}, failed after {steps} operations"),
                    );
                } else {
                    assert!(message.contains("cannot "), "{message}");
                }
            }
        }
    }
}
