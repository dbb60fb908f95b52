//! What kstatus, on which `helm --wait` and Flux rely, takes a status for. It is a Go library: the
//! program in tests/kstatus calls it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::operator::cluster::text;
use crate::operator::project::finished;
use crate::operator::wait::timed;

/// What kstatus calls the state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Current,
    InProgress,
    Failed,
    Terminating,
}

pub struct Kstatus(PathBuf);

impl Kstatus {
    /// Compiles it, with the Go that the control plane is built with.
    pub fn build() -> Self {
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kstatus");
        let mut go = Command::new("go");
        go.args(["build", "-buildvcs=false", "-mod=readonly", "-o"]).arg(&binary).arg(".");
        go.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kstatus"));
        timed("go build of kstatus", || finished("go build", go.output().unwrap()));
        Self(binary)
    }

    /// The verdict on each object.
    pub fn judge(&self, objects: &[&Value]) -> Vec<Verdict> {
        let mut command = Command::new(&self.0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut kstatus = command.spawn().unwrap();
        let mut input = kstatus.stdin.take().unwrap();
        let lines: String = objects.iter().map(|object| format!("{object}\n")).collect();
        // It answers while it reads.
        let writer = thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
        let output = kstatus.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success());
        let verdicts: Vec<_> = text(&output.stdout).lines().map(verdict).collect();
        assert_eq!(verdicts.len(), objects.len());
        verdicts
    }
}

fn verdict(line: &str) -> Verdict {
    match line.split(' ').next() {
        Some("Current") => Verdict::Current,
        Some("InProgress") => Verdict::InProgress,
        Some("Failed") => Verdict::Failed,
        Some("Terminating") => Verdict::Terminating,
        _ => panic!("{line}"),
    }
}
