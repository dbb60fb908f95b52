//! The configuration of kwokctl and of the API server.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::binaries::{Binaries, Tool};
use super::{Cluster, build};
use crate::error::UserError;

/// The range of the ports. It is below the NodePorts of a cluster that may also run on this machine, and
/// below the usual ports of outgoing connections.
const PORTS: RangeInclusive<u16> = 20_000..=29_999;

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
        // The listeners are kept open until all six ports are found.
        let free: Vec<(u16, TcpListener)> = candidates(outgoing_ports())
            .filter_map(|port| Some((port, listen(port)?)))
            .take(6)
            .collect();
        let ports: Vec<u16> = free.iter().map(|(port, _)| *port).collect();
        let [etcd, etcd_peer, apiserver, controller_manager, scheduler, kwok] = ports[..] else {
            let (first, last) = (PORTS.start(), PORTS.end());
            let message = format!("fewer than six free ports between {first} and {last}");
            return Err(UserError::failure(message).into());
        };
        Ok(Self { etcd, etcd_peer, apiserver, controller_manager, scheduler, kwok })
    }
}

/// All ports from a random one on. Those of outgoing connections come last, because such a connection can
/// take a port between its choice and the start.
fn candidates(outgoing: Option<RangeInclusive<u16>>) -> impl Iterator<Item = u16> {
    let random = RandomState::new().hash_one(std::process::id());
    let mut ports: Vec<u16> = PORTS.collect();
    let first = usize::try_from(random % ports.len() as u64).unwrap_or_default();
    ports.rotate_left(first);
    ports.sort_by_key(|port| outgoing.as_ref().is_some_and(|range| range.contains(port)));
    ports.into_iter()
}

/// The ports of outgoing connections. On macOS their range is above [`PORTS`].
fn outgoing_ports() -> Option<RangeInclusive<u16>> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = range.split_whitespace().map(str::parse);
    Some(ends.next()?.ok()?..=ends.next()?.ok()?)
}

/// Listens on a port if it is free. On macOS it is possible to listen on a port on which another process
/// listens for all addresses, but then a connection succeeds.
fn listen(port: u16) -> Option<TcpListener> {
    let address = (Ipv4Addr::LOCALHOST, port);
    TcpStream::connect(address).is_err().then(|| TcpListener::bind(address).ok())?
}

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
    fn the_ports_of_outgoing_connections_are_the_last_choice() {
        let ports: Vec<u16> = candidates(Some(1024..=25_000)).collect();
        assert_eq!(ports.len(), PORTS.count());
        assert!(ports[..4_999].iter().all(|port| *port > 25_000));
        assert!(ports[4_999..].iter().all(|port| *port <= 25_000));
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_not_free() {
        for address in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST] {
            let other = TcpListener::bind((address, 0)).unwrap();
            assert!(listen(other.local_addr().unwrap().port()).is_none(), "{address}");
        }
    }

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
