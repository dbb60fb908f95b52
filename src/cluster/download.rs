//! Downloads the released programs of the control plane, for machines without Go.
//!
//! The checksums are pinned here, so that neither a server nor what is in between can change a program, and a
//! mirror need not be trusted. They are of Linux: Kubernetes releases no control plane for other systems.

use std::env;
use std::env::consts::{ARCH, OS};
use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::binaries::Tool;
use super::exec::ticking;
use super::signals::Signals;
use super::{cache, directories, duration};
use crate::hash::Hash;
use crate::http;
use crate::ui::Ui;

/// The environment variable with the URL of a mirror, which serves `https://HOST/PATH` at `/HOST/PATH`.
const MIRROR: &str = "OPCTL_CLUSTER_MIRROR";

const KUBERNETES: &str = "v1.36.3";
/// Not the one that is built: of this one, checksums were found in a trustworthy list.
const ETCD: &str = "v3.6.14";
const KWOK: &str = "v0.8.0";

/// No program is larger, also when it is unpacked.
const MAX_SIZE: u64 = 512 << 20;
/// How long a server may take to accept a connection, and to send the next part.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How often the progress is reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// The version of a program that is downloaded.
pub fn version(tool: Tool) -> &'static str {
    match tool {
        Tool::Etcd => ETCD,
        Tool::Kwok => KWOK,
        _ => KUBERNETES,
    }
}

/// The directory in the cache for these versions, which may not exist yet.
fn home() -> Result<PathBuf> {
    let name = format!("kubernetes-{KUBERNETES}-etcd-{ETCD}-kwok-{KWOK}-{OS}-{ARCH}-released");
    Ok(directories::cache()?.join("cluster").join(name))
}

/// The directory of the downloaded programs, which may not exist yet.
///
/// # Errors
/// If there is no home directory.
pub fn directory() -> Result<PathBuf> {
    Ok(home()?.join("bin"))
}

/// A file that a project has released.
#[derive(Debug)]
struct Release {
    url: String,
    /// The SHA-256 checksum, in hexadecimal digits.
    checksum: &'static str,
    /// The path of the program if the file is an archive.
    member: Option<String>,
}

impl Release {
    /// The release of a program for an architecture, by its name in Rust.
    fn of(tool: Tool, architecture: &str) -> Option<Self> {
        let arch = match architecture {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            _ => return None,
        };
        let github = "https://github.com";
        let (url, member) = match tool {
            Tool::Etcd => {
                let name = format!("etcd-{ETCD}-linux-{arch}");
                let url = format!("{github}/etcd-io/etcd/releases/download/{ETCD}/{name}.tar.gz");
                (url, Some(format!("{name}/etcd")))
            }
            Tool::Kwok => {
                let directory = format!("{github}/kubernetes-sigs/kwok/releases/download/{KWOK}");
                (format!("{directory}/kwok-linux-{arch}"), None)
            }
            _ => {
                let directory = format!("https://dl.k8s.io/release/{KUBERNETES}/bin/linux/{arch}");
                (format!("{directory}/{}", tool.file()), None)
            }
        };
        Some(Self { url, checksum: checksum(tool, arch), member })
    }
}

/// The SHA-256 checksum of what is released for Linux.
///
/// Those of Kubernetes are what its release server publishes, as kOps lists it
/// (<https://github.com/kubernetes/kops/blob/master/pkg/assets/assetdata/k8s-1.36.yaml>), those of etcd are its
/// `SHA256SUMS`, as Kubespray lists it
/// (<https://github.com/kubernetes-sigs/kubespray/blob/master/roles/kubespray_defaults/vars/main/checksums.yml>).
/// Those of kwok are what the package `kwok-bin` of Arch Linux
/// (<https://aur.archlinux.org/packages/kwok-bin>) and one for Nix pin, independently of each other.
fn checksum(tool: Tool, arch: &str) -> &'static str {
    let [amd64, arm64] = match tool {
        Tool::ApiServer => [
            "1f217d397234a6d065da663c6e086fdb02c0f0de97a0758ff3e6f3956f4ef8ab",
            "16001b9d35d23634c361a1e2b7b0fc7abe186984af697ef7a869c8c8cded78b7",
        ],
        Tool::ControllerManager => [
            "7edfe976d5a06c7a702d653e914095f4a732a04bb2139115b6a6eba6a9b781c7",
            "27868a5c822824945b93f2d8a724a5dcd99affc68b47230ae766bff8795bbb84",
        ],
        Tool::Scheduler => [
            "b8955d4518c902110b50a825364339b1fb673822518ce0ba081a69ed634f8eee",
            "ca1c7cd0033942bf9ef7eac80e18375d91f6f29487244c3e685f11163b01a88d",
        ],
        Tool::Etcd => [
            "ffe840ff9295808e88cce2794a18a5ac87f12a5203c8314d0bf6aa119b41bac5",
            "fa1b80565ee6fc2df1ae6f57a508b221f3ecc7d591c317c581cd8281b0842b3e",
        ],
        Tool::Kwok => [
            "f5a4385a2ae1b9dd7f8acae18e002a75c0ebba124ae9d7259aa8dadb50711f46",
            "628f7d277860f524a2a775c217adcc58828e7b59ab0933680315784f1b8b0e37",
        ],
        Tool::Kubectl => [
            "ebbd080e7c2e275093b55915722043257eb24004363e20acb3c4d71919f88336",
            "3d86f24401c41ae5a46ac50eef8865fe891d3647d324a0836f6c63757a126e62",
        ],
    };
    if arch == "amd64" { amd64 } else { arm64 }
}

/// Downloads the tools into the cache, unless another opctl did so while this one waited for the lock.
///
/// # Errors
/// If there is no release for this machine, if a server does not send it, or if opctl was interrupted. The
/// programs that were complete stay, so that the next call continues.
pub fn download(ui: Ui, signals: &Signals, tools: &[Tool]) -> Result<()> {
    ensure!(OS == "linux", "there is no release of kube-apiserver for {OS}");
    let bin = directory()?;
    directories::create(&bin)?;
    let _lock = cache::lock(ui, signals, &home()?)?;
    cache::remove_incomplete(&bin)?;

    let downloader = Downloader::new(TIMEOUT)?;
    let tools: Vec<Tool> =
        tools.iter().copied().filter(|tool| !bin.join(tool.file()).exists()).collect();
    for (done, tool) in tools.iter().enumerate() {
        let release = Release::of(*tool, ARCH);
        let release = release
            .with_context(|| format!("there is no release of {} for {ARCH}", tool.file()))?;
        let url = mirrored(&release.url, env::var(MIRROR).ok().as_deref());
        let title = format!("{} {}", tool.file(), version(*tool));
        ui.status("Downloading", format!("{title} ({} of {})", done + 1, tools.len()));
        let mut progress = Progress { ui, signals, title: &title, reported: Instant::now() };
        let start = Instant::now();
        let size = downloader
            .install(&url, &release, &bin.join(tool.file()), &mut |size| progress.update(size))
            .with_context(|| format!("{} from {url}", tool.file()))?;
        let time = duration(start.elapsed());
        ui.status("Downloaded", format!("{title}, {} in {time}", megabytes(size)));
    }
    Ok(())
}

/// The URL of a file on a mirror, if there is one.
fn mirrored(url: &str, mirror: Option<&str>) -> String {
    match mirror.filter(|mirror| !mirror.is_empty()) {
        Some(mirror) => url.replacen("https:/", mirror.trim_end_matches('/'), 1),
        None => url.to_owned(),
    }
}

/// Reports how much of a file has arrived.
struct Progress<'a> {
    ui: Ui,
    signals: &'a Signals,
    title: &'a str,
    reported: Instant,
}

impl Progress<'_> {
    fn update(&mut self, size: u64) -> Result<()> {
        if self.reported.elapsed() >= REPORT_INTERVAL {
            self.reported = Instant::now();
            self.ui.status("Downloading", format!("{}: {}", self.title, megabytes(size)));
        }
        self.signals.check()
    }
}

fn megabytes(size: u64) -> String {
    format!("{:.1} MB", size as f64 / 1e6)
}

/// A client for large files.
struct Downloader(reqwest::Client);

impl Downloader {
    /// A client that ends a download if nothing arrives for some time.
    fn new(timeout: Duration) -> Result<Self> {
        let client = http::client().connect_timeout(timeout).read_timeout(timeout).build();
        Ok(Self(client.context("cannot start an HTTP client")?))
    }

    /// Downloads a program to `target`, which appears only if the checksum is right. `tick` is called with the
    /// number of bytes that have arrived. Returns how many there were.
    fn install(
        &self,
        url: &str,
        release: &Release,
        target: &Path,
        tick: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let directory = target.parent().context("the program has no directory")?;
        let mut file = incomplete(directory)?;
        let (size, checksum) =
            http::runtime()?.block_on(self.receive(url, file.as_file_mut(), tick))?;
        let expected = release.checksum;
        ensure!(checksum == expected, "its SHA-256 checksum is {checksum} instead of {expected}");
        let program = match &release.member {
            None => file,
            Some(member) => {
                file.rewind()?;
                extract(file.as_file(), member, directory)?
            }
        };
        program.as_file().set_permissions(Permissions::from_mode(0o755))?;
        // The name must not be on the disk before the contents.
        program.as_file().sync_all()?;
        program.persist(target).with_context(|| format!("cannot write `{}`", target.display()))?;
        Ok(size)
    }

    /// Writes what a server sends to a file. Returns its size and its checksum.
    async fn receive(
        &self,
        url: &str,
        file: &mut File,
        tick: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<(u64, String)> {
        let (mut size, mut checksum) = (0, Sha256::new());
        let response = ticking(self.0.get(url).send(), || tick(0)).await?;
        let mut response =
            response.and_then(|response| response.error_for_status()).map_err(without_url)?;
        while let Some(part) =
            ticking(response.chunk(), || tick(size)).await?.map_err(without_url)?
        {
            size += part.len() as u64;
            ensure!(size <= MAX_SIZE, "it is larger than {}", megabytes(MAX_SIZE));
            checksum.update(&part);
            file.write_all(&part).context("cannot write to the cache")?;
            tick(size)?;
        }
        Ok((size, Hash::finish(checksum).to_string()))
    }
}

/// The context of the error names the URL.
fn without_url(error: reqwest::Error) -> reqwest::Error {
    error.without_url()
}

/// A file beside the programs that the next opctl removes if this one is killed.
fn incomplete(directory: &Path) -> Result<NamedTempFile> {
    let file = tempfile::Builder::new().prefix(".download-").tempfile_in(directory);
    file.with_context(|| format!("cannot write to `{}`", directory.display()))
}

/// Unpacks one file of an archive.
fn extract(archive: &File, member: &str, directory: &Path) -> Result<NamedTempFile> {
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    for entry in archive.entries()? {
        let entry = entry?;
        if entry.path()? == Path::new(member) {
            let mut file = incomplete(directory)?;
            let size = io::copy(&mut entry.take(MAX_SIZE + 1), &mut file)?;
            ensure!(size <= MAX_SIZE, "{member} is larger than {}", megabytes(MAX_SIZE));
            return Ok(file);
        }
    }
    bail!("it does not contain {member}")
}

#[cfg(test)]
mod tests;
