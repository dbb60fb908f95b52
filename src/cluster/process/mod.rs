//! Finds and kills processes that outlived an opctl.
//!
//! There are no pid files: after a restart of the machine another process can have the same pid. A process is what it is by its program and its exact arguments,
//! and it is never of another user, opctl itself or one of its ancestors.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::io;
use rustix::process::{Pid, Signal, getpgid, kill_process_group};

use super::binaries::Tool;
use super::directories;
use super::exec::POLL_INTERVAL;
use crate::error::UserError;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "macos")]
use macos as system;

pub use system::all;

/// The time that killed processes have to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A process of this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pid: Pid,
    /// Distinguishes the processes that have had the same pid.
    start: u64,
    /// The path of the program. Unlike the first argument, the process cannot choose it.
    program: PathBuf,
    /// The arguments, of which the first one is the name of the program.
    pub arguments: Vec<OsString>,
}

impl Process {
    /// Whether the process runs the program at the end of a link, under the name of the link.
    pub fn runs(&self, link: &Path) -> bool {
        self.arguments.first().is_some_and(|name| *name == *link) && self.is_program_of(link)
    }

    /// The program may have been deleted since, and so may the link.
    fn is_program_of(&self, link: &Path) -> bool {
        match fs::read_link(link) {
            Ok(target) => directories::real(&target).is_ok_and(|program| program == self.program),
            Err(_) => Tool::ALL.iter().any(|tool| self.program.ends_with(tool.file())),
        }
    }
}

/// Kills the processes that match.
///
/// # Errors
/// If a process has not ended after ten seconds.
pub fn kill(matches: impl Fn(&Process) -> bool) -> Result<()> {
    end(matches, system::kill)
}

/// Kills every `go build` that writes into `bin`, with the compilers in its process group.
///
/// # Errors
/// If a process has not ended after ten seconds.
pub fn end_builds(bin: &Path) -> Result<()> {
    // The killed opctl, and with it the Go tool, may have been started with other signals ignored.
    end(|process| is_build(process, bin), |process| kill_process_group(process.pid, Signal::KILL))
}

/// Whether a process is a Go tool that opctl started, which leads a process group.
fn is_build(process: &Process, bin: &Path) -> bool {
    let is_go = |pair: &[OsString]| Path::new(&pair[0]).ends_with("go") && pair[1] == "build";
    let is_target = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        path.parent() == Some(bin) && name.as_encoded_bytes().starts_with(b".")
    };
    let has_target = |pair: &[OsString]| pair[0] == "-o" && is_target(Path::new(&pair[1]));
    // The Go tool may be started by a script, whose interpreter is the first argument.
    process.arguments.windows(2).take(2).any(is_go)
        && process.arguments.windows(2).any(has_target)
        && getpgid(Some(process.pid)).is_ok_and(|group| group == process.pid)
}

fn end(
    matches: impl Fn(&Process) -> bool,
    kill: impl Fn(&Process) -> io::Result<()>,
) -> Result<()> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    let mut killed: Vec<Process> = Vec::new();
    loop {
        let mut remaining = all();
        remaining.retain(&matches);
        // A process that is ending has no arguments any more, but still has its ports and locks.
        killed.retain(|process| !remaining.contains(process) && !system::has_ended(process));
        remaining.append(&mut killed);
        if remaining.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let pids: Vec<String> =
                remaining.iter().map(|process| process.pid.to_string()).collect();
            let message = format!("cannot stop the processes {}", pids.join(", "));
            return Err(UserError::failure(message).into());
        }
        for process in &remaining {
            // Fails if the process has already ended, which the next iteration detects.
            let _ = kill(process);
        }
        killed = remaining;
        sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    /// A process that is killed at the end of the test.
    struct Bystander(Child);

    impl Drop for Bystander {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Bystander {
        fn new(command: &mut Command) -> Self {
            let bystander = Self(command.spawn().unwrap());
            // The arguments are those of this process until exec.
            let this = std::env::args_os().next();
            let is_ready =
                || bystander.process().is_some_and(|it| it.arguments.first() != this.as_ref());
            while !is_ready() {
                sleep(POLL_INTERVAL);
            }
            bystander
        }

        fn process(&self) -> Option<Process> {
            let pid = Pid::from_child(&self.0);
            all().into_iter().find(|process| process.pid == pid)
        }

        fn is_alive(&mut self) -> bool {
            self.0.try_wait().unwrap().is_none()
        }
    }

    /// A copy of `sleep`, and a link to it with another name. Another process copies it: a process that another
    /// test starts meanwhile would inherit the open file, and a file that is open for writing cannot be run.
    fn sleep_with_link(directory: &Path) -> (PathBuf, PathBuf) {
        let (program, link) = (directory.join("kwok"), directory.join("kwok-controller"));
        assert!(Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap().success());
        symlink(&program, &link).unwrap();
        (program, link)
    }

    #[test]
    fn only_processes_of_the_program_are_killed() {
        let directory = tempfile::tempdir().unwrap();
        let (program, link) = sleep_with_link(directory.path());
        let mut ours = Bystander::new(Command::new(&link).arg("60"));
        let mut others = [
            Bystander::new(Command::new("sleep").arg("60").arg0(&link)),
            Bystander::new(Command::new(&program).arg("60")),
            Bystander::new(
                Command::new("sh").args(["-c", "read line"]).arg(&link).stdin(Stdio::piped()),
            ),
        ];

        kill(|process| process.runs(&link)).unwrap();

        assert!(!ours.is_alive());
        assert!(others.iter_mut().all(Bystander::is_alive));
    }

    #[test]
    fn a_program_is_recognised_after_its_removal() {
        let directory = tempfile::tempdir().unwrap();
        let (program, link) = sleep_with_link(directory.path());
        let ours = Bystander::new(Command::new(&link).arg("60"));
        let forged = Bystander::new(Command::new("sleep").arg("60").arg0(&link));
        for removed in [&program, &link] {
            fs::remove_file(removed).unwrap();
            assert!(ours.process().unwrap().runs(&link));
            assert!(!forged.process().unwrap().runs(&link));
        }
    }

    #[test]
    fn a_process_that_got_the_pid_later_is_not_killed() {
        let mut bystander = Bystander::new(Command::new("sleep").arg("60"));
        let mut earlier = bystander.process().unwrap();
        earlier.start -= 1;

        assert!(system::kill(&earlier).is_err());

        assert!(bystander.is_alive());
    }

    #[test]
    fn this_process_and_its_ancestors_are_not_included() {
        let pids: Vec<Pid> = all().into_iter().map(|process| process.pid).collect();
        let ancestors = [Some(rustix::process::getpid()), rustix::process::getppid()];
        assert!(ancestors.into_iter().flatten().all(|pid| !pids.contains(&pid)));
    }

    #[test]
    fn only_builds_into_the_directory_are_ended() {
        let directory = tempfile::tempdir().unwrap();
        let (bin, go) = (directory.path().join("bin"), directory.path().join("go"));
        fs::write(&go, "read line").unwrap();
        let build = |target: &str| {
            let mut command = Command::new("sh");
            command.arg(&go).args(["build", "-o"]).arg(bin.join(target)).arg("./etcd");
            command.stdin(Stdio::piped()).process_group(0);
            command
        };
        let mut ours = Bystander::new(&mut build(".etcd.1"));
        let mut others = [
            Bystander::new(&mut build("etcd")),
            Bystander::new(&mut build("other/.etcd.1")),
            Bystander::new(
                build(".etcd.1").process_group(rustix::process::getpgrp().as_raw_nonzero().get()),
            ),
            Bystander::new(
                Command::new("sh")
                    .args(["-c", "read line", "go build -o"])
                    .arg(bin.join(".etcd.1"))
                    .stdin(Stdio::piped())
                    .process_group(0),
            ),
        ];

        end_builds(&bin).unwrap();

        assert!(!ours.is_alive());
        assert!(others.iter_mut().all(Bystander::is_alive));
    }
}
