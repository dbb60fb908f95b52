//! A proxy in front of an API server that lets requests fail and watches lag.

mod fault;
mod injection;
mod server;
mod stream;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::{env, process, thread};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::fault::{Fault, Rule};
pub use self::injection::Injection;
use self::injection::Injections;
use super::Request;
use crate::client::connect;

/// A reverse proxy in front of a real API server, which does to requests what networks, overloaded
/// servers and load balancers do: what an operator must survive. It passes everything on as it is,
/// until [`FaultProxy::inject`] says otherwise.
///
/// It speaks plain HTTP on the loopback interface, with a thread of its own, and has the credentials of
/// the configuration that it was started with. [`Operator::through_proxy`](super::Operator::through_proxy)
/// puts one before controllers, and [`FaultProxy::kubeconfig`] before the binary of an operator.
///
/// # Example
/// The answer to a creation is lost; the operator must not create a second object:
/// ```no_run
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::{Api, Config};
/// use opctl_runtime::testing::{Fault, FaultProxy, Rule};
///
/// # async fn test() -> kube::Result<()> {
/// let config = Config::infer().await.expect("a cluster");
/// let proxy = FaultProxy::start(config);
/// let rule = Rule::new(Fault::LoseAnswer).verb("create").resource("configmaps").times(1);
/// let lost = proxy.inject(rule);
///
/// let config_maps: Api<ConfigMap> = Api::default_namespaced(proxy.client());
/// let mut config_map = ConfigMap::default();
/// config_map.metadata.name = Some("settings".to_owned());
/// assert!(config_maps.create(&Default::default(), &config_map).await.is_err());
/// assert_eq!(lost.count(), 1);
/// assert!(config_maps.get("settings").await.is_ok(), "it was created all the same");
/// # Ok(())
/// # }
/// ```
/// Watches lag by up to 30 s, until the end of the scope:
/// ```no_run
/// use std::time::Duration;
///
/// use opctl_runtime::testing::{Fault, FaultProxy, Rule};
///
/// # async fn test(proxy: FaultProxy) {
/// let delays = Duration::ZERO..Duration::from_secs(30);
/// let _lag = proxy.inject(Rule::new(Fault::DelayEvents(delays)));
/// # }
/// ```
///
/// # Caveats
/// It passes on neither upgraded connections (`exec`, `port-forward`) nor the client's own TLS
/// certificate.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    kubeconfig: PathBuf,
    injections: Injections,
    _stop: DropGuard,
}

impl FaultProxy {
    /// A proxy for the API server of `upstream`.
    ///
    /// # Panics
    /// The configuration is invalid, or this machine has no port for it.
    pub fn start(upstream: Config) -> Self {
        Self::with_seed(upstream, 0)
    }

    /// A proxy for the API server of the current context of a kubeconfig, for tests that are not
    /// asynchronous.
    ///
    /// # Example
    /// ```no_run
    /// use std::process::Command;
    ///
    /// use opctl_runtime::testing::{FaultProxy, Process};
    ///
    /// let proxy = FaultProxy::for_kubeconfig("operator.kubeconfig");
    /// let mut command = Command::new("target/debug/manager");
    /// let manager = Process::start(command.env("KUBECONFIG", proxy.kubeconfig()));
    /// ```
    ///
    /// # Panics
    /// The file is not a kubeconfig, or this machine has no port for the proxy.
    pub fn for_kubeconfig(path: impl AsRef<Path>) -> Self {
        let kubeconfig = Kubeconfig::read_from(path).expect("the kubeconfig should be readable");
        // The caller may be in a runtime already, which cannot wait for another one.
        let config = thread::spawn(move || {
            let options = KubeConfigOptions::default();
            runtime().block_on(Config::from_custom_kubeconfig(kubeconfig, &options))
        });
        let config = config.join().expect("a kubeconfig should be read");
        Self::start(config.expect("the kubeconfig should have a current context"))
    }

    /// As [`FaultProxy::start`], where chance has this seed. The decisions come in the same sequence in
    /// each run; which requests meet them depends on the order of those.
    ///
    /// # Panics
    /// The configuration is invalid, or this machine has no port for it.
    pub fn with_seed(mut upstream: Config, seed: u64) -> Self {
        // What the client sees is what the server has said.
        upstream.default_retry = false;
        upstream.read_timeout = None;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port should be free");
        listener
            .set_nonblocking(true)
            .expect("a listener should be ready for tokio");
        let address = listener.local_addr();
        let address = address.expect("a listener should have an address");
        let injections = Injections::new(seed);
        let stop = CancellationToken::new();
        let (runtime, served, stopped) = (runtime(), injections.clone(), stop.clone());
        let client = {
            let _context = runtime.enter();
            Client::try_from(upstream).expect("the configuration should be valid")
        };
        thread::spawn(move || {
            let serve = server::serve(listener, client, served);
            runtime.block_on(stopped.run_until_cancelled(serve));
        });
        Self {
            address,
            kubeconfig: write_kubeconfig(address),
            injections,
            _stop: stop.drop_guard(),
        }
    }

    /// From now on, does this to the requests that the rule selects, and to watches under way, until
    /// the result is dropped. Where several rules select a request, the first decides; to the events of
    /// a watch all of them apply.
    #[must_use = "the fault ends when this is dropped"]
    pub fn inject(&self, rule: Rule) -> Injection {
        self.injections.inject(rule)
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        self.injections.take_requests()
    }

    /// The configuration of a client that goes through the proxy.
    pub fn config(&self) -> Config {
        let url = format!("http://{}", self.address).parse();
        Config::new(url.expect("an address should be part of a URL"))
    }

    /// A client that goes through the proxy.
    pub fn client(&self) -> Client {
        connect(self.config()).expect("a URL should be enough for a client")
    }

    /// A kubeconfig for a process that goes through the proxy. The file goes with the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // The test may have deleted it.
        let _ = fs::remove_file(&self.kubeconfig);
    }
}

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a thread should have a runtime")
}

fn write_kubeconfig(address: SocketAddr) -> PathBuf {
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "proxy", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "proxy", "user": {} }],
        "contexts": [{ "name": "proxy", "context": { "cluster": "proxy", "user": "proxy" } }],
        "current-context": "proxy",
    });
    let name = format!("proxy-{}-{}.kubeconfig", process::id(), address.port());
    let path = env::temp_dir().join(name);
    let written = fs::write(&path, kubeconfig.to_string());
    written.expect("the directory of temporary files should have room");
    path
}

#[cfg(test)]
mod tests;
