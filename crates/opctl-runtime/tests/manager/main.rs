//! Managers and controllers on a real control plane, which the tests start by themselves.

mod api;
mod children;
mod cluster;
mod consistency;
mod controllers;
mod edits;
mod family;
mod http;
mod leader;
mod metrics;
mod ownership;
mod program;
mod random;
mod status;
#[path = "../support/mod.rs"]
mod support;
