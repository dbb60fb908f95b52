//! A process that ends with its test.

use std::process::{Child, Command, ExitStatus};

use super::eventually;

/// A process that is killed at the end of its test, whether that passes or fails.
///
/// # Example
/// ```no_run
/// use std::process::Command;
///
/// use opctl_runtime::testing::{Process, eventually, free_address};
/// use tokio::net::TcpStream;
///
/// # async fn test() {
/// let address = free_address();
/// let mut command = Command::new("target/debug/manager");
/// command.args(["--health-probe-bind-address", &address]);
/// let mut manager = Process::start(&mut command);
/// eventually("probes", async || TcpStream::connect(&address).await.ok()).await;
/// assert!(manager.stop().await.success());
/// # }
/// ```
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts it.
    ///
    /// # Panics
    /// The program does not exist.
    pub fn start(command: &mut Command) -> Self {
        let child = command.spawn();
        Self(child.unwrap_or_else(|error| panic!("{command:?} should start: {error}")))
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.exit_status().is_none()
    }

    /// Sends SIGTERM, as a kubelet does.
    ///
    /// # Panics
    /// It has ended already.
    pub fn terminate(&mut self) {
        let ended = self.exit_status();
        assert_eq!(ended, None, "the process should be running");
        let kill = Command::new("kill").arg(self.0.id().to_string()).status();
        let kill = kill.expect("`kill` should be on PATH");
        assert!(kill.success(), "the process should take a signal");
    }

    /// Sends SIGTERM, as a kubelet does, and waits for the end.
    ///
    /// # Panics
    /// It has ended already, or does not end within two minutes.
    pub async fn stop(&mut self) -> ExitStatus {
        self.terminate();
        eventually("the end of the process", async || self.exit_status()).await
    }

    fn exit_status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().expect("a child should have a status")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_runs_until_it_is_stopped() {
        let mut process = Process::start(Command::new("sleep").arg("60"));
        assert!(process.is_running());
        assert!(
            !process.stop().await.success(),
            "sleep does not handle SIGTERM"
        );
        assert!(!process.is_running());
    }
}
