//! The plugin's modules use each other in one direction: folders as listed here, and files without circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The folders, and files of the root, from the top down: a module uses modules of its own folder and of those further down.
const ORDER: [&str; 24] = [
    "lib",
    "plugin",
    "plan",
    "fusion",
    "reference",
    "conv",
    "depthwise",
    "attention",
    "norm",
    "batchnorm",
    "pooling",
    "moe",
    "block_scale",
    "matmul",
    "reduction",
    "pointwise",
    "settings",
    "tensor",
    "gemm",
    "simd",
    "threading",
    "dtype",
    "memory",
    "kernel",
];

/// What the reference takes from fast operations: definitions, and nothing that computes.
const DEFINITIONS: [&str; 5] =
    ["attention::shared", "batchnorm::parameters", "block_scale::types", "moe::groups", "pointwise::scalar"];

/// The modules of a folder with their source, without those of tests.
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

/// The paths that begin with `crate::` in a module, with those in braces written out.
fn paths(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // Another name is as good as an item of the module.
    let code = code.replace(" as ", "::");
    for (at, _) in code.match_indices("crate::") {
        let mut open: Vec<String> = Vec::new();
        let mut path = String::new();
        for c in code[at + "crate::".len()..].chars().filter(|c| !c.is_whitespace()) {
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
    found
}

/// The modules that each module uses or declares.
fn uses(modules: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let find = |path: &str| {
        let ends = path.match_indices("::").map(|(at, _)| at).chain([path.len()]);
        ends.filter_map(|end| modules.get_key_value(&path[..end])).last().map(|(name, _)| name.as_str())
    };
    let mut uses = BTreeMap::new();
    for (name, code) in modules {
        let declared = code.lines().filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';'));
        let declared =
            declared.map(|child| format!("{name}::{child}").trim_start_matches("lib::").to_owned());
        let all = paths(code).into_iter().chain(declared);
        let used = all.filter_map(|path| find(&path)).filter(|other| *other != name.as_str());
        uses.insert(name.as_str(), used.collect());
    }
    uses
}

#[test]
fn modules_use_what_lies_below_them_and_no_two_use_each_other() {
    let mut modules = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut modules);
    let mut uses = uses(&modules);
    assert!(uses.values().map(BTreeSet::len).sum::<usize>() > 5 * uses.len(), "too few uses were found");

    let place = |module: &str| {
        let folder = module.split("::").next().unwrap_or_default();
        let place = ORDER.iter().position(|name| *name == folder);
        place.unwrap_or_else(|| panic!("{folder} has no place in the order of the folders"))
    };
    let upward = uses.iter().flat_map(|(module, used)| used.iter().map(move |other| (*module, *other)));
    let upward: Vec<_> = upward.filter(|(module, other)| place(other) < place(module)).collect();
    assert!(upward.is_empty(), "modules use what lies above them: {upward:?}");

    let is_operation = |module: &str| (place("conv")..place("settings")).contains(&place(module));
    let of_reference = uses.iter().filter(|(module, _)| place(module) == place("reference"));
    let taken = of_reference.flat_map(|(_, used)| used).filter(|used| is_operation(used));
    let taken: Vec<_> = taken.filter(|used| !DEFINITIONS.iter().any(|path| used.starts_with(path))).collect();
    assert!(taken.is_empty(), "the reference uses what it is there to check: {taken:?}");

    // What uses no other, or is used by no other, is in no circle.
    loop {
        let used: BTreeSet<_> = uses.values().flatten().copied().collect();
        let before = uses.len();
        uses.retain(|module, others| !others.is_empty() && used.contains(module));
        if uses.len() == before {
            break;
        }
        let left: BTreeSet<_> = uses.keys().copied().collect();
        uses.values_mut().for_each(|others| others.retain(|other| left.contains(other)));
    }
    assert!(uses.is_empty(), "modules use each other in circles: {uses:?}");
}
