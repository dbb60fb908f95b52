//! The processes of macOS, from the system calls below `ps`, whose text is ambiguous.

use rustix::io;
use rustix::process::{Pid, Signal, geteuid, getpid, kill_process};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

use super::Process;

/// The processes of this user, except for this one and its ancestors. Zombies have no arguments and are not
/// included.
pub fn all() -> Vec<Process> {
    let system = update(ProcessesToUpdate::All);
    let parent = |pid: &sysinfo::Pid| system.process(*pid)?.parent();
    let this = sysinfo::Pid::from_u32(getpid().as_raw_nonzero().get().unsigned_abs());
    let ancestors: Vec<sysinfo::Pid> = std::iter::successors(Some(this), parent).collect();
    let processes = system.processes().values();
    processes.filter(|process| !ancestors.contains(&process.pid())).filter_map(convert).collect()
}

/// Kills this process, and not another one that has its pid by now.
pub fn kill(process: &Process) -> io::Result<()> {
    let pid = sysinfo::Pid::from_u32(process.pid.as_raw_nonzero().get().unsigned_abs());
    let system = update(ProcessesToUpdate::Some(&[pid]));
    match system.process(pid).and_then(convert) {
        Some(current) if current == *process => kill_process(process.pid, Signal::KILL),
        _ => Err(io::Errno::SRCH),
    }
}

/// Whether a process that was found has ended.
pub fn has_ended(process: &Process) -> bool {
    !all().contains(process)
}

fn update(processes: ProcessesToUpdate<'_>) -> System {
    let kind = ProcessRefreshKind::nothing()
        .with_user(UpdateKind::Always)
        .with_exe(UpdateKind::Always)
        .with_cmd(UpdateKind::Always);
    let mut system = System::new();
    system.refresh_processes_specifics(processes, true, kind);
    system
}

fn convert(process: &sysinfo::Process) -> Option<Process> {
    if **process.effective_user_id()? != geteuid().as_raw() || process.cmd().is_empty() {
        return None;
    }
    Some(Process {
        pid: Pid::from_raw(i32::try_from(process.pid().as_u32()).ok()?)?,
        start: process.start_time(),
        program: process.exe()?.to_owned(),
        arguments: process.cmd().to_vec(),
    })
}
