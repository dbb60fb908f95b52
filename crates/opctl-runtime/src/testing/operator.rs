//! The operator in a namespace of its own, with the permissions that it is deployed with.

use std::future::pending;
use std::path::PathBuf;

use axum::http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Config, ResourceExt};

use super::service_account::{self, KubeconfigFile};
use super::{FaultProxy, client, eventually, free_address, install_crds};
use crate::client::connect;
use crate::{Identity, Manager, Options};

/// The operator's controllers at work in a namespace of their own, as the service account
/// `controller-manager` with what config/rbac binds to it and nothing else. So a test fails when a rule
/// is missing. As it is deployed, it reconciles while it holds a lease, and serves metrics.
/// It runs until the test ends.
///
/// # Example
/// ```no_run
/// use std::process::Command;
///
/// use opctl_runtime::testing::{Operator, Process};
/// use opctl_runtime::{Identity, Manager};
///
/// # const IDENTITY: Identity = Identity::new("test", "1.0.0");
/// # fn start_controllers(_: &Manager, _registry_url: &str) {}
/// # async fn test() {
/// // What the operator's own flags set, the closure captures.
/// let flags = ["--max-concurrent-reconciles=1"];
/// let start = |manager: &Manager| start_controllers(manager, "http://localhost:5000");
/// let operator = Operator::with_flags(IDENTITY, &flags, start).await;
///
/// // Its binary, as the same service account:
/// let mut command = Command::new("target/debug/manager");
/// command.env("KUBECONFIG", &operator.kubeconfig);
/// let manager = Process::start(command.args(["--namespaces", &operator.namespace]));
/// # }
/// ```
#[non_exhaustive]
pub struct Operator {
    /// The client of the test, which may do everything.
    pub client: Client,
    /// The namespace, which has nothing else in it.
    pub namespace: String,
    /// A kubeconfig of the service account. The file goes with the `Operator`.
    pub kubeconfig: PathBuf,
    /// What runs the controllers.
    pub manager: Manager,
    _kubeconfig: KubeconfigFile,
}

impl Operator {
    /// Installs the CRDs of config/crd/bases and, for external types, of tests/crds; creates a namespace
    /// and a service account in it; and calls `start`, which starts the controllers. They watch that
    /// namespace alone.
    ///
    /// # Panics
    /// `OPCTL_CLUSTER` is not set; a manifest is invalid.
    pub async fn start(identity: Identity, start: impl FnOnce(&Manager)) -> Self {
        Self::with_flags(identity, &[], start).await
    }

    /// As [`Operator::start`], with flags of [`Options`].
    ///
    /// # Panics
    /// `OPCTL_CLUSTER` is not set; a manifest or a flag is invalid.
    pub async fn with_flags(
        identity: Identity,
        flags: &[&str],
        start: impl FnOnce(&Manager),
    ) -> Self {
        let site = Site::new().await;
        let config = site.kubeconfig.config().await;
        site.run(identity, flags, config, start).await
    }

    /// As [`Operator::with_flags`], with a proxy between the operator and the API server. The client of
    /// the test does not go through it.
    ///
    /// # Example
    /// ```no_run
    /// use opctl_runtime::testing::{Fault, Operator, Rule};
    /// use opctl_runtime::{Identity, Manager};
    ///
    /// # const IDENTITY: Identity = Identity::new("test", "1.0.0");
    /// # fn start_controllers(_: &Manager) {}
    /// # async fn test() {
    /// let (operator, proxy) =
    ///     Operator::through_proxy(IDENTITY, &[], |manager, _| start_controllers(manager)).await;
    /// let outage = proxy.inject(Rule::new(Fault::Disconnect));
    /// // Change something, and see that it is not reconciled.
    /// drop(outage);
    /// // See that it is reconciled now.
    /// # }
    /// ```
    ///
    /// # Panics
    /// `OPCTL_CLUSTER` is not set; a manifest or a flag is invalid.
    pub async fn through_proxy(
        identity: Identity,
        flags: &[&str],
        start: impl FnOnce(&Manager, &FaultProxy),
    ) -> (Self, FaultProxy) {
        let site = Site::new().await;
        let proxy = FaultProxy::start(site.kubeconfig.config().await);
        let start = |manager: &Manager| start(manager, &proxy);
        let operator = site.run(identity, flags, proxy.config(), start).await;
        (operator, proxy)
    }
}

/// Where an operator runs.
struct Site {
    admin: Client,
    namespace: String,
    kubeconfig: KubeconfigFile,
}

impl Site {
    async fn new() -> Self {
        let admin = client().await;
        install_crds(&admin, "config/crd/bases").await;
        install_crds(&admin, "tests/crds").await;
        let namespace = create_namespace(&admin).await;
        let kubeconfig = service_account::create(&admin, &namespace).await;
        Self {
            admin,
            namespace,
            kubeconfig,
        }
    }

    async fn run(
        self,
        identity: Identity,
        flags: &[&str],
        config: Config,
        start: impl FnOnce(&Manager),
    ) -> Operator {
        let metrics = free_address();
        let options = options(&self.namespace, &metrics, flags);
        let manager =
            Manager::for_config(identity, config, options).expect("the kubeconfig should be valid");
        start(&manager);
        let control = manager.control().expect("a thread should start");
        // Like the controllers, it goes with the runtime of the test.
        tokio::spawn(async move {
            let _control = control;
            pending::<()>().await;
        });
        scrape(&metrics, self.kubeconfig.config().await).await;
        Operator {
            client: self.admin,
            namespace: self.namespace,
            kubeconfig: self.kubeconfig.path().to_owned(),
            manager,
            _kubeconfig: self.kubeconfig,
        }
    }
}

/// The flags as config/manager has them, and those of the test. Probes are left out: a test that
/// needs them runs the binary.
fn options(namespace: &str, metrics: &str, flags: &[&str]) -> Options {
    let defaults = [
        ("--namespaces", namespace),
        ("--leader-elect", "true"),
        ("--leader-elect-namespace", namespace),
        ("--leader-elect-retry-period", "500ms"),
        ("--metrics-bind-address", metrics),
        ("--health-probe-bind-address", "0"),
    ];
    let is_given = |name: &str| {
        let mut names = flags.iter().filter_map(|flag| flag.split('=').next());
        names.any(|flag| flag == name)
    };
    let defaults = defaults
        .iter()
        .filter(|(name, _)| !is_given(name))
        .map(|(name, value)| format!("{name}={value}"));
    let flags = defaults.chain(flags.iter().map(ToString::to_string));
    Options::from_flags(flags).unwrap_or_else(|error| panic!("{error}"))
}

/// Asks for the metrics as the service account, so that the operator needs its permissions to
/// authorize clients. Whether it answers is what counts.
async fn scrape(address: &str, config: Config) {
    let url = format!("https://{address}");
    let mut scraper = Config::new(url.parse().expect("the URL should be valid"));
    scraper.accept_invalid_certs = true; // it is self-signed
    scraper.auth_info = config.auth_info;
    let client = connect(scraper).expect("a client needs no more than a URL");
    eventually("an answer to a scrape", async || {
        let request = Request::get("/metrics").body(Vec::new().into());
        let request = request.expect("the request should be valid");
        client.send(request).await.ok()
    })
    .await;
}

async fn create_namespace(client: &Client) -> String {
    let namespace = Namespace {
        metadata: ObjectMeta {
            generate_name: Some("test-".to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces = Api::<Namespace>::all(client.clone());
    let created = namespaces.create(&PostParams::default(), &namespace).await;
    created
        .expect("the API server should create a namespace")
        .name_any()
}
