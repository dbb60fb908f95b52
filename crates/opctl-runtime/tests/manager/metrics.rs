//! Who gets /metrics, and with which certificate.

use std::fs;
use std::path::Path;

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use opctl_runtime::testing::{Process, eventually, free_address};
use rcgen::generate_simple_self_signed;

use crate::cluster::{example, operator};
use crate::http;

const NO_PROBES: &str = "--health-probe-bind-address=0";

#[tokio::test]
async fn metrics_are_served_to_clients_that_rbac_authorizes() {
    let operator = operator(|_| {}).await;
    let (client, namespace) = (&operator.client, &operator.namespace);
    let address = free_address();
    let _manager = example(&operator, &[NO_PROBES, "--metrics-bind-address", &address]);
    let token = create_scraper(client, namespace).await;

    let without_token = eventually("a manager that listens", async || {
        scrape(&address, None).await
    });
    assert_eq!(without_token.await, 401);
    assert_eq!(scrape(&address, Some("nonsense")).await, Some(401));
    assert_eq!(scrape(&address, Some(&token)).await, Some(403));

    let permission = Permission::grant(client, namespace).await;
    // The API server's authorizer sees it a moment later.
    eventually("the metrics", async || {
        let code = scrape(&address, Some(&token)).await;
        code.filter(|code| *code == 200)
    })
    .await;
    permission.revoke().await;
}

#[tokio::test]
async fn a_certificate_that_changes_on_disk_is_served_without_a_restart() {
    let operator = operator(|_| {}).await;
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&operator.namespace);
    fs::create_dir_all(&directory).expect("the directory should be writable");
    let (address, old) = (free_address(), write_certificate(&directory));
    let path = directory.display().to_string();
    let mut manager: Process = example(
        &operator,
        &[
            NO_PROBES,
            "--metrics-bind-address",
            &address,
            "--metrics-cert-path",
            &path,
        ],
    );
    eventually("the certificate", async || greet(&address, &old).await).await;

    let new = write_certificate(&directory);
    eventually("the new certificate", async || greet(&address, &new).await).await;
    assert_eq!(greet(&address, &old).await, None);
    assert!(manager.is_running());
    fs::remove_dir_all(directory).expect("the directory should be writable");
}

/// Writes a new certificate with its key.
fn write_certificate(directory: &Path) -> Vec<u8> {
    let new = generate_simple_self_signed(["metrics".to_owned()]);
    let new = new.expect("a certificate should be generated");
    fs::write(directory.join("tls.crt"), new.cert.pem()).expect("the directory should be writable");
    let key = new.signing_key.serialize_pem();
    fs::write(directory.join("tls.key"), key).expect("the directory should be writable");
    new.cert.der().to_vec()
}

/// The status code that a client gets which trusts that certificate alone.
async fn greet(address: &str, certificate: &[u8]) -> Option<u16> {
    let mut config = http::config("https", address);
    config.root_cert = Some(vec![certificate.to_vec()]);
    config.tls_server_name = Some("metrics".to_owned());
    http::get(config, "/metrics").await
}

/// The status code of the answer to a scrape with that token.
async fn scrape(address: &str, token: Option<&str>) -> Option<u16> {
    let mut config = http::config("https", address);
    config.accept_invalid_certs = true; // it is self-signed
    config.auth_info.token = token.map(Into::into);
    http::get(config, "/metrics").await
}

/// Creates the service account `scraper`, which has no permissions. Returns a token of it.
async fn create_scraper(client: &Client, namespace: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = ServiceAccount {
        metadata: ObjectMeta {
            name: Some("scraper".to_owned()),
            ..ObjectMeta::default()
        },
        ..ServiceAccount::default()
    };
    let params = PostParams::default();
    let created = accounts.create(&params, &account).await;
    created.expect("a service account should be created");
    let request = TokenRequest::default();
    let answer = accounts
        .create_token_request("scraper", &params, &request)
        .await;
    let status = answer.expect("a service account should get a token").status;
    let token = status.and_then(|status| status.token);
    token.expect("the answer should have a token")
}

/// The permission of a namespace's service account `scraper` to read metrics.
struct Permission {
    name: String,
    roles: Api<ClusterRole>,
    bindings: Api<ClusterRoleBinding>,
}

impl Permission {
    async fn grant(client: &Client, namespace: &str) -> Self {
        let permission = Self {
            name: format!("{namespace}-metrics"),
            roles: Api::all(client.clone()),
            bindings: Api::all(client.clone()),
        };
        let metadata = ObjectMeta {
            name: Some(permission.name.clone()),
            ..ObjectMeta::default()
        };
        let role = ClusterRole {
            metadata: metadata.clone(),
            rules: Some(vec![PolicyRule {
                non_resource_urls: Some(vec!["/metrics".to_owned()]),
                verbs: vec!["get".to_owned()],
                ..PolicyRule::default()
            }]),
            ..ClusterRole::default()
        };
        let binding = ClusterRoleBinding {
            metadata,
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "ClusterRole".to_owned(),
                name: permission.name.clone(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: "scraper".to_owned(),
                namespace: Some(namespace.to_owned()),
                ..Subject::default()
            }]),
        };
        let params = PostParams::default();
        let created = permission.roles.create(&params, &role).await;
        created.expect("a role should be created");
        let created = permission.bindings.create(&params, &binding).await;
        created.expect("a binding should be created");
        permission
    }

    /// Deletes what is not in the namespace of the test.
    async fn revoke(self) {
        let params = DeleteParams::default();
        let deleted = self.bindings.delete(&self.name, &params).await;
        deleted.expect("the binding should be deleted");
        let deleted = self.roles.delete(&self.name, &params).await;
        deleted.expect("the role should be deleted");
    }
}
