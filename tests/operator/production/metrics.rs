//! What a manager at work tells of itself, and what alerts and the dashboard ask for.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;

use super::site::Site;
use crate::machine::Machine;
use crate::memcached::{memcached, settled};

/// What the names of the runtime's metrics start with.
const PREFIXES: [&str; 5] =
    ["controller_runtime_", "leader_election_", "rest_client_", "store_", "workqueue_"];

#[test]
fn a_scrape_has_every_metric_that_alerts_and_dashboard_ask_for() {
    let machine = Machine::new();
    let site = Site::deployed(&machine);
    let manager = site.manager("manager-0", &["--leader-elect"]);
    site.led_by(&manager);
    site.cluster.create(&memcached("sample", json!({ "size": 1 })));
    settled(&site.cluster, "sample", 1);

    let scrape = manager.scrape();
    let told: BTreeSet<&str> =
        scrape.lines().filter_map(|it| it.split(['{', ' ']).next()).collect();
    let asked = ["prometheus/rules.yaml", "grafana/dashboard.json"]
        .map(|path| fs::read_to_string(site.config(path)).unwrap())
        .concat();
    let words = asked.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let asked: BTreeSet<&str> =
        words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix))).collect();
    assert!(asked.len() > 5, "{asked:?}");
    let missing: Vec<_> = asked.difference(&told).collect();
    assert!(missing.is_empty(), "{missing:?} in\n{scrape}");
}
