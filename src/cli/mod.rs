//! The command line: flags become a request; the effects live in the other rooms.

mod cluster;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::ui::Ui;

/// The operator SDK for Rust.
#[derive(Debug, Parser)]
#[command(name = "opctl", version, about, long_about = None)]
struct Cli {
    /// Print only data and errors
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Cluster(cluster::Command),
}

/// Parses the arguments, runs the command and turns its outcome into an exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let ui = Ui::new(cli.quiet);
    match run(cli.command, ui) {
        Ok(code) => code,
        Err(error) => ExitCode::from(ui.error(&error)),
    }
}

fn run(command: Command, ui: Ui) -> anyhow::Result<ExitCode> {
    match command {
        Command::Cluster(command) => cluster::run(command, ui),
    }
}
