//! The command line, case by case. A folder below `tests/cases` is one:
//!
//! - `setup`: a shell script that makes what the case begins with, if that is not an empty folder;
//! - `cmd`: the shell script that is tested;
//! - `stdout`, `stderr`, `code`: what it prints and its exit code, if not nothing and 0;
//! - `changes`: the files that it creates (+), changes (~) and deletes (-). Without this file, it may
//!   change nothing;
//! - `out/`: some files with what they hold in the end.
//!
//! `SNAPSHOTS=overwrite cargo test --test cases` takes what is printed and written for what is expected.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use snapbox::data::DataFormat;
use snapbox::{Assert, Data, Redactions};

/// The folder that scripts run in. opctl makes the project's name of it.
const DIRECTORY: &str = "my-operator";

#[test]
fn cases() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut names: Vec<PathBuf> =
        fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let failed: Vec<&PathBuf> =
        names.iter().filter(|case| std::panic::catch_unwind(|| run(case)).is_err()).collect();
    assert!(failed.is_empty(), "these cases failed: {failed:#?}");
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
    compare(String::from_utf8(output.stdout).unwrap(), case.join("stdout"));
    compare(String::from_utf8(output.stderr).unwrap(), case.join("stderr"));

    compare(changes(&before, &after), case.join("changes"));
    for path in tree(&case.join("out")).into_keys() {
        let contents = after.get(&path).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        compare(contents.unwrap_or_default(), case.join("out").join(path));
    }
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
    Command::new("sh").arg(path).current_dir(directory).env("PATH", path_variable).output().unwrap()
}

/// All files below a folder by their path, with what they hold; a symbolic link holds where it leads.
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
        } else {
            files.insert(name, fs::read(entry.path()).unwrap());
        }
    }
}
