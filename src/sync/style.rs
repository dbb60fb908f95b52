//! Rust files that the user formats in another way than opctl.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use super::merge::{self, Merged};
use crate::toolchain::rustfmt;

/// Merges a Rust file in the user's format, by the `rustfmt.toml` that holds in its directory: each line
/// is an edit otherwise. `None` where that is opctl's format, or where there is no rustfmt. `base` and `ours` may
/// have been rewritten, which leaves lines that the format would break in another way.
pub fn merge(
    directory: &Path,
    (base, rewritten_base): (&str, &str),
    (ours, rewritten_ours): (&[u8], &[u8]),
    theirs: &str,
) -> Option<Merged> {
    if format(directory, base)? == base {
        return None;
    }
    let base = format(directory, rewritten_base)?;
    let formatted = match std::str::from_utf8(rewritten_ours) {
        Ok(text) if ours != rewritten_ours && is_stable(directory, ours) => format(directory, text),
        _ => None,
    };
    let ours = formatted.as_ref().map_or(rewritten_ours, |text| text.as_bytes());
    Some(merge::merge(&base, ours, &format(directory, theirs)?, false))
}

/// Whether a file has the user's format.
fn is_stable(directory: &Path, text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| is_formatted(directory, text, text.as_bytes()))
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
