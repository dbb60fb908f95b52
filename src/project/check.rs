//! The checks of a whole model: valid names, and no two resources that claim the same name.

use std::collections::HashMap;

use super::file::{invalid_field, invalid_project};
use super::names::{self, InvalidValue, Module};
use super::{LAYOUT, Project, Resource, builtin, version::ApiVersion};
use crate::error::UserError;

impl Project {
    /// Checks a model that was read from a file, which users can edit.
    pub(super) fn check(&self) -> Result<(), UserError> {
        let owner = self.owner();
        check_field("domain", &self.domain, names::domain)?;
        check_field("projectName", &self.project_name, names::project_name)?;
        check_field("owner", &owner, names::owner)?;
        for (i, resource) in self.resources.iter().enumerate() {
            self.check_resource(&format!("resources[{i}]"), resource)?;
        }
        for (group, module) in &self.plugins.opctl.modules {
            check_field(&format!("plugins[{LAYOUT}].modules[{group}]"), module, names::module)?;
        }
        for (i, choice) in self.plugins.opctl.resources.iter().enumerate() {
            for option in choice.options.given() {
                let name = format!("plugins[{LAYOUT}].resources[{i}].options.{}", option.name);
                check_field(&name, option.value, option.check)?;
            }
        }
        let invalid = |error: UserError| invalid_project(error.to_string());
        self.check_scopes().map_err(invalid)?;
        self.check_claims().map_err(invalid)
    }

    fn check_resource(&self, path: &str, r: &Resource) -> Result<(), UserError> {
        let field = |name: &str| format!("{path}.{name}");
        let parse_version = |version: &str| ApiVersion::parse(version).map(drop);
        check_field(&field("group"), &r.group, names::group)?;
        check_field(&field("version"), &r.version, parse_version)?;
        check_field(&field("kind"), &r.kind, names::kind)?;
        check_field(&field("plural"), &r.plural(), names::plural)?;
        let origins = [r.api.is_some(), r.core, r.external];
        if origins.iter().filter(|is_set| **is_set).count() != 1 {
            return Err(invalid_project(format!(
                "`{path}` must have exactly one of `api`, `core` and `external`"
            )));
        }
        let domain = field("domain");
        let must_be = |expected: &str| InvalidValue::new(format!("must be `{expected}`"));
        let is = |expected: String| {
            move |value: &str| if value == expected { Ok(()) } else { Err(must_be(&expected)) }
        };
        if r.core {
            let (group, kind) =
                builtin::find(&r.gvk()).map_err(|error| invalid_project(error.to_string()))?;
            check_field(&domain, &r.domain, is(group.domain.clone()))?;
            check_field(&field("plural"), &r.plural(), is(kind.plural.clone()))?;
            let namespaced = r.namespaced().to_string();
            return check_field(&field("namespaced"), &namespaced, is(kind.namespaced.to_string()));
        }
        if r.external {
            let check = |domain: &str| names::external_api_group(&format!("{}.{domain}", r.group));
            return check_field(&domain, &r.domain, check);
        }
        check_field(&domain, &r.domain, |domain| names::api_group(&r.group, domain))?;
        check_field(&domain, &r.domain, |domain| {
            if domain == self.domain {
                Ok(())
            } else {
                Err(InvalidValue::new("must be the domain of the project"))
            }
        })
    }

    /// Refuses cluster-scoped resources in a namespaced project.
    pub(super) fn check_scopes(&self) -> Result<(), UserError> {
        match self.resources.iter().find(|r| self.namespaced && !r.namespaced()) {
            Some(r) => Err(UserError::usage(format!(
                "{} is cluster-scoped, and the operator of a namespaced project can read only its own namespace",
                r.gvk()
            ))),
            None => Ok(()),
        }
    }

    /// Refuses two resources that claim the same name in the API server or in the Rust code.
    pub(super) fn check_claims(&self) -> Result<(), UserError> {
        let mut claims: HashMap<Claim, &Resource> = HashMap::new();
        for resource in &self.resources {
            for claim in claims_of(self, resource) {
                let Some(other) = claims.get(&claim) else {
                    claims.insert(claim, resource);
                    continue;
                };
                if !claim.is_shared_by(other, resource) {
                    return Err(claim.clash(other, resource));
                }
            }
        }
        Ok(())
    }
}

/// Checks a field of `PROJECT`, which is given by its path.
fn check_field(
    path: &str,
    value: &str,
    check: impl FnOnce(&str) -> Result<(), InvalidValue>,
) -> Result<(), UserError> {
    check(value).map_err(|invalid| invalid_field(path, value, &invalid.reason))
}

/// A name that only one resource, one kind or one group may have.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Claim {
    /// One version of a kind in an API group.
    Resource(String, String, String),
    /// A plural or a singular, which share a namespace in each API group.
    Name(String, String),
    /// A kind or a list kind, which share a namespace in each API group.
    Kind(String, String),
    /// A Rust type in a version's module.
    Type(String, String, String),
    /// The Rust module of a group.
    Group(String),
    /// The Rust module of a kind in its group.
    Module(String, String),
}

fn claims_of(project: &Project, r: &Resource) -> impl Iterator<Item = Claim> {
    let (version, kind) = (r.version.as_str(), r.kind.as_str());
    let group = || r.api_group();
    let types = ["", "Spec", "Status"]
        .map(|suffix| Claim::Type(group(), version.to_owned(), format!("{kind}{suffix}")));
    let singular = kind.to_ascii_lowercase();
    let plural = r.plural();
    let plural = (plural != singular).then(|| Claim::Name(group(), plural));
    [
        Claim::Resource(group(), version.to_owned(), kind.to_owned()),
        Claim::Name(group(), singular),
        Claim::Kind(group(), kind.to_owned()),
        Claim::Kind(group(), format!("{kind}List")),
        Claim::Group(project.module(r).file),
        Claim::Module(group(), Module::of_kind(kind).file),
    ]
    .into_iter()
    .chain(plural)
    .chain(types)
}

impl Claim {
    fn is_shared_by(&self, a: &Resource, b: &Resource) -> bool {
        let same_kind = a.is_same_kind(b);
        match self {
            Self::Resource(..) | Self::Type(..) => false,
            Self::Name(..) | Self::Kind(..) | Self::Module(..) => same_kind,
            Self::Group(_) => a.api_group() == b.api_group(),
        }
    }

    fn clash(&self, a: &Resource, b: &Resource) -> UserError {
        let (kind, other) = (&b.kind, &a.kind);
        let (message, hint) = match self {
            Self::Resource(..) => {
                return UserError::failure(format!("the API {} already exists", a.gvk()));
            }
            Self::Name(_, name) => (
                format!(
                    "`{kind}` and `{other}` of the group `{}` would share the plural or singular `{name}`",
                    a.group
                ),
                "use another kind, another group, or another plural with `--plural`",
            ),
            Self::Kind(_, name) => (
                format!(
                    "`{kind}` and `{other}` of the group `{}` would share the kind or list kind `{name}`",
                    a.group
                ),
                "use another kind or another group",
            ),
            Self::Type(_, _, name) => (
                format!(
                    "`{kind}` and `{other}` of {}/{} would share the Rust type `{name}`",
                    a.group, a.version
                ),
                "use another kind, another group or another version",
            ),
            Self::Group(module) => {
                let (a, b) = (a.full_group(), b.full_group());
                (
                    format!("the groups `{b}` and `{a}` would share the Rust module `{module}`"),
                    "use another module",
                )
            }
            Self::Module(_, module) => (
                format!(
                    "`{kind}` and `{other}` of the group `{}` would share the file `{module}.rs`",
                    a.group
                ),
                "use another kind or another group",
            ),
        };
        UserError::usage(message).with_hint(hint)
    }
}
