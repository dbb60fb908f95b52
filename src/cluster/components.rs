//! The processes of a cluster: their programs, arguments and configuration.

use std::env;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::binaries::{Binaries, Tool};
use super::ports::Ports;
use super::{Cluster, directories};

/// The processes of a running cluster, in the order in which they are started.
pub const COMPONENTS: [Tool; 5] =
    [Tool::Etcd, Tool::ApiServer, Tool::ControllerManager, Tool::Scheduler, Tool::Kwok];

/// The components on which all others depend. The others wait for them, and are restarted if they do not
/// wait long enough.
pub const CRITICAL_COMPONENTS: [Tool; 2] = [Tool::Etcd, Tool::ApiServer];

/// One line for each request with its user, which is enough to analyse the requests of an operator.
pub const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

/// The URL of the API server.
pub fn server(ports: &Ports) -> String {
    format!("https://127.0.0.1:{}", ports.apiserver)
}

/// The kubeconfig of the user and of the components.
pub fn kubeconfig(cluster: &Cluster, ports: &Ports) -> Value {
    let certificates = cluster.certificates();
    let name = format!("opctl-{}", cluster.name());
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{
            "name": name,
            "cluster": {"server": server(ports), "certificate-authority": certificates.ca},
        }],
        "users": [{
            "name": name,
            "user": {
                "client-certificate": certificates.certificate,
                "client-key": certificates.key,
            },
        }],
    })
}

/// Links to the programs, by which the processes of the cluster are identified. Those of running processes
/// stay as they are.
///
/// # Errors
/// If a program is missing or a link cannot be replaced.
pub fn link(cluster: &Cluster, binaries: &Binaries, components: &[Tool]) -> Result<()> {
    directories::create(&cluster.bin())?;
    for component in components {
        let link = cluster.link(*component);
        let program = binaries.get(*component);
        let program = program.with_context(|| format!("{} is missing", component.file()))?;
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        symlink(program, &link).with_context(|| format!("cannot link `{}`", link.display()))?;
    }
    Ok(())
}

/// Starts a component, which outlives opctl. It adds to its log.
///
/// # Errors
/// If the program cannot be started.
pub fn spawn(cluster: &Cluster, ports: &Ports, component: Tool) -> Result<Child> {
    let path = cluster.log(component.file());
    let log = OpenOptions::new().create(true).append(true).open(&path);
    let log = log.with_context(|| format!("cannot open `{}`", path.display()))?;
    let mut command = Command::new(cluster.link(component));
    command.args(arguments(cluster, ports, component)?);
    // Variables of kwok and etcd have the effect of arguments.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("KWOK_") || name.starts_with("ETCD_") {
            command.env_remove(&*name);
        }
    }
    command.env_remove("KUBECONFIG");
    // Signals of the terminal are for opctl and the command of the user.
    command.process_group(0).current_dir(&cluster.directory);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot start `{}`", component.file()))
}

fn arguments(cluster: &Cluster, ports: &Ports, component: Tool) -> Result<Vec<String>> {
    let arguments = match component {
        Tool::Etcd => etcd(cluster, ports)?,
        Tool::ApiServer => api_server(cluster, ports)?,
        Tool::ControllerManager => controller_manager(cluster, ports)?,
        Tool::Scheduler => client(cluster, ports.scheduler)?,
        _ => kwok(cluster, ports)?,
    };
    Ok(arguments.into_iter().map(|(name, value)| format!("--{name}={value}")).collect())
}

type Arguments = Vec<(&'static str, String)>;

/// etcd serves only the holders of a certificate of the cluster. By default any user of the machine could
/// read and write the cluster, past the API server.
fn etcd(cluster: &Cluster, ports: &Ports) -> Result<Arguments> {
    let client = format!("https://127.0.0.1:{}", ports.etcd);
    let peer = format!("https://127.0.0.1:{}", ports.etcd_peer);
    let certificates = cluster.certificates();
    let (ca, certificate) = (utf8(&certificates.ca)?, utf8(&certificates.certificate)?);
    let key = utf8(&certificates.key)?;
    Ok(vec![
        ("name", "node0".to_owned()),
        ("data-dir", utf8(&cluster.data())?),
        // The data survive the end of the process, but not that of the machine, unless it was stopped.
        ("unsafe-no-fsync", "true".to_owned()),
        // The only member waits for so long before it leads.
        ("heartbeat-interval", "20".to_owned()),
        ("election-timeout", "100".to_owned()),
        ("auto-compaction-retention", "1".to_owned()),
        ("quota-backend-bytes", (8_u64 << 30).to_string()),
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("initial-cluster", format!("node0={peer}")),
        ("client-cert-auth", "true".to_owned()),
        ("trusted-ca-file", ca.clone()),
        ("cert-file", certificate.clone()),
        ("key-file", key.clone()),
        ("peer-client-cert-auth", "true".to_owned()),
        ("peer-trusted-ca-file", ca),
        ("peer-cert-file", certificate),
        ("peer-key-file", key),
    ])
}

fn api_server(cluster: &Cluster, ports: &Ports) -> Result<Arguments> {
    let certificates = cluster.certificates();
    let (ca, certificate) = (utf8(&certificates.ca)?, utf8(&certificates.certificate)?);
    let key = utf8(&certificates.key)?;
    Ok(vec![
        ("etcd-servers", format!("https://127.0.0.1:{}", ports.etcd)),
        ("etcd-cafile", ca.clone()),
        ("etcd-certfile", certificate.clone()),
        ("etcd-keyfile", key.clone()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("secure-port", ports.apiserver.to_string()),
        ("tls-cert-file", certificate.clone()),
        ("tls-private-key-file", key.clone()),
        ("client-ca-file", ca),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("allow-privileged", "true".to_owned()),
        ("service-account-issuer", "https://kubernetes.default.svc.cluster.local".to_owned()),
        ("service-account-key-file", certificate.clone()),
        ("service-account-signing-key-file", key.clone()),
        ("proxy-client-cert-file", certificate),
        ("proxy-client-key-file", key),
        ("audit-policy-file", utf8(&cluster.audit_policy())?),
        ("audit-log-path", utf8(&cluster.log("audit"))?),
    ])
}

/// Simulated nodes do not fail. After an outage of the API server, or a sleep of the machine, they would be
/// taken for lost, and their pods for unready.
fn controller_manager(cluster: &Cluster, ports: &Ports) -> Result<Arguments> {
    let certificates = cluster.certificates();
    let mut arguments = client(cluster, ports.controller_manager)?;
    arguments.extend([
        ("root-ca-file", utf8(&certificates.ca)?),
        ("service-account-private-key-file", utf8(&certificates.key)?),
        ("node-monitor-grace-period", "24h".to_owned()),
    ]);
    Ok(arguments)
}

/// The arguments of the controller manager and the scheduler. Without leader election, a restarted component
/// works at once. With the default rate limits, 1,000 pods take 46 seconds.
fn client(cluster: &Cluster, port: u16) -> Result<Arguments> {
    Ok(vec![
        ("kubeconfig", utf8(&cluster.own_kubeconfig())?),
        ("bind-address", "127.0.0.1".to_owned()),
        ("secure-port", port.to_string()),
        ("leader-elect", "false".to_owned()),
        ("kube-api-qps", "1000".to_owned()),
        ("kube-api-burst", "2000".to_owned()),
    ])
}

/// Nodes have no leases: expired ones would delay new pods after a restart.
fn kwok(cluster: &Cluster, ports: &Ports) -> Result<Arguments> {
    let certificates = cluster.certificates();
    Ok(vec![
        ("kubeconfig", utf8(&cluster.own_kubeconfig())?),
        ("config", utf8(&cluster.stages())?),
        ("manage-all-nodes", "true".to_owned()),
        ("node-lease-duration-seconds", "0".to_owned()),
        ("node-name", "localhost".to_owned()),
        ("node-port", ports.kwok.to_string()),
        ("server-address", format!("127.0.0.1:{}", ports.kwok)),
        ("tls-cert-file", utf8(&certificates.certificate)?),
        ("tls-private-key-file", utf8(&certificates.key)?),
    ])
}

fn utf8(path: &Path) -> Result<String> {
    let text = path.to_str().context("the path of the state directory is not UTF-8")?;
    Ok(text.to_owned())
}
