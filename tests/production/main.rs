//! What production does to a generated operator: replicas that die, an API server that goes away,
//! and requests that fail. The operator is the binary of the Memcached project, with the rights of
//! the ServiceAccount that the project deploys.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

// Each of the two test binaries uses a part of what they share.
#[allow(dead_code)]
#[path = "../operator/background.rs"]
mod background;
#[allow(dead_code)]
#[path = "../operator/cluster.rs"]
mod cluster;
#[allow(dead_code)]
#[path = "../operator/faults.rs"]
mod faults;
#[allow(dead_code)]
#[path = "../operator/machine.rs"]
mod machine;
#[allow(dead_code)]
#[path = "../operator/memcached.rs"]
mod memcached;
#[allow(dead_code)]
#[path = "../operator/project.rs"]
mod project;
#[allow(dead_code)]
#[path = "../operator/wait.rs"]
mod wait;

mod failover;
mod fleet;
mod outages;
mod proxy;
mod refusals;
mod site;
mod writes;
