//! The includes of C and C++ sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::circles::Uses;

/// The files of the project that each file includes in quotes.
pub fn uses(sources: &BTreeMap<String, String>) -> Uses {
    let mut uses = Uses::new();
    for (path, text) in sources {
        let folder = Path::new(path).parent().unwrap();
        let found: BTreeSet<String> = text
            .lines()
            .filter_map(included)
            .filter_map(|name| {
                let beside = normal(&folder.join(name));
                let elsewhere = || sources.keys().find(|known| known.ends_with(&format!("/{name}")));
                if sources.contains_key(&beside) { Some(beside) } else { elsewhere().cloned() }
            })
            .filter(|other| other != path)
            .collect();
        if !found.is_empty() {
            uses.insert(path.clone(), found);
        }
    }
    uses
}

fn included(line: &str) -> Option<&str> {
    let name = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    name.strip_prefix('"')?.split('"').next()
}

/// A path without `.` and `..`.
fn normal(path: &Path) -> String {
    let mut made = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = made.pop(),
            Component::CurDir => {}
            part => made.push(part),
        }
    }
    made.to_str().unwrap().to_owned()
}

#[test]
fn includes_are_found_beside_and_above() {
    let sources = [
        ("a/x.c", "#include \"../b/y.h\"\n# include \"z.h\"\n#include <w.h>\n"),
        ("a/z.h", ""),
        ("b/y.h", ""),
    ];
    let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let found = uses(&BTreeMap::from(sources));
    assert_eq!(found["a/x.c"], BTreeSet::from(["a/z.h".to_owned(), "b/y.h".to_owned()]));
}
