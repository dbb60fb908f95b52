//! The only writer of projects. If a command is killed at any moment, running it again completes it:
//!
//! 1. every file is written beside its place, `PROJECT` first; a file that cannot be written is found here,
//!    before anything is changed;
//! 2. all files are renamed to their places, those with the user's edits last;
//! 3. `PROJECT` is renamed to its place: the command is done.
//!
//! The second run of a killed command leaves the files alone that already have their new text. Only a merge
//! could be done twice. A receipt prevents that: a copy of the merged text in the root directory, which is
//! kept until `PROJECT` is in its place.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::disk::Disk;
use super::plan::{Action, Plan, Step};
use super::temporary;
use crate::project;

/// The effects of a commit, one at a time.
pub trait Writer {
    /// Creates a directory in an existing one.
    fn create_directory(&mut self, directory: &Path) -> io::Result<()>;
    /// Writes a new file with the permissions of the file at `place`, if that exists.
    fn write(
        &mut self,
        file: &Path,
        place: &Path,
        contents: &[u8],
        executable: bool,
    ) -> io::Result<()>;
    /// Renames a file to its place.
    fn rename(&mut self, file: &Path, place: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, file: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_directory(&mut self, directory: &Path) -> io::Result<()>;
}

/// Writes a plan.
///
/// # Errors
/// If a file cannot be written; the error says whether nothing was changed or how to continue.
pub fn commit(plan: &Plan, writer: &mut impl Writer) -> Result<()> {
    if plan.is_empty() {
        return Ok(());
    }
    let mut stage = Stage::default();
    if let Err(error) = stage.fill(plan, writer) {
        stage.undo(writer);
        return Err(error.context("nothing was changed"));
    }
    stage
        .publish(plan, writer)
        .context("the change is incomplete; running the command again completes it")?;
    for receipt in plan.steps.iter().filter_map(|step| step.receipt.as_ref()) {
        writer.remove(receipt).with_context(|| format!("cannot delete {}", receipt.display()))?;
    }
    Ok(())
}

/// Removes the receipts of a command that was killed after it wrote `PROJECT`.
pub fn clean_up(disk: &Disk, writer: &mut impl Writer) -> Result<()> {
    // The receipts are needed until PROJECT is in its place.
    if temporary::path_for(&disk.read(project::FILE)?.place).exists() {
        return Ok(());
    }
    let entries = fs::read_dir(disk.root())
        .with_context(|| format!("cannot read {}", disk.root().display()))?;
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(temporary::is_receipt) {
            writer
                .remove(&entry.path())
                .with_context(|| format!("cannot delete {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// The files that are written, but not in their places yet.
#[derive(Default)]
struct Stage {
    directories: Vec<PathBuf>,
    files: BTreeSet<PathBuf>,
}

impl Stage {
    fn fill(&mut self, plan: &Plan, writer: &mut impl Writer) -> Result<()> {
        // PROJECT, the last step, is written first: its temporary file shows that a command is incomplete.
        for step in plan.steps.iter().rev() {
            let Some(contents) = &step.contents else { continue };
            self.create_parents(&step.place, writer)
                .with_context(|| format!("cannot create the directory of {}", step.path))?;
            let files = [step.receipt.clone(), Some(temporary::path_for(&step.place))];
            for file in files.into_iter().flatten() {
                let written = writer.write(&file, &step.place, contents, step.executable);
                self.files.insert(file);
                written.with_context(|| format!("cannot write {}", step.path))?;
            }
        }
        Ok(())
    }

    fn create_parents(&mut self, place: &Path, writer: &mut impl Writer) -> io::Result<()> {
        let missing: Vec<&Path> =
            place.ancestors().skip(1).take_while(|directory| !directory.exists()).collect();
        for directory in missing.into_iter().rev() {
            writer.create_directory(directory)?;
            self.directories.push(directory.to_owned());
        }
        Ok(())
    }

    fn publish(&mut self, plan: &Plan, writer: &mut impl Writer) -> Result<()> {
        let Some((project, others)) = plan.steps.split_last() else { return Ok(()) };
        let (merged, others): (Vec<&Step>, Vec<&Step>) =
            others.iter().partition(|step: &&Step| step.receipt.is_some());
        for step in others.into_iter().chain(merged).chain([project]) {
            if step.action == Action::Delete {
                writer
                    .remove(&step.place)
                    .with_context(|| format!("cannot delete {}", step.path))?;
            } else if step.contents.is_some() {
                writer
                    .rename(&temporary::path_for(&step.place), &step.place)
                    .with_context(|| format!("cannot write {}", step.path))?;
            }
        }
        Ok(())
    }

    /// Removes the written files. Errors are ignored: there already is one to report.
    fn undo(&self, writer: &mut impl Writer) {
        for file in &self.files {
            let _ = writer.remove(file);
        }
        for directory in self.directories.iter().rev() {
            let _ = writer.remove_directory(directory);
        }
    }
}

/// The real file system.
pub struct FileSystem;

impl Writer for FileSystem {
    fn create_directory(&mut self, directory: &Path) -> io::Result<()> {
        fs::create_dir(directory)
    }

    fn write(
        &mut self,
        file: &Path,
        place: &Path,
        contents: &[u8],
        executable: bool,
    ) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if executable {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o777);
        }
        let mut new = match options.open(file) {
            // A killed command left the file behind.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(file)?;
                options.open(file)?
            }
            opened => opened?,
        };
        new.write_all(contents)?;
        match fs::metadata(place) {
            Ok(old) => new.set_permissions(old.permissions()),
            Err(_) => Ok(()),
        }
    }

    fn rename(&mut self, file: &Path, place: &Path) -> io::Result<()> {
        fs::rename(file, place)
    }

    fn remove(&mut self, file: &Path) -> io::Result<()> {
        fs::remove_file(file)
    }

    fn remove_directory(&mut self, directory: &Path) -> io::Result<()> {
        fs::remove_dir(directory)
    }
}

#[cfg(test)]
mod tests;
