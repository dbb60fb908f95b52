//! What a command changes in the user's files themselves. A merge sees the base and the user's version after it,
//! so that only real edits are left to be merged.

use super::codemods::{Codemod, Codemods};
use super::rename::Rename;
use crate::render::RUNTIME;

/// A change of the user's files.
#[derive(Debug, Clone)]
pub enum Rewrite {
    /// What is renamed.
    Rename(Rename),
    /// How the code follows the API of the runtime.
    Codemods(Codemods),
}

impl Rewrite {
    /// The text of a file after the change.
    pub(super) fn rewrite(&self, path: &str, text: &str) -> String {
        match self {
            Self::Rename(rename) => rename.rewrite(path, text),
            Self::Codemods(codemods) => codemods.rewrite(path, text),
        }
    }

    /// Like [`Rewrite::rewrite`]; what is not a text stays as it is.
    pub(super) fn rewrite_bytes(&self, path: &str, contents: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(contents) {
            Ok(text) => self.rewrite(path, text).into_bytes(),
            Err(_) => contents.to_vec(),
        }
    }

    /// Whether a file changes.
    pub(super) fn changes(&self, path: &str, contents: Option<&[u8]>) -> bool {
        !path.starts_with(RUNTIME)
            && contents.is_some_and(|contents| self.rewrite_bytes(path, contents) != contents)
    }

    /// The codemods that change what the user has added to a file.
    pub(super) fn applied(&self, path: &str, base: &str, ours: &[u8]) -> Vec<Codemod> {
        match (self, std::str::from_utf8(ours)) {
            (Self::Codemods(codemods), Ok(ours)) => codemods.applied(path, base, ours),
            _ => Vec::new(),
        }
    }

    /// The new name of what is renamed.
    pub(super) fn subject<'a>(&'a self, subject: &'a str) -> &'a str {
        match self {
            Self::Rename(rename) => rename.subject(subject),
            Self::Codemods(_) => subject,
        }
    }
}
