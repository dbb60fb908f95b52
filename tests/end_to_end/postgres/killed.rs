//! Scripts that are killed at a moment of their life.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::operator::machine::install;
use crate::postgres::cluster::Cluster;

/// A moment to kill a script at: before or after a call of a program, or so many seconds after it began.
#[derive(Clone)]
pub struct Kill {
    /// Which call of the script it is, from 1 on.
    pub call: usize,
    pub when: &'static str,
}

impl Kill {
    pub const NEVER: Self = Self { call: 0, when: "before" };
}

/// The programs that the scripts call.
const PROGRAMS: [&str; 32] = [
    "cat",
    "chmod",
    "cut",
    "date",
    "df",
    "du",
    "flock",
    "grep",
    "head",
    "initdb",
    "ls",
    "md5sum",
    "mkdir",
    "mv",
    "pg_basebackup",
    "pg_controldata",
    "pg_dump",
    "pg_dumpall",
    "pg_isready",
    "pg_restore",
    "pg_waldump",
    "postgres",
    "psql",
    "rm",
    "sed",
    "sleep",
    "sort",
    "sync",
    "tail",
    "touch",
    "tr",
    "wc",
];

fn calls(path: &Path) -> Vec<String> {
    let calls = fs::read_to_string(path).unwrap();
    calls.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

impl Cluster {
    /// Has a script call its programs by way of one that kills all of it at some moment.
    pub fn kill_within(&self, script: &mut Command, kill: &Kill, calls: &Path) {
        let folder = self.path("kill");
        if !folder.exists() {
            fs::create_dir(&folder).unwrap();
            let program = folder.join("program");
            install(&program, include_str!("kill.sh"));
            for name in PROGRAMS {
                symlink(&program, folder.join(name)).unwrap();
            }
        }
        fs::write(calls, "").unwrap();
        fs::set_permissions(calls, fs::Permissions::from_mode(0o666)).unwrap();
        let path = [&folder, &self.programs, Path::new("/usr/bin"), Path::new("/bin")];
        script.env("PATH", env::join_paths(path).unwrap());
        script.env("CALLS", calls).env("KILL_CALL", kill.call.to_string());
        script.env("KILL_WHEN", kill.when);
    }

    /// The programs that an instance has called.
    pub fn calls(&self, instance: usize) -> Vec<String> {
        calls(&self.path(&format!("{instance}.calls")))
    }

    /// Makes a backup that is killed at some moment. Returns the programs that it has called.
    pub fn backup_killed(&self, keep: usize, kill: &Kill) -> Vec<String> {
        let (mut backup, path) = (self.backup_script(keep), self.path("backup.calls"));
        self.kill_within(&mut backup, kill, &path);
        backup.process_group(0).output().unwrap();
        calls(&path)
    }
}
