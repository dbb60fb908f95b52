//! The programs of the control plane, and the directories that are searched for them.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use semver::Version;

use super::build;
use super::signals::Signals;
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
    /// Creates the cluster and starts its processes.
    Kwokctl,
    /// The client of the probes and of the user.
    Kubectl,
}

impl Tool {
    /// Every program.
    pub const ALL: [Tool; 7] = [
        Tool::ApiServer,
        Tool::ControllerManager,
        Tool::Scheduler,
        Tool::Etcd,
        Tool::Kwok,
        Tool::Kwokctl,
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
            Tool::Kwokctl => "kwokctl",
            Tool::Kubectl => "kubectl",
        }
    }
}

/// The paths of the programs. kwokctl downloads those that are missing.
#[derive(Debug, Default)]
pub struct Binaries(BTreeMap<Tool, PathBuf>);

impl Binaries {
    /// The path of a program, if it was found.
    pub fn get(&self, tool: Tool) -> Option<&Path> {
        self.0.get(&tool).map(PathBuf::as_path)
    }

    /// The programs that were not found.
    pub fn missing(&self) -> Vec<Tool> {
        Tool::ALL.into_iter().filter(|tool| !self.0.contains_key(tool)).collect()
    }

    /// Searches the directories in their order.
    pub fn search(directories: &[PathBuf]) -> Self {
        let find = |tool: Tool| {
            let mut candidates = directories.iter().map(|directory| directory.join(tool.file()));
            candidates.find(|file| usable(tool, file)).map(|file| (tool, file))
        };
        Self(Tool::ALL.into_iter().filter_map(find).collect())
    }
}

/// Finds all programs. Missing ones are built with Go or, without Go, left to kwokctl.
///
/// # Errors
/// A [`UserError`] that lists the missing programs if there is neither Go nor kwokctl, or if a build fails.
pub fn resolve(ui: Ui, signals: &Signals) -> Result<Binaries> {
    let assets = env::var_os(ASSETS).filter(|directory| !directory.is_empty()).map(PathBuf::from);
    if let Some(directory) = assets.as_ref().filter(|directory| !directory.is_dir()) {
        let message = format!("{ASSETS} is `{}`, which is not a directory", directory.display());
        return Err(UserError::failure(message).into());
    }
    let cache = build::directory()?;
    let mut directories: Vec<PathBuf> = assets.into_iter().chain([cache]).collect();
    directories.extend(path_directories());

    let found = Binaries::search(&directories);
    let missing = found.missing();
    if missing.is_empty() {
        return Ok(found);
    }
    match build::go(signals)? {
        Ok(go) => {
            build::build(ui, signals, &go, &missing)?;
            Ok(Binaries::search(&directories))
        }
        Err(_) if found.get(Tool::Kwokctl).is_some() => {
            ui.status(
                "Fetching",
                format!("{} with kwokctl, which can take minutes", names(&missing)),
            );
            Ok(found)
        }
        Err(no_go) => Err(UserError::failure(format!(
            "missing programs of the control plane: {}; cannot build them: {no_go}",
            names(&missing)
        ))
        .with_hint(format!(
            "install Go {} or newer (opctl then builds them, once, in about 6 minutes), or install \
             kwokctl (it downloads the others), or set {ASSETS} to a directory that contains them",
            build::go_version()
        ))
        .into()),
    }
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

fn usable(tool: Tool, file: &Path) -> bool {
    let executable =
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    // The etcd of a distribution is often too old, and the API server then hangs silently.
    executable && (tool != Tool::Etcd || etcd_is_recent(file))
}

fn etcd_is_recent(file: &Path) -> bool {
    let output = Command::new(file).arg("--version").output();
    let Ok(output) = output else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: "));
    version.and_then(|version| Version::parse(version.trim()).ok()).is_some_and(streams_lists)
}

fn streams_lists(version: Version) -> bool {
    let same_minor =
        |oldest: &&Version| (oldest.major, oldest.minor) == (version.major, version.minor);
    OLDEST_ETCD.iter().find(same_minor).unwrap_or(&OLDEST_ETCD[1]) <= &version
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn install(directory: &Path, file: &str, script: &str) {
        let path = directory.join(file);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn first_directory_with_a_program_wins() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        install(first.path(), "kwok", "");
        install(second.path(), "kwok", "");
        install(second.path(), "kubectl", "");

        let found = Binaries::search(&[first.path().to_owned(), second.path().to_owned()]);

        assert_eq!(found.get(Tool::Kwok), Some(first.path().join("kwok").as_path()));
        assert_eq!(found.get(Tool::Kubectl), Some(second.path().join("kubectl").as_path()));
        assert_eq!(found.missing().len(), 5);
    }

    #[test]
    fn file_that_is_not_executable_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("kwok"), "").unwrap();
        fs::create_dir(directory.path().join("kubectl")).unwrap();

        assert_eq!(Binaries::search(&[directory.path().to_owned()]).missing(), Tool::ALL);
    }

    #[test]
    fn etcd_without_streaming_lists_is_skipped() {
        let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        install(old.path(), "etcd", "#!/bin/sh\necho etcd Version: 3.4.23\n");
        install(new.path(), "etcd", "#!/bin/sh\necho etcd Version: 3.6.16\n");

        let found = Binaries::search(&[old.path().to_owned(), new.path().to_owned()]);

        assert_eq!(found.get(Tool::Etcd), Some(new.path().join("etcd").as_path()));
    }

    #[test]
    fn oldest_etcd_depends_on_its_minor_version() {
        let accepted = |text: &str| streams_lists(Version::parse(text).unwrap());
        assert!(!accepted("3.3.27") && !accepted("3.4.30") && !accepted("3.5.12"));
        assert!(accepted("3.4.31") && accepted("3.5.13") && accepted("3.6.0") && accepted("4.0.0"));
    }
}
