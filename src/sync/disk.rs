//! The files of a project, as they are now. Reads only.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::error::UserError;

/// A project's folder.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    /// The real place of every folder that was looked at, by its path in the project.
    directories: RefCell<BTreeMap<PathBuf, Option<PathBuf>>>,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The bytes of the file, or `None` if there is none.
    pub contents: Option<Vec<u8>>,
    /// Where the file is or would be, after symbolic links.
    pub place: PathBuf,
}

impl Disk {
    /// The folder at `root`, which has to exist.
    pub fn new(root: &Path) -> Result<Self> {
        let root = root
            .canonicalize()
            .with_context(|| format!("cannot open the folder {}", root.display()))?;
        Ok(Self { root, directories: RefCell::default() })
    }

    /// The folder's real path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads a file by its path in the project.
    ///
    /// # Errors
    /// A [`UserError`] if a symbolic link leads out of the project or nowhere, or if something that is
    /// no file is in the way.
    pub fn read(&self, path: &str) -> Result<Found> {
        let path = Path::new(path);
        let (Some(name), directory) = (path.file_name(), path.parent().unwrap_or(Path::new("")))
        else {
            return Err(
                UserError::failure(format!("`{}` is no path of a file", path.display())).into()
            );
        };
        let Some(directory) = self.directory(directory)? else {
            return Ok(Found { contents: None, place: self.root.join(path) });
        };
        let place = directory.join(name);
        let Some(kind) = look(&place)? else {
            return Ok(Found { contents: None, place });
        };
        let place = if kind.is_symlink() { self.follow(&place, path)? } else { place };
        match fs::read(&place) {
            Ok(contents) => Ok(Found { contents: Some(contents), place }),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Err(UserError::failure(
                format!("{} is a folder, and a file has to go there", path.display()),
            )
            .with_hint("move it away and run the command again")
            .into()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// The real place of a folder, if it exists.
    fn directory(&self, path: &Path) -> Result<Option<PathBuf>> {
        if path.as_os_str().is_empty() {
            return Ok(Some(self.root.clone()));
        }
        if let Some(known) = self.directories.borrow().get(path) {
            return Ok(known.clone());
        }
        let place = self.find_directory(path)?;
        self.directories.borrow_mut().insert(path.to_owned(), place.clone());
        Ok(place)
    }

    fn find_directory(&self, path: &Path) -> Result<Option<PathBuf>> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let Some(parent) = self.directory(parent)? else { return Ok(None) };
        let place = parent.join(name);
        let Some(kind) = look(&place)? else { return Ok(None) };
        let place = if kind.is_symlink() { self.follow(&place, path)? } else { place };
        if !place.is_dir() {
            return Err(UserError::failure(format!(
                "{} is a file, and a folder has to go there",
                path.display()
            ))
            .with_hint("move it away and run the command again")
            .into());
        }
        Ok(Some(place))
    }

    fn follow(&self, link: &Path, path: &Path) -> Result<PathBuf> {
        let refuse = |where_to: String| {
            UserError::failure(format!("{} is a symbolic link {where_to}", path.display()))
                .with_hint("replace it by a file or a folder, opctl writes inside the project only")
        };
        match link.canonicalize() {
            Ok(target) if target.starts_with(&self.root) => Ok(target),
            Ok(target) => {
                Err(refuse(format!("out of the project, to {}", target.display())).into())
            }
            Err(_) => Err(refuse("that leads nowhere".to_owned()).into()),
        }
    }
}

fn look(place: &Path) -> Result<Option<fs::FileType>> {
    match fs::symlink_metadata(place) {
        Ok(metadata) => Ok(Some(metadata.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", place.display())),
    }
}
