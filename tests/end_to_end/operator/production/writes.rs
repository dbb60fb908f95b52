//! What a manager has written, as the API server has noted it down.

use std::fs;

use serde_json::Value;

use super::site::Manager;
use crate::operator::cluster::Cluster;

/// A request that writes. The times are the API server's, and compare as text.
#[derive(Debug)]
pub struct Write {
    pub begin: String,
    pub end: String,
    #[expect(dead_code, reason = "for the messages of failures")]
    what: String,
}

/// All writes of the manager but those to its lease.
pub fn writes(cluster: &Cluster, manager: &Manager) -> Vec<Write> {
    let log = fs::read(&cluster.audit_log).unwrap();
    let log = String::from_utf8_lossy(&log);
    let lines = log.lines().filter(|line| line.contains(&manager.credential));
    // The last line may be under way.
    let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    // The request for the token names it, too.
    let own = |event: &Value| {
        let extra = &event["user"]["extra"];
        extra["authentication.kubernetes.io/credential-id"][0] == manager.credential.as_str()
    };
    events.filter(own).filter_map(|event| write(&event)).collect()
}

fn write(event: &Value) -> Option<Write> {
    let verb = event["verb"].as_str()?;
    let object = &event["objectRef"];
    let resource = object["resource"].as_str()?;
    let reads = ["get", "list", "watch"].contains(&verb);
    if reads || ["leases", "selfsubjectreviews"].contains(&resource) {
        return None;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some(Write {
        begin: text(&event["requestReceivedTimestamp"]),
        end: text(&event["stageTimestamp"]),
        what: format!("{verb} {resource} {}", text(&object["name"])),
    })
}

/// Fails where the second manager writes before the last write of the first has ended.
pub fn assert_one_after_the_other(cluster: &Cluster, first: &Manager, second: &Manager) {
    assert_all_but(0, cluster, first, second);
}

/// As [`assert_one_after_the_other`], for a first manager that was stopped and has gone on: what its
/// connection had taken over by then is sent nevertheless, which is one write at most.
pub fn assert_nothing_new(cluster: &Cluster, first: &Manager, second: &Manager) {
    assert_all_but(1, cluster, first, second);
}

fn assert_all_but(late: usize, cluster: &Cluster, first: &Manager, second: &Manager) {
    let (mut before, after) = (writes(cluster, first), writes(cluster, second));
    before.sort_by(|a, b| b.end.cmp(&a.end));
    let last = &before[late];
    let next = after.iter().min_by_key(|write| &write.begin).unwrap();
    assert!(last.end < next.begin, "{last:?} of the first, {next:?} of the second");
    eprintln!(
        "{} writes of {} until {}, {} of {} from {}",
        before.len(),
        first.name,
        last.end,
        after.len(),
        second.name,
        next.begin
    );
}
