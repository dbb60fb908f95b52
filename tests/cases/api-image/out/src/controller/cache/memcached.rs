// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! Reconciles Memcached: a Deployment for each, and a status that follows its pods.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PodSpec, PodTemplateSpec, Probe, SecurityContext, TCPSocketAction,
};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use opctl_runtime::conditions::set_conditions;
use opctl_runtime::rbac::{rule, subresource_rule};
use opctl_runtime::workload::{
    self, PodState, Rollout, active_pods, container_security, has_unavailable_pods, pod_security,
    selector_text,
};
use opctl_runtime::{Applier, Controller, Error, Index, Manager, Result, Store};

use crate::IDENTITY;
use crate::api::cache::v1alpha1;

/// The label `app.kubernetes.io/name` of the Deployment and its pods. Its capitals keep the Services of
/// Helm charts from selecting the pods, and the other way round: a chart has a lower-case name.
const APP: &str = "Memcached";

/// The image where the spec names none, unless this variable is set in the manager's environment.
const IMAGE: &str = "memcached:1.6.26-alpine3.19";
const VARIABLE: &str = "RELATED_IMAGE_MEMCACHED";

/// The command of the container, instead of that of the image.
const COMMAND: [&str; 5] = ["memcached", "--memory-limit=64", "-o", "modern", "-v"];

/// The id of the user that the container runs as.
const USER: i64 = 11211;

/// The permissions of the controller; `make manifests` writes them to config/rbac/role.yaml.
pub fn rules() -> Vec<PolicyRule> {
    vec![
        rule::<v1alpha1::Memcached>(&["list", "watch"]),
        subresource_rule::<v1alpha1::Memcached>("status", &["patch"]),
        rule::<Deployment>(&["create", "list", "patch", "watch"]),
        rule::<PodState>(&["list", "watch"]),
        rule::<Event>(&["create", "patch"]),
    ]
}

/// What a reconcile works with.
struct Context {
    objects: Store<v1alpha1::Memcached>,
    deployments: Store<Deployment>,
    pods: Index<PodState, ObjectRef<v1alpha1::Memcached>>,
    applier: Applier,
    image: String,
}

/// Starts the controller.
pub fn start(manager: &Manager) {
    let controller = Controller::new(manager);
    // Why pods do not become available, a Deployment does not tell.
    let pods = manager
        .watch()
        .config(active_pods(IDENTITY, APP))
        .while_any(&controller.owns(), has_unavailable_pods)
        .start();
    controller.watches_with(&pods, PodState::failure_hash, PodState::failing_owner);
    let context = Context {
        objects: controller.store(),
        deployments: controller.owns(),
        pods: pods.index(PodState::owner),
        // Also of a deleted predecessor whose children were orphaned.
        applier: controller
            .applier()
            .adopting(workload::managed_by(IDENTITY)),
        image: std::env::var(VARIABLE).unwrap_or_else(|_| IMAGE.to_owned()),
    };
    controller.run(reconcile, context);
}

/// Brings the cluster to the state that the object specifies, and its status to that of the cluster.
async fn reconcile(object: Arc<v1alpha1::Memcached>, ctx: Arc<Context>) -> Result<Action> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change()); // its Deployment has an owner reference and goes with it
    }
    let desired = deployment(&object, &ctx.image);
    let applied = ctx.applier.apply(&*object, desired, &ctx.deployments).await;

    let deployment = ctx.deployments.owned_by(&*object, &object.name_any());
    let pods = ctx.pods.get(&ObjectRef::from_obj(&*object));
    let error = applied.as_ref().err();
    let status = status(&object, deployment.as_deref(), &pods, error);
    workload::write_status(&ctx.applier, &*object, status, &ctx.objects, |status| {
        &status.conditions
    })
    .await?;
    applied?;
    Ok(Action::await_change())
}

/// The Deployment that runs the containers.
fn deployment(object: &v1alpha1::Memcached, default_image: &str) -> Deployment {
    let labels = workload::labels(IDENTITY, APP, "server", object);
    let pod = PodSpec {
        automount_service_account_token: Some(false),
        containers: vec![container(object, default_image)],
        enable_service_links: Some(false),
        security_context: Some(pod_security()),
        ..PodSpec::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: object.metadata.name.clone(),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(object.spec.size),
            selector: LabelSelector {
                match_labels: Some(workload::selector(APP, object)),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn container(object: &v1alpha1::Memcached, default_image: &str) -> Container {
    let image = object.spec.image.as_deref().unwrap_or(default_image);
    let probe = Probe {
        tcp_socket: Some(TCPSocketAction {
            port: IntOrString::String("main".to_owned()),
            ..TCPSocketAction::default()
        }),
        ..Probe::default()
    };
    Container {
        name: "main".to_owned(),
        image: Some(image.to_owned()),
        command: Some(COMMAND.map(str::to_owned).to_vec()),
        ports: Some(vec![ContainerPort {
            name: Some("main".to_owned()),
            container_port: object.spec.container_port,
            ..ContainerPort::default()
        }]),
        liveness_probe: Some(probe.clone()),
        readiness_probe: Some(Probe {
            period_seconds: Some(2),
            ..probe
        }),
        security_context: Some(SecurityContext {
            run_as_user: Some(USER),
            ..container_security()
        }),
        ..Container::default()
    }
}

/// The status of the object, given what the cluster has of it.
fn status(
    object: &v1alpha1::Memcached,
    deployment: Option<&Deployment>,
    pods: &[Arc<PodState>],
    error: Option<&Error>,
) -> v1alpha1::MemcachedStatus {
    let observed = deployment
        .and_then(|deployment| deployment.status.clone())
        .unwrap_or_default();
    let previous = object.status.clone().unwrap_or_default().conditions;
    let generation = object.metadata.generation;
    let health = Rollout::of(deployment, object.spec.size)
        .with_pods(pods)
        .health();
    let conditions = health.reconciled(error).conditions();

    v1alpha1::MemcachedStatus {
        observed_generation: generation,
        replicas: observed.replicas.unwrap_or_default(),
        ready_replicas: observed.ready_replicas.unwrap_or_default(),
        selector: selector_text(&workload::selector(APP, object)),
        conditions: set_conditions(&previous, generation, &conditions),
    }
}

#[cfg(test)]
mod tests {
    use opctl_runtime::conditions::is_true;

    use super::*;

    fn object(image: Option<&str>) -> v1alpha1::Memcached {
        let spec = v1alpha1::MemcachedSpec {
            size: 2,
            container_port: 1234,
            image: image.map(str::to_owned),
        };
        v1alpha1::Memcached::new("sample", spec)
    }

    #[test]
    fn the_image_of_the_spec_overrides_the_default() {
        assert_eq!(
            container(&object(None), IMAGE).image.as_deref(),
            Some(IMAGE)
        );
        let other = container(&object(Some("other:1")), IMAGE);
        assert_eq!(other.image.as_deref(), Some("other:1"));
    }

    #[test]
    fn the_container_runs_the_command() {
        let container = container(&object(None), IMAGE);
        assert_eq!(container.command.unwrap(), COMMAND);
    }

    #[test]
    fn the_container_has_the_specified_port() {
        let container = container(&object(None), IMAGE);
        assert_eq!(container.ports.unwrap()[0].container_port, 1234);
    }

    #[test]
    fn without_a_deployment_it_is_not_available() {
        let status = status(&object(None), None, &[], None);
        assert!(!is_true(&status.conditions, "Available"));
    }
}
