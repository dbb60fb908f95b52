//! The operator as it is deployed.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::EnvVar;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{ApiResource, DeleteParams, DynamicObject};
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::service_account::{self, KubeconfigFile};
use super::{Process, client, eventually, free_address, install_crds, manifest};
use crate::Identity;

/// Runs the operator as it is deployed, with config/default, its service account and its flags: it
/// becomes the leader, reconciles config/samples, finalizes them when they are deleted, and stops on
/// SIGTERM. `manager` is the path of its binary, `rules` are those of its controllers.
///
/// The namespace is `<name of the operator>-system`, into which config/default is deployed before.
///
/// # Example
/// ```no_run
/// # macro_rules! manager { () => { "target/debug/manager" } }
/// # mod controller { pub fn rules() -> Vec<k8s_openapi::api::rbac::v1::PolicyRule> { vec![] } }
/// use opctl_runtime::Identity;
/// use opctl_runtime::testing::e2e;
///
/// #[tokio::test]
/// #[ignore = "it needs a deployed operator: `make test-e2e`"]
/// async fn the_operator_reconciles_the_samples_as_it_is_deployed() {
///     let identity = Identity::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
///     // In a project it is `env!("CARGO_BIN_EXE_manager")`.
///     e2e(identity, manager!(), &controller::rules()).await;
/// }
/// ```
///
/// # Panics
/// `OPCTL_CLUSTER` is not set, or the operator does not do one of these.
pub async fn e2e(identity: Identity, manager: impl AsRef<Path>, rules: &[PolicyRule]) {
    let client = client().await;
    install_crds(&client, "tests/crds").await;
    let name = identity.name();
    let namespace = format!("{name}-system");
    let (mut manager, _kubeconfig) = start(
        manager.as_ref(),
        &client,
        &namespace,
        &format!("{name}-controller-manager"),
    )
    .await;

    let leases: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    eventually("a leader", async || {
        leases.get(name).await.ok()?.spec?.holder_identity
    })
    .await;

    let mut samples = Vec::new();
    for manifest in manifest::read::<Value>(Path::new("config/samples")) {
        if manifest["metadata"].is_object() {
            samples.push(Sample::apply(&client, &namespace, manifest).await);
        }
    }
    for sample in &samples {
        if sample.is_reconciled(rules) {
            sample.wait_for_status().await;
        }
    }
    for sample in &samples {
        sample.delete().await;
    }
    assert!(
        manager.stop().await.success(),
        "SIGTERM should end the operator without an error"
    );
}

/// Starts what the container of the Deployment would run: on a local control plane no container runs.
async fn start(
    binary: &Path,
    client: &Client,
    namespace: &str,
    deployment: &str,
) -> (Process, KubeconfigFile) {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let pod = eventually("an available Deployment", async || {
        let deployment = deployments.get(deployment).await.ok()?;
        let available = deployment.status?.available_replicas?;
        (available > 0).then_some(deployment.spec?.template.spec?)
    })
    .await;
    let account = pod.service_account_name.as_deref();
    let account = account.expect("the Deployment should have a service account");
    let kubeconfig = service_account::kubeconfig(client, namespace, account).await;

    let mut command = Command::new(binary);
    command.env("KUBECONFIG", kubeconfig.path());
    let container = pod.containers.first();
    let container = container.expect("the Deployment should have a container");
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(variable, namespace) {
            command.env(&variable.name, value);
        }
    }
    for arg in container.args.iter().flatten() {
        // A pod has its ports for itself, the processes of this machine share them.
        command.arg(match arg.split_once("-address=") {
            Some((flag, _)) => format!("{flag}-address={}", free_address()),
            None => arg.clone(),
        });
    }
    (Process::start(&mut command), kubeconfig)
}

/// The value of the variable in a pod.
fn value<'a>(variable: &'a EnvVar, namespace: &'a str) -> Option<&'a str> {
    let source = variable.value_from.as_ref();
    let field = source.and_then(|source| source.field_ref.as_ref());
    match field.map(|field| field.field_path.as_str()) {
        Some("metadata.name") => Some("e2e"),
        Some("metadata.namespace") => Some(namespace),
        _ => variable.value.as_deref(),
    }
}

/// One object of config/samples.
struct Sample {
    resource: ApiResource,
    objects: Api<DynamicObject>,
    name: String,
}

impl Sample {
    async fn apply(client: &Client, namespace: &str, manifest: Value) -> Self {
        let object: DynamicObject =
            serde_json::from_value(manifest).expect("a sample should be an object");
        let types = object.types.as_ref();
        let types = types.expect("a sample should have an apiVersion and a kind");
        let gvk = types
            .try_into()
            .expect("a sample should have a valid apiVersion");
        let (resource, capabilities) = eventually("the kind of a sample", async || {
            pinned_kind(client, &gvk).await.ok()
        })
        .await;
        let objects = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        let name = object.name_any();
        manifest::apply(&objects, object).await;
        Self {
            resource,
            objects,
            name,
        }
    }

    /// Whether a controller writes the status of the kind.
    fn is_reconciled(&self, rules: &[PolicyRule]) -> bool {
        let status = format!("{}/status", self.resource.plural);
        let has =
            |list: &Option<Vec<String>>, item: &String| list.iter().flatten().any(|it| it == item);
        rules.iter().any(|rule| {
            has(&rule.api_groups, &self.resource.group) && has(&rule.resources, &status)
        })
    }

    async fn wait_for_status(&self) {
        eventually("a status of the newest generation", async || {
            let object = self.objects.get(&self.name).await.ok()?;
            let observed = object.data["status"]["observedGeneration"].as_i64()?;
            (Some(observed) == object.metadata.generation).then_some(())
        })
        .await;
    }

    async fn delete(&self) {
        match self
            .objects
            .delete(&self.name, &DeleteParams::default())
            .await
        {
            // Samples of two versions are one object.
            Err(kube::Error::Api(answer)) if answer.is_not_found() => return,
            deleted => deleted.expect("the API server should delete a sample"),
        };
        eventually("the end of a sample", async || {
            let left = self.objects.get_opt(&self.name).await.ok()?;
            left.is_none().then_some(())
        })
        .await;
    }
}
