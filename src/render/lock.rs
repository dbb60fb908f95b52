//! `Cargo.lock`: the template pins all packages, the project's own among them under its name.

/// Sorts the packages of a lock file by name, as cargo does, so that `cargo build --locked` finds
/// nothing to change whatever the project's name is.
pub fn sorted(lock: &str) -> String {
    let (head, packages) = split(lock);
    let mut packages: Vec<&str> = packages.collect();
    // Packages that share a name are in cargo's order already: the sort is stable.
    packages.sort_by_key(|package| name(package));
    let mut sorted = head.to_owned();
    for package in packages {
        sorted.push_str(PACKAGE);
        sorted.push_str(package.trim_end());
        sorted.push('\n');
    }
    sorted
}

/// The names of the packages of a lock file.
pub fn names(lock: &str) -> impl Iterator<Item = &str> {
    split(lock).1.filter_map(name)
}

const PACKAGE: &str = "\n[[package]]\n";

fn split(lock: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut parts = lock.split(PACKAGE);
    (parts.next().unwrap_or_default(), parts)
}

fn name(package: &str) -> Option<&str> {
    package.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
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
    fn the_project_goes_where_its_name_belongs() {
        let root = "\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\ndependencies = [\n \"c 1.0.0\",\n]\n";
        let with_root = sorted(&format!("{LOCK}{root}"));
        assert_eq!(names(&with_root).collect::<Vec<_>>(), ["a", "b", "c", "c"]);
        assert_eq!(with_root.replace(root, ""), LOCK);
    }
}
