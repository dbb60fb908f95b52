//! A command in the background, in a process group of its own as a terminal gives it one.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process_group};

use super::wait::eventually;

/// Shows its output when the test fails, and leaves no process behind.
pub struct Background {
    what: String,
    child: Child,
    log: PathBuf,
}

impl Background {
    /// Starts the command; what it prints goes to the file `log`.
    pub fn start(what: &str, mut command: Command, log: PathBuf) -> Self {
        let output = File::create(&log).unwrap();
        command.stdout(output.try_clone().unwrap()).stderr(output).process_group(0);
        let child = command.spawn().unwrap();
        Self { what: what.to_owned(), child, log }
    }

    /// What it has printed so far.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Whether the command has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Fails the test when the command has ended.
    pub fn assert_runs(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "{} has ended: {ended:?}", self.what);
    }

    /// Sends the signal to the whole group, as a terminal does, and waits for the end.
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        self.send(signal);
        self.wait()
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> ExitStatus {
        let what = format!("end of {}", self.what);
        eventually(&what, || self.child.try_wait().unwrap().ok_or_else(|| "it runs".to_owned()))
    }

    /// Sends the signal to the whole group.
    pub fn send(&self, signal: Signal) {
        let _ = kill_process_group(self.pid(), signal); // it may have ended meanwhile
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.send(Signal::KILL);
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("---- {}:\n{}----", self.what, self.log());
        }
    }
}
