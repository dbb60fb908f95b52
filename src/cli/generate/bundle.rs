//! `opctl generate bundle`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgAction, Args};

use crate::error::UserError;
use crate::package::olm::{self, Annotations, Bundle, BundleRequest, MARK, Source};
use crate::project::{check_value, names};
use crate::sync::{Action, Output, Workspace};
use crate::ui::Ui;

/// Generate a bundle for the Operator Lifecycle Manager
///
/// The manifests come from stdin if something is piped to it, else `kubectl kustomize` is run. Deployments, the
/// permissions of their service accounts, webhooks and examples become parts of the ClusterServiceVersion, the other
/// objects are kept. What a bundle cannot have is reported. The same manifests are the same bundle.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opctl generate bundle --version 0.1.0\n  \
                  kubectl kustomize config/manifests | opctl generate bundle --version 0.1.0 --channels stable")]
pub(in crate::cli) struct BundleArgs {
    /// Version of the operator [default: that of the ClusterServiceVersion]
    #[arg(short, long)]
    version: Option<String>,
    /// Name of the package [default: the name of the project]
    #[arg(long)]
    package: Option<String>,
    /// Channels of the bundle, separated by commas [default: those of the existing bundle, or `candidate`]
    #[arg(long)]
    channels: Option<String>,
    /// Channel that users get who name none
    #[arg(long, value_name = "CHANNEL")]
    default_channel: Option<String>,
    /// Directory of the bundle, in the project
    #[arg(long, value_name = "DIRECTORY", default_value = "bundle")]
    output_dir: String,
    /// Also replace files that opctl has not written
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    overwrite: bool,
    /// Print the manifests instead of writing them
    #[arg(long, conflicts_with = "output_dir")]
    stdout: bool,
    /// Write only the manifests [default: everything]
    #[arg(long)]
    manifests: bool,
    /// Write only the metadata and the Dockerfile [default: everything]
    #[arg(long)]
    metadata: bool,
    /// Replace the tags of images by the digests that their registries know
    #[arg(long)]
    use_image_digests: bool,
    /// Directory to run `kubectl kustomize` in; its `bases` has the ClusterServiceVersion
    #[arg(long, value_name = "DIRECTORY", default_value = "config/manifests")]
    kustomize_dir: PathBuf,
    /// Read the manifests from this directory
    #[arg(long, visible_alias = "deploy-dir", value_name = "DIRECTORY")]
    input_dir: Option<PathBuf>,
    /// Read the CRDs from this directory
    #[arg(long, value_name = "DIRECTORY", requires = "input_dir")]
    crds_dir: Option<PathBuf>,
    /// Service accounts whose permissions to include besides those of the Deployments, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    extra_service_accounts: Vec<String>,
}

impl BundleArgs {
    pub fn run(self, ui: Ui) -> Result<()> {
        let workspace = Workspace::at_any_version(&crate::cli::directory()?)?;
        let package = self.package(&workspace)?;
        let base = format!("{package}.clusterserviceversion.yaml");
        let base = self.kustomize_dir.join("bases").join(base);
        let objects = olm::read(&self.source(), &base)?;
        let bundle = olm::generate(objects, &self.request(package, &workspace)?)?;
        for warning in &bundle.warnings {
            ui.warning(warning);
        }
        if self.stdout {
            let manifests: Vec<&str> = bundle.manifests.values().map(String::as_str).collect();
            return ui.data(manifests.join("---\n").trim_end());
        }
        let name = bundle.name.clone();
        self.write(bundle, &workspace, ui)?;
        ui.note(format!("The bundle {name} is in {}", self.output_dir));
        Ok(())
    }

    fn package(&self, workspace: &Workspace) -> Result<String> {
        match (&self.package, workspace.project()) {
            (Some(package), _) => {
                check_value("--package <PACKAGE>", package, names::domain)?;
                Ok(package.clone())
            }
            (None, Some(project)) => Ok(project.project_name.clone()),
            (None, None) => Err(UserError::failure("no PROJECT file in this directory")
                .with_hint("run the command in a project, or name the package with `--package`")
                .into()),
        }
    }

    fn source(&self) -> Source {
        match &self.input_dir {
            Some(directory) => Source::Directories(
                [directory].into_iter().chain(&self.crds_dir).cloned().collect(),
            ),
            None => Source::stdin_or_kustomize(&self.kustomize_dir),
        }
    }

    fn request(&self, package: String, workspace: &Workspace) -> Result<BundleRequest> {
        let annotations =
            workspace.text(&format!("{}/metadata/annotations.yaml", self.output_dir))?;
        let annotations = annotations.map(|text| Annotations::parse(&text)).transpose()?;
        Ok(BundleRequest {
            package,
            version: self.version.clone(),
            channels: self.channels.clone(),
            default_channel: self.default_channel.clone(),
            extra_accounts: self.extra_service_accounts.clone(),
            annotations: annotations.unwrap_or_default(),
            directory: self.output_dir.clone(),
            pins_images: self.use_image_digests,
        })
    }

    fn write(&self, bundle: Bundle, workspace: &Workspace, ui: Ui) -> Result<()> {
        let (manifests, metadata) = match (self.manifests, self.metadata) {
            (false, false) => (true, true),
            chosen => chosen,
        };
        let output = Output { mark: MARK, overwrite: self.overwrite, ..Output::default() };
        let output = bundle.output(output, &self.output_dir, manifests, metadata);
        let plan = workspace.plan_output(&output)?;
        if let Some(step) = plan.conflicts().next() {
            let problem = format!("{} exists, and opctl has not written it", step.path);
            return Err(UserError::failure(problem)
                .with_hint("move it away, or replace it with `--overwrite`")
                .into());
        }
        workspace.apply(&plan)?;
        for step in plan.steps.iter().filter(|step| step.action != Action::Identical) {
            match step.action.reason() {
                Some(reason) => {
                    ui.attention(step.action.verb(), format!("{} ({reason})", step.path))
                }
                None => ui.status(step.action.verb(), &step.path),
            }
        }
        Ok(())
    }
}
