//! The optional parts of a project.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_yaml::Value;

use crate::yaml::Limit;

/// The file that lists the components.
pub const FEATURES_FILE: &str = "config/default/kustomization.yaml";

/// The maximum size of that file.
const LIMIT: Limit = Limit { megabytes: 1 };

/// A part that not every project needs. Components are directories below `config` that `config/default` lists.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Feature {
    /// A second replica, and drains that leave one
    Availability,
    /// Metrics with a certificate; needs cert-manager
    CertManager,
    /// A dashboard, for Grafana's sidecar
    Grafana,
    /// A Helm chart, in chart
    Helm,
    /// Metrics only for namespaces with the label `metrics: enabled`
    #[value(alias = "metrics-network-policy")]
    NetworkPolicy,
    /// Bundles for the Operator Lifecycle Manager
    Olm,
    /// Scraping and alerts; needs the Prometheus operator
    Prometheus,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Availability,
        Self::CertManager,
        Self::Grafana,
        Self::Helm,
        Self::NetworkPolicy,
        Self::Olm,
        Self::Prometheus,
    ];

    /// The directory of a component, seen from `config/default`.
    fn component(self) -> Option<&'static str> {
        match self {
            Self::Availability => Some("../availability"),
            Self::CertManager => Some("../cert-manager"),
            Self::Grafana => Some("../grafana"),
            Self::Helm | Self::Olm => None,
            Self::NetworkPolicy => Some("../network-policy"),
            Self::Prometheus => Some("../prometheus"),
        }
    }

    /// Whether the user's [`FEATURES_FILE`] says if the project has the feature.
    pub fn is_component(self) -> bool {
        self.component().is_some()
    }
}

/// The components that the user's [`FEATURES_FILE`] lists, if it can be read.
pub fn listed(kustomization: &str) -> Option<BTreeSet<Feature>> {
    let value = LIMIT.parse(kustomization).ok()?;
    if !matches!(value, Value::Mapping(_) | Value::Null) {
        return None; // such as the markers of a conflict
    }
    let components = match value.get("components") {
        Some(Value::Sequence(components)) => components.as_slice(),
        None | Some(Value::Null) => &[],
        Some(_) => return None,
    };
    let is_listed = |feature: &Feature| {
        let path = |component: &Value| {
            component.as_str().map(|path| path.trim_end_matches('/').to_owned())
        };
        components.iter().filter_map(path).any(|path| Some(path.as_str()) == feature.component())
    };
    Some(Feature::ALL.into_iter().filter(is_listed).collect())
}

/// A [`FEATURES_FILE`] in which exactly these components are listed, of those that have a line: the others are
/// commented out.
pub fn chosen(kustomization: &str, features: &BTreeSet<Feature>) -> String {
    let lines = kustomization.split_inclusive('\n').map(|line| {
        let item = line.trim_start_matches('#');
        let path = item.strip_prefix("- ").and_then(|item| item.split_whitespace().next());
        let is_path = |feature: &Feature| path.is_some() && feature.component() == path;
        match Feature::ALL.into_iter().find(is_path) {
            Some(feature) if features.contains(&feature) => item.to_owned(),
            Some(_) => format!("#{item}"),
            None => line.to_owned(),
        }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_components_are_listed_and_no_others() {
        let text =
            "components:\n#- ../grafana  # a dashboard\n- ../prometheus\n- ../mine\n# - text\n";
        let features = BTreeSet::from([Feature::Grafana, Feature::Helm]);
        let expected =
            "components:\n- ../grafana  # a dashboard\n#- ../prometheus\n- ../mine\n# - text\n";
        assert_eq!(chosen(text, &features), expected);
        assert_eq!(chosen(expected, &features), expected);
    }

    #[test]
    fn listed_components_are_features() {
        let list = |text| listed(text).map(|features| features.into_iter().collect::<Vec<_>>());
        for (text, features) in [
            ("components:\n#- ../grafana\n", vec![]),
            ("resources: []\n", vec![]),
            ("components:\n- ../grafana/\n- ../mine\n", vec![Feature::Grafana]),
            (
                "components: [../prometheus, ../network-policy]\n",
                vec![Feature::NetworkPolicy, Feature::Prometheus],
            ),
        ] {
            assert_eq!(list(text), Some(features), "{text}");
        }
        assert_eq!(list("components: ../grafana\n"), None);
        assert_eq!(list("<<<<<<< yours\n"), None);
    }
}
