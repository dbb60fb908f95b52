//! Builds the image of an operator without Docker, without root and without a network.
//!
//! An image is a few documents and archives that name each other by their digests
//! (<https://github.com/opencontainers/image-spec>). That of an operator has one file: a static binary, which
//! needs no base image. The same sources always are the same image, in whatever directory they are.
//!
//! # Build type 1
//!
//! Provenance of the build type `https://docs.rs/opctl/latest/opctl/package/image/index.html#build-type-1` says
//! that `opctl image build` made an image: it ran `cargo build --release --bin manager` for each of the targets, and
//! put the binary into a layer. Its parameters are those of the command:
//!
//! - `platforms`: the platforms of the image;
//! - `caCertificates`, if there are any: the digest of the file;
//! - `rustflags`, if it is set: `RUSTFLAGS`;
//! - `targets` (internal): what rustc compiled for.
//!
//! Its dependencies are the commit (without a digest, if there were other changes), `Cargo.lock` with its digest,
//! and the compiler.

mod answer;
mod attachment;
mod blob;
mod compile;
mod credentials;
mod document;
mod failure;
mod key;
mod layer;
mod layout;
mod platform;
mod provenance;
mod pull;
mod push;
mod reference;
mod registry;
mod sbom;
mod sign;
mod source;
mod statement;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Map;

use crate::project::Project;
use attachment::Attachment;
use blob::Blob;
use document::PlatformImage;
use layer::{ImageFile, Layer};
use provenance::Build;
use registry::{Purpose, Registry};
use source::Source;

pub use key::PrivateKey;
pub use layout::{DIRECTORY, check_directory, default_directory};
pub use platform::Platform;
pub use pull::unpack;
pub use push::pinned;
pub use reference::Reference;
pub use registry::Transport;
pub use sign::{Signed, sign};

/// Where programs look for the certificates of authorities (<https://pkg.go.dev/crypto/x509#SystemCertPool>).
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// What to build.
#[derive(Debug)]
pub struct ImageRequest {
    /// The name of the image.
    pub reference: Reference,
    /// The platforms that it runs on.
    pub platforms: Vec<Platform>,
    /// A file with the certificates of the authorities that the operator trusts besides that of its cluster.
    pub certificates: Option<PathBuf>,
}

/// An image that was built.
#[derive(Debug)]
pub struct Image {
    reference: Reference,
    /// One for each platform.
    images: Vec<PlatformImage>,
    /// What the name stands for: the manifest or, of several platforms, their index.
    root: Blob,
    /// What it is made of, and how.
    attachments: Vec<Attachment>,
}

impl Image {
    /// Builds the image of the operator in a directory. `begin` is told each platform before its build.
    ///
    /// # Errors
    /// If the operator cannot be built, or if a file cannot be read.
    pub fn build(
        root: &Path,
        project: &Project,
        request: &ImageRequest,
        begin: impl Fn(Platform),
    ) -> Result<Self> {
        let source = Source::of(root, project)?;
        let certificates = match &request.certificates {
            Some(path) => {
                let bytes = fs::read(path);
                Some(bytes.with_context(|| format!("cannot read {}", path.display()))?)
            }
            None => None,
        };
        let mut images = Vec::new();
        for platform in &request.platforms {
            begin(*platform);
            let binary = compile::build(root, *platform)?;
            let mut files = vec![ImageFile { path: compile::BINARY, mode: 0o555, bytes: &binary }];
            files.extend(certificates.as_deref().map(|bytes| ImageFile {
                path: CERTIFICATES,
                mode: 0o444,
                bytes,
            }));
            let layers: Result<_, _> =
                files.iter().map(|file| Layer::of(file, source.time)).collect();
            images.push(PlatformImage::new(*platform, layers?, &source));
        }
        let manifest = match images.as_slice() {
            [image] => image.manifest.clone(),
            images => document::index(images, source.annotations()),
        };
        let build = Build {
            platforms: &request.platforms,
            certificates: certificates.as_deref(),
            rustc: compile::rustc_version(),
        };
        let documents = [
            sbom::document(root, &source, &manifest)?,
            provenance::document(root, &source, &build, &manifest)?,
        ];
        let subject = manifest.descriptor();
        let annotations = Map::from_iter([(source::CREATED.to_owned(), source.created().into())]);
        let attach = |document| Attachment::new(document, &subject, annotations.clone());
        let attachments = documents.into_iter().map(attach).collect();
        Ok(Self { reference: request.reference.clone(), images, root: manifest, attachments })
    }

    /// The name of the image with its digest.
    pub fn pinned(&self) -> String {
        self.reference.pinned(&self.root.digest)
    }

    /// What has to be downloaded to run the image on one platform, in bytes.
    pub fn size(&self) -> usize {
        let sizes = self.images.iter().map(|image| image.blobs().map(|it| it.bytes.len()).sum());
        sizes.max().unwrap_or_default()
    }

    /// Pushes the image to the registry that its name says. Returns how many bytes of contents were sent: those
    /// that the registry did not have. `report` is told what takes long.
    ///
    /// # Errors
    /// A [`UserError`](crate::error::UserError) that says what the registry has refused.
    pub fn push(&self, report: &dyn Fn(String)) -> Result<usize> {
        let registry = Registry::connect(&self.reference.to_string(), Purpose::Push, report)?;
        registry.run(push::push(&registry, &self.images, &self.root, &self.attachments))
    }

    /// Writes the image, and what it is made of, to a directory in the layout of the specification.
    ///
    /// # Errors
    /// If there is something else, or if the directory cannot be written.
    pub fn write_directory(&self, path: &Path) -> Result<()> {
        let blobs = self.images.iter().flat_map(PlatformImage::blobs);
        let attachments = &self.attachments;
        Ok(layout::write_directory(path, blobs, &self.root, attachments, &self.reference)?)
    }

    /// Writes the image for the first platform to a file for `docker load`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_archive(&self, path: &Path) -> Result<()> {
        let image = self.images.first().context("an image without a platform")?;
        Ok(layout::write_archive(path, image, &self.reference)?)
    }
}
