//! Signals as values: long steps check whether to end, and commands get the signals that opctl received.

use std::cell::RefCell;
use std::fmt;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Origin;

/// The error of an interrupted step. The user needs no explanation, but the step cleans up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted(pub i32);

impl Interrupted {
    /// The exit code that a shell would report.
    pub fn code(self) -> u8 {
        u8::try_from(128 + self.0).unwrap_or(crate::error::FAILURE)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted by signal {}", self.0)
    }
}

impl std::error::Error for Interrupted {}

/// The signals that end a command line program.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Handlers for the signals that end a command line program.
#[derive(Debug)]
pub struct Signals(RefCell<SignalsInfo<WithOrigin>>);

impl Signals {
    /// Installs the handlers. From now on signals do not end opctl, but are reported by [`Signals::check`]
    /// and [`Signals::wait`].
    ///
    /// # Errors
    /// If the system rejects the handlers.
    pub fn catch() -> Result<Self> {
        let ignored = ignored();
        let ending = ENDING.into_iter().filter(|signal| !ignored.contains(signal));
        let caught = SignalsInfo::new(ending.chain([SIGCHLD])).context("cannot catch signals")?;
        Ok(Self(RefCell::new(caught)))
    }

    /// Returns an error if opctl was interrupted.
    ///
    /// # Errors
    /// [`Interrupted`] if a signal arrived since the last check.
    pub fn check(&self) -> Result<()> {
        match self.0.borrow_mut().pending().find(|origin| origin.signal != SIGCHLD) {
            Some(origin) => Err(Interrupted(origin.signal).into()),
            None => Ok(()),
        }
    }

    /// Sleeps until a signal arrives or a child ends. Returns the signals to forward to the child. Those
    /// from the kernel are not included: a terminal sends them to all foreground processes.
    pub fn wait(&self) -> Vec<i32> {
        // macOS reports the sender, but not the cause.
        let sent = |origin: &Origin| origin.signal != SIGCHLD && origin.process.is_some();
        self.0.borrow_mut().wait().filter(sent).map(|origin| origin.signal).collect()
    }
}

/// The signals that opctl was started to ignore, for example by `nohup`. A handler would undo that, also
/// for the command.
#[cfg(target_os = "linux")]
fn ignored() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ENDING.into_iter().filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
}

/// Other systems do not report them: for each signal, a shell that inherits what is ignored sends it to
/// itself.
#[cfg(not(target_os = "linux"))]
fn ignored() -> Vec<i32> {
    let survives = |signal: &i32| probe(*signal).status().is_ok_and(|status| status.success());
    ENDING.into_iter().filter(survives).collect()
}

/// A shell that succeeds if a signal is ignored.
#[cfg(any(test, not(target_os = "linux")))]
fn probe(signal: i32) -> std::process::Command {
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", "ulimit -c 0; kill -$0 $$; exit 0"]).arg(signal.to_string());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruption_has_the_exit_code_of_a_shell() {
        assert_eq!(Interrupted(SIGINT).code(), 130);
        assert_eq!(Interrupted(SIGTERM).code(), 143);
    }

    #[test]
    fn a_shell_survives_the_signals_that_are_ignored() {
        let ignores = |trap: &str, signal: i32| {
            let probe = probe(signal);
            let mut command = std::process::Command::new("/bin/sh");
            command.arg("-c").arg(format!("{trap}; exec \"$@\"")).arg("sh");
            command.arg(probe.get_program()).args(probe.get_args()).status().unwrap().success()
        };
        for (signal, name) in
            [(SIGHUP, "HUP"), (SIGINT, "INT"), (SIGQUIT, "QUIT"), (SIGTERM, "TERM")]
        {
            assert!(ignores(&format!("trap '' {name}"), signal), "{name}");
            assert!(!ignores("true", signal), "{name}");
        }
    }
}
