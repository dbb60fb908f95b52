//! `Cargo.lock`: the template pins all packages. Only that of the project has variables.

use anyhow::{Context as _, Result};
use semver::{Version, VersionReq};

use super::dependencies::Dependency;
use crate::error::UserError;

/// The package of the project in the template of a lock file. tera need not read the others.
///
/// # Errors
/// No package has variables.
pub fn project_package(template: &str) -> Result<&str> {
    let package = split(template).1.find(|package| has_variables(package));
    package.context("no package of Cargo.lock has variables")
}

/// The lock file of a template whose project's package was rendered: with its dependencies, and sorted as by
/// cargo, so that `cargo build --locked` accepts the file for every project name.
///
/// # Errors
/// The lock file has no package for a dependency. A [`UserError`] if a dependency has the name of the project:
/// cargo would write the file differently.
pub fn complete(template: &str, package: &str, dependencies: &[Dependency]) -> Result<String> {
    let (head, packages) = split(template);
    let mut packages: Vec<&str> = packages.filter(|package| !has_variables(package)).collect();
    let package = with_dependencies(package, &packages, dependencies)?;
    let name = field(&package, "name");
    let place = packages.partition_point(|other| field(other, "name") < name);
    if let Some(name) = name
        && packages.get(place).is_some_and(|other| field(other, "name") == Some(name))
    {
        return Err(UserError::usage(format!(
            "invalid project name '{name}': a dependency of the project has the same name"
        ))
        .with_hint("set another name with `--project-name`")
        .into());
    }
    packages.insert(place, &package);
    let mut lock = String::with_capacity(template.len() + package.len());
    lock.push_str(head);
    for package in packages {
        lock.push_str(PACKAGE);
        lock.push_str(package.trim_end());
        lock.push('\n');
    }
    Ok(lock)
}

/// Adds dependencies to those of a package, as cargo writes them: by the name, and by the version, too,
/// where several packages have the name.
fn with_dependencies(
    package: &str,
    packages: &[&str],
    dependencies: &[Dependency],
) -> Result<String> {
    if dependencies.is_empty() {
        return Ok(package.to_owned());
    }
    let entries: Vec<String> =
        dependencies.iter().map(|dependency| entry(packages, dependency)).collect::<Result<_>>()?;
    let (before, list) = package.split_once(DEPENDENCIES).context("no dependencies")?;
    let (list, after) = list.split_once(']').context("a list of dependencies has no end")?;
    let mut lines: Vec<&str> = list.lines().chain(entries.iter().map(String::as_str)).collect();
    lines.sort_unstable();
    lines.dedup();
    let lines = lines.join("\n");
    Ok(format!("{before}{DEPENDENCIES}{lines}\n]{after}"))
}

/// The line of a dependency on one of the packages.
fn entry(packages: &[&str], dependency: &Dependency) -> Result<String> {
    let Dependency { name, requirement, .. } = dependency;
    let versions = packages.iter().filter(|package| field(package, "name") == Some(name));
    let versions: Vec<&str> = versions.filter_map(|package| field(package, "version")).collect();
    let required = VersionReq::parse(requirement)
        .with_context(|| format!("`{requirement}` is not a version requirement"))?;
    let matches = |version: &&&str| Version::parse(version).is_ok_and(|it| required.matches(&it));
    let version = versions.iter().find(matches).with_context(|| {
        format!("Cargo.lock has no package `{name}` with a version {requirement}")
    })?;
    Ok(match versions.len() {
        1 => format!(" \"{name}\","),
        _ => format!(" \"{name} {version}\","),
    })
}

const PACKAGE: &str = "\n[[package]]\n";
const DEPENDENCIES: &str = "\ndependencies = [\n";

fn has_variables(package: &str) -> bool {
    package.contains("<$")
}

fn split(lock: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut parts = lock.split(PACKAGE);
    (parts.next().unwrap_or_default(), parts)
}

/// A string of a package, such as its name.
fn field<'a>(package: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = package.lines();
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "# by cargo\nversion = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"c\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"c\"\nversion = \"2.0.0\"\ndependencies = [\n \"a\",\n]\n";

    const VARIABLES: &str = "\n[[package]]\nname = \"<$ name $>\"\nversion = \"0.1.0\"\n";

    fn complete(package: &str, dependencies: &[(&str, &str)]) -> Result<String> {
        let dependencies: Vec<Dependency> =
            dependencies.iter().map(|(name, it)| Dependency::new(name, it).unwrap()).collect();
        super::complete(&format!("{LOCK}{VARIABLES}"), package, &dependencies)
    }

    #[test]
    fn package_of_the_project_is_the_one_with_variables() {
        let template = format!("{LOCK}{VARIABLES}");
        let package = "name = \"<$ name $>\"\nversion = \"0.1.0\"\n";
        assert_eq!(project_package(&template).unwrap(), package);
        assert!(project_package(LOCK).is_err());
    }

    #[test]
    fn package_of_the_project_is_sorted_by_name() {
        let package = "name = \"b\"\nversion = \"0.1.0\"\ndependencies = [\n \"c 1.0.0\",\n]\n";
        let lock = complete(package, &[]).unwrap();
        let names: Vec<_> = split(&lock).1.filter_map(|package| field(package, "name")).collect();
        assert_eq!(names, ["a", "b", "c", "c"]);
        assert_eq!(lock.replace(&format!("{PACKAGE}{package}"), ""), LOCK);
    }

    #[test]
    fn a_project_has_not_the_name_of_a_dependency() {
        let error = complete("name = \"a\"\nversion = \"0.1.0\"\n", &[]).unwrap_err();
        assert!(error.to_string().starts_with("invalid project name 'a': "), "{error}");
    }

    const ROOT: &str = "name = \"root\"\nversion = \"0.1.0\"\ndependencies = [\n \"b\",\n]\n";

    #[test]
    fn a_dependency_is_written_as_cargo_does() {
        let lock = complete(ROOT, &[("a", "1"), ("c", "2")]).unwrap();
        let root = ROOT.replace(" \"b\",\n", " \"a\",\n \"b\",\n \"c 2.0.0\",\n");
        assert_eq!(lock, format!("{LOCK}{PACKAGE}{root}"));
    }

    #[test]
    fn a_dependency_that_is_not_locked_is_an_error() {
        for (dependency, error) in [
            (("a", "2"), "Cargo.lock has no package `a` with a version 2"),
            (("x", "1"), "Cargo.lock has no package `x` with a version 1"),
            (("a", "one"), "`one` is not a version requirement"),
        ] {
            assert_eq!(complete(ROOT, &[dependency]).unwrap_err().to_string(), error);
        }
    }
}
