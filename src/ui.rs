//! The only printer: data on stdout, messages on stderr, colour only where a person reads.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

use crate::error::UserError;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();

/// How much the user wants to read, and whether there is a user to ask.
#[derive(Debug, Clone, Copy)]
pub struct Ui {
    quiet: bool,
    interactive: bool,
}

impl Ui {
    /// Decides once, before anything is asked, whether a person is at the other end.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, interactive: io::stdin().is_terminal() && io::stderr().is_terminal() }
    }

    /// What the user asked for, on stdout.
    pub fn data(&self, text: impl AsRef<str>) {
        // A reader that closes the pipe early (`opctl ... | head`) is not an error.
        let _ = self.stream(text);
    }

    /// Like [`Ui::data`], for one of many lines.
    ///
    /// # Errors
    /// When the reader is gone, so that the rest need not be printed.
    pub fn stream(&self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(anstream::stdout(), "{}", text.as_ref())
    }

    /// A line of progress: a right-aligned verb and what it is done to. Silent with `--quiet`.
    pub fn status(&self, verb: &str, what: impl AsRef<str>) {
        self.verb(GOOD, verb, what.as_ref());
    }

    /// Like [`Ui::status`], for something the user should look at.
    pub fn attention(&self, verb: &str, what: impl AsRef<str>) {
        self.verb(NOTE, verb, what.as_ref());
    }

    fn verb(&self, style: Style, verb: &str, what: &str) {
        if !self.quiet {
            let _ = writeln!(anstream::stderr(), "{style}{verb:>12}{style:#} {what}");
        }
    }

    /// Plain words on stderr. Silent with `--quiet`.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            let _ = writeln!(anstream::stderr(), "{}", text.as_ref());
        }
    }

    /// The error and, on a line of its own, the way out. Returns the exit code.
    pub fn error(&self, error: &anyhow::Error) -> u8 {
        let mut err = anstream::stderr();
        let _ = writeln!(err, "{BAD}error:{BAD:#} {error:#}");
        let user_error = error.downcast_ref::<UserError>();
        if let Some(hint) = user_error.and_then(UserError::hint) {
            let _ = writeln!(err, "{NOTE}hint:{NOTE:#} {hint}");
        }
        user_error.map_or(crate::error::FAILURE, UserError::code)
    }

    /// Asks a yes/no question where a person can answer; elsewhere the default is the answer.
    pub fn confirm(&self, question: &str, default: bool) -> bool {
        if !self.interactive {
            return default;
        }
        let choice = if default { "Y/n" } else { "y/N" };
        let _ = write!(anstream::stderr(), "{question} [{choice}] ");
        let mut answer = String::new();
        match io::stdin().read_line(&mut answer) {
            Ok(_) => match answer.trim().to_ascii_lowercase().as_str() {
                "" => default,
                answer => answer.starts_with('y'),
            },
            Err(_) => default,
        }
    }
}
