//! What has to hold in a whole model: valid names, and no two resources that claim the same.

use std::collections::HashMap;

use super::names::{self, InvalidValue, Module};
use super::{LAYOUT, Project, Resource, builtin, version::ApiVersion};
use crate::error::UserError;

impl Project {
    /// Checks a model that was read from a file that users can edit.
    pub(super) fn check(&self) -> Result<(), UserError> {
        let field = |field: &str, value: &str, result: Result<(), InvalidValue>| {
            result.map_err(|invalid| damaged(format!("`{field}` is `{value}`: {}", invalid.reason)))
        };
        field("domain", &self.domain, names::domain(&self.domain))?;
        field("projectName", &self.project_name, names::project_name(&self.project_name))?;
        field("owner", &self.owner(), names::owner(&self.owner()))?;
        for (i, r) in self.resources.iter().enumerate() {
            let field = |name: &str, value: &str, result| {
                field(&format!("resources[{i}].{name}"), value, result)
            };
            field("group", &r.group, names::group(&r.group))?;
            field("version", &r.version, ApiVersion::parse(&r.version).map(drop))?;
            field("kind", &r.kind, names::kind(&r.kind))?;
            field("plural", &r.plural(), names::plural(&r.plural()))?;
            if r.core {
                builtin::find(&r.gvk()).map_err(|error| damaged(error.to_string()))?;
                continue;
            }
            if r.external {
                field("domain", &r.domain, names::external_api_group(&r.group, &r.domain))?;
                continue;
            }
            field("domain", &r.domain, names::api_group(&r.group, &r.domain))?;
            if r.domain != self.domain {
                return Err(damaged(format!(
                    "`resources[{i}].domain` is `{}`, not the project's domain",
                    r.domain
                )));
            }
        }
        for (i, choice) in self.plugins.opctl.resources.iter().enumerate() {
            for option in choice.options.given() {
                let name = format!("plugins[{LAYOUT}].resources[{i}].options.{}", option.name);
                field(&name, option.value, option.check())?;
            }
        }
        let damage = |error: UserError| damaged(error.to_string());
        self.check_scopes().map_err(damage)?;
        self.check_claims().map_err(damage)
    }

    /// Refuses kinds that the operator could not see.
    pub(super) fn check_scopes(&self) -> Result<(), UserError> {
        match self.resources.iter().find(|r| self.namespaced && !r.namespaced()) {
            Some(r) => Err(UserError::usage(format!(
                "{} is cluster-scoped: the operator of a namespaced project may only read its own namespace",
                r.gvk()
            ))),
            None => Ok(()),
        }
    }

    /// Refuses two resources that claim the same name at the API server or in the Rust code.
    pub(super) fn check_claims(&self) -> Result<(), UserError> {
        let mut claims: HashMap<Claim<'_>, &Resource> = HashMap::new();
        for resource in &self.resources {
            for claim in claims_of(resource) {
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

fn damaged(what: String) -> UserError {
    UserError::failure(format!("PROJECT is damaged: {what}"))
}

/// Something that only one resource, one kind or one group may have.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Claim<'a> {
    /// One version of a kind.
    Resource(&'a str, &'a str, &'a str),
    /// A plural or a singular: the API server keeps both in one list for each group.
    Name(&'a str, String),
    /// A kind or a list kind: likewise.
    Kind(&'a str, String),
    /// A Rust type in a version's module.
    Type(&'a str, &'a str, String),
    /// The Rust module of a group.
    Group(String),
    /// The Rust module of a kind in its group.
    Module(&'a str, String),
}

fn claims_of(r: &Resource) -> impl Iterator<Item = Claim<'_>> {
    let (group, version, kind) = (r.group.as_str(), r.version.as_str(), r.kind.as_str());
    let types =
        ["", "Spec", "Status"].map(|suffix| Claim::Type(group, version, format!("{kind}{suffix}")));
    let singular = kind.to_ascii_lowercase();
    let plural = r.plural();
    let plural = (plural != singular).then_some(Claim::Name(group, plural));
    [
        Claim::Resource(group, version, kind),
        Claim::Name(group, singular),
        Claim::Kind(group, kind.to_owned()),
        Claim::Kind(group, format!("{kind}List")),
        Claim::Group(Module::of_group(group).file),
        Claim::Module(group, Module::of_kind(kind).file),
    ]
    .into_iter()
    .chain(plural)
    .chain(types)
}

impl Claim<'_> {
    fn is_shared_by(&self, a: &Resource, b: &Resource) -> bool {
        let same_kind = a.group == b.group && a.kind == b.kind;
        match self {
            Self::Resource(..) | Self::Type(..) => false,
            Self::Name(..) | Self::Kind(..) | Self::Module(..) => same_kind,
            Self::Group(_) => a.api_group() == b.api_group(),
        }
    }

    fn clash(&self, a: &Resource, b: &Resource) -> UserError {
        let (kind, other) = (&b.kind, &a.kind);
        let (what, hint) = match self {
            Self::Resource(..) => {
                return UserError::failure(format!("the API {} exists already", a.gvk()));
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
                // The short names may be the same.
                let is_short = !a.is_external_or_core() && !b.is_external_or_core();
                let name = |r: &Resource| match r.core || is_short {
                    true => r.group.clone(),
                    false => r.api_group(),
                };
                let hint = match (a.is_external_or_core(), b.is_external_or_core()) {
                    (true, true) => "watch one of them from another project",
                    (false, false) => "use another group",
                    _ => "the project's own group needs another name",
                };
                (
                    format!(
                        "the groups `{}` and `{}` would share the Rust module `{module}`",
                        name(b),
                        name(a)
                    ),
                    hint,
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
        UserError::usage(what).with_hint(hint)
    }
}
