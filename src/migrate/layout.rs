//! The `PROJECT` of a Go project.

use serde::Deserialize;
use serde_yaml::{Mapping, Value};

use super::ARGUMENT;
use super::files::Files;
use crate::error::UserError;
use crate::project::{FILE, LAYOUT};
use crate::text::one_line;
use crate::yaml::Limit;

/// The maximum size of the file.
const LIMIT: Limit = Limit { megabytes: 1 };

/// What opctl reads of the file, in the versions 2 and 3.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GoProject {
    version: Value,
    layout: Value,
    plugins: Mapping,
    /// The domain.
    pub domain: Option<String>,
    /// The name; version 2 has none.
    pub project_name: Option<String>,
    /// Whether the operator watches only its own namespace.
    pub namespaced: bool,
    /// The kinds.
    pub resources: Vec<GoResource>,
}

/// A version of a kind.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GoResource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub domain: Option<String>,
    pub core: bool,
    pub external: bool,
    api: Option<Value>,
    controller: bool,
    controllers: Vec<Value>,
    webhooks: Option<Mapping>,
}

impl GoProject {
    /// Reads the file.
    pub fn parse(files: &Files) -> Result<Self, UserError> {
        let Some(text) = files.text(FILE) else {
            return Err(UserError::invalid_value(ARGUMENT, files.shown(), "no PROJECT file")
                .with_hint("name the directory of a project of kubebuilder or operator-sdk"));
        };
        let invalid = |reason: String| files.error(FILE, reason);
        let value = LIMIT.parse(text).map_err(invalid)?;
        let project: Self = serde_yaml::from_value(value)
            .map_err(|error| invalid(one_line(&error.to_string()).into_owned()))?;
        project.check(files)?;
        Ok(project)
    }

    /// Refuses projects that are not of Go.
    fn check(&self, files: &Files) -> Result<(), UserError> {
        let layout = self.layout();
        let has = |prefix: &str| layout.iter().any(|entry| entry.starts_with(prefix));
        let title = one_line(&layout.join(", ")).into_owned();
        let unsupported = |what: &str| {
            files.error(FILE, format!("{what} (layout `{title}`): only Go projects are supported"))
        };
        let with_crds = "create the kinds from their CRDs: `opctl init`, then `opctl create api --crd FILE --own`";
        if has("ansible.") {
            return Err(unsupported("an Ansible operator").with_hint(with_crds));
        }
        if has("helm.") {
            return Err(unsupported("a Helm operator").with_hint(with_crds));
        }
        if layout.iter().any(|entry| entry == LAYOUT) {
            return Err(files
                .error(FILE, "it is a project of opctl already")
                .with_hint("copy the directory instead"));
        }
        let version = match &self.version {
            Value::String(version) => version.clone(),
            Value::Number(version) => version.to_string(),
            _ => String::new(),
        };
        let is_known = version == "2" || version == "3" || version.starts_with("3-");
        if !is_known {
            let shown = one_line(&version);
            return Err(files
                .error(FILE, format!("unsupported version `{shown}`: 2 and 3 are supported"))
                .with_hint("migrate the project to version 3 with kubebuilder first"));
        }
        match layout.is_empty() || has("go.") {
            true => Ok(()),
            false => Err(unsupported("a project of another tool").with_hint(with_crds)),
        }
    }

    /// The plugins that the project was made with.
    pub fn layout(&self) -> Vec<String> {
        match &self.layout {
            Value::Sequence(entries) => {
                entries.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Value::String(entries) => {
                entries.split(',').map(|text| text.trim().to_owned()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether the project uses a plugin, in any version.
    pub fn has_plugin(&self, name: &str) -> bool {
        let is_named =
            |key: &Value| key.as_str().is_some_and(|key| key.split('/').next() == Some(name));
        self.plugins.keys().any(is_named)
    }

    /// Whether the version of `PROJECT` lists controllers and the origin of kinds.
    pub fn is_detailed(&self) -> bool {
        self.version != "2" && self.version != 2
    }

    /// The kinds of the plugin `deploy-image`, with their images.
    pub fn deployed_images(&self) -> Vec<(String, String)> {
        let key = |key: &Value| key.as_str().is_some_and(|key| key.starts_with("deploy-image.go."));
        let plugin = self.plugins.iter().find(|(name, _)| key(name)).map(|(_, value)| value);
        let resources = plugin.and_then(|plugin| plugin.get("resources")?.as_sequence());
        let image = |resource: &Value| {
            let kind = resource.get("kind")?.as_str()?.to_owned();
            Some((kind, resource.get("options")?.get("image")?.as_str()?.to_owned()))
        };
        resources.into_iter().flatten().filter_map(image).collect()
    }

    /// The lines of config/default/kustomization.yaml that are not comments.
    pub fn default_kustomization(&self, files: &Files) -> String {
        let text = files.text("config/default/kustomization.yaml").unwrap_or_default();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl GoResource {
    /// The full name of the API group.
    pub fn api_group(&self, project: &GoProject) -> String {
        if self.core && self.domain.is_none() {
            return self.group.clone();
        }
        let domain = self.domain.as_ref().or(project.domain.as_ref());
        match domain.map(String::as_str) {
            None | Some("") => self.group.clone(),
            Some(domain) if self.group.is_empty() => domain.to_owned(),
            Some(domain) => format!("{}.{domain}", self.group),
        }
    }

    /// Whether the project says that it defines the kind.
    pub fn has_api(&self) -> bool {
        self.api.is_some() && !self.core && !self.external
    }

    /// The number of controllers.
    pub fn controllers(&self) -> usize {
        self.controllers.len().max(usize::from(self.controller))
    }

    /// The webhooks, such as `defaulting`.
    pub fn webhooks(&self) -> Vec<String> {
        let webhooks = self.webhooks.iter().flatten();
        let is_on = |value: &Value| value.as_bool() == Some(true);
        let names =
            webhooks.filter(|(_, value)| is_on(value)).filter_map(|(name, _)| name.as_str());
        names.map(str::to_owned).collect()
    }
}
