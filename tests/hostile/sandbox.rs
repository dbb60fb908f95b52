//! A project in a directory of its own, with surroundings that no command may change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use tempfile::TempDir;

/// The files below a directory, by path. Directories end with a slash.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A project that `opctl init` made once.
static PROJECT: LazyLock<Files> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let output = opctl(directory.path(), &["init", "--project-name", "my-operator"]);
    assert!(output.status.success(), "{output:?}");
    files(directory.path())
});

/// Whether a terminal or an editor would not show a character, or would show others in its place.
pub fn is_hidden(c: char) -> bool {
    let has_format = ['\u{ad}', '\u{200b}', '\u{2028}', '\u{202e}', '\u{2066}', '\u{feff}'];
    (c.is_control() && c != '\n')
        || has_format.contains(&c)
        || ('\u{e0000}'..'\u{e1000}').contains(&c)
}

/// A project, a few directories below a temporary one.
pub struct Sandbox {
    directory: TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        let sandbox = Self { directory: tempfile::tempdir().unwrap() };
        for (path, contents) in &*PROJECT {
            let path = sandbox.project().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if !contents.is_empty() {
                fs::write(path, contents).unwrap();
            }
        }
        sandbox
    }

    pub fn project(&self) -> PathBuf {
        self.directory.path().join("a/b/my-operator")
    }

    /// Writes a CRD beside the project, and returns its path.
    pub fn crd(&self, text: &str) -> String {
        let path = self.directory.path().join("crd.yaml");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn opctl(&self, arguments: &[&str]) -> Output {
        opctl(&self.project(), arguments)
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project().join(path)).unwrap()
    }

    pub fn write(&self, path: &str, text: &str) {
        fs::write(self.project().join(path), text).unwrap();
    }

    /// All files.
    pub fn tree(&self) -> Files {
        files(self.directory.path())
    }

    /// All files outside the project.
    pub fn surroundings(&self) -> Files {
        let mut files = self.tree();
        files.retain(|path, _| !path.starts_with("a/b/my-operator"));
        files
    }

    /// Asserts that the next command accepts the project.
    #[track_caller]
    pub fn assert_usable(&self) {
        let output = self.opctl(&[
            "create",
            "api",
            "--group",
            "next",
            "--version",
            "v1",
            "--kind",
            "Next",
            "--dry-run",
        ]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn opctl(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_opctl"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn files(root: &Path) -> Files {
    fn collect(root: &Path, directory: &Path, files: &mut Files) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if path.is_dir() && !path.is_symlink() {
                files.insert(name.join(""), Vec::new());
                collect(root, &path, files);
            } else {
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    let mut files = Files::new();
    collect(root, root, &mut files);
    files
}
