//! Whether an operator can be uninstalled in any order: nothing hangs for good, and no data is lost that is to stay.
//!
//! `OPCTL_ORDERS=all` takes all orders, else one for each part that comes first, chosen by `OPCTL_SEED`.

use std::env;
use std::fmt::{self, Display};
use std::sync::OnceLock;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::site::{Manager, Site};
use crate::operator::cluster::{Cluster, text};
use crate::operator::machine::Machine;
use crate::operator::project::{Built, Project};
use crate::operator::random::Random;
use crate::operator::wait::{eventually, timed};

const CRD: &str = "customresourcedefinition/databases.db.example.com";
const NAMESPACE: &str = "db-operator-system";
const ACCOUNT: &str = "db-operator-controller-manager";
const DEPLOYMENT: &str = "deployment/db-operator-controller-manager";

/// What somebody deletes.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Objects,
    Crd,
    Deployment,
    Namespace,
}

use Part::{Crd, Deployment, Namespace, Objects};

impl Part {
    const ALL: [Self; 4] = [Objects, Crd, Deployment, Namespace];

    /// Whether the operator ends with it.
    fn ends_operator(self) -> bool {
        matches!(self, Deployment | Namespace)
    }

    /// Asks for the deletion, and waits for nothing.
    fn delete(self, cluster: &Cluster) {
        let command = match self {
            Objects => "delete databases --all --ignore-not-found".to_owned(),
            Crd => format!("delete {CRD} --ignore-not-found"),
            Deployment => format!("delete {DEPLOYMENT} --namespace {NAMESPACE} --ignore-not-found"),
            Namespace => format!("delete namespace {NAMESPACE} --ignore-not-found"),
        };
        // Without its CRD, kubectl does not know the kind.
        if self != Objects || !cluster.get(&[CRD]).is_null() {
            let words: Vec<&str> = command.split(' ').chain(["--wait=false"]).collect();
            cluster.ok(&words);
        }
    }
}

impl Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Objects => "objects",
            Crd => "CRD",
            Deployment => "Deployment",
            Namespace => "namespace",
        })
    }
}

/// All orders of the parts.
fn orders(parts: &[Part]) -> Vec<Vec<Part>> {
    if parts.is_empty() {
        return vec![Vec::new()];
    }
    let begin_with = |first: &Part| {
        let rest: Vec<Part> = parts.iter().copied().filter(|part| part != first).collect();
        let ends = orders(&rest).into_iter();
        ends.map(|end| [vec![*first], end].concat()).collect::<Vec<_>>()
    };
    parts.iter().flat_map(begin_with).collect()
}

/// The orders of this run.
fn chosen() -> Vec<Vec<Part>> {
    let orders = orders(&Part::ALL);
    if env::var("OPCTL_ORDERS").is_ok_and(|orders| orders == "all") {
        return orders;
    }
    let seed =
        env::var("OPCTL_SEED").map_or(1, |seed| seed.parse().expect("OPCTL_SEED is a number"));
    eprintln!("OPCTL_SEED={seed}");
    let mut random = Random::new(seed);
    let beginnings = orders.chunk_by(|a, b| a[0] == b[0]);
    beginnings.map(|orders| orders[random.below(orders.len())].clone()).collect()
}

#[test]
fn an_operator_is_uninstalled_in_any_order() {
    let machine = Machine::new();
    let project = Project::init(&machine, "db-operator", &[]);
    project.api("--group db --version v1 --kind Database --recipe postgres");
    static BUILT: OnceLock<Built> = OnceLock::new();
    let built = BUILT.get_or_init(|| project.build());
    let site = Site::of(&machine, Cluster::start(&machine, "uninstall"), built);
    for (number, order) in chosen().into_iter().enumerate() {
        let words: Vec<String> = order.iter().map(Part::to_string).collect();
        timed(&words.join(", "), || site.uninstalled(number, &order));
    }
}

impl Site<'_> {
    /// Deploys the operator, and runs it as its ServiceAccount.
    fn installed(&self, name: &str) -> Manager {
        eventually("end of the old namespace", || {
            let namespace = self.cluster.get(&["namespace", NAMESPACE]);
            match namespace["metadata"]["deletionTimestamp"].is_null() {
                true => Ok(()),
                false => Err(namespace.to_string()),
            }
        });
        let default = self.config("default").display().to_string();
        self.cluster.ok(&["apply", "--server-side", "-k", &default]);
        self.cluster.ok(&["wait", "--for=condition=Established", "--timeout=60s", CRD]);
        self.manager_as(&self.account_of(ACCOUNT, NAMESPACE, name), name, &[])
    }

    /// Fails with the objects that there still are.
    fn without_databases(&self) -> Result<(), String> {
        let output = self.cluster.kubectl(&["get", "databases", "--output", "name"]);
        match text(&output.stdout) {
            names if names.is_empty() => Ok(()),
            names => Err(names),
        }
    }

    /// The claims of a database.
    fn claims(&self, database: &str) -> Vec<Value> {
        let claims = self.cluster.get(&["persistentvolumeclaims"]);
        let claims = claims["items"].as_array().cloned().unwrap_or_default();
        let name = format!("data-{database}-0");
        claims.into_iter().filter(|claim| claim["metadata"]["name"] == name.as_str()).collect()
    }

    /// Deletes the parts of an operator with two databases: one that keeps its data, and one that takes it away.
    fn uninstalled(&self, number: usize, order: &[Part]) {
        let cluster = &self.cluster;
        let (keeps, takes) = (format!("keeps-{number}"), format!("takes-{number}"));
        let mut manager = self.installed(&format!("manager-{number}"));
        for (name, policy) in [(&keeps, "Retain"), (&takes, "Delete")] {
            cluster.create(&json!({
                "apiVersion": "db.example.com/v1", "kind": "Database", "metadata": { "name": name },
                "spec": {
                    "size": 1, "version": "17.6",
                    "storage": { "size": "1Gi", "whenDeleted": policy },
                },
            }));
        }
        for name in [&keeps, &takes] {
            eventually("volume", || self.claims(name).first().map(drop).ok_or(name.clone()));
        }

        let mut has_operator = true;
        for part in order {
            if has_operator && part.ends_operator() {
                manager.process.end(Signal::TERM);
                has_operator = false;
            }
            part.delete(cluster);
            let deletes = matches!(part, Objects | Crd);
            if has_operator && deletes {
                eventually("end of the objects", || self.without_databases());
            }
        }
        // What waits for the operator ends when it is there again, and nothing else is in its way.
        if order[0].ends_operator() {
            assert!(self.without_databases().is_err(), "nothing but the operator deletes data");
            let mut manager = self.installed(&format!("again-{number}"));
            eventually("end of the objects", || self.without_databases());
            manager.process.end(Signal::TERM);
            for part in [Crd, Namespace] {
                part.delete(cluster);
            }
        }
        eventually("end of everything", || {
            let rest = [cluster.get(&[CRD]), cluster.get(&["namespace", NAMESPACE])];
            if rest.iter().all(Value::is_null) { Ok(()) } else { Err(format!("{rest:?}")) }
        });
        // Kubernetes deletes what belongs to an object that is gone, once it knows the kind, for which it looks each half
        // a minute.
        for claim in self.claims(&takes) {
            let owners = &claim["metadata"]["ownerReferences"];
            assert_eq!(owners[0]["name"], takes.as_str(), "{claim}");
        }
        let kept = self.claims(&keeps);
        assert!(!kept.is_empty(), "the data of {keeps} is lost");
        for claim in kept {
            let metadata = &claim["metadata"];
            assert!(
                metadata["ownerReferences"].is_null() && metadata["deletionTimestamp"].is_null()
            );
        }
        cluster.ok(&["delete", "statefulsets,pvc", "--all"]);
    }
}
