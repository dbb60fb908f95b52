//! A node with an operator of every recipe that has pods, deployed as its user deploys it.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::broken;
use crate::cluster::{Cluster, condition};
use crate::drains;
use crate::images::{CRASHING, EMPTY, Image, MEMCACHED, NGINX, POSTGRES};
use crate::machine::Machine;
use crate::node::Node;
use crate::operator::{self, default_image};
use crate::postgres;
use crate::project::Project;
use crate::servers;
use crate::storm;
use crate::truth::Truth;
use crate::wait::{PATIENCE, timed, within};

/// A kind of the operator, of which there is the sample.
pub struct Kind {
    pub name: &'static str,
    pub plural: &'static str,
    /// The fields of the number of pods, and of the image or the version.
    pub size: &'static str,
    pub revision: &'static str,
    /// Two revisions, and one that does not exist.
    pub revisions: [&'static str; 2],
    pub missing: &'static str,
    flags: &'static str,
    image: &'static Image,
    /// What names the image of the sample.
    controller: Option<&'static str>,
}

pub const KINDS: [Kind; 4] = [
    Kind {
        name: "Memcached",
        plural: "memcacheds",
        size: "size",
        revision: "image",
        revisions: ["docker.io/library/memcached:1", "docker.io/library/memcached:2"],
        missing: MISSING,
        flags: "--group cache",
        image: &MEMCACHED,
        controller: Some("src/controller/cache/memcached.rs"),
    },
    Kind {
        name: "WebServer",
        plural: "webservers",
        size: "replicas",
        revision: "image",
        revisions: ["docker.io/library/nginx:1", "docker.io/library/nginx:2"],
        missing: MISSING,
        flags: "--group web",
        image: &NGINX,
        controller: Some("src/controller/web/web_server.rs"),
    },
    Kind {
        name: "PostgresCluster",
        plural: "postgresclusters",
        size: "size",
        revision: "version",
        revisions: ["17.6", "17.7"],
        missing: "17.99",
        flags: "--group db",
        image: &POSTGRES,
        controller: None,
    },
    Kind {
        name: "Site",
        plural: "sites",
        size: "size",
        revision: "image",
        revisions: ["docker.io/library/site:1", "docker.io/library/site:2"],
        missing: MISSING,
        flags: "--group ops --image docker.io/library/site:1 --image-container-port 8080",
        image: &NGINX,
        controller: None,
    },
];

pub const MISSING: &str = "registry.example.com/missing:1";

impl Kind {
    /// The name of the sample.
    pub fn sample(&self) -> String {
        format!("{}-sample", self.name.to_lowercase())
    }

    /// The sample, as kubectl takes it.
    pub fn object(&self) -> String {
        format!("{}/{}", self.plural, self.sample())
    }

    fn images(&self) -> Vec<String> {
        let name = |revision: &str| match self.revision {
            "version" => format!("docker.io/library/postgres:{revision}-alpine"),
            _ => revision.to_owned(),
        };
        self.revisions.map(name).into()
    }
}

/// What tests find on the node.
pub struct Site<'a> {
    pub node: &'a Node,
    pub cluster: &'a Cluster,
    pub project: &'a Project<'a>,
}

/// Deploys the operator and its samples, and runs the test, in which no status may be untrue.
fn deployed(test: impl FnOnce(&Site) + Send) {
    let machine = Machine::new();
    let project = Project::init(&machine, "node-operator", &[]);
    for Kind { name, flags, .. } in &KINDS {
        project.api(&format!("{flags} --version v1 --kind {name}"));
    }
    let node = Node::start(|images| {
        for kind in &KINDS {
            let default = kind.controller.map(|path| default_image(&project, path));
            let names: Vec<_> = kind.images().into_iter().chain(default).collect();
            kind.image.write(&names, images);
        }
        CRASHING.write(&[broken::CRASHING.to_owned()], images);
        EMPTY.write(&[broken::EMPTY.to_owned()], images);
        operator::write_image(&project, images);
    });
    node.inside(|cluster| {
        operator::deploy(&project, cluster);
        let restricted = "pod-security.kubernetes.io/enforce=restricted";
        cluster.ok(&["label", "namespace", "default", restricted]);
        let truth = Truth::about(cluster);
        timed("from the samples to ready", || {
            project.make_on(cluster, "sample");
            all_settled(cluster);
        });
        test(&Site { node: &node, cluster, project: &project });
        truth.assert_told();
    });
}

pub fn recipes_work_on_a_real_node() {
    deployed(|site| {
        thread::scope(|scope| {
            let servers = scope.spawn(|| timed("servers", || servers::work(site)));
            let broken = scope.spawn(|| broken::are_reported(site.cluster));
            timed("postgres", || postgres::work(site.cluster));
            for result in [servers.join(), broken.join()] {
                result.unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
        timed("drain", || drains::are_stopped_by_the_budget(site));
        timed("storm", || storm::short(site));
    });
}

pub fn recipes_survive_a_storm() {
    deployed(storm::long);
}

/// After how long something is stuck: the kubelet waits for up to 5 minutes before it starts a container
/// again that was killed often.
const STUCK: Duration = Duration::from_secs(360);

/// Waits until all samples are ready.
pub fn all_settled(cluster: &Cluster) {
    for kind in &KINDS {
        within(STUCK, &format!("{} that is settled", kind.sample()), || {
            let object = cluster.get(&[&kind.object()]);
            match is_settled(&object) {
                true => Ok(()),
                false => Err(object["status"].to_string()),
            }
        });
    }
}

fn is_settled(object: &Value) -> bool {
    condition(object, "Ready") == "True"
        && object["status"]["observedGeneration"] == object["metadata"]["generation"]
}

/// Waits until the sample is ready with so many pods.
pub fn settled(cluster: &Cluster, kind: &str, size: usize) {
    let what = format!("{kind} with {size} pods");
    timed(&what, || {
        within(PATIENCE, &what, || {
            let object = cluster.get(&[kind, &format!("{kind}-sample")]);
            let is_settled = is_settled(&object)
                && object["status"]["readyReplicas"] == json!(size)
                && pods(cluster, &format!("{kind}-sample")).len() == size;
            is_settled.then_some(()).ok_or_else(|| object.to_string())
        });
    });
}

/// The pods of an object, but for those of its Jobs.
pub fn pods(cluster: &Cluster, instance: &str) -> Vec<Value> {
    let selector =
        format!("app.kubernetes.io/instance={instance},app.kubernetes.io/component!=backup");
    cluster.get(&["pods", "-l", &selector])["items"].as_array().cloned().unwrap_or_default()
}
