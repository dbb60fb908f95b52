//! The error for users: what is wrong, and what to do about it.

use std::fmt;

use crate::text::one_line;

/// An error that a user can fix, with a hint and an exit code. Every other error is an
/// [`anyhow::Error`] with context.
#[derive(Debug)]
pub struct UserError {
    message: String,
    hint: Option<String>,
    code: u8,
}

/// The exit code of a command that failed.
pub const FAILURE: u8 = 1;
/// The exit code of a command with invalid arguments.
pub const USAGE: u8 = 2;
/// The exit code of a command that stopped at conflicts.
pub const CONFLICT: u8 = 3;
/// The exit code of a command that found differences between a project and its model.
pub const DRIFT: u8 = 4;

impl UserError {
    /// An error for a valid request that cannot be fulfilled.
    pub fn failure(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: FAILURE }
    }

    /// An error for an invalid combination of arguments.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: USAGE }
    }

    /// An error for the value of one argument, in the words of clap. `argument` is the argument as
    /// clap displays it, such as `--kind <KIND>`.
    pub fn invalid_value(
        argument: &str,
        value: impl fmt::Display,
        reason: impl fmt::Display,
    ) -> Self {
        let value = value.to_string();
        let value = one_line(&value);
        Self::usage(format!("invalid value '{value}' for '{argument}': {reason}"))
    }

    /// An error for conflicts that only the user can resolve.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: CONFLICT }
    }

    /// An error for differences between a project and its model.
    pub fn drift(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: DRIFT }
    }

    /// Adds what to do about the error: an imperative sentence without a full stop.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do about the error.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for UserError {}
