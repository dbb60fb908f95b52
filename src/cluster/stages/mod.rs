//! What kwok simulates: nodes, volumes, and pods that behave like those of a real node, well or badly.
//!
//! A stage is a step of kwok: for which objects it is, after which delay, and what it does. Which stage comes
//! next for a pod is decided in `pod.jq`, from its behavior and its status.

mod pod;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The label of a pod that behaves unlike the others.
pub const LABEL: &str = "opctl/pods";

const NODE: &str = include_str!("node.yaml");
const VOLUME: &str = include_str!("volume.yaml");

/// How pods behave.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodBehavior {
    /// Ready at once, and deleted at once
    #[default]
    Ready,
    /// Containers start after 2 s and are ready 3 s later; completing and deleting take 3 s
    Slow,
    /// Containers exit with code 1, again and again (CrashLoopBackOff); pods of Jobs fail
    Crash,
    /// Ready for 5 s, then not ready for 5 s, and so on
    Flaky,
    /// Ready, though the containers are killed and restarted every 5 s
    Restart,
    /// Ready at once, but once deleted, terminating until deleted by force
    Hang,
}

impl PodBehavior {
    /// The value of the flag and of the label.
    pub fn name(self) -> &'static str {
        match self {
            PodBehavior::Ready => "ready",
            PodBehavior::Slow => "slow",
            PodBehavior::Crash => "crash",
            PodBehavior::Flaky => "flaky",
            PodBehavior::Restart => "restart",
            PodBehavior::Hang => "hang",
        }
    }
}

/// The configuration file of kwok, in which pods without the label have this behavior.
///
/// # Errors
/// If it cannot be serialized.
pub fn config(behavior: PodBehavior) -> Result<String> {
    let mut documents = vec![NODE.to_owned(), VOLUME.to_owned()];
    for stage in pod::stages(behavior) {
        documents.push(serde_yaml::to_string(&stage)?);
    }
    Ok(documents.join("---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::objects::PROVISIONER;
    use serde_json::Value;

    #[test]
    fn every_document_is_a_stage_with_a_name_of_its_own() {
        for behavior in PodBehavior::value_variants() {
            let config = config(*behavior).unwrap();
            let stage = |text: &str| serde_yaml::from_str::<Value>(text).unwrap();
            let stages: Vec<Value> = config.split("---\n").map(stage).collect();
            assert!(stages.iter().all(|stage| stage["kind"] == "Stage"));
            let mut names: Vec<String> =
                stages.iter().map(|stage| stage["metadata"]["name"].to_string()).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), stages.len());
        }
    }

    #[test]
    fn the_stages_are_for_volumes_of_the_default_storage_class() {
        let stages = VOLUME.split("---\n").map(|text| serde_yaml::from_str::<Value>(text).unwrap());
        let selectors = stages.map(|stage| stage["spec"]["selector"]["matchAnnotations"].clone());
        for selector in selectors {
            let provisioners: Vec<&Value> = selector.as_object().unwrap().values().collect();
            assert_eq!(provisioners, [PROVISIONER]);
        }
    }

    #[test]
    fn the_value_of_the_flag_is_that_of_the_label() {
        for behavior in PodBehavior::value_variants() {
            assert_eq!(behavior.to_possible_value().unwrap().get_name(), behavior.name());
        }
    }
}
