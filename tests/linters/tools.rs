//! Others' tools, installed once for the machine: wheels of PyPI, and programs of Go modules.

use std::env;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pins. Another one makes another directory.
const PINS: [&str; 3] = [
    include_str!("requirements.txt"),
    include_str!("actionlint/go.mod"),
    include_str!("promtool/go.mod"),
];

/// Where they are.
pub struct Tools(PathBuf);

impl Tools {
    /// Installs what is missing, in opctl's cache.
    pub fn installed() -> Self {
        let cache = cache().join("linters");
        fs::create_dir_all(&cache).unwrap();
        let lock = File::create(cache.join("lock")).unwrap();
        lock.lock().unwrap();
        let mut pins = DefaultHasher::new();
        PINS.hash(&mut pins);
        let tools = Self(cache.join(format!("{:016x}", pins.finish())));
        if !tools.0.exists() {
            let directory = tempfile::tempdir_in(&cache).unwrap();
            install(directory.path());
            fs::rename(directory.keep(), &tools.0).unwrap();
        }
        tools
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join("bin").join(name)
    }

    pub fn program(&self, name: &str) -> Command {
        Command::new(self.path(name))
    }

    /// Its script would look for it where Python has its own packages.
    pub fn yamllint(&self) -> Command {
        let mut python = Command::new("python3");
        python.args(["-m", "yamllint"]).env("PYTHONPATH", &self.0);
        python
    }
}

fn install(directory: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/linters");
    let pip = Command::new("python3").args(["-m", "pip", "--version"]).output();
    let has_pip = pip.is_ok_and(|output| output.status.success());
    assert!(has_pip, "these tests need python3 with pip: install them (python3-pip in Debian)");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]);
    pip.args(["--disable-pip-version-check", "--root-user-action", "ignore", "--target"]);
    finished(pip.arg(directory).arg("--requirement").arg(sources.join("requirements.txt")));

    for module in ["actionlint", "promtool"] {
        let mut go = Command::new("go");
        go.current_dir(sources.join(module)).args(["build", "-o"]).arg(directory.join("bin/"));
        // Of promtool, without what finds targets in clouds.
        finished(go.args(["-tags", "remove_all_sd", "tool"]));
    }
}

/// opctl's cache.
fn cache() -> PathBuf {
    let directory = |name: &str| env::var_os(name).map(PathBuf::from);
    let home = || directory("HOME").expect("HOME is set").join(".cache");
    directory("OPCTL_CACHE_DIR")
        .unwrap_or_else(|| directory("XDG_CACHE_HOME").unwrap_or_else(home).join("opctl"))
}

/// Runs a program that must succeed.
pub fn finished(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{stdout}{stderr}");
}
