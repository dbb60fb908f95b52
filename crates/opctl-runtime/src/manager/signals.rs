//! What asks the process to stop.

use std::process;

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Cancels `stop` on the first SIGTERM or SIGINT, and ends the process on the second, as
/// controller-runtime does: whoever sends two does not want to wait for reconciles.
///
/// # Errors
/// The signals cannot be handled.
pub(super) async fn handle(stop: CancellationToken) -> Result<()> {
    let mut sigterm = signal(SignalKind::terminate())?;
    let mut sigint = signal(SignalKind::interrupt())?;
    let mut next = async || {
        tokio::select! {
            _ = sigterm.recv() => "SIGTERM",
            _ = sigint.recv() => "SIGINT",
        }
    };
    let first = next().await;
    info!("stopping on {first}");
    stop.cancel();
    let second = next().await;
    warn!("ending at once on {second}, the second signal");
    process::exit(1)
}
