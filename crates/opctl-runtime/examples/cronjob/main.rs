//! The CronJob operator of kubebuilder's book (<https://book.kubebuilder.io/cronjob-tutorial>).
//!
//! ```sh
//! cargo run --example cronjob -- --print-manifests | kubectl apply --server-side -f -
//! mkdir /tmp/ledger
//! cargo run --example cronjob -- --ledger-directory /tmp/ledger
//! ```

mod api;
mod clock;
mod controller;
mod jobs;
mod ledger;
mod manifests;
mod metrics;
mod operator;
mod plan;

use std::path::PathBuf;

use clap::Parser;
use opctl_runtime::{Identity, Manager, Options, logging};

use crate::clock::SystemClock;
use crate::ledger::Ledger;

/// The field manager of all writes, and the controller that events come from.
const IDENTITY: Identity = Identity::new("cronjob-operator", env!("CARGO_PKG_VERSION"));

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

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    if flags.print_manifests {
        println!("{:#}", manifests::list());
        return Ok(());
    }
    logging::init(&flags.options);
    let manager = Manager::connect(IDENTITY, flags.options).await?;
    operator::start(&manager, Ledger::new(flags.ledger_directory), SystemClock);
    manager.run().await
}
