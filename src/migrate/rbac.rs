//! The permissions of a Go project: the markers of its controllers, as comments beside the reconcilers.

use std::collections::BTreeMap;

use anyhow::Result;

use super::files::Files;
use crate::project::{Project, Resource, builtin, names::Module};
use crate::render::{RenderedFile, Tree, controllers as render_controllers};
use crate::text::visible;

/// The line of a generated controller that the comments come before.
const ANCHOR: &str = "/// The permissions of the controller;";
/// The beginning of a marker.
const MARKER: &str = "+kubebuilder:rbac:";
/// The width of a comment's lines.
const WIDTH: usize = 100;

/// A marker, such as `+kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    fields: BTreeMap<String, Vec<String>>,
}

impl Rule {
    /// Reads a line of Go.
    fn parse(line: &str) -> Option<Self> {
        let marker = line.trim().strip_prefix("//")?.trim_start().strip_prefix(MARKER)?;
        let (mut fields, mut rest) = (BTreeMap::new(), marker.trim());
        while let Some((name, after)) = rest.split_once('=') {
            let (value, next) = match after.strip_prefix('"').and_then(|text| text.split_once('"'))
            {
                Some((quoted, next)) => (quoted, next.trim_start_matches(',')),
                None => after.split_once(',').unwrap_or((after, "")),
            };
            let values = value.trim_matches(['{', '}']).split([';', ',']);
            let values = values.map(|text| visible(text.trim().trim_matches('"')).into_owned());
            fields.insert(name.trim().to_owned(), values.collect());
            rest = next;
        }
        fields.contains_key("verbs").then_some(Self { fields })
    }

    fn field(&self, name: &str) -> &[String] {
        self.fields.get(name).map_or(&[], Vec::as_slice)
    }

    /// The rule as lines of Rust, one for each resource of each group.
    fn lines(&self, project: &Project, owner: &Resource) -> Vec<String> {
        let verbs = quoted(self.field("verbs"), "");
        let is_plain =
            self.fields.keys().all(|k| ["groups", "resources", "verbs"].contains(&k.as_str()));
        let mut lines = Vec::new();
        for group in self.field("groups") {
            // The empty group is also written as `core`.
            let group = if group == "core" { "" } else { group };
            for resource in self.field("resources") {
                let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                let path = path_of(project, owner, group, plural).filter(|_| is_plain);
                lines.push(match (path, subresource) {
                    (Some(path), "") => format!("rule::<{path}>(&[{verbs}]),"),
                    (Some(path), name) => {
                        format!("subresource_rule::<{path}>({name:?}, &[{verbs}]),")
                    }
                    (None, _) => policy_rule(&[
                        ("api_groups", &[group.to_owned()]),
                        ("resources", std::slice::from_ref(resource)),
                        ("resource_names", self.field("resourceNames")),
                        ("verbs", self.field("verbs")),
                    ]),
                });
            }
        }
        if !self.field("urls").is_empty() {
            lines.push(policy_rule(&[
                ("non_resource_urls", self.field("urls")),
                ("verbs", self.field("verbs")),
            ]));
        }
        lines
    }
}

/// A rule for what has no type in Rust, on several lines.
fn policy_rule(fields: &[(&str, &[String])]) -> String {
    let mut text = "PolicyRule {\n".to_owned();
    for (name, values) in fields.iter().filter(|(_, values)| !values.is_empty()) {
        let list = format!("vec![{}]", quoted(values, ".into()"));
        let list = if *name == "verbs" { list } else { format!("Some({list})") };
        text.push_str(&format!("    {name}: {list},\n"));
    }
    text + "    ..PolicyRule::default()\n},"
}

/// The values as literals, each with an `end`.
fn quoted(values: &[String], end: &str) -> String {
    let quoted: Vec<String> = values.iter().map(|text| format!("{text:?}{end}")).collect();
    quoted.join(", ")
}

/// The Rust path of a type, seen from the controller of `owner`.
fn path_of(project: &Project, owner: &Resource, group: &str, plural: &str) -> Option<String> {
    let is_type = |r: &&Resource| r.api.is_some() && r.api_group() == group && r.plural() == plural;
    let stored = |r: &&Resource| {
        project.storage(&r.group, &r.kind).is_some_and(|storage| storage.version == r.version)
    };
    if let Some(own) = project.resources.iter().filter(is_type).find(stored) {
        return Some(match own.group == owner.group && own.version == owner.version {
            true => format!("{}::{}", own.version, own.kind),
            false => format!(
                "crate::api::{}::{}::{}",
                Module::of_group(&own.group).ident,
                own.version,
                own.kind
            ),
        });
    }
    let (kind, version) = builtin::kind_of(group, plural)?;
    let mut all = builtin::all();
    let (core, _) = all
        .find(|(core, k)| core.api_group() == group && core.version == version && k.kind == kind)?;
    Some(format!("{}::{kind}", core.module))
}

/// The markers of each Go source.
pub fn rules(files: &Files) -> BTreeMap<String, Vec<Rule>> {
    let sources = files.texts("", ".go").filter(|(path, _)| !path.ends_with("_test.go"));
    let sources = sources.map(|(path, text)| {
        let rules: Vec<Rule> = text.lines().filter_map(Rule::parse).collect();
        (path.to_owned(), rules)
    });
    sources.filter(|(_, rules)| !rules.is_empty()).collect()
}

/// Whether a Go source is the controller of a kind, as kubebuilder names it.
pub fn is_of(path: &str, project: &Project, resource: &Resource) -> bool {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let directory = parts.next().unwrap_or_default();
    let kind = resource.kind.to_lowercase();
    let is_named = name == format!("{kind}_controller.go");
    // In a project with several groups, a group has its directory.
    let groups = project.resources.iter().filter(|r| r.kind == resource.kind).map(|r| &r.group);
    let is_ambiguous = groups.clone().any(|group| *group != resource.group)
        && groups.clone().any(|group| group == directory);
    is_named && (!is_ambiguous || directory == resource.group)
}

/// The controllers with the rules of their Go sources as comments.
pub fn controllers(project: &Project, rules: &BTreeMap<String, Vec<Rule>>) -> Result<Tree> {
    let mut tree = Tree::new();
    for (resource, path, file) in render_controllers(project)? {
        let of_kind = rules.iter().filter(|(path, _)| is_of(path, project, resource));
        let mut lines: Vec<String> =
            of_kind.flat_map(|(_, rules)| rules).flat_map(|r| r.lines(project, resource)).collect();
        let mut seen = std::collections::BTreeSet::new();
        lines.retain(|line| seen.insert(line.clone()));
        if lines.is_empty() {
            continue;
        }
        let mut comment = "// The permissions of the Go project, by its markers. Move those to `rules` that the reconciler uses:\n\
                           // `make rbac-audit` reports each one that it does not.\n//\n"
            .to_owned();
        for line in lines.iter().flat_map(|line| broken(line)) {
            comment.push_str(&format!("//     {line}\n"));
        }
        let text = file.text.replacen(ANCHOR, &format!("{comment}\n{ANCHOR}"), 1);
        tree.insert(path, RenderedFile { text: text.into(), ..file });
    }
    Ok(tree)
}

/// A rule on one line, or as rustfmt breaks its verbs.
fn broken(line: &str) -> Vec<String> {
    match line.split_once("(&[") {
        Some((call, verbs)) if !line.contains('\n') && line.len() + "//     ".len() > WIDTH => {
            let verbs = verbs.trim_end_matches("]),");
            vec![format!("{call}(&["), format!("    {verbs},"), "]),".to_owned()]
        }
        _ => line.lines().map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_read_as_controller_gen_reads_them() {
        let rule = Rule::parse(
            "\t// +kubebuilder:rbac:groups=\"\";apps,resources=pods;pods/log,resourceNames=a,verbs=get;list",
        )
        .unwrap();
        assert_eq!(rule.field("groups"), [""]);
        let rule =
            Rule::parse("//+kubebuilder:rbac:groups=apps;batch,resources=jobs,verbs=get;list")
                .unwrap();
        assert_eq!(rule.field("groups"), ["apps", "batch"]);
        assert_eq!(rule.field("verbs"), ["get", "list"]);
        assert_eq!(Rule::parse("// +kubebuilder:object:root=true"), None);
        assert_eq!(Rule::parse("+kubebuilder:rbac:groups=apps,verbs=get"), None);
    }
}
