//! Tests of commits that stop after any of their operations.

use std::collections::BTreeMap;

use tempfile::TempDir;

use super::*;
use crate::project::{ApiRequest, Gvk, Project, Settings};
use crate::sync::{Conflicts, PlanOptions, Workspace};

/// A writer that fails after some operations: forever, like a killed process, or once.
struct FailingWriter {
    remaining: usize,
    once: bool,
    has_failed: bool,
}

impl FailingWriter {
    fn new(remaining: usize, once: bool) -> Self {
        Self { remaining, once, has_failed: false }
    }

    fn run(&mut self, effect: impl FnOnce(&mut FileSystem) -> io::Result<()>) -> io::Result<()> {
        if self.remaining == 0 && !(self.once && self.has_failed) {
            self.has_failed = true;
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.remaining = self.remaining.saturating_sub(1);
        effect(&mut FileSystem)
    }
}

impl Writer for FailingWriter {
    fn create_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.run(|disk| disk.create_directory(directory))
    }
    fn write(
        &mut self,
        file: &Path,
        place: &Path,
        contents: &[u8],
        executable: bool,
    ) -> io::Result<()> {
        // A kill in the middle of a write leaves half of the file.
        if self.remaining == 0 && !self.once {
            FileSystem.write(file, place, &contents[..contents.len() / 2], executable)?;
        }
        self.run(|disk| disk.write(file, place, contents, executable))
    }
    fn rename(&mut self, file: &Path, place: &Path) -> io::Result<()> {
        self.run(|disk| disk.rename(file, place))
    }
    fn remove(&mut self, file: &Path) -> io::Result<()> {
        self.run(|disk| disk.remove(file))
    }
    fn remove_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.run(|disk| disk.remove_directory(directory))
    }
}

type Tree = BTreeMap<PathBuf, Vec<u8>>;

fn tree(directory: &Path) -> Tree {
    let mut tree = Tree::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tree.extend(tree_of_directory(&path));
        } else {
            tree.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    tree
}

/// With an entry for the directory itself, so that empty ones count.
fn tree_of_directory(directory: &Path) -> Tree {
    let mut tree = tree(directory);
    tree.insert(directory.to_owned(), Vec::new());
    tree
}

fn relative(directory: &Path) -> Tree {
    tree(directory)
        .into_iter()
        .map(|(path, bytes)| (path.strip_prefix(directory).unwrap().to_owned(), bytes))
        .collect()
}

fn assert_same(actual: &Tree, expected: &Tree, when: &str) {
    let paths = actual.keys().chain(expected.keys());
    let different: Vec<&PathBuf> =
        paths.filter(|path| actual.get(*path) != expected.get(*path)).collect();
    assert!(different.is_empty(), "{when}: these files differ: {different:?}");
}

fn copy(directory: &Path) -> TempDir {
    fn fill(from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap() {
            let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
            if from.is_dir() {
                fs::create_dir(&to).unwrap();
                fill(&from, &to);
            } else {
                fs::copy(from, to).unwrap();
            }
        }
    }
    let copy = tempfile::tempdir().unwrap();
    fill(directory, copy.path());
    copy
}

/// The effects of a command. A command that is already done does nothing.
#[derive(Clone, Copy, Debug)]
enum Command {
    Init,
    CreateApi,
    DeleteApi,
    InlineConflict,
}

fn gvk() -> Gvk {
    Gvk::new("cache", "v1alpha1", "Memcached")
}

fn with_api(project: &Project) -> Option<Project> {
    let request = ApiRequest { gvk: gvk(), ..ApiRequest::default() };
    project.with_api(&project.check_api(request).unwrap()).ok()
}

impl Command {
    /// Prepares the state before the command, with edits of a user.
    fn prepare(self, directory: &Path) {
        fs::write(directory.join("notes.txt"), "mine\n").unwrap();
        if matches!(self, Self::Init) {
            return;
        }
        Self::Init.run(directory, &mut FileSystem).unwrap();
        if matches!(self, Self::DeleteApi) {
            Self::CreateApi.run(directory, &mut FileSystem).unwrap();
        }
        let registry = directory.join("src/api/mod.rs");
        let edited = format!("// mine\n{}", fs::read_to_string(&registry).unwrap());
        fs::write(&registry, edited).unwrap();
        fs::remove_file(directory.join("LICENSE")).unwrap();
        if matches!(self, Self::InlineConflict) {
            fs::write(directory.join("src/controller/mod.rs"), "// all mine\n").unwrap();
        }
    }

    fn run(self, directory: &Path, writer: &mut impl Writer) -> Result<()> {
        let workspace = Workspace::at(directory)?;
        let (base, new) = match (self, workspace.project()) {
            (Self::Init, None) => {
                (None, Some(Project::new("p".to_owned()).with_settings(Settings::default())?))
            }
            (Self::CreateApi | Self::InlineConflict, Some(old)) => (Some(old), with_api(old)),
            (Self::DeleteApi, Some(old)) => (Some(old), Some(old.without_api(&gvk()))),
            _ => (None, None),
        };
        let Some(new) = new else { return Ok(()) };
        let options = PlanOptions { force: false, conflicts: Conflicts::Inline };
        commit(&workspace.plan(base, &new, options)?, writer)
    }
}

const COMMANDS: [Command; 4] =
    [Command::Init, Command::CreateApi, Command::DeleteApi, Command::InlineConflict];

#[test]
fn killed_command_is_completed_by_the_second_run() {
    for command in COMMANDS {
        let start = tempfile::tempdir().unwrap();
        command.prepare(start.path());
        let completed = copy(start.path());
        command.run(completed.path(), &mut FileSystem).unwrap();
        let expected = relative(completed.path());

        for steps in 0.. {
            let directory = copy(start.path());
            let killed = command.run(directory.path(), &mut FailingWriter::new(steps, false));
            command.run(directory.path(), &mut FileSystem).unwrap();
            assert_same(
                &relative(directory.path()),
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
fn failed_write_changes_nothing_or_is_completed_by_the_second_run() {
    for command in COMMANDS {
        let start = tempfile::tempdir().unwrap();
        command.prepare(start.path());
        let before = relative(start.path());
        for steps in 0.. {
            let directory = copy(start.path());
            let Err(error) = command.run(directory.path(), &mut FailingWriter::new(steps, true))
            else {
                break;
            };
            let message = format!("{error:#}");
            if message.starts_with("nothing was changed: cannot ") {
                assert_same(
                    &relative(directory.path()),
                    &before,
                    &format!("{command:?}, failed after {steps} operations"),
                );
            } else {
                assert!(message.contains("cannot "), "{message}");
            }
        }
    }
}
