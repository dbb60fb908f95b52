//! `opctl audit`: the permissions of the operator and its requests.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use anyhow::Result;
use clap::Args;

use super::Format;
use crate::audit::{self, Audit, Manifest, SERVICE_ACCOUNT};
use crate::error::UserError;
use crate::project;
use crate::ui::Ui;

/// The directory of the manifests, seen from the root of a project.
const MANIFESTS: &str = "config/rbac";

/// Compare the permissions of the operator with its requests
#[derive(Debug, Args)]
#[command(
    long_about = "Compare the permissions of the operator with its requests.\n\n\
        The permissions are those of the roles that config/rbac binds to the service account \
        `controller-manager`. The requests are read from the audit log of an API server on which \
        the tests of the project ran with this service account. A permission is `used`, or \
        `UNUSED` if there was no request that needs it; a wildcard is always unused. A request \
        that the API server refused is `REFUSED`. The exit code is 1 if any permission is unused \
        or refused.",
    after_help = "Examples:\n  \
        opctl cluster run -- sh -ec 'cargo test; opctl audit'\n  \
        opctl audit --audit-log audit.log --output json"
)]
pub(super) struct AuditArgs {
    /// Audit log of the API server [default: $OPCTL_AUDIT_LOG, which `opctl cluster run` sets]
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

impl AuditArgs {
    pub fn run(self, ui: Ui) -> Result<ExitCode> {
        let directory = super::directory()?;
        let manifests = manifests(&project_root(&directory)?)?;
        let requests = audit::requests(&read_log(self.audit_log)?);
        let audit = audit::compare(audit::granted(&manifests), &requests);
        match self.output {
            Format::Json => ui.data(format!("{:#}", serde_json::to_value(&audit)?))?,
            Format::Text => print(&audit, ui)?,
        }
        if audit.is_exact() {
            return Ok(ExitCode::SUCCESS);
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
    let error = |path: &Path, reason: &dyn std::fmt::Display| {
        UserError::failure(format!("cannot read `{}`: {reason}", path.display()))
    };
    let directory = root.join(MANIFESTS);
    let entries = fs::read_dir(&directory).map_err(|reason| {
        error(&directory, &reason).with_hint("restore the directory, which `opctl init` created")
    })?;
    let mut manifests = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path).map_err(|reason| error(&path, &reason))?;
            manifests.extend(audit::parse(&text).map_err(|reason| error(&path, &reason))?);
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
