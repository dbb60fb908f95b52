//! The one error that a user is meant to read: what is wrong, and what to do next.

use std::fmt;

/// A refusal with its way out. Everything else that goes wrong is an [`anyhow::Error`] with context.
#[derive(Debug)]
pub struct UserError {
    what: String,
    hint: Option<String>,
    code: u8,
}

/// The exit code of a command that failed.
pub const FAILURE: u8 = 1;
/// The exit code of a command that was called with arguments that cannot be right.
pub const USAGE: u8 = 2;
/// The exit code of a command that stopped because conflicts or drift remain.
pub const CONFLICT: u8 = 3;

impl UserError {
    /// What the user asked for is right, but cannot be done here.
    pub fn failure(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, code: FAILURE }
    }

    /// An argument is wrong.
    pub fn usage(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, code: USAGE }
    }

    /// Conflicts that only the user can resolve.
    pub fn conflict(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: None, code: CONFLICT }
    }

    /// Says what to do next: an imperative sentence without a full stop.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The way out, if there is one to name.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The process's exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for UserError {}
