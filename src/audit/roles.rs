//! The permissions that RBAC manifests grant.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{Permission, SERVICE_ACCOUNT};

/// The fields of a manifest that grant permissions: those of roles and of bindings.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Manifest {
    kind: String,
    metadata: Metadata,
    rules: Option<Vec<Rule>>,
    role_ref: Option<RoleRef>,
    subjects: Option<Vec<Subject>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
struct RoleRef {
    kind: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Subject {
    kind: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    verbs: Vec<String>,
}

/// Parses all manifests of a file.
///
/// # Errors
/// If the text is not YAML, or if a field has the wrong type.
pub fn parse(text: &str) -> Result<Vec<Manifest>, serde_yaml::Error> {
    let documents = serde_yaml::Deserializer::from_str(text);
    // A document without content is null.
    let manifests: Result<Vec<Option<Manifest>>, _> = documents.map(Option::deserialize).collect();
    Ok(manifests?.into_iter().flatten().collect())
}

/// Whether any manifest binds a role to the service account of the operator.
pub fn is_bound(manifests: &[Manifest]) -> bool {
    manifests.iter().any(|manifest| manifest.bound_role().is_some())
}

/// The permissions of the roles that are bound to the service account of the operator.
///
/// # Caveats
/// Roles that are not among the manifests, such as `view`, are left out.
pub fn granted(manifests: &[Manifest]) -> BTreeSet<Permission> {
    let mut granted = BTreeSet::new();
    for bound in manifests.iter().filter_map(Manifest::bound_role) {
        let is_role =
            |role: &&Manifest| role.kind == bound.kind && role.metadata.name == bound.name;
        for role in manifests.iter().filter(is_role) {
            granted.extend(role.rules.iter().flatten().flat_map(Rule::permissions));
        }
    }
    granted
}

impl Manifest {
    /// The role of a binding to the service account of the operator.
    fn bound_role(&self) -> Option<&RoleRef> {
        let is_operator =
            |subject: &Subject| subject.kind == "ServiceAccount" && subject.name == SERVICE_ACCOUNT;
        self.role_ref.as_ref().filter(|_| self.subjects.iter().flatten().any(is_operator))
    }
}

impl Rule {
    fn permissions(&self) -> Vec<Permission> {
        let names: Vec<Option<&str>> = match self.resource_names.as_slice() {
            [] => vec![None],
            names => names.iter().map(|name| Some(name.as_str())).collect(),
        };
        let mut permissions = Vec::new();
        for verb in &self.verbs {
            for (group, resource) in self.api_groups.iter().flat_map(|group| {
                self.resources.iter().map(move |resource| (group.as_str(), resource.as_str()))
            }) {
                let named =
                    names.iter().map(|name| Permission::resource(verb, group, resource, *name));
                permissions.extend(named);
            }
            permissions
                .extend(self.non_resource_urls.iter().map(|path| Permission::url(verb, path)));
        }
        permissions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINDING: &str = "
kind: ClusterRoleBinding
metadata: {name: manager-rolebinding}
roleRef: {kind: ClusterRole, name: manager-role}
subjects: [{kind: ServiceAccount, name: controller-manager, namespace: system}]
";

    fn granted_by(manifests: &[&str]) -> Vec<String> {
        let manifests = parse(&manifests.join("\n---\n")).unwrap();
        granted(&manifests).iter().map(ToString::to_string).collect()
    }

    fn role(kind: &str, name: &str, rule: &str) -> String {
        format!("{{kind: {kind}, metadata: {{name: {name}}}, rules: [{rule}]}}")
    }

    const RULE: &str = "{apiGroups: [''], resources: [pods], verbs: [get]}";

    #[test]
    fn a_rule_grants_each_verb_on_each_resource_of_each_group() {
        let rule = "{apiGroups: ['', apps], resources: [a, b/status], verbs: [get, list]}";
        let granted = granted_by(&[BINDING, &role("ClusterRole", "manager-role", rule)]);
        let expected = [
            "get a (core)",
            "list a (core)",
            "get b/status (core)",
            "list b/status (core)",
            "get a (apps)",
            "list a (apps)",
            "get b/status (apps)",
            "list b/status (apps)",
        ];
        assert_eq!(granted, expected);
    }

    #[test]
    fn names_and_paths_restrict_a_rule() {
        let named = "{apiGroups: [''], resources: [secrets], resourceNames: [a, b], verbs: [get]}";
        let urls = "{nonResourceURLs: [/metrics, /logs/*], verbs: [get, post]}";
        let rules = [named, urls].join(", ");
        let granted = granted_by(&[BINDING, &role("ClusterRole", "manager-role", &rules)]);
        let expected = [
            "get secrets/a (core)",
            "get secrets/b (core)",
            "get /logs/*",
            "post /logs/*",
            "get /metrics",
            "post /metrics",
        ];
        assert_eq!(granted, expected);
    }

    #[test]
    fn only_roles_that_are_bound_to_the_operator_count() {
        let none: [&str; 0] = [];
        assert_eq!(granted_by(&[&role("ClusterRole", "manager-role", RULE)]), none);
        assert_eq!(granted_by(&[BINDING, &role("ClusterRole", "other-role", RULE)]), none);
        assert_eq!(granted_by(&[BINDING, &role("Role", "manager-role", RULE)]), none);
        let reader = BINDING.replace("controller-manager", "prometheus");
        let manager_role = role("ClusterRole", "manager-role", RULE);
        assert_eq!(granted_by(&[&reader, &manager_role]), none);
        assert!(!is_bound(&parse(&reader).unwrap()) && is_bound(&parse(BINDING).unwrap()));
        assert_eq!(granted_by(&[BINDING, &manager_role]), ["get pods (core)"]);
    }

    #[test]
    fn a_file_has_any_number_of_manifests_of_any_kind() {
        assert_eq!(parse("").unwrap().len(), 0);
        assert_eq!(
            parse("# nothing\n---\n---\nkind: A\n---\nresources: [a.yaml]").unwrap().len(),
            2
        );
        assert!(parse("kind: Role\nrules: none").is_err());
        assert!(parse("kind: [").is_err());
    }
}
