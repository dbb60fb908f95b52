//! Leases, probes, metrics and signals, on a thread of their own: a reconcile that blocks its thread must
//! not stop them.

use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use kube::Client;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Manager, signals};
use crate::client;
use crate::leader::Elector;
use crate::server;

/// The thread. It ends when this is dropped.
pub(crate) struct Control {
    release: DropGuard,
    ended: oneshot::Receiver<Result<()>>,
}

/// Starts to serve and to take part in the election, and to handle signals if `signals` says so.
pub(crate) fn start(manager: &Manager, signals: bool) -> Result<Control> {
    let release = CancellationToken::new();
    let (sender, ended) = oneshot::channel();
    let (manager, token) = (manager.clone(), release.clone());
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        // The receiver is gone when the process ends for another reason.
        let _ = sender.send(runtime.block_on(run(manager, token, signals)));
    };
    let thread = thread::Builder::new().name("control".to_owned());
    thread.spawn(run).context("cannot start a thread")?;
    Ok(Control {
        release: release.drop_guard(),
        ended,
    })
}

impl Control {
    /// Waits until a server fails or the lease is lost.
    pub async fn ended(&mut self) -> Result<()> {
        finished((&mut self.ended).await)
    }

    /// Releases the lease and stops serving.
    pub async fn release(self) -> Result<()> {
        let Self { release, ended } = self;
        drop(release);
        finished(ended.await)
    }
}

fn finished(ended: Result<Result<()>, oneshot::error::RecvError>) -> Result<()> {
    ended.unwrap_or_else(|_| Err(anyhow!("leader election and servers have panicked")))
}

async fn run(manager: Manager, release: CancellationToken, signals: bool) -> Result<()> {
    let client = own_client(&manager)?;
    let options = manager.options();
    let mut servers = JoinSet::new();
    if let Some(address) = options.health_probe_bind_address.clone() {
        servers.spawn(server::serve_probes(manager.clone(), address));
    }
    if let Some(address) = options.metrics_bind_address.clone() {
        let serve = server::serve_metrics(manager.clone(), client.clone(), address);
        servers.spawn(serve);
    }
    tokio::select! {
        Some(ended) = servers.join_next() => ended?,
        ended = elect(&manager, client, release) => ended,
        ended = signals::handle(manager.0.stop.clone()), if signals => ended,
    }
}

/// A connection that the reconciles do not use: a client is driven by the thread that made it.
fn own_client(manager: &Manager) -> Result<Client> {
    let Some(config) = &manager.0.config else {
        return Ok(manager.0.unfenced.clone());
    };
    let metrics = Arc::clone(manager.metrics());
    Ok(client::connect_counted(config.clone(), metrics)?.client())
}

/// Keeps this process the leader, once it is, until `release`.
async fn elect(manager: &Manager, client: Client, release: CancellationToken) -> Result<()> {
    if !manager.options().leader_election.enabled {
        release.cancelled().await;
        return Ok(());
    }
    let elector = Elector::new(
        client,
        manager.identity(),
        &manager.options().leader_election,
        manager.0.leader.clone(),
        Arc::clone(manager.metrics()),
    )?;
    let election = async {
        tokio::select! {
            () = manager.controllers_synced() => elector.run(release).await,
            () = release.cancelled() => Ok(()),
        }
    };
    let name = "the leader election".to_owned();
    let election = manager.health().supervise(name, election);
    election.await.context("stopped leading")
}
