//! `Cargo.lock`: the template pins all packages, including that of the project.

/// Sorts the packages of a lock file by name, as cargo does, so that `cargo build --locked` accepts the
/// file for every project name.
pub fn sorted(lock: &str) -> String {
    let (head, packages) = split(lock);
    let mut packages: Vec<&str> = packages.collect();
    // The sort is stable: packages that share a name are already in cargo's order.
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
    fn package_of_the_project_is_sorted_by_name() {
        let root = "\n[[package]]\nname = \"b\"\nversion = \"0.1.0\"\ndependencies = [\n \"c 1.0.0\",\n]\n";
        let with_root = sorted(&format!("{LOCK}{root}"));
        assert_eq!(names(&with_root).collect::<Vec<_>>(), ["a", "b", "c", "c"]);
        assert_eq!(with_root.replace(root, ""), LOCK);
    }
}
