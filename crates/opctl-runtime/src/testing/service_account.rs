//! The operator's service account, with what config/rbac permits it and nothing else.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{env, process};

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{ApiResource, ObjectMeta, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::{eventually, manifest};

/// The name that config/rbac gives it.
const NAME: &str = "controller-manager";

/// Where the roles and their bindings are.
const RBAC: &str = "config/rbac";

/// A kubeconfig in a file that goes with it: there is a token in it.
#[derive(Debug)]
pub(super) struct KubeconfigFile(PathBuf);

impl KubeconfigFile {
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A client with the permissions of the service account.
    pub async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.0).expect("the kubeconfig should be readable");
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let config = config.expect("the kubeconfig should have a current context");
        crate::client::connect(config).expect("the kubeconfig should be valid")
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        // The test may have deleted it.
        let _ = fs::remove_file(&self.0);
    }
}

/// Creates the service account in `namespace`. Returns when its permissions are in force.
pub(super) async fn create(admin: &Client, namespace: &str) -> KubeconfigFile {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    let created = accounts.create(&PostParams::default(), &account).await;
    created.expect("the API server should create a service account");
    grant(admin, namespace).await;
    kubeconfig(admin, namespace, NAME).await
}

/// A kubeconfig of the current cluster for a service account in `namespace`.
pub(super) async fn kubeconfig(admin: &Client, namespace: &str, account: &str) -> KubeconfigFile {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), namespace);
    let (params, request) = (PostParams::default(), TokenRequest::default());
    let answer = accounts
        .create_token_request(account, &params, &request)
        .await;
    let answer = answer.unwrap_or_else(|error| panic!("{account} should get a token: {error}"));
    let token = answer.status.and_then(|status| status.token);
    let token = token.expect("the answer should have a token");

    let mut kubeconfig = Kubeconfig::read().expect("KUBECONFIG should name a kubeconfig");
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(AuthInfo {
            token: Some(token.as_str().into()),
            ..AuthInfo::default()
        });
    }
    let file = format!("{namespace}-{}.kubeconfig", process::id());
    let path = env::temp_dir().join(file);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .unwrap_or_else(|error| panic!("{} should be new: {error}", path.display()));
    let written = file.write_all(json!(kubeconfig).to_string().as_bytes());
    written.expect("the directory of temporary files should have room");
    KubeconfigFile(path)
}

/// Gives the service account of `namespace` the permissions that config/rbac binds to it.
async fn grant(admin: &Client, namespace: &str) {
    let manifests: Vec<Value> = manifest::read(Path::new(RBAC));
    assert!(
        !manifests.is_empty(),
        "{RBAC} should have the roles of the operator"
    );
    for binding in manifests.iter().filter(|manifest| is_binding(manifest)) {
        let reference = &binding["roleRef"];
        let is_bound = |role: &&Value| {
            role["kind"] == reference["kind"] && role["metadata"]["name"] == reference["name"]
        };
        // Another role is one of Kubernetes' own, such as `view`.
        let role = manifests.iter().find(is_bound);
        if let Some(role) = role {
            apply(admin, role.clone(), namespace).await;
        }
        apply(admin, bound_in(namespace, binding.clone()), namespace).await;
        let rules = role.map(|role| role["rules"].clone()).unwrap_or_default();
        let rules = serde_json::from_value::<Option<Vec<PolicyRule>>>(rules);
        for rule in rules.expect("a role should have rules").iter().flatten() {
            wait_until_in_force(admin, rule, namespace).await;
        }
    }
}

/// Whether the manifest binds a role to the service account.
fn is_binding(manifest: &Value) -> bool {
    let subjects = manifest["subjects"].as_array();
    manifest["roleRef"].is_object()
        && subjects
            .into_iter()
            .flatten()
            .any(|subject| subject["name"] == NAME)
}

/// The binding, for the service account of `namespace` alone.
fn bound_in(namespace: &str, mut binding: Value) -> Value {
    let subject = json!({ "kind": "ServiceAccount", "name": NAME, "namespace": namespace });
    binding["subjects"] = json!([subject]);
    if binding["kind"] == "ClusterRoleBinding" {
        let name = binding["metadata"]["name"].as_str().unwrap_or_default();
        binding["metadata"]["name"] = json!(format!("{namespace}-{name}"));
    }
    binding
}

async fn apply(admin: &Client, manifest: Value, namespace: &str) {
    let kind = manifest["kind"].as_str().unwrap_or_default();
    let gvk = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", kind);
    let resource = ApiResource::from_gvk(&gvk);
    let objects = if kind.starts_with("Cluster") {
        Api::all_with(admin.clone(), &resource)
    } else {
        Api::namespaced_with(admin.clone(), namespace, &resource)
    };
    let object = serde_json::from_value(manifest).expect("a role should be an object");
    manifest::apply(&objects, object).await;
}

/// Waits until the API server's authorizer has seen the role: a moment after it is created.
async fn wait_until_in_force(admin: &Client, rule: &PolicyRule, namespace: &str) {
    let reviews: Api<SubjectAccessReview> = Api::all(admin.clone());
    for request in requests(rule, namespace) {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{namespace}:{NAME}")),
                ..request
            },
            ..SubjectAccessReview::default()
        };
        eventually("a role in force", async || {
            let answer = reviews.create(&PostParams::default(), &review).await.ok()?;
            answer.status.filter(|status| status.allowed)
        })
        .await;
    }
}

/// A request for each resource, and each URL, of the rule.
fn requests(rule: &PolicyRule, namespace: &str) -> Vec<SubjectAccessReviewSpec> {
    let verb = rule.verbs.first().cloned();
    let name = rule.resource_names.iter().flatten().next();
    let groups = rule.api_groups.iter().flatten();
    let resources = groups.flat_map(|group| {
        let resources = rule.resources.iter().flatten();
        resources.map(move |resource| (group.clone(), resource.clone()))
    });
    let of_resources = resources.map(|(group, resource)| {
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), Some(subresource.to_owned())),
            None => (resource, None),
        };
        SubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                group: Some(group),
                resource: Some(resource),
                subresource,
                name: name.cloned(),
                verb: verb.clone(),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        }
    });
    let urls = rule.non_resource_urls.iter().flatten();
    let of_urls = urls.map(|url| SubjectAccessReviewSpec {
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(url.clone()),
            verb: verb.clone(),
        }),
        ..SubjectAccessReviewSpec::default()
    });
    of_resources.chain(of_urls).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;
    use crate::rbac::{rule, subresource_rule};

    #[test]
    fn a_binding_is_for_the_service_account_of_the_test() {
        let subject = json!({ "kind": "ServiceAccount", "name": NAME, "namespace": "system" });
        let binding = json!({
            "kind": "ClusterRoleBinding",
            "metadata": { "name": "manager-rolebinding" },
            "roleRef": { "kind": "ClusterRole", "name": "manager-role" },
            "subjects": [subject],
        });
        assert!(is_binding(&binding));
        let bound = bound_in("test-1", binding);
        assert_eq!(bound["metadata"]["name"], "test-1-manager-rolebinding");
        assert_eq!(bound["subjects"][0]["namespace"], "test-1");

        let of_others = json!({ "roleRef": {}, "subjects": [{ "kind": "User", "name": "x" }] });
        assert!(!is_binding(&of_others));
        assert!(!is_binding(&json!({ "kind": "Kustomization" })));
    }

    #[test]
    fn every_resource_and_url_of_a_rule_is_asked_for() {
        let named = PolicyRule {
            resource_names: Some(vec!["tls".to_owned()]),
            ..rule::<Secret>(&["get"])
        };
        let asked = |rule: &PolicyRule| {
            let requests = requests(rule, "x").into_iter();
            let resources = requests.filter_map(|request| request.resource_attributes);
            let names = resources.map(|it| (it.resource, it.subresource, it.name));
            names.collect::<Vec<_>>()
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(asked(&named), [(text("secrets"), None, text("tls"))]);
        let status = subresource_rule::<Secret>("status", &["get"]);
        assert_eq!(asked(&status), [(text("secrets"), text("status"), None)]);

        let urls = PolicyRule {
            non_resource_urls: Some(vec!["/metrics".to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        };
        let request = requests(&urls, "x").remove(0).non_resource_attributes;
        assert_eq!(request.and_then(|request| request.path), text("/metrics"));
    }
}
