//! Kills real commands at arbitrary moments.
#![cfg(unix)]
// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const INIT: &[&str] = &["init", "--project-name", "my-operator"];
const CREATE: &[&str] =
    &["create", "api", "--group", "cache", "--version", "v1", "--kind", "Memcached"];

fn opctl(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opctl"));
    command
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Kills the command after some time, and runs it again.
fn run_killed(directory: &Path, arguments: &[&str], lifetime: Duration) {
    let mut child = opctl(directory, arguments).spawn().unwrap();
    sleep(lifetime);
    child.kill().unwrap();
    child.wait().unwrap();
    // The second run fails if the first one succeeded before it was killed.
    opctl(directory, arguments).status().unwrap();
}

fn tree(directory: &Path) -> BTreeMap<String, String> {
    let mut tree = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            tree.extend(
                self::tree(&path).into_iter().map(|(file, text)| (format!("{name}/{file}"), text)),
            );
        } else {
            tree.insert(name, fs::read_to_string(path).unwrap());
        }
    }
    tree
}

#[test]
fn killed_command_is_completed_by_the_second_run() {
    let completed = tempfile::tempdir().unwrap();
    for arguments in [INIT, CREATE] {
        assert!(opctl(completed.path(), arguments).status().unwrap().success());
    }
    let expected = tree(completed.path());
    for step in 0..40 {
        let directory = tempfile::tempdir().unwrap();
        for arguments in [INIT, CREATE] {
            run_killed(directory.path(), arguments, Duration::from_micros(step * 500));
        }
        assert_eq!(tree(directory.path()), expected, "killed after {} µs", step * 500);
    }
}
