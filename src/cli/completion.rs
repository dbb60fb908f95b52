//! `opctl completion`.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::ui::Ui;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  opctl completion bash > opctl.bash")]
pub struct CompletionArgs {
    /// Shell to complete commands in
    shell: Shell,
}

impl CompletionArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::Cli::command(), "opctl", &mut script);
        ui.data(String::from_utf8_lossy(&script).trim_end())
    }
}
