//! The recipes on a real node: what simulated pods hide. Needs Linux, root, namespaces, `apt-get` and Debian's
//! mirror (elsewhere the tests say that they are left out), and Go, perl and curl.
//!
//! The first run makes the node's programs and images, which takes minutes. `OPCTL_STORM=30` asks for a storm of
//! 30 minutes in addition, and `OPCTL_SEED` for another one.

// Clippy recognises tests by their attribute, which the tests of a custom harness do not have.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
// Namespaces are Linux'.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

#[cfg(target_os = "linux")]
mod broken;
mod cache;
mod clients;
mod debian;
#[cfg(target_os = "linux")]
mod drains;
mod images;
#[cfg(target_os = "linux")]
mod node;
mod operator;
#[cfg(target_os = "linux")]
mod postgres;
mod programs;
#[cfg(target_os = "linux")]
mod servers;
#[cfg(target_os = "linux")]
mod site;
#[cfg(target_os = "linux")]
mod storm;
#[cfg(target_os = "linux")]
mod truth;
#[cfg(target_os = "linux")]
mod verdict;

// Each test program has a use for a part of what they share.
#[allow(dead_code)]
#[path = "../end_to_end/operator/background.rs"]
mod background;
#[path = "../end_to_end/operator/client.rs"]
mod client;
#[allow(dead_code)]
#[path = "../end_to_end/operator/cluster.rs"]
mod cluster;
#[allow(dead_code)]
#[path = "../end_to_end/operator/machine.rs"]
mod machine;
#[allow(dead_code)]
#[path = "../end_to_end/operator/project.rs"]
mod project;
#[allow(dead_code)]
#[path = "../end_to_end/operator/random.rs"]
mod random;
#[allow(dead_code)]
#[path = "../end_to_end/operator/wait.rs"]
mod wait;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};
use rustix::process::geteuid;

#[cfg(target_os = "linux")]
const TESTS: &[(&str, fn())] = &[
    ("a_killed_machine_leaves_nothing", node::a_killed_machine_leaves_nothing),
    ("recipes_work_on_a_real_node", site::recipes_work_on_a_real_node),
    (STORM, site::recipes_survive_a_storm),
];
#[cfg(not(target_os = "linux"))]
const TESTS: &[(&str, fn())] = &[("recipes_work_on_a_real_node", || ())];

/// A slice of it belongs to the others: this one is for who asks for it.
const STORM: &str = "recipes_survive_a_storm";

fn main() -> ExitCode {
    // A machine has a `/tmp` of its own, and what it keeps there may be more than there is memory.
    if std::env::var_os("TMPDIR").is_some() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        let error = again.args(std::env::args_os().skip(1)).env_remove("TMPDIR").exec();
        panic!("the tests cannot be started without TMPDIR: {error}");
    }
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
    let on_a_node = TESTS.iter().map(|(name, test)| {
        let is_wanted = *name != STORM || std::env::var_os("OPCTL_STORM").is_some();
        trial(name, *test, obstacle.is_some() || !is_wanted)
    });
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
