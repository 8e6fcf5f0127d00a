//! The plugin's modules use each other in one direction: folders as listed here, and files without circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The folders, and files of the root, from the top down: a module uses modules of its own folder and of those further down.
const ORDER: [&str; 25] = [
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
    "int8",
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

/// The modules of a folder with their source and the tests in it; files of tests alone are left out.
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
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            modules.insert(module, code.collect::<Vec<_>>().join("\n"));
        }
    }
}

/// The paths that begin with `crate::` or `super::` in a module, from the crate's root, with those in braces written out.
fn paths(module: &str, code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // Another name is as good as an item of the module.
    let code = code.replace(" as ", "::");
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let from_root = code.match_indices("crate::").map(|(at, found)| (at + found.len(), String::new()));
    let from_parent = code.match_indices("super::").map(|(at, found)| {
        // What is indented lies in a module within the file.
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
        let all = paths(name, code).into_iter().chain(declared);
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

/// Words that were replaced by those of oneDNN and BLIS, with what to say instead: in code and comments.
const BANNED: [(&str, &str); 14] = [
    ("Places", "elements, offsets or strides"),
    ("apart", "stride, or disjoint"),
    ("pitch", "stride"),
    ("ahead", "prefetch"),
    ("planar", "channels first"),
    ("lie_apart", "the name of the layout"),
    ("not finite", "NaN or infinite"),
    ("not_finite", "NaN or infinity"),
    ("of_lane", "of_worker"),
    ("super::super", "crate::"),
    ("dealt", "partition or assignment"),
    ("pieces", "parts, blocks or tiles"),
    ("distances", "strides"),
    ("filter products", "backward weights"),
];

/// The same for types: in prose they may begin a sentence. `Lanes` is the type of a vector's lanes, as `V::Lanes`.
const BANNED_TYPES: [(&str, &str); 11] = [
    ("Lanes", "Workers"),
    ("Level", "Isa"),
    ("Kept", "Prepacked"),
    ("Around", "Epilogue"),
    ("After", "Epilogue"),
    ("Ending", "Epilogue"),
    ("Finish", "Epilogue"),
    ("Finished", "Epilogue"),
    ("Tail", "Epilogue"),
    ("Real", "ComputeType"),
    ("Sums", "Accumulators or RowStatistics"),
];

/// Whether a text has a word; what joins identifiers belongs to the word.
fn has_word(text: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(joins) && !text[at + word.len()..].starts_with(joins))
}

/// Calls `each` with every source file below a folder, those of tests included.
fn for_each_source(folder: &Path, each: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            for_each_source(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            each(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn sources_say_the_words_of_the_field() {
    let mut found = Vec::new();
    for_each_source(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut |path, text| {
        for (number, line) in text.lines().enumerate() {
            // Vectors have lanes, workers do not.
            let code = line.split("//").next().unwrap_or_default();
            let code = code.replace("::Lanes", "").replace("type Lanes", "").replace("Lanes = L", "");
            let words = BANNED.iter().filter(|(word, _)| has_word(line, word));
            let types = BANNED_TYPES.iter().filter(|(word, _)| has_word(&code, word));
            for (word, instead) in words.chain(types) {
                found.push(format!("{}:{}: {word}, say {instead}", path.display(), number + 1));
            }
        }
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn paths_are_followed_from_the_root_and_from_the_parent() {
    let code = "use super::b::{C, d::E};\nuse crate::f as g;\nmod h {\n    use super::i::J;\n}\n";
    let expected = ["a::b::C", "a::b::d::E", "a::x::i::J", "f::g"].map(str::to_owned);
    assert_eq!(paths("a::x", code), BTreeSet::from(expected));
}

#[test]
fn words_are_found_as_wholes() {
    assert!(has_word("let ahead = 1;", "ahead") && has_word("super::super::a", "super::super"));
    assert!(!has_word("go_ahead", "ahead") && !has_word("apartment", "apart"));
}
