//! `opctl run` and `opctl cleanup`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{ArgAction, Args, Subcommand, ValueEnum};

use crate::package::image::Transport;
use crate::package::olm::cluster::{
    BundleSource, Cleanup, CleanupRequest, Deadline, InstallMode, Kubectl, Operator,
    RegistrySettings, RunBundle, RunRequest,
};
use crate::ui::Ui;

/// Run an operator in a cluster with the Operator Lifecycle Manager
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  opctl run bundle bundle\n  \
                  opctl run bundle-upgrade example.com/memcached-operator-bundle:v0.2.0")]
pub(super) enum RunCommand {
    Bundle(Box<BundleArgs>),
    BundleUpgrade(UpgradeArgs),
}

/// Install a bundle
///
/// The bundle is a directory, or an image. opctl serves it from a registry in the namespace, and OLM v0 installs it
/// from there. A directory is served with its manifests, so that it needs no image; it may have 1 MB. OLM pulls an
/// image itself.
///
/// The kubeconfig is that of kubectl, and it is only read. Nothing that exists is changed: what is created is listed,
/// and `opctl cleanup` deletes it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opctl run bundle bundle\n  \
                  opctl run bundle example.com/memcached-operator-bundle:v0.1.0 --namespace operators\n  \
                  opctl run bundle bundle --install-mode OwnNamespace --timeout 5m")]
pub(super) struct BundleArgs {
    /// Directory or image of the bundle
    #[arg(value_name = "BUNDLE")]
    bundle: String,
    /// Namespaces that the operator watches: AllNamespaces, OwnNamespace, SingleNamespace=NAMESPACE or
    /// MultiNamespace=NAMESPACE,... [default: the first two, as the operator supports them]
    #[arg(long, value_name = "MODE")]
    install_mode: Option<InstallMode>,
    /// Image with opm, which serves the bundle. Packages of a catalog that it has in /configs are served too
    #[arg(long, value_name = "IMAGE", default_value = "quay.io/operator-framework/opm:latest")]
    index_image: String,
    /// Service account of the registry [default: that of the namespace]
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// When the image of the registry is pulled
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = PullPolicy::Always)]
    image_pull_policy: PullPolicy,
    /// Pod Security Standard of the registry
    #[arg(long, value_name = "STANDARD", value_enum, default_value_t = SecurityContext::Legacy)]
    security_context_config: SecurityContext,
    #[command(flatten)]
    image: ImageArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    ignored: Ignored,
}

/// Upgrade an operator to another bundle
///
/// The operator is one that `opctl run bundle` has installed. The bundle is added to its catalog as the upgrade of the
/// last one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opctl run bundle-upgrade bundle\n  \
                  opctl run bundle-upgrade example.com/memcached-operator-bundle:v0.2.0")]
pub(super) struct UpgradeArgs {
    /// Directory or image of the bundle
    #[arg(value_name = "BUNDLE")]
    bundle: String,
    #[command(flatten)]
    image: ImageArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    ignored: Ignored,
}

/// Delete an operator that `opctl run bundle` has installed
///
/// Deletes, in this order: its Subscription, its CRDs, its ClusterServiceVersion and with it its Deployments and roles,
/// its CatalogSource, the registry, and the OperatorGroup that opctl has created if no other operator needs it.
///
/// CRDs are deleted with all objects of their kinds. If there are any, the command stops before it deletes anything:
/// `--delete-all=false` keeps CRDs and objects, and `--delete-custom-resources` deletes both.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opctl cleanup memcached-operator\n  \
                  opctl cleanup memcached-operator --delete-all=false --namespace operators\n  \
                  opctl cleanup memcached-operator --delete-custom-resources")]
pub(super) struct CleanupArgs {
    /// Name of the package
    #[arg(value_name = "PACKAGE")]
    package: String,
    /// Delete everything; `--delete-all=false` keeps CRDs and the OperatorGroup
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    delete_all: bool,
    /// Delete the CRDs, also with `--delete-all=false`
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set, hide_default_value = true)]
    delete_crds: bool,
    /// Delete the OperatorGroup, also with `--delete-all=false`
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set, hide_default_value = true)]
    delete_operator_groups: bool,
    /// Delete CRDs that have objects, and all these objects
    #[arg(long)]
    delete_custom_resources: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// How the image of a bundle is pulled.
#[derive(Debug, Args)]
struct ImageArgs {
    /// Secret of the namespace with which OLM pulls the image of the bundle
    #[arg(long, value_name = "NAME")]
    pull_secret_name: Option<String>,
    /// Accept any certificate of the registry of the bundle
    #[arg(long)]
    skip_tls_verify: bool,
    /// Pull the image of the bundle without encryption
    #[arg(long, visible_alias = "skip-tls")]
    use_http: bool,
}

/// The cluster, and how long to wait for it.
#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    /// Namespace of the operator [default: that of the current context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// The kubeconfig, and how long to wait for its cluster.
#[derive(Debug, Args)]
pub(super) struct ConnectionArgs {
    /// File of the cluster [default: as kubectl]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Time for the whole command
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = humantime::parse_duration)]
    pub(super) timeout: Duration,
}

/// Flags of operator-sdk for registries of another kind, so that scripts may name them.
#[derive(Debug, Args)]
struct Ignored {
    #[arg(long, hide = true)]
    ca_secret_name: Option<String>,
    #[arg(long, hide = true)]
    decompression_image: Option<String>,
}

/// When a node pulls an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum PullPolicy {
    /// Each time
    Always,
    /// If the node does not have it
    IfNotPresent,
    /// Never
    Never,
}

/// What the registry may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SecurityContext {
    /// What the namespace permits
    Legacy,
    /// As little as the standard `restricted` demands
    Restricted,
}

impl RunCommand {
    pub fn run(self, ui: Ui) -> Result<()> {
        match self {
            Self::Bundle(args) => args.run(ui),
            Self::BundleUpgrade(args) => args.run(ui),
        }
    }
}

impl BundleArgs {
    fn run(self, ui: Ui) -> Result<()> {
        let bundle = self.image.read(&self.bundle, ui)?;
        let request = RunRequest {
            install_mode: self.install_mode,
            settings: RegistrySettings {
                index_image: self.index_image,
                service_account: self.service_account,
                pull_policy: format!("{:?}", self.image_pull_policy),
                is_restricted: self.security_context_config == SecurityContext::Restricted,
            },
            pull_secrets: self.image.pull_secret_name.into_iter().collect(),
        };
        let (kubectl, deadline) = self.cluster.connect(ui)?;
        Operator { kubectl: &kubectl, deadline, ui }.install(&bundle, &request)
    }
}

impl UpgradeArgs {
    fn run(self, ui: Ui) -> Result<()> {
        let bundle = self.image.read(&self.bundle, ui)?;
        let secrets: Vec<String> = self.image.pull_secret_name.into_iter().collect();
        let (kubectl, deadline) = self.cluster.connect(ui)?;
        Operator { kubectl: &kubectl, deadline, ui }.upgrade(&bundle, &secrets)
    }
}

impl CleanupArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        let request = CleanupRequest {
            package: self.package,
            crds: self.delete_all || self.delete_crds,
            custom_resources: self.delete_custom_resources,
            operator_groups: self.delete_all || self.delete_operator_groups,
        };
        let (kubectl, deadline) = self.cluster.connect(ui)?;
        let found = Cleanup { kubectl: &kubectl, deadline, ui }.run(&request)?;
        if !found {
            let (package, namespace) = (&request.package, &kubectl.namespace);
            ui.warning(format!("there is nothing of the package {package} in {namespace}"));
        }
        Ok(())
    }
}

impl ImageArgs {
    fn read(&self, name: &str, ui: Ui) -> Result<RunBundle> {
        let transport =
            Transport { is_http: self.use_http, skips_verification: self.skip_tls_verify };
        let source = BundleSource::of(name);
        let bundle = RunBundle::read(source, transport)?;
        ui.status("Read", format!("{} from the {}", bundle.name(), bundle.source));
        Ok(bundle)
    }
}

impl ClusterArgs {
    fn connect(self, ui: Ui) -> Result<(Kubectl, Deadline)> {
        self.connection.connect(self.namespace, ui)
    }
}

impl ConnectionArgs {
    pub(super) fn connect(self, namespace: Option<String>, ui: Ui) -> Result<(Kubectl, Deadline)> {
        let kubectl = Kubectl::connect(self.kubeconfig, namespace)?;
        let (context, namespace) = (&kubectl.context, &kubectl.namespace);
        ui.note(format!(
            "cluster: context {} at {}, namespace {namespace}",
            context.name, context.server
        ));
        Ok((kubectl, Deadline::after(self.timeout, ui)))
    }
}
