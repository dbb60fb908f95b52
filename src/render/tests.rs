//! Tests of the renderer with a small set of templates.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::templates::TABLE;
use super::*;
use crate::project::options::RecipeOptions;
use crate::project::{ApiRequest, CRD_RECIPE, EXTERNAL_RECIPE, Gvk};

/// A command that installs opctl from elsewhere fails as long as opctl is not published there.
#[test]
fn templates_take_the_install_command_from_its_constant() {
    let set = TemplateSet::current();
    let names = set.names().filter(|name| set.source(name).unwrap().contains("cargo install"));
    // The workflow installs what the user has named.
    assert_eq!(names.collect::<Vec<_>>(), ["project/.github/workflows/test.yml.tera"]);
}

/// Every template has a row in the table, and every row has its template, for each recipe.
#[test]
fn table_lists_exactly_the_templates() {
    let set = TemplateSet::current();
    let mut recipes = set.recipes().unwrap();
    recipes.push(set.find_recipe(CRD_RECIPE).unwrap().unwrap());
    let mut expected = BTreeSet::from([TABLE.to_owned()]);
    for recipe in &recipes {
        let files = set.files().unwrap();
        for file in files.iter().filter(|file| file.copy_of.is_none()) {
            let template = file.template().replace("{recipe}", &recipe.name);
            match template.split_once("{part}") {
                Some((before, after)) => {
                    let part = |name: &&str| name.starts_with(before) && name.ends_with(after);
                    expected.extend(set.names().filter(part).map(str::to_owned));
                }
                None => _ = expected.insert(template),
            }
        }
        expected.extend(
            ["recipe.yaml", "crd_version.yaml.tera"]
                .map(|file| format!("recipes/{}/{file}", recipe.name)),
        );
    }
    // External and core types have no API file.
    expected.extend(
        ["recipe.yaml", "controller.rs.tera", "test.rs.tera"]
            .map(|file| format!("recipes/{EXTERNAL_RECIPE}/{file}")),
    );
    let actual: BTreeSet<String> = set.names().map(str::to_owned).collect();
    assert_eq!(
        actual.difference(&expected).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "templates without a row"
    );
    assert_eq!(
        expected.difference(&actual).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "rows without a template"
    );
}

const FILES: &str = "\
- { template: once, path: once, ownership: generated }
- { template: mit, path: LICENSE, ownership: scaffolded, license: mit }
- { template: group, path: '{group_file}/mod.rs', ownership: generated, per: group }
- { template: version, path: '{group_file}/{version}.rs', ownership: generated, per: version }
- { template: crd, path: '{api_group}_{plural}.yaml', ownership: derived, per: crd }
- { template: controller, path: '{kind_file}', ownership: scaffolded, per: controller }
- template: recipes/{recipe}/controller/{part}.tera
  path: '{kind_file}_parts/{part}'
  ownership: scaffolded
  per: controller-part
- { template: 'recipes/{recipe}/x', path: '{version}/{kind_lower}', ownership: scaffolded, per: resource }
";

fn leaked(sources: &[(&str, &'static str)]) -> &'static TemplateSet {
    let sources = sources.iter().map(|(name, source)| ((*name).to_owned(), *source));
    Box::leak(Box::new(TemplateSet::new(sources)))
}

fn set() -> &'static TemplateSet {
    let sources = [
        (TABLE, FILES),
        (
            "once",
            "<$ header_hash $><% for rule in rules %><$ rule.resources | join(sep=\",\") $> <$ rule.verbs | join(sep=\",\") $>;<% endfor %>",
        ),
        ("mit", "MIT"),
        ("group", "<$ header $><% for v in group.versions %>pub mod <$ v.module $>;\n<% endfor %>"),
        ("version", "<% for r in version.resources %><$ r.kind_module $> <% endfor %>"),
        ("crd", "<% for v in versions %><$ v.name $>=<$ v.yaml $> <% endfor %>"),
        ("controller", "<$ resource.version $>"),
        ("recipes/none/x", "<$ project.name | yaml $> <$ resource.singular $>"),
        ("recipes/none/controller/start.sh.tera", "<$ resource.kind $>"),
        ("recipes/none/crd_version.yaml.tera", "<$ resource.storage $>"),
        (
            "recipes/none/recipe.yaml",
            "{summary: s, kinds: [], rules: [{resource: self/status, verbs: [patch]}, {resource: self, verbs: [watch, list]}, {group: apps, resource: deployments, verbs: [list]}]}",
        ),
    ];
    leaked(&sources)
}

fn with_api(project: Project, group: &str, version: &str, kind: &str) -> Project {
    let request = ApiRequest { gvk: Gvk::new(group, version, kind), ..ApiRequest::default() };
    project.with_api(&project.check_api(request).unwrap()).unwrap()
}

#[test]
fn model_is_rendered_to_a_tree() {
    let project = Project::new("on".to_owned());
    let project = with_api(
        with_api(with_api(project, "a-b", "v10", "Type"), "a-b", "v2", "Type"),
        "a-b",
        "v2",
        "Crate",
    );
    let tree = Renderer::new(set()).unwrap().render(&project).unwrap();
    let actual: Vec<(&str, &str)> =
        tree.iter().map(|(path, file)| (path.as_str(), &*file.text)).collect();
    assert_eq!(
        actual,
        [
            ("a-b.my.domain_crates.yaml", "v2=true "),
            ("a-b.my.domain_types.yaml", "v2=true v10=false "),
            (
                "a_b/mod.rs",
                "// Copyright The on Authors\n// SPDX-License-Identifier: Apache-2.0\n\npub mod v10;\npub mod v2;\n"
            ),
            ("a_b/v10.rs", "r#type "),
            ("a_b/v2.rs", "crate_ r#type "),
            ("crate_", "v2"),
            ("crate__parts/start.sh", "Crate"),
            (
                "once",
                "# Copyright The on Authors\n# SPDX-License-Identifier: Apache-2.0\ncrates,types list,watch;crates/status,types/status patch;deployments list;"
            ),
            ("type", "v2"),
            ("type_parts/start.sh", "Type"),
            ("v10/type", "\"on\" type"),
            ("v2/crate", "\"on\" crate"),
            ("v2/type", "\"on\" type"),
        ]
    );
}

#[test]
fn unknown_variable_is_an_error_that_names_the_template() {
    let table = "[{ template: t, path: t, ownership: generated }]";
    let set = leaked(&[(TABLE, table), ("t", "<$ nosuch $>")]);
    let error = Renderer::new(set).unwrap().render(&Project::new("p".to_owned())).unwrap_err();
    let message = format!("{error:#}");
    assert!(message.contains("`t`") && message.contains("nosuch"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The scalar is one line and is read back as the same string, also if it looks like another type.
    #[test]
    fn yaml_is_read_back(
        name in prop_oneof!["[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", "[0-9._e+-]{1,6}", "(?i)(true|on|yes|y|no|off|null|~)"],
    ) {
        let scalar = yaml(&name).unwrap();
        prop_assert!(!scalar.contains('\n'));
        let read: std::collections::BTreeMap<String, String> = serde_yaml::from_str(&format!("name: {scalar}")).unwrap();
        prop_assert_eq!(&read["name"], &name);
    }
}

#[test]
fn yaml_quotes_strings_that_yaml_1_1_reads_as_other_types() {
    for (name, scalar) in [
        ("cache", "cache"),
        ("a.b-c", "a.b-c"),
        ("on", "\"on\""),
        ("1.5", "\"1.5\""),
        ("2026-11-21", "\"2026-11-21\""),
    ] {
        assert_eq!(yaml(name).unwrap(), scalar);
    }
}

/// A misspelt option could never be set.
#[test]
fn recipes_name_existing_options() {
    let all = RecipeOptions {
        container_command: Some("c".to_owned()),
        container_port: Some("1".to_owned()),
        image: Some("i".to_owned()),
        run_as_user: Some("1".to_owned()),
        ..RecipeOptions::default()
    };
    let known: Vec<&str> = all.given().map(|given| given.name).collect();
    for recipe in TemplateSet::current().recipes().unwrap() {
        assert!(recipe.options.iter().all(|o| known.contains(&o.as_str())), "{recipe:?}");
        assert!(recipe.requires.iter().all(|o| recipe.options.contains(o)), "{recipe:?}");
    }
}

/// The names of the crates under `[dependencies]`.
fn dependencies_of(project: &Project) -> Vec<String> {
    let tree = Renderer::new(TemplateSet::current()).unwrap().render(project).unwrap();
    let manifest = &tree["Cargo.toml"].text;
    let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
    let lines = dependencies.lines().take_while(|line| !line.is_empty());
    lines.map(|line| line.split(['.', ' ']).next().unwrap().to_owned()).collect()
}

#[test]
fn a_recipe_adds_its_dependencies_to_those_of_the_project() {
    let with_recipe = |recipe: &str| {
        let project = Project::new("p".to_owned());
        let request = ApiRequest { gvk: Gvk::new("a", "v1", "Type"), ..ApiRequest::default() };
        let mut checked = project.check_api(request).unwrap();
        checked.recipe = recipe.to_owned();
        dependencies_of(&project.with_api(&checked).unwrap())
    };
    let own = dependencies_of(&Project::new("p".to_owned()));
    assert!(own.is_sorted(), "{own:?}");
    assert_eq!(with_recipe("memcached"), own);

    let all = with_recipe("postgres");
    assert!(all.is_sorted(), "{all:?}");
    let added: Vec<_> = all.iter().filter(|name| !own.contains(name)).collect();
    assert_eq!(added, ["getrandom", "rcgen", "thiserror"]);
    assert_eq!(all.len(), own.len() + added.len());
}

/// Whatever recipes a project combines, each crate is there once, and locked.
#[test]
fn dependencies_of_all_recipes_are_locked_and_not_those_of_every_project() {
    let project = Project::new("p".to_owned());
    let set = TemplateSet::current();
    let recipes = set.recipes().unwrap();
    let dependencies = dependencies::merge(&recipes).unwrap();
    let own = dependencies_of(&project);
    assert!(dependencies.iter().all(|it| !own.contains(&it.name)), "{dependencies:?}");

    let template = set.source(LOCK_TEMPLATE).unwrap();
    let package = lock::project_package(template).unwrap();
    lock::complete(template, package, &dependencies).unwrap();
}
