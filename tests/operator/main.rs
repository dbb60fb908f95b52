//! Generated operators, from the command line to the pods, on the real control plane.
//!
//! Nothing is taken from the user's own cluster or home. The first run on a new machine builds the
//! control plane and the dependencies of a generated project, which takes minutes.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod audit;
mod background;
mod cluster;
mod cost;
mod crashes;
mod docs;
mod everything;
mod faults;
mod foreign;
mod machine;
mod memcached;
mod own;
mod production;
mod project;
mod projects;
mod random;
mod readme;
mod recipes;
mod statuses;
mod steps;
mod updates;
mod wait;
