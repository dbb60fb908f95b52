//! What the tests of an operator need.
//!
//! - [`Operator`] runs its controllers on a real API server, in a namespace of their own, with the
//!   permissions of config/rbac and no others. [`eventually`] waits for what they do, and [`crash_pods`]
//!   lets pods fail.
//! - [`Process`] runs its binary, and [`e2e()`] runs it as config/default deploys it.
//! - [`FaultProxy`] is between one of these and the API server: it delays, loses and refuses.
//! - [`recording_client`] is for unit tests without an API server.
//!
//! It is no feature, with which everything would be compiled a second time for tests. What an operator does not call
//! is no part of its binary.
//!
//! `cargo test` runs tests in the root directory of the package; paths such as config/rbac are relative
//! to it.
//!
//! # Example
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::Api;
//! use kube::api::PostParams;
//! use opctl_runtime::testing::{Operator, eventually};
//! use opctl_runtime::{Identity, Manager};
//!
//! # fn start_controllers(_: &Manager) {}
//! #[tokio::test]
//! async fn settings_get_a_default() {
//!     let identity = Identity::new("settings-operator", "1.0.0");
//!     let operator = Operator::start(identity, start_controllers).await;
//!     let settings: Api<ConfigMap> = Api::namespaced(operator.client.clone(), &operator.namespace);
//!     let mut empty = ConfigMap::default();
//!     empty.metadata.name = Some("settings".to_owned());
//!     let created = settings.create(&PostParams::default(), &empty).await;
//!     created.expect("the API server should take the settings");
//!
//!     eventually("a default", async || settings.get("settings").await.ok()?.data).await;
//! }
//! ```

mod e2e;
mod manifest;
mod operator;
mod process;
mod proxy;
mod recording;
mod request;
mod service_account;

use std::env;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::{Api, Client, Config, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{sleep, timeout};

pub use e2e::e2e;
pub use operator::Operator;
pub use process::Process;
pub use proxy::{Fault, FaultProxy, Injection, Rule};
pub use recording::{Requests, recording_client, recording_client_with};
pub use request::Request;

/// How long a test waits for anything: also a slow machine with many tests at once gets there.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The delay between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How many CRDs are installed at a time.
const CONCURRENT_INSTALLS: usize = 8;

/// The field manager of what tests apply.
const FIELD_MANAGER: &str = "test";

/// Calls `check` until it returns something.
///
/// # Example
/// ```
/// use opctl_runtime::testing::eventually;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut looks = 0;
/// let third = async || {
///     looks += 1;
///     (looks == 3).then_some("found")
/// };
/// assert_eq!(eventually("third look", third).await, "found");
/// # }
/// ```
///
/// # Panics
/// There is nothing within two minutes. `what` is in the message.
pub async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = check().await {
                break found;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(TIMEOUT, found)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within {TIMEOUT:?}"))
}

/// A client that may do everything, on the cluster that `opctl cluster run` starts for the tests.
///
/// # Panics
/// `OPCTL_CLUSTER` is not set: the current cluster may be in use.
pub async fn client() -> Client {
    assert!(
        env::var_os("OPCTL_CLUSTER").is_some(),
        "these tests need a cluster of their own: run them with `make test`"
    );
    let config = Config::infer().await;
    let config = config.expect("KUBECONFIG should name the kubeconfig of the cluster");
    crate::client::connect(config).expect("the kubeconfig of the cluster should be valid")
}

/// Installs the CRDs in a directory and waits until the API server serves them. A directory that does
/// not exist has none.
///
/// # Panics
/// A file is not a CRD, or the API server refuses it.
pub async fn install_crds(client: &Client, directory: impl AsRef<Path>) {
    let crds = manifest::read::<CustomResourceDefinition>(directory.as_ref());
    let installs = crds.into_iter().map(|crd| install_crd(client, crd));
    stream::iter(installs)
        .buffer_unordered(CONCURRENT_INSTALLS)
        .collect::<()>()
        .await;
}

async fn install_crd(client: &Client, crd: CustomResourceDefinition) {
    let crds = Api::all(client.clone());
    let (name, params) = (crd.name_any(), PatchParams::apply(FIELD_MANAGER).force());
    let applied = crds.patch(&name, &params, &Patch::Apply(&crd)).await;
    let applied = applied.unwrap_or_else(|error| panic!("the CRD {name} should be valid: {error}"));
    if conditions::is_crd_established().matches_object(Some(&applied)) {
        return;
    }
    let established = await_condition(crds, &name, conditions::is_crd_established());
    timeout(TIMEOUT, established)
        .await
        .unwrap_or_else(|_| panic!("the CRD {name} should be established within {TIMEOUT:?}"))
        .expect("the API server should let the test watch CRDs");
}

/// Lets the pods of a label selector crash again and again, as the nodes that `opctl cluster` simulates play
/// it for the label `opctl/pods=crash`.
///
/// # Example
/// ```no_run
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube::Api;
/// # use opctl_runtime::testing::{Operator, crash_pods};
/// # async fn test(operator: Operator) {
/// let pods: Api<Pod> = Api::namespaced(operator.client, &operator.namespace);
/// crash_pods(&pods, "app.kubernetes.io/instance=sample").await;
/// # }
/// ```
///
/// # Panics
/// There is no such pod.
pub async fn crash_pods(pods: &Api<Pod>, selector: &str) {
    let selected = ListParams::default().labels(selector);
    let selected = pods.list_metadata(&selected).await.expect("pods");
    assert!(!selected.items.is_empty(), "no pod has {selector}");
    let crash = Patch::Merge(json!({ "metadata": { "labels": { "opctl/pods": "crash" } } }));
    let params = PatchParams::default();
    for pod in selected {
        let labeled = pods.patch_metadata(&pod.name_any(), &params, &crash).await;
        labeled.expect("labeled");
    }
}

/// The object of a manifest in YAML.
///
/// # Example
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use opctl_runtime::testing::from_manifest;
///
/// let settings: ConfigMap = from_manifest("metadata: { name: settings }");
/// assert_eq!(settings.metadata.name.as_deref(), Some("settings"));
/// ```
///
/// # Panics
/// It is not a manifest of a `K`.
pub fn from_manifest<K: DeserializeOwned>(manifest: &str) -> K {
    serde_saphyr::from_str(manifest)
        .unwrap_or_else(|error| panic!("the manifest should be valid: {error}"))
}

/// An address of this machine at which nothing listens, such as `127.0.0.1:40000`.
///
/// # Panics
/// There is none.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port should be free");
    let address = listener.local_addr();
    address
        .expect("a listener should have an address")
        .to_string()
}
