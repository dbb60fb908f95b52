//! The system calls of real commands, as strace shows them: which files they touch, and what is left when
//! one of the calls is the last.

mod kill;
mod outside;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

/// The program. Where it is missing, the first test installs it.
static STRACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let find = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|directory| directory.join("strace")).find(|p| p.is_file())
    };
    let install = || {
        let apt = ["apt-get update -q", "apt-get install -qy strace"].join(" && ");
        let output = Command::new("sh").args(["-c", &apt]).output().unwrap();
        find().unwrap_or_else(|| {
            panic!(
                "these tests need strace on PATH (Debian: `apt-get install strace`)\n{}",
                String::from_utf8_lossy(&output.stderr)
            )
        })
    };
    find().unwrap_or_else(install)
});

/// A user with an empty home, and a project in it.
struct User {
    home: TempDir,
}

impl User {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("my-operator")).unwrap();
        Self { home }
    }

    /// The real path of the project.
    fn project(&self) -> PathBuf {
        self.home.path().canonicalize().unwrap().join("my-operator")
    }

    /// A command below strace, which gets `options`.
    fn trace(&self, options: &[&str], words: &str) -> Output {
        let mut strace = self.command(&STRACE);
        strace.args(options).arg(env!("CARGO_BIN_EXE_opctl")).args(words.split(' '));
        strace.output().unwrap()
    }

    fn opctl(&self, words: &str) -> Output {
        self.command(Path::new(env!("CARGO_BIN_EXE_opctl")))
            .args(words.split(' '))
            .output()
            .unwrap()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project()).env("HOME", self.home.path()).stdin(Stdio::null());
        for variable in ["XDG_CACHE_HOME", "XDG_STATE_HOME", "OPCTL_CACHE_DIR", "OPCTL_STATE_DIR"] {
            command.env_remove(variable);
        }
        command
    }
}
