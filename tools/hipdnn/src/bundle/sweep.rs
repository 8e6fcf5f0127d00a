//! Sweeps: a graph with placeholders, and cases with their values.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path};

use serde_json::{Map, Value};

use super::metadata::Metadata;
use super::{Bundle, Values};
use crate::failure::{Failure, Result};

/// A template and its cases.
pub struct Sweep {
    template: Value,
    cases: Vec<(String, Value)>,
}

/// The values of a case.
struct Given<'a> {
    values: Option<&'a Value>,
    of_tensors: HashMap<i64, &'a Value>,
}

impl Sweep {
    /// Reads `sweep.json` beside its template.
    pub fn read(sweep: Value, template: Value) -> Result<Self> {
        if sweep.get("version").is_some_and(|version| *version != 1) {
            return Err(wrong("version", sweep.get("version"), "1"));
        }
        let Some(Value::Array(list)) = sweep.get("cases") else {
            return Err(wrong("cases", sweep.get("cases"), "a list"));
        };
        let mut seen = HashSet::new();
        let mut cases = Vec::new();
        for case in list {
            let id = case.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            let id = id.ok_or_else(|| wrong("id", case.get("id"), "a text"))?;
            if !seen.insert(id) {
                return Err(Failure::input(format!("two cases have the id {id:?}")));
            }
            cases.push((id.to_owned(), case.clone()));
        }
        Ok(Self { template, cases })
    }

    /// Each case with its id.
    pub fn cases(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.cases.iter().map(|(id, case)| (id.as_str(), case))
    }

    /// A case of a sweep in a folder.
    pub fn bundle(&self, case: &Value, folder: &Path) -> Result<Bundle> {
        let metadata = case.get("metadata").filter(|metadata| !metadata.is_null());
        let metadata = Metadata::read(metadata.ok_or_else(|| wrong("metadata", None, "an object"))?)?;
        let given = Given::read(case, &self.template)?;
        let mut graph = given.expand(&self.template, None)?;
        patch(&mut graph, case.get("tensor_patches"))?;
        // Cases without golden values have no such file.
        let golden = golden(case)?.map_or_else(|| folder.join("golden"), |path| folder.join(path));
        Ok(Bundle { graph, metadata, values: Values::new(&golden, "") })
    }
}

fn wrong(key: &str, value: Option<&Value>, expected: &str) -> Failure {
    match value {
        Some(value) => Failure::input(format!("\"{key}\" is {value}, expected {expected}")),
        None => Failure::input(format!("\"{key}\" is missing, expected {expected}")),
    }
}

/// The folder with a case's golden values, below that of the sweep.
fn golden(case: &Value) -> Result<Option<&Path>> {
    let Some(golden) = case.get("golden").filter(|golden| !golden.is_null()) else { return Ok(None) };
    let path = golden.get("path").and_then(Value::as_str).map(Path::new);
    let is_below = |path: &&Path| path.components().all(|part| matches!(part, Component::Normal(_)));
    let path = path.filter(is_below).and_then(Path::parent);
    path.map(Some).ok_or_else(|| wrong("golden", Some(golden), "a path below the sweep's folder"))
}

/// The uid of a tensor's JSON.
fn uid(tensor: &Value) -> Option<i64> {
    tensor.get("uid").and_then(Value::as_i64)
}

impl<'a> Given<'a> {
    fn read(case: &'a Value, template: &Value) -> Result<Self> {
        let values = case.get("values").filter(|values| !values.is_null());
        let list = |of: Option<&'a Value>| match of.and_then(|values| values.get("tensors")) {
            None => Ok(&[][..]),
            Some(Value::Array(tensors)) => Ok(tensors.as_slice()),
            other => Err(wrong("values.tensors", other, "a list")),
        };
        let known: HashSet<i64> =
            template.get("tensors").and_then(Value::as_array).into_iter().flatten().filter_map(uid).collect();
        let mut of_tensors = HashMap::new();
        for tensor in list(values)? {
            let uid = uid(tensor).ok_or_else(|| wrong("uid", tensor.get("uid"), "a whole number"))?;
            if !known.contains(&uid) {
                return Err(Failure::input(format!(
                    "a case has values for tensor {uid}, which the template lacks"
                )));
            }
            if of_tensors.insert(uid, tensor).is_some() {
                return Err(Failure::input(format!("a case has values for tensor {uid} twice")));
            }
        }
        Ok(Self { values, of_tensors })
    }

    /// A part of the template with the case's values. `tensor` is the uid of the innermost object that has one.
    fn expand(&self, json: &Value, tensor: Option<i64>) -> Result<Value> {
        let placeholder = |text: &'_ str| Some(text.strip_prefix("${case.")?.strip_suffix('}')?.to_owned());
        match json {
            Value::String(text) => match placeholder(text) {
                Some(path) => self.value(&path, tensor).cloned(),
                None => Ok(json.clone()),
            },
            Value::Array(list) => list.iter().map(|item| self.expand(item, tensor)).collect(),
            Value::Object(object) => {
                let tensor = uid(json).or(tensor);
                let expanded =
                    object.iter().map(|(key, value)| Ok((key.clone(), self.expand(value, tensor)?)));
                expanded.collect::<Result<Map<_, _>>>().map(Value::Object)
            }
            _ => Ok(json.clone()),
        }
    }

    /// The value of a placeholder: the tensor's, else the case's. Sizes, strides and types are the tensor's alone.
    fn value(&self, path: &str, tensor: Option<i64>) -> Result<&'a Value> {
        let at = |of: &'a Value| path.split('.').try_fold(of, |value, key| value.get(key));
        let own = tensor.and_then(|uid| self.of_tensors.get(&uid)).and_then(|of| at(of));
        let is_of_tensor =
            tensor.is_some() && matches!(path.split('.').next(), Some("dims" | "strides" | "data_type"));
        let common = || self.values.filter(|_| !is_of_tensor).and_then(at);
        own.or_else(common).ok_or_else(|| {
            let of = tensor.map(|uid| format!(" of tensor {uid}")).unwrap_or_default();
            Failure::input(format!("a case has no value for ${{case.{path}}}{of}"))
        })
    }
}

/// Applies a case's changes of tensors: sets keys, then removes some.
fn patch(graph: &mut Value, patches: Option<&Value>) -> Result<()> {
    let patches = match patches {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(patches)) => patches,
        other => return Err(wrong("tensor_patches", other, "a list")),
    };
    for of in patches {
        let uid_of_patch = uid(of).ok_or_else(|| wrong("uid", of.get("uid"), "a whole number"))?;
        let mut tensors = graph.get_mut("tensors").and_then(Value::as_array_mut).into_iter().flatten();
        let tensor = tensors.find(|tensor| uid(tensor) == Some(uid_of_patch)).and_then(Value::as_object_mut);
        let tensor = tensor.ok_or_else(|| {
            Failure::input(format!("\"tensor_patches\" names tensor {uid_of_patch}, which the graph lacks"))
        })?;
        let set = of.get("set").and_then(Value::as_object).into_iter().flatten();
        tensor.extend(set.map(|(key, value)| (key.clone(), value.clone())));
        for key in of.get("remove").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
        {
            tensor.remove(key);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template() -> Value {
        json!({"io_data_type": "${case.io}", "nodes": [{"parameters": {"stride": "${case.attributes.stride}"}}],
               "tensors": [{"uid": 7, "dims": "${case.dims}", "data_type": "${case.data_type}", "value": 1.5}]})
    }

    fn expand(case: Value) -> std::result::Result<Value, String> {
        let sweep = Sweep::read(json!({"cases": []}), template()).unwrap();
        sweep.bundle(&case, Path::new("/s")).map(|bundle| bundle.graph).map_err(|failure| failure.to_string())
    }

    fn case(tensor: Value) -> Value {
        json!({"id": "a", "metadata": {"format_version": 1}, "tensor_patches":
                [{"uid": 7, "set": {"is_runtime_pass_by_value": true}, "remove": ["value"]}],
               "values": {"io": "half", "dims": [9], "attributes": {"stride": [2, 2]}, "tensors": [tensor]}})
    }

    #[test]
    fn placeholders_get_the_tensors_values_or_the_cases() {
        let graph = expand(case(json!({"uid": 7, "dims": [3], "data_type": "float"})));
        let expected = json!({"io_data_type": "half", "nodes": [{"parameters": {"stride": [2, 2]}}],
            "tensors": [{"uid": 7, "dims": [3], "data_type": "float", "is_runtime_pass_by_value": true}]});
        assert_eq!(graph, Ok(expected));
    }

    #[test]
    fn sizes_come_from_the_tensor_alone() {
        let failure = expand(case(json!({"uid": 7, "data_type": "float"})));
        assert_eq!(failure, Err("a case has no value for ${case.dims} of tensor 7".to_owned()));
        let failure = expand(case(json!({"uid": 8})));
        assert_eq!(failure, Err("a case has values for tensor 8, which the template lacks".to_owned()));
    }

    #[test]
    fn golden_values_are_below_the_sweep() {
        let folder = |path: &str| {
            let mut case = case(json!({"uid": 7, "dims": [3], "data_type": "float"}));
            case["golden"] = json!({"path": path});
            let sweep = Sweep::read(json!({"cases": []}), template()).unwrap();
            sweep.bundle(&case, Path::new("/s")).map(|bundle| bundle.values)
        };
        assert_eq!(folder("golden/a/tensors.dvc"), Ok(Values::new(Path::new("/s/golden/a"), "")));
        for path in ["../a/tensors.dvc", "/etc/tensors.dvc"] {
            let failure = folder(path).unwrap_err().to_string();
            assert!(failure.ends_with("expected a path below the sweep's folder"), "{failure}");
        }
    }
}
