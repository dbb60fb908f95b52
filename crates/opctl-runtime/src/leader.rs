//! Leader election: of several managers the one that holds a Lease reconciles.
//!
//! ```text
//! Standby --takes the lease--> Leader until sent + renew deadline --fails to renew--> the process ends
//!                                ^               |
//!                                +----renews-----+
//! ```
//!
//! As in client-go a lease is replaced under its resource version, so that of two who try one loses;
//! and nobody's clock is believed: a lease is taken over once it has been *seen* unchanged for as
//! long as it is to last. Its holder gives up after the shorter renew deadline. A process campaigns
//! once the stores of its controllers are complete: before that it could not reconcile.

mod state;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::metrics::Metrics;
use crate::options::LeaderElection;
use crate::{Identity, pod};

pub(crate) use state::LeaderState;

/// Holds the lease for as long as it can.
pub(crate) struct Elector {
    leases: Api<Lease>,
    /// The name of the lease.
    name: String,
    identity: String,
    timing: LeaderElection,
    leader: LeaderState,
    metrics: Arc<Metrics>,
    /// What the lease was when it was last seen to change, and when that was.
    seen: Option<(LeaseSpec, Instant)>,
    /// The lease as this process has left it.
    held: Option<Lease>,
}

impl Elector {
    /// # Errors
    /// The flags contradict each other, or the namespace of the lease is not known.
    pub fn new(
        client: Client,
        identity: Identity,
        timing: &LeaderElection,
        leader: LeaderState,
        metrics: Arc<Metrics>,
    ) -> Result<Self> {
        timing.check()?;
        let namespace =
            timing.namespace.clone().or_else(pod::namespace).context(
                "this process is not in a pod: set the namespace of the lease with --leader-elect-namespace",
            )?;
        // Two containers of one pod after another are two managers.
        let unique = RandomState::new().hash_one(identity.name());
        Ok(Self {
            leases: Api::namespaced(client, &namespace),
            name: timing
                .id
                .clone()
                .unwrap_or_else(|| identity.name().to_owned()),
            identity: format!("{}_{unique:016x}", pod::name()),
            timing: timing.clone(),
            leader,
            metrics,
            seen: None,
            held: None,
        })
    }

    /// Waits for the lease and keeps it until `release`, then leaves it to the next. No attempt is
    /// interrupted for that: nobody would know whether it has taken the lease.
    ///
    /// # Errors
    /// The lease is lost: another process may reconcile from now on.
    pub async fn run(mut self, release: CancellationToken) -> Result<()> {
        self.metrics.set_leader(&self.name, false);
        info!(
            lease = self.name,
            identity = self.identity,
            "standing by to become the leader"
        );
        if let Some(mut until) = self.acquire(&release).await {
            self.leader.hold(until);
            info!(
                lease = self.name,
                identity = self.identity,
                "became the leader"
            );
            self.metrics.set_leader(&self.name, true);
            let late = "could not renew the lease in time";
            while let Some(renewed) = timeout_at(until, self.renew(&release))
                .await
                .context(late)??
            {
                until = renewed;
                self.leader.hold(until);
            }
        }
        self.release().await;
        Ok(())
    }

    /// Tries until the lease is this process's; returns until when. `None` after `release`.
    async fn acquire(&mut self, release: &CancellationToken) -> Option<Instant> {
        let mut leader: Option<String> = None;
        loop {
            match self.attempt().await {
                Ok(Some(until)) => return (!release.is_cancelled()).then_some(until),
                Ok(None) => {}
                Err(error) => warn!(%error, "cannot take the lease, trying again"),
            }
            if self.holder() != leader.as_deref() {
                leader = self.holder().map(str::to_owned);
                info!(leader, "another manager is the leader");
            }
            self.pause(release).await?;
        }
    }

    /// Prolongs the lease after the retry period; returns until when it is held then. `None` after
    /// `release`.
    async fn renew(&mut self, release: &CancellationToken) -> Result<Option<Instant>> {
        while let Some(()) = self.pause(release).await {
            match self.attempt().await {
                Ok(Some(until)) => return Ok(Some(until)),
                Ok(None) if self.holder() != Some(&self.identity) => {
                    bail!("the lease went to {}", self.holder().unwrap_or("nobody"))
                }
                Ok(None) => {}
                Err(error) => warn!(%error, "cannot renew the lease, trying again"),
            }
        }
        Ok(None)
    }

    /// Waits for the retry period; `None` after `release`.
    async fn pause(&self, release: &CancellationToken) -> Option<()> {
        let pause = sleep(self.timing.retry_period);
        release.run_until_cancelled(pause).await
    }

    /// Takes or renews the lease if it is free or this process's already. Returns until when it may
    /// be relied on, which counts from before the request.
    async fn attempt(&mut self) -> Result<Option<Instant>> {
        let until = Instant::now() + self.timing.renew_deadline;
        // Leaves time for another attempt where an answer does not come.
        let limit = self.timing.renew_deadline / 2;
        let taken = timeout(limit, self.take()).await.context("no answer")??;
        Ok(taken.then_some(until))
    }

    async fn take(&mut self) -> kube::Result<bool> {
        let lease = match self.held.take() {
            Some(lease) => Some(lease),
            None => self.leases.get_opt(&self.name).await?,
        };
        if let Some(lease) = &lease {
            self.observe(lease);
            if !self.is_free() {
                return Ok(false);
            }
        }
        let params = PostParams::default();
        let written = match lease {
            Some(mut lease) => {
                lease.spec = Some(self.claim(lease.spec.unwrap_or_default()));
                self.leases.replace(&self.name, &params, &lease).await
            }
            None => {
                let metadata = ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                };
                let spec = Some(self.claim(LeaseSpec::default()));
                self.leases.create(&params, &Lease { metadata, spec }).await
            }
        };
        match written {
            Ok(lease) => {
                self.observe(&lease);
                self.held = Some(lease);
                Ok(true)
            }
            // Another manager was faster; the next attempt finds out which.
            Err(kube::Error::Api(answer)) if answer.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets the next manager lead at once.
    async fn release(&mut self) {
        self.leader.give_up();
        self.metrics.set_leader(&self.name, false);
        match timeout(self.timing.retry_period, self.leave()).await {
            Ok(Ok(true)) => info!(lease = self.name, "released the lease"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => warn!(%error, "could not release the lease, which expires"),
            Err(_) => warn!("could not release the lease in time, which expires"),
        }
    }

    /// Leaves the lease to others. Returns whether it was this process's.
    async fn leave(&mut self) -> kube::Result<bool> {
        loop {
            let lease = match self.held.take() {
                Some(lease) => Some(lease),
                // The last attempt may have taken it, although there was no answer.
                None => self.leases.get_opt(&self.name).await?,
            };
            let Some(mut lease) = lease else {
                return Ok(false);
            };
            let spec = lease.spec.take().unwrap_or_default();
            if spec.holder_identity.as_ref() != Some(&self.identity) {
                return Ok(false);
            }
            lease.spec = Some(LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                ..spec
            });
            let params = PostParams::default();
            match self.leases.replace(&self.name, &params, &lease).await {
                // Such an attempt was still under way.
                Err(kube::Error::Api(answer)) if answer.code == 409 => {}
                released => return released.map(|_| true),
            }
        }
    }

    fn observe(&mut self, lease: &Lease) {
        let spec = lease.spec.clone().unwrap_or_default();
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != spec) {
            self.seen = Some((spec, Instant::now()));
        }
    }

    fn holder(&self) -> Option<&str> {
        let (spec, _) = self.seen.as_ref()?;
        spec.holder_identity
            .as_deref()
            .filter(|holder| !holder.is_empty())
    }

    /// Whether the lease may be taken: nobody holds it, this process does, or it has expired.
    fn is_free(&self) -> bool {
        let Some((spec, since)) = &self.seen else {
            return true;
        };
        let seconds = spec
            .lease_duration_seconds
            .and_then(|seconds| seconds.try_into().ok());
        let lasts = seconds.map_or(self.timing.lease_duration, Duration::from_secs);
        match self.holder() {
            Some(holder) if holder != self.identity => since.elapsed() > lasts,
            _ => true,
        }
    }

    fn claim(&self, old: LeaseSpec) -> LeaseSpec {
        let now = || MicroTime(Timestamp::now());
        let same = old.holder_identity.as_ref() == Some(&self.identity);
        // The duration is in seconds: rounded up, it errs on the side of safety.
        let duration = self.timing.lease_duration.as_secs_f64().ceil();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(duration as i32),
            acquire_time: old.acquire_time.filter(|_| same).or_else(|| Some(now())),
            renew_time: Some(now()),
            lease_transitions: Some(old.lease_transitions.unwrap_or(0) + i32::from(!same)),
            ..old
        }
    }
}

#[cfg(test)]
mod tests;
