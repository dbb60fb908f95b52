//! Recipes, from which APIs are scaffolded. They are data: each is a directory below `templates/recipes`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::context::ResourceContext;
use super::templates::TemplateSet;
use crate::error::UserError;
use crate::project::options::{RecipeOptions, flag};
use crate::project::{CRD_RECIPE, EXTERNAL_RECIPE, NAMESPACED, NO_RECIPE};

/// A recipe, as its `recipe.yaml` describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The name of the recipe, which is that of its directory.
    #[serde(skip)]
    pub name: String,
    /// A description in one line.
    pub summary: String,
    /// The kinds for which this recipe is the default.
    pub kinds: Vec<String>,
    /// Whether its controller creates objects in the namespace of the resource, which then must be
    /// namespaced.
    #[serde(default)]
    pub needs_namespace: bool,
    /// The supported options, by their names in `PROJECT`.
    #[serde(default)]
    pub options: Vec<String>,
    /// The required options. If they are set, this recipe is the default.
    #[serde(default)]
    pub requires: Vec<String>,
    /// The crates that its code needs in addition to those of every project: the version requirement
    /// or the inline table of Cargo.toml by the name of the crate.
    #[serde(default)]
    pub dependencies: BTreeMap<String, String>,
    /// The image that its controller runs, if it is always the same.
    #[serde(default)]
    pub related_image: Option<RelatedImage>,
    /// The permissions of the controller.
    pub rules: Vec<Rule>,
}

impl Recipe {
    /// Checks that the recipe supports the scope of a resource.
    ///
    /// # Errors
    /// A [`UserError`] if the recipe needs a namespaced resource and this one is cluster-scoped.
    pub fn check_scope(&self, namespaced: bool) -> Result<()> {
        if namespaced || !self.needs_namespace {
            return Ok(());
        }
        let reason =
            format!("the recipe `{}` creates objects in the namespace of the resource", self.name);
        Err(UserError::invalid_value(NAMESPACED, false, reason)
            .with_hint(format!("omit `--namespaced=false`, or use `--recipe {NO_RECIPE}`"))
            .into())
    }

    fn is_implied_by(&self, options: &RecipeOptions) -> bool {
        let is_given = |name: &String| options.given().any(|given| given.name == name);
        !self.requires.is_empty() && self.requires.iter().all(is_given)
    }

    /// Checks that all options are supported and that all required ones are set. `all` are the recipes to
    /// suggest.
    pub(super) fn check_options(
        &self,
        options: &RecipeOptions,
        all: &[Self],
    ) -> Result<(), UserError> {
        let name = &self.name;
        for given in options.given() {
            if !self.options.iter().any(|option| option == given.name) {
                let error = UserError::usage(format!(
                    "the recipe `{name}` does not support `{}`",
                    flag(given.name)
                ));
                let supports = |recipe: &&Self| recipe.options.iter().any(|o| o == given.name);
                return Err(match all.iter().find(supports) {
                    Some(other) => {
                        let required: Vec<_> = other
                            .requires
                            .iter()
                            .map(|name| format!(" `{}`", flag(name)))
                            .collect();
                        error.with_hint(format!(
                            "omit it, or use `--recipe {}` with{}",
                            other.name,
                            required.join(",")
                        ))
                    }
                    None => error.with_hint("omit it"),
                });
            }
        }
        let is_missing = |name: &&String| options.given().all(|given| given.name != *name);
        match self.requires.iter().find(is_missing) {
            None => Ok(()),
            Some(missing) => {
                let flag = flag(missing);
                Err(UserError::usage(format!("the recipe `{name}` requires `{flag}`")).with_hint(
                    format!(
                        "set `{flag}`, or use another recipe: see `opctl create api --list-recipes`"
                    ),
                ))
            }
        }
    }
}

/// A permission of a controller for one resource.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The API group; that of the reconciled kind if `None`.
    pub group: Option<String>,
    /// The plural, with a subresource after a `/`; `self` stands for the plural of the reconciled kind.
    pub resource: String,
    /// The allowed verbs.
    pub verbs: Vec<String>,
}

/// An image that a controller runs, unless a variable in the environment of the manager names another one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RelatedImage {
    /// The name of the variable; `{KIND}` stands for the kind.
    variable: String,
    /// The image; that of the options if it is empty.
    #[serde(default)]
    image: String,
}

/// The images of all controllers, by variable. Those of kinds that share a variable but no image are left out:
/// the variable would change the image of all of them.
pub(super) fn related_images<'a>(
    controllers: impl IntoIterator<Item = (&'a ResourceContext, &'a Recipe)>,
) -> Vec<RelatedImage> {
    let mut images: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (owner, recipe) in controllers {
        let Some(related) = &recipe.related_image else { continue };
        let image = match (related.image.as_str(), owner.image()) {
            ("", Some(image)) => image,
            ("", None) => continue,
            (image, _) => image,
        };
        let variable = related.variable.replace("{KIND}", &owner.kind.to_ascii_uppercase());
        images.entry(variable).or_default().insert(image.to_owned());
    }
    let unique = images.into_iter().filter(|(_, images)| images.len() == 1);
    let related = |(variable, mut images): (String, BTreeSet<String>)| {
        images.pop_first().map(|image| RelatedImage { variable, image })
    };
    unique.filter_map(related).collect()
}

impl TemplateSet {
    /// All recipes that a user can choose, by name.
    pub fn recipes(&self) -> Result<Vec<Recipe>> {
        let names = self
            .names()
            .filter_map(recipe_of)
            .filter(|name| ![CRD_RECIPE, EXTERNAL_RECIPE].contains(name));
        names.filter_map(|name| self.find_recipe(name).transpose()).collect()
    }

    /// The recipe with this name, if it exists.
    pub fn find_recipe(&self, name: &str) -> Result<Option<Recipe>> {
        let path = format!("recipes/{name}/recipe.yaml");
        let Some(source) = self.source(&path) else { return Ok(None) };
        let recipe: Recipe = serde_yaml::from_str(source).with_context(|| path)?;
        Ok(Some(Recipe { name: name.to_owned(), ..recipe }))
    }

    /// Chooses a recipe: the requested one, else the one that the options imply, else the default of the
    /// kind, else the empty one.
    ///
    /// # Errors
    /// A [`UserError`] if the requested recipe does not exist, or if it does not support the options.
    pub fn choose_recipe(
        &self,
        requested: Option<&str>,
        kind: &str,
        options: &RecipeOptions,
    ) -> Result<Recipe> {
        let mut recipes = self.recipes()?;
        let find = |name: &str| recipes.iter().position(|recipe| recipe.name == name);
        let implied = || recipes.iter().position(|recipe| recipe.is_implied_by(options));
        let default = || recipes.iter().position(|recipe| recipe.kinds.iter().any(|k| k == kind));
        let position = match requested {
            Some(name) => find(name).ok_or_else(|| {
                let names: Vec<&str> = recipes.iter().map(|recipe| recipe.name.as_str()).collect();
                UserError::invalid_value("--recipe <NAME>", name, "unknown recipe")
                    .with_hint(format!("use one of {}", names.join(", ")))
            })?,
            None => {
                let position = implied().or_else(default).or_else(|| find(NO_RECIPE));
                position.with_context(|| format!("no recipe `{NO_RECIPE}`"))?
            }
        };
        recipes[position].check_options(options, &recipes)?;
        Ok(recipes.swap_remove(position))
    }
}

fn recipe_of(template: &str) -> Option<&str> {
    template.strip_prefix("recipes/")?.strip_suffix("/recipe.yaml")
}

/// A rule of role.yaml.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PolicyRule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

/// The rules of all controllers, merged and sorted as `make manifests` of the generated project does.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn related_images_are_those_of_the_controllers() {
        let set = TemplateSet::current();
        for recipe in set.recipes().unwrap() {
            let controller = format!("recipes/{}/controller.rs.tera", recipe.name);
            let controller = set.source(&controller).unwrap();
            let Some(RelatedImage { variable, image }) = recipe.related_image else {
                // That of postgres depends on the version, so that the variable is a pattern.
                assert!(!controller.contains("RELATED_IMAGE"), "{}", recipe.name);
                continue;
            };
            let variable = variable.replace("{KIND}", "<$ resource.kind | upper $>");
            assert!(controller.contains(&format!("\"{variable}\"")), "{variable}");
            assert!(controller.contains(&image), "{image}");
        }
    }
}
