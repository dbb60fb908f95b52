//! The files of an image.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::blob::{self, Blob};

/// The value of "unknown" for the system that wrote a gzip file (RFC 1952, section 2.3.1).
const UNKNOWN_SYSTEM: u8 = 255;

/// Files that an image adds to those below.
#[derive(Debug)]
pub struct Layer {
    /// The compressed archive.
    pub blob: Blob,
    /// The digest of the archive before its compression.
    pub diff_id: String,
}

/// A file of an image.
pub struct ImageFile<'a> {
    /// The path without a slash at its beginning.
    pub path: &'a str,
    /// The permissions.
    pub mode: u32,
    /// The contents.
    pub bytes: &'a [u8],
}

impl ImageFile<'_> {
    /// Adds the file to an archive, where it belongs to root. `time` is in seconds since 1970.
    ///
    /// # Errors
    /// If the path is too long for an archive, or if the archive cannot be written.
    pub fn append_to(&self, archive: &mut Builder<impl Write>, time: u64) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(self.mode);
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(self.bytes.len() as u64);
        archive.append_data(&mut header, self.path, self.bytes)
    }
}

impl Layer {
    /// A layer with one file, which belongs to root, so that the operator cannot change it. `time` is when it
    /// was made, in seconds since 1970.
    ///
    /// # Errors
    /// If the path is too long for an archive.
    pub fn of(file: &ImageFile<'_>, time: u64) -> io::Result<Self> {
        let mut archive = Builder::new(Vec::with_capacity(file.bytes.len() + 2048));
        file.append_to(&mut archive, time)?;
        let archive = archive.into_inner()?;
        let diff_id = blob::digest(&archive);

        // Neither a time nor a name: the same files are the same layer.
        let gzip = GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM);
        let mut gzip = gzip.write(Vec::new(), Compression::default());
        gzip.write_all(&archive)?;
        Ok(Self { blob: Blob::new(blob::LAYER, gzip.finish()?), diff_id })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use tar::Archive;

    use super::*;

    #[test]
    fn a_layer_has_its_file_and_nothing_of_the_machine() {
        let file = ImageFile { path: "manager", mode: 0o555, bytes: b"text" };
        let layer = Layer::of(&file, 86400).unwrap();
        assert_eq!(layer.blob, Layer::of(&file, 86400).unwrap().blob);
        assert_ne!(layer.blob, Layer::of(&file, 0).unwrap().blob);

        let mut archive = Vec::new();
        GzDecoder::new(&layer.blob.bytes[..]).read_to_end(&mut archive).unwrap();
        assert_eq!(layer.diff_id, blob::digest(&archive));
        let mut archive = Archive::new(&archive[..]);
        let mut entries = archive.entries().unwrap();
        let mut entry = entries.next().unwrap().unwrap();
        let header = entry.header().clone();
        assert_eq!(entry.path().unwrap().to_str(), Some("manager"));
        assert_eq!((header.mode().unwrap(), header.mtime().unwrap()), (0o555, 86400));
        assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert!(entries.next().is_none());
    }
}
