//! The files of a Go project.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{ARGUMENT, LIMIT};
use crate::error::UserError;

/// The directories whose files are not of the project.
const SKIPPED: &[&str] = &[".git", "bin", "node_modules", "testbin", "vendor"];
/// The maximum number of files, many times that of the largest operators.
const MAX_FILES: usize = 20_000;

/// The files by their paths, separated by `/`. What a symbolic link leads to is not among them.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    /// The directory as the user names it.
    shown: String,
    /// The texts that were read: Go sources, YAML and others that the migration is about.
    texts: BTreeMap<String, String>,
    /// All files.
    pub paths: Vec<String>,
    /// The symbolic links, which are not followed.
    pub links: Vec<String>,
}

impl Files {
    /// Lists the files of a directory, and reads those that matter.
    pub fn of(root: &Path, shown: &str) -> Result<Self> {
        let mut files = Self {
            root: root.to_owned(),
            shown: shown.to_owned(),
            texts: BTreeMap::new(),
            paths: Vec::new(),
            links: Vec::new(),
        };
        files.list(root, "")?;
        files.paths.sort();
        files.links.sort();
        for path in files.paths.clone() {
            let name = path.rsplit('/').next().unwrap_or(&path);
            let is_read = ["PROJECT", "Makefile", "boilerplate.go.txt"].contains(&name)
                || path.ends_with(".go")
                || path.starts_with("config/") && path.ends_with(".yaml");
            if is_read {
                let text = files.read(&path)?;
                files.texts.insert(path, text);
            }
        }
        Ok(files)
    }

    fn list(&mut self, directory: &Path, prefix: &str) -> Result<()> {
        let cannot_read = || format!("cannot read {}", directory.display());
        for entry in fs::read_dir(directory).with_context(cannot_read)? {
            let entry = entry.with_context(cannot_read)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().with_context(cannot_read)?;
            if kind.is_symlink() {
                self.links.push(path);
            } else if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.list(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                self.paths.push(path);
            }
            if self.paths.len() > MAX_FILES {
                let reason = format!("more than {MAX_FILES} files");
                return Err(UserError::invalid_value(ARGUMENT, &self.shown, reason)
                    .with_hint("name the directory of the project itself")
                    .into());
            }
        }
        Ok(())
    }

    fn read(&self, path: &str) -> Result<String, UserError> {
        let text = File::open(self.root.join(path)).and_then(|file| LIMIT.read(file));
        text.map_err(|error| self.error(path, error))
    }

    /// The text of a file, if it was read.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// The texts of the files below a directory with this end.
    pub fn texts<'a>(
        &'a self,
        directory: &'a str,
        end: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let texts = self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        texts.filter(move |(path, _)| path.starts_with(directory) && path.ends_with(end))
    }

    /// The name of the directory.
    pub fn directory_name(&self) -> String {
        self.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The directory as the user names it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// An error in a file.
    pub fn error(&self, path: &str, reason: impl std::fmt::Display) -> UserError {
        UserError::invalid_value(ARGUMENT, &self.shown, format!("{path}: {reason}"))
    }
}
