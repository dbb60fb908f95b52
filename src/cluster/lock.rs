//! Locks between processes. The system lets go of them when their holder ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::thread::sleep;

use anyhow::{Context, Result};

use super::exec::POLL_INTERVAL;

/// A lock that is held until the value is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the lock lives as long as the open file")] File);

impl Lock {
    /// Waits for the lock. `tick` is called while it is held elsewhere, and ends the waiting by
    /// failing.
    ///
    /// # Errors
    /// When the file cannot be opened, and the errors of `tick`.
    pub fn exclusive(path: &Path, mut tick: impl FnMut() -> Result<()>) -> Result<Self> {
        loop {
            if let Some(lock) = Self::try_exclusive(path)? {
                return Ok(lock);
            }
            tick()?;
            sleep(POLL_INTERVAL);
        }
    }

    /// The lock, unless someone has it or a share of it.
    ///
    /// # Errors
    /// When the file cannot be opened or locked.
    pub fn try_exclusive(path: &Path) -> Result<Option<Self>> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("cannot lock `{}`", path.display()))
            }
        }
    }

    /// A share of the lock.
    ///
    /// # Errors
    /// When the file cannot be opened or locked.
    pub fn shared(path: &Path) -> Result<Self> {
        let file = open(path)?;
        file.lock_shared().with_context(|| format!("cannot lock `{}`", path.display()))?;
        Ok(Self(file))
    }
}

/// Lock files are never removed: another process might be about to lock the one that is removed.
fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    options.open(path).with_context(|| format!("cannot open `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn an_exclusive_lock_excludes_and_shares_exclude_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");

        let lock = Lock::try_exclusive(&path).unwrap();
        assert!(lock.is_some());
        assert!(Lock::try_exclusive(&path).unwrap().is_none());
        assert!(Lock::exclusive(&path, || bail!("enough")).is_err());
        drop(lock);

        let shares = [Lock::shared(&path).unwrap(), Lock::shared(&path).unwrap()];
        assert!(Lock::try_exclusive(&path).unwrap().is_none());
        drop(shares);
        assert!(Lock::try_exclusive(&path).unwrap().is_some());
    }
}
