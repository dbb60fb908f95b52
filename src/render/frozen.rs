//! The templates of earlier releases, which updates begin with.

#[cfg(test)]
mod pack;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use anyhow::{Context, Result};
use flate2::read::GzDecoder;
use tar::Archive;

use super::TemplateSet;
use crate::project::VERSION;

/// What the build script has packed.
static ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/frozen.tar.gz"));

impl TemplateSet {
    /// The versions whose templates this opctl has.
    ///
    /// # Errors
    /// If the build script has packed none that can be unpacked.
    pub fn versions() -> Result<BTreeSet<String>> {
        Ok(frozen()?.into_keys().chain([VERSION.to_owned()]).collect())
    }

    /// The templates of a release, if this opctl has them. They live as long as the process.
    ///
    /// # Errors
    /// If the build script has packed none that can be unpacked.
    pub fn of(version: &str) -> Result<Option<&'static Self>> {
        if version == VERSION {
            return Ok(Some(Self::current()));
        }
        Ok(frozen()?.remove(version).map(|sources| &*Box::leak(Box::new(Self::new(sources)))))
    }
}

/// The template sets of earlier releases, by version.
fn frozen() -> Result<BTreeMap<String, Sources>> {
    unpack(ARCHIVE).context("cannot unpack the templates of earlier releases")
}

/// The files of a set by name.
type Sources = BTreeMap<String, &'static str>;

/// The template sets in an archive, by version.
fn unpack(archive: &[u8]) -> io::Result<BTreeMap<String, Sources>> {
    let mut texts: BTreeMap<String, &'static str> = BTreeMap::new();
    for entry in Archive::new(GzDecoder::new(archive)).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let text = match entry.link_name()? {
            Some(first) => texts.get(&first.display().to_string()).copied().unwrap_or_default(),
            None => {
                let mut text = String::new();
                entry.read_to_string(&mut text)?;
                text.leak()
            }
        };
        texts.insert(name, text);
    }
    let mut sets: BTreeMap<String, Sources> = BTreeMap::new();
    for (name, text) in texts {
        if let Some((version, name)) = name.split_once('/') {
            sets.entry(version.to_owned()).or_default().insert(name.to_owned(), text);
        }
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn sets_are_unpacked_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        let long = "x".repeat(120);
        let files = [
            ("README.md", "beside the sets"),
            ("0.1.0/files.yaml", "old"),
            ("0.1.0/project/same", "same\n"),
            ("0.2.0/files.yaml", "new"),
            ("0.2.0/project/same", "same\n"),
            ("0.2.0/project/also", "same\n"),
            (&format!("0.2.0/project/{long}"), "same\n"),
        ];
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let archive = pack::pack(directory.path()).unwrap();
        let sets = unpack(&archive).unwrap();
        let names: Vec<_> = sets.keys().collect();
        assert_eq!(names, ["0.1.0", "0.2.0"]);
        for (name, text) in &files[1..] {
            let (version, name) = name.split_once('/').unwrap();
            assert_eq!(sets[version].get(name), Some(text), "{version} {name}");
        }
        assert_eq!(sets.values().map(BTreeMap::len).sum::<usize>(), files.len() - 1);
    }

    #[test]
    fn a_text_is_packed_once() {
        let directory = tempfile::tempdir().unwrap();
        // What no compression makes smaller.
        let mut state = 1_u64;
        let noise: String = (0..4096)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'!' + (state >> 33) as u8 % 90)
            })
            .collect();
        let mut sizes = Vec::new();
        for version in ["0.1.0", "0.2.0"] {
            let set = directory.path().join(version);
            fs::create_dir(&set).unwrap();
            fs::write(set.join("noise"), &noise).unwrap();
            sizes.push(pack::pack(directory.path()).unwrap().len());
        }
        assert!(sizes[1] - sizes[0] < 200, "{sizes:?}");
    }

    #[test]
    fn the_set_of_this_release_is_the_current_one() {
        let set = TemplateSet::of(VERSION).unwrap();
        assert!(set.is_some_and(|set| std::ptr::eq(set, TemplateSet::current())));
        assert!(TemplateSet::of("0.0.0").unwrap().is_none());
    }
}
