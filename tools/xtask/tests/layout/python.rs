//! The imports between modules of a Python package.

use std::collections::{BTreeMap, BTreeSet};

use crate::circles::Uses;

/// The modules below `folder` that each of them imports, when loaded or later. A package's `__init__` counts like any other module;
/// imports only for type checkers are omitted.
pub fn uses(sources: &BTreeMap<String, String>, folder: &str) -> Uses {
    let files = sources
        .iter()
        .filter_map(|(path, text)| Some((path.strip_prefix(folder)?.strip_suffix(".py")?, text)));
    let modules: BTreeMap<String, &String> =
        files.map(|(path, text)| (path.replace('/', "."), text)).collect();
    let mut uses = Uses::new();
    for (name, text) in &modules {
        let mut found = BTreeSet::new();
        for (dots, from, names) in imports(text) {
            let parts: Vec<&str> = name.split('.').collect();
            let Some(base) = parts.get(..parts.len().saturating_sub(dots)) else { continue };
            let package: Vec<&str> =
                base.iter().copied().chain(from.split('.').filter(|part| !part.is_empty())).collect();
            let package = package.join(".");
            // The extension module is written in Rust.
            for imported in names.iter().filter(|name| *name != "_native") {
                let candidates =
                    [format!("{package}.{imported}"), package.clone(), format!("{package}.__init__")];
                found.extend(candidates.into_iter().find(|module| modules.contains_key(module)));
            }
        }
        found.remove(name);
        uses.insert(name.clone(), found);
    }
    uses
}

/// The relative imports of a module: how many dots, from where, and the names.
fn imports(text: &str) -> Vec<(usize, String, Vec<String>)> {
    let mut found = Vec::new();
    let mut only_for_types = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        if only_for_types.is_some_and(|outer| !line.trim().is_empty() && indent <= outer) {
            only_for_types = None;
        }
        if line.trim() == "if TYPE_CHECKING:" {
            only_for_types = Some(indent);
        }
        let Some(rest) = line.trim_start().strip_prefix("from .").filter(|_| only_for_types.is_none()) else {
            continue;
        };
        let Some((from, names)) = rest.split_once(" import ") else { continue };
        let mut names = names.split('#').next().unwrap_or_default().to_owned();
        while names.contains('(') && !names.contains(')') {
            let Some(next) = lines.next() else { break };
            names.push_str(next.split('#').next().unwrap_or_default());
        }
        let names = names.replace(['(', ')'], "");
        let names =
            names.split(',').map(|name| name.split(" as ").next().unwrap_or_default().trim().to_owned());
        let dots = 1 + from.len() - from.trim_start_matches('.').len();
        found.push((
            dots,
            from.trim_start_matches('.').to_owned(),
            names.filter(|name| !name.is_empty()).collect(),
        ));
    }
    found
}

#[test]
fn imports_are_found_on_one_line_and_on_several() {
    let text = "from . import a, b as c\nfrom ..d.e import (\n    f,  # why\n    g,\n)\nif TYPE_CHECKING:\n    from .h import I\nimport os\n";
    let words = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        imports(text),
        [(1, String::new(), words(&["a", "b"])), (2, "d.e".to_owned(), words(&["f", "g"]))]
    );
}

#[test]
fn names_are_modules_where_there_is_one() {
    let sources = [
        ("p/x/__init__.py", ""),
        ("p/x/a.py", "from . import b\nfrom .c import D\n"),
        ("p/x/b.py", ""),
        ("p/x/c.py", ""),
    ];
    let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned()));
    let found = uses(&BTreeMap::from(sources), "p/");
    assert_eq!(found["x.a"], BTreeSet::from(["x.b".to_owned(), "x.c".to_owned()]));
}
