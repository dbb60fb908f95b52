//! What the README promises: from an empty folder to an operator that works, in five commands.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::operator::cluster::Cluster;
use crate::operator::machine::Machine;
use crate::operator::memcached::{memcached, settled};
use crate::operator::project::Project;
use crate::operator::wait::{eventually, timed};
use crate::operator::{cost, faults};

const NAME: &str = "memcached-sample";
const DEPLOYMENT: &str = "deployment/memcached-sample";

#[test]
fn from_an_empty_folder_to_an_operator_that_works() {
    let machine = Machine::new();
    let project = Project::init(&machine, "cache-operator", &[]);
    project.api("--group cache --version v1alpha1 --kind Memcached");
    let mut operator = project.run();
    let cluster = Cluster::running(&machine, "opctl");

    timed("from `make sample` to settled", || {
        project.make("sample");
        settled(&cluster, NAME, 3);
    });
    prints_its_columns(&cluster);
    refuses_what_is_invalid(&cluster);
    timed("scaling", || scales(&cluster));
    timed("another image", || rolls_out_another_image(&cluster));
    timed("repairs", || repairs_the_deployment(&cluster));
    timed("deleted Deployment", || makes_the_deployment_anew(&cluster));
    timed("made again at once", || faults::made_again_at_once(&cluster));
    timed("garbage collection", || takes_everything_along(&cluster));

    cost::of_one_and_of_many(&cluster);
    operator.assert_runs();
    timed("death of the API server", || faults::the_api_server_dies(&machine, &cluster));
    operator.assert_runs();
    let log = operator.log();
    assert_eq!(log.matches("starting cache-operator").count(), 1, "it was started once");

    operator.end(Signal::INT);
    let log = operator.log();
    assert!(log.contains("stopping on SIGINT") && !log.contains("panicked"), "{log}");
    assert_eq!(machine.processes(), [], "the cluster goes with the command that started it");
    assert_eq!(machine.status("opctl")["running"], json!(false));
}

fn prints_its_columns(cluster: &Cluster) {
    let table = cluster.ok(&["get", "memcacheds"]);
    let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(rows.next().unwrap(), ["NAME", "SIZE", "READY", "AVAILABLE", "AGE"]);
    assert_eq!(rows.next().unwrap()[..4], [NAME, "3", "3", "True"]);
}

fn refuses_what_is_invalid(cluster: &Cluster) {
    let refused = |spec: Value, field: &str| {
        let refusal = cluster.refusal(&memcached("invalid", spec));
        assert!(refusal.contains(field), "{refusal}");
    };
    refused(json!({ "size": -1 }), "spec.size");
    refused(json!({ "size": 1, "containerPort": 0 }), "spec.containerPort");
    refused(json!({ "size": 1, "image": "" }), "spec.image");
    refused(json!({}), "spec.size");
}

fn scales(cluster: &Cluster) {
    for size in [5, 0, 3] {
        cluster.ok(&["scale", "memcached", NAME, &format!("--replicas={size}")]);
        settled(cluster, NAME, size);
    }
}

fn rolls_out_another_image(cluster: &Cluster) {
    let image = "memcached:1.6.38";
    let patch = json!({ "spec": { "image": image, "containerPort": 11311 } });
    cluster.patch(&["memcached", NAME], "merge", &patch);
    eventually("image and port in the Deployment", || {
        let deployment = cluster.get(&[DEPLOYMENT]);
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let is = container["image"] == image
            && container["args"][0] == "--port=11311"
            && container["ports"][0]["containerPort"] == 11311;
        is.then_some(()).ok_or_else(|| deployment.to_string())
    });
    settled(cluster, NAME, 3);
}

fn repairs_the_deployment(cluster: &Cluster) {
    let container = |change: Value| {
        let mut container = json!({ "name": "memcached" });
        container.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({ "spec": { "template": { "spec": { "containers": [container] } } } })
    };
    let original = cluster.get(&[DEPLOYMENT]);
    let port = json!([{ "name": "memcached", "containerPort": 1 }, { "containerPort": 11311, "$patch": "delete" }]);
    for tampering in [
        json!({ "spec": { "replicas": 1 } }),
        container(json!({ "image": "other:1" })),
        container(json!({ "ports": port })),
        container(json!({ "args": ["-v"] })),
        container(json!({ "env": [{ "name": "A", "value": "1" }] })),
        container(json!({ "livenessProbe": null })),
        json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "somebody" } } }),
        json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } }),
    ] {
        cluster.patch(&[DEPLOYMENT], "strategic", &tampering);
        eventually(&format!("repair of {tampering}"), || {
            let now = cluster.get(&[DEPLOYMENT]);
            let repaired = now["spec"] == original["spec"]
                && now["metadata"]["labels"] == original["metadata"]["labels"];
            repaired.then_some(()).ok_or_else(|| now.to_string())
        });
    }
    settled(cluster, NAME, 3);
}

fn makes_the_deployment_anew(cluster: &Cluster) {
    let uid = cluster.get(&[DEPLOYMENT])["metadata"]["uid"].clone();
    cluster.ok(&["delete", DEPLOYMENT]);
    settled(cluster, NAME, 3);
    assert_ne!(cluster.get(&[DEPLOYMENT])["metadata"]["uid"], uid);
}

fn takes_everything_along(cluster: &Cluster) {
    cluster.ok(&["delete", "memcached", NAME]);
    eventually("end of all that belonged to the Memcached", || {
        match cluster.get(&["deployments,replicasets,pods"])["items"].take() {
            left if left == json!([]) => Ok(()),
            left => Err(left.to_string()),
        }
    });
}
