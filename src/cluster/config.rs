//! The configuration of kwokctl and of the API server.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::binaries::{Binaries, Tool};
use super::build;
use crate::error::UserError;

/// The range of the ports. It is below those of outgoing connections, which therefore cannot take a port
/// between its choice and the start.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The port of each component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    etcd: u16,
    etcd_peer: u16,
    apiserver: u16,
    controller_manager: u16,
    scheduler: u16,
    kwok: u16,
}

impl Ports {
    /// Six free ports. kwokctl would always choose the same ones, and report a port that is taken only in a
    /// log.
    ///
    /// # Errors
    /// A [`UserError`] if there are fewer than six.
    pub fn free() -> Result<Self> {
        let count = PORTS.end - PORTS.start;
        let random = RandomState::new().hash_one(std::process::id());
        let first = u16::try_from(random % u64::from(count)).unwrap_or_default();
        let candidates = (0..count).map(|i| PORTS.start + (first + i) % count);
        // The listeners are kept open until all six ports are found.
        let free: Vec<(u16, TcpListener)> = candidates
            .filter_map(|port| Some((port, TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?)))
            .take(6)
            .collect();
        let ports: Vec<u16> = free.iter().map(|(port, _)| *port).collect();
        let [etcd, etcd_peer, apiserver, controller_manager, scheduler, kwok] = ports[..] else {
            return Err(
                UserError::failure("fewer than six free ports between 20000 and 32000").into()
            );
        };
        Ok(Self { etcd, etcd_peer, apiserver, controller_manager, scheduler, kwok })
    }
}

/// The URL of the API server.
pub fn server(ports: &Ports) -> String {
    format!("https://127.0.0.1:{}", ports.apiserver)
}

/// The configuration file of kwokctl, which downloads missing programs.
///
/// # Errors
/// If there is no home directory, or if a path is not UTF-8.
pub fn kwokctl(binaries: &Binaries, ports: &Ports, audit_policy: &Path) -> Result<String> {
    let mut options = json!({
        "runtime": "binary",
        // By default all components listen on all interfaces, etcd even without authentication.
        "bindAddress": "127.0.0.1",
        "kubeVersion": build::kubernetes_version(),
        "cacheDir": build::downloads()?,
        "kubeAuditPolicy": audit_policy,
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
    let common = [("leader-elect", "false"), ("kube-api-qps", "1000"), ("kube-api-burst", "2000")];
    let volumes = [("enable-hostpath-provisioner", "true")];
    let config = json!({
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": options,
        "componentsPatches": [
            patch("etcd", &[("unsafe-no-fsync", "true")]),
            patch("kube-controller-manager", &[&common[..], &volumes].concat()),
            patch("kube-scheduler", &common),
        ],
    });
    Ok(serde_yaml::to_string(&config)?)
}

fn patch(component: &str, args: &[(&str, &str)]) -> Value {
    let args: Vec<Value> =
        args.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    json!({"name": component, "extraArgs": args})
}

/// One line for each request with its user, which is enough to analyse the requests of an operator.
pub const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

/// The default StorageClass, whose provisioner is in the controller manager.
pub fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/host-path",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_distinct() {
        let ports = Ports::free().unwrap();
        let mut all = vec![
            ports.etcd,
            ports.etcd_peer,
            ports.apiserver,
            ports.controller_manager,
            ports.scheduler,
            ports.kwok,
        ];
        assert!(all.iter().all(|port| PORTS.contains(port)));
        all.dedup();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn configuration_contains_the_ports_and_only_the_programs_that_were_found() {
        let directory = tempfile::tempdir().unwrap();
        let etcd = directory.path().join("etcd");
        std::fs::write(&etcd, "#!/bin/sh\necho etcd Version: 3.6.16\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&etcd, executable).unwrap();
        let binaries = Binaries::search(&[directory.path().to_owned()]);
        let ports = Ports::free().unwrap();

        let text = kwokctl(&binaries, &ports, Path::new("/audit.yaml")).unwrap();

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
