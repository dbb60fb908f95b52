// Copyright The my-operator Authors
// SPDX-License-Identifier: Apache-2.0

//! Reconciles Memcached: a Deployment for each, and a status that tells how its pods are.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, PodSpec, PodTemplateSpec, Probe, SecurityContext, TCPSocketAction,
};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ObjectMeta;
use kube::runtime::controller::Action;

use crate::api::cache::v1alpha1;
use crate::manager::Manager;
use crate::manager::cache::Cache;
use crate::manager::conditions::conditions;
use crate::manager::controller::Controller;
use crate::manager::error::{Error, Result};
use crate::manager::field_manager::FieldManager;
use crate::manager::rbac::{rule, subresource_rule};
use crate::manager::rollout::Rollout;
use crate::manager::workload::{self, container_security, pod_security, selector_text};

/// What the Deployment and its pods are labelled as.
const APP: &str = "memcached";

/// The image where the spec names none, unless this variable is set in the manager's environment.
const IMAGE: &str = "memcached:1.6.26-alpine3.19";
const VARIABLE: &str = "RELATED_IMAGE_MEMCACHED";

/// What runs in the container in place of the image's own command.
const COMMAND: [&str; 5] = ["memcached", "--memory-limit=64", "-o", "modern", "-v"];

/// The id of the user that the container runs as.
const USER: i64 = 11211;

/// What the controller may do; `make manifests` makes config/rbac/role.yaml of it.
pub fn rules() -> Vec<PolicyRule> {
    vec![
        rule::<v1alpha1::Memcached>(&["list", "watch"]),
        subresource_rule::<v1alpha1::Memcached>("status", &["patch"]),
        rule::<Deployment>(&["create", "list", "patch", "watch"]),
        rule::<Event>(&["create", "patch"]),
    ]
}

/// What a reconcile works with.
pub struct Context {
    objects: Cache<v1alpha1::Memcached, v1alpha1::Memcached>,
    deployments: Cache<Deployment, v1alpha1::Memcached>,
    field_manager: FieldManager,
    image: String,
}

/// Starts the controller: its caches, and the reconciler that their changes wake.
pub fn start(manager: &Manager) {
    let controller = Controller::new(manager);
    let context = Context {
        objects: controller.objects(),
        deployments: controller.owns(),
        field_manager: manager.field_manager(),
        image: std::env::var(VARIABLE).unwrap_or_else(|_| IMAGE.to_owned()),
    };
    controller.run(context, reconcile);
}

/// Makes the cluster have what the object asks for, and the object tell what the cluster has.
pub async fn reconcile(object: Arc<v1alpha1::Memcached>, ctx: Arc<Context>) -> Result<Action> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change()); // its children go with it, by their owner reference
    }
    let desired = deployment(&object, &ctx.image);
    let applied = ctx
        .field_manager
        .apply(&*object, desired, &ctx.deployments)
        .await;

    let deployment = ctx.deployments.owned_by(&object).into_iter().next();
    let status = status(&object, deployment.as_deref(), applied.as_ref().err());
    let wait = ctx
        .field_manager
        .write_status(&*object, status, &ctx.objects)
        .await?;
    applied?;
    Ok(wait.map_or_else(Action::await_change, Action::requeue))
}

/// The Deployment that runs the containers.
fn deployment(object: &v1alpha1::Memcached, default_image: &str) -> Deployment {
    let labels = workload::labels(APP, "server", object);
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
        // Desired to be empty, so that a variable added by hand is taken out again.
        env: Some(Vec::new()),
        ports: Some(vec![ContainerPort {
            name: Some("main".to_owned()),
            container_port: object.spec.container_port,
            ..ContainerPort::default()
        }]),
        liveness_probe: Some(probe.clone()),
        readiness_probe: Some(probe),
        security_context: Some(SecurityContext {
            run_as_user: Some(USER),
            ..container_security()
        }),
        ..Container::default()
    }
}

/// What is to be told of the object, given what the cluster has of it.
fn status(
    object: &v1alpha1::Memcached,
    deployment: Option<&Deployment>,
    error: Option<&Error>,
) -> v1alpha1::MemcachedStatus {
    let observed = deployment
        .and_then(|deployment| deployment.status.clone())
        .unwrap_or_default();
    let previous = object
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions);
    let findings = Rollout::of(deployment, object.spec.size).findings(error);

    v1alpha1::MemcachedStatus {
        observed_generation: object.metadata.generation,
        replicas: observed.replicas.unwrap_or_default(),
        ready_replicas: observed.ready_replicas.unwrap_or_default(),
        selector: selector_text(&workload::selector(APP, object)),
        conditions: conditions(previous, object.metadata.generation, &findings),
    }
}

#[cfg(test)]
mod tests {
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
    fn the_image_of_the_spec_comes_before_the_default_one() {
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
    fn the_container_has_the_port_asked_for() {
        let container = container(&object(None), IMAGE);
        assert_eq!(container.ports.unwrap()[0].container_port, 1234);
    }

    #[test]
    fn without_a_deployment_it_is_not_available() {
        let status = status(&object(None), None, None);
        assert_eq!(status.conditions[0].type_, "Available");
        assert_eq!(status.conditions[0].status, "False");
    }
}
