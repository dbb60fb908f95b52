//! The rules of all controllers, as one role has them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::PolicyRule;

/// What a rule permits something on: a resource of a group, or the objects of these names alone.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    group: String,
    resource: String,
    names: BTreeSet<String>,
}

/// The same permissions in as few rules as there are combinations of an API group, names of objects
/// and verbs. Rules of URLs come last, as they are.
pub(super) fn merge(rules: &[PolicyRule]) -> Vec<PolicyRule> {
    let (of_urls, of_resources): (Vec<_>, Vec<_>) = rules
        .iter()
        .partition(|rule| has_items(&rule.non_resource_urls));

    let mut resources: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (target, verbs) in verbs(&of_resources) {
        let Target {
            group,
            resource,
            names,
        } = target;
        let merged = resources.entry((group, names, verbs)).or_default();
        merged.push(resource);
    }
    let merged = resources
        .into_iter()
        .map(|((group, names, verbs), resources)| PolicyRule {
            api_groups: Some(vec![group]),
            resources: Some(resources),
            resource_names: Some(names.into_iter().collect())
                .filter(|names: &Vec<_>| !names.is_empty()),
            verbs: verbs.into_iter().collect(),
            ..PolicyRule::default()
        });
    let mut merged: Vec<_> = merged.collect();
    merged.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    merged.extend(of_urls.into_iter().cloned());
    merged
}

/// The verbs that the rules permit on each resource.
fn verbs(rules: &[&PolicyRule]) -> BTreeMap<Target, BTreeSet<String>> {
    let mut verbs: BTreeMap<Target, BTreeSet<String>> = BTreeMap::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                let target = Target {
                    group: group.clone(),
                    resource: resource.clone(),
                    names: rule.resource_names.iter().flatten().cloned().collect(),
                };
                let permitted = verbs.entry(target).or_default();
                permitted.extend(rule.verbs.iter().cloned());
            }
        }
    }
    verbs
}

fn sort_key(rule: &PolicyRule) -> impl Ord {
    (&rule.api_groups, &rule.resources, &rule.resource_names)
}

fn has_items(list: &Option<Vec<String>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;
    use crate::rbac::{rule, subresource_rule};

    #[test]
    fn rules_of_the_same_group_and_verbs_become_one() {
        let rules = [
            rule::<Secret>(&["watch", "list"]),
            rule::<Deployment>(&["get"]),
            rule::<ConfigMap>(&["list"]),
            rule::<ConfigMap>(&["watch"]),
            subresource_rule::<Deployment>("status", &["get"]),
        ];
        let list = |items: &[&str]| Some(items.iter().map(ToString::to_string).collect::<Vec<_>>());
        let merged = merge(&rules);
        assert_eq!(merged.len(), 2);
        assert_eq!(merged[0].api_groups, list(&[""]));
        assert_eq!(merged[0].resources, list(&["configmaps", "secrets"]));
        assert_eq!(merged[0].verbs, ["list", "watch"]);
        assert_eq!(merged[0].resource_names, None);
        assert_eq!(
            merged[1].resources,
            list(&["deployments", "deployments/status"])
        );
    }

    #[test]
    fn a_rule_for_named_objects_permits_no_others() {
        let named = |names: &[&str]| PolicyRule {
            resource_names: Some(names.iter().map(ToString::to_string).collect()),
            ..rule::<Secret>(&["get"])
        };
        let merged = merge(&[named(&["tls"]), rule::<Secret>(&["list"]), named(&["ca"])]);
        let shown = |rule: &PolicyRule| (rule.resource_names.clone(), rule.verbs.clone());
        let shown: Vec<_> = merged.iter().map(shown).collect();
        let expected = |names: &[&str], verb: &str| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            (
                Some(names).filter(|names| !names.is_empty()),
                vec![verb.to_owned()],
            )
        };
        assert_eq!(
            shown,
            [
                expected(&[], "list"),
                expected(&["ca"], "get"),
                expected(&["tls"], "get")
            ]
        );
    }

    #[test]
    fn a_rule_of_urls_is_kept() {
        let metrics = PolicyRule {
            non_resource_urls: Some(vec!["/metrics".to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        };
        let merged = merge(&[metrics.clone(), rule::<Secret>(&["get"])]);
        assert_eq!(merged, [rule::<Secret>(&["get"]), metrics]);
    }
}
