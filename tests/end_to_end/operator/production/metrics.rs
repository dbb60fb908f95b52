//! What a manager at work tells of itself, and what alerts and the dashboard ask for.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;

use super::site::Site;
use crate::operator::machine::Machine;
use crate::operator::memcached::{memcached, settled};

/// What the names of the runtime's metrics start with.
const PREFIXES: [&str; 7] = [
    "controller_",
    "leader_election_",
    "operator_",
    "process_",
    "rest_client_",
    "store_",
    "workqueue_",
];

#[test]
fn alerts_and_dashboard_ask_for_what_a_scrape_has_and_the_dashboard_for_all_of_it() {
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
    let is_metric = |word: &&str| PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    let asked: BTreeSet<&str> = words(&asked).filter(is_metric).collect();
    assert!(asked.len() > 5, "{asked:?}");
    let missing: Vec<_> = asked.difference(&told).collect();
    assert!(missing.is_empty(), "{missing:?} in\n{scrape}");

    let dashboard = fs::read_to_string(site.config("grafana/dashboard.json")).unwrap();
    let shown: BTreeSet<&str> = words(&dashboard).collect();
    let is_shown = |metric: &&str| {
        ["", "_total", "_bucket"].iter().any(|end| shown.contains(&*format!("{metric}{end}")))
    };
    let metrics = scrape.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let unseen: Vec<_> = metrics.filter(|metric| !is_shown(metric)).collect();
    assert!(unseen.is_empty(), "{unseen:?} are not in the dashboard");
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}
