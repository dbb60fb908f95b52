//! The cluster of the user's kubeconfig, by kubectl, which knows every way to authenticate. The kubeconfig is only
//! read.

use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cluster::CurrentContext;
use crate::error::UserError;
use crate::package::olm::Object;

/// The longest duration of a request.
const REQUEST_TIMEOUT: &str = "--request-timeout=30s";

/// A cluster, and the namespace of a command.
#[derive(Debug)]
pub struct Kubectl {
    kubeconfig: Option<PathBuf>,
    /// Where the current context leads.
    pub context: CurrentContext,
    /// The namespace of objects that have one.
    pub namespace: String,
}

impl Kubectl {
    /// The cluster of the current context, in `kubeconfig` or where kubectl finds it. Without a namespace, it is that
    /// of the context.
    ///
    /// # Errors
    /// A [`UserError`] if there is no current context.
    pub fn connect(kubeconfig: Option<PathBuf>, namespace: Option<String>) -> Result<Self> {
        let Some(context) = CurrentContext::read(kubeconfig.as_deref())? else {
            return Err(UserError::failure("the kubeconfig has no current context")
                .with_hint("select one with `kubectl config use-context NAME`, or name a file with `--kubeconfig`")
                .into());
        };
        let namespace = namespace.unwrap_or_else(|| context.namespace.clone());
        Ok(Self { kubeconfig, context, namespace })
    }

    /// The same cluster with another namespace.
    #[must_use]
    pub fn with_namespace(&self, namespace: &str) -> Self {
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        Self { kubeconfig, context, namespace: namespace.to_owned() }
    }

    /// An object, if it exists. `resource` is a plural name with its version and group.
    ///
    /// # Errors
    /// If the API server refuses the request.
    pub fn get(&self, resource: &str, name: &str) -> Result<Option<Object>> {
        let text = self.run(&["get", resource, name, "--ignore-not-found", "-o", "json"], None)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        Ok(Some(Object::new(serde_json::from_str(&text).context("the answer of kubectl")?)))
    }

    /// All objects of some resources, separated by commas, in the namespace or, with `--all-namespaces` in `more`, in
    /// all.
    ///
    /// # Errors
    /// If the API server refuses the request.
    pub fn list(&self, resources: &str, more: &[&str]) -> Result<Vec<Object>> {
        let args = [&["get", resources, "-o", "json"], more].concat();
        let text = self.run(&args, None)?;
        let mut list: Value = serde_json::from_str(&text).context("the answer of kubectl")?;
        let items = list.get_mut("items").map(Value::take).unwrap_or_default();
        Ok(items.as_array().cloned().unwrap_or_default().into_iter().map(Object::new).collect())
    }

    /// Creates an object and returns it as the API server stores it.
    ///
    /// # Errors
    /// If it exists, or if the API server refuses it.
    pub fn create(&self, object: &Value) -> Result<Object> {
        let args = ["create", "-f", "-", "-o", "json", "--field-manager=opctl"];
        let text = self.run(&args, Some(object))?;
        Ok(Object::new(serde_json::from_str(&text).context("the answer of kubectl")?))
    }

    /// Creates an object, or makes it what `object` says.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub fn apply(&self, object: &Value) -> Result<()> {
        let server_side = ["--server-side", "--force-conflicts", "--field-manager=opctl"];
        self.run(&[&["apply", "-f", "-"], &server_side[..]].concat(), Some(object))?;
        Ok(())
    }

    /// Merges a patch into an object.
    ///
    /// # Errors
    /// If it does not exist, or if the API server refuses the patch.
    pub fn patch(&self, resource: &str, name: &str, patch: &Value) -> Result<()> {
        let patch = patch.to_string();
        self.run(&["patch", resource, name, "--type=merge", "-p", &patch], None)?;
        Ok(())
    }

    /// Asks for the deletion of an object, which may not exist.
    ///
    /// # Errors
    /// If the API server refuses the request.
    pub fn delete(&self, resource: &str, name: &str) -> Result<()> {
        self.run(&["delete", resource, name, "--ignore-not-found", "--wait=false"], None)?;
        Ok(())
    }

    /// The answer to a request for a path.
    ///
    /// # Errors
    /// If the API server refuses the request.
    pub fn raw(&self, path: &str) -> Result<Value> {
        let text = self.run(&["get", "--raw", path], None)?;
        serde_json::from_str(&text).with_context(|| format!("the answer to {path}"))
    }

    /// stdout of kubectl with these arguments.
    ///
    /// # Errors
    /// A [`UserError`] with what kubectl says.
    pub fn run(&self, args: &[&str], stdin: Option<&Value>) -> Result<String> {
        let output = self.output(args, stdin)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let reason = String::from_utf8_lossy(&output.stderr);
        let reason = reason.trim().trim_start_matches("error: ");
        let action = args.iter().copied().take_while(|arg| !arg.starts_with('-'));
        let action = action.collect::<Vec<_>>().join(" ");
        let server = &self.context.server;
        Err(UserError::failure(format!("`kubectl {action}` failed: {reason}"))
            .with_hint(format!(
                "the cluster is that of the context {} at {server}",
                self.context.name
            ))
            .into())
    }

    fn output(&self, args: &[&str], stdin: Option<&Value>) -> Result<Output> {
        let mut command = Command::new("kubectl");
        if let Some(kubeconfig) = &self.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        // What follows is read from the kubeconfig once, and stays the same if the file changes.
        command.args(["--context", &self.context.name]);
        // kubectl would refuse objects of other namespaces; those on stdin name theirs.
        if stdin.is_none() {
            command.args(["-n", &self.namespace]);
        }
        command.args(args.iter().map(OsStr::new)).arg(REQUEST_TIMEOUT);
        command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = match child {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(UserError::failure("kubectl is not installed")
                    .with_hint("install it: opctl talks to clusters with it")
                    .into());
            }
            child => child.context("cannot run kubectl")?,
        };
        if let (Some(mut pipe), Some(object)) = (child.stdin.take(), stdin) {
            // kubectl may end before it has read everything; then its message says why.
            let _ = pipe.write_all(object.to_string().as_bytes());
        }
        child.wait_with_output().context("cannot run kubectl")
    }
}
