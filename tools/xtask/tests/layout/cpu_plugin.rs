//! The CPU plugin's modules depend on each other in one direction: folders as listed here, and no file on the one that declares it.

use std::collections::BTreeSet;

use crate::{circles, root, rust, sources};

const SOURCES: &str = "plugins/cpu/src";

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

/// The only modules of fast operations that the reference may use: definitions without computation.
const DEFINITIONS: [&str; 5] =
    ["attention::shared", "batchnorm::parameters", "block_scale::types", "moe::groups", "pointwise::scalar"];

#[test]
fn modules_use_what_lies_below_them_and_no_two_use_each_other() {
    let modules = rust::modules(&root().join(SOURCES));
    let mut uses = rust::uses(&modules);
    rust::add_declared(&modules, &mut uses);
    assert!(uses.values().map(BTreeSet::len).sum::<usize>() > 5 * uses.len(), "too few uses were found");

    let place = |module: &str| {
        let folder = module.split("::").next().unwrap_or_default();
        let place = ORDER.iter().position(|name| *name == folder);
        place.unwrap_or_else(|| panic!("{folder} has no place in the order of the folders"))
    };
    let upward = uses.iter().flat_map(|(module, used)| used.iter().map(move |other| (module, other)));
    let upward: Vec<_> = upward.filter(|(module, other)| place(other) < place(module)).collect();
    assert!(upward.is_empty(), "modules use what lies above them: {upward:?}");

    let is_operation = |module: &str| (place("conv")..place("settings")).contains(&place(module));
    let of_reference = uses.iter().filter(|(module, _)| place(module) == place("reference"));
    let taken = of_reference.flat_map(|(_, used)| used).filter(|used| is_operation(used));
    let taken: Vec<_> = taken.filter(|used| !DEFINITIONS.iter().any(|path| used.starts_with(path))).collect();
    assert!(taken.is_empty(), "the reference uses what it is there to check: {taken:?}");

    let circles = circles::between(&uses);
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

/// Words replaced by the terms of oneDNN and BLIS, with the replacement, in code and comments.
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

/// The same for types, which in prose may begin a sentence. `Lanes` is the type of a vector's lanes, as `V::Lanes`.
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

/// Whether a text has a word; underscores belong to the word.
fn has_word(text: &str, word: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(joins) && !text[at + word.len()..].starts_with(joins))
}

#[test]
fn sources_say_the_words_of_the_field() {
    let mut found = Vec::new();
    for (path, text) in sources(&["rs"]).iter().filter(|(path, _)| path.starts_with(SOURCES)) {
        for (number, line) in text.lines().enumerate() {
            // Vectors have lanes, workers do not.
            let code = line.split("//").next().unwrap_or_default();
            let code = code.replace("::Lanes", "").replace("type Lanes", "").replace("Lanes = L", "");
            let words = BANNED.iter().filter(|(word, _)| has_word(line, word));
            let types = BANNED_TYPES.iter().filter(|(word, _)| has_word(&code, word));
            for (word, instead) in words.chain(types) {
                found.push(format!("{path}:{}: {word}, say {instead}", number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn words_are_found_as_wholes() {
    assert!(has_word("let ahead = 1;", "ahead") && has_word("super::super::a", "super::super"));
    assert!(!has_word("go_ahead", "ahead") && !has_word("apartment", "apart"));
}
