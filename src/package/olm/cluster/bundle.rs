//! The bundle that is run: a directory, or an image.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::error::UserError;
use crate::package::image::{self, Transport};
use crate::package::olm::{BundleDirectory, Object, metadata};

/// Where a bundle is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BundleSource {
    /// A directory, as `opctl generate bundle` writes it.
    Directory(PathBuf),
    /// An image in a registry.
    Image(String),
}

impl BundleSource {
    /// What the user has named: a directory if there is one, else an image.
    pub fn of(name: &str) -> Self {
        match Path::new(name).is_dir() {
            true => Self::Directory(PathBuf::from(name)),
            false => Self::Image(name.to_owned()),
        }
    }
}

impl fmt::Display for BundleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "directory {}", path.display()),
            Self::Image(name) => write!(f, "image {name}"),
        }
    }
}

/// A bundle that can be run.
#[derive(Debug)]
pub struct RunBundle {
    /// Where it is from.
    pub source: BundleSource,
    /// The name of its package.
    pub package: String,
    /// What it consists of, besides the ClusterServiceVersion.
    pub directory: BundleDirectory,
    /// The ClusterServiceVersion.
    pub csv: Object,
}

impl RunBundle {
    /// Reads a bundle.
    ///
    /// # Errors
    /// A [`UserError`] if it cannot be read, or if it is not complete.
    pub fn read(source: BundleSource, transport: Transport) -> Result<Self> {
        let directory = match &source {
            BundleSource::Directory(path) => BundleDirectory::read(path)?,
            BundleSource::Image(name) => {
                let unpacked = tempfile::tempdir()?;
                image::unpack(name, transport, &["manifests", "metadata"], unpacked.path())?;
                BundleDirectory::read(unpacked.path()).map_err(|_| {
                    UserError::failure(format!("{name} is not the image of a bundle"))
                        .with_hint("it needs the directories `manifests` and `metadata`: `make bundle-build` builds one")
                })?
            }
        };
        Self::new(source, directory)
    }

    /// A bundle with these contents.
    ///
    /// # Errors
    /// A [`UserError`] if it is not complete.
    pub fn new(source: BundleSource, mut directory: BundleDirectory) -> Result<Self> {
        let incomplete = |problem: &str| {
            UserError::failure(format!("the bundle in {source} cannot be run: {problem}"))
                .with_hint("see what is wrong with `opctl bundle validate DIRECTORY`")
        };
        if let Some(problem) = directory.unreadable.first() {
            return Err(incomplete(problem).into());
        }
        let package = directory.annotation(metadata::PACKAGE).map(str::to_owned);
        let package = package.ok_or_else(|| incomplete("its annotations name no package"))?;
        let csv = directory.csv.take();
        let csv = csv.ok_or_else(|| incomplete("it has no ClusterServiceVersion"))?;
        if csv.text("/spec/version").is_empty() {
            return Err(incomplete("its ClusterServiceVersion has no spec.version").into());
        }
        Ok(Self { source, package, directory, csv })
    }

    /// The image that OLM unpacks, if there is one.
    pub fn image(&self) -> Option<&str> {
        match &self.source {
            BundleSource::Directory(_) => None,
            BundleSource::Image(name) => Some(name),
        }
    }

    /// The name of the ClusterServiceVersion.
    pub fn name(&self) -> &str {
        self.csv.name()
    }
}
