//! What the operator asks of the API server, as the API server itself has written it down.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use serde_json::Value;

use crate::operator::client::AGENT;
use crate::operator::cluster::Cluster;

/// All that run on the cluster but the operator, by their user agents.
const OTHERS: [&str; 4] = ["kube-", "kubectl", "kwok", AGENT];

/// The requests since a moment.
pub struct Audit<'a> {
    cluster: &'a Cluster,
    begin: u64,
}

impl<'a> Audit<'a> {
    /// From now on.
    pub fn begin(cluster: &'a Cluster) -> Self {
        Self { cluster, begin: cluster.audit_log.metadata().unwrap().len() }
    }

    /// The operator's requests that are no watches, as `verb resource/subresource name`.
    pub fn requests(&self) -> Vec<String> {
        let mut log = File::open(&self.cluster.audit_log).unwrap();
        assert!(log.metadata().unwrap().len() >= self.begin, "the audit log was rotated");
        log.seek(SeekFrom::Start(self.begin)).unwrap();
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        // The last line may be under way.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|event| is_operators(event) && event["verb"] != "watch").map(tell).collect()
    }

    /// Those of them that write.
    pub fn writes(&self) -> Vec<String> {
        let reads = |request: &String| request.starts_with("get ") || request.starts_with("list ");
        self.requests().into_iter().filter(|request| !reads(request)).collect()
    }
}

fn is_operators(event: &Value) -> bool {
    let agent = event["userAgent"].as_str().unwrap_or_default();
    !OTHERS.iter().any(|other| agent.starts_with(other))
}

fn tell(event: Value) -> String {
    let field = |name: &str| event["objectRef"][name].as_str().unwrap_or_default().to_owned();
    let verb = event["verb"].as_str().unwrap_or_default();
    format!("{verb} {}/{} {}", field("resource"), field("subresource"), field("name"))
}
