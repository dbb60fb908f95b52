//! Finds and kills the processes of a cluster, which are identified by the paths of their programs.
//!
//! Pid files are not used: a killed kwokctl may not have written one, and after a restart of the machine
//! another process can have the same pid.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::io;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::exec::POLL_INTERVAL;
use crate::error::UserError;

/// The time that killed processes have to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A process of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process ID.
    pub pid: i32,
    /// The program and its arguments, separated by spaces.
    pub command: String,
}

/// The running components of the cluster whose programs are in `bin`.
pub fn components(bin: &Path) -> Vec<Process> {
    let prefix = format!("{}/", bin.display());
    all().into_iter().filter(|process| process.command.starts_with(&prefix)).collect()
}

/// Kills the components and every kwokctl with this `config`, which could start more of them.
///
/// # Errors
/// If a process has not ended after ten seconds.
pub fn kill(bin: &Path, config: &Path) -> Result<()> {
    let prefix = format!("{}/", bin.display());
    let config = config.display().to_string();
    let matches = |command: &str| {
        command.starts_with(&prefix) || command.contains("kwokctl") && command.contains(&config)
    };
    end(matches, |pid| kill_process(pid, Signal::KILL))
}

/// Kills every `go build` that writes into `bin`, with the compilers in its process group.
///
/// # Errors
/// If a process has not ended after ten seconds.
pub fn end_builds(bin: &Path) -> Result<()> {
    let target = format!(" -o {}/.", bin.display());
    let matches = |command: &str| command.contains(" build ") && command.contains(&target);
    // The killed opctl, and with it the Go tool, may have been started with other signals ignored.
    end(matches, |pid| kill_process_group(pid, Signal::KILL))
}

fn end(matches: impl Fn(&str) -> bool, kill: impl Fn(Pid) -> io::Result<()>) -> Result<()> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    loop {
        let remaining: Vec<Process> =
            all().into_iter().filter(|process| matches(&process.command)).collect();
        if remaining.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let pids: Vec<String> =
                remaining.iter().map(|process| process.pid.to_string()).collect();
            let message = format!("cannot stop the processes {}", pids.join(", "));
            return Err(UserError::failure(message).into());
        }
        for pid in remaining.iter().filter_map(|process| Pid::from_raw(process.pid)) {
            // Fails if the process has already ended, which the next iteration detects.
            let _ = kill(pid);
        }
        sleep(POLL_INTERVAL);
    }
}

/// All processes, from /proc if it exists, else from `ps`. Zombies have no command line and are not
/// included.
fn all() -> Vec<Process> {
    match fs::read_dir("/proc/self") {
        Ok(_) => from_proc(),
        Err(_) => from_ps(),
    }
}

fn from_proc() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let process = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some(Process { pid, command: line.trim_end().to_owned() })
    };
    entries.flatten().filter_map(process).filter(|process| !process.command.is_empty()).collect()
}

fn from_ps() -> Vec<Process> {
    let output = Command::new("ps").args(["-axww", "-o", "pid=,command="]).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(parse_ps).collect()
}

fn parse_ps(line: &str) -> Option<Process> {
    let (pid, command) = line.trim().split_once(' ')?;
    Some(Process { pid: pid.parse().ok()?, command: command.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_identified_by_the_directory_of_its_program() {
        let bin = tempfile::tempdir().unwrap();
        let config = bin.path().join("kwokctl.yaml");
        let program = bin.path().join("etcd");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = Command::new(&program).arg("60").spawn().unwrap();

        // The command line changes to that of the program at exec.
        while components(bin.path()).is_empty() {
            sleep(POLL_INTERVAL);
        }
        assert_eq!(components(bin.path())[0].pid, i32::try_from(child.id()).unwrap());
        kill(bin.path(), &config).unwrap();
        assert!(components(bin.path()).is_empty());
        child.wait().unwrap();
    }

    #[test]
    fn ps_lines_are_parsed() {
        let process = parse_ps("   42 /a b/etcd --name=x").unwrap();
        assert_eq!(process, Process { pid: 42, command: "/a b/etcd --name=x".to_owned() });
    }

    #[test]
    fn list_contains_this_process() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(all().iter().any(|process| process.pid == pid));
    }
}
