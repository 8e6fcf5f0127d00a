//! The headers and the schema against `c_tests/golden/abi.txt`, the list of what AMD publishes. It says how it is read.

use std::collections::BTreeMap;
use std::fs;

use crate::workspace::Workspace;

/// A name, and what it stands for.
type Names<T> = BTreeMap<String, T>;

fn golden() -> (String, String) {
    let text = fs::read_to_string(Workspace::new().path("c_tests/golden/abi.txt")).unwrap();
    let text = text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n"));
    let text: String = text.collect();
    let (numbers, rest) = text.split_once("\nschema\n").unwrap();
    let (schema, _) = rest.split_once("\njson\n").unwrap();
    (numbers.to_owned(), schema.to_owned())
}

fn add<T>(names: &mut Names<T>, name: String, value: T) {
    assert!(!names.contains_key(&name), "{name} stands twice");
    names.insert(name, value);
}

/// Numbers by the names of enumeration and enumerator, as the list has them.
fn listed() -> Names<i64> {
    let mut names = Names::new();
    let (mut enumeration, mut start) = ("", "");
    for line in golden().0.lines().filter(|line| !line.is_empty()) {
        let Some((head, rest)) = line.split_once(": ") else {
            (enumeration, start) = line.split_once(' ').unwrap();
            continue;
        };
        let (first, common) = head.split_once(' ').unwrap_or((head, ""));
        for (number, name) in (first.parse().unwrap()..).zip(rest.split(' ')) {
            add(&mut names, format!("{enumeration} {start}{common}{name}"), number);
        }
    }
    names
}

/// The same, as the headers have them.
fn declared() -> Names<i64> {
    let mut names = Names::new();
    for file in fs::read_dir(Workspace::new().path("include/hipdnn/backend")).unwrap() {
        let path = file.unwrap().path();
        let text = if path.is_file() { fs::read_to_string(path).unwrap() } else { continue };
        let (mut open, mut enumerators) = ("", Vec::<(&str, i64)>::new());
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("typedef int32_t ") {
                open = name;
            } else if let Some(name) = line.strip_prefix('}') {
                let name = if name == ";" { open } else { name }.trim_matches([' ', ';']);
                for (enumerator, number) in enumerators.drain(..) {
                    add(&mut names, format!("{name} {enumerator}"), number);
                }
            } else if let Some((name, value)) = line.trim_matches([' ', ',']).split_once(" = ")
                && name.starts_with("HIPDNN_")
            {
                let number = value
                    .parse()
                    .unwrap_or_else(|_| enumerators.iter().find(|(other, _)| *other == value).expect(line).1);
                enumerators.push((name, number));
            }
        }
    }
    names
}

/// What the list says of the schema: each enumeration, union and table with what it holds.
fn listed_schema() -> Names<Vec<String>> {
    let mut names = Names::new();
    for part in golden().1.replace("\n    ", " ").lines() {
        let (head, words) = part.split_once(": ").unwrap();
        let field = |word: &str| {
            let (word, null) = word.strip_suffix('?').map_or((word, ""), |word| (word, " = null"));
            let (name, kind) = word.split_once(':').unwrap_or((word, "long"));
            let uid = if word.contains(':') { "" } else { "_tensor_uid" };
            format!("{name}{uid}: {kind}{null}")
        };
        let is_table = head.starts_with("table ");
        let words = words.split(' ').map(|word| if is_table { field(word) } else { word.to_owned() });
        add(&mut names, head.to_owned(), words.collect());
    }
    names
}

/// The same, as the schema has it.
fn declared_schema() -> Names<Vec<String>> {
    let mut names = Names::<Vec<String>>::new();
    let schema = fs::read_to_string(Workspace::new().path("plugins/sdk/schema/hipdnn.fbs")).unwrap();
    for block in schema.split("\n}").filter_map(|block| block.rsplit_once("\n\n").map(|(_, block)| block)) {
        // What follows the last block is none.
        let Some((head, body)) = block.split_once(" {\n") else { continue };
        let head = head.rsplit('\n').next().unwrap();
        let lines = body.lines().map(|line| line.trim_matches([' ', ',', ';']).to_owned());
        add(&mut names, head.replace(" : byte", ""), lines.collect());
    }
    let nodes = names.get("union NodeAttributes").unwrap().clone();
    names.retain(|name, _| match name.split_once(' ') {
        Some(("table", table)) => nodes.iter().any(|node| node == table),
        Some(("union", union)) => union == "NodeAttributes",
        Some((kind, _)) => kind == "enum",
        None => false,
    });
    names
}

/// Everything that one has and the other has not, or has as something else.
fn differences<T: PartialEq + std::fmt::Debug>(listed: &Names<T>, declared: &Names<T>) -> Vec<String> {
    let names = listed.keys().chain(declared.keys().filter(|name| !listed.contains_key(*name)));
    names
        .filter(|name| listed.get(*name) != declared.get(*name))
        .map(|name| format!("{name}: listed {:?}, declared {:?}", listed.get(name), declared.get(name)))
        .collect()
}

/// What this library has beyond AMD's. Numbers from here on are not AMD's.
const OWN: [&str; 1] = ["hipdnnBackendAttributeName_t HIPDNN_ATTR_OPERATIONGRAPH_IS_PLAN_CACHE_ENABLED_EXT"];
const FIRST_OWN: i64 = 1_000_000;

#[test]
fn the_headers_have_the_numbers_that_amd_publishes() {
    let (listed, mut declared) = (listed(), declared());
    assert!(listed.len() > 700, "{} names", listed.len());
    for name in OWN {
        let number = declared.remove(name);
        assert!(number.is_some_and(|number| number >= FIRST_OWN), "{name}: {number:?}");
    }
    let differences = differences(&listed, &declared);
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

#[test]
fn the_schema_is_the_one_that_amd_publishes() {
    let listed = listed_schema();
    assert!(listed.len() > 30, "{} parts", listed.len());
    let differences = differences(&listed, &declared_schema());
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}
