//! `opctl audit`: the permissions of the operator and its requests.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fmt, fs};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Format;
use crate::audit::{self, Audit, Defect, Manifest, SERVICE_ACCOUNT};
use crate::error::UserError;
use crate::project::{self, Project};
use crate::ui::Ui;

/// The directory of the manifests, seen from the root of a project.
const MANIFESTS: &str = "config/rbac";

/// Compare the permissions of the operator with its requests, and report known defects
#[derive(Debug, Args)]
#[command(
    long_about = "Compare the permissions of the operator with its requests, and report known defects.\n\n\
        The permissions are those of the roles that config/rbac binds to the service account \
        `controller-manager`. The requests are read from the audit log of an API server on which \
        the tests of the project ran with this service account. A permission is `used`, or \
        `UNUSED` if there was no request that needs it; a wildcard is always unused. A request \
        that the API server refused is `REFUSED`. The exit code is 1 if any permission is unused \
        or refused.\n\n\
        A `DEFECT` is a known defect of what the version of opctl in PROJECT wrote, with what to do about it. \
        opctl has the list, so that no network is needed. With `--defects`, nothing else is checked. \
        The exit code is 4 if there is one, and no permission is unused or refused.",
    after_help = "Examples:\n  \
        opctl cluster run -- sh -ec 'cargo test; opctl audit'\n  \
        opctl audit --audit-log audit.log --output json\n  \
        opctl audit --defects"
)]
pub(super) struct AuditArgs {
    /// Audit log of the API server [default: $OPCTL_AUDIT_LOG, which `opctl cluster run` sets]
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Only report the known defects of what opctl wrote
    #[arg(long, conflicts_with = "audit_log")]
    defects: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

impl AuditArgs {
    pub fn run(self, ui: Ui) -> Result<ExitCode> {
        let root = project_root(&super::directory()?)?;
        let path = root.join(project::FILE);
        let text = fs::read_to_string(&path).map_err(|reason| cannot_read(&path, &reason))?;
        let project = match Project::parse(&text) {
            // The comparison needs none.
            Err(_) if !self.defects => None,
            project => Some(project?),
        };
        let defects = project.as_ref().map(audit::known_defects).unwrap_or_default();
        if self.defects {
            self.print(&Report { audit: None, defects: &defects }, ui)?;
        } else {
            self.compare(&root, &defects, ui)?;
        }
        match project.and_then(|project| defect_error(&project)) {
            None => Ok(ExitCode::SUCCESS),
            Some(error) => Err(error.into()),
        }
    }

    /// Compares the permissions with the requests.
    fn compare(&self, root: &Path, defects: &[&Defect], ui: Ui) -> Result<()> {
        let manifests = manifests(root)?;
        let requests = audit::requests(&read_log(self.audit_log.clone())?);
        let audit = audit::compare(audit::granted(&manifests), &requests);
        self.print(&Report { audit: Some(&audit), defects }, ui)?;
        if audit.is_exact() {
            return Ok(());
        }
        let (unused, refused) = (audit.unused.len(), audit.refused.len());
        let error = UserError::failure(format!(
            "the operator is not permitted exactly what it uses: {refused} refused, {unused} unused"
        ));
        Err(error
            .with_hint(if requests.is_empty() {
                "the audit log has no requests of the operator: run the tests on the same cluster"
            } else {
                "correct the rules next to the reconcilers, or add tests that use them"
            })
            .into())
    }

    fn print(&self, report: &Report<'_>, ui: Ui) -> Result<()> {
        if self.output == Format::Json {
            return ui.data(format!("{:#}", serde_json::to_value(report)?));
        }
        if let Some(audit) = report.audit {
            print(audit, ui)?;
        }
        for Defect { id, problem, action, .. } in report.defects {
            ui.data(format!("{:<8} {id}: {problem}; {action}", "DEFECT"))?;
        }
        Ok(())
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    audit: Option<&'a Audit>,
    defects: &'a [&'a Defect],
}

/// The error of a project that has known defects.
pub(super) fn defect_error(project: &Project) -> Option<UserError> {
    let message = match audit::known_defects(project).len() {
        0 => return None,
        1 => "1 known defect".to_owned(),
        defects => format!("{defects} known defects"),
    };
    let version = &project.cli_version;
    Some(UserError::drift(format!("what opctl {version} wrote has {message}")))
}

fn print(audit: &Audit, ui: Ui) -> Result<()> {
    let results = [("used", &audit.used), ("UNUSED", &audit.unused), ("REFUSED", &audit.refused)];
    for (result, permissions) in results {
        for permission in permissions {
            ui.data(format!("{result:<8} {permission}"))?;
        }
    }
    if audit.is_exact() {
        ui.data("the operator is permitted exactly what it uses")?;
    }
    Ok(())
}

fn cannot_read(path: &Path, reason: &dyn fmt::Display) -> UserError {
    UserError::failure(format!("cannot read `{}`: {reason}", path.display()))
}

/// The nearest directory with a `PROJECT`.
fn project_root(directory: &Path) -> Result<PathBuf, UserError> {
    let mut directories = directory.ancestors();
    let root = directories.find(|directory| directory.join(project::FILE).is_file());
    root.map(Path::to_owned).ok_or_else(|| {
        let directory = directory.display();
        UserError::failure(format!("no PROJECT in {directory} or any parent directory"))
            .with_hint("run the command in a project that `opctl init` created")
    })
}

fn manifests(root: &Path) -> Result<Vec<Manifest>> {
    let directory = root.join(MANIFESTS);
    let entries = fs::read_dir(&directory).map_err(|reason| {
        cannot_read(&directory, &reason)
            .with_hint("restore the directory, which `opctl init` created")
    })?;
    let mut manifests = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path).map_err(|reason| cannot_read(&path, &reason))?;
            manifests.extend(audit::parse(&text).map_err(|reason| cannot_read(&path, &reason))?);
        }
    }
    if !audit::is_bound(&manifests) {
        return Err(UserError::failure(format!(
            "no role in `{}` is bound to the service account `{SERVICE_ACCOUNT}`",
            directory.display()
        ))
        .with_hint("restore role_binding.yaml, which `opctl init` created")
        .into());
    }
    Ok(manifests)
}

fn read_log(path: Option<PathBuf>) -> Result<String, UserError> {
    let variable = || env::var_os("OPCTL_AUDIT_LOG").filter(|path| !path.is_empty());
    let error = match path.or_else(|| variable().map(PathBuf::from)) {
        None => "no audit log: neither `--audit-log` nor OPCTL_AUDIT_LOG is set".to_owned(),
        Some(path) => match fs::read(&path) {
            // User agents are the clients' own words, which need not be UTF-8.
            Ok(bytes) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => format!("cannot read audit log `{}`: {error}", path.display()),
        },
    };
    Err(UserError::failure(error).with_hint("run `make rbac-audit`"))
}
