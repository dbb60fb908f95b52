//! Pulls files of images from registries.

use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use oci_client::Reference;
use tar::{Archive, Entry};

use super::registry::{Registry, Transport};
use crate::error::UserError;

/// The most bytes that the files may have, so that an archive cannot fill the disk.
const MAX_SIZE: u64 = 50_000_000;
/// The first bytes of a gzip file (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Writes the files of an image that are below these directories to `target`.
///
/// # Errors
/// A [`UserError`] that says what the registry has refused, or what is wrong with the image.
pub fn unpack(name: &str, transport: Transport, directories: &[&str], target: &Path) -> Result<()> {
    name.parse::<Reference>().map_err(|error| {
        UserError::failure(format!("`{name}` is neither a directory nor an image: {error}"))
            .with_hint("name a directory with `manifests` and `metadata`, or an image such as example.com/bundle:v1")
    })?;
    let registry = Registry::pull(name, transport, &|_| {})?;
    let layers = registry.run(registry.layers())?;
    let mut room = MAX_SIZE;
    for layer in layers {
        unpack_layer(&layer, directories, target, &mut room)
            .with_context(|| format!("cannot unpack {name}"))?;
    }
    Ok(())
}

fn unpack_layer(
    layer: &[u8],
    directories: &[&str],
    target: &Path,
    room: &mut u64,
) -> io::Result<()> {
    let archive: Box<dyn Read + '_> = match layer.starts_with(&GZIP) {
        true => Box::new(GzDecoder::new(layer)),
        false => Box::new(layer),
    };
    for entry in Archive::new(archive).entries()? {
        let mut entry = entry?;
        let Some(path) = wanted(&entry, directories)? else { continue };
        let path = target.join(path);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut file = fs::File::create(path)?;
        let size = io::copy(&mut entry.by_ref().take(*room + 1), &mut file)?;
        *room = room.checked_sub(size).ok_or(io::ErrorKind::FileTooLarge)?;
    }
    Ok(())
}

/// The path of a file below one of the directories. Links are not files, and no path leads out.
fn wanted(entry: &Entry<'_, impl Read>, directories: &[&str]) -> io::Result<Option<PathBuf>> {
    let path = entry.path()?;
    let parts =
        path.components().filter(|part| !matches!(part, Component::CurDir | Component::RootDir));
    let parts: Vec<Component<'_>> = parts.collect();
    let is_inside = matches!(parts.as_slice(), [Component::Normal(first), _, ..]
        if directories.iter().any(|directory| first == directory));
    let is_plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
    let is_file = entry.header().entry_type().is_file();
    Ok((is_inside && is_plain && is_file).then(|| parts.iter().collect()))
}

#[cfg(test)]
mod tests {
    use tar::{Builder, EntryType, Header};

    use super::*;

    /// An archive with files, whose paths are written as they are.
    fn archive(files: &[(&str, EntryType)]) -> Vec<u8> {
        let mut archive = Builder::new(Vec::new());
        for (path, kind) in files {
            let mut header = Header::new_ustar();
            header.as_ustar_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(2);
            header.set_cksum();
            archive.append(&header, &b"a\n"[..]).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn unpacked(files: &[(&str, EntryType)], room: u64) -> io::Result<Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        let archive = archive(files);
        unpack_layer(&archive, &["manifests"], &target, &mut { room })?;
        let entries = fs::read_dir(directory.path()).unwrap().flatten();
        assert!(entries.map(|entry| entry.file_name()).all(|name| name == "target"));
        let Ok(entries) = fs::read_dir(target.join("manifests")) else { return Ok(Vec::new()) };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        Ok(names.collect())
    }

    #[test]
    fn files_below_the_directories_are_unpacked() {
        let file = EntryType::Regular;
        let files = [("manifests/a.yaml", file), ("./manifests/b.yaml", file), ("bin/sh", file)];
        let mut names = unpacked(&files, 10).unwrap();
        names.sort();
        assert_eq!(names, ["a.yaml", "b.yaml"]);
    }

    #[test]
    fn nothing_leaves_the_target() {
        let file = EntryType::Regular;
        let files = [
            ("manifests/../../a", file),
            ("../a", file),
            ("manifests/link", EntryType::Symlink),
            ("manifests/hard", EntryType::Link),
        ];
        assert!(unpacked(&files, 10).unwrap().is_empty());
    }

    #[test]
    fn large_images_are_refused() {
        let files =
            [("manifests/a.yaml", EntryType::Regular), ("manifests/b.yaml", EntryType::Regular)];
        assert!(unpacked(&files, 4).is_ok());
        assert!(unpacked(&files, 3).is_err());
    }
}
