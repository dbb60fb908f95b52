//! The configuration of kwokctl and of the API server.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::binaries::{Binaries, Tool};
use super::ports::Ports;
use super::{Cluster, build};

/// The URL of the API server.
pub fn server(ports: &Ports) -> String {
    format!("https://127.0.0.1:{}", ports.apiserver)
}

/// The configuration file of kwokctl, which downloads missing programs.
///
/// # Errors
/// If there is no home directory, or if a path is not UTF-8.
pub fn kwokctl(cluster: &Cluster, binaries: &Binaries, ports: &Ports) -> Result<String> {
    let mut options = json!({
        "runtime": "binary",
        // By default all components listen on all interfaces.
        "bindAddress": "127.0.0.1",
        "kubeVersion": build::kubernetes_version(),
        "cacheDir": build::downloads()?,
        "kubeAuditPolicy": cluster.audit_policy(),
        "etcdPort": ports.etcd,
        "etcdPeerPort": ports.etcd_peer,
        "kubeApiserverPort": ports.apiserver,
        "kubeControllerManagerPort": ports.controller_manager,
        "kubeSchedulerPort": ports.scheduler,
        "kwokControllerPort": ports.kwok,
    });
    let keys = [
        ("etcdBinary", Tool::Etcd),
        ("kubeApiserverBinary", Tool::ApiServer),
        ("kubeControllerManagerBinary", Tool::ControllerManager),
        ("kubeSchedulerBinary", Tool::Scheduler),
        ("kwokControllerBinary", Tool::Kwok),
    ];
    for (key, tool) in keys {
        if let Some(path) = binaries.get(tool) {
            options[key] = json!(path);
        }
    }
    // Without leader election, a restarted component works at once. With the default rate limits, 1,000 pods
    // take 46 seconds.
    let client = [("leader-elect", "false"), ("kube-api-qps", "1000"), ("kube-api-burst", "2000")];
    let client = client.map(|(key, value)| argument(key, value));
    let volumes = cluster.volume_stages();
    let config = json!({
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": options,
        "componentsPatches": [
            {"name": "etcd", "extraArgs": etcd(cluster, ports)?},
            {"name": "kube-apiserver", "extraArgs": client_of_etcd(cluster, ports)?},
            {"name": "kube-controller-manager", "extraArgs": client},
            {"name": "kube-scheduler", "extraArgs": client},
            {"name": "kwok-controller", "extraArgs": [argument("config", utf8(&volumes)?)]},
        ],
    });
    Ok(serde_yaml::to_string(&config)?)
}

/// The arguments with which etcd serves only the holders of a certificate of the cluster. By default any
/// user of the machine could read and write the cluster, past the API server.
fn etcd(cluster: &Cluster, ports: &Ports) -> Result<Vec<Value>> {
    let client = format!("https://127.0.0.1:{}", ports.etcd);
    let peer = format!("https://127.0.0.1:{}", ports.etcd_peer);
    let (ca, certificate, key) = cluster.certificates();
    let (ca, certificate, key) = (utf8(&ca)?, utf8(&certificate)?, utf8(&key)?);
    Ok(vec![
        argument("unsafe-no-fsync", "true"),
        replacement("listen-client-urls", &client),
        replacement("advertise-client-urls", &client),
        replacement("listen-peer-urls", &peer),
        replacement("initial-advertise-peer-urls", &peer),
        replacement("initial-cluster", &format!("node0={peer}")),
        argument("client-cert-auth", "true"),
        argument("trusted-ca-file", ca),
        argument("cert-file", certificate),
        argument("key-file", key),
        argument("peer-client-cert-auth", "true"),
        argument("peer-trusted-ca-file", ca),
        argument("peer-cert-file", certificate),
        argument("peer-key-file", key),
    ])
}

/// The arguments with which the API server connects to [`etcd`].
fn client_of_etcd(cluster: &Cluster, ports: &Ports) -> Result<Vec<Value>> {
    let (ca, certificate, key) = cluster.certificates();
    Ok(vec![
        replacement("etcd-servers", &format!("https://127.0.0.1:{}", ports.etcd)),
        argument("etcd-cafile", utf8(&ca)?),
        argument("etcd-certfile", utf8(&certificate)?),
        argument("etcd-keyfile", utf8(&key)?),
    ])
}

/// An argument in addition to those of kwokctl, which accepts only strings as values.
fn argument(key: &str, value: &str) -> Value {
    json!({"key": key, "value": value})
}

/// An argument that replaces one of kwokctl.
fn replacement(key: &str, value: &str) -> Value {
    json!({"key": key, "value": value, "override": true})
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str().context("the path of the state directory is not UTF-8")
}

/// One line for each request with its user, which is enough to analyse the requests of an operator.
pub const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn configuration_contains_the_ports_and_only_the_programs_that_were_found() {
        let directory = tempfile::tempdir().unwrap();
        let etcd = directory.path().join("etcd");
        fs::write(&etcd, "").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&etcd, executable).unwrap();
        let binaries = Binaries::search(&[directory.path().to_owned()], directory.path());
        let ports = Ports::free().unwrap();

        let text = kwokctl(&Cluster::named("test").unwrap(), &binaries, &ports).unwrap();

        let config: Value = serde_yaml::from_str(&text).unwrap();
        let options = &config["options"];
        assert_eq!(options["bindAddress"], "127.0.0.1");
        assert_eq!(options["kubeApiserverPort"], ports.apiserver);
        assert_eq!(options["etcdBinary"], json!(etcd));
        assert_eq!(options.get("kubeApiserverBinary"), None);
        // kwokctl accepts only strings as arguments.
        assert_eq!(config["componentsPatches"][0]["extraArgs"][0]["value"], json!("true"));
    }
}
