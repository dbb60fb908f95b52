//! Updates from templates that really differ: those of an opctl that had no runtime crate, and wrote 30
//! files of it into each project.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use opctl::project::Project;
use opctl::render::Renderer;
use opctl::sync::read_templates;
use sha2::{Digest, Sha256};

fn old_templates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen/0.0.1")
}

fn opctl(directory: &Path, args: &str) -> Output {
    let mut opctl = Command::new(env!("CARGO_BIN_EXE_opctl"));
    opctl.args(args.split(' ')).current_dir(directory).output().unwrap()
}

/// A project of this opctl.
fn new_project(directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    for args in [
        "init --domain example.com",
        "create api --group cache --version v1alpha1 --kind Memcached",
    ] {
        let output = opctl(directory, args);
        assert!(output.status.success(), "{output:?}");
    }
}

/// The same project as the old opctl has made it.
fn old_project(directory: &Path) {
    new_project(directory);
    let model = fs::read_to_string(directory.join("PROJECT")).unwrap();
    let model = model.replace(env!("CARGO_PKG_VERSION"), "0.0.1");
    fs::remove_dir_all(directory).unwrap();
    fs::create_dir(directory).unwrap();
    let set = read_templates(&old_templates()).unwrap();
    let tree = Renderer::new(set).unwrap().render(&Project::parse(&model).unwrap()).unwrap();
    let mut lock = String::new();
    for (path, file) in tree {
        for byte in Sha256::digest(&file.text) {
            write!(lock, "{byte:02x}").unwrap();
        }
        writeln!(lock, " {} {path}", file.subject).unwrap();
        write_file(directory, &path, &file.text);
    }
    write_file(directory, "PROJECT.lock", &lock);
    write_file(directory, "PROJECT", &model);
}

fn write_file(directory: &Path, path: &str, text: &str) {
    let path = directory.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn tree(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(current) = directories.pop() {
        for entry in fs::read_dir(current).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_owned();
                files.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}

#[test]
fn a_project_without_edits_becomes_what_is_made_today() {
    let home = tempfile::tempdir().unwrap();
    let (old, new) = (home.path().join("a/my-operator"), home.path().join("b/my-operator"));
    fs::create_dir(home.path().join("a")).unwrap();
    old_project(&old);
    new_project(&new);
    let templates = old_templates();
    let output = opctl(&old, &format!("update --no-check --templates {}", templates.display()));
    assert!(output.status.success(), "{output:?}");
    let (updated, expected) = (tree(&old), tree(&new));
    for path in updated.keys().chain(expected.keys()) {
        assert!(updated.get(path) == expected.get(path), "{}", path.display());
    }
}
