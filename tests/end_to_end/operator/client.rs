//! What tests ask of an API server again and again. A request on an open connection costs the machine far less than
//! a process of kubectl.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use axum::http::header::USER_AGENT;
use axum::http::{HeaderValue, Request};
use clap::Parser;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GetParams, ListParams};
use kube::api::{Patch, PatchParams, PostParams, TypeMeta};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{Request as Requests, request};
use kube::discovery::{ApiCapabilities, Discovery, Scope};
use kube::error::DiscoveryError;
use kube::{Config, Error, Resource};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// The user agent, by which an audit log tells the tests from an operator.
pub const AGENT: &str = "opctl-tests";

/// How long an API server may stand still: a load, for instance, is to go on.
const PATIENCE: Duration = Duration::from_secs(15);

/// Objects, in the words of kubectl: `TYPE NAME`, `TYPE/NAME` or `TYPE,TYPE`.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Objects {
    types: String,
    name: Option<String>,
    #[arg(long, short)]
    namespace: Option<String>,
    #[arg(long, short = 'A')]
    all_namespaces: bool,
    #[arg(long, short = 'l')]
    selector: Option<String>,
    #[arg(long)]
    field_selector: Option<String>,
    #[arg(long)]
    subresource: Option<String>,
}

impl Objects {
    fn new(words: &[&str]) -> Self {
        let mut objects = Self::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        if let Some((type_, name)) = objects.types.split_once('/') {
            (objects.types, objects.name) = (type_.to_owned(), Some(name.to_owned()));
        }
        objects
    }
}

/// Runs in the threads that call it, and so in their network.
pub struct Client {
    runtime: Runtime,
    client: kube::Client,
    types: Mutex<HashMap<String, (ApiResource, Scope)>>,
}

impl Client {
    pub fn new(kubeconfig: &Path) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
            let options = KubeConfigOptions::default();
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
            config.connect_timeout = Some(PATIENCE);
            config.read_timeout = Some(PATIENCE);
            config.reset_reader_on_write = true; // else the time since the last request counts, too
            kube::Client::try_from(config).unwrap()
        });
        Self { runtime, client, types: Mutex::default() }
    }

    /// An object or a list; null if it is not there.
    pub fn get(&self, words: &[&str]) -> Result<Value, Error> {
        let objects = Objects::new(words);
        self.runtime.block_on(async {
            if let Some(name) = &objects.name {
                let (requests, _) = self.requests(&objects, &objects.types).await?;
                return match self.send(requests.get(name, &GetParams::default())).await {
                    // Where the type is gone, there is another reason.
                    Err(Error::Api(status)) if status.reason == "NotFound" => Ok(Value::Null),
                    result => result,
                };
            }
            let mut items = Vec::new();
            for type_ in objects.types.split(',') {
                items.append(&mut self.list(&objects, type_).await?);
            }
            Ok(json!({ "apiVersion": "v1", "kind": "List", "items": items }))
        })
    }

    async fn list(&self, objects: &Objects, type_: &str) -> Result<Vec<Value>, Error> {
        let params = ListParams {
            label_selector: objects.selector.clone(),
            field_selector: objects.field_selector.clone(),
            ..ListParams::default()
        };
        let (requests, resource) = self.requests(objects, type_).await?;
        let mut list = self.send(requests.list(&params)).await?;
        let Value::Array(mut items) = list["items"].take() else { return Ok(Vec::new()) };
        // The API server leaves out what is the same for each.
        for item in &mut items {
            item["apiVersion"] = json!(resource.api_version);
            item["kind"] = json!(resource.kind);
        }
        Ok(items)
    }

    /// Creates an object, or those of a list.
    pub fn create(&self, object: &Value) -> Result<(), Error> {
        let objects = object["items"].as_array();
        let objects = objects.map_or(std::slice::from_ref(object), Vec::as_slice);
        self.runtime.block_on(async {
            for object in objects {
                let types = TypeMeta::deserialize(object).map_err(Error::SerdeError)?;
                let type_ = format!("{} {}", types.api_version, types.kind);
                let find = |known: &Discovery| known.resolve_typemeta(&types);
                let type_ = self.type_(&type_, find).await?;
                let namespace = object["metadata"]["namespace"].as_str();
                let requests = self.requests_of(&type_, namespace);
                let mut request =
                    requests.create(&PostParams::default(), object.to_string().into());
                if let Ok(request) = &mut request {
                    let strict = format!("{}fieldValidation=Strict", request.uri());
                    *request.uri_mut() = strict.parse().unwrap();
                }
                self.send(request).await?;
            }
            Ok(())
        })
    }

    /// Changes an object or its subresource.
    pub fn patch(&self, words: &[&str], patch: &Patch<&Value>) -> Result<(), Error> {
        let params = PatchParams::default();
        self.write(words, |requests, name, subresource| match subresource {
            Some(subresource) => requests.patch_subresource(subresource, name, &params, patch),
            None => requests.patch(name, &params, patch),
        })
    }

    pub fn scale(&self, words: &[&str], replicas: usize) -> Result<(), Error> {
        let patch = json!({ "spec": { "replicas": replicas } });
        self.patch(&[words, &["--subresource=scale"]].concat(), &Patch::Merge(&patch))
    }

    /// Asks for the deletion of an object, and waits for nothing.
    pub fn delete(&self, words: &[&str]) -> Result<(), Error> {
        self.write(words, |requests, name, _| requests.delete(name, &DeleteParams::background()))
    }

    fn write(
        &self,
        words: &[&str],
        request: impl FnOnce(Requests, &str, Option<&str>) -> Result<Request<Vec<u8>>, request::Error>,
    ) -> Result<(), Error> {
        let objects = Objects::new(words);
        let name = objects.name.as_deref().expect("a name");
        self.runtime.block_on(async {
            let (requests, _) = self.requests(&objects, &objects.types).await?;
            self.send(request(requests, name, objects.subresource.as_deref())).await.map(drop)
        })
    }

    async fn send(
        &self,
        request: Result<Request<Vec<u8>>, request::Error>,
    ) -> Result<Value, Error> {
        self.client.request(request.map_err(Error::BuildRequest)?).await
    }

    /// The requests for objects of a type.
    async fn requests(
        &self,
        objects: &Objects,
        type_: &str,
    ) -> Result<(Requests, ApiResource), Error> {
        let (resource, mut scope) = self.type_(type_, |known| find(known, type_)).await?;
        if objects.all_namespaces {
            scope = Scope::Cluster;
        }
        let type_ = (resource, scope);
        Ok((self.requests_of(&type_, objects.namespace.as_deref()), type_.0))
    }

    fn requests_of(&self, type_: &(ApiResource, Scope), namespace: Option<&str>) -> Requests {
        let (resource, scope) = type_;
        let namespace = namespace.unwrap_or(self.client.default_namespace());
        let namespace = (*scope == Scope::Namespaced).then_some(namespace);
        Requests::new(DynamicObject::url_path(resource, namespace))
    }

    /// A type by its name. One that is not known yet may be that of a new CRD.
    async fn type_(
        &self,
        name: &str,
        find: impl FnOnce(&Discovery) -> Option<(ApiResource, ApiCapabilities)>,
    ) -> Result<(ApiResource, Scope), Error> {
        if let Some(type_) = self.types.lock().unwrap().get(name) {
            return Ok(type_.clone());
        }
        let discovery = Discovery::new(self.client.clone()).run_aggregated().await?;
        let missing = || Error::Discovery(DiscoveryError::MissingResource(name.to_owned()));
        let (resource, capabilities) = find(&discovery).ok_or_else(missing)?;
        let type_ = (resource, capabilities.scope);
        self.types.lock().unwrap().insert(name.to_owned(), type_.clone());
        Ok(type_)
    }
}

/// The type that kubectl would take the name for.
fn find(discovery: &Discovery, name: &str) -> Option<(ApiResource, ApiCapabilities)> {
    // The group of Pods is the first.
    let groups = discovery.groups_alphabetical().into_iter();
    let mut types = groups.flat_map(|group| group.resources_by_stability());
    types.find(|(ApiResource { group, kind, plural, .. }, _)| {
        let names = [plural.clone(), kind.to_lowercase(), format!("{plural}.{group}")];
        names.iter().any(|known| name.eq_ignore_ascii_case(known))
    })
}
