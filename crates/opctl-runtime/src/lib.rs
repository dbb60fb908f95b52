//! The library that Kubernetes operators made by opctl stand on. It is to kube-rs what
//! controller-runtime is to client-go.
//!
//! ```text
//! watches -> Store (one per kind) -> Queue of each Controller -> reconcile
//!              ^                                                    |
//!              +------ answers to its own writes <---- Applier <----+
//! ```
//!
//! - A [`Manager`] connects to the cluster, serves probes and metrics, elects a leader, and runs the
//!   controllers until the process is asked to stop.
//! - A [`Controller`] reconciles the objects of one kind. It is plain kube-rs: a function of the object
//!   and a context of yours, with an error of yours.
//! - A [`Store`] holds the objects of one kind in memory, shared by all controllers, with indexes.
//! - An [`Applier`] writes children and status, and only where something differs.
//! - [`rbac`] and [`manifests`] keep the operator's CRDs and role in its code.
//! - [`workload`] has what operators of Deployments and StatefulSets have in common. It has opinions;
//!   nothing else here depends on it.
//! - `testing` (a feature) runs an operator as its service account on a test cluster.
//!
//! # Example
//! ```no_run
//! use clap::Parser;
//! use opctl_runtime::{Identity, Manager, Options, logging};
//!
//! #[derive(Parser)]
//! struct Flags {
//!     #[command(flatten)]
//!     options: Options,
//! }
//!
//! fn main() -> anyhow::Result<()> {
//!     let Flags { options } = Flags::parse();
//!     logging::init(&options);
//!     let identity = Identity::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
//!     opctl_runtime::runtime()?.block_on(async {
//!         let manager = Manager::connect(identity, options).await?;
//!         // Start controllers here.
//!         manager.run().await
//!     })
//! }
//! ```
//!
//! # When not to use it
//! An operator that watches several clusters, or serves webhooks, needs more than this crate has.
//! A task that runs once and ends is a Job with a kube `Client`.

// Also where the crate is part of a project with lints of its own.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod applier;
mod client;
pub mod conditions;
mod controller;
mod error;
mod events;
mod fields;
mod health;
mod identity;
mod leader;
pub mod logging;
mod manager;
pub mod manifests;
mod metrics;
mod object;
mod options;
mod ownership;
mod pod;
pub mod predicates;
pub mod rbac;
mod runtime;
mod server;
mod store;
pub mod testing;
mod token_bucket;
mod without_managed_fields;
pub mod workload;

pub use applier::{Applier, DeletionPolicy};
pub use controller::{Controller, RateLimiter, Retry, soonest};
pub use error::{Error, Result};
pub use events::EventRecorder;
pub use identity::Identity;
pub use kube::runtime::finalizer;
pub use manager::{Manager, StoreBuilder};
pub use object::{DynamicType, Object, Scope, has_dangling_owner};
pub use options::{BindAddress, Endpoint, LeaderElection, Namespaces, Options};
pub use runtime::runtime;
pub use store::{Index, Store};
pub use {kube, prometheus_client};
