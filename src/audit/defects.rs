//! The known defects of the templates of earlier versions, and of the runtime that belongs to them.
//!
//! A defect that users should know of gets its entry in the commit that mends it.

use semver::Version;
use serde::Serialize;

use crate::project::Project;

/// A defect of what opctl wrote.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Defect {
    /// The name by which people refer to it.
    pub id: &'static str,
    /// The version that has it no more.
    pub fixed_in: Version,
    /// The recipes that have it; all projects do where none is named.
    pub recipes: &'static [&'static str],
    /// The consequences.
    pub problem: &'static str,
    /// The remedy.
    pub action: &'static str,
}

const UPDATE: &str = "run `opctl update`";

static DEFECTS: [Defect; 7] = [
    Defect {
        id: "object-taken-over",
        fixed_in: Version::new(0, 1, 0),
        recipes: &[],
        problem: "an object of the same name as a child, which another client has just created, is overwritten",
        action: UPDATE,
    },
    Defect {
        id: "role-without-names",
        fixed_in: Version::new(0, 1, 0),
        recipes: &[],
        problem: "`make manifests` drops `resourceNames` and `nonResourceURLs` of rules, so that the role permits more than the code says",
        action: "run `opctl update`, then `make manifests`, and apply the role",
    },
    Defect {
        id: "values-in-events",
        fixed_in: Version::new(0, 1, 0),
        recipes: &[],
        problem: "events and logs contain the values of fields that change, such as variables of containers and the data of ConfigMaps",
        action: "run `opctl update`, and change passwords that were in variables",
    },
    Defect {
        id: "conditions-of-others",
        fixed_in: Version::new(0, 1, 0),
        recipes: &[],
        problem: "where another controller has set a condition, each reconcile sends a patch of the status",
        action: UPDATE,
    },
    Defect {
        id: "pods-of-others",
        fixed_in: Version::new(0, 1, 0),
        recipes: &["image", "memcached", "webserver"],
        problem: "the Service of a Helm release with the name of an object and of its kind also selects the object's pods",
        action: "run `opctl update`, and recreate the objects: the selector of a Deployment cannot be changed",
    },
    Defect {
        id: "postgres-data-loss",
        fixed_in: Version::new(0, 1, 0),
        recipes: &["postgres"],
        problem: "a primary that has lost its volume starts with an empty database if no replica answers, and a replica that was promoted is deleted and copied again",
        action: "back up all databases, then run `opctl update`",
    },
    Defect {
        id: "postgres-backup-names",
        fixed_in: Version::new(0, 1, 0),
        recipes: &["postgres"],
        problem: "the dumps of two databases that differ in `/` and `_` only are one file, with one of them",
        action: UPDATE,
    },
];

/// The defects of a project, by the version that wrote it and its recipes.
pub fn known(project: &Project) -> Vec<&'static Defect> {
    let Ok(version) = Version::parse(&project.cli_version) else { return Vec::new() };
    let recipes = project.resources.iter().map(|resource| project.recipe(resource));
    let recipes: Vec<&str> = recipes.collect();
    let has = |defect: &&Defect| {
        version < defect.fixed_in
            && (defect.recipes.is_empty()
                || recipes.iter().any(|name| defect.recipes.contains(name)))
    };
    DEFECTS.iter().filter(has).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::project::{ApiRequest, Gvk, VERSION};

    fn ids(version: &str, recipe: &str) -> Vec<&'static str> {
        let project = Project::new("my-operator".to_owned());
        let gvk = Gvk::new("apps", "v1", "Thing");
        let mut api = project.check_api(ApiRequest { gvk, ..ApiRequest::default() }).unwrap();
        recipe.clone_into(&mut api.recipe);
        let project = project.with_api(&api).unwrap().with_version(version).unwrap();
        known(&project).into_iter().map(|defect| defect.id).collect()
    }

    #[test]
    fn a_project_has_the_defects_of_its_version_and_its_recipes() {
        let old = ids("0.0.1", "none");
        assert!(old.contains(&"role-without-names"), "{old:?}");
        let is_postgres = |id: &&str| id.starts_with("postgres-");
        assert!(!old.iter().any(is_postgres), "{old:?}");
        let postgres = ids("0.0.1", "postgres");
        assert!(postgres.iter().any(is_postgres) && !postgres.contains(&"pods-of-others"));
        assert!(ids("0.0.1", "webserver").contains(&"pods-of-others"));
        assert_eq!(ids(VERSION, "postgres"), [""; 0]);
    }

    #[test]
    fn each_defect_has_a_name_of_its_own_and_a_fix() {
        let ids: BTreeSet<&str> = DEFECTS.iter().map(|defect| defect.id).collect();
        assert_eq!(ids.len(), DEFECTS.len());
        let current = Version::parse(VERSION).unwrap();
        assert!(DEFECTS.iter().all(|defect| defect.fixed_in <= current));
    }
}
