//! `opctl image`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::error::UserError;
use crate::package::image::{Image, ImageRequest, Platform, Reference, check_directory};
use crate::sync::Workspace;
use crate::ui::Ui;

/// Build the operator's image without Docker
#[derive(Debug, Subcommand)]
pub(super) enum ImageCommand {
    Build(BuildArgs),
}

/// Build the operator and write its image
///
/// The image has one file, a static binary, and runs as user 65532. The same sources are the same image, with
/// the same digest. Its name with the digest is printed on stdout.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  opctl image build --tag registry.example.com/memcached-operator:v1 --push\n  \
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
    /// Directory for the image, in the layout of the OCI
    #[arg(short, long, value_name = "DIRECTORY", default_value = "target/image")]
    output: PathBuf,
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
        }
    }
}

impl BuildArgs {
    fn run(self, ui: Ui) -> Result<()> {
        let directory = super::directory()?;
        let workspace = Workspace::open_any_version(&directory)?;
        let project = super::model(&workspace)?;
        let mut platforms = self.platform;
        platforms.sort();
        platforms.dedup();
        if self.tarball.is_some() && platforms.len() > 1 {
            return Err(UserError::usage("an image for `docker load` has one platform")
                .with_hint("omit `--tarball`, or name one platform")
                .into());
        }
        check_directory(&self.output)?;
        if platforms.is_empty() {
            platforms.push(Platform::of_this_machine());
        }
        let request =
            ImageRequest { reference: self.tag, platforms, certificates: self.ca_certificates };
        let begin = |platform: Platform| {
            ui.status("build", format!("{platform} ({})", platform.target()));
        };
        let image = Image::build(&directory, project, &request, begin)?;
        image.write_directory(&self.output)?;
        let size = image.size() as f64 / 1e6;
        ui.status("write", format!("{} ({size:.1} MB)", self.output.display()));
        if let Some(path) = self.tarball {
            image.write_archive(&path)?;
            ui.status("write", path.display().to_string());
        }
        if self.push {
            let sent = image.push()? as f64 / 1e6;
            ui.status("push", format!("{} ({sent:.1} MB sent)", request.reference));
        }
        ui.data(image.pinned())
    }
}
