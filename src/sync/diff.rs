//! The edits of a user, as a patch.

use anyhow::Result;
use similar::TextDiff;

use super::disk::Disk;
use super::lockfile::Lockfile;
use super::merge;
use crate::error::UserError;
use crate::render::{RenderedFile, Tree};

/// How a file differs from what opctl renders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// The path in the project.
    pub path: String,
    /// The difference as a patch in the unified format; none if what opctl wrote cannot be rendered again.
    pub patch: Option<String>,
}

/// Which files to compare, and with what.
#[derive(Debug, Clone, Default)]
pub struct DiffOptions {
    /// The files and directories; all files if there are none.
    pub paths: Vec<String>,
    /// Whether to compare with what opctl wrote, even if it would write something else today.
    pub with_base: bool,
}

/// The differences of files, sorted by path. Line ends are no difference.
///
/// # Errors
/// A [`UserError`] if opctl writes nothing at a path; another error if a file cannot be read.
pub(super) fn files(
    rendered: &Tree,
    lock: &Lockfile,
    disk: &Disk,
    options: &DiffOptions,
) -> Result<Vec<FileDiff>> {
    if let Some(path) = options.paths.iter().find(|at| !rendered.keys().any(|path| is_at(path, at)))
    {
        return Err(UserError::invalid_value("[PATH]...", path, "opctl writes no file there")
            .with_hint("name a file or a directory from the root of the project")
            .into());
    }
    let is_selected =
        |path: &&String| options.paths.is_empty() || options.paths.iter().any(|at| is_at(path, at));
    let mut files = Vec::new();
    for path in rendered.keys().filter(is_selected) {
        let (file, ours) = (&rendered[path], disk.read(path)?.contents);
        if options.with_base && !lock.wrote(path, &file.text) {
            let is_pristine = ours.as_deref().is_some_and(|ours| lock.wrote_file(path, ours));
            if lock.contains(path) && !is_pristine {
                files.push(FileDiff { path: path.clone(), patch: None });
            }
        } else if !ours.as_deref().is_some_and(|ours| merge::same(ours, &file.text)) {
            files.push(FileDiff { path: path.clone(), patch: Some(patch(path, file, ours)) });
        }
    }
    Ok(files)
}

/// Whether a path is a file or below a directory, as a user names it.
fn is_at(path: &str, at: &str) -> bool {
    let at = at.strip_prefix("./").unwrap_or(at).trim_end_matches('/');
    at == "." || path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn patch(path: &str, file: &RenderedFile, ours: Option<Vec<u8>>) -> String {
    let new = if ours.is_some() { format!("yours/{path}") } else { "/dev/null".to_owned() };
    let header = format!("opctl/{path}");
    match merge::text_of(ours.as_deref().unwrap_or_default(), &file.text) {
        Some(ours) => {
            TextDiff::from_lines(&file.text, &ours).unified_diff().header(&header, &new).to_string()
        }
        None => format!("--- {header}\n+++ {new}\nNot a text file\n"),
    }
}
