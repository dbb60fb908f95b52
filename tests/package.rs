//! What is published is complete. The test of the README compiles it.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// cargo leaves out directories that look like packages of their own, without a word.
#[test]
fn the_package_lists_every_template() {
    let mut list = cargo(Path::new(ROOT));
    let list = ok(list.args(["package", "--package", "opctl", "--list", "--allow-dirty"]));
    let packaged: BTreeSet<&str> = list.lines().collect();
    let templates = files(&Path::new(ROOT).join("templates"));
    assert!(templates.contains("runtime/src/lib.rs"), "links are followed");
    for template in templates {
        let template = format!("templates/{template}");
        assert!(packaged.contains(&*template), "{template} is not in the package");
    }
}

#[test]
fn the_runtime_can_be_packaged() {
    let mut list = cargo(Path::new(ROOT));
    let list = ok(list.args(["package", "--package", "opctl-runtime", "--list", "--allow-dirty"]));
    for file in ["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"] {
        assert!(list.lines().any(|line| line == file), "{file} is not in the package");
    }
}

fn cargo(directory: &Path) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(directory).env("CARGO_NET_OFFLINE", "true");
    cargo
}

/// The stdout of a command that must succeed.
fn ok(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// All files below a directory; links are followed.
fn files(root: &Path) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            files.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
    files
}
