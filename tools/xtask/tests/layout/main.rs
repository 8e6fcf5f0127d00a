//! The project's structure: modules depend on each other in one direction, no file is long, and unsafe code can be reviewed.
//!
//! Cycles are detected between files and, at every level, between folders: without cycles, the modules of a folder have an order
//! in which each uses only modules below it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failure of the test")]

mod c;
mod circles;
mod cpu_plugin;
mod python;
mod rust;
mod systems;
mod unsafe_code;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use circles::Uses;

/// The most lines of a file that people write.
const MOST_LINES: usize = 500;

/// Folders of foreign or generated files.
const FOREIGN: &[&str] = &["target", ".git", "node_modules"];

/// Generated headers, and the licences of what is linked in.
const GENERATED: &str = "include/hipdnn/backend/";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The text of each file with one of these extensions, by its path from the root.
fn sources(endings: &[&str]) -> BTreeMap<String, String> {
    fn read(folder: &Path, root: &Path, endings: &[&str], found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap();
            let is_source =
                path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known));
            if entry.file_type().unwrap().is_dir() {
                if !FOREIGN.contains(&name.as_str()) {
                    read(&path, root, endings, found);
                }
            } else if is_source {
                let relative = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(relative, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    read(&root(), &root(), endings, &mut found);
    found
}

/// Panics with the cycles among files and, at each level, among folders.
fn expect_order(of: &str, uses: &Uses, separator: &str) {
    let mut found = circles::between(uses);
    found.extend(circles::between_folders(uses, separator));
    assert!(found.is_empty(), "{of}: {}", found.join("\n"));
}

#[test]
fn modules_of_each_crate_use_each_other_in_one_direction() {
    let manifests = sources(&["toml"]);
    let crates = manifests.keys().filter_map(|path| path.strip_suffix("Cargo.toml"));
    let mut seen = 0;
    for folder in crates {
        let modules = rust::modules(&root().join(folder).join("src"));
        let uses = rust::uses(&modules);
        seen += uses.values().map(|used| used.len()).sum::<usize>();
        expect_order(&format!("{folder}src"), &uses, "::");
    }
    assert!(seen > 1000, "{seen} uses were found, expected more than 1000");
}

#[test]
fn modules_of_the_python_package_use_each_other_in_one_direction() {
    let uses = python::uses(&sources(&["py"]), "bindings/python/python/");
    assert!(uses.len() > 20, "{} modules were found, expected more than 20", uses.len());
    expect_order("bindings/python/python", &uses, ".");
}

#[test]
fn c_files_include_each_other_in_one_direction() {
    let uses = c::uses(&sources(&["c", "h", "cpp", "hpp"]));
    assert!(uses.len() > 50, "{} files with includes were found, expected more than 50", uses.len());
    expect_order("C and C++", &uses, "/");
}

#[test]
fn one_module_asks_for_the_system() {
    let all = sources(&["rs"]);
    let asking = |path: &str, text: &str| -> Vec<String> {
        systems::asking(text).map(|(number, line)| format!("{path}:{number}: {line}")).collect()
    };
    let (own, others): (Vec<_>, Vec<_>) = all.iter().partition(|(path, _)| systems::may_ask(path));
    assert!(own.iter().any(|(path, text)| !asking(path, text).is_empty()), "the module itself asks");
    let found: Vec<String> = others.into_iter().flat_map(|(path, text)| asking(path, text)).collect();
    assert!(found.is_empty(), "move them into `os` of the plugin SDK:\n{}", found.join("\n"));
}

#[test]
fn no_file_is_longer_than_a_reader_holds_in_mind() {
    let all = sources(&["rs", "py", "c", "h", "cpp", "hpp", "sh"]);
    let written = all.iter().filter(|(path, _)| !path.starts_with(GENERATED));
    let long =
        written.map(|(path, text)| (path, text.lines().count())).filter(|(_, lines)| *lines > MOST_LINES);
    let long: Vec<String> = long.map(|(path, lines)| format!("{path}: {lines} lines")).collect();
    assert!(long.is_empty(), "files have more than {MOST_LINES} lines:\n{}", long.join("\n"));
}

/// Comments on safety that leave the reason to another place.
const REASONS_ELSEWHERE: &[(&str, usize)] = &[];

/// Functions with more than seven positional arguments, for which clippy's warning is disabled.
const CROWDED: &[(&str, usize)] = &[
    // The C interface has as many.
    ("integrations/onnxruntime/src/ort/table.rs", 1),
    // The C interface has as many.
    ("plugins/sdk/src/export/optional.rs", 1),
];

#[test]
fn unsafe_blocks_fit_a_screen() {
    unsafe_code::expect("unsafe blocks are too long", &sources(&["rs"]), &[], unsafe_code::blocks);
}

#[test]
fn each_unsafe_block_says_why_it_is_sound() {
    unsafe_code::expect(
        "comments on safety point elsewhere",
        &sources(&["rs"]),
        REASONS_ELSEWHERE,
        unsafe_code::elsewhere,
    );
}

#[test]
fn each_unsafe_function_says_what_it_requires() {
    let find = unsafe_code::without_requirements;
    unsafe_code::expect("unsafe functions have no section `# Safety`", &sources(&["rs"]), &[], find);
}

#[test]
fn each_requirement_names_what_it_is_about() {
    unsafe_code::expect("sections `# Safety` are vague", &sources(&["rs"]), &[], unsafe_code::vague);
}

#[test]
fn functions_have_few_positional_arguments() {
    unsafe_code::expect(
        "functions have too many arguments",
        &sources(&["rs"]),
        CROWDED,
        unsafe_code::crowded,
    );
}
