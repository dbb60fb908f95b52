//! What is made once for a machine: each thing in a directory of opctl's cache, whose name has a hash of all
//! that determines it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::machine::cache;
use crate::wait::timed;

/// The path of what `make` writes there, unless it is there already.
pub fn cached(name: &str, recipe: &[&str], make: impl FnOnce(&Path)) -> PathBuf {
    let directory = cache().join("node");
    fs::create_dir_all(&directory).unwrap();
    let hash = Sha256::digest(recipe.join("\0"));
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let path = directory.join(format!("{name}-{hash}"));
    if path.exists() {
        return path;
    }
    let lock = File::create(directory.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    if !path.exists() {
        // On the same disk, so that it is complete as soon as it is there.
        let part = tempfile::tempdir_in(&directory).unwrap();
        let made = part.path().join(name);
        timed(&format!("making {name}"), || make(&made));
        fs::rename(made, &path).unwrap();
    }
    path
}
