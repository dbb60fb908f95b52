//! The programs that build a project.

use std::env;
use std::process::Command;

/// cargo: that in `CARGO`, which cargo sets for what it runs, or else that on the path.
pub fn cargo() -> Command {
    program("CARGO", "cargo")
}

/// rustc: that in `RUSTC`, which cargo uses, too, or else that on the path.
pub fn rustc() -> Command {
    program("RUSTC", "rustc")
}

/// rustfmt: that in `RUSTFMT`, as cargo-fmt has it, or else that on the path.
pub fn rustfmt() -> Command {
    program("RUSTFMT", "rustfmt")
}

fn program(variable: &str, default: &str) -> Command {
    Command::new(env::var_os(variable).unwrap_or_else(|| default.into()))
}
