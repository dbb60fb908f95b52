//! Checks a bundle: what OLM requires of every bundle, and what catalogs ask for besides.

mod content;
mod crd;
mod csv;
mod format;
mod operatorhub;
mod practices;
mod removed;
mod v1;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::directory::BundleDirectory;
use super::selector::Selector;
use crate::error::UserError;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// OLM or the catalog refuses the bundle.
    Error,
    /// The bundle could be better.
    Warning,
}

/// What is wrong with a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// How bad it is.
    #[serde(rename = "type")]
    pub level: Level,
    /// What is wrong.
    pub message: String,
}

/// The problems of a bundle.
pub type Problems = Vec<Problem>;

impl Problem {
    fn error(message: impl Into<String>) -> Self {
        Self { level: Level::Error, message: message.into() }
    }

    fn warning(message: impl Into<String>) -> Self {
        Self { level: Level::Warning, message: message.into() }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// What a user says of the cluster that a bundle is for.
#[derive(Debug, Default)]
pub struct Values {
    /// The version of Kubernetes.
    pub kubernetes: Option<semver::Version>,
}

impl Values {
    /// The values of `--optional-values`.
    ///
    /// # Errors
    /// If a version is none.
    pub fn parse(values: &BTreeMap<String, String>) -> Result<Self, UserError> {
        let Some(text) = values.get("k8s-version") else { return Ok(Self::default()) };
        match removed::tolerant_version(text) {
            Some(version) => Ok(Self { kubernetes: Some(version) }),
            None => Err(UserError::invalid_value(
                "--optional-values <KEY=VALUE>",
                format!("k8s-version={text}"),
                "must be a version such as `1.34`",
            )),
        }
    }
}

/// A set of checks that a user can select.
pub struct Validator {
    /// Its name.
    pub name: &'static str,
    /// The suite that it is part of.
    pub suite: Option<&'static str>,
    /// What it checks.
    pub description: &'static str,
    check: fn(&BundleDirectory, &Values) -> Problems,
}

/// The suite of operator-sdk.
const SUITE: Option<&str> = Some("operatorframework");

/// The validators that a user can select.
pub static OPTIONAL: [Validator; 7] = [
    Validator {
        name: "operatorhubv2",
        suite: SUITE,
        description: "What OperatorHub.io shows: provider, maintainers, links, version and icon",
        check: |bundle, values| {
            [operatorhub::check(bundle), removed::check(bundle, values)].concat()
        },
    },
    Validator {
        name: "capabilities",
        suite: SUITE,
        description: "The capability level is one of OperatorHub.io",
        check: |bundle, _| operatorhub::capabilities(bundle),
    },
    Validator {
        name: "categories",
        suite: SUITE,
        description: "The categories are those of OperatorHub.io",
        check: |bundle, _| operatorhub::categories(bundle),
    },
    Validator {
        name: "operatorhub",
        suite: None,
        description: "operatorhubv2, capabilities and categories",
        check: |bundle, values| {
            [
                operatorhub::check(bundle),
                operatorhub::capabilities(bundle),
                operatorhub::categories(bundle),
                removed::check(bundle, values),
            ]
            .concat()
        },
    },
    Validator {
        name: "alpha-deprecated-apis",
        suite: SUITE,
        description: "APIs that Kubernetes has removed (--optional-values=k8s-version=1.34)",
        check: removed::check,
    },
    Validator {
        name: "good-practices",
        suite: SUITE,
        description: "Resource requests, channels, the name, descriptions of CRDs, disruption budgets",
        check: |bundle, _| practices::check(bundle),
    },
    Validator {
        name: "olmv1",
        suite: None,
        description: "What OLM v1 refuses is an error, not a warning",
        check: |bundle, _| v1::check(bundle).into_iter().map(Problem::error).collect(),
    },
];

impl Validator {
    fn is_selected(&self, selector: &Selector) -> bool {
        !selector.is_empty()
            && selector.matches(|label| match label {
                "name" => Some(self.name),
                "suite" => self.suite,
                _ => None,
            })
    }
}

/// Checks that a selector selects a validator.
///
/// # Errors
/// If it selects none.
pub fn check_selector(selector: &Selector) -> Result<(), UserError> {
    if selector.is_empty() || OPTIONAL.iter().any(|validator| validator.is_selected(selector)) {
        return Ok(());
    }
    Err(UserError::usage("no optional validator has the labels of `--select-optional`")
        .with_hint("list them with `--list-optional`"))
}

/// The problems of the bundle in a directory: first those that every bundle is checked for, then those of the
/// selected validators.
///
/// # Errors
/// If there is no bundle that can be checked.
pub fn validate(
    directory: &Path,
    selector: &Selector,
    values: &Values,
) -> Result<Problems, UserError> {
    let bundle = BundleDirectory::read(directory)?;
    let mut problems = required(&bundle);
    for validator in OPTIONAL.iter().filter(|validator| validator.is_selected(selector)) {
        let found = (validator.check)(&bundle, values);
        problems.extend(found);
    }
    dedup(&mut problems);
    Ok(problems)
}

/// The problems that every bundle is checked for.
pub fn required(bundle: &BundleDirectory) -> Problems {
    let mut problems = format::check(bundle);
    problems.extend(content::check(bundle));
    problems.extend(csv::check(bundle));
    problems.extend(crd::check(bundle));
    problems.extend(v1::check(bundle).into_iter().map(Problem::warning));
    problems
}

/// The problems that any validator finds.
#[cfg(test)]
pub fn all(bundle: &BundleDirectory) -> Problems {
    let optional = OPTIONAL.iter().flat_map(|v| (v.check)(bundle, &Values::default()));
    required(bundle).into_iter().chain(optional).collect()
}

/// Removes what several validators have found, and warnings that are errors too.
fn dedup(problems: &mut Problems) {
    let mut unique: Problems = Vec::new();
    for problem in problems.drain(..) {
        match unique.iter_mut().find(|other| other.message == problem.message) {
            Some(other) => other.level = other.level.min(problem.level),
            None => unique.push(problem),
        }
    }
    *problems = unique;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(selector: &str) -> Vec<&'static str> {
        let selector: Selector = selector.parse().unwrap();
        let selected = OPTIONAL.iter().filter(|validator| validator.is_selected(&selector));
        selected.map(|validator| validator.name).collect()
    }

    #[test]
    fn labels_select_validators() {
        let suite = [
            "operatorhubv2",
            "capabilities",
            "categories",
            "alpha-deprecated-apis",
            "good-practices",
        ];
        assert_eq!(names("suite=operatorframework"), suite);
        assert_eq!(names("name==olmv1"), ["olmv1"]);
        assert_eq!(names("name in (olmv1, categories)"), ["categories", "olmv1"]);
        assert_eq!(
            names("suite=operatorframework, name notin (capabilities,categories)"),
            [suite[0], suite[3], suite[4]]
        );
        assert_eq!(names("suite!=operatorframework"), ["operatorhub", "olmv1"]);
        assert!(names("").is_empty() && names("name=other").is_empty());
        assert!("name".parse::<Selector>().is_err() && "name in (a".parse::<Selector>().is_err());
    }
}
