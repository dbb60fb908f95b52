//! What somebody could do who has stolen the token of an operator: nothing that the operator does not do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use super::site::{ACCOUNT, Account, Manager, Site};
use crate::operator::background::Background;
use crate::operator::cluster::{Cluster, free_port};
use crate::operator::machine::Machine;
use crate::operator::memcached::{memcached, settled};
use crate::operator::project::get;
use crate::operator::wait::{eventually, timed};

/// The verbs of RBAC, also those that no request has (`bind`, `escalate`, `impersonate`, ...).
const VERBS: [&str; 16] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "bind",
    "escalate",
    "impersonate",
    "approve",
    "sign",
    "attest",
    "use",
    "proxy",
];

/// The verbs that a rule may restrict to names.
const NAMED_VERBS: [&str; 6] = ["get", "list", "watch", "update", "patch", "delete"];

/// What only impersonation and certificates know as resources.
const VIRTUAL: [(&str, &str); 6] = [
    ("", "users"),
    ("", "groups"),
    ("authentication.k8s.io", "uids"),
    ("authentication.k8s.io", "userextras/scopes"),
    ("certificates.k8s.io", "signers"),
    ("policy", "podsecuritypolicies"),
];

const PATHS: [&str; 14] = [
    "/",
    "/api",
    "/apis",
    "/configz",
    "/debug/pprof/heap",
    "/flagz",
    "/healthz",
    "/livez",
    "/logs/",
    "/metrics",
    "/openapi/v2",
    "/statusz",
    "/version",
    "/x",
];

/// How many objects of a name each namespace has, that a thief would ask for.
const PLANTED: usize = 10;

/// How many connections ask at a time.
const CONNECTIONS: usize = 8;

/// A verb, a group, a resource, and whether in the operator's own namespace.
type Permission = (String, String, String, bool);

/// A question for the API server: what a thief may do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    verb: String,
    group: String,
    /// With the subresource after a `/`.
    resource: String,
    namespace: String,
    name: String,
}

#[test]
fn a_stolen_token_permits_nothing_that_the_operator_does_not_do() {
    let machine = Machine::new();
    let site = Site::deployed(&machine);
    let cluster = &site.cluster;
    for namespace in ["default", "kube-system", &site.namespace()] {
        plant(cluster, namespace);
    }
    let excess = grant_excess(&site);
    let account = site.account("thief");
    let used = use_everything(&site, &account);
    eprintln!("{} permissions are used: {used:?}", used.len());
    let (thief, nobody) = (Door::open(&site, &account), Door::open(&site, &nobody(&site)));

    let own = site.namespace();
    let resources = resources(cluster);
    assert!(resources.len() > 60, "{resources:?}");
    let nameless = attempts(&resources, &own, &VERBS, &[""]);
    let names: Vec<_> = (0..PLANTED).map(planted).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut whole = resources.clone();
    whole.retain(|(_, resource), _| !resource.contains('/'));
    let named = attempts(&whole, &own, &NAMED_VERBS, &names);
    let asked = nameless.len() + named.len() + PATHS.len() * 4;
    let mut allowed = timed(&format!("{asked} questions"), || {
        let nameless = thief.allowed(nameless);
        // Whoever may do it to any object may do it to these.
        let any: BTreeSet<_> = nameless.iter().cloned().collect();
        let is_new =
            |attempt: &Attempt| !any.contains(&Attempt { name: String::new(), ..attempt.clone() });
        let named = thief.allowed(named.into_iter().filter(is_new).collect());
        [nameless, named].concat()
    });
    // Such as discovery, and questions about oneself.
    let everybodys = nobody.allowed(allowed.clone());
    allowed.retain(|attempt| !everybodys.contains(attempt));
    assert!(!allowed.is_empty(), "the operator may do something");
    let is_unused = |attempt: &&Attempt| {
        // A role for all namespaces is used in any of them, but its own does not need one.
        let is_used = |namespace: bool| {
            used.contains(&(
                attempt.verb.clone(),
                attempt.group.clone(),
                attempt.resource.clone(),
                namespace,
            ))
        };
        if attempt.namespace == own { !is_used(true) && !is_used(false) } else { !is_used(false) }
    };
    let unused: Vec<_> = allowed.iter().filter(is_unused).collect();
    assert_eq!(unused, [&excess], "the token permits what the operator does not do");

    let paths = thief.allowed_paths();
    let everybodys = nobody.allowed_paths();
    assert_eq!(paths, everybodys, "the token permits paths that the operator does not ask for");
    for name in &names {
        let path = format!("/api/v1/namespaces/default/secrets/{name}");
        let answer = thief.request("GET", &path, "");
        assert_eq!(answer["code"], 403, "{path}: {answer}");
    }
}

/// One permission more than the operator needs, for one object: this test has to find it.
fn grant_excess(site: &Site) -> Attempt {
    let (namespace, name) = ("kube-system", planted(7));
    let object = format!("--resource-name={name}");
    let role = ["create", "role", "excess", "-n", namespace, "--verb=get", "--resource=secrets"];
    site.cluster.ok(&[role.as_slice(), &[&object]].concat());
    let account = format!("--serviceaccount={}:{ACCOUNT}", site.namespace());
    let binding = ["create", "rolebinding", "excess", "-n", namespace, "--role=excess", &account];
    site.cluster.ok(&binding);
    Attempt {
        verb: "get".to_owned(),
        group: String::new(),
        resource: "secrets".to_owned(),
        namespace: namespace.to_owned(),
        name,
    }
}

fn planted(number: usize) -> String {
    // What a thief would try first, and what the operator itself has.
    let known = ["admin", "root", "default", "kubernetes", "memcached-operator", "sample"];
    known.get(number).map_or_else(|| format!("planted-{number}"), |name| (*name).to_owned())
}

fn plant(cluster: &Cluster, namespace: &str) {
    let secrets: Vec<_> = (0..PLANTED)
        .map(|number| {
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "name": planted(number), "namespace": namespace },
                "stringData": { "password": "loot" },
            })
        })
        .collect();
    cluster.create(&json!({ "apiVersion": "v1", "kind": "List", "items": secrets }));
}

/// Has a manager do all that it can, as the account. Returns the permissions that it used, and whether in
/// its own namespace.
fn use_everything(site: &Site, account: &Account) -> BTreeSet<Permission> {
    let cluster = &site.cluster;
    let manager = site.manager_as(account, "manager-0", &["--leader-elect", "--metrics-secure"]);
    site.led_by(&manager);
    scrape_with_a_token(site, &manager);
    cluster.create(&memcached("sample", json!({ "size": 1 })));
    settled(cluster, "sample", 1);
    // The same event twice is counted, which is a permission of its own.
    for replicas in [2, 2] {
        let patch = json!({ "spec": { "replicas": replicas } });
        cluster.patch(&["deployment/sample"], "merge", &patch);
        settled(cluster, "sample", 1);
    }
    // It watches pods only while a Deployment waits for them.
    let pods = "app.kubernetes.io/instance=sample";
    cluster.ok(&["label", "pods", "--selector", pods, "opctl/pods=crash"]);
    // It takes the lease at once, and renews it later.
    eventually("a renewed lease and a watch of pods", || {
        let used = used(cluster, &manager, &site.namespace());
        let has = |what: (&str, &str)| used.iter().any(|it| (&*it.0, &*it.2) == what);
        match has(("update", "leases")) && has(("watch", "pods")) {
            true => Ok(used),
            false => Err(format!("{used:?}")),
        }
    })
}

/// The manager asks who it is that has the token.
fn scrape_with_a_token(site: &Site, manager: &Manager) {
    let token = site.cluster.ok(&["create", "token", "default"]);
    let mut curl = Command::new("curl");
    curl.args(["--insecure", "--silent", "--oauth2-bearer", token.trim()]);
    curl.arg(format!("https://127.0.0.1:{}/metrics", manager.metrics));
    let output = curl.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn used(cluster: &Cluster, manager: &Manager, own: &str) -> BTreeSet<Permission> {
    let log = fs::read(&cluster.audit_log).unwrap();
    let log = String::from_utf8_lossy(&log);
    let events = log.lines().filter(|line| line.contains(&manager.credential));
    let events = events.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut used = BTreeSet::new();
    // The request for the token names it, too.
    let own_events = events.filter(|event| {
        let extra = &event["user"]["extra"];
        extra["authentication.kubernetes.io/credential-id"][0] == manager.credential.as_str()
    });
    for event in own_events {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["objectRef"];
        let mut resource = text(&object["resource"]);
        if let Some(subresource) = object["subresource"].as_str() {
            resource = format!("{resource}/{subresource}");
        }
        let is_own = object["namespace"] == own;
        let permission = |verb: String| (verb, text(&object["apiGroup"]), resource.clone(), is_own);
        used.insert(permission(text(&event["verb"])));
        // An apply that creates needs the permission for that, too.
        if event["verb"] == "patch" && event["responseStatus"]["code"] == 201 {
            used.insert(permission("create".to_owned()));
        }
    }
    used
}

/// All resources that the API server has, with their groups and whether they have namespaces.
fn resources(cluster: &Cluster) -> BTreeMap<(String, String), bool> {
    let raw = |path: &str| -> Value {
        serde_json::from_str(&cluster.ok(&["get", "--raw", path])).unwrap()
    };
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut versions = vec![(String::new(), "/api/v1".to_owned())];
    for group in array(&raw("/apis")["groups"]) {
        for version in array(&group["versions"]) {
            let path = format!("/apis/{}", version["groupVersion"].as_str().unwrap());
            versions.push((group["name"].as_str().unwrap().to_owned(), path));
        }
    }
    let mut resources: BTreeMap<_, _> =
        VIRTUAL.map(|(group, name)| ((group.to_owned(), name.to_owned()), false)).into();
    for (group, path) in versions {
        for resource in array(&raw(&path)["resources"]) {
            let name = resource["name"].as_str().unwrap().to_owned();
            resources.insert((group.clone(), name), resource["namespaced"] == true);
        }
    }
    resources
}

fn attempts(
    resources: &BTreeMap<(String, String), bool>,
    own: &str,
    verbs: &[&str],
    names: &[&str],
) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for ((group, resource), is_namespaced) in resources {
        let namespaces =
            if *is_namespaced { vec!["default", "kube-system", own] } else { vec![""] };
        for (namespace, verb) in namespaces
            .iter()
            .flat_map(|namespace| verbs.iter().map(move |verb| (*namespace, *verb)))
        {
            attempts.extend(names.iter().map(|name| Attempt {
                verb: verb.to_owned(),
                group: group.clone(),
                resource: resource.clone(),
                namespace: namespace.to_owned(),
                name: (*name).to_owned(),
            }));
        }
    }
    attempts
}

/// An account that no role is bound to.
fn nobody(site: &Site) -> Account {
    site.cluster.ok(&["create", "serviceaccount", "nobody"]);
    site.account_of("nobody", "default", "nobody")
}

/// A way to the API server with the credentials of an account.
struct Door {
    port: u16,
    _proxy: Background,
}

impl Door {
    fn open(site: &Site, account: &Account) -> Self {
        let port = free_port();
        let mut kubectl = Command::new(&site.cluster.kubectl);
        kubectl.env("KUBECONFIG", &account.kubeconfig);
        kubectl.args(["proxy", "--accept-hosts=.*", &format!("--port={port}")]);
        let log = account.kubeconfig.with_extension("proxy.log");
        let mut proxy = Background::start("kubectl proxy", kubectl, log);
        eventually("kubectl proxy", || {
            proxy.assert_runs();
            get(port, "/readyz")
        });
        Self { port, _proxy: proxy }
    }

    /// Those of the attempts that the account may do.
    fn allowed(&self, attempts: Vec<Attempt>) -> Vec<Attempt> {
        let share = attempts.len().div_ceil(CONNECTIONS).max(1);
        thread::scope(|scope| {
            let threads: Vec<_> = attempts
                .chunks(share)
                .map(|attempts| {
                    scope.spawn(move || {
                        let mut connection = Connection::open(self.port);
                        let mut allowed = attempts.to_vec();
                        allowed.retain(|attempt| connection.may(&attempt.attributes()));
                        allowed
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// The paths beside resources that the account may use.
    fn allowed_paths(&self) -> BTreeSet<String> {
        let mut connection = Connection::open(self.port);
        let mut allowed = BTreeSet::new();
        for path in PATHS {
            for verb in ["get", "post", "put", "delete"] {
                let attributes = json!({ "nonResourceAttributes": { "path": path, "verb": verb } });
                if connection.may(&attributes) {
                    allowed.insert(format!("{verb} {path}"));
                }
            }
        }
        allowed
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Value {
        Connection::open(self.port).request(method, path, body)
    }
}

impl Attempt {
    fn attributes(&self) -> Value {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        json!({ "resourceAttributes": {
            "verb": self.verb,
            "group": self.group,
            "version": "*",
            "resource": resource,
            "subresource": subresource,
            "namespace": self.namespace,
            "name": self.name,
        } })
    }
}

/// One request after another.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(port: u16) -> Self {
        Self(BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap()))
    }

    fn may(&mut self, spec: &Value) -> bool {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": spec,
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = self.request("POST", path, &review.to_string());
        answer["status"]["allowed"].as_bool().unwrap_or_else(|| panic!("{spec}: {answer}"))
    }

    fn request(&mut self, method: &str, path: &str, body: &str) -> Value {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the connection has ended");
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }
}
