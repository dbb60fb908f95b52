//! The processes of a cluster, told by the path of their program.
//!
//! Pid files are not asked: a killed kwokctl may not have written one yet, and after a restart of
//! the machine the number in it is someone else's.

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

/// How long killed processes may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A process of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// The program and its arguments, separated by blanks.
    pub command: String,
}

/// The running components of the cluster whose programs lie in `bin`.
pub fn components(bin: &Path) -> Vec<Process> {
    let prefix = format!("{}/", bin.display());
    all().into_iter().filter(|process| process.command.starts_with(&prefix)).collect()
}

/// Kills the components and every kwokctl that was given `config` and might start more of them.
///
/// # Errors
/// When one of them is still there after ten seconds.
pub fn kill(bin: &Path, config: &Path) -> Result<()> {
    let prefix = format!("{}/", bin.display());
    let config = config.display().to_string();
    let ours = |command: &str| {
        command.starts_with(&prefix) || command.contains("kwokctl") && command.contains(&config)
    };
    end(ours, |pid| kill_process(pid, Signal::KILL))
}

/// Kills every `go build` that writes into `bin`, with its compilers: they share a process group.
///
/// # Errors
/// When one of them is still there after ten seconds.
pub fn end_builds(bin: &Path) -> Result<()> {
    let target = format!(" -o {}/.", bin.display());
    let ours = |command: &str| command.contains(" build ") && command.contains(&target);
    // A gentler signal may be one that the killed opctl, and so the Go tool, was started to ignore.
    end(ours, |pid| kill_process_group(pid, Signal::KILL))
}

fn end(ours: impl Fn(&str) -> bool, kill: impl Fn(Pid) -> io::Result<()>) -> Result<()> {
    let limit = Instant::now() + KILL_TIMEOUT;
    loop {
        let left: Vec<Process> = all().into_iter().filter(|it| ours(&it.command)).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > limit {
            let pids: Vec<String> = left.iter().map(|process| process.pid.to_string()).collect();
            let what = format!("cannot stop the processes {}", pids.join(", "));
            return Err(UserError::failure(what).into());
        }
        for pid in left.iter().filter_map(|process| Pid::from_raw(process.pid)) {
            // One that is gone already is what was wanted; the next look tells.
            let _ = kill(pid);
        }
        sleep(POLL_INTERVAL);
    }
}

/// Every process, from /proc where it exists, else from `ps`. The dead that nobody has waited for
/// have no command line, and so do not count.
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
    fn a_process_is_told_by_the_folder_of_its_program() {
        let bin = tempfile::tempdir().unwrap();
        let config = bin.path().join("kwokctl.yaml");
        let program = bin.path().join("etcd");
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = Command::new(&program).arg("60").spawn().unwrap();

        // The command line is the new program's only once exec is done.
        while components(bin.path()).is_empty() {
            sleep(POLL_INTERVAL);
        }
        assert_eq!(components(bin.path())[0].pid, i32::try_from(child.id()).unwrap());
        kill(bin.path(), &config).unwrap();
        assert!(components(bin.path()).is_empty());
        child.wait().unwrap();
    }

    #[test]
    fn ps_lines_are_read() {
        let process = parse_ps("   42 /a b/etcd --name=x").unwrap();
        assert_eq!(process, Process { pid: 42, command: "/a b/etcd --name=x".to_owned() });
    }

    #[test]
    fn both_sources_know_this_process() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(all().iter().any(|process| process.pid == pid));
    }
}
