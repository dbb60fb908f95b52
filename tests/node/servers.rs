//! Memcached and WebServer: deployed, used, scaled, broken, mended and healed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clients::{Client, memcached_keeps, page};
use crate::cluster::{Cluster, condition, text};
use crate::operator::{self, managers};
use crate::project::Project;
use crate::site::{KINDS, MISSING, Site, pods, settled};
use crate::wait::{eventually, timed};

/// How many requests none of which may fail during rollouts, and from how many clients.
const REQUESTS: usize = 10_000;
const CLIENTS: usize = 4;

pub fn work(site: &Site) {
    let (cluster, project) = (site.cluster, site.project);
    serve(cluster, 3, 2);
    names_resolve(cluster);
    scale_and_heal(cluster);
    an_image_that_does_not_exist(cluster);
    rollouts_drop_no_request(cluster);
    metrics_are_for_those_who_may(project, cluster);
    another_manager_takes_over(project, cluster);
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

/// The address and the port of the sample of the web server.
pub fn service(cluster: &Cluster) -> (String, u16) {
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
        cluster.patch(&[object], "merge", &json!({ "spec": { "image": MISSING } }));
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
        cluster.patch(&[object], "merge", &json!({ "spec": { "image": null } }));
    }
    serve(cluster, 2, 4);
}

fn rollouts_drop_no_request(cluster: &Cluster) {
    let (address, port) = service(cluster);
    let client = || {
        let address = address.clone();
        Client::start(Duration::from_millis(2), move || page(&address, port).map(drop))
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| client()).collect();
    let answered = || clients.iter().map(Client::answered).sum::<usize>();
    let mut rollouts = 0;
    while answered() < REQUESTS {
        rollouts += 1;
        for kind in &KINDS[..2] {
            let image = kind.revisions[rollouts % 2];
            cluster.patch(&[&kind.object()], "merge", &json!({ "spec": { "image": image } }));
        }
        serve(cluster, 2, 4);
        for kind in &KINDS[..2] {
            for pod in pods(cluster, &kind.sample()) {
                let image = kind.revisions[rollouts % 2];
                assert_eq!(pod["spec"]["containers"][0]["image"], image);
            }
        }
    }
    let figures: Vec<_> = clients.into_iter().map(Client::stop).collect();
    let requests: usize = figures.iter().map(|it| it.requests).sum();
    let failures: Vec<_> = figures.into_iter().flat_map(|it| it.failures).collect();
    eprintln!("{requests} requests during {rollouts} rollouts, {} failed", failures.len());
    assert!(failures.is_empty(), "of {requests} requests failed: {failures:?}");
}

/// As Prometheus sees them, in a pod, whose client has to know TLS.
fn metrics_are_for_those_who_may(project: &Project, cluster: &Cluster) {
    let (name, namespace) = (operator::name(project), operator::namespace(project));
    let url = format!("https://{name}-metrics-service.{namespace}.svc:8443/metrics");
    let client = pods(cluster, "postgrescluster-sample").pop().unwrap();
    let client = client["metadata"]["name"].as_str().unwrap();
    let status = |token: Option<&str>| -> String {
        let wget = "wget --no-check-certificate -T 5 -S -q -O /dev/null --header \"$1\" $0";
        let header =
            format!("Authorization: {}", token.map_or(String::new(), |it| format!("Bearer {it}")));
        let pod = ["exec", client, "--", "sh", "-c", wget, &url, &header];
        let printed = text(&cluster.kubectl(&pod).stderr);
        match printed.split_once("HTTP/1.1 ") {
            Some((_, answer)) => answer.chars().take(3).collect(),
            None => printed,
        }
    };
    assert_eq!(status(None), "401");
    let token = cluster.ok(&["create", "token", "default"]);
    assert_eq!(status(Some(token.trim())), "403");
    let role = format!("--clusterrole={}-metrics-reader", project.name());
    let account = "--serviceaccount=default:default";
    cluster.ok(&["create", "clusterrolebinding", "scraper", &role, account]);
    // What was refused is remembered for a few seconds.
    eventually("metrics", || match status(Some(token.trim())) {
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
