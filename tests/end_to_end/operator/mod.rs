//! Generated operators, from the command line to the pods, on the real control plane.

mod audit;
mod background;
pub mod client;
pub mod cluster;
mod cost;
mod crashes;
pub mod docs;
mod everything;
mod faults;
mod foreign;
pub mod machine;
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
