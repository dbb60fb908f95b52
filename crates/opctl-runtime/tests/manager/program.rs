//! An operator for tests that need a process: this test binary, executed once more.

use std::convert::Infallible;
use std::env;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Api, Client, ResourceExt};
use opctl_runtime::testing::{Operator, Process};
use opctl_runtime::{Controller, Identity, Manager, Options};
use serde_json::json;

use crate::api::Missing;
use crate::support::executable;

/// The name of the operator, and so of its lease.
pub const NAME: &str = "program";

/// How long its lease lasts.
pub const LEASE_DURATION: Duration = Duration::from_secs(3);

/// The label of a ConfigMap whose reconcile blocks the thread, and for how long it does.
pub const BLOCK: &str = "runtime.example.com/block";
const BLOCK_DURATION: Duration = Duration::from_secs(8);

/// What hands the flags over, and the name of this instance.
const FLAGS: &str = "PROGRAM_FLAGS";
const INSTANCE: &str = "PROGRAM_INSTANCE";

/// How long it waits for the objects of a kind that is not installed.
const SYNC_TIMEOUT: Duration = Duration::from_secs(20);

/// What makes it run a controller of a kind that is not installed.
const MISSING: &str = "PROGRAM_MISSING";

/// Starts it as the operator's service account.
pub fn start(operator: &Operator, instance: &str, probes: &str) -> Process {
    Process::start(&mut command(operator, instance, probes))
}

/// As [`start`], with a controller whose store never has a complete list.
pub fn start_with_missing_kind(operator: &Operator, instance: &str, probes: &str) -> Process {
    Process::start(command(operator, instance, probes).env(MISSING, ""))
}

fn command(operator: &Operator, instance: &str, probes: &str) -> Command {
    let namespace = &operator.namespace;
    let flags = format!(
        "--namespaces={namespace} --health-probe-bind-address={probes} --metrics-bind-address=0 \
         --leader-elect --leader-elect-namespace={namespace} \
         --leader-elect-lease-duration={}s --leader-elect-renew-deadline=2s \
         --leader-elect-retry-period=500ms",
        LEASE_DURATION.as_secs()
    );
    let mut command = Command::new(executable());
    command
        .args(["--exact", "program::program", "--ignored"])
        .stdout(Stdio::null());
    command.env("KUBECONFIG", &operator.kubeconfig);
    command.env(FLAGS, flags).env(INSTANCE, instance);
    command
}

#[tokio::test]
#[ignore = "it is an operator that other tests start"]
async fn program() {
    let (Ok(flags), Ok(instance)) = (env::var(FLAGS), env::var(INSTANCE)) else {
        return;
    };
    let options = Options::from_flags(flags.split(' ')).expect("the flags should be valid");
    let namespace = options.leader_election.namespace.clone();
    let namespace = namespace.expect("the flags should have a namespace");
    let manager = Manager::connect(Identity::new(NAME, "1.0.0"), options).await;
    let manager = manager.expect("KUBECONFIG should name a kubeconfig");
    Controller::<ConfigMap>::new(&manager).run(block, manager.client());
    if env::var_os(MISSING).is_some() {
        let ignore = async |_, _| Ok::<_, Infallible>(Action::await_change());
        let controller = Controller::<Missing>::new(&manager);
        controller.sync_timeout(SYNC_TIMEOUT).run(ignore, ());
    }

    let marks = Api::<ConfigMap>::namespaced(manager.client(), &namespace);
    manager.spawn_on_leader("the mark of the leader", async move {
        let mut mark = ConfigMap::default();
        mark.metadata.name = Some(format!("led-{instance}"));
        let created = marks.create(&Default::default(), &mark).await;
        created.expect("the leader should be able to write");
    });
    manager
        .run()
        .await
        .expect("SIGTERM should stop the manager");
}

/// Blocks the thread once.
async fn block(object: Arc<ConfigMap>, client: Arc<Client>) -> kube::Result<Action> {
    if object.labels().contains_key(BLOCK) && object.annotations().is_empty() {
        annotate(&client, &object, "begin").await?;
        thread::sleep(BLOCK_DURATION);
        annotate(&client, &object, "end").await?;
    }
    Ok(Action::await_change())
}

async fn annotate(client: &Client, object: &ConfigMap, name: &str) -> kube::Result<ConfigMap> {
    let namespace = object.namespace().unwrap_or_default();
    let objects = Api::<ConfigMap>::namespaced(client.clone(), &namespace);
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { name: "" } } }));
    let params = PatchParams::default();
    objects.patch(&object.name_any(), &params, &patch).await
}
