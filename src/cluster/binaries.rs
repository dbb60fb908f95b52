//! The programs of the control plane, and the directories that are searched for them.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use semver::Version;

use super::signals::Signals;
use super::{build, directories};
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
        let text = match self {
            Tool::Etcd => build::etcd_version(),
            Tool::Kwok => build::kwok_version(),
            _ => build::kubernetes_version(),
        };
        parse(text).unwrap_or_else(|| panic!("go.mod pins the invalid version `{text}`"))
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
    /// Whether opctl built it.
    is_built: bool,
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

    /// Searches the directories in their order. The programs in `built` have the pinned versions.
    pub fn search(directories: &[PathBuf], built: &Path) -> Self {
        let mut found = Self::default();
        for tool in Tool::ALL {
            for directory in directories {
                let path = directory.join(tool.file());
                if path.is_file() && !is_executable(&path) {
                    found.ignored.push(format!("`{}`, which is not executable", path.display()));
                }
                if is_executable(&path) && found.insert(tool, path, directory == built) {
                    break;
                }
            }
        }
        found.separate_versions(built);
        found
    }

    /// Adds a program unless its version has a defect.
    fn insert(&mut self, tool: Tool, path: PathBuf, is_built: bool) -> bool {
        let version = match tool {
            _ if is_built => Some(tool.pinned()),
            Tool::Kubectl => None,
            _ => match version_of(&path) {
                Some(version) => Some(version),
                None => {
                    self.ignored.push(format!("`{}`, which reports no version", path.display()));
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
        self.programs.insert(tool, Program { path, version, is_built });
        true
    }

    /// Replaces programs of Kubernetes by those that opctl built, unless all have one minor version.
    fn separate_versions(&mut self, built: &Path) {
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
                let path = built.join(tool.file());
                if is_executable(&path) {
                    self.insert(tool, path, true);
                }
            }
        }
    }

    /// Reports the programs that opctl did not build.
    fn report(&self, ui: Ui) {
        let others = self.programs.iter().filter(|(_, program)| !program.is_built);
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

/// Finds all programs. Missing ones are built with Go.
///
/// # Errors
/// A [`UserError`] that lists the missing programs if there is no Go, or if a build fails.
pub fn resolve(ui: Ui, signals: &Signals) -> Result<Binaries> {
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
    let built = build::directory()?;
    let mut directories: Vec<PathBuf> = assets.into_iter().chain([built.clone()]).collect();
    directories.extend(path_directories());

    let found = Binaries::search(&directories, &built);
    for ignored in &found.ignored {
        ui.attention("Ignoring", ignored);
    }
    let missing = found.missing();
    if missing.is_empty() {
        found.report(ui);
        return Ok(found);
    }
    match build::go(signals)? {
        Ok(go) => {
            build::build(ui, signals, &go, &missing)?;
            let found = Binaries::search(&directories, &built);
            found.report(ui);
            Ok(found)
        }
        Err(no_go) => Err(UserError::failure(format!(
            "missing programs of the control plane: {}; cannot build them: {no_go}",
            names(&missing)
        ))
        .with_hint(format!(
            "install Go {} or newer (opctl then builds them, once, in about 6 minutes), or set {ASSETS} to \
             a directory that contains them",
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

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The first word of `--version` that is a version.
pub fn version_of(program: &Path) -> Option<Version> {
    let output = Command::new(program).arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).split_whitespace().find_map(parse)
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
mod tests {
    use super::*;
    use std::fs;

    fn install(directory: &Path, file: &str, script: &str) {
        let path = directory.join(file);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Directories whose programs report these versions, and the last of which opctl built.
    fn found(directories: &[&[(&str, &str)]]) -> (Binaries, Vec<tempfile::TempDir>) {
        let install_all = |programs: &&[(&str, &str)]| {
            let directory = tempfile::tempdir().unwrap();
            for (file, version) in *programs {
                install(directory.path(), file, &format!("#!/bin/sh\necho '{version}'\n"));
            }
            directory
        };
        let directories: Vec<_> = directories.iter().map(install_all).collect();
        let paths: Vec<_> = directories.iter().map(|dir| dir.path().to_owned()).collect();
        (Binaries::search(&paths, &paths[paths.len() - 1]), directories)
    }

    #[test]
    fn first_directory_with_a_program_wins() {
        let first = &[("kwok", "kwok version v0.8.1 go1.26.8 (linux/amd64)")][..];
        let (found, directories) = found(&[first, &[("kwok", ""), ("kubectl", "")]]);

        let path = |directory: usize, file: &str| directories[directory].path().join(file);
        assert_eq!(found.get(Tool::Kwok), Some(path(0, "kwok").as_path()));
        assert_eq!(found.version(Tool::Kwok), Some(&Version::new(0, 8, 1)));
        assert_eq!(found.get(Tool::Kubectl), Some(path(1, "kubectl").as_path()));
        assert_eq!(found.missing().len(), 4);
    }

    #[test]
    fn file_that_is_not_executable_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("kwok"), "").unwrap();
        fs::create_dir(directory.path().join("kubectl")).unwrap();

        let found = Binaries::search(&[directory.path().to_owned()], directory.path());
        assert_eq!(found.missing(), Tool::ALL);
        let program = directory.path().join("kwok");
        let ignored = format!("`{}`, which is not executable", program.display());
        assert_eq!(found.ignored, [ignored]);
    }

    #[test]
    fn versions_that_do_not_work_are_ignored_with_the_reason() {
        let others = &[
            ("etcd", "etcd Version: 3.4.23"),
            ("kwok", "kwok version v0.7.0"),
            ("kube-scheduler", "no version"),
            ("kube-apiserver", "Kubernetes v1.29.4"),
        ][..];
        let (found, directories) = found(&[others, &[("etcd", "")]]);

        assert_eq!(found.get(Tool::Etcd), Some(directories[1].path().join("etcd").as_path()));
        assert_eq!(found.missing().len(), 5);
        let ignored = found.ignored.join("\n");
        for reason in ["etcd` 3.4.23: it has no", "kwok` 0.7.0: opctl works with 0.8"] {
            assert!(ignored.contains(reason), "{ignored}");
        }
        for reason in ["scheduler`, which reports no version", "1.29.4: opctl needs 1.30"] {
            assert!(ignored.contains(reason), "{ignored}");
        }
    }

    #[test]
    fn another_version_of_kubernetes_is_used_if_it_is_complete() {
        let all = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
        let all = all.map(|file| (file, "Kubernetes v1.33.1"));
        let (complete, _directories) = found(&[&all, &[]]);
        assert_eq!(complete.version(Tool::Scheduler), Some(&Version::new(1, 33, 1)));

        // That of kubebuilder's test environment.
        let (incomplete, _directories) = found(&[&all[..1], &all[1..]]);
        assert_eq!(incomplete.get(Tool::ApiServer), None);
        assert_eq!(incomplete.version(Tool::Scheduler), Some(&Tool::Scheduler.pinned()));
        assert!(incomplete.ignored[0].contains("different versions"), "{incomplete:?}");
        let (replaced, directories) = found(&[&all[..1], &all]);
        let built = directories[1].path().join("kube-apiserver");
        assert_eq!(replaced.get(Tool::ApiServer), Some(built.as_path()));
    }

    #[test]
    fn oldest_etcd_depends_on_its_minor_version() {
        let accepted = |text: &str| streams_lists(&parse(text).unwrap());
        assert!(!accepted("3.3.27") && !accepted("3.4.30") && !accepted("3.5.12"));
        assert!(accepted("3.4.31") && accepted("3.5.13") && accepted("3.6.0") && accepted("4.0.0"));
    }
}
