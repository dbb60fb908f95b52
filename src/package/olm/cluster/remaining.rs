//! Deletes objects and waits until they are gone, and finds those of the user that would go with them.

use anyhow::Result;

use super::kubectl::Kubectl;
use super::wait::{Deadline, Progress};
use crate::package::olm::Object;
use crate::ui::Ui;

/// The CRDs of Kubernetes.
pub const CRDS: &str = "customresourcedefinitions.v1.apiextensions.k8s.io";

/// How many names a message has.
const NAMES: usize = 10;

/// The name of a kind for kubectl.
pub fn resource(object: &Object) -> String {
    format!("{}.{}.{}", object.kind(), object.version(), object.group())
}

/// Deletes an object and waits until it is gone. Returns whether it was there.
///
/// # Errors
/// If the API server refuses it, or if the object stays, for example because of a finalizer.
pub fn delete(
    kubectl: &Kubectl,
    deadline: Deadline,
    ui: Ui,
    resource: &str,
    name: &str,
) -> Result<bool> {
    let Some(object) = kubectl.get(resource, name)? else { return Ok(false) };
    let title = object.title();
    kubectl.delete(resource, name)?;
    deadline.wait(&format!("deletion of {title}"), || {
        Ok(match kubectl.get(resource, name)? {
            None => Progress::Done(()),
            Some(object) => {
                let finalizers = object.items("/metadata/finalizers").iter();
                let finalizers: Vec<&str> = finalizers.filter_map(|it| it.as_str()).collect();
                Progress::Pending(match finalizers.as_slice() {
                    [] => "it is ending".to_owned(),
                    finalizers => format!("it has the finalizers {}", finalizers.join(", ")),
                })
            }
        })
    })?;
    ui.status("Deleted", title);
    Ok(true)
}

/// The objects of a CRD, which are deleted with it.
///
/// # Errors
/// If the API server refuses the request.
pub fn custom_resources(kubectl: &Kubectl, crd: &Object) -> Result<Vec<Object>> {
    kubectl.list(crd.name(), &["--all-namespaces"])
}

/// The names of objects for a message.
pub fn names(objects: &[Object]) -> String {
    let mut names: Vec<String> = objects.iter().take(NAMES).map(full_name).collect();
    if objects.len() > NAMES {
        names.push(format!("and {} more", objects.len() - NAMES));
    }
    names.join(", ")
}

/// The kind and the name of an object, with its namespace.
fn full_name(object: &Object) -> String {
    match object.namespace() {
        "" => object.title(),
        namespace => format!("{} {namespace}/{}", object.kind(), object.name()),
    }
}

/// What a namespace has besides what Kubernetes and OLM make in each.
///
/// # Errors
/// If the API server refuses the requests.
pub fn contents(kubectl: &Kubectl, namespace: &str) -> Result<Vec<Object>> {
    let args = ["api-resources", "--namespaced", "--verbs=list,create", "-o", "name"];
    let resources = kubectl.run(&args, None)?;
    let resources: Vec<&str> = resources
        .lines()
        .filter(|name| !["events", "endpoints"].contains(&name.split('.').next().unwrap_or(name)))
        .collect();
    let objects = kubectl.with_namespace(namespace).list(&resources.join(","), &[])?;
    Ok(objects.into_iter().filter(|object| !is_made_by_itself(object)).collect())
}

/// Whether an object is in every namespace, or goes with another one.
fn is_made_by_itself(object: &Object) -> bool {
    let labels = &object.value()["metadata"]["labels"];
    !object.items("/metadata/ownerReferences").is_empty()
        || labels["olm.managed"] == "true"
        || (object.kind(), object.name()) == ("ConfigMap", "kube-root-ca.crt")
        || (object.kind(), object.name()) == ("ServiceAccount", "default")
        || ["EndpointSlice", "Lease"].contains(&object.kind())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str) -> Object {
        Object::new(json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } }))
    }

    #[test]
    fn long_lists_are_cut() {
        let objects: Vec<Object> =
            (0..12).map(|number| object("Secret", &number.to_string())).collect();
        let text = names(&objects);
        assert!(text.starts_with("Secret 0, Secret 1, "), "{text}");
        assert!(text.ends_with("Secret 9, and 2 more"), "{text}");
    }

    #[test]
    fn objects_of_users_are_told_from_those_of_every_namespace() {
        assert!(is_made_by_itself(&object("ConfigMap", "kube-root-ca.crt")));
        assert!(is_made_by_itself(&object("ServiceAccount", "default")));
        assert!(!is_made_by_itself(&object("ConfigMap", "mine")));
        assert!(!is_made_by_itself(&object("Secret", "default")));
    }
}
