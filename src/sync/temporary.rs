//! The names of the temporary files of a commit: `.opctl-<hash>.tmp`.

use std::path::{Path, PathBuf};

/// The path at which a file is written before it is renamed to its place. It is in the same directory and
/// depends on the place alone, so that the files of a killed command are overwritten by the next run. It
/// is short, because the name of the file itself can have the maximum length.
pub fn path_for(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default();
    place.with_file_name(format!("{PREFIX}{:016x}{SUFFIX}", hash([name.as_encoded_bytes()])))
}

/// The name of a receipt, in the root directory of the project: a copy of a merged text, which shows that
/// the merge of these texts was done.
pub fn receipt_name(path: &str, base: &str, theirs: &str) -> String {
    format!("{PREFIX}{:016x}{RECEIPT}", hash([path.as_bytes(), base.as_bytes(), theirs.as_bytes()]))
}

/// Whether a file name is that of a receipt.
pub fn is_receipt(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|name| name.strip_suffix(RECEIPT))
        .is_some_and(|hash| hash.len() == 16)
}

const PREFIX: &str = ".opctl-";
const SUFFIX: &str = ".tmp";
const RECEIPT: &str = ".merged.tmp";

/// FNV-1a. Unlike the hash of the standard library, it is the same in every build of opctl.
fn hash<const N: usize>(parts: [&[u8]; N]) -> u64 {
    // UTF-8 does not contain the byte 0xff, so it separates the parts.
    let bytes = parts.into_iter().flat_map(|part| part.iter().chain(&[0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
