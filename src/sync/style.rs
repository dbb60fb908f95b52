//! Rust files that the user formats in another way than opctl.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use super::merge::{self, Merged};
use crate::toolchain::rustfmt;

/// Merges a Rust file in the user's format, by the `rustfmt.toml` that holds in its directory: each line
/// is an edit otherwise. `None` where that is opctl's format, or where there is no rustfmt.
pub fn merge(directory: &Path, base: &str, ours: &[u8], theirs: &str) -> Option<Merged> {
    let formatted = format(directory, base)?;
    if formatted == base {
        return None;
    }
    Some(merge::merge(&formatted, ours, &format(directory, theirs)?, false))
}

/// Whether a file is a text in the user's format.
pub fn is_formatted(directory: &Path, text: &str, ours: &[u8]) -> bool {
    format(directory, text).is_some_and(|formatted| merge::same(ours, &formatted))
}

fn format(directory: &Path, text: &str) -> Option<String> {
    let mut rustfmt = rustfmt();
    rustfmt.args(["--edition", "2024", "--emit", "stdout"]).current_dir(directory);
    rustfmt.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = rustfmt.spawn().ok()?;
    // It reads everything before it writes anything.
    child.stdin.take()?.write_all(text.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    String::from_utf8(output.stdout).ok().filter(|_| output.status.success())
}
