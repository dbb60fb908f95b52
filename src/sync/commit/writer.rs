//! The effects of a commit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Whose permissions and owner a new file gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attributes<'a> {
    /// Those of this file, which it replaces.
    Like(&'a Path),
    /// Those of every new file of the user.
    New {
        /// Whether it is a program.
        executable: bool,
    },
}

/// The effects of a commit, one at a time.
pub trait Writer {
    /// Creates a directory that only the user can look into.
    fn create_private_directory(&mut self, directory: &Path) -> io::Result<()>;
    /// Creates a directory in an existing one.
    fn create_directory(&mut self, directory: &Path) -> io::Result<()>;
    /// Writes a new file.
    fn write(&mut self, file: &Path, contents: &[u8], attributes: Attributes<'_>)
    -> io::Result<()>;
    /// Gives a file a second name, under which it stays when the first is replaced.
    fn link(&mut self, file: &Path, name: &Path) -> io::Result<()>;
    /// Renames a file, and replaces the one that has the name.
    fn rename(&mut self, file: &Path, place: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, file: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_directory(&mut self, directory: &Path) -> io::Result<()>;
    /// Returns when these files and directories, all of one file system, survive a power cut.
    fn sync(&mut self, paths: &[&Path]) -> io::Result<()>;
}

/// The real file system.
pub struct FileSystem;

impl Writer for FileSystem {
    fn create_private_directory(&mut self, directory: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(directory)
    }

    fn create_directory(&mut self, directory: &Path) -> io::Result<()> {
        fs::create_dir(directory)
    }

    fn write(
        &mut self,
        file: &Path,
        contents: &[u8],
        attributes: Attributes<'_>,
    ) -> io::Result<()> {
        let mode = match attributes {
            Attributes::Like(_) => 0o600,
            Attributes::New { executable: true } => 0o777,
            Attributes::New { executable: false } => 0o666,
        };
        let mut new = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
        if let Attributes::Like(old) = attributes {
            // Before the contents, which others may not read.
            copy_attributes(&new, &fs::metadata(old)?)?;
        }
        new.write_all(contents)
    }

    fn link(&mut self, file: &Path, name: &Path) -> io::Result<()> {
        match fs::hard_link(file, name) {
            // Not every file system has links, and not every user may link the files of others.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                fs::copy(file, name).map(drop)
            }
            linked => linked,
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

    fn sync(&mut self, paths: &[&Path]) -> io::Result<()> {
        // One call for all files costs less than one for each, as far as it exists.
        #[cfg(target_os = "linux")]
        if let [first, _, ..] = paths {
            return Ok(rustix::fs::syncfs(File::open(first)?)?);
        }
        paths.iter().try_for_each(|path| File::open(path)?.sync_all())
    }
}

fn copy_attributes(new: &File, old: &fs::Metadata) -> io::Result<()> {
    let metadata = new.metadata()?;
    if (metadata.uid(), metadata.gid()) != (old.uid(), old.gid()) {
        fchown(new, Some(old.uid()), Some(old.gid())).map_err(|error| {
            let owner = format!("user {} and group {}", old.uid(), old.gid());
            io::Error::new(error.kind(), format!("it belongs to {owner}: {error}"))
        })?;
    }
    new.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))
}
