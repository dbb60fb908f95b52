//! The current context of the user's kubeconfig, found and merged as kubectl does. It is only read.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;

use crate::error::UserError;

/// The namespace of a context that names none.
pub(super) const DEFAULT_NAMESPACE: &str = "default";

/// The current context of a kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentContext {
    /// The name of the context.
    pub name: String,
    /// The URL of the API server.
    pub server: String,
    /// The namespace, `default` if the context has none.
    pub namespace: String,
}

impl CurrentContext {
    /// Reads the current context from a file, or from those of `KUBECONFIG`, by default `~/.kube/config`.
    /// `None` if no file sets it.
    ///
    /// # Errors
    /// A [`UserError`] if a file cannot be read or is not a kubeconfig, and if no file defines the
    /// context or its cluster.
    pub fn read(file: Option<&Path>) -> Result<Option<Self>> {
        let paths = match file {
            Some(file) => vec![file.to_owned()],
            None => paths(|name| env::var_os(name)),
        };
        let mut kubeconfigs = Vec::new();
        for path in paths {
            match fs::read_to_string(&path) {
                Ok(text) => kubeconfigs.push((Kubeconfig::parse(&path, &text)?, path)),
                // kubectl skips files that do not exist, too.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(unreadable(&path, error).into()),
            }
        }
        Ok(merge(&kubeconfigs)?)
    }
}

/// The files of a kubeconfig; the earlier ones have precedence.
fn paths(var: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |name: &str| var(name).filter(|value| !value.is_empty());
    match (set("KUBECONFIG"), set("HOME")) {
        (Some(list), _) => {
            env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect()
        }
        (None, Some(home)) => vec![Path::new(&home).join(".kube/config")],
        (None, None) => Vec::new(),
    }
}

/// The fields of a kubeconfig that say where a context leads.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig {
    current_context: Option<String>,
    contexts: Option<Vec<NamedContext>>,
    clusters: Option<Vec<NamedCluster>>,
}

#[derive(Debug, Deserialize)]
struct NamedContext {
    name: String,
    context: Option<Context>,
}

#[derive(Debug, Deserialize)]
struct Context {
    cluster: Option<String>,
    namespace: Option<String>,
}

#[derive(Debug, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Option<Server>,
}

#[derive(Debug, Deserialize)]
struct Server {
    server: Option<String>,
}

impl Kubeconfig {
    fn parse(path: &Path, text: &str) -> Result<Self, UserError> {
        // An empty file is an empty document, which is null.
        let kubeconfig: Option<Self> =
            serde_yaml::from_str(text).map_err(|error| unreadable(path, error))?;
        Ok(kubeconfig.unwrap_or_default())
    }

    fn context(&self, name: &str) -> Option<&Context> {
        let mut contexts = self.contexts.iter().flatten();
        contexts.find(|context| context.name == name)?.context.as_ref()
    }

    fn cluster(&self, name: &str) -> Option<&Server> {
        let mut clusters = self.clusters.iter().flatten();
        clusters.find(|cluster| cluster.name == name)?.cluster.as_ref()
    }
}

/// The current context of several files: of each value, the first file that sets it wins.
fn merge(kubeconfigs: &[(Kubeconfig, PathBuf)]) -> Result<Option<CurrentContext>, UserError> {
    let current = kubeconfigs
        .iter()
        .find_map(|(kubeconfig, path)| Some((set(kubeconfig.current_context.as_ref())?, path)));
    let Some((name, path)) = current else { return Ok(None) };
    let invalid = |reason: String| {
        UserError::failure(format!(
            "invalid current-context '{name}' in kubeconfig `{}`: {reason}",
            path.display()
        ))
        .with_hint("select a context with `kubectl config use-context NAME`")
    };
    let all = || kubeconfigs.iter().map(|(kubeconfig, _)| kubeconfig);
    let context = all()
        .find_map(|kubeconfig| kubeconfig.context(name))
        .ok_or_else(|| invalid("the context is not defined".to_owned()))?;
    let cluster = set(context.cluster.as_ref())
        .ok_or_else(|| invalid("the context has no cluster".to_owned()))?;
    let server = all()
        .find_map(|kubeconfig| kubeconfig.cluster(cluster))
        .ok_or_else(|| invalid(format!("the cluster '{cluster}' is not defined")))?;
    let server = set(server.server.as_ref())
        .ok_or_else(|| invalid(format!("the cluster '{cluster}' has no server")))?;
    let namespace = set(context.namespace.as_ref()).unwrap_or(DEFAULT_NAMESPACE);
    Ok(Some(CurrentContext {
        name: name.to_owned(),
        server: server.to_owned(),
        namespace: namespace.to_owned(),
    }))
}

/// A value, unless it is empty: `kubectl config unset` leaves empty values.
fn set(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|value| !value.is_empty())
}

fn unreadable(path: &Path, reason: impl std::fmt::Display) -> UserError {
    UserError::failure(format!("cannot read kubeconfig `{}`: {reason}", path.display()))
        .with_hint("correct the file, or set KUBECONFIG to another one")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "
current-context: dev
contexts:
- {name: dev, context: {cluster: c1, user: me, namespace: team}}
clusters:
- {name: c1, cluster: {server: 'https://dev.example.com', certificate-authority-data: AA==}}
users: [{name: me, user: {token: t}}]
";

    fn current(texts: &[&str]) -> Result<Option<CurrentContext>, UserError> {
        let mut kubeconfigs = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let path = PathBuf::from(format!("/config-{number}"));
            kubeconfigs.push((Kubeconfig::parse(&path, text)?, path));
        }
        merge(&kubeconfigs)
    }

    fn message(texts: &[&str]) -> String {
        current(texts).unwrap_err().to_string()
    }

    #[test]
    fn the_current_context_has_a_server_and_a_namespace() {
        let dev = CurrentContext {
            name: "dev".to_owned(),
            server: "https://dev.example.com".to_owned(),
            namespace: "team".to_owned(),
        };
        assert_eq!(current(&[DEV]).unwrap(), Some(dev));
        let without_namespace = DEV.replace(", namespace: team", "");
        assert_eq!(current(&[&without_namespace]).unwrap().unwrap().namespace, "default");
    }

    #[test]
    fn files_without_a_current_context_have_none() {
        for text in ["", "{}", "apiVersion: v1\nkind: Config", "current-context: ''"] {
            assert_eq!(current(&[text]).unwrap(), None, "{text}");
        }
        assert_eq!(current(&["contexts: null\nclusters:\nusers: []"]).unwrap(), None);
        assert_eq!(current(&[]).unwrap(), None);
    }

    #[test]
    fn the_first_file_that_sets_a_value_wins() {
        let prod = DEV.replace("dev", "prod").replace("c1", "c2");
        let name = |texts: &[&str]| current(texts).unwrap().unwrap().name;
        assert_eq!(name(&[DEV, &prod]), "dev");
        assert_eq!(name(&[&prod, DEV]), "prod");
        assert_eq!(name(&["current-context: prod", DEV, &prod]), "prod");

        let other = DEV.replace("https://dev", "https://other");
        assert_eq!(current(&[DEV, &other]).unwrap().unwrap().server, "https://dev.example.com");
    }

    #[test]
    fn a_context_that_leads_nowhere_is_an_error() {
        assert_eq!(
            message(&["{}", "current-context: gone"]),
            "invalid current-context 'gone' in kubeconfig `/config-1`: the context is not defined"
        );
        let no_cluster = message(&[&DEV.replace("- {name: c1", "- {name: c2")]);
        assert!(no_cluster.ends_with("the cluster 'c1' is not defined"), "{no_cluster}");
        let no_server = message(&[&DEV.replace("https://dev.example.com", "")]);
        assert!(no_server.ends_with("the cluster 'c1' has no server"), "{no_server}");
        let empty = message(&[&DEV.replace("cluster: c1, ", "")]);
        assert!(empty.ends_with("the context has no cluster"), "{empty}");
    }

    #[test]
    fn a_file_that_is_not_a_kubeconfig_is_an_error() {
        for text in ["current-context: [", "current-context: {a: b}", "contexts: all", "text"] {
            let message = message(&[text]);
            assert!(message.starts_with("cannot read kubeconfig `/config-0`: "), "{message}");
        }
    }

    #[test]
    fn the_variable_lists_files_and_the_home_has_the_default() {
        let found = |vars: &[(&str, &str)]| {
            paths(|name| vars.iter().find(|var| var.0 == name).map(|var| OsString::from(var.1)))
        };
        let both = [("KUBECONFIG", "/a::/b"), ("HOME", "/home")];
        assert_eq!(found(&both), ["/a", "/b"].map(PathBuf::from));
        let empty = [("KUBECONFIG", ""), ("HOME", "/home")];
        assert_eq!(found(&empty), [PathBuf::from("/home/.kube/config")]);
        assert_eq!(found(&[]), Vec::<PathBuf>::new());
    }
}
