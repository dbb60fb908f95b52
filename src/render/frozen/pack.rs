//! Packs the templates of releases. The build script does so, too.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

/// An archive of the directories in `frozen`, each of which has the version of a release as its name. A
/// text that several files have is stored once.
///
/// # Errors
/// If a file cannot be read.
pub fn pack(frozen: &Path) -> Result<Vec<u8>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(frozen)? {
        let directory = entry?.path();
        if directory.is_dir() {
            collect(frozen, &directory, &mut files)?;
        }
    }
    // The versions of a file beside each other: most of the second is in the first.
    files.sort_by_cached_key(|(name, _)| match name.split_once('/') {
        Some((version, path)) => (path.to_owned(), version.to_owned()),
        None => (name.clone(), String::new()),
    });

    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    let mut names: HashMap<Vec<u8>, String> = HashMap::new();
    for (name, path) in files {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        match names.entry(fs::read(path)?) {
            Entry::Occupied(first) => {
                header.set_entry_type(EntryType::Link);
                header.set_size(0);
                archive.append_link(&mut header, &name, first.get())?;
            }
            Entry::Vacant(vacant) => {
                header.set_size(vacant.key().len() as u64);
                archive.append_data(&mut header, &name, vacant.key().as_slice())?;
                vacant.insert(name);
            }
        }
    }
    archive.into_inner()?.finish()
}

/// The files below a directory, by their names from `root`.
fn collect(root: &Path, directory: &Path, files: &mut Vec<(String, PathBuf)>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            files.push((name.to_owned(), path));
        }
    }
    Ok(())
}
