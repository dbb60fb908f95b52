//! The command line: flags become requests; their effects are in the other modules.

mod adopt;
mod audit;
mod bundle;
mod change;
mod cluster;
mod completion;
mod create;
mod delete;
mod diff;
mod edit;
mod generate;
mod image;
mod init;
mod olm;
mod rename;
mod run;
mod scorecard;
mod status;
mod trial;
mod update;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};

use crate::project::{Project, VERSION};
use crate::sync::Workspace;
use crate::ui::Ui;
use audit::AuditArgs;
use bundle::BundleCommand;
use cluster::ClusterArgs;
use completion::CompletionArgs;
use create::CreateCommand;
use delete::DeleteCommand;
use diff::DiffArgs;
use edit::EditArgs;
use generate::GenerateCommand;
use image::ImageCommand;
use init::InitArgs;
use olm::OlmCommand;
use rename::RenameCommand;
use run::{CleanupArgs, RunCommand};
use scorecard::ScorecardArgs;
use status::StatusArgs;
use update::UpdateArgs;

/// The operator SDK for Rust.
#[derive(Debug, Parser)]
#[command(name = "opctl", version, about, long_about = None)]
#[command(
    after_help = "Example:\n  opctl init --domain example.com\n  opctl create api --group cache --version v1alpha1 --kind Memcached"
)]
struct Cli {
    /// Print only results and errors
    #[arg(short, long, global = true, display_order = 1000)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(InitArgs),
    #[command(subcommand)]
    Create(CreateCommand),
    Edit(EditArgs),
    #[command(subcommand)]
    Delete(DeleteCommand),
    #[command(subcommand)]
    Rename(RenameCommand),
    Update(UpdateArgs),
    Status(StatusArgs),
    Diff(DiffArgs),
    #[command(subcommand)]
    Image(ImageCommand),
    #[command(subcommand)]
    Generate(GenerateCommand),
    #[command(subcommand)]
    Bundle(BundleCommand),
    Scorecard(ScorecardArgs),
    #[command(subcommand)]
    Run(RunCommand),
    Cleanup(CleanupArgs),
    #[command(subcommand)]
    Olm(OlmCommand),
    Cluster(ClusterArgs),
    Audit(AuditArgs),
    Completion(CompletionArgs),
    /// Print the version
    #[command(after_help = "Example:\n  opctl version")]
    Version,
}

/// The format of a command's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable text
    #[default]
    Text,
    /// JSON
    Json,
}

/// Parses the arguments, runs the command and returns its exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let ui = Ui::new(cli.quiet);
    match run(cli.command, ui) {
        Ok(code) => code,
        Err(error) => ExitCode::from(ui.error(&error)),
    }
}

fn run(command: Command, ui: Ui) -> Result<ExitCode> {
    match command {
        Command::Init(args) => args.run(ui)?,
        Command::Create(CreateCommand::Api(args)) => args.run(ui)?,
        Command::Delete(command) => command.run(ui)?,
        Command::Rename(command) => command.run(ui)?,
        Command::Edit(args) => args.run(ui)?,
        Command::Update(args) => args.run(ui)?,
        Command::Status(args) => return args.run(ui),
        Command::Diff(args) => args.run(ui)?,
        Command::Image(command) => command.run(ui)?,
        Command::Generate(command) => command.run(ui)?,
        Command::Bundle(command) => return command.run(ui),
        Command::Scorecard(args) => return args.run(ui),
        Command::Run(command) => command.run(ui)?,
        Command::Cleanup(args) => args.run(ui)?,
        Command::Olm(command) => command.run(ui)?,
        Command::Cluster(command) => return cluster::run(command, ui),
        Command::Audit(args) => return args.run(ui),
        Command::Completion(args) => args.run(ui)?,
        Command::Version => ui.data(format!("opctl {VERSION}"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory that a command works on.
fn directory() -> Result<PathBuf> {
    env::current_dir().context("cannot determine the current directory")
}

/// The model of the project that a command changes or inspects.
fn model(workspace: &Workspace) -> Result<&Project> {
    workspace.project().context("no PROJECT file")
}
