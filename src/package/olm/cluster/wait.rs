//! Waits for what a cluster does, and says what it does meanwhile.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::error::UserError;
use crate::ui::Ui;

/// The time between two looks at the cluster.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// What has become of something that is waited for.
pub enum Progress<T> {
    /// It is there.
    Done(T),
    /// It is not there yet, for this reason.
    Pending(String),
}

/// When a command gives up.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    end: Instant,
    timeout: Duration,
    ui: Ui,
}

impl Deadline {
    /// The end of this duration from now.
    pub fn after(timeout: Duration, ui: Ui) -> Self {
        Self { end: Instant::now() + timeout, timeout, ui }
    }

    /// Looks until it is done, and prints each new reason why it is not. `subject` is what is waited for.
    ///
    /// # Errors
    /// A [`UserError`] with the last reason when the time is over, and the errors of `look`.
    pub fn wait<T>(
        &self,
        subject: &str,
        mut look: impl FnMut() -> Result<Progress<T>>,
    ) -> Result<T> {
        let mut printed = String::new();
        loop {
            let reason = match look()? {
                Progress::Done(result) => return Ok(result),
                Progress::Pending(reason) => reason,
            };
            if Instant::now() >= self.end {
                let timeout = humantime::format_duration(self.timeout);
                let problem = format!("{subject} is not ready after {timeout}: {reason}");
                return Err(UserError::failure(problem)
                    .with_hint("give it more time with `--timeout`, or resolve the reason")
                    .into());
            }
            if reason != printed {
                self.ui.status("Waiting", format!("for {subject}: {reason}"));
                printed = reason;
            }
            sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_reason_is_in_the_error() {
        let deadline = Deadline::after(Duration::ZERO, Ui::new(true));
        let error = deadline.wait("pod a", || Ok(Progress::<()>::Pending("no node".to_owned())));
        assert_eq!(error.unwrap_err().to_string(), "pod a is not ready after 0s: no node");
    }

    #[test]
    fn what_is_done_at_the_end_counts() {
        let deadline = Deadline::after(Duration::ZERO, Ui::new(true));
        assert_eq!(deadline.wait("pod a", || Ok(Progress::Done(1))).unwrap(), 1);
    }
}
