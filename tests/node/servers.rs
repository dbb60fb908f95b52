//! Memcached and WebServer: deployed, used, scaled, broken, mended and healed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clients::{https_status, memcached_keeps, page};
use crate::cluster::{Cluster, condition};
use crate::images::{MEMCACHED, NGINX};
use crate::machine::Machine;
use crate::node::Node;
use crate::operator::{self, default_image, managers};
use crate::project::Project;
use crate::truth::Truth;
use crate::wait::{eventually, timed};

const MEMCACHED_2: &str = "docker.io/library/memcached:2";
const NGINX_2: &str = "docker.io/library/nginx:2";
const MISSING: &str = "registry.example.com/missing:1";

pub fn work_on_a_real_node() {
    let machine = Machine::new();
    let project = Project::init(&machine, "servers-operator", &[]);
    project.api("--group cache --version v1 --kind Memcached");
    project.api("--group web --version v1 --kind WebServer");
    let node = Node::start(|images| {
        let memcached = default_image(&project, "src/controller/cache/memcached.rs");
        MEMCACHED.write(&[&memcached, MEMCACHED_2], images);
        let nginx = default_image(&project, "src/controller/web/web_server.rs");
        NGINX.write(&[&nginx, NGINX_2], images);
        operator::write_image(&project, images);
    });
    node.inside(|cluster| {
        operator::deploy(&project, cluster);
        let restricted = "pod-security.kubernetes.io/enforce=restricted";
        cluster.ok(&["label", "namespace", "default", restricted]);
        let truth = Truth::about(cluster, &["memcacheds", "webservers"]);
        timed("from the samples to ready", || {
            project.make_on(cluster, "sample");
            serve(cluster, 3, 2);
        });
        names_resolve(cluster);
        scale_and_heal(cluster);
        an_image_that_does_not_exist(cluster);
        a_rollout_drops_no_request(cluster);
        metrics_are_for_those_who_may(&project, cluster);
        another_manager_takes_over(&project, cluster);
        truth.assert_told();
    });
}

/// Waits until both samples are ready with so many pods, and uses every one.
fn serve(cluster: &Cluster, memcached: usize, web: usize) {
    settled(cluster, "memcached", memcached);
    settled(cluster, "webserver", web);
    for pod in pods(cluster, "memcached-sample") {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let address = pod["status"]["podIP"].as_str().unwrap();
        assert_eq!(memcached_keeps(address, 11211, name), Ok(()), "{name}");
    }
    let (address, port) = service(cluster);
    // kube-proxy takes a second to see that pods are ready.
    eventually("page", || page(&address, port));
    for _ in 0..10 * web {
        assert!(page(&address, port).unwrap().contains("Welcome to nginx!"));
    }
}

fn settled(cluster: &Cluster, kind: &str, size: usize) {
    timed(&format!("{kind} with {size} pods"), || {
        eventually(&format!("{kind} with {size} pods"), || {
            let object = cluster.get(&[kind, &format!("{kind}-sample")]);
            let status = &object["status"];
            let is_settled = condition(&object, "Ready") == "True"
                && status["observedGeneration"] == object["metadata"]["generation"]
                && status["readyReplicas"] == json!(size)
                && pods(cluster, &format!("{kind}-sample")).len() == size;
            is_settled.then_some(()).ok_or_else(|| object.to_string())
        });
    });
}

fn pods(cluster: &Cluster, instance: &str) -> Vec<Value> {
    let selector = format!("app.kubernetes.io/instance={instance}");
    cluster.get(&["pods", "-l", &selector])["items"].as_array().cloned().unwrap_or_default()
}

fn service(cluster: &Cluster) -> (String, u16) {
    let service = cluster.get(&["service", "webserver-sample"]);
    let port = service["spec"]["ports"][0]["port"].as_u64().unwrap();
    (service["spec"]["clusterIP"].as_str().unwrap().to_owned(), port.try_into().unwrap())
}

/// The address of the status works in a pod.
fn names_resolve(cluster: &Cluster) {
    let address = cluster.get(&["webserver", "webserver-sample"])["status"]["address"].take();
    let url = format!("http://{}/", address.as_str().unwrap());
    let pod = "deployment/memcached-sample";
    let printed = cluster.ok(&["exec", pod, "--", "wget", "-q", "-T", "5", "-O", "-", &url]);
    assert!(printed.contains("Welcome to nginx!"), "{printed}");
}

fn scale_and_heal(cluster: &Cluster) {
    cluster.ok(&["scale", "memcached/memcached-sample", "--replicas=5"]);
    cluster.ok(&["scale", "webserver/webserver-sample", "--replicas=4"]);
    serve(cluster, 5, 4);
    cluster.ok(&["scale", "memcached/memcached-sample", "--replicas=2"]);
    serve(cluster, 2, 4);
    for instance in ["memcached-sample", "webserver-sample"] {
        let pod = pods(cluster, instance).remove(0);
        let name = pod["metadata"]["name"].as_str().unwrap();
        cluster.ok(&["delete", "pod", name]);
    }
    serve(cluster, 2, 4);
}

fn an_image_that_does_not_exist(cluster: &Cluster) {
    let kinds = ["memcached", "webserver"];
    let objects = kinds.map(|kind| format!("{kind}/{kind}-sample"));
    for object in &objects {
        cluster.patch(object, "merge", &json!({ "spec": { "image": MISSING } }));
    }
    for object in &objects {
        timed(&format!("{object} degraded"), || {
            eventually(&format!("{object} that says what is wrong"), || {
                let object = cluster.get(&[object]);
                match condition(&object, "Degraded") {
                    "True" => Ok(()),
                    _ => Err(object["status"]["conditions"].to_string()),
                }
            });
        });
    }
    let (address, port) = service(cluster);
    assert!(page(&address, port).is_ok(), "the old pods should serve");
    for object in &objects {
        cluster.patch(object, "merge", &json!({ "spec": { "image": null } }));
    }
    serve(cluster, 2, 4);
}

fn a_rollout_drops_no_request(cluster: &Cluster) {
    let (address, port) = service(cluster);
    let load = Load::start(move || page(&address, port));
    let new = [("memcached", MEMCACHED_2), ("webserver", NGINX_2)];
    for (kind, image) in new {
        let object = format!("{kind}/{kind}-sample");
        cluster.patch(&object, "merge", &json!({ "spec": { "image": image } }));
    }
    serve(cluster, 2, 4);
    for (kind, image) in new {
        for pod in pods(cluster, &format!("{kind}-sample")) {
            assert_eq!(pod["spec"]["containers"][0]["image"], image);
        }
    }
    let (requests, failures) = load.stop();
    eprintln!("{requests} requests during a rollout, {} failed", failures.len());
    assert!(failures.is_empty(), "of {requests} requests failed: {failures:?}");
}

/// Requests in the background.
struct Load {
    done: Arc<AtomicBool>,
    thread: JoinHandle<(usize, Vec<String>)>,
}

impl Load {
    fn start(request: impl Fn() -> Result<String, String> + Send + 'static) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let is_done = done.clone();
        let thread = thread::spawn(move || {
            let (mut requests, mut failures) = (0, Vec::new());
            while !is_done.load(Ordering::Relaxed) {
                requests += 1;
                failures.extend(request().err());
                sleep(Duration::from_millis(2));
            }
            (requests, failures)
        });
        Self { done, thread }
    }

    fn stop(self) -> (usize, Vec<String>) {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn metrics_are_for_those_who_may(project: &Project, cluster: &Cluster) {
    let namespace = operator::namespace(project);
    let service = format!("{}-metrics-service", operator::name(project));
    let service = cluster.get(&["service", &service, "-n", &namespace]);
    let address = service["spec"]["clusterIP"].as_str().unwrap();
    let url = format!("https://{address}:8443/metrics");
    assert_eq!(https_status(&url, None), "401");
    let token = cluster.ok(&["create", "token", "default"]);
    assert_eq!(https_status(&url, Some(token.trim())), "403");
    let role = format!("--clusterrole={}-metrics-reader", project.name());
    let account = "--serviceaccount=default:default";
    cluster.ok(&["create", "clusterrolebinding", "scraper", &role, account]);
    // What was refused is remembered for a few seconds.
    eventually("metrics", || match https_status(&url, Some(token.trim())) {
        status if status == "200" => Ok(()),
        status => Err(status),
    });
}

fn another_manager_takes_over(project: &Project, cluster: &Cluster) {
    let (name, namespace) = (operator::name(project), operator::namespace(project));
    let deployment = format!("deployment/{name}");
    timed("a second manager", || {
        cluster.ok(&["scale", &deployment, "-n", &namespace, "--replicas=2"]);
        eventually("two ready managers", || {
            let pods = managers(project, cluster);
            let ready = |pod: &&Value| condition(pod, "Ready") == "True";
            let ready = pods.as_array().unwrap().iter().filter(ready).count();
            (ready == 2).then_some(()).ok_or_else(|| pods.to_string())
        });
    });
    let holder = || {
        let lease = cluster.get(&["lease", project.name(), "-n", &namespace]);
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        holder.split('_').next().unwrap_or_default().to_owned()
    };
    let leader = holder();
    cluster.ok(&["delete", "pod", &leader, "-n", &namespace, "--wait=false"]);
    let begin = Instant::now();
    eventually("another leader", || match holder() {
        next if next != leader && !next.is_empty() => Ok(()),
        next => Err(next),
    });
    eprintln!("another manager leads after {:.1?}", begin.elapsed());
    cluster.ok(&["scale", "memcached/memcached-sample", "--replicas=3"]);
    serve(cluster, 3, 4);
}
