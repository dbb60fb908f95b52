//! `Cargo.lock`: the template pins all packages, including that of the project.

use anyhow::{Context as _, Result};
use semver::{Version, VersionReq};

use super::dependencies::Dependency;

/// Sorts the packages of a lock file by name, as cargo does, so that `cargo build --locked` accepts the
/// file for every project name.
pub fn sorted(lock: &str) -> String {
    let (head, packages) = split(lock);
    let mut packages: Vec<&str> = packages.collect();
    // The sort is stable: packages that share a name are already in cargo's order.
    packages.sort_by_key(|package| field(package, "name"));
    let mut sorted = head.to_owned();
    for package in packages {
        sorted.push_str(PACKAGE);
        sorted.push_str(package.trim_end());
        sorted.push('\n');
    }
    sorted
}

/// Adds dependencies to those of a package, as cargo writes them: by the name, and by the version, too,
/// where several packages have the name.
///
/// # Errors
/// The lock file has no package for a dependency.
pub fn add_dependencies(lock: &str, package: &str, dependencies: &[Dependency]) -> Result<String> {
    if dependencies.is_empty() {
        return Ok(lock.to_owned());
    }
    let (head, packages) = split(lock);
    let packages: Vec<&str> = packages.collect();
    let mut entries = Vec::new();
    for dependency in dependencies {
        entries.push(entry(&packages, dependency)?);
    }
    let mut changed = head.to_owned();
    for text in packages {
        changed.push_str(PACKAGE);
        match text.split_once(DEPENDENCIES) {
            Some((before, list)) if field(text, "name") == Some(package) => {
                let (list, after) =
                    list.split_once(']').context("a list of dependencies has no end")?;
                let mut lines: Vec<&str> = list.lines().collect();
                lines.extend(entries.iter().map(String::as_str));
                lines.sort_unstable();
                lines.dedup();
                let lines = lines.join("\n");
                changed.push_str(&format!("{before}{DEPENDENCIES}{lines}\n]{after}"));
            }
            _ => changed.push_str(text),
        }
    }
    Ok(changed)
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

/// The names of the packages of a lock file.
pub fn names(lock: &str) -> impl Iterator<Item = &str> {
    split(lock).1.filter_map(|package| field(package, "name"))
}

const PACKAGE: &str = "\n[[package]]\n";
const DEPENDENCIES: &str = "\ndependencies = [\n";

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

    #[test]
    fn a_sorted_lock_is_left_alone() {
        assert_eq!(sorted(LOCK), LOCK);
    }

    #[test]
    fn package_of_the_project_is_sorted_by_name() {
        let root = "\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\ndependencies = [\n \"c 1.0.0\",\n]\n";
        let with_root = sorted(&format!("{LOCK}{root}"));
        assert_eq!(names(&with_root).collect::<Vec<_>>(), ["a", "b", "c", "c"]);
        assert_eq!(with_root.replace(root, ""), LOCK);
    }

    const ROOT: &str =
        "\n[[package]]\nname = \"root\"\nversion = \"0.1.0\"\ndependencies = [\n \"b\",\n]\n";

    fn dependency(name: &str, requirement: &str) -> Dependency {
        Dependency::new(name, requirement).unwrap()
    }

    #[test]
    fn a_dependency_is_written_as_cargo_does() {
        let dependencies = [dependency("a", "1"), dependency("c", "2")];
        let lock = add_dependencies(&format!("{LOCK}{ROOT}"), "root", &dependencies).unwrap();
        let root = ROOT.replace(" \"b\",\n", " \"a\",\n \"b\",\n \"c 2.0.0\",\n");
        assert_eq!(lock, format!("{LOCK}{root}"));
    }

    #[test]
    fn a_dependency_that_is_not_locked_is_an_error() {
        for (dependency, error) in [
            (dependency("a", "2"), "Cargo.lock has no package `a` with a version 2"),
            (dependency("x", "1"), "Cargo.lock has no package `x` with a version 1"),
            (dependency("a", "one"), "`one` is not a version requirement"),
        ] {
            let lock = add_dependencies(LOCK, "root", &[dependency]);
            assert_eq!(lock.unwrap_err().to_string(), error);
        }
    }
}
