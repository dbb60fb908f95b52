//! The recipes on a real node: what simulated pods hide. Needs Linux, root, namespaces, `apt-get` and Debian's
//! mirror (elsewhere the tests say that they are left out), and Go, perl and curl.
//!
//! The first run makes the node's programs and images, which takes minutes.

// Clippy recognises tests by their attribute, which the tests of a custom harness do not have.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
// Namespaces are Linux'.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

mod cache;
mod clients;
mod debian;
mod images;
#[cfg(target_os = "linux")]
mod node;
mod operator;
#[cfg(target_os = "linux")]
mod postgres;
mod programs;
#[cfg(target_os = "linux")]
mod servers;
mod truth;

// Each test program has a use for a part of what they share.
#[allow(dead_code)]
#[path = "../operator/background.rs"]
mod background;
#[allow(dead_code)]
#[path = "../operator/cluster.rs"]
mod cluster;
#[allow(dead_code)]
#[path = "../operator/machine.rs"]
mod machine;
#[allow(dead_code)]
#[path = "../operator/project.rs"]
mod project;
#[allow(dead_code)]
#[path = "../operator/wait.rs"]
mod wait;

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};
use rustix::process::geteuid;

#[cfg(target_os = "linux")]
const TESTS: &[(&str, fn())] = &[
    ("a_killed_machine_leaves_nothing", node::a_killed_machine_leaves_nothing),
    ("memcached_and_web_server_work_on_a_real_node", servers::work_on_a_real_node),
    ("a_postgres_cluster_works_on_a_real_node", postgres::work_on_a_real_node),
];
#[cfg(not(target_os = "linux"))]
const TESTS: &[(&str, fn())] = &[("recipes_work_on_a_real_node", || ())];

fn main() -> ExitCode {
    let obstacle = obstacle();
    if let Some(obstacle) = &obstacle {
        eprintln!("{} tests on a real node are LEFT OUT: {obstacle}", TESTS.len());
    }
    let trial = |name: &str, test: fn(), is_ignored: bool| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(is_ignored)
    };
    let cache = trial("old_versions_leave_the_cache", cache::old_versions_leave_the_cache, false);
    let on_a_node = TESTS.iter().map(|(name, test)| trial(name, *test, obstacle.is_some()));
    // Each node takes the whole machine.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let trials = [cache].into_iter().chain(on_a_node).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Why there cannot be a node here.
fn obstacle() -> Option<String> {
    if !cfg!(target_os = "linux") || !geteuid().is_root() {
        return Some("they need Linux and root".to_owned());
    }
    let mirror = format!("{}/dists/{}/InRelease", debian::MIRROR, debian::SUITE);
    let curl =
        ["curl", "--silent", "--show-error", "--fail", "--head", "--max-time", "20", &mirror];
    let namespaces = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "true"];
    [&namespaces[..], &["apt-get", "--version"], &curl].into_iter().find_map(|command| {
        let why = match Command::new(command[0]).args(&command[1..]).output() {
            Ok(output) if output.status.success() => return None,
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        Some(format!("`{}` fails: {why}", command.join(" ")))
    })
}
