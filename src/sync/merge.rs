//! The three-way merge of one file.

use similar::TextMerge;

/// What a merge of three texts came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// Both changes are in.
    Clean(Vec<u8>),
    /// The changes overlap. The text has both, between markers.
    Conflict(Vec<u8>),
    /// Ours is no text.
    Binary,
}

/// Merges the user's text with ours. The user's line ends stay.
pub fn merge(base: &str, ours: &[u8], theirs: &str) -> Merged {
    let Ok(text) = std::str::from_utf8(ours) else { return Merged::Binary };
    if text.contains('\0') {
        return Merged::Binary;
    }
    let crlf = uses_crlf(text);
    let text = if crlf { text.replace("\r\n", "\n") } else { text.to_owned() };
    let restore =
        |merged: String| if crlf { merged.replace('\n', "\r\n") } else { merged }.into_bytes();

    if text == theirs || contains(base, &text, theirs) {
        return Merged::Clean(ours.to_vec());
    }
    let mut merge = three_way(base, &text, theirs);
    if merge.is_conflicted() {
        merge.labels("the last version of opctl's", "yours", "opctl's");
        return Merged::Conflict(restore(merge.to_string()));
    }
    Merged::Clean(restore(merge.to_string()))
}

/// Whether a file holds what we would write: line ends do not count.
pub fn same(ours: &[u8], theirs: &str) -> bool {
    if ours == theirs.as_bytes() {
        return true;
    }
    match std::str::from_utf8(ours) {
        Ok(text) if uses_crlf(text) => text.replace("\r\n", "\n") == theirs,
        _ => false,
    }
}

/// Whether every line ends with CR LF.
fn uses_crlf(text: &str) -> bool {
    let crlf = text.matches("\r\n").count();
    crlf > 0 && crlf == text.matches('\n').count()
}

fn three_way<'a>(base: &'a str, ours: &'a str, theirs: &'a str) -> TextMerge<'a, 'a, 'a, str> {
    TextMerge::from_lines(base, ours, theirs)
}

/// Whether the change from `base` to `theirs` is in `ours` already: undoing it and doing it again gives
/// `ours`. So a command that was interrupted half-way merges nothing twice when it is run again.
fn contains(base: &str, ours: &str, theirs: &str) -> bool {
    let undone = three_way(theirs, ours, base);
    if undone.is_conflicted() {
        return false;
    }
    let undone = undone.to_string();
    if undone == ours {
        return false;
    }
    let redone = three_way(base, &undone, theirs);
    !redone.is_conflicted() && redone.to_string() == ours
}
