//! The list of what is linked in, for tools that look for known defects: CycloneDX 1.5.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::Output;
use super::notices::{linked, metadata, word};
use crate::Failure;
use crate::install::BILL;
use crate::workspace::Workspace;

pub fn output(workspace: &Workspace) -> Result<Output, Failure> {
    let metadata = metadata(workspace)?;
    let lock = fs::read_to_string(workspace.path("Cargo.lock"))?;
    let text = text(&workspace.version, &linked(&metadata), &checksums(&lock))?;
    Ok(Output { path: workspace.path(BILL), text })
}

fn text(
    version: &str,
    packages: &[&Value],
    checksums: &BTreeMap<(&str, &str), &str>,
) -> Result<String, Failure> {
    let components: Vec<Value> = packages.iter().map(|package| component(package, checksums)).collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "library",
            "name": "hipdnn-backend",
            "version": version,
            "licenses": [{"license": {"id": "MIT"}}],
        }},
        "components": components,
    });
    let text = serde_json::to_string_pretty(&bill).map_err(|error| Failure::new(error.to_string()))?;
    Ok(format!("{text}\n"))
}

fn component(package: &Value, checksums: &BTreeMap<(&str, &str), &str>) -> Value {
    let (name, version) = (word(package, "name"), word(package, "version"));
    // The older form of a choice.
    let licence = word(package, "license").replace('/', " OR ");
    let mut component = json!({
        "type": "library",
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
        "licenses": [{"expression": licence}],
    });
    if let (Some(checksum), Some(fields)) = (checksums.get(&(name, version)), component.as_object_mut()) {
        fields.insert("hashes".to_owned(), json!([{"alg": "SHA-256", "content": checksum}]));
    }
    component
}

/// The checksum of each crate by its name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            let field = |name: &str| {
                let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
                line.and_then(|value| value.strip_suffix('"'))
            };
            Some(((field("name")?, field("version")?), field("checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_has_its_name_licence_and_checksum() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"s\"\nchecksum = \"f00d\"\n\n\
                    [[package]]\nname = \"ours\"\nversion = \"2.0.0\"\n";
        let package = json!({"name": "a", "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let text = text("9.8.7", &[&package], &checksums(lock)).unwrap();
        let bill: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(bill.pointer("/metadata/component/version"), Some(&json!("9.8.7")));
        let wanted = json!([{
            "type": "library", "name": "a", "version": "1.0.0", "purl": "pkg:cargo/a@1.0.0",
            "licenses": [{"expression": "MIT OR Apache-2.0"}],
            "hashes": [{"alg": "SHA-256", "content": "f00d"}],
        }]);
        assert_eq!(bill.get("components"), Some(&wanted));
    }
}
