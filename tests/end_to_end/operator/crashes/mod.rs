//! An operator that is killed at one of its writes, at any of them or at all of them: the one that
//! takes its place brings the cluster to the same state.

mod http;
mod life;
mod proxy;
mod state;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use serde_json::json;

use self::life::{Crash, Life};
use self::proxy::{Kill, Moment, Proxy};
use crate::operator::background::Background;
use crate::operator::cluster::free_port;
use crate::operator::everything::{Everything, KINDS, Kind};
use crate::operator::machine::Machine;
use crate::operator::project::get;
use crate::operator::wait::{eventually, timed};

/// Where operators live and die: several at a time, each for a namespace.
pub struct Stage<'a> {
    machine: &'a Machine,
    everything: Everything<'a>,
    /// Of kubectl's proxy, which speaks TLS to the API server for the operators.
    port: u16,
    _kubectl: Background,
}

impl<'a> Stage<'a> {
    fn new(machine: &'a Machine) -> Self {
        let everything = Everything::installed(machine);
        let port = free_port();
        let mut kubectl = Command::new(&everything.cluster.kubectl);
        kubectl.env("KUBECONFIG", &everything.cluster.kubeconfig).args([
            "proxy",
            "--accept-hosts=.*",
            &format!("--port={port}"),
        ]);
        let log = machine.home().join("proxy.log");
        let mut kubectl = Background::start("kubectl proxy", kubectl, log);
        eventually("kubectl proxy", || {
            kubectl.assert_runs();
            get(port, "/readyz")
        });
        Self { machine, everything, port, _kubectl: kubectl }
    }

    /// A proxy of that name, and the kubeconfig of an operator behind it.
    fn proxy(&self, name: &str) -> (Proxy, PathBuf) {
        let proxy = Proxy::start(self.port);
        let server = format!("http://127.0.0.1:{}", proxy.port);
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "c", "cluster": { "server": server } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "" } }],
            "current-context": "c",
        });
        let path = self.machine.home().join(format!("{name}.kubeconfig"));
        fs::write(&path, kubeconfig.to_string()).unwrap();
        (proxy, path)
    }
}

/// An operator is killed at each of its writes, for each recipe; and once in each phase of a life, at
/// the first, the second and every other write, for Memcached. `CRASHES=all` does so for each recipe,
/// also with writes that the API server never sees.
#[test]
fn an_operator_that_is_killed_at_any_write_ends_in_the_same_state() {
    let machine = Machine::new();
    let stage = Stage::new(&machine);
    let all = std::env::var("CRASHES").is_ok_and(|value| value == "all");
    timed("all lives", || {
        thread::scope(|scope| {
            for kind in &KINDS {
                let stage = &stage;
                scope.spawn(move || match (all, kind.name) {
                    (true, _) => lives(stage, kind, &[Moment::BeforeWrite, Moment::BeforeAnswer]),
                    (false, "Memcached") => lives(stage, kind, &[Moment::BeforeAnswer]),
                    (false, _) => lives(stage, kind, &[]),
                });
            }
        });
    });
}

fn lives(stage: &Stage, kind: &Kind, moments: &[Moment]) {
    let live = |name: &str, crash, expected| {
        let namespace = format!("{}-{name}", kind.name.to_lowercase());
        Life::live(stage, kind, &namespace, crash, expected)
    };
    let expected = live("unharmed", Crash::Never, None);
    let writes: Vec<_> = expected.writes.iter().map(Vec::len).collect();
    let always = live("always", Crash::Always, Some(&expected));
    eprintln!("{}: {writes:?} writes, {} kills at each of them", kind.name, always.kills);
    let phases_with_writes = writes.iter().filter(|count| **count > 0).count();
    assert!(always.kills >= phases_with_writes, "{} kills", always.kills);

    for moment in moments {
        let mut kills = 0;
        for write in 1..=writes.iter().copied().max().unwrap_or_default() {
            let name = format!("{moment:?}-{write}").to_lowercase();
            let crash = Crash::Once(Kill { write, moment: *moment });
            kills += live(&name, crash, Some(&expected)).kills;
        }
        eprintln!("{}: {kills} kills {moment:?}", kind.name);
        assert!(kills > 0);
    }
}
