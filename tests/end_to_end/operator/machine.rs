//! A user's machine that has no cluster: an empty home, and the tools of the real one.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::wait::eventually;

const OPCTL: &str = env!("CARGO_BIN_EXE_opctl");

/// What begins the names of the variables in which cargo and build scripts describe a package
/// (<https://doc.rust-lang.org/cargo/reference/environment-variables.html>).
const OF_A_PACKAGE: [&str; 4] = ["CARGO_MANIFEST_", "CARGO_PKG_", "K8S_OPENAPI_", "OUT_DIR"];

/// Writes a program. Another process does: a process that another test starts meanwhile would inherit the open
/// file, and a file that is open for writing cannot be run.
pub fn install(program: &Path, script: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"printf %s "$1" > "$0" && chmod 755 "$0""#]);
    assert!(shell.arg(program).arg(script).status().unwrap().success());
}

/// Ends with every cluster that was started on it.
pub struct Machine {
    folder: TempDir,
    /// Go's own folders, that do not move with `HOME`.
    go: Vec<(String, String)>,
}

impl Machine {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        for tool in ["make", "cargo"] {
            let version = Command::new(tool).arg("--version").output();
            assert!(version.is_ok(), "`{tool}` is not on PATH: install it to run these tests");
        }
        Self { folder, go: go_folders() }
    }

    /// A command of the user's.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        for name in ["KUBECONFIG", "XDG_CACHE_HOME", "XDG_STATE_HOME", "MAKEFLAGS", "MAKELEVEL"] {
            command.env_remove(name);
        }
        // What cargo tells these tests is about another package, and would be a reason to compile dependencies again.
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy();
            if OF_A_PACKAGE.iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(&*name);
            }
        }
        command.envs(self.go.iter().map(|(name, value)| (name, value)));
        // What is built once for the machine stays where it is.
        command.env("CARGO_HOME", own("CARGO_HOME", ".cargo"));
        command.env("RUSTUP_HOME", own("RUSTUP_HOME", ".rustup"));
        command.env("OPCTL_CACHE_DIR", cache());
        command.env("HOME", self.home()).env("OPCTL_STATE_DIR", self.state());
        // The clusters of make can be named in advance.
        command.env("CHECKOUT", "here");
        command.env_remove("CARGO_TARGET_DIR").env("CARGO_BUILD_BUILD_DIR", build_directory());
        command.env("PATH", path());
        // Every file of a project is new: there is nothing to gain, and gigabytes to lose.
        command.env("CARGO_INCREMENTAL", "0").env("TERM", "dumb");
        // A binary is as small as it gets: most of it would be the names of generic functions.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_DEV_STRIP", "symbols");
        command
    }

    /// `opctl cluster`.
    pub fn cluster(&self, args: &[&str]) -> Output {
        self.command(OPCTL).arg("cluster").args(args).output().unwrap()
    }

    /// The state of a cluster, as opctl tells it.
    pub fn status(&self, name: &str) -> Value {
        let output = self.cluster(&["status", "--name", name, "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Where opctl keeps the clusters, by the name that the processes show.
    fn state(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("state")
    }

    /// The processes of the clusters.
    pub fn processes(&self) -> Vec<(i32, Vec<String>)> {
        let state = self.state().display().to_string();
        let of_cluster = |(_, words): &(i32, Vec<String>)| words.concat().contains(&state);
        processes().into_iter().filter(of_cluster).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.state().join("clusters")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            self.cluster(&["delete", "--name", name.to_str().unwrap_or_default()]);
        }
        if !std::thread::panicking() {
            eventually("end of every cluster", || match self.processes() {
                left if left.is_empty() => Ok(()),
                left => Err(format!("{left:?}")),
            });
            assert!(!self.home().join(".kube/config").exists(), "the user's kubeconfig is touched");
        }
    }
}

/// The numbers and command lines of all processes.
pub fn processes() -> Vec<(i32, Vec<String>)> {
    let process = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        Some((pid, line.split_terminator('\0').map(str::to_owned).collect()))
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(process).collect()
}

/// Where every generated project is compiled, so that dependencies are compiled once. What a project is compiled
/// to is in its own target folder.
pub fn build_directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("generated")
}

/// Projects of one name are one to cargo, whatever their folders: one is compiled at a time, as long as this lives.
pub fn turn(name: &str) -> File {
    let turns = build_directory().join("turns");
    fs::create_dir_all(&turns).unwrap();
    let turn = File::create(turns.join(name)).unwrap();
    turn.lock().unwrap();
    turn
}

fn own(variable: &str, fallback: &str) -> PathBuf {
    let home = || Path::new(&env::var_os("HOME").expect("HOME is set")).join(fallback);
    env::var_os(variable).map_or_else(home, PathBuf::from)
}

/// What is built once for the machine.
pub fn cache() -> PathBuf {
    env::var_os("OPCTL_CACHE_DIR")
        .map_or_else(|| own("XDG_CACHE_HOME", ".cache").join("opctl"), PathBuf::from)
}

/// `PATH` with opctl, as its user has it.
pub fn path() -> OsString {
    let opctl = Path::new(OPCTL).parent().unwrap().to_owned();
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths([opctl].into_iter().chain(env::split_paths(&path))).unwrap()
}

/// Without Go there is nothing to keep: opctl says what it needs when it needs it.
fn go_folders() -> Vec<(String, String)> {
    const NAMES: [&str; 4] = ["GOENV", "GOPATH", "GOCACHE", "GOMODCACHE"];
    let Ok(output) = Command::new("go").arg("env").args(NAMES).output() else {
        return Vec::new();
    };
    let values = String::from_utf8(output.stdout).unwrap();
    NAMES.iter().zip(values.lines()).map(|(name, value)| (name.to_string(), value.into())).collect()
}
