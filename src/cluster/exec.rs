//! Runs programs in a way that can be interrupted.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::pin::pin;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::timeout;

/// The interval between two checks of something that is waited for.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The time that a program has to end after SIGINT, before it is killed.
const TERMINATION_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// The result of a program.
#[derive(Debug)]
pub struct Outcome {
    /// The exit status.
    pub status: ExitStatus,
    /// stdout and stderr, in the order of the writes.
    pub output: String,
}

/// Runs a program in a process group of its own and calls `tick` until it ends. If `tick` fails, the whole
/// group is ended before the error is returned.
///
/// The output is collected in a file, because daemons that the program leaves behind would keep a pipe
/// open.
///
/// # Errors
/// If the program cannot be started, and the errors of `tick`.
pub fn run(mut command: Command, tick: impl Fn() -> Result<()>) -> Result<Outcome> {
    let program = command.get_program().to_owned();
    let output = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
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

/// Waits for a result, and calls `tick` meanwhile, which can end the wait with an error.
///
/// # Errors
/// Those of `tick`.
pub async fn ticking<T>(
    result: impl Future<Output = T>,
    mut tick: impl FnMut() -> Result<()>,
) -> Result<T> {
    let mut result = pin!(result);
    loop {
        match timeout(POLL_INTERVAL, &mut result).await {
            Ok(result) => return Ok(result),
            Err(_) => tick()?,
        }
    }
}

/// The text of a file, with invalid UTF-8 replaced.
///
/// # Errors
/// If the file cannot be read.
pub fn read_lossy(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The last lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// A child that leads a process group, which is ended on drop.
struct ProcessGroup(Child);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        // On SIGINT the Go tool removes its temporary directory.
        self.signal(Signal::INT);
        let deadline = Instant::now() + TERMINATION_GRACE_PERIOD;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(POLL_INTERVAL);
        }
        self.signal(Signal::KILL);
        let _ = self.0.wait();
    }
}

impl ProcessGroup {
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // Fails if the group has already ended.
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
    fn both_streams_and_the_status_are_returned() {
        let outcome = run(sh("echo out; echo err >&2; exit 3"), || Ok(())).unwrap();
        assert_eq!(outcome.output, "out\nerr\n");
        assert_eq!(outcome.status.code(), Some(3));
    }

    #[test]
    fn failing_tick_ends_the_whole_group() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let script = format!("sleep 60 & echo $! >{0}.new; mv {0}.new {0}; wait", file.display());
        let error = run(sh(&script), || if file.exists() { bail!("enough") } else { Ok(()) });
        assert_eq!(error.unwrap_err().to_string(), "enough");

        let pid: i32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        let has_ended = || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        let deadline = Instant::now() + TERMINATION_GRACE_PERIOD;
        while !has_ended() && Instant::now() < deadline {
            sleep(POLL_INTERVAL);
        }
        assert!(has_ended());
    }

    #[test]
    fn tail_is_the_last_lines() {
        assert_eq!(tail("1\n2\n3\n\n", 2), "2\n3");
        assert_eq!(tail("", 2), "");
    }
}
