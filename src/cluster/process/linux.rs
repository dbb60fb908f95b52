//! The processes of Linux, from /proc.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::{self, Errno};
use rustix::process::{
    Pid, PidfdFlags, Signal, geteuid, getpid, kill_process, pidfd_open, pidfd_send_signal,
};

use super::Process;

/// The processes of this user, except for this one and its ancestors. Zombies have no arguments and are not
/// included.
pub fn all() -> Vec<Process> {
    let ancestors = ancestors();
    let pid = |entry: fs::DirEntry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?);
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(pid);
    pids.filter(|pid| !ancestors.contains(pid)).filter_map(read).collect()
}

/// Kills exactly this process, and not another one that has its pid by now.
pub fn kill(process: &Process) -> io::Result<()> {
    match pidfd_open(process.pid, PidfdFlags::empty()) {
        Ok(descriptor) if read(process.pid).as_ref() == Some(process) => {
            pidfd_send_signal(descriptor, Signal::KILL)
        }
        Ok(_) => Err(Errno::SRCH),
        // Before Linux 5.3.
        Err(Errno::NOSYS) => kill_process(process.pid, Signal::KILL),
        Err(error) => Err(error),
    }
}

/// Whether a process that was found has ended, and with it all that it has opened.
pub fn has_ended(process: &Process) -> bool {
    let Some(fields) = stat(process.pid) else { return true };
    let is_another = fields.get(START) != Some(&process.start.to_string());
    let is_zombie = fields.get(STATE).is_some_and(|state| state == "Z" || state == "X");
    // The first thread may be the first to end.
    let is_alone = fields.get(THREADS).is_some_and(|threads| threads == "0" || threads == "1");
    is_another || is_zombie && is_alone
}

fn read(pid: Pid) -> Option<Process> {
    let directory = PathBuf::from(format!("/proc/{pid}"));
    if fs::metadata(&directory).ok()?.uid() != geteuid().as_raw() {
        return None;
    }
    let line = fs::read(directory.join("cmdline")).ok()?;
    let arguments = line.strip_suffix(&[0]).unwrap_or(&line).split(|byte| *byte == 0);
    let arguments: Vec<OsString> = arguments.map(|text| OsStr::from_bytes(text).into()).collect();
    let program = program(fs::read_link(directory.join("exe")).ok()?);
    let start = stat(pid)?.get(START)?.parse().ok()?;
    (!line.is_empty()).then_some(Process { pid, start, program, arguments })
}

/// The path of a program. Linux appends this to the path of a file that was replaced or deleted.
fn program(path: PathBuf) -> PathBuf {
    let bytes = path.into_os_string().into_vec();
    let path = bytes.strip_suffix(b" (deleted)").unwrap_or(&bytes);
    Path::new(OsStr::from_bytes(path)).to_owned()
}

/// This process and its ancestors.
fn ancestors() -> Vec<Pid> {
    let parent = |pid: &Pid| Pid::from_raw(stat(*pid)?.get(PARENT)?.parse().ok()?);
    std::iter::successors(Some(getpid()), parent).collect()
}

/// The indices of the fields of [`stat`].
const STATE: usize = 0;
const PARENT: usize = 1;
const THREADS: usize = 17;
const START: usize = 19;

/// The fields of `/proc/PID/stat` after the name, which can contain blanks and parentheses.
fn stat(pid: Pid) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}
