//! The CronJob operator of kubebuilder's book (<https://book.kubebuilder.io/cronjob-tutorial>).

use opctl_runtime::Identity;

pub mod api;
pub mod clock;
mod controller;
mod jobs;
pub mod ledger;
pub mod manifests;
mod metrics;
pub mod operator;
mod plan;

/// The field manager of all writes, and the controller that events come from.
pub const IDENTITY: Identity = Identity::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
