//! Recipes: what a kind becomes. They are data: a folder below `templates/recipes` is one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::context::ResourceContext;
use super::templates::TemplateSet;
use crate::error::UserError;
use crate::project::options::{RecipeOptions, flag};
use crate::project::{EXTERNAL_RECIPE, NO_RECIPE};

/// A recipe's `recipe.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The name of its folder.
    #[serde(skip)]
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// The kinds that get this recipe unless another is asked for.
    pub kinds: Vec<String>,
    /// Whether its children live in the object's namespace, so that the object needs to have one.
    #[serde(default)]
    pub needs_namespace: bool,
    /// The options that it takes, by their names in `PROJECT`.
    #[serde(default)]
    pub options: Vec<String>,
    /// Those of them that it cannot do without. Where they are given, no other recipe is meant.
    #[serde(default)]
    pub requires: Vec<String>,
    /// What the reconciler may do.
    pub rules: Vec<Rule>,
}

impl Recipe {
    /// Whether the recipe suits a kind with or without namespaces.
    ///
    /// # Errors
    /// A [`UserError`] for a recipe whose children would have nowhere to be.
    pub fn check_scope(&self, namespaced: bool) -> Result<()> {
        if namespaced || !self.needs_namespace {
            return Ok(());
        }
        let recipe = &self.name;
        Err(UserError::usage(format!(
            "`--namespaced` is `false`, but the recipe `{recipe}` makes objects in the namespace of its own"
        ))
        .with_hint(format!("leave out `--namespaced=false`, or use `--recipe {NO_RECIPE}`"))
        .into())
    }
}

impl Recipe {
    fn is_meant_by(&self, options: &RecipeOptions) -> bool {
        let is_given = |name: &String| options.given().any(|given| given.name == name);
        !self.requires.is_empty() && self.requires.iter().all(is_given)
    }

    /// Whether the recipe takes what is told to it, and is told what it needs.
    pub(super) fn check_options(
        &self,
        options: &RecipeOptions,
        all: &[Self],
    ) -> Result<(), UserError> {
        let name = &self.name;
        for given in options.given() {
            if !self.options.iter().any(|option| option == given.name) {
                let error = UserError::usage(format!(
                    "the recipe `{name}` takes no `{}`",
                    flag(given.name)
                ));
                let takes = |recipe: &&Self| recipe.options.iter().any(|o| o == given.name);
                return Err(match all.iter().find(takes) {
                    Some(other) => {
                        let needs: Vec<_> = other
                            .requires
                            .iter()
                            .map(|name| format!(" `{}`", flag(name)))
                            .collect();
                        error.with_hint(format!(
                            "leave it out, or use `--recipe {}` with{}",
                            other.name,
                            needs.join(",")
                        ))
                    }
                    None => error.with_hint("leave it out"),
                });
            }
        }
        let is_missing = |name: &&String| options.given().all(|given| given.name != *name);
        match self.requires.iter().find(is_missing) {
            None => Ok(()),
            Some(missing) => {
                let flag = flag(missing);
                Err(UserError::usage(format!("the recipe `{name}` needs `{flag}`")).with_hint(
                    format!(
                        "give `{flag}`, or use another recipe: `opctl create api --list-recipes`"
                    ),
                ))
            }
        }
    }
}

/// What a reconciler may do with one resource.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The API group; the kind's own one if there is none.
    pub group: Option<String>,
    /// The plural, with a subresource after a `/`; `self` stands for the kind's own plural.
    pub resource: String,
    /// What is allowed.
    pub verbs: Vec<String>,
}

impl TemplateSet {
    /// All recipes of the project's own kinds, by name.
    pub fn recipes(&self) -> Result<Vec<Recipe>> {
        let names = self.names().filter_map(recipe_of).filter(|name| *name != EXTERNAL_RECIPE);
        names.filter_map(|name| self.find_recipe(name).transpose()).collect()
    }

    /// The recipe of this name, if there is one.
    pub fn find_recipe(&self, name: &str) -> Result<Option<Recipe>> {
        let path = format!("recipes/{name}/recipe.yaml");
        let Some(source) = self.source(&path) else { return Ok(None) };
        let recipe: Recipe = serde_yaml::from_str(source).with_context(|| path)?;
        Ok(Some(Recipe { name: name.to_owned(), ..recipe }))
    }

    /// The recipe that is asked for, else the one that the options are for, else the one that knows
    /// the kind, else the empty one.
    ///
    /// # Errors
    /// A [`UserError`] if there is no recipe of the name that is asked for, or if it does not go with
    /// the options.
    pub fn choose_recipe(
        &self,
        asked_for: Option<&str>,
        kind: &str,
        options: &RecipeOptions,
    ) -> Result<Recipe> {
        let mut recipes = self.recipes()?;
        let find = |name: &str| recipes.iter().position(|recipe| recipe.name == name);
        let meant = || recipes.iter().position(|recipe| recipe.is_meant_by(options));
        let known = || recipes.iter().position(|recipe| recipe.kinds.iter().any(|k| k == kind));
        let position = match asked_for {
            Some(name) => find(name).ok_or_else(|| {
                let names: Vec<&str> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
                UserError::usage(format!("`--recipe` is `{name}`: there is no such recipe"))
                    .with_hint(format!("use one of {}", names.join(", ")))
            })?,
            None => {
                let position = meant().or_else(known).or_else(|| find(NO_RECIPE));
                position.context("there is no empty recipe")?
            }
        };
        recipes[position].check_options(options, &recipes)?;
        Ok(recipes.swap_remove(position))
    }
}

fn recipe_of(template: &str) -> Option<&str> {
    template.strip_prefix("recipes/")?.strip_suffix("/recipe.yaml")
}

/// A rule as role.yaml has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PolicyRule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

/// The rules of all controllers, merged and sorted as the generated project's own `make manifests` does.
pub(super) fn merge<'a>(
    rules: impl IntoIterator<Item = (&'a ResourceContext, &'a Rule)>,
) -> Vec<PolicyRule> {
    let mut verbs_of: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for (owner, rule) in rules {
        let group = rule.group.clone().unwrap_or_else(|| owner.api_group.clone());
        let resource = match rule.resource.strip_prefix("self") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                format!("{}{rest}", owner.plural)
            }
            _ => rule.resource.clone(),
        };
        verbs_of.entry((group, resource)).or_default().extend(rule.verbs.iter().cloned());
    }
    let mut resources_of: BTreeMap<(String, BTreeSet<String>), Vec<String>> = BTreeMap::new();
    for ((group, resource), verbs) in verbs_of {
        resources_of.entry((group, verbs)).or_default().push(resource);
    }
    let mut merged: Vec<PolicyRule> = resources_of
        .into_iter()
        .map(|((group, verbs), resources)| PolicyRule {
            api_groups: vec![group],
            resources,
            verbs: verbs.into_iter().collect(),
        })
        .collect();
    merged.sort();
    merged
}
