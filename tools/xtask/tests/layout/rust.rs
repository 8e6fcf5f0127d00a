//! The dependencies between modules of a crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::circles::Uses;

/// The modules below a folder of sources, with their code outside of comments and tests.
pub fn modules(folder: &Path) -> BTreeMap<String, String> {
    let mut modules = BTreeMap::new();
    if folder.is_dir() {
        read(folder, "", &mut modules);
    }
    modules
}

/// The modules of a folder with their source, including tests; files with only tests are omitted.
fn read(folder: &Path, path: &str, modules: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let stem = name.trim_end_matches(".rs");
        if stem.ends_with("tests") || stem == "testing" {
            continue;
        }
        let module = match stem {
            "mod" => path.to_owned(),
            _ => format!("{path}::{stem}").trim_start_matches("::").to_owned(),
        };
        if entry.path().is_dir() {
            read(&entry.path(), &module, modules);
        } else {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            modules.insert(module, code.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The paths that begin with `crate::` or `super::` in a module, from the crate's root, with braces expanded.
fn paths(module: &str, code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // A renamed import counts as an item of the module.
    let code = code.replace(" as ", "::");
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let from_root = code.match_indices("crate::").map(|(at, found)| (at + found.len(), String::new()));
    let from_parent = code.match_indices("super::").map(|(at, found)| {
        // Indented code is in a module within the file.
        let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
        let base = if code[line..].starts_with(' ') { module } else { parent };
        (at + found.len(), if base.is_empty() { String::new() } else { format!("{base}::") })
    });
    for (at, base) in from_root.chain(from_parent) {
        let mut open: Vec<String> = Vec::new();
        let mut path = base;
        for c in code[at..].chars().filter(|c| !c.is_whitespace()) {
            match c {
                '{' => open.push(path.clone()),
                ',' | '}' if !open.is_empty() => {
                    found.insert(std::mem::take(&mut path));
                    if c == '}' {
                        open.pop();
                    }
                    path = open.last().cloned().unwrap_or_default();
                }
                c if c.is_alphanumeric() || c == '_' || c == ':' => path.push(c),
                _ => break,
            }
        }
        found.insert(path);
    }
    found.remove("");
    found
}

/// The modules that each module uses.
pub fn uses(modules: &BTreeMap<String, String>) -> Uses {
    let find = |path: &str| {
        let ends = path.match_indices("::").map(|(at, _)| at).chain([path.len()]);
        ends.filter(|end| modules.contains_key(&path[..*end])).last().map(|end| path[..end].to_owned())
    };
    let of = |(name, code): (&String, &String)| {
        let used = paths(name, code).into_iter().filter_map(|path| find(&path)).filter(|other| other != name);
        (name.clone(), used.collect::<BTreeSet<String>>())
    };
    modules.iter().map(of).collect()
}

/// Counts declared modules as used by the declaring one, so that they must not use it.
pub fn add_declared(modules: &BTreeMap<String, String>, uses: &mut Uses) {
    for (name, code) in modules {
        let declared = code.lines().filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';'));
        let declared =
            declared.map(|child| format!("{name}::{child}").trim_start_matches("lib::").to_owned());
        let declared = declared.filter(|child| modules.contains_key(child));
        uses.entry(name.clone()).or_default().extend(declared);
    }
}

#[test]
fn paths_are_followed_from_the_root_and_from_the_parent() {
    let code = "use super::b::{C, d::E};\nuse crate::f as g;\nmod h {\n    use super::i::J;\n}\n";
    let expected = ["a::b::C", "a::b::d::E", "a::x::i::J", "f::g"].map(str::to_owned);
    assert_eq!(paths("a::x", code), BTreeSet::from(expected));
}
