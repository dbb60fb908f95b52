//! What an image was built from.

use std::env;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use humantime::format_rfc3339_seconds;
use serde_json::{Map, Value};

use crate::error::UserError;
use crate::project::{License, Project};
use crate::toolchain;

/// The time of everything in an image (<https://reproducible-builds.org/specs/source-date-epoch/>).
const TIME: &str = "SOURCE_DATE_EPOCH";

/// The annotation with the time of an image.
pub const CREATED: &str = "org.opencontainers.image.created";

/// What an image was built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// When, in seconds since 1970: the time of the last commit, so that the same sources are the same image.
    pub time: u64,
    /// The commit, if the sources are in a repository of git.
    pub revision: Option<Revision>,
    version: Option<String>,
    /// The name of the project, and of its package.
    pub title: String,
    license: License,
}

/// A commit of git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Its hash.
    pub commit: String,
    /// Whether the sources have changes that no commit has.
    pub is_dirty: bool,
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.commit, if self.is_dirty { "-dirty" } else { "" })
    }
}

impl Source {
    /// What is known of the sources in a directory.
    ///
    /// # Errors
    /// A [`UserError`] if `SOURCE_DATE_EPOCH` is no time.
    pub fn of(root: &Path, project: &Project) -> Result<Self, UserError> {
        let git = |args: &[&str]| output(root, Command::new("git"), args);
        let time = match env::var(TIME) {
            Ok(time) => Some(time),
            Err(_) => git(&["log", "-1", "--format=%ct"]),
        };
        let time = time.map_or(Ok(0), |time| time.parse()).ok().filter(|time| *time < MAX_TIME);
        let time = time.ok_or_else(|| {
            UserError::usage(format!("{TIME} is not a number of seconds since 1970"))
        })?;
        let is_dirty = git(&["status", "--porcelain"]).is_some();
        let revision = git(&["rev-parse", "HEAD"]).map(|commit| Revision { commit, is_dirty });
        let id = output(root, toolchain::cargo(), &["pkgid"]);
        let version = id.and_then(|id| Some(id.rsplit(['#', '@']).next()?.to_owned()));
        let (title, license) = (project.project_name.clone(), project.license());
        Ok(Self { time, revision, version, title, license })
    }

    /// The time as images have it.
    pub fn created(&self) -> String {
        format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(self.time)).to_string()
    }

    /// What an image tells of its sources
    /// (<https://github.com/opencontainers/image-spec/blob/v1.1.1/annotations.md>).
    pub fn annotations(&self) -> Map<String, Value> {
        let license = match self.license {
            License::Apache2 => Some("Apache-2.0".to_owned()),
            License::Mit => Some("MIT".to_owned()),
            License::None => None,
        };
        let annotations = [
            ("created", Some(self.created())),
            ("licenses", license),
            ("revision", self.revision.as_ref().map(Revision::to_string)),
            ("title", Some(self.title.clone())),
            ("version", self.version.clone()),
        ];
        let known = annotations.into_iter().filter_map(|(name, value)| Some((name, value?)));
        known
            .map(|(name, value)| (format!("org.opencontainers.image.{name}"), value.into()))
            .collect()
    }
}

/// The first second that RFC 3339 has no year for, 10000-01-01.
const MAX_TIME: u64 = 253_402_300_800;

/// What a program prints, if it works and prints anything.
fn output(root: &Path, mut program: Command, args: &[&str]) -> Option<String> {
    let output = program.args(args).current_dir(root).stderr(Stdio::null()).output();
    let output = output.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
