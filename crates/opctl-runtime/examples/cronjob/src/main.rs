//! Runs the operator.
//!
//! ```sh
//! cargo run -p cronjob-operator -- --print-manifests | kubectl apply --server-side -f -
//! mkdir /tmp/ledger
//! cargo run -p cronjob-operator -- --ledger-directory /tmp/ledger
//! ```

use std::path::PathBuf;

use clap::Parser;
use cronjob_operator::clock::SystemClock;
use cronjob_operator::ledger::Ledger;
use cronjob_operator::{IDENTITY, manifests, operator};
use opctl_runtime::{Manager, Options, logging};

/// Start Jobs on a schedule
#[derive(Parser)]
struct Flags {
    /// The flags of every operator.
    #[command(flatten)]
    options: Options,

    /// Directory in which the runs of each CronJob are recorded
    #[arg(long, default_value = "ledger", value_name = "DIRECTORY")]
    ledger_directory: PathBuf,

    /// Print the CRD and the role, and exit
    #[arg(long)]
    print_manifests: bool,
}

fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    if flags.print_manifests {
        println!("{:#}", manifests::list());
        return Ok(());
    }
    logging::init(&flags.options);
    opctl_runtime::runtime()?.block_on(async {
        let manager = Manager::connect(IDENTITY, flags.options).await?;
        operator::start(&manager, Ledger::new(flags.ledger_directory), SystemClock);
        manager.run().await
    })
}
