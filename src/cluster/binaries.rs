//! The programs of the control plane, and the directories that are searched for them.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use semver::Version;

use super::signals::{Interrupted, Signals};
use super::{build, directories, download};
use crate::error::UserError;
use crate::ui::Ui;

/// The environment variable that names a directory with the programs.
pub const ASSETS: &str = "OPCTL_CLUSTER_ASSETS";

/// The oldest etcd releases, by minor version, that support the API server's streaming lists.
const OLDEST_ETCD: [Version; 2] = [Version::new(3, 4, 31), Version::new(3, 5, 13)];

/// A program of the control plane, in the order in which they are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// The API server.
    ApiServer,
    /// The built-in controllers.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// The store.
    Etcd,
    /// Simulates the nodes.
    Kwok,
    /// The client of the probes and of the user.
    Kubectl,
}

impl Tool {
    /// All programs.
    pub const ALL: [Tool; 6] = [
        Tool::ApiServer,
        Tool::ControllerManager,
        Tool::Scheduler,
        Tool::Etcd,
        Tool::Kwok,
        Tool::Kubectl,
    ];

    /// The file name of the program.
    pub fn file(self) -> &'static str {
        match self {
            Tool::ApiServer => "kube-apiserver",
            Tool::ControllerManager => "kube-controller-manager",
            Tool::Scheduler => "kube-scheduler",
            Tool::Etcd => "etcd",
            Tool::Kwok => "kwok",
            Tool::Kubectl => "kubectl",
        }
    }

    /// The version that opctl builds.
    fn pinned(self) -> Version {
        known(match self {
            Tool::Etcd => build::etcd_version(),
            Tool::Kwok => build::kwok_version(),
            _ => build::kubernetes_version(),
        })
    }

    /// The version that opctl downloads.
    fn released(self) -> Version {
        known(download::version(self))
    }

    /// Why a version does not work with opctl.
    fn defect(self, version: &Version) -> Option<String> {
        match self {
            // The API server then hangs silently.
            Tool::Etcd => (!streams_lists(version)).then(|| "it has no streaming lists".to_owned()),
            // Before 1.0 a new minor version can change anything.
            Tool::Kwok => {
                let pinned = self.pinned();
                let fits = minor(version) == minor(&pinned);
                (!fits).then(|| format!("opctl works with {}.{}", pinned.major, pinned.minor))
            }
            Tool::Kubectl => None,
            // The first version with the policies of `objects`.
            _ => {
                (*version < Version::new(1, 30, 0)).then(|| "opctl needs 1.30 or newer".to_owned())
            }
        }
    }
}

/// The programs that work together in one minor version only.
const KUBERNETES: [Tool; 3] = [Tool::ApiServer, Tool::ControllerManager, Tool::Scheduler];

/// A program that was found.
#[derive(Debug)]
struct Program {
    path: PathBuf,
    /// Not determined for kubectl, of which only raw requests are used.
    version: Option<Version>,
    /// Whether opctl installed it.
    is_cached: bool,
}

/// A directory that is searched for programs.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// The versions of the programs that opctl installs in it, which need not be asked.
    versions: Option<fn(Tool) -> Version>,
}

impl Directory {
    /// A directory of the user.
    fn external(path: PathBuf) -> Self {
        Self { path, versions: None }
    }

    /// A directory of the cache.
    fn cached(path: PathBuf, versions: fn(Tool) -> Version) -> Self {
        Self { path, versions: Some(versions) }
    }
}

/// The programs that were found.
#[derive(Debug, Default)]
pub struct Binaries {
    programs: BTreeMap<Tool, Program>,
    /// What is ignored, and why.
    ignored: Vec<String>,
}

impl Binaries {
    /// The path of a program, if it was found.
    pub fn get(&self, tool: Tool) -> Option<&Path> {
        self.programs.get(&tool).map(|program| program.path.as_path())
    }

    /// The version of a program, if it was found.
    pub fn version(&self, tool: Tool) -> Option<&Version> {
        self.programs.get(&tool)?.version.as_ref()
    }

    /// The programs that were not found.
    pub fn missing(&self) -> Vec<Tool> {
        Tool::ALL.into_iter().filter(|tool| !self.programs.contains_key(tool)).collect()
    }

    /// Searches the directories in their order.
    fn search(directories: &[Directory]) -> Self {
        let mut found = Self::default();
        for tool in Tool::ALL {
            for directory in directories {
                let path = directory.path.join(tool.file());
                if path.is_file() && !is_executable(&path) {
                    found.ignored.push(format!("`{}`, which is not executable", path.display()));
                }
                if is_executable(&path) && found.insert(tool, path, directory) {
                    break;
                }
            }
        }
        found.separate_versions(directories);
        found
    }

    /// Adds a program of a directory unless its version has a defect.
    fn insert(&mut self, tool: Tool, path: PathBuf, directory: &Directory) -> bool {
        let version = match (directory.versions, tool) {
            (Some(version), _) => Some(version(tool)),
            (None, Tool::Kubectl) => None,
            (None, _) => match version_of(&path) {
                Ok(version) => Some(version),
                Err(reason) => {
                    self.ignored.push(format!("`{}`, which {reason}", path.display()));
                    return false;
                }
            },
        };
        if let Some((version, defect)) =
            version.as_ref().and_then(|version| Some((version, tool.defect(version)?)))
        {
            self.ignored.push(format!("`{}` {version}: {defect}", path.display()));
            return false;
        }
        self.programs
            .insert(tool, Program { path, version, is_cached: directory.versions.is_some() });
        true
    }

    /// Replaces programs of Kubernetes by those of the cache, unless all have one minor version.
    fn separate_versions(&mut self, directories: &[Directory]) {
        let pinned = KUBERNETES[0].pinned();
        let minors = KUBERNETES.map(|tool| minor(self.version(tool).unwrap_or(&pinned)));
        if minors.iter().all(|other| *other == minors[0]) {
            return;
        }
        for tool in KUBERNETES {
            let fits =
                |program: &Program| program.version.as_ref().map(minor) == Some(minor(&pinned));
            if self.programs.get(&tool).is_some_and(fits) {
                continue;
            }
            if let Some(program) = self.programs.remove(&tool) {
                let path = program.path.display();
                let reason = "the programs of Kubernetes have different versions";
                self.ignored.push(format!("`{path}`: {reason}"));
                for directory in directories.iter().filter(|dir| dir.versions.is_some()) {
                    let path = directory.path.join(tool.file());
                    if is_executable(&path) && self.insert(tool, path, directory) {
                        break;
                    }
                }
            }
        }
    }

    /// Reports the programs that opctl did not install.
    fn report(&self, ui: Ui) {
        let others = self.programs.iter().filter(|(_, program)| !program.is_cached);
        let texts: Vec<String> = others
            .filter_map(|(_, program)| {
                Some(format!("`{}` {}", program.path.display(), program.version.as_ref()?))
            })
            .collect();
        if !texts.is_empty() {
            ui.status("Using", texts.join(", "));
        }
    }
}

/// Finds all programs. Missing ones are built with Go, or downloaded if there is no Go or `downloads` is set.
///
/// # Errors
/// A [`UserError`] that lists the missing programs if they can be neither built nor downloaded, or if a build
/// fails.
pub fn resolve(ui: Ui, signals: &Signals, downloads: bool) -> Result<Binaries> {
    let directories = directories()?;
    let found = Binaries::search(&directories);
    for ignored in &found.ignored {
        ui.attention("Ignoring", ignored);
    }
    let missing = found.missing();
    if missing.is_empty() {
        found.report(ui);
        return Ok(found);
    }
    install(ui, signals, &missing, downloads)?;
    let found = Binaries::search(&directories);
    found.report(ui);
    Ok(found)
}

/// Where the programs are searched: first what the user named, then the cache.
fn directories() -> Result<Vec<Directory>> {
    let assets = env::var_os(ASSETS).filter(|directory| !directory.is_empty()).map(PathBuf::from);
    if let Some(directory) = &assets
        && let Err(error) = directory.read_dir()
    {
        let directory = directory.display();
        let message = format!("cannot read the directory `{directory}` of {ASSETS}: {error}");
        let hint = format!("correct or unset {ASSETS}");
        return Err(UserError::failure(message).with_hint(hint).into());
    }
    let assets = assets.map(|directory| directories::real(&directory)).transpose()?;
    let cache = [
        Directory::cached(build::directory()?, Tool::pinned),
        Directory::cached(download::directory()?, Tool::released),
    ];
    let path = path_directories().into_iter().map(Directory::external);
    Ok(assets.map(Directory::external).into_iter().chain(cache).chain(path).collect())
}

/// Builds or downloads missing programs into the cache.
fn install(ui: Ui, signals: &Signals, missing: &[Tool], downloads: bool) -> Result<()> {
    let mut problem = format!("missing programs of the control plane: {}", names(missing));
    if !downloads {
        match build::go(signals)? {
            Ok(go) => return build::build(ui, signals, &go, missing),
            Err(no_go) => problem.push_str(&format!("; cannot build them: {no_go}")),
        }
    }
    download::download(ui, signals, missing).map_err(|error| {
        if error.is::<Interrupted>() {
            return error;
        }
        UserError::failure(format!("{problem}; cannot download them: {error:#}"))
            .with_hint(format!(
                "check the network and its proxy (HTTPS_PROXY), or install Go {} or newer (opctl then builds \
                 them, once, in about 6 minutes), or set {ASSETS} to a directory that contains them",
                build::go_version()
            ))
            .into()
    })
}

/// The absolute directories of `PATH`. Relative ones depend on the current directory and are ignored.
pub fn path_directories() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).filter(|directory| directory.is_absolute()).collect()
}

/// The names of tools, separated by commas.
fn names(tools: &[Tool]) -> String {
    tools.iter().map(|tool| tool.file()).collect::<Vec<_>>().join(", ")
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The first word of `--version` that is a version, or what is wrong with the program.
fn version_of(program: &Path) -> Result<Version, String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|error| format!("cannot be run: {error}"))?;
    let mut words = str::from_utf8(&output.stdout).unwrap_or_default().split_whitespace();
    words.find_map(parse).ok_or_else(|| "reports no version".to_owned())
}

/// A version that opctl pins.
fn known(version: &str) -> Version {
    parse(version).unwrap_or_else(|| panic!("opctl pins the invalid version `{version}`"))
}

fn parse(version: &str) -> Option<Version> {
    Version::parse(version.strip_prefix('v').unwrap_or(version)).ok()
}

fn minor(version: &Version) -> (u64, u64) {
    (version.major, version.minor)
}

fn streams_lists(version: &Version) -> bool {
    let same_minor = |oldest: &&Version| minor(oldest) == minor(version);
    OLDEST_ETCD.iter().find(same_minor).unwrap_or(&OLDEST_ETCD[1]) <= version
}

#[cfg(test)]
mod tests;
