//! The cache of the programs, in which one opctl at a time installs them, and no program is ever incomplete.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::lock::Lock;
use super::signals::Signals;
use crate::ui::Ui;

/// Waits until no other opctl installs programs in the directory `home`.
///
/// # Errors
/// If the lock file cannot be opened, and if opctl was interrupted.
pub fn lock(ui: Ui, signals: &Signals, home: &Path) -> Result<Lock> {
    let path = home.join("lock");
    let mut is_reported = false;
    let lock = Lock::exclusive(&path, || {
        if !is_reported {
            ui.status("Waiting", "for another opctl to install the control plane");
            is_reported = true;
        }
        signals.check()
    })?;
    lock.with_context(|| format!("`{}` was deleted", path.display()))
}

/// Removes the incomplete programs that a killed opctl left behind. The caller holds the lock, so they do not
/// belong to a running opctl.
///
/// # Errors
/// If the directory cannot be read or changed.
pub fn remove_incomplete(bin: &Path) -> Result<()> {
    for entry in fs::read_dir(bin)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with('.') {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_a_killed_opctl_are_removed_and_programs_stay() {
        let bin = tempfile::tempdir().unwrap();
        fs::write(bin.path().join(".etcd.1"), "half").unwrap();
        fs::write(bin.path().join("etcd"), "whole").unwrap();

        remove_incomplete(bin.path()).unwrap();

        let remaining: Vec<_> =
            fs::read_dir(bin.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(remaining, ["etcd"]);
    }
}
