//! What is published is complete.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// cargo leaves out directories that look like packages of their own, without a word.
#[test]
fn the_package_lists_every_template() {
    let mut list = cargo(Path::new(ROOT));
    let list = ok(list.args(["package", "--package", "opctl", "--list", "--allow-dirty"]));
    let packaged: BTreeSet<&str> = list.lines().collect();
    let templates = tree(&Path::new(ROOT).join("templates"));
    assert!(templates.contains_key("runtime/src/lib.rs"), "links are followed");
    for template in templates.keys() {
        let template = format!("templates/{template}");
        assert!(packaged.contains(&*template), "{template} is not in the package");
    }
}

#[test]
fn the_packaged_opctl_generates_the_same_project() {
    let home = tempfile::tempdir().unwrap();
    let mut package = cargo(Path::new(ROOT));
    package.args(["package", "--package", "opctl", "--no-verify", "--allow-dirty"]);
    ok(package.arg("--target-dir").arg(home.path()));
    let archive = format!("package/opctl-{}.crate", env!("CARGO_PKG_VERSION"));
    ok(Command::new("tar").arg("-xzf").arg(home.path().join(archive)).current_dir(home.path()));

    // The dependencies are compiled once for all runs. A directory of its own: the opctl that other
    // tests run must not be replaced.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let unpacked = home.path().join(format!("opctl-{}", env!("CARGO_PKG_VERSION")));
    let mut build = cargo(&unpacked);
    ok(build.args(["build", "--bin", "opctl", "--target-dir"]).arg(&target));

    let packaged = project(&target.join("debug/opctl"));
    let expected = project(cargo_bin!("opctl"));
    let differing: Vec<_> = expected
        .keys()
        .chain(packaged.keys())
        .filter(|path| expected.get(*path) != packaged.get(*path))
        .collect();
    assert!(differing.is_empty(), "{differing:?} differ");
    let runtime = tree(&Path::new(ROOT).join("crates/opctl-runtime"));
    for (path, text) in packaged {
        if let Some(path) = path.strip_prefix("runtime/") {
            assert_eq!(runtime.get(path), Some(&text), "runtime/{path}");
        }
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

/// The files of a new project with an API.
fn project(opctl: &Path) -> BTreeMap<String, Vec<u8>> {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("memcached-operator");
    fs::create_dir(&project).unwrap();
    for args in [
        "init --domain example.com",
        "create api --group cache --version v1alpha1 --kind Memcached",
    ] {
        ok(Command::new(opctl).args(args.split(' ')).current_dir(&project));
    }
    tree(&project)
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

/// All files below a directory with their contents; links are followed.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.insert(name, fs::read(path).unwrap());
        }
    }
    files
}
