//! The crates that recipes need in addition to those of every project.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use super::recipes::Recipe;

/// A line of `[dependencies]` in Cargo.toml.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dependency {
    /// The name of the crate.
    pub name: String,
    /// What Cargo.toml has after `=`: a string or an inline table.
    specification: String,
    /// The version requirement.
    #[serde(skip)]
    pub requirement: String,
}

/// The dependencies of all these recipes, sorted by name.
///
/// # Errors
/// A requirement is not one, or two recipes need a crate in different ways.
pub fn merge<'a>(recipes: impl IntoIterator<Item = &'a Recipe>) -> Result<Vec<Dependency>> {
    let mut merged: BTreeMap<&str, (Dependency, &str)> = BTreeMap::new();
    for recipe in recipes {
        for (name, text) in &recipe.dependencies {
            let dependency = Dependency::new(name, text)
                .with_context(|| format!("in the recipe `{}`", recipe.name))?;
            let (known, other) =
                merged.entry(name).or_insert_with(|| (dependency.clone(), &recipe.name));
            ensure!(
                *known == dependency,
                "the recipes `{other}` and `{}` need the crate `{name}` in different ways",
                recipe.name
            );
        }
    }
    Ok(merged.into_values().map(|(dependency, _)| dependency).collect())
}

impl Dependency {
    /// A crate with the version requirement, or the inline table with a `version`, that `text` is.
    pub fn new(name: &str, text: &str) -> Result<Self> {
        let (requirement, specification) = if text.starts_with('{') {
            let version =
                text.split_once("version = \"").and_then(|(_, rest)| rest.split_once('"'));
            let (version, _) = version.with_context(|| format!("`{name}` has no version"))?;
            (version.to_owned(), text.to_owned())
        } else {
            (text.to_owned(), format!("\"{text}\""))
        };
        Ok(Self { name: name.to_owned(), specification, requirement })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(name: &str, dependencies: &[(&str, &str)]) -> Recipe {
        let recipe: Recipe = serde_yaml::from_str("{summary: '', kinds: [], rules: []}").unwrap();
        let dependencies = dependencies.iter();
        Recipe {
            name: name.to_owned(),
            dependencies: dependencies
                .map(|(name, text)| (name.to_string(), text.to_string()))
                .collect(),
            ..recipe
        }
    }

    #[test]
    fn dependencies_of_several_recipes_are_merged_and_sorted() {
        let table = "{ version = \"0.2\", features = [\"std\"] }";
        let recipes = [
            recipe("one", &[("z", "1"), ("b", "0.3")]),
            recipe("two", &[("b", "0.3"), ("a", table)]),
        ];
        let lines: Vec<_> = merge(&recipes)
            .unwrap()
            .into_iter()
            .map(|it| (it.name, it.specification, it.requirement))
            .collect();
        let line = |name: &str, specification: &str, requirement: &str| {
            (name.to_owned(), specification.to_owned(), requirement.to_owned())
        };
        assert_eq!(
            lines,
            [line("a", table, "0.2"), line("b", "\"0.3\"", "0.3"), line("z", "\"1\"", "1")]
        );
    }

    #[test]
    fn different_requirements_of_one_crate_are_an_error() {
        let recipes = [recipe("one", &[("a", "1")]), recipe("two", &[("a", "2")])];
        let error = merge(&recipes).unwrap_err().to_string();
        assert_eq!(error, "the recipes `one` and `two` need the crate `a` in different ways");
    }

    #[test]
    fn a_table_without_a_version_is_an_error() {
        let error = merge(&[recipe("one", &[("a", "{ path = \"a\" }")])]).unwrap_err();
        assert_eq!(format!("{error:#}"), "in the recipe `one`: `a` has no version");
    }
}
