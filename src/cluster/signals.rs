//! Signals as values: a long step looks whether it should end, and a command gets what opctl got.

use std::cell::RefCell;
use std::fmt;
use std::fs;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

/// The user ended opctl: not an error to explain, but everything that was begun has to be cleared.
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

/// The signals that end a command line program, caught.
#[derive(Debug)]
pub struct Signals(RefCell<SignalsInfo<WithOrigin>>);

impl Signals {
    /// From now on no signal ends opctl; [`Signals::check`] and [`Signals::wait`] tell of them.
    ///
    /// # Errors
    /// When the system refuses the handlers.
    pub fn catch() -> Result<Self> {
        let ignored = ignored();
        let ending =
            [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !ignored.contains(signal));
        let caught = SignalsInfo::new(ending.chain([SIGCHLD])).context("cannot catch signals")?;
        Ok(Self(RefCell::new(caught)))
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// [`Interrupted`] when a signal came since the last look.
    pub fn check(&self) -> Result<()> {
        match self.0.borrow_mut().pending().find(|origin| origin.signal != SIGCHLD) {
            Some(origin) => Err(Interrupted(origin.signal).into()),
            None => Ok(()),
        }
    }

    /// Sleeps until a signal comes or a child ends. Returns the signals that a child has to be
    /// sent: a terminal sends its own to every process in the foreground, so those that come from
    /// the kernel have reached the child already.
    pub fn wait(&self) -> Vec<i32> {
        let sent =
            |origin: &Origin| origin.signal != SIGCHLD && matches!(origin.cause, Cause::Sent(_));
        self.0.borrow_mut().wait().filter(sent).map(|origin| origin.signal).collect()
    }
}

/// The signals that opctl was started to ignore, by `nohup` for one: catching them would end that,
/// for the command too. Known on Linux only.
fn ignored() -> Vec<i32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_has_the_exit_code_of_a_shell() {
        assert_eq!(Interrupted(SIGINT).code(), 130);
        assert_eq!(Interrupted(SIGTERM).code(), 143);
    }
}
