//! A program that is waited for, in a way that can be ended.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

/// How long one looks away while something is waited for.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a program that was asked to end may take, before it is made to.
const TERMINATION_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// How a program ended, and what it said on stdout and stderr.
#[derive(Debug)]
pub struct Outcome {
    /// The exit status.
    pub status: ExitStatus,
    /// Both streams, in the order they were written.
    pub output: String,
}

/// Runs the program in a process group of its own and calls `tick` until it ends. When `tick`
/// fails, the whole group is ended before the error is returned.
///
/// The output goes through a file, not a pipe: daemons that the program leaves behind would hold
/// the pipe open.
///
/// # Errors
/// When the program cannot be started, and the errors of `tick`.
pub fn run(mut command: Command, tick: impl Fn() -> Result<()>) -> Result<Outcome> {
    let program = command.get_program().to_owned();
    let output = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let writer = output.reopen()?;
    let child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("cannot start `{}`", Path::new(&program).display()))?;
    let mut group = ProcessGroup(child);
    loop {
        if let Some(status) = group.0.try_wait()? {
            return Ok(Outcome { status, output: read_lossy(output.path())? });
        }
        tick()?;
        sleep(POLL_INTERVAL);
    }
}

/// A file's text, whatever bytes are in it.
///
/// # Errors
/// When the file cannot be read.
pub fn read_lossy(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The last lines of a text, for an error.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// A child that leads a process group; the group ends with the value.
struct ProcessGroup(Child);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        // SIGINT lets the Go tool remove its temporary folder.
        self.signal(Signal::INT);
        let end = Instant::now() + TERMINATION_GRACE_PERIOD;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < end {
            sleep(POLL_INTERVAL);
        }
        self.signal(Signal::KILL);
        let _ = self.0.wait();
    }
}

impl ProcessGroup {
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // A group that is gone is what was wanted.
        let _ = pid.map(|pid| kill_process_group(pid, signal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_and_the_status_come_back() {
        let outcome = run(sh("echo out; echo err >&2; exit 3"), || Ok(())).unwrap();
        assert_eq!(outcome.output, "out\nerr\n");
        assert_eq!(outcome.status.code(), Some(3));
    }

    #[test]
    fn a_failing_tick_ends_the_whole_group() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let script = format!("sleep 60 & echo $! >{0}.new; mv {0}.new {0}; wait", file.display());
        let error = run(sh(&script), || if file.exists() { bail!("enough") } else { Ok(()) });
        assert_eq!(error.unwrap_err().to_string(), "enough");

        let pid: i32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        let gone = || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        let end = Instant::now() + TERMINATION_GRACE_PERIOD;
        while !gone() && Instant::now() < end {
            sleep(POLL_INTERVAL);
        }
        assert!(gone());
    }

    #[test]
    fn the_tail_is_the_last_lines() {
        assert_eq!(tail("1\n2\n3\n\n", 2), "2\n3");
        assert_eq!(tail("", 2), "");
    }
}
