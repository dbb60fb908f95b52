//! The command line, case by case. Each directory below `tests/cases` is a test of its own:
//! `cargo test --test cases edits-conflict` runs one. A case has these files:
//!
//! - `setup`: a shell script that prepares the directory, if the case does not begin with an empty one;
//! - `cmd`: the shell script under test. cargo accepts all there, unless it names another one in `CARGO`;
//! - `stdout`, `stderr`, `code`: the expected output and exit code, if not empty and 0;
//! - `changes`: the files that `cmd` creates (+), changes (~) and deletes (-). Without this file it may
//!   change nothing;
//! - `out/`: some of the files with their expected contents.
//!
//! `SNAPSHOTS=overwrite cargo test --test cases` replaces the expected output by the actual one.

// Clippy recognises tests by their attribute, which the tests of a custom harness do not have.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Trial};
use snapbox::data::DataFormat;
use snapbox::{Assert, Data, Redactions};

/// The directory that scripts run in. Its name is the default project name.
const DIRECTORY: &str = "my-operator";

fn main() -> ExitCode {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut cases: Vec<PathBuf> =
        fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    let trials = cases.into_iter().map(|case| {
        let name = case.file_name().unwrap().to_str().unwrap().to_owned();
        Trial::test(name, move || {
            run(&case);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn run(case: &Path) {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join(DIRECTORY);
    fs::create_dir(&directory).unwrap();
    if case.join("setup").exists() {
        let output = script(&case.join("setup"), &directory);
        assert!(output.status.success(), "{output:?}");
    }
    let before = tree(&directory);
    let output = script(&case.join("cmd"), &directory);
    let after = tree(&directory);

    let mut redactions = Redactions::new();
    redactions.insert("[HOME]", home.path().canonicalize().unwrap().display().to_string()).unwrap();
    redactions.insert("[VERSION]", env!("CARGO_PKG_VERSION")).unwrap();
    let snapshot = Assert::new().action_env("SNAPSHOTS").redact_with(redactions);
    let compare = |actual: String, file: PathBuf| {
        if !actual.is_empty() || file.exists() {
            snapshot.eq(actual, Data::read_from(&file, Some(DataFormat::Text)));
        }
    };
    let code = output.status.code().unwrap();
    compare(if code == 0 { String::new() } else { format!("{code}\n") }, case.join("code"));
    compare(without_counts(&String::from_utf8(output.stdout).unwrap()), case.join("stdout"));
    compare(String::from_utf8(output.stderr).unwrap(), case.join("stderr"));

    compare(changes(&before, &after), case.join("changes"));
    for path in tree(&case.join("out")).into_keys() {
        let contents = after.get(&path).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        compare(contents.unwrap_or_default(), case.join("out").join(path));
    }
}

/// How many files a project has is not what a case is about.
fn without_counts(text: &str) -> String {
    let line = |line: &str| match line.trim_start().strip_prefix("pristine ") {
        Some(count) if count.ends_with(" files\n") => "    pristine [COUNT] files\n".to_owned(),
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

fn changes(before: &Tree, after: &Tree) -> String {
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |path| match (before.get(path), after.get(path)) {
        (None, _) => Some('+'),
        (_, None) => Some('-'),
        (before, after) => (before != after).then_some('~'),
    };
    paths.into_iter().filter_map(|path| Some(format!("{} {path}\n", change(path)?))).collect()
}

type Tree = BTreeMap<String, Vec<u8>>;

fn script(path: &Path, directory: &Path) -> Output {
    let opctl = Path::new(env!("CARGO_BIN_EXE_opctl")).parent().unwrap();
    let path_variable = format!("{}:{}", opctl.display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        .arg(path)
        .current_dir(directory)
        .env("PATH", path_variable)
        .env("CARGO", "true")
        .output()
        .unwrap()
}

/// The contents of all files below a directory, by path; those of a symbolic link are its target.
fn tree(directory: &Path) -> Tree {
    let mut files = BTreeMap::new();
    collect(directory, "", &mut files);
    files
}

fn collect(directory: &Path, prefix: &str, files: &mut Tree) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            collect(&entry.path(), &format!("{name}/"), files);
        } else if kind.is_symlink() {
            files.insert(
                name,
                fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes(),
            );
        } else if kind.is_file() {
            files.insert(name, fs::read(entry.path()).unwrap());
        } else {
            files.insert(name, Vec::new()); // to read a named pipe would wait
        }
    }
}
