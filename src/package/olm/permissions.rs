//! The permissions in a ClusterServiceVersion: those of the roles that are bound to the service accounts of the
//! operator. OLM creates the service accounts, roles and bindings from them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::object::Object;

/// The API group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";

/// The roles, bindings and service accounts of an operator, as a bundle has them.
#[derive(Debug, Default)]
pub struct Permissions {
    /// `permissions` of the ClusterServiceVersion: those in the namespace of the operator.
    pub namespaced: Vec<Value>,
    /// `clusterPermissions` of the ClusterServiceVersion.
    pub cluster: Vec<Value>,
    /// What stays an object of its own.
    pub objects: Vec<Object>,
    /// What OLM does not do as the manifests say.
    pub warnings: Vec<String>,
}

/// Whether an object is a role, a binding or a service account.
pub fn is_rbac(object: &Object) -> bool {
    object.group() == RBAC || object.is("", "ServiceAccount")
}

/// Folds the roles that are bound to these service accounts. Their namespace is that of the operator.
pub fn fold(objects: Vec<Object>, accounts: &BTreeSet<String>, namespace: &str) -> Permissions {
    let operator = Operator { accounts, namespace };
    let mut permissions = Permissions::default();
    // An account without permissions is created too, because it has an entry.
    let mut rules: BTreeMap<&str, Rules> =
        accounts.iter().map(|name| (name.as_str(), Rules::default())).collect();
    let mut folded = BTreeSet::new();
    let mut kept = Vec::new();
    for binding in objects.iter().filter(|object| object.kind().ends_with("Binding")) {
        let (own, others): (Vec<&Value>, Vec<&Value>) =
            binding.items("/subjects").iter().partition(|subject| operator.is_account(subject));
        match operator.role(binding, &objects) {
            Ok((position, role)) if !own.is_empty() => {
                for subject in own {
                    let name = subject["name"].as_str().unwrap_or_default();
                    let Some(rules) = rules.get_mut(name) else { continue };
                    let is_cluster = binding.kind() == "ClusterRoleBinding";
                    rules.extend(is_cluster, role.items("/rules"));
                }
                folded.insert(position);
                if !others.is_empty() {
                    kept.push(with_subjects(binding, &others));
                }
            }
            Err(reason) if !own.is_empty() => {
                let title = binding.title();
                permissions.warnings.push(format!(
                    "{title} {reason}: OLM creates it as it is, with the namespace of its subjects"
                ));
                kept.push(binding.clone());
            }
            _ => kept.push(binding.clone()),
        }
    }
    for (name, rules) in rules {
        let entry = |rules: &[Value]| json!({ "serviceAccountName": name, "rules": rules });
        if !rules.cluster.is_empty() {
            permissions.cluster.push(entry(&rules.cluster));
        }
        if !rules.namespaced.is_empty() || rules.cluster.is_empty() {
            permissions.namespaced.push(entry(&rules.namespaced));
        }
    }
    for (position, object) in objects.iter().enumerate() {
        match object.kind() {
            kind if kind.ends_with("Binding") => {}
            "ServiceAccount" if operator.owns(object) => {
                permissions.warnings.extend(lost_settings(object));
            }
            // A role may also be bound to somebody else.
            _ if folded.contains(&position) && !kept.iter().any(|b| refers_to(b, object)) => {}
            _ => permissions.objects.push(object.clone()),
        }
    }
    permissions.objects.extend(kept);
    permissions
}

/// The service accounts of an operator.
struct Operator<'a> {
    accounts: &'a BTreeSet<String>,
    namespace: &'a str,
}

impl Operator<'_> {
    fn is_account(&self, subject: &Value) -> bool {
        let name = subject["name"].as_str().unwrap_or_default();
        let namespace = subject["namespace"].as_str().unwrap_or_default();
        subject["kind"] == "ServiceAccount"
            && self.accounts.contains(name)
            && self.is_own_namespace(namespace)
    }

    fn is_own_namespace(&self, namespace: &str) -> bool {
        namespace.is_empty() || self.namespace.is_empty() || namespace == self.namespace
    }

    fn owns(&self, account: &Object) -> bool {
        self.accounts.contains(account.name()) && self.is_own_namespace(account.namespace())
    }

    /// The role of a binding, or why it cannot be folded.
    fn role<'a>(
        &self,
        binding: &Object,
        objects: &'a [Object],
    ) -> Result<(usize, &'a Object), &'static str> {
        if binding.kind() == "RoleBinding" && !self.is_own_namespace(binding.namespace()) {
            return Err("is of another namespace than the operator");
        }
        let role = objects.iter().enumerate().find(|(_, role)| refers_to(binding, role));
        match role {
            None => Err("binds a role that is not among the manifests"),
            Some((_, role)) if role.value().get("aggregationRule").is_some() => {
                Err("binds a role that aggregates others")
            }
            Some(role) => Ok(role),
        }
    }
}

fn refers_to(binding: &Object, role: &Object) -> bool {
    let kind = binding.text("/roleRef/kind");
    role.is(RBAC, kind)
        && role.name() == binding.text("/roleRef/name")
        && (kind == "ClusterRole" || role.namespace() == binding.namespace())
}

fn with_subjects(binding: &Object, subjects: &[&Value]) -> Object {
    let mut value = binding.value().clone();
    value["subjects"] = json!(subjects);
    Object::new(value)
}

/// What a service account says besides its name, which OLM does not know.
fn lost_settings(account: &Object) -> Option<String> {
    let fields = account.value().as_object()?;
    let lost = ["automountServiceAccountToken", "imagePullSecrets", "secrets"];
    let mut lost: Vec<&str> = lost.into_iter().filter(|name| fields.contains_key(*name)).collect();
    if account.value().pointer("/metadata/annotations").is_some() {
        lost.push("annotations");
    }
    let title = account.title();
    (!lost.is_empty()).then(|| format!("{title}: OLM creates it without {}", lost.join(", ")))
}

/// The rules of a service account, each once, in the order of the manifests.
#[derive(Debug, Default)]
struct Rules {
    namespaced: Vec<Value>,
    cluster: Vec<Value>,
}

impl Rules {
    fn extend(&mut self, is_cluster: bool, rules: &[Value]) {
        let known = if is_cluster { &mut self.cluster } else { &mut self.namespaced };
        for rule in rules {
            if !known.contains(rule) {
                known.push(rule.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERB: &str = "verb";

    fn rbac(kind: &str, namespace: &str, fields: Value) -> Object {
        let mut value = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": { "name": "x", "namespace": namespace },
        });
        value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Object::new(value)
    }

    fn role(kind: &str, namespace: &str) -> Object {
        rbac(kind, namespace, json!({ "rules": [VERB] }))
    }

    fn binding(kind: &str, namespace: &str, role: &str, accounts: &[(&str, &str)]) -> Object {
        let subject = |(namespace, name): &(&str, &str)| json!({ "kind": "ServiceAccount", "name": name, "namespace": namespace });
        let subjects: Vec<Value> = accounts.iter().map(subject).collect();
        let role = json!({ "kind": role, "name": "x" });
        rbac(kind, namespace, json!({ "roleRef": role, "subjects": subjects }))
    }

    fn fold_for(accounts: &[&str], objects: Vec<Object>) -> Permissions {
        fold(objects, &accounts.iter().map(|name| (*name).to_owned()).collect(), "own")
    }

    fn entry(name: &str, rules: &[&str]) -> Value {
        json!({ "serviceAccountName": name, "rules": rules })
    }

    #[test]
    fn cluster_role_of_a_role_binding_is_for_the_namespace() {
        let binding = binding("RoleBinding", "own", "ClusterRole", &[("own", "a")]);
        let permissions = fold_for(&["a", "b"], vec![role("ClusterRole", ""), binding]);
        // OLM creates the other account, too.
        assert_eq!(permissions.namespaced, [entry("a", &[VERB]), entry("b", &[])]);
        assert!(permissions.cluster.is_empty() && permissions.objects.is_empty());
        assert!(permissions.warnings.is_empty());
    }

    #[test]
    fn role_that_others_are_bound_to_stays() {
        let shared = binding("RoleBinding", "own", "Role", &[("own", "a"), ("other", "a")]);
        let rest = binding("RoleBinding", "own", "Role", &[("other", "a")]);
        let permissions = fold_for(&["a"], vec![role("Role", "own"), shared]);
        assert_eq!(permissions.namespaced, [entry("a", &[VERB])]);
        assert_eq!(permissions.objects, [role("Role", "own"), rest]);
    }

    #[test]
    fn roles_of_other_namespaces_are_not_folded() {
        let objects =
            vec![role("Role", "other"), binding("RoleBinding", "other", "Role", &[("own", "a")])];
        let permissions = fold_for(&["a"], objects.clone());
        assert_eq!(permissions.namespaced, [entry("a", &[])]);
        assert_eq!(permissions.objects, objects);
        assert_eq!(permissions.warnings.len(), 1);
    }

    #[test]
    fn aggregated_roles_are_not_folded() {
        let fields = json!({ "rules": [], "aggregationRule": {} });
        let objects = vec![
            rbac("ClusterRole", "", fields),
            binding("ClusterRoleBinding", "", "ClusterRole", &[("own", "a")]),
        ];
        let permissions = fold_for(&["a"], objects.clone());
        assert_eq!(permissions.objects, objects);
        assert_eq!(permissions.warnings.len(), 1);
    }
}
