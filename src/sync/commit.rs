//! The only writer of projects. A kill at any moment is healed by running the command again:
//! every file is written beside its place first, then all are renamed into their places, and
//! `PROJECT`, which says what the project is, comes last.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::plan::{Action, Plan, Step};

/// The effects of a commit, one at a time.
pub trait Writer {
    /// Creates a folder whose parent exists.
    fn create_folder(&mut self, folder: &Path) -> io::Result<()>;
    /// Writes a new file beside the place that it is for, with that place's permissions.
    fn write(
        &mut self,
        temporary: &Path,
        place: &Path,
        contents: &[u8],
        executable: bool,
    ) -> io::Result<()>;
    /// Moves a file into its place.
    fn rename(&mut self, temporary: &Path, place: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, place: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&mut self, folder: &Path) -> io::Result<()>;
}

/// Writes a plan.
///
/// # Errors
/// If a file cannot be written, nothing was changed, or the error says how far it came.
pub fn commit(plan: &Plan, writer: &mut impl Writer) -> Result<()> {
    let mut stage = Stage::default();
    if let Err(error) = stage.fill(plan, writer) {
        stage.undo(writer);
        return Err(error.context("nothing was changed"));
    }
    let moved = stage.publish(plan, writer);
    if moved.is_err() {
        stage.undo(writer);
    }
    moved.context("PROJECT is unchanged: run the command again to complete it")
}

/// What is on the disk, but not in its place yet.
#[derive(Default)]
struct Stage {
    folders: Vec<PathBuf>,
    files: BTreeSet<PathBuf>,
}

impl Stage {
    fn fill(&mut self, plan: &Plan, writer: &mut impl Writer) -> Result<()> {
        for step in &plan.steps {
            if let Some(contents) = &step.contents {
                self.create_parents(&step.place, writer)
                    .with_context(|| format!("cannot create the folder of {}", step.path))?;
                let temporary = temporary(&step.place);
                self.files.insert(temporary.clone());
                writer
                    .write(&temporary, &step.place, contents, step.executable)
                    .with_context(|| format!("cannot write {}", step.path))?;
            }
        }
        Ok(())
    }

    fn create_parents(&mut self, place: &Path, writer: &mut impl Writer) -> io::Result<()> {
        let missing: Vec<&Path> =
            place.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            writer.create_folder(folder)?;
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }

    fn publish(&mut self, plan: &Plan, writer: &mut impl Writer) -> Result<()> {
        let Some((project, others)) = plan.steps.split_last() else { return Ok(()) };
        for step in others {
            self.publish_one(step, writer)?;
        }
        for step in others.iter().filter(|step| step.action == Action::Delete) {
            writer.remove(&step.place).with_context(|| format!("cannot delete {}", step.path))?;
        }
        self.publish_one(project, writer)
    }

    fn publish_one(&mut self, step: &Step, writer: &mut impl Writer) -> Result<()> {
        if step.contents.is_some() {
            let temporary = temporary(&step.place);
            writer
                .rename(&temporary, &step.place)
                .with_context(|| format!("cannot write {}", step.path))?;
            self.files.remove(&temporary);
        }
        Ok(())
    }

    /// Removes what has not reached its place. Errors do not count: there is an error to report already.
    fn undo(&self, writer: &mut impl Writer) {
        for file in &self.files {
            let _ = writer.remove(file);
        }
        for folder in self.folders.iter().rev() {
            let _ = writer.remove_folder(folder);
        }
    }
}

/// Where a file is written before it is moved to its place. The name depends on the place alone, so
/// that what a killed command left behind is overwritten when it is run again. It is short: the
/// file's own name may be as long as a name can be.
fn temporary(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default();
    // FNV-1a
    let hash = name.as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    place.with_file_name(format!(".opctl-{hash:016x}.tmp"))
}

/// The real disk.
pub struct FileSystem;

impl Writer for FileSystem {
    fn create_folder(&mut self, folder: &Path) -> io::Result<()> {
        fs::create_dir(folder)
    }

    fn write(
        &mut self,
        temporary: &Path,
        place: &Path,
        contents: &[u8],
        executable: bool,
    ) -> io::Result<()> {
        match fs::remove_file(temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if executable {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o777);
        }
        let mut file = options.open(temporary)?;
        file.write_all(contents)?;
        if let Some(permissions) = permissions(place) {
            file.set_permissions(permissions)?;
        }
        Ok(())
    }

    fn rename(&mut self, temporary: &Path, place: &Path) -> io::Result<()> {
        fs::rename(temporary, place)
    }

    fn remove(&mut self, place: &Path) -> io::Result<()> {
        fs::remove_file(place)
    }

    fn remove_folder(&mut self, folder: &Path) -> io::Result<()> {
        fs::remove_dir(folder)
    }
}

fn permissions(place: &Path) -> Option<Permissions> {
    fs::metadata(place).ok().map(|metadata| metadata.permissions())
}
