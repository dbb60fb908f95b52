//! Reads the files of a project.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use crate::error::UserError;

/// The directory of a project.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    /// The real path of each directory that was looked up, by its path in the project.
    directories: RefCell<BTreeMap<PathBuf, Option<PathBuf>>>,
}

/// The file at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The contents of the file, or `None` if it does not exist.
    pub contents: Option<Vec<u8>>,
    /// The real path of the file, after symbolic links.
    pub place: PathBuf,
    /// Whether nobody may write the file.
    pub read_only: bool,
}

/// The maximum size of a file that opctl merges. No text that a person edits is as large.
const MAX_SIZE: u64 = 64 << 20;

impl Disk {
    /// The directory at `root`, which must exist.
    pub fn new(root: &Path) -> Result<Self> {
        let root = root
            .canonicalize()
            .with_context(|| format!("cannot open the directory {}", root.display()))?;
        Ok(Self { root, directories: RefCell::default() })
    }

    /// The real path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads a file by its path in the project.
    ///
    /// # Errors
    /// A [`UserError`] if the path or a symbolic link leaves the project, or if there is something else
    /// than a file at the path, or than a directory above it.
    pub fn read(&self, path: &str) -> Result<Found> {
        let path = Path::new(path);
        let is_normal = path.components().all(|part| matches!(part, Component::Normal(_)));
        let (Some(name), Some(directory), true) = (path.file_name(), path.parent(), is_normal)
        else {
            let problem = format!("`{}` is not a path in the project", path.display());
            return Err(UserError::failure(problem).into());
        };
        let new = |place| Found { contents: None, place, read_only: false };
        let Some(directory) = self.directory(directory)? else {
            return Ok(new(self.root.join(path)));
        };
        let place = directory.join(name);
        let Some(kind) = file_type(&place)? else { return Ok(new(place)) };
        let place = if kind.is_symlink() { self.follow(&place, path)? } else { place };
        let in_the_way = |what: &str| {
            UserError::failure(format!(
                "{} is {what}, but opctl writes a file there",
                path.display()
            ))
            .with_hint("move it away and run the command again")
        };
        let cannot_read = || format!("cannot read {}", path.display());
        let metadata = fs::metadata(&place).with_context(cannot_read)?;
        // To read a named pipe would wait for its other end.
        match metadata.file_type() {
            kind if kind.is_dir() => return Err(in_the_way("a directory").into()),
            kind if !kind.is_file() => return Err(in_the_way("not a regular file").into()),
            _ if metadata.len() > MAX_SIZE => {
                return Err(in_the_way(&format!("larger than {} MiB", MAX_SIZE >> 20)).into());
            }
            _ => {}
        }
        let contents = fs::read(&place).with_context(cannot_read)?;
        let read_only = metadata.permissions().mode() & 0o222 == 0;
        Ok(Found { contents: Some(contents), place, read_only })
    }

    /// The paths of the files in a directory; none if it does not exist.
    ///
    /// # Errors
    /// A [`UserError`] if the path leaves the project; another error if the directory cannot be read.
    pub fn files_in(&self, path: &str) -> Result<Vec<String>> {
        let Some(directory) = self.directory(Path::new(path))? else { return Ok(Vec::new()) };
        let cannot_read = || format!("cannot read the directory {path}");
        let mut files = Vec::new();
        for entry in fs::read_dir(directory).with_context(cannot_read)? {
            let entry = entry.with_context(cannot_read)?;
            if entry.file_type().with_context(cannot_read)?.is_file() {
                files.extend(entry.file_name().to_str().map(|name| format!("{path}/{name}")));
            }
        }
        files.sort();
        Ok(files)
    }

    /// The paths of all files in the root directory and below these directories in it. Symbolic links to
    /// directories are not followed.
    ///
    /// # Errors
    /// If a directory cannot be read.
    pub fn files(&self, directories: &BTreeSet<&str>) -> Result<Vec<String>> {
        let mut files = Vec::new();
        self.collect(Path::new(""), &|name| directories.contains(name), &mut files)?;
        Ok(files)
    }

    fn collect(
        &self,
        directory: &Path,
        enters: &dyn Fn(&str) -> bool,
        files: &mut Vec<String>,
    ) -> Result<()> {
        let cannot_read = || format!("cannot read the directory {}", directory.display());
        for entry in fs::read_dir(self.root.join(directory)).with_context(cannot_read)? {
            let entry = entry.with_context(cannot_read)?;
            let path = directory.join(entry.file_name());
            let Some(text) = path.to_str() else { continue };
            match entry.file_type().with_context(cannot_read)? {
                kind if !kind.is_dir() => files.push(text.to_owned()),
                _ if enters(text) => self.collect(&path, &|_| true, files)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The real path of a directory, if it exists.
    fn directory(&self, path: &Path) -> Result<Option<PathBuf>> {
        if path.as_os_str().is_empty() {
            return Ok(Some(self.root.clone()));
        }
        if let Some(place) = self.directories.borrow().get(path) {
            return Ok(place.clone());
        }
        let place = self.find_directory(path)?;
        self.directories.borrow_mut().insert(path.to_owned(), place.clone());
        Ok(place)
    }

    fn find_directory(&self, path: &Path) -> Result<Option<PathBuf>> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let Some(parent) = self.directory(parent)? else { return Ok(None) };
        let place = parent.join(name);
        let Some(kind) = file_type(&place)? else { return Ok(None) };
        let place = if kind.is_symlink() { self.follow(&place, path)? } else { place };
        if !place.is_dir() {
            return Err(UserError::failure(format!(
                "{} is a file, but opctl needs a directory there",
                path.display()
            ))
            .with_hint("move it away and run the command again")
            .into());
        }
        Ok(Some(place))
    }

    fn follow(&self, link: &Path, path: &Path) -> Result<PathBuf> {
        let error = |problem: String| {
            UserError::failure(format!("{} is a symbolic link {problem}", path.display()))
                .with_hint(
                    "replace it with a file or a directory: opctl writes only inside the project",
                )
        };
        match link.canonicalize() {
            Ok(target) if target.components().any(|part| part.as_os_str() == ".git") => {
                Err(error("to a file of git".to_owned()).into())
            }
            Ok(target) if target.starts_with(&self.root) => Ok(target),
            Ok(target) => {
                Err(error(format!("to {}, outside the project", target.display())).into())
            }
            Err(_) => Err(error("to a file that does not exist".to_owned()).into()),
        }
    }
}

fn file_type(place: &Path) -> Result<Option<fs::FileType>> {
    match fs::symlink_metadata(place) {
        Ok(metadata) => Ok(Some(metadata.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", place.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_leaves_the_project_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "text").unwrap();
        std::fs::create_dir(directory.path().join("a")).unwrap();
        let disk = Disk::new(directory.path()).unwrap();
        for path in
            ["", ".", "..", "../file", "a/../file", "/etc/passwd", "a/../../file", "b/../file"]
        {
            let error = disk.read(path).unwrap_err().to_string();
            assert_eq!(error, format!("`{path}` is not a path in the project"));
        }
        assert_eq!(disk.read("file").unwrap().contents.unwrap(), b"text");
        assert_eq!(disk.read("b/c").unwrap().contents, None);
    }
}
