//! What production does to a generated operator: replicas that die, an API server that goes away,
//! and requests that fail. The operator is the binary of the Memcached project, with the rights of
//! the ServiceAccount that the project deploys.

mod alerts;
mod failover;
mod fleet;
mod metrics;
mod outages;
mod refusals;
pub mod site;
mod token;
mod uninstall;
mod writes;
