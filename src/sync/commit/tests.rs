//! Tests of commits that are interrupted at any of their operations, twice in a row.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::env;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::PermissionsExt as _;
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use super::*;
use crate::project::{ApiRequest, Gvk, Project, Settings};
use crate::sync::{Conflicts, PlanOptions, Rename, Rewrite, Step, Workspace};

/// How an operation is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// The process is killed: no operation follows.
    Kill,
    /// The operation fails, and the process goes on.
    Error,
}

const FAILURES: [Failure; 2] = [Failure::Kill, Failure::Error];

/// Interrupts an operation.
struct Interrupted {
    failure: Failure,
    remaining: usize,
    is_over: bool,
}

impl Interrupted {
    fn new((failure, remaining): (Failure, usize)) -> Self {
        Self { failure, remaining, is_over: false }
    }

    fn is_next(&self) -> bool {
        self.remaining == 0 && !(self.failure == Failure::Error && self.is_over)
    }

    fn run(&mut self, effect: impl FnOnce(&mut FileSystem) -> io::Result<()>) -> io::Result<()> {
        if self.is_next() {
            self.is_over = true;
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.remaining = self.remaining.saturating_sub(1);
        effect(&mut FileSystem)
    }
}

impl Writer for Interrupted {
    fn create_private_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.run(|disk| disk.create_private_directory(directory))
    }
    fn create_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.run(|disk| disk.create_directory(directory))
    }
    fn write(
        &mut self,
        file: &Path,
        contents: &[u8],
        attributes: Attributes<'_>,
    ) -> io::Result<()> {
        // What is interrupted leaves half of the file.
        if self.is_next() {
            FileSystem.write(file, &contents[..contents.len() / 2], attributes)?;
        }
        self.run(|disk| disk.write(file, contents, attributes))
    }
    fn link(&mut self, file: &Path, name: &Path) -> io::Result<()> {
        self.run(|disk| disk.link(file, name))
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
    fn sync(&mut self, paths: &[&Path]) -> io::Result<()> {
        // A disk cannot be emulated: what was written is there.
        assert!(paths.iter().all(|path| path.exists()), "{paths:?}");
        self.run(|_| Ok(()))
    }
}

/// Files with their modes, and directories, by their paths.
type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn tree(root: &Path) -> Tree {
    let (mut tree, mut directories) = (Tree::new(), vec![root.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::metadata(&path).unwrap().mode();
            let name = path.strip_prefix(root).unwrap().to_owned();
            match path.is_dir() {
                true => {
                    tree.insert(name, (mode, Vec::new()));
                    directories.push(path);
                }
                false => drop(tree.insert(name, (mode, fs::read(path).unwrap()))),
            }
        }
    }
    tree
}

fn assert_same(actual: &Tree, expected: &Tree, when: impl FnOnce() -> String) {
    let paths = actual.keys().chain(expected.keys());
    let different: Vec<&PathBuf> =
        paths.filter(|path| actual.get(*path) != expected.get(*path)).collect();
    assert!(different.is_empty(), "{}: these files differ: {different:?}", when());
}

fn hash(tree: &Tree) -> u64 {
    let mut hasher = DefaultHasher::new();
    tree.hash(&mut hasher);
    hasher.finish()
}

fn write(root: &Path, tree: &Tree) {
    for (path, (mode, contents)) in tree {
        let path = root.join(path);
        if mode & 0o170_000 == 0o040_000 {
            fs::create_dir(&path).unwrap();
        } else {
            fs::write(&path, contents).unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
    }
}

/// A directory in memory, as far as the machine has one: nothing here needs a disk.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

fn copy(tree: &Tree) -> TempDir {
    let copy = directory();
    write(copy.path(), tree);
    copy
}

/// A command. One that is already done does nothing.
trait Command: Sync {
    fn run(&self, root: &Path, writer: &mut impl Writer) -> Result<()>;
}

/// A plan with every effect: new files and directories, a program, private and ordinary files that
/// change, deletions that empty directories, a copy of what is overwritten, and the only file of a directory that gets
/// another name.
struct EveryEffect;

impl EveryEffect {
    fn before() -> Tree {
        let files = [
            ("PROJECT", 0o100_644, "old"),
            ("private", 0o100_600, "old"),
            ("kept", 0o100_644, "kept"),
            ("deleted", 0o100_644, "deleted"),
            ("a", 0o040_755, ""),
            ("a/b", 0o040_755, ""),
            ("a/b/deleted", 0o100_755, "deleted"),
            ("moves", 0o040_755, ""),
            ("moves/a", 0o100_600, "old"),
        ];
        let entry = |(path, mode, text): (&str, u32, &str)| {
            (PathBuf::from(path), (mode, text.as_bytes().to_vec()))
        };
        files.map(entry).into()
    }
}

impl Command for EveryEffect {
    fn run(&self, root: &Path, writer: &mut impl Writer) -> Result<()> {
        undo(root, writer)?;
        if fs::read(root.join("PROJECT"))? == b"new" {
            return Ok(());
        }
        let step = |path: &str, action, contents: Option<&str>| {
            let contents = contents.map(|text| text.as_bytes().to_vec().into());
            Step::of(path, action, root.join(path), contents)
        };
        let mut steps = vec![
            step("a/b/deleted", Action::Delete, None),
            step("c/d/new", Action::Create, Some("new")),
            step("c/program", Action::Create, Some("#!")),
            step("deleted", Action::Delete, None),
            step("private.orig", Action::Copy, Some("old")),
            step("private", Action::Overwrite, Some("new")),
            step("moves/a", Action::Delete, None),
            step("moves/b", Action::Move, Some("new")),
            step("PROJECT", Action::Update, Some("new")),
        ];
        steps[2].executable = true;
        steps[4].like = Some(root.join("private"));
        steps[7].like = Some(root.join("moves/a"));
        commit(&Plan { steps }, root, writer)
    }
}

/// The effects of a command line.
#[derive(Clone, Copy, Debug)]
enum Real {
    Init,
    CreateApi,
    DeleteApi,
    Rename,
    Force,
    InlineConflict,
}

const REAL: [Real; 6] =
    [Real::Init, Real::CreateApi, Real::DeleteApi, Real::Rename, Real::Force, Real::InlineConflict];

fn gvk() -> Gvk {
    Gvk::new("cache", "v1alpha1", "Memcached")
}

fn with_api(project: &Project) -> Option<Project> {
    let request = ApiRequest { gvk: gvk(), ..ApiRequest::default() };
    project.with_api(&project.check_api(request).unwrap()).ok()
}

impl Real {
    /// The state before the command, with edits of a user.
    fn before(self) -> Tree {
        let directory = directory();
        let root = directory.path();
        fs::write(root.join("notes.txt"), "mine\n").unwrap();
        if !matches!(self, Self::Init) {
            Self::Init.run(root, &mut FileSystem).unwrap();
            if matches!(self, Self::DeleteApi | Self::Rename) {
                Self::CreateApi.run(root, &mut FileSystem).unwrap();
            }
            let registry = root.join("src/api/mod.rs");
            let edited = format!("// mine\n{}", fs::read_to_string(&registry).unwrap());
            fs::write(&registry, edited).unwrap();
            fs::remove_file(root.join("LICENSE")).unwrap();
        }
        if matches!(self, Self::Force | Self::InlineConflict) {
            fs::write(root.join("src/controller/mod.rs"), "// all mine\n").unwrap();
        }
        tree(root)
    }
}

impl Command for Real {
    fn run(&self, root: &Path, writer: &mut impl Writer) -> Result<()> {
        undo(root, writer)?;
        let workspace = Workspace::at(root)?;
        let (base, new) = match (self, workspace.project()) {
            (Self::Init, None) => {
                (None, Some(Project::new("p".to_owned()).with_settings(Settings::default())?))
            }
            (Self::CreateApi | Self::Force | Self::InlineConflict, Some(old)) => {
                (Some(old), with_api(old))
            }
            (Self::Rename, Some(old)) if old.resource(&gvk()).is_some() => {
                (Some(old), old.with_kind_renamed("cache", "Memcached", "Store", None).ok())
            }
            (Self::DeleteApi, Some(old)) => {
                let new = old.delete_api(&gvk()).unwrap_or_else(|_| old.clone());
                (Some(old), Some(new))
            }
            _ => (None, None),
        };
        let Some(new) = new else { return Ok(()) };
        let mut options = PlanOptions { conflicts: Conflicts::Inline, ..PlanOptions::default() };
        if let (Self::Rename, Some(old)) = (self, base) {
            let rename = Rename::kind(old, "cache", "Memcached", "Store");
            options.rewrite = Some(Rewrite::Rename(rename));
        }
        if matches!(self, Self::Force) {
            options.overwrite.insert("src/controller/mod.rs".to_owned());
        }
        commit(&workspace.plan(base, &new, &options)?, &root.canonicalize()?, writer)
    }
}

/// A command that is interrupted, and run again after each time.
struct Trial<C> {
    command: C,
    before: Tree,
    after: Tree,
    operations: usize,
}

impl<C: Command> Trial<C> {
    fn new(command: C, before: Tree) -> Self {
        let done = copy(&before);
        let mut counter = Interrupted::new((Failure::Kill, usize::MAX));
        command.run(done.path(), &mut counter).unwrap();
        let operations = usize::MAX - counter.remaining;
        Self { command, before, after: tree(done.path()), operations }
    }

    /// What an interrupted run leaves. A reported failure changes nothing.
    fn interrupt(&self, start: &Tree, failure: (Failure, usize)) -> Tree {
        let directory = copy(start);
        let result = self.command.run(directory.path(), &mut Interrupted::new(failure));
        let left = tree(directory.path());
        if let (Err(error), Failure::Error) = (result, failure.0)
            && format!("{error:#}").starts_with("nothing was changed: ")
        {
            assert_same(&left, &self.before, || format!("{failure:?}: {error:#}"));
        }
        left
    }

    /// A run without an interruption does what the command does.
    fn assert_healed(&self, left: &Tree, when: impl FnOnce() -> String) {
        let directory = copy(left);
        self.command.run(directory.path(), &mut FileSystem).unwrap();
        assert_same(&tree(directory.path()), &self.after, when);
    }

    /// Every pair whose second interruption is at one of so many operations. What several pairs leave is
    /// continued once.
    fn try_all(&self, name: &str, operations: usize) {
        let mut started: BTreeSet<Tree> = BTreeSet::new();
        let firsts = FAILURES
            .into_iter()
            .flat_map(|first| (0..self.operations).map(move |operation| (first, operation)));
        let starts: Vec<_> = firsts
            .map(|first| (first, self.interrupt(&self.before, first)))
            .filter(|(_, left)| started.insert(left.clone()))
            .collect();
        let threads = thread::available_parallelism().unwrap().get();
        thread::scope(|scope| {
            for starts in starts.chunks(starts.len().div_ceil(threads)) {
                scope.spawn(move || {
                    let mut healed: HashSet<u64> = HashSet::new();
                    let mut check = |left: &Tree, when: &dyn Fn() -> String| {
                        if healed.insert(hash(left)) {
                            self.assert_healed(left, || format!("{name}: {}", when()));
                        }
                    };
                    for (first, start) in starts {
                        check(start, &|| format!("{first:?}"));
                        for second in FAILURES {
                            for second in (0..operations).map(|operation| (second, operation)) {
                                let left = self.interrupt(start, second);
                                check(&left, &|| format!("{first:?}, then {second:?}"));
                            }
                        }
                    }
                });
            }
        });
    }

    fn try_pair(&self, first: (Failure, usize), second: (Failure, usize)) {
        let left = self.interrupt(&self.interrupt(&self.before, first), second);
        self.assert_healed(&left, || format!("{first:?}, then {second:?}"));
    }
}

#[test]
fn permissions_stay() {
    let after = Trial::new(EveryEffect, EveryEffect::before()).after;
    let mode = |path: &str| after[Path::new(path)].0 & 0o777;
    assert_eq!([mode("PROJECT"), mode("private"), mode("private.orig")], [0o644, 0o600, 0o600]);
    assert_eq!(mode("c/program") & 0o100, 0o100);
}

#[test]
fn any_two_interruptions_are_healed() {
    let trial = Trial::new(EveryEffect, EveryEffect::before());
    assert!(trial.operations > 30, "{}", trial.operations);
    // To undo takes further operations.
    trial.try_all("every effect", 2 * trial.operations);
}

/// A slice of the pairs. `OPCTL_PAIRS` sets how many each command gets, and `OPCTL_PAIRS=all` tries every
/// pair, which takes minutes in a release build. `OPCTL_COMMANDS=CreateApi,Force`
/// selects commands.
#[test]
fn commands_are_healed_after_two_interruptions() {
    let pairs = env::var("OPCTL_PAIRS").unwrap_or_else(|_| "30".to_owned());
    let only = env::var("OPCTL_COMMANDS").ok();
    let is_selected = |command: &Real| {
        only.as_ref().is_none_or(|only| only.split(',').any(|name| name == format!("{command:?}")))
    };
    for command in REAL.into_iter().filter(is_selected) {
        let trial = Trial::new(command, command.before());
        assert!(trial.operations > 40, "{command:?}: {}", trial.operations);
        if pairs == "all" {
            trial.try_all(&format!("{command:?}"), trial.operations);
        } else {
            try_some(&trial, pairs.parse().unwrap());
        }
    }
}

fn try_some(trial: &Trial<Real>, cases: u32) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let failure = || (prop::sample::select(FAILURES.to_vec()), 0..trial.operations);
    let pair = |(first, second)| {
        trial.try_pair(first, second);
        Ok(())
    };
    TestRunner::new(config).run(&(failure(), failure()), pair).unwrap();
}

#[test]
fn interruptions_of_a_command_are_healed() {
    let try_each = |command: Real| {
        let trial = Trial::new(command, command.before());
        for failure in FAILURES {
            for operation in (0..trial.operations).step_by(1 + trial.operations / 40) {
                let left = trial.interrupt(&trial.before, (failure, operation));
                trial.assert_healed(&left, || format!("{command:?}: {failure:?} at {operation}"));
            }
        }
    };
    thread::scope(|scope| {
        for command in REAL {
            scope.spawn(move || try_each(command));
        }
    });
}

#[test]
fn what_a_user_edits_after_a_kill_stays() {
    let before = Tree::from([("file".into(), (0o100_644, b"old".to_vec()))]);
    let contents = |tree: &Tree, path: &str| Some(tree.get(Path::new(path))?.1.clone());
    let mut kept = 0;
    for operation in 0.. {
        let directory = copy(&before);
        let file = directory.path().join("file");
        let step = Step::of("file", Action::Update, file.clone(), Some(b"new".to_vec().into()));
        let mut writer = Interrupted::new((Failure::Kill, operation));
        let result = commit(&Plan { steps: vec![step] }, directory.path(), &mut writer);
        let is_written = fs::read(&file).unwrap() == b"new";
        fs::write(&file, "mine").unwrap();
        undo(directory.path(), &mut FileSystem).unwrap();
        let after = tree(directory.path());
        assert_eq!(contents(&after, "file").unwrap(), b"mine", "killed at {operation}");
        if let Some(old) = contents(&after, "file.orig") {
            assert!(is_written && old == b"old", "killed at {operation}");
            kept += 1;
        }
        if result.is_ok() && !directory.path().join(DIRECTORY).exists() {
            break;
        }
    }
    assert!(kept > 0);
}

#[test]
fn journal_of_somebody_else_reaches_nothing_outside() {
    for place in ["../outside", "/tmp/outside", "link/outside", ".git/hooks/x", "a/../../outside"] {
        let home = directory();
        let root = home.path().join("project");
        fs::create_dir_all(root.join(DIRECTORY)).unwrap();
        fs::write(home.path().join("outside"), "mine").unwrap();
        std::os::unix::fs::symlink(home.path(), root.join("link")).unwrap();
        let journal = Journal {
            directories: Vec::new(),
            entries: vec![Entry {
                place: place.into(),
                new: Some(Hash::of("mine")),
                replaces: false,
            }],
        };
        fs::write(journal::entries(&root), serde_json::to_vec(&journal).unwrap()).unwrap();
        let error = undo(&root, &mut FileSystem).unwrap_err().to_string();
        assert!(error.contains("is not in the project"), "{place}: {error}");
        assert_eq!(fs::read(home.path().join("outside")).unwrap(), b"mine");
    }
}
