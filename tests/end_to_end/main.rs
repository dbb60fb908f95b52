//! What waits for real programs: control planes, registries, PostgreSQL, generated operators, strace, git. They are
//! one test program, so that they wait at the same time.
//!
//! Nothing is taken from the user's own cluster or home. The first run on a new machine builds the
//! control plane and the dependencies of a generated project, which takes minutes.

// Clippy sees tests only in the functions that are marked as such, not in their helpers.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod cluster;
mod deploy;
mod image;
mod olm;
mod operator;
mod postgres;
#[cfg(target_os = "linux")]
mod system_calls;
mod update;
