//! What has become of the files that opctl wrote.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;

use super::disk::Disk;
use super::lockfile::{self, Lockfile};
use super::merge;
use crate::project;
use crate::render::files::Ownership;
use crate::render::{RUNTIME, RenderedFile, Tree};

/// A file of a project, compared with what opctl wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileStatus {
    /// The path in the project.
    pub path: String,
    /// What has become of it.
    pub state: FileState,
    /// Who owns the file, if the model renders it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ownership: Option<Ownership>,
    /// Whether the model renders it differently from what opctl wrote: `PROJECT` was changed by hand, or
    /// the templates of this opctl are others.
    pub outdated: bool,
}

/// What has become of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileState {
    /// It has the markers of a conflict.
    Conflicting,
    /// It is a copy of another file, and differs from it.
    Stale,
    /// opctl wrote it, and it is gone.
    Missing,
    /// It differs from what opctl wrote.
    Edited,
    /// opctl did not write it.
    Extra,
    /// It is as opctl wrote it.
    Pristine,
}

impl FileState {
    /// The word that is printed before the path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conflicting => "conflicting",
            Self::Stale => "stale",
            Self::Missing => "missing",
            Self::Edited => "edited",
            Self::Extra => "extra",
            Self::Pristine => "pristine",
        }
    }
}

impl FileStatus {
    /// Whether the file keeps the project from being what `PROJECT` says. Edits do not: they are the
    /// user's right. But without a list of modules or manifests, others are in vain, and a stale copy is not what is
    /// deployed. The runtime is no list: a project may take it from the registry.
    pub fn is_drift(&self) -> bool {
        let is_generated = self.ownership == Some(Ownership::Generated);
        let is_list = is_generated && !self.path.starts_with(RUNTIME);
        self.outdated
            || matches!(self.state, FileState::Conflicting | FileState::Stale)
            || self.state == FileState::Missing && is_list
    }
}

/// The files of a project, sorted by path: those that opctl wrote, and in their directories those that it
/// did not write. `rendered` is what the model renders.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn files(rendered: &Tree, lock: &Lockfile, disk: &Disk) -> Result<Vec<FileStatus>> {
    let known: BTreeSet<&str> = rendered.keys().map(String::as_str).chain(lock.paths()).collect();
    let mut files = Vec::new();
    for path in &known {
        let rendered = rendered.get(*path);
        let ours = disk.read(path)?.contents;
        files.push(FileStatus {
            path: (*path).to_owned(),
            state: match is_stale(ours.as_deref(), rendered, disk)? {
                true => FileState::Stale,
                false => state(path, ours.as_deref(), rendered, lock),
            },
            ownership: rendered.map(|file| file.ownership),
            outdated: rendered.is_some_and(|file| !lock.is_base(path, &file.text)),
        });
    }
    let directories = known.iter().filter_map(|path| Some(path.split_once('/')?.0)).collect();
    let is_extra = |path: &String| {
        !known.contains(path.as_str()) && ![project::FILE, lockfile::FILE].contains(&path.as_str())
    };
    let extra = disk.files(&directories)?.into_iter().filter(is_extra);
    files.extend(extra.map(|path| FileStatus {
        path,
        state: FileState::Extra,
        ownership: None,
        outdated: false,
    }));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Whether a file is a copy of one that says something else.
fn is_stale(ours: Option<&[u8]>, rendered: Option<&RenderedFile>, disk: &Disk) -> Result<bool> {
    let (Some(ours), Some(original)) = (ours, rendered.and_then(|file| file.copy_of.as_deref()))
    else {
        return Ok(false);
    };
    Ok(disk.read(original)?.contents.is_some_and(|original| original != ours))
}

fn state(
    path: &str,
    ours: Option<&[u8]>,
    rendered: Option<&RenderedFile>,
    lock: &Lockfile,
) -> FileState {
    let Some(ours) = ours else { return FileState::Missing };
    let is_rendered = rendered.is_some_and(|file| merge::same(ours, &file.text));
    if is_rendered || lock.wrote_file(path, ours) || lock.is_substitute(path, ours) {
        FileState::Pristine
    } else if merge::has_markers(ours) {
        FileState::Conflicting
    } else {
        FileState::Edited
    }
}
