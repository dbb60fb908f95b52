//! The only writer of projects. A command changes the whole project or nothing, even if it is killed or if
//! the power fails at any moment. It keeps a rollback journal, as SQLite does:
//!
//! 1. In the directory of the journal, the new files are written, and the files that they replace get a
//!    second name. A file that cannot be written is found here. The journal itself is written last.
//! 2. The new directories, then the other new files are renamed to their places, `PROJECT` last.
//! 3. The journal is removed: the command is done.
//!
//! What a step wrote is on the disk before the next step begins. An error undoes the commit at once. After a
//! kill, the next command undoes it, so that running a killed command again does what it would have done.

mod journal;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::action::Action;
use super::plan::Plan;
use crate::error::UserError;
use crate::hash::Hash;
pub use journal::{DIRECTORY, steps};
use journal::{Entry, Journal, Staging};
pub use writer::{Attributes, FileSystem, Writer};

/// Writes a plan in the project at `root`.
///
/// # Errors
/// If a file cannot be written. The error says whether nothing was changed, or who undoes the change.
pub fn commit(plan: &Plan, root: &Path, writer: &mut impl Writer) -> Result<()> {
    if plan.is_empty() {
        return Ok(());
    }
    let journal = Journal::new(plan, root)?;
    let staging = Staging::new(&journal, root);
    let written = stage(plan, &staging, writer)
        .and_then(|()| publish(plan, &staging, writer))
        .and_then(|()| finish(root, writer).context("cannot finish the change"));
    if let Err(error) = written {
        return Err(match undo(root, writer) {
            Ok(_) => error.context("nothing was changed"),
            Err(_) => error.context(
                "the change is incomplete, and the next opctl command in this project undoes it",
            ),
        });
    }
    // The change is made. What is left of the journal is no longer needed, and cleared by the next command.
    let _ = clear(root, writer);
    Ok(())
}

/// Undoes the change of a command that was interrupted. Returns whether there was one.
///
/// # Errors
/// If a file cannot be restored, or if the journal is damaged.
pub fn undo(root: &Path, writer: &mut impl Writer) -> Result<bool> {
    let Some(journal) = Journal::read(root)? else {
        clear(root, writer)?;
        return Ok(false);
    };
    let staging = Staging::new(&journal, root);
    for (number, entry) in journal.entries.iter().enumerate().rev() {
        restore(&staging, number, entry, writer)
            .with_context(|| format!("cannot restore {}", entry.place.display()))?;
    }
    for directory in journal.directories.iter().rev() {
        remove_if_empty(&root.join(directory), writer)
            .with_context(|| format!("cannot delete {}", directory.display()))?;
    }
    sync(&journal, root, writer).context("cannot restore the project")?;
    finish(root, writer).context("cannot restore the project")?;
    clear(root, writer)?;
    Ok(true)
}

/// Writes everything in the directory of the journal.
fn stage(plan: &Plan, staging: &Staging<'_>, writer: &mut impl Writer) -> Result<()> {
    let Staging { journal, root, .. } = *staging;
    let directory = root.join(DIRECTORY);
    let cannot_write = || format!("cannot write {DIRECTORY}");
    check_file_system(staging)?;
    writer.create_private_directory(&directory).with_context(cannot_write)?;
    let mut staged = Vec::new();
    for directory in journal.directories.iter().filter_map(|path| staging.in_tree(path)) {
        writer.create_directory(&directory).with_context(cannot_write)?;
        staged.push(directory);
    }
    for (number, (step, entry)) in steps(plan).zip(&journal.entries).enumerate() {
        let cannot_write = || format!("cannot write {}", step.path);
        if let Some(contents) = &step.contents {
            let attributes = match (&step.like, entry.replaces) {
                (Some(place), _) => Attributes::Like(place),
                (None, true) => Attributes::Like(&step.place),
                (None, false) => Attributes::New { executable: step.executable },
            };
            let file = staging.file(number, entry);
            writer.write(&file, contents, attributes).with_context(cannot_write)?;
            staged.push(file);
        }
        if entry.replaces {
            let old = journal::old(root, number);
            writer.link(&step.place, &old).with_context(cannot_write)?;
            staged.push(old);
        }
    }
    let entries = journal::entries(root);
    let unfinished = entries.with_extension("new");
    let text = serde_json::to_vec(journal)?;
    writer
        .write(&unfinished, &text, Attributes::New { executable: false })
        .with_context(cannot_write)?;
    staged.push(unfinished.clone());
    staged.push(directory.clone());
    let staged = staged.iter().map(PathBuf::as_path);
    writer.sync(&Vec::from_iter(staged)).with_context(cannot_write)?;
    writer.rename(&unfinished, &entries).with_context(cannot_write)?;
    writer.sync(&[&directory]).with_context(cannot_write)
}

/// Renames must not leave the file system, which would fail in the middle of the commit.
fn check_file_system(staging: &Staging<'_>) -> Result<()> {
    let Staging { journal, root, .. } = *staging;
    let device = fs::metadata(root)?.dev();
    let exists = |parent: &&Path| staging.in_tree(parent).is_none();
    for parent in journal.parents().into_iter().filter(exists) {
        if fs::metadata(root.join(parent))?.dev() != device {
            let problem = format!("{} is on another file system", root.join(parent).display());
            return Err(UserError::failure(problem)
                .with_hint("keep the files of a project on one file system, except for `target`")
                .into());
        }
    }
    Ok(())
}

/// Renames everything to its place.
fn publish(plan: &Plan, staging: &Staging<'_>, writer: &mut impl Writer) -> Result<()> {
    let Staging { journal, root, .. } = *staging;
    for (tree, directory) in staging.trees() {
        writer
            .rename(&tree, &root.join(directory))
            .with_context(|| format!("cannot create the directory {}", directory.display()))?;
    }
    for (number, (step, entry)) in steps(plan).zip(&journal.entries).enumerate() {
        if step.action == Action::Delete {
            writer.remove(&step.place).with_context(|| format!("cannot delete {}", step.path))?;
        } else if staging.in_tree(&entry.place).is_none() {
            writer
                .rename(&staging.alone(number), &step.place)
                .with_context(|| format!("cannot write {}", step.path))?;
        }
    }
    // Only now: a later step may have written to the directory of a deleted file.
    for step in steps(plan).filter(|step| step.action == Action::Delete) {
        remove_empty_parents(&step.place, root, writer)
            .with_context(|| format!("cannot delete the directory of {}", step.path))?;
    }
    sync(journal, root, writer).context("cannot finish the change")
}

/// Removes the directories that a deletion leaves empty.
fn remove_empty_parents(place: &Path, root: &Path, writer: &mut impl Writer) -> io::Result<()> {
    let mut parents = place.ancestors().skip(1).take_while(|directory| *directory != root);
    parents.try_for_each(|directory| remove_if_empty(directory, writer))
}

/// Removes a directory that has no files of the user.
fn remove_if_empty(directory: &Path, writer: &mut impl Writer) -> io::Result<()> {
    let mut entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    if entries.next().is_none() { writer.remove_directory(directory) } else { Ok(()) }
}

/// Removes the journal: from here on, the change is made.
fn finish(root: &Path, writer: &mut impl Writer) -> io::Result<()> {
    writer.remove(&journal::entries(root))?;
    // It cannot fail any more: at worst, the next command after a power cut undoes all of it.
    let _ = writer.sync(&[&root.join(DIRECTORY)]);
    Ok(())
}

/// Brings back what was at the place of an entry. Can be done again after it was interrupted.
fn restore(
    staging: &Staging<'_>,
    number: usize,
    entry: &Entry,
    writer: &mut impl Writer,
) -> io::Result<()> {
    let root = staging.root;
    let (place, old) = (root.join(&entry.place), journal::old(root, number));
    let Some(hash) = &entry.new else {
        return match place.exists() || !old.exists() {
            true => Ok(()),
            false => {
                create_parents(&place, writer)?;
                writer.rename(&old, &place)
            }
        };
    };
    if staging.file(number, entry).exists() {
        return Ok(()); // not in its place yet
    }
    let is_as_written = fs::read(&place).is_ok_and(|contents| Hash::of(contents) == *hash);
    match (is_as_written, entry.replaces && old.exists()) {
        (true, true) => writer.rename(&old, &place),
        (true, false) if !entry.replaces => writer.remove(&place),
        // The user has edited the file since: both versions are kept.
        (false, true) => writer.rename(&old, &unused_name(&place)),
        _ => Ok(()),
    }
}

fn create_parents(place: &Path, writer: &mut impl Writer) -> io::Result<()> {
    let parents = place.ancestors().skip(1);
    let missing: Vec<&Path> = parents.take_while(|directory| !directory.exists()).collect();
    missing.into_iter().rev().try_for_each(|directory| writer.create_directory(directory))
}

/// The name for a copy of a file: `NAME.orig`, or `NAME.orig.2` if that exists.
pub fn unused_name(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let names = (1..).map(|number| match number {
        1 => place.with_file_name(format!("{name}.orig")),
        number => place.with_file_name(format!("{name}.orig.{number}")),
    });
    // One of infinitely many names is free.
    names.into_iter().find(|name| name.symlink_metadata().is_err()).unwrap_or_default()
}

/// Waits until the files of a journal, and the directories with their names, are on the disk.
fn sync(journal: &Journal, root: &Path, writer: &mut impl Writer) -> io::Result<()> {
    let parents = journal.parents().into_iter();
    let parents: Vec<PathBuf> = parents.map(|parent| root.join(parent)).collect();
    let existing =
        parents.iter().filter_map(|parent| parent.ancestors().find(|directory| directory.exists()));
    let directories: BTreeSet<&Path> = existing.chain([root]).collect();
    writer.sync(&Vec::from_iter(directories))
}

/// Removes the directory of the journal, with what is left in it.
fn clear(root: &Path, writer: &mut impl Writer) -> Result<()> {
    let directory = root.join(DIRECTORY);
    match fs::symlink_metadata(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => remove_all(&directory, writer).with_context(|| format!("cannot delete {DIRECTORY}")),
    }
}

/// Removes a directory of the journal.
fn remove_all(directory: &Path, writer: &mut impl Writer) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => remove_all(&entry.path(), writer)?,
            false => writer.remove(&entry.path())?,
        }
    }
    writer.remove_directory(directory)
}
