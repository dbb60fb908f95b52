//! The only printer: data on stdout, messages on stderr, colours only on a terminal. Messages can quote
//! text from outside, so that hidden characters in them are escaped.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};

use crate::error::UserError;
use crate::text::visible;

const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();

const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();

/// The terminal of the user: how much to print, and whether to prompt.
#[derive(Debug, Clone, Copy)]
pub struct Ui {
    quiet: bool,
    interactive: bool,
}

impl Ui {
    /// A printer for the streams of this process. It prompts only if stdin and stderr are terminals.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, interactive: io::stdin().is_terminal() && io::stderr().is_terminal() }
    }

    /// Prints the result of a command on stdout.
    ///
    /// # Errors
    /// If it cannot be written, for example because the disk is full: scripts read it.
    pub fn data(&self, text: impl AsRef<str>) -> Result<()> {
        match self.stream(text) {
            // A reader that closes the pipe early (`opctl ... | head`) is not an error.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).context("cannot write to stdout")
            }
            _ => Ok(()),
        }
    }

    /// Prints a patch on stdout: on a terminal coloured and in the user's pager.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn patch(&self, patch: &str) -> Result<()> {
        let mut text = String::new();
        for line in patch.split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
            let style = match line.as_bytes().first() {
                Some(b'+') => ADDED,
                Some(b'-') => REMOVED,
                Some(b'@') => NOTE,
                _ => Style::new(),
            };
            text.push_str(&format!("{style}{line}{style:#}{end}"));
        }
        if text.is_empty() || io::stdout().is_terminal() && page(&text).is_ok() {
            return Ok(());
        }
        match write!(anstream::stdout(), "{text}") {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).context("cannot write to stdout")
            }
            _ => Ok(()),
        }
    }

    /// Prints one of many lines on stdout.
    ///
    /// # Errors
    /// If the reader has closed the pipe, so that the remaining lines need not be produced.
    pub fn stream(&self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(anstream::stdout(), "{}", text.as_ref())
    }

    /// Prints a line of progress: a right-aligned verb and its object. Silent with `--quiet`.
    pub fn status(&self, verb: &str, object: impl AsRef<str>) {
        self.verb(GOOD, verb, object.as_ref());
    }

    /// Like [`Ui::status`], highlighted for the user to look at.
    pub fn attention(&self, verb: &str, object: impl AsRef<str>) {
        self.verb(NOTE, verb, object.as_ref());
    }

    fn verb(&self, style: Style, verb: &str, object: &str) {
        if !self.quiet {
            print(&format!("{style}{verb:>12}{style:#} {}\n", visible(object)));
        }
    }

    /// Prints a line of text on stderr. Silent with `--quiet`.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            print(&format!("{}\n", visible(text.as_ref())));
        }
    }

    /// Prints what the user can do next, after a message. Silent with `--quiet`.
    pub fn hint(&self, hint: &str) {
        if !self.quiet {
            print_hint(hint);
        }
    }

    /// Prints what went wrong beside the work of the command, also with `--quiet`.
    pub fn warning(&self, text: impl AsRef<str>) {
        let text = visible(text.as_ref());
        print(&format!("{WARNING}warning:{WARNING:#} {text}\n"));
    }

    /// Prints an error with its hint, also with `--quiet`. Returns the exit code.
    pub fn error(&self, error: &anyhow::Error) -> u8 {
        let message = format!("{error:#}");
        print(&format!("{BAD}error:{BAD:#} {}\n", visible(&message)));
        let user_error = error.downcast_ref::<UserError>();
        if let Some(hint) = user_error.and_then(UserError::hint) {
            print_hint(hint);
        }
        user_error.map_or(crate::error::FAILURE, UserError::code)
    }

    /// Whether there is a user who can answer questions.
    pub fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Asks a yes/no question on a terminal; elsewhere the default is the answer.
    pub fn confirm(&self, question: &str, default: bool) -> bool {
        if !self.interactive {
            return default;
        }
        let choices = if default { "Y/n" } else { "y/N" };
        print(&format!("{} [{choices}] ", visible(question)));
        let mut answer = String::new();
        match io::stdin().read_line(&mut answer) {
            // The end of the input is no answer.
            Ok(0) | Err(_) => false,
            Ok(_) => match answer.trim().to_ascii_lowercase().as_str() {
                "" => default,
                answer => answer.starts_with('y'),
            },
        }
    }

    /// Asks for a password on a terminal, which does not show it; elsewhere there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn password(&self, prompt: &str) -> Result<Option<String>> {
        if !self.interactive {
            return Ok(None);
        }
        let password = rpassword::prompt_password(format!("{}: ", visible(prompt)));
        Ok(Some(password.context("cannot read the password")?))
    }
}

/// Shows a text in `$PAGER`, by default less, which ends by itself if the text fits on the screen.
fn page(text: &str) -> io::Result<()> {
    let mut pager = Command::new("sh");
    pager.args(["-c", "LESS=${LESS-FRX} exec ${PAGER:-less}"]).stdin(Stdio::piped());
    let mut pager = pager.spawn()?;
    if let Some(mut stdin) = pager.stdin.take() {
        // A user who quits early has seen enough.
        let _ = stdin.write_all(text.as_bytes());
    }
    let status = pager.wait()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("the pager failed")) }
}

fn print_hint(hint: &str) {
    print(&format!("{NOTE}hint:{NOTE:#} {}\n", visible(hint)));
}

/// Prints on stderr, at once: formatted right there, each word of a line would be a write of its own, and lines of
/// processes that share a terminal would mix.
fn print(text: &str) {
    let stderr = io::stderr();
    let _ = match AutoStream::choice(&stderr) {
        ColorChoice::Never => stderr.lock().write_all(strip_str(text).to_string().as_bytes()),
        _ => stderr.lock().write_all(text.as_bytes()),
    };
}
