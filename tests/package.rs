//! The published package contains everything that a build needs.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// cargo silently omits directories that look like packages of their own.
#[test]
fn package_contains_every_template() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline"])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let packaged: BTreeSet<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    let mut templates = Vec::new();
    collect(&root.join("templates"), "templates", &mut templates);
    assert!(!templates.is_empty());
    for template in templates {
        assert!(packaged.contains(&template), "{template} is not in the package");
    }
}

fn collect(directory: &Path, prefix: &str, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &name, files);
        } else {
            files.push(name);
        }
    }
}
