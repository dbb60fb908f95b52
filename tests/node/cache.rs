//! What is made once for a machine: each thing in a directory of opctl's cache, whose name has a hash of all
//! that determines it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::machine::cache;
use crate::wait::timed;

/// How many versions of a thing stay, the last used ones: other branches have theirs.
const VERSIONS: usize = 3;

/// The path of what `make` writes there, unless it is there already.
pub fn cached(name: &str, recipe: &[&str], make: impl FnOnce(&Path)) -> PathBuf {
    cached_in(&cache().join("node"), name, recipe, make)
}

fn cached_in(directory: &Path, name: &str, recipe: &[&str], make: impl FnOnce(&Path)) -> PathBuf {
    fs::create_dir_all(directory).unwrap();
    let hash = Sha256::digest(recipe.join("\0"));
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let path = directory.join(format!("{name}-{hash}"));
    if path.exists() {
        use_now(&path);
        return path;
    }
    let lock = File::create(directory.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    if !path.exists() {
        let part = format!("{name}.part-");
        // Of runs that were killed.
        for left in with_prefix(directory, &part) {
            remove(&left);
        }
        // On the same disk, so that it is complete as soon as it is there.
        let part = tempfile::Builder::new().prefix(&part).tempdir_in(directory).unwrap();
        let made = part.path().join(name);
        timed(&format!("making {name}"), || make(&made));
        fs::rename(made, &path).unwrap();
        use_now(&path);
        let mut versions = with_prefix(directory, &format!("{name}-"));
        versions.sort_by_key(|version| fs::metadata(version).unwrap().modified().unwrap());
        versions.truncate(versions.len().saturating_sub(VERSIONS));
        for old in versions {
            // What is removed in part must not seem to be there.
            let part = part.path().join("old");
            fs::rename(old, &part).unwrap();
            remove(&part);
        }
    }
    path
}

fn use_now(path: &Path) {
    File::open(path).unwrap().set_modified(SystemTime::now()).unwrap();
}

fn with_prefix(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.filter(|name| name.to_string_lossy().starts_with(prefix));
    names.map(|name| directory.join(name)).collect()
}

fn remove(path: &Path) {
    match path.is_dir() {
        true => fs::remove_dir_all(path).unwrap(),
        false => fs::remove_file(path).unwrap(),
    }
}

/// A developer's disk does not fill up with what former versions of a recipe have made.
pub fn old_versions_leave_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let make = |version: &str| {
        let write = |path: &Path| fs::write(path, version).unwrap();
        cached_in(directory.path(), "thing", &[version], write)
    };
    fs::create_dir(directory.path().join("thing.part-killed")).unwrap();
    let versions = ["first", "second", "third"].map(make);
    make("first");
    let last = make("last");
    let expected = [&versions[0], &versions[2], &last];
    let mut left = with_prefix(directory.path(), "thing");
    left.retain(|path| !path.ends_with("thing.lock"));
    assert_eq!(left.len(), expected.len(), "{left:?}");
    assert!(expected.iter().all(|path| left.contains(path)), "{left:?}");
    assert_eq!(make("second"), versions[1], "it is made again");
}
