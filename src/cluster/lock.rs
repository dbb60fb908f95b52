//! Locks between processes. The system releases them when their holder ends, also if it is killed.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;

use anyhow::{Context, Result};
use rustix::io::{FdFlags, fcntl_setfd};

use super::exec::POLL_INTERVAL;

/// A lock that is held until the value is dropped.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Releases the lock of all processes that inherited it.
        let _ = self.0.unlock();
    }
}

impl Lock {
    /// Waits for the lock and calls `tick` meanwhile, which can end the wait with an error. `None` if the
    /// file was deleted by the process that held the lock.
    ///
    /// # Errors
    /// If the file cannot be opened, and the errors of `tick`.
    pub fn exclusive(path: &Path, mut tick: impl FnMut() -> Result<()>) -> Result<Option<Self>> {
        let file = match open(path) {
            Ok(file) => file,
            Err(_) if path.parent().is_some_and(|directory| !directory.exists()) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        while !try_lock(&file, path)? {
            tick()?;
            sleep(POLL_INTERVAL);
        }
        let lock = Self(file);
        let locked = lock.0.metadata()?;
        let is_current =
            |current: Metadata| current.ino() == locked.ino() && current.dev() == locked.dev();
        Ok(path.metadata().is_ok_and(is_current).then_some(lock))
    }

    /// Takes the lock, unless another process holds it exclusively or shared.
    ///
    /// # Errors
    /// If the file cannot be opened or locked.
    pub fn try_exclusive(path: &Path) -> Result<Option<Self>> {
        let file = open(path)?;
        Ok(try_lock(&file, path)?.then(|| Self(file)))
    }

    /// Waits for a shared lock. If this process is killed, the programs that it started hold the lock until
    /// they end.
    ///
    /// # Errors
    /// If the file cannot be opened or locked.
    pub fn shared_with_children(path: &Path) -> Result<Self> {
        let file = open(path)?;
        let context = || format!("cannot lock `{}`", path.display());
        file.lock_shared().with_context(context)?;
        fcntl_setfd(&file, FdFlags::empty()).with_context(context)?;
        Ok(Self(file))
    }
}

fn try_lock(file: &File, path: &Path) -> Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock `{}`", path.display()))
        }
    }
}

fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path).with_context(|| format!("cannot open `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn exclusive_lock_excludes_all_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");

        let lock = Lock::try_exclusive(&path).unwrap();
        assert!(lock.is_some());
        assert!(Lock::try_exclusive(&path).unwrap().is_none());
        assert!(Lock::exclusive(&path, || bail!("enough")).is_err());
        drop(lock);

        let share = || Lock::shared_with_children(&path).unwrap();
        let shares = [share(), share()];
        assert!(Lock::try_exclusive(&path).unwrap().is_none());
        drop(shares);
        assert!(Lock::try_exclusive(&path).unwrap().is_some());
    }

    #[test]
    fn the_lock_of_a_deleted_file_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock = Lock::try_exclusive(&path).unwrap();

        let waiting = Lock::exclusive(&path, || {
            // What the holder of the lock does.
            lock.as_ref().unwrap().0.unlock().unwrap();
            Ok(std::fs::remove_file(&path)?)
        });
        assert!(waiting.unwrap().is_none());
        assert!(Lock::exclusive(&path, || Ok(())).unwrap().is_some());
        assert!(Lock::exclusive(&directory.path().join("none/lock"), || Ok(())).unwrap().is_none());
    }

    #[test]
    fn a_released_lock_is_free_for_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let is_free = || Lock::try_exclusive(&path).unwrap().is_some();

        let lock = Lock::shared_with_children(&path).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(lock);
        assert!(is_free(), "a background process of a command holds the lock");

        child.kill().unwrap();
        child.wait().unwrap();
    }
}
