//! Writes an image in the form that other tools read: a directory, or an archive for `docker load`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tar::Builder;
use tempfile::TempDir;

use super::attachment::{self, Attachment};
use super::blob::{self, Blob};
use super::document::PlatformImage;
use super::layer::ImageFile;
use super::reference::Reference;
use crate::error::UserError;

/// The file that marks a directory as an image
/// (<https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md>).
const MARK: &str = "oci-layout";

/// Checks that there is nothing but an older image at a path.
///
/// # Errors
/// A [`UserError`] if there is something else.
pub fn check_directory(path: &Path) -> Result<(), UserError> {
    let is_empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if !path.exists() || path.join(MARK).is_file() || is_empty() {
        return Ok(());
    }
    let problem = format!("{} exists, and is not an image", path.display());
    Err(UserError::failure(problem).with_hint("name another directory with `--output`"))
}

/// Writes an image as a directory. It takes the place of an older image, but of nothing else.
///
/// # Errors
/// A [`UserError`] if there is something else; another error if the directory cannot be written.
pub fn write_directory<'a>(
    path: &Path,
    blobs: impl Iterator<Item = &'a Blob>,
    image: &'a Blob,
    attachment: &'a Attachment,
    reference: &Reference,
) -> Result<()> {
    check_directory(path)?;
    let cannot_write = || format!("cannot write {}", path.display());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent).with_context(cannot_write)?;
    let new = tempfile::tempdir_in(parent).with_context(cannot_write)?;
    fill(new.path(), blobs, image, attachment, reference).with_context(cannot_write)?;
    replace(path, new).with_context(cannot_write)
}

fn fill<'a>(
    directory: &Path,
    blobs: impl Iterator<Item = &'a Blob>,
    image: &'a Blob,
    attachment: &'a Attachment,
    reference: &Reference,
) -> io::Result<()> {
    let mut descriptor = image.descriptor();
    descriptor["annotations"] = json!({
        "io.containerd.image.name": reference.to_string(),
        "org.opencontainers.image.ref.name": reference.tag(),
    });
    let referrers = blob::index(&[attachment.descriptor()]);
    let mut listed = referrers.descriptor();
    listed["annotations"] = json!({ "org.opencontainers.image.ref.name": attachment::tag(image) });
    let index = blob::index(&[descriptor, listed]);
    fs::write(directory.join(MARK), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    fs::write(directory.join("index.json"), index.bytes)?;
    let contents = directory.join("blobs/sha256");
    fs::create_dir_all(&contents)?;
    let attached = attachment.contents().chain([&attachment.manifest]);
    for blob in blobs.chain([image]).chain(attached) {
        fs::write(contents.join(blob.hash()), &blob.bytes)?;
    }
    fs::write(contents.join(referrers.hash()), &referrers.bytes)?;
    Ok(())
}

/// Moves a directory to a path, where the old one stays until then.
fn replace(path: &Path, new: TempDir) -> io::Result<()> {
    // A temporary directory is for its user alone.
    fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755))?;
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(new.keep(), path)
}

/// Writes an image for one platform as an archive that `docker load` and `podman load` read
/// (<https://github.com/moby/moby/blob/v28.0.0/image/tarexport/tarexport.go>).
///
/// # Errors
/// If the file cannot be written.
pub fn write_archive(path: &Path, image: &PlatformImage, reference: &Reference) -> Result<()> {
    let cannot_write = || format!("cannot write {}", path.display());
    let mut archive = Builder::new(BufWriter::new(File::create(path).with_context(cannot_write)?));
    let name = |blob: &Blob| format!("{}.tar.gz", blob.hash());
    let config = format!("{}.json", image.config.hash());
    let layers: Vec<String> = image.layers.iter().map(|layer| name(&layer.blob)).collect();
    let manifest: Value =
        json!([{ "Config": config, "RepoTags": [reference.to_string()], "Layers": layers }]);
    let mut files = vec![(config, image.config.bytes.as_slice())];
    files.extend(image.layers.iter().map(|layer| (name(&layer.blob), &layer.blob.bytes[..])));
    let manifest = manifest.to_string();
    files.push(("manifest.json".to_owned(), manifest.as_bytes()));
    for (path, bytes) in &files {
        let file = ImageFile { path, mode: 0o644, bytes };
        file.append_to(&mut archive, 0).with_context(cannot_write)?;
    }
    archive.into_inner().and_then(|mut file| file.flush()).with_context(cannot_write)
}
