//! Random walks of commands and edits: no line of the user is lost, and none that the user has deleted comes
//! back. `PROPTEST_CASES=500 PROPTEST_RNG_SEED=7 cargo test --test laws walk` walks longer, and the same way again.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use opctl::render::TemplateSet;
use opctl::sync::{PlanOptions, Workspace};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::{Step, Tree, api, create, editable, files, init, rendered, settings, step, tree};

/// What a user does with a file, which the first number selects.
#[derive(Debug, Clone)]
enum Edit {
    Insert(usize, usize),
    Change(usize, usize),
    Cut(usize, usize),
    /// Removes the file.
    Remove(usize),
    /// Moves the file below `src`, as with `git mv`.
    Move(usize),
    Copy(usize),
    LineEnds(usize),
    NoFinalNewline(usize),
    /// Leaves the markers of a conflict.
    Markers(usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let file = any::<usize>;
    let line = || (any::<usize>(), any::<usize>());
    prop_oneof![
        4 => line().prop_map(|(file, line)| Edit::Insert(file, line)),
        4 => line().prop_map(|(file, line)| Edit::Change(file, line)),
        4 => line().prop_map(|(file, line)| Edit::Cut(file, line)),
        1 => file().prop_map(Edit::Remove),
        1 => file().prop_map(Edit::Move),
        2 => file().prop_map(Edit::Copy),
        2 => file().prop_map(Edit::LineEnds),
        2 => file().prop_map(Edit::NoFinalNewline),
        1 => line().prop_map(|(file, line)| Edit::Markers(file, line)),
    ]
}

impl Edit {
    fn name(&self) -> &'static str {
        match self {
            Self::Insert(..) => "insert",
            Self::Change(..) => "change",
            Self::Cut(..) => "cut",
            Self::Remove(_) => "remove",
            Self::Move(_) => "move",
            Self::Copy(_) => "copy",
            Self::LineEnds(_) => "line ends",
            Self::NoFinalNewline(_) => "no final newline",
            Self::Markers(..) => "markers",
        }
    }

    /// Makes the edit with lines that nobody else writes, numbered by `id`.
    fn make(&self, directory: &Path, id: usize) {
        let files = editable(directory);
        let select = |file: usize| directory.join(&files[file % files.len()]);
        let mine = format!("// mine {id}");
        let lines = |file: usize, line: usize, new: &[&str], cut: usize| {
            let path = select(file);
            let text = fs::read_to_string(&path).unwrap();
            let mut lines: Vec<&str> = text.split('\n').collect();
            let line = line % lines.len();
            let end = (line + cut).min(lines.len());
            lines.splice(line..end, new.iter().copied());
            fs::write(path, lines.join("\n")).unwrap();
        };
        match *self {
            Self::Insert(file, line) => lines(file, line, &[&mine], 0),
            Self::Change(file, line) => lines(file, line, &[&mine], 1),
            Self::Cut(file, line) => lines(file, line, &[], 1),
            Self::Remove(file) => fs::remove_file(select(file)).unwrap(),
            Self::Move(file) => {
                fs::rename(select(file), directory.join(format!("src/moved{id}.rs"))).unwrap()
            }
            Self::Copy(file) => {
                fs::copy(select(file), directory.join(format!("src/copy{id}.rs"))).unwrap();
            }
            Self::LineEnds(file) => {
                let text = fs::read_to_string(select(file)).unwrap();
                fs::write(select(file), text.replace("\r\n", "\n").replace('\n', "\r\n")).unwrap();
            }
            Self::NoFinalNewline(file) => {
                let text = fs::read_to_string(select(file)).unwrap();
                fs::write(select(file), text.trim_end()).unwrap();
            }
            Self::Markers(file, line) => {
                let marked = ["<<<<<<< yours", &mine, "=======", ">>>>>>> opctl"];
                lines(file, line, &marked, 0);
            }
        }
    }
}

/// The lines that only the user has written, with how often they are in the project. What is made from other
/// files or from the code is left out: opctl copies it anew.
fn lines_of_the_user(tree: &Tree) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for (_, text) in tree.iter().filter(|(path, _)| !super::is_derived(path)) {
        for line in String::from_utf8_lossy(text).lines().filter(|line| line.contains("mine ")) {
            *lines.entry(line.trim().to_owned()).or_default() += 1;
        }
    }
    lines
}

/// The lines of a text that are in it once, so that it is known where they are.
fn unique_lines(text: &str) -> BTreeSet<&str> {
    let mut counts = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| line.len() > 3) {
        *counts.entry(line).or_insert(0) += 1;
    }
    counts.into_iter().filter(|(_, count)| *count == 1).map(|(line, _)| line).collect()
}

/// What the user has deleted, and is there again: lines and files that opctl renders before a command and after
/// it.
fn restored(
    before: &Tree,
    old: &BTreeMap<String, String>,
    after: &Tree,
    new: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut restored = Vec::new();
    for (path, old) in old.iter().filter(|(path, _)| !super::is_derived(path)) {
        let (Some(new), Some(after)) = (new.get(path), after.get(path)) else { continue };
        let Some(before) = before.get(path) else {
            restored.push(path.clone());
            continue;
        };
        let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
        let (has_old, has_new) = (unique_lines(old), unique_lines(new));
        let has = |text: &str, line: &str| text.lines().any(|other| other.trim() == line);
        let deleted = has_old.intersection(&has_new).filter(|line| !has(&before, line));
        let back = deleted.filter(|line| has(&after, line));
        restored.extend(back.map(|line| format!("{path}: {line}")));
    }
    restored
}

/// `opctl update` of a project that this opctl has made.
fn update(directory: &Path) -> bool {
    let workspace = Workspace::open(directory).unwrap();
    let project = workspace.project().unwrap();
    let new = project.with_settings(Default::default()).unwrap();
    let (options, set) = (PlanOptions::default(), TemplateSet::current());
    let plan = workspace.plan_update(project, set, &new, set, &options).unwrap();
    plan.conflicts().next().is_none() && workspace.apply(&plan).is_ok()
}

/// `opctl init` after `PROJECT` was lost. What is not recognized was edited away.
fn adopt(directory: &Path) -> bool {
    let path = directory.join("PROJECT");
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let workspace = Workspace::at(directory).unwrap();
    let adopted = workspace.adopt(&Default::default(), "my-operator");
    let is_done = adopted.is_ok_and(|adopted| {
        let plan = workspace.plan_adoption(&adopted.project).unwrap();
        workspace.apply(&plan).is_ok()
    });
    // The walk goes on with the project that it was.
    fs::write(&path, text).unwrap();
    is_done
}

/// A command of the walk.
#[derive(Debug, Clone)]
enum Move {
    Change(Box<Step>),
    Pin(bool),
    Update,
    Adopt,
}

impl Move {
    fn name(&self) -> &'static str {
        match self {
            Self::Change(step) => step.name(),
            Self::Pin(true) => "image pin",
            Self::Pin(false) => "image unpin",
            Self::Update => "update",
            Self::Adopt => "init without PROJECT",
        }
    }

    fn run(&self, directory: &Path) -> Option<bool> {
        match self {
            Self::Change(step) => step.run(directory),
            Self::Pin(is_pinned) => {
                let digest = "0".repeat(64);
                let image = format!("example.com/operator@sha256:{digest}").parse().unwrap();
                let image = is_pinned.then_some(image);
                Some(super::change(directory, |project| Ok((project.with_image(image)?, None))))
            }
            Self::Update => Some(update(directory)),
            Self::Adopt => Some(adopt(directory)),
        }
    }
}

fn command() -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => step().prop_map(|step| Move::Change(Box::new(step))),
        1 => any::<bool>().prop_map(Move::Pin),
        1 => Just(Move::Update),
        1 => Just(Move::Adopt),
    ]
}

#[test]
fn no_walk_loses_a_line_or_brings_one_back() {
    let counts: RefCell<BTreeMap<&str, (u32, u32)>> = RefCell::default();
    let edits: RefCell<BTreeSet<&str>> = RefCell::default();
    let id = Cell::new(0);
    let walk = vec((vec(edit(), 0..4), command()), 4..8);
    let result = TestRunner::new(super::config(8)).run(
        &(settings(), vec(api(), 1..3), walk),
        |(settings, apis, walk)| {
            let directory = init(&settings);
            for api in &apis {
                create(directory.path(), api);
            }
            for (made, command) in &walk {
                for edit in made {
                    id.set(id.get() + 1);
                    edit.make(directory.path(), id.get());
                    edits.borrow_mut().insert(edit.name());
                }
                let (before, old) = (files(directory.path()), rendered(directory.path()));
                let Some(is_done) = command.run(directory.path()) else { continue };
                let (after, new) = (files(directory.path()), rendered(directory.path()));
                let name = command.name();
                prop_assert_eq!(lines_of_the_user(&after), lines_of_the_user(&before), "{}", name);
                prop_assert_eq!(
                    restored(&before, &old, &after, &new),
                    Vec::<String>::new(),
                    "{}",
                    name
                );
                prop_assert!(
                    is_done || before == after,
                    "{name} was refused and changed something"
                );
                prop_assert!(!tree(directory.path()).contains_key(".opctl-journal/"));
                let mut counts = counts.borrow_mut();
                let (done, refused) = counts.entry(name).or_default();
                *(if is_done { done } else { refused }) += 1;
            }
            Ok(())
        },
    );
    result.unwrap_or_else(|error| panic!("{error}"));
    // Commands that are refused show nothing.
    let (counts, edits) = (counts.into_inner(), edits.into_inner());
    let done: u32 = counts.values().map(|(done, _)| done).sum();
    let refused: u32 = counts.values().map(|(_, refused)| refused).sum();
    assert!(done > 2 * refused, "{done} done, {refused} refused: {counts:?}");
    let shown = counts.values().filter(|(done, _)| *done > 0).count();
    assert!(shown >= 5, "{counts:?}");
    assert!(edits.len() >= 6, "{edits:?}");
}
