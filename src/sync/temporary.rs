//! The names of the files that a commit needs while it is at work: `.opctl-<hash>.tmp`.

use std::path::{Path, PathBuf};

/// Where a file is written before it is moved to its place. It is beside that place and depends on
/// it alone, so that what a killed command left behind is overwritten when it is run again. It is
/// short, because the file's own name may be as long as a name can be.
pub fn path_for(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default();
    place.with_file_name(format!("{PREFIX}{:016x}{SUFFIX}", hash([name.as_encoded_bytes()])))
}

/// The name, at the root of the project, of the copy of a merged text. It tells that the merge of
/// just these texts was done.
pub fn receipt_name(path: &str, base: &str, theirs: &str) -> String {
    format!("{PREFIX}{:016x}{RECEIPT}", hash([path.as_bytes(), base.as_bytes(), theirs.as_bytes()]))
}

/// Whether a file's name is that of a receipt.
pub fn is_receipt(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|name| name.strip_suffix(RECEIPT))
        .is_some_and(|hash| hash.len() == 16)
}

const PREFIX: &str = ".opctl-";
const SUFFIX: &str = ".tmp";
const RECEIPT: &str = ".merged.tmp";

/// FNV-1a. Unlike the standard library's it is the same for every build of opctl.
fn hash<const N: usize>(parts: [&[u8]; N]) -> u64 {
    // No text has the byte 0xff, which keeps the parts apart.
    let bytes = parts.into_iter().flat_map(|part| part.iter().chain(&[0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
