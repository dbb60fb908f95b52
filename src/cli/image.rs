//! `opctl image`.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};

use super::change::Flags;
use crate::error::UserError;
use crate::package::image::{
    DIRECTORY, Image, ImageRequest, Platform, PrivateKey, Reference, check_directory,
    default_directory, sign,
};
use crate::project::image::PinnedImage;
use crate::sync::Workspace;
use crate::ui::Ui;

/// The password of an encrypted key, as cosign takes it.
const PASSWORD: &str = "COSIGN_PASSWORD";

/// Build the operator's image without Docker, and choose what is deployed
#[derive(Debug, Subcommand)]
pub(super) enum ImageCommand {
    Build(BuildArgs),
    Sign(SignArgs),
    Pin(PinArgs),
    Unpin(UnpinArgs),
}

/// Build the operator and write its image
///
/// The image has one file, a static binary, and runs as user 65532. The same sources are the same image, with
/// the same digest. Its name with the digest is printed on stdout. A bill of materials, an SPDX document of the packages
/// in Cargo.lock, is written and pushed with it, as its referrer.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  opctl image build --tag registry.example.com/memcached-operator:v1 --push --pin\n  \
                        opctl image build --tarball image.tar && docker load --input image.tar"
)]
pub(super) struct BuildArgs {
    /// Name of the image
    #[arg(short, long, value_name = "NAME[:TAG]", default_value = "controller:latest")]
    tag: Reference,
    /// Platforms that the image runs on, separated by commas [default: that of this machine]
    #[arg(long, value_name = "PLATFORM", value_delimiter = ',')]
    platform: Vec<Platform>,
    /// Push the image to the registry in its name, with the credentials that `docker login` or `podman login`
    /// has stored
    #[arg(long)]
    push: bool,
    /// Deploy the pushed image from now on, as `opctl image pin` does
    #[arg(long, requires = "push")]
    pin: bool,
    /// Directory for the image, in the layout of the OCI [default: target/image]
    #[arg(short, long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// Also write the image to a file for `docker load` or `podman load`
    #[arg(long, value_name = "FILE")]
    tarball: Option<PathBuf>,
    /// Put this file of CA certificates into the image, for an operator that connects to servers outside of
    /// its cluster
    #[arg(long, value_name = "FILE")]
    ca_certificates: Option<PathBuf>,
}

impl ImageCommand {
    pub fn run(self, ui: Ui) -> Result<()> {
        match self {
            Self::Build(args) => args.run(ui),
            Self::Sign(args) => args.run(ui),
            Self::Pin(args) => args.run(ui),
            Self::Unpin(args) => args.run(ui),
        }
    }
}

impl BuildArgs {
    fn run(self, ui: Ui) -> Result<()> {
        let directory = super::directory()?;
        let workspace = match self.pin {
            true => Workspace::open(&directory)?,
            false => Workspace::open_any_version(&directory)?,
        };
        let project = super::model(&workspace)?;
        let mut platforms = self.platform;
        platforms.sort();
        platforms.dedup();
        if self.tarball.is_some() && platforms.len() > 1 {
            return Err(UserError::usage("an image for `docker load` has one platform")
                .with_hint("omit `--tarball`, or name one platform")
                .into());
        }
        let output = match self.output {
            Some(output) => output,
            None => default_directory(&directory)?,
        };
        check_directory(&output)?;
        if platforms.is_empty() {
            platforms.push(Platform::of_this_machine());
        }
        let request =
            ImageRequest { reference: self.tag, platforms, certificates: self.ca_certificates };
        let begin = |platform: Platform| {
            ui.status("build", format!("{platform} ({})", platform.target()));
        };
        let image = Image::build(&directory, project, &request, begin)?;
        image.write_directory(&output)?;
        let size = image.size() as f64 / 1e6;
        ui.status("write", format!("{} ({size:.1} MB)", output.display()));
        if let Some(path) = self.tarball {
            image.write_archive(&path)?;
            ui.status("write", path.display().to_string());
        }
        if self.push {
            let sent = image.push(&|text| ui.status("push", text))? as f64 / 1e6;
            ui.status("push", format!("{} ({sent:.1} MB sent)", request.reference));
        }
        if self.pin {
            let pinned = image.pinned().parse().map_err(UserError::failure)?;
            deploy(&workspace, Some(pinned), &Flags::default(), ui)?;
        }
        ui.data(image.pinned())
    }
}

/// Sign an image in a registry, so that cosign verifies it
///
/// The signature is pushed, as a referrer of the image: a bundle of sigstore, as `cosign sign --key` writes it.
/// Provenance and bill of materials are signed, too, as `cosign attest --key` does, if the directory has the image:
/// what others may have pushed is not. Nothing is written to a public log: verify the signature with
/// `cosign verify --key cosign.pub --private-infrastructure`.
/// The name of the image with the digest that was signed is printed on stdout.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  opctl image sign registry.example.com/memcached-operator:v1 --key cosign.key"
)]
pub(super) struct SignArgs {
    /// The image: best with its digest, as `opctl image build --push` prints it
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Private key on the curve P-256, in PKCS#8 (PEM) or as `cosign generate-key-pair` encrypts it; the password of
    /// an encrypted one is COSIGN_PASSWORD, or is asked for
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Directory that `opctl image build` has written the image to
    #[arg(long, value_name = "DIRECTORY", default_value = DIRECTORY)]
    directory: PathBuf,
}

impl SignArgs {
    fn run(self, ui: Ui) -> Result<()> {
        let key = PrivateKey::read(&self.key, || password(&self.key, ui))?;
        let signed = sign(&self.image, &key, &self.directory, &|text| ui.status("sign", text))?;
        for statement in &signed.statements {
            ui.status("sign", format!("{} ({statement})", signed.image));
        }
        if signed.statements.len() == 1 {
            let directory = self.directory.display();
            ui.attention("skip", format!("provenance and bill of materials: not in {directory}"));
        }
        ui.data(signed.image)
    }
}

/// The password of a key.
fn password(key: &Path, ui: Ui) -> Result<String> {
    if let Ok(password) = env::var(PASSWORD) {
        return Ok(password);
    }
    ui.password(&format!("Password of {}", key.display()))?.ok_or_else(|| {
        UserError::failure(format!("{} is encrypted", key.display()))
            .with_hint(format!("set {PASSWORD} to its password"))
            .into()
    })
}

/// Deploy an image by its digest: in config/manager and in the chart
///
/// What a digest names never changes. `make deploy`, `make build-installer`, the bundle and the chart have this image
/// from then on; `make deploy IMG=...` deploys another one once.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  opctl image pin op@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)]
pub(super) struct PinArgs {
    /// The image, as `opctl image build --push` prints it
    #[arg(value_name = "NAME@DIGEST")]
    image: PinnedImage,
    #[command(flatten)]
    flags: Flags,
}

/// Deploy the image that IMG of the Makefile names, and that of the chart's values
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  opctl image unpin")]
pub(super) struct UnpinArgs {
    #[command(flatten)]
    flags: Flags,
}

impl PinArgs {
    fn run(self, ui: Ui) -> Result<()> {
        let workspace = Workspace::open(&super::directory()?)?;
        deploy(&workspace, Some(self.image), &self.flags, ui)
    }
}

impl UnpinArgs {
    fn run(self, ui: Ui) -> Result<()> {
        let workspace = Workspace::open(&super::directory()?)?;
        deploy(&workspace, None, &self.flags, ui)
    }
}

/// Has the project deploy this image or, without one, the image that its Makefile names.
fn deploy(workspace: &Workspace, image: Option<PinnedImage>, flags: &Flags, ui: Ui) -> Result<()> {
    let old = super::model(workspace)?;
    let new = old.with_image(image)?;
    flags.apply(workspace, |options| workspace.plan(Some(old), &new, options), ui)?;
    Ok(())
}
