//! Writes an image in the form that other tools read: a directory, or an archive for `docker load`.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tar::Builder;
use tempfile::{NamedTempFile, TempDir};

use super::attachment::{self, Attachment};
use super::blob::{self, Blob};
use super::document::PlatformImage;
use super::layer::ImageFile;
use super::reference::Reference;
use crate::error::UserError;

/// The file that marks a directory as an image
/// (<https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md>).
const MARK: &str = "oci-layout";
/// The entry point of the directory.
const INDEX: &str = "index.json";
/// The directory of the contents, by their hashes.
const BLOBS: &str = "blobs/sha256";
/// The annotation with the tag of an image.
const REFERENCE: &str = "org.opencontainers.image.ref.name";

/// Where an image is written in a project.
pub const DIRECTORY: &str = "target/image";

/// The directory in the project at `root` that an image is written to.
///
/// # Errors
/// A [`UserError`] if a link leads out of the project, to where `CARGO_TARGET_DIR` does not permit to write.
pub fn default_directory(root: &Path) -> Result<PathBuf, UserError> {
    let target = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let permitted = [Some(root.to_owned()), target];
    let mut permitted = permitted.into_iter().flatten().filter_map(|path| path.canonicalize().ok());
    // The link may lead to what does not exist yet.
    let path = root.join(DIRECTORY);
    let existing = path.ancestors().find(|path| path.symlink_metadata().is_ok());
    let place = existing.and_then(|path| path.canonicalize().ok());
    if place.is_some_and(|place| permitted.any(|directory| place.starts_with(directory))) {
        return Ok(DIRECTORY.into());
    }
    let problem = format!("{DIRECTORY} leads out of the project through a symbolic link");
    let hint =
        "name a directory with `--output`, or set CARGO_TARGET_DIR to the target of the link";
    Err(UserError::failure(problem).with_hint(hint))
}

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
    attachments: &'a [Attachment],
    reference: &Reference,
) -> Result<(), UserError> {
    check_directory(path)?;
    let write = || {
        let parent = parent(path);
        fs::create_dir_all(parent)?;
        let new = tempfile::tempdir_in(parent)?;
        fill(new.path(), blobs, image, attachments, reference)?;
        replace(path, new)
    };
    write().map_err(|error| cannot_write(path, &error))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn cannot_write(path: &Path, error: &io::Error) -> UserError {
    let problem = UserError::failure(format!("cannot write {}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => problem.with_hint(
            "delete what is not needed there, or name a place on another disk; \
             what was there before stays",
        ),
        _ => problem,
    }
}

fn fill<'a>(
    directory: &Path,
    blobs: impl Iterator<Item = &'a Blob>,
    image: &'a Blob,
    attachments: &'a [Attachment],
    reference: &Reference,
) -> io::Result<()> {
    let mut descriptor = image.descriptor();
    descriptor["annotations"] = json!({
        "io.containerd.image.name": reference.to_string(),
        REFERENCE: reference.tag(),
    });
    let descriptors: Vec<Value> = attachments.iter().map(Attachment::descriptor).collect();
    let referrers = blob::index(&descriptors);
    let mut listed = referrers.descriptor();
    listed["annotations"] = json!({ REFERENCE: attachment::tag(&image.digest) });
    let index = blob::index(&[descriptor, listed]);
    fs::write(directory.join(MARK), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    fs::write(directory.join(INDEX), index.bytes)?;
    let contents = directory.join(BLOBS);
    fs::create_dir_all(&contents)?;
    let attached = attachments.iter().flat_map(Attachment::blobs);
    for blob in blobs.chain([image]).chain(attached) {
        fs::write(contents.join(blob.hash()), &blob.bytes)?;
    }
    fs::write(contents.join(referrers.hash()), &referrers.bytes)?;
    Ok(())
}

/// A document about an image.
#[derive(Debug)]
pub struct Document {
    /// What it is.
    pub media_type: String,
    /// The contents.
    pub bytes: Vec<u8>,
}

/// The documents about the image with this digest in a directory that [`write_directory`] has written. `None` if
/// the directory does not have the image.
///
/// # Errors
/// If a file cannot be read, or is not what its digest says.
pub fn documents(directory: &Path, digest: &str) -> Result<Option<Vec<Document>>> {
    let path = directory.join(INDEX);
    let index = match fs::read(&path) {
        Ok(index) => index,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let tag = attachment::tag(digest);
    let index: Index = serde_json::from_slice(&index)
        .with_context(|| format!("{} is not an index", path.display()))?;
    let is_list = |entry: &&Descriptor| entry.annotations.get(REFERENCE) == Some(&tag);
    let Some(list) = index.manifests.iter().find(is_list) else { return Ok(None) };
    let list: Index = read_document(directory, list)?;
    let mut documents = Vec::new();
    for referrer in &list.manifests {
        let referrer: Referrer = read_document(directory, referrer)?;
        for layer in &referrer.layers {
            let bytes = read_blob(directory, layer)?;
            documents.push(Document { media_type: referrer.artifact_type.clone(), bytes });
        }
    }
    Ok(Some(documents))
}

/// A list of manifests.
#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

/// The manifest of a document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Referrer {
    artifact_type: String,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

fn read_document<T: DeserializeOwned>(directory: &Path, descriptor: &Descriptor) -> Result<T> {
    let bytes = read_blob(directory, descriptor)?;
    let digest = &descriptor.digest;
    serde_json::from_slice(&bytes)
        .with_context(|| format!("{digest} in {} has another form", directory.display()))
}

fn read_blob(directory: &Path, descriptor: &Descriptor) -> Result<Vec<u8>> {
    let digest = &descriptor.digest;
    // What is not a hash is no name of a file.
    let hash =
        digest.strip_prefix("sha256:").filter(|it| it.bytes().all(|b| b.is_ascii_hexdigit()));
    let hash = hash.with_context(|| format!("{} names {digest}", directory.display()))?;
    let path = directory.join(BLOBS).join(hash);
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(blob::digest(&bytes) == *digest, "{} was changed", path.display());
    Ok(bytes)
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
/// (<https://github.com/moby/moby/blob/v28.0.0/image/tarexport/tarexport.go>). It takes the place of an older
/// file when it is complete.
///
/// # Errors
/// A [`UserError`] if the file cannot be written.
pub fn write_archive(
    path: &Path,
    image: &PlatformImage,
    reference: &Reference,
) -> Result<(), UserError> {
    let write = || {
        // A pipe or a device cannot be replaced.
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return archive(File::create(path)?, image, reference);
        }
        let new = NamedTempFile::new_in(parent(path))?;
        archive(new.as_file(), image, reference)?;
        // A temporary file is for its user alone.
        fs::set_permissions(new.path(), fs::Permissions::from_mode(0o644))?;
        new.persist(path)?;
        Ok(())
    };
    write().map_err(|error| cannot_write(path, &error))
}

fn archive(file: impl Write, image: &PlatformImage, reference: &Reference) -> io::Result<()> {
    let mut archive = Builder::new(BufWriter::new(file));
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
        ImageFile { path, mode: 0o644, bytes }.append_to(&mut archive, 0)?;
    }
    archive.into_inner()?.flush()
}
