//! The webhooks in a ClusterServiceVersion. OLM creates their configurations and certificates.

use serde_json::{Map, Value, json};

use super::object::Object;
use crate::error::UserError;

/// The API group of the configurations of admission webhooks.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// The fields of a webhook that OLM takes over as they are.
const KEPT: [&str; 8] = [
    "admissionReviewVersions",
    "failurePolicy",
    "matchPolicy",
    "objectSelector",
    "reinvocationPolicy",
    "rules",
    "sideEffects",
    "timeoutSeconds",
];
/// Those that OLM sets itself.
const OWN: [&str; 2] = ["name", "clientConfig"];

/// The webhooks of an operator.
#[derive(Debug, Default)]
pub struct Webhooks {
    /// `webhookdefinitions` of the ClusterServiceVersion.
    pub definitions: Vec<Value>,
    /// What OLM does not do as the manifests say.
    pub warnings: Vec<String>,
}

/// The deployments and services that serve webhooks.
pub struct Servers<'a> {
    /// The deployments.
    pub deployments: &'a [Object],
    /// The services.
    pub services: Vec<&'a Object>,
}

impl Servers<'_> {
    /// The webhooks of these configurations and CRDs.
    ///
    /// # Errors
    /// If no deployment serves a webhook.
    pub fn webhooks(
        &self,
        configurations: &[Object],
        crds: &[&Object],
    ) -> Result<Webhooks, UserError> {
        let mut webhooks = Webhooks::default();
        for configuration in configurations {
            let kind = match configuration.kind() {
                "MutatingWebhookConfiguration" => "MutatingAdmissionWebhook",
                _ => "ValidatingAdmissionWebhook",
            };
            for webhook in configuration.items("/webhooks") {
                let name = webhook["name"].as_str().unwrap_or_default();
                let mut definition = self.server(&webhook["clientConfig"], name)?;
                definition.insert("type".to_owned(), kind.into());
                definition.insert("generateName".to_owned(), name.into());
                for (field, value) in webhook.as_object().into_iter().flatten() {
                    if KEPT.contains(&field.as_str()) {
                        definition.insert(field.clone(), value.clone());
                    } else if !OWN.contains(&field.as_str()) {
                        let warning = format!("webhook {name}: OLM creates it without {field}");
                        webhooks.warnings.push(warning);
                    }
                }
                webhooks.definitions.push(definition.into());
            }
        }
        for crd in crds.iter().filter(|crd| crd.text("/spec/conversion/strategy") == "Webhook") {
            let webhook = &crd.value()["spec"]["conversion"]["webhook"];
            let plural = crd.text("/spec/names/plural");
            let name = format!("c{plural}.kb.io");
            let mut definition = self.server(&webhook["clientConfig"], &name)?;
            let fields = [
                ("type", json!("ConversionWebhook")),
                ("generateName", json!(name)),
                ("conversionCRDs", json!([crd.name()])),
                ("sideEffects", json!("None")),
                ("admissionReviewVersions", webhook["conversionReviewVersions"].clone()),
            ];
            definition.extend(fields.map(|(field, value)| (field.to_owned(), value)));
            webhooks.definitions.push(definition.into());
        }
        Ok(webhooks)
    }

    /// What serves a webhook.
    fn server(&self, client: &Value, webhook: &str) -> Result<Map<String, Value>, UserError> {
        let error = |problem: String| {
            UserError::failure(format!("webhook {webhook}: {problem}"))
                .with_hint("a bundle may only have webhooks of its own deployments: leave it out")
        };
        let reference = &client["service"];
        let Some(name) = reference["name"].as_str() else {
            return Err(error("it is reached by a URL, not by a Service".to_owned()));
        };
        let service = self.services.iter().find(|service| service.name() == name);
        let service = service
            .ok_or_else(|| error(format!("its Service {name} is not among the manifests")))?;
        let deployment = self.deployments.iter().find(|deployment| selects(service, deployment));
        let deployment =
            deployment.ok_or_else(|| error(format!("the Service {name} selects no Deployment")))?;
        let port = reference["port"].as_u64().unwrap_or(443);
        let entry = service.items("/spec/ports").iter().find(|entry| entry["port"] == port);
        let target = entry.and_then(|entry| entry.get("targetPort")).cloned();
        let fields = [
            ("containerPort", json!(port)),
            ("deploymentName", json!(deployment.name())),
            ("targetPort", target.unwrap_or_else(|| json!(port))),
            ("webhookPath", reference.get("path").cloned().unwrap_or_else(|| json!("/"))),
        ];
        Ok(fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect())
    }
}

/// Whether a service selects the pods of a deployment.
fn selects(service: &Object, deployment: &Object) -> bool {
    let selector = service.value().pointer("/spec/selector").and_then(Value::as_object);
    let labels = deployment.value().pointer("/spec/template/metadata/labels");
    match (selector, labels) {
        (Some(selector), Some(labels)) if !selector.is_empty() => {
            selector.iter().all(|(name, value)| labels.get(name) == Some(value))
        }
        _ => false,
    }
}
