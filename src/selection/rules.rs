//! The rules in the file of `HIPDNN_HEUR_CONFIG_PATH`: which engine to use for which operation.

use std::fs::OpenOptions;
use std::path::Path;

use hipdnn_plugin_sdk::graph::operation::{Field, FieldKind, Value};
use hipdnn_plugin_sdk::graph::{Graph, Node, Operation};
use serde_json::{Map, Value as Json};

use super::file;
use hipdnn_plugin_sdk::engine_id;

/// The operations that a rule can name, with their numbers on the wire.
const OPERATIONS: [(&str, u8); 16] = [
    ("conv_fprop", 5),
    ("conv_dgrad", 6),
    ("conv_wgrad", 7),
    ("sdpa_fwd", 12),
    ("sdpa_bwd", 15),
    ("matmul", 9),
    ("batchnorm_training", 4),
    ("batchnorm_inference", 1),
    ("batchnorm_inference_variance_ext", 8),
    ("batchnorm_backward", 3),
    ("layernorm", 11),
    ("rmsnorm", 10),
    ("rmsnorm_backward", 17),
    ("reduction", 18),
    ("resample_fwd", 19),
    ("pointwise", 2),
];

/// The criteria of a rule besides tensors: names and their enumerations.
const CRITERIA: [(&str, &str); 5] = [
    ("norm_fwd_phase", "NormFwdPhase"),
    ("reduction_mode", "ReductionMode"),
    ("resample_mode", "ResampleMode"),
    ("padding_mode", "PaddingMode"),
    ("pointwise_mode", "PointwiseMode"),
];

/// Matches any number.
const ANY: i64 = -1;

/// A shape that a rule requires.
#[derive(Debug, PartialEq)]
struct Shape {
    /// The field of the tensor, without `_tensor_uid`; none if its position in the list tells.
    field: Option<String>,
    dims: Vec<i64>,
    strides: Option<Vec<i64>>,
}

/// Requests an engine for an operation.
#[derive(Debug, PartialEq)]
struct Rule {
    operation: u8,
    engine: i64,
    tensors: Vec<Shape>,
    /// Enumerations by name, with the required number.
    criteria: Vec<(&'static str, i64)>,
}

/// The rules of a file, in its order.
#[derive(Debug, PartialEq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads a file.
    ///
    /// # Errors
    /// The mistake, with its path in the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes =
            file::open(path, OpenOptions::new().read(true)).and_then(|mut file| file::read(&mut file));
        bytes
            .map_err(|error| error.to_string())
            .and_then(|bytes| Self::parse(&bytes))
            .map_err(|reason| format!("{}: {reason}", path.display()))
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    /// The mistake, with its path in the file.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let root: Json = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let root = root.as_object().ok_or("the file is not a JSON object")?;
        let by_name = match root.get("version") {
            None => false,
            Some(version) => match version.as_i64() {
                Some(1) => false,
                Some(2) => true,
                _ => return Err(format!("version is {version}, expected 1 or 2")),
            },
        };
        let rules = root.get("engine_overrides").and_then(Json::as_array);
        let rules = rules.ok_or("engine_overrides is missing or not a list")?;
        let read = |(i, rule): (usize, &Json)| {
            Rule::parse(rule, by_name).map_err(|reason| format!("engine_overrides[{i}]: {reason}"))
        };
        Ok(Self(rules.iter().enumerate().map(read).collect::<Result<_, _>>()?))
    }

    /// The engine of the first rule that matches a node, nodes in graph order. Rules for engines that are not candidates are
    /// skipped.
    pub fn engine(&self, graph: &Graph, candidates: &[i64]) -> Option<i64> {
        graph.nodes.iter().find_map(|node| {
            let rule = self.0.iter().find(|rule| candidates.contains(&rule.engine) && rule.fits(graph, node));
            rule.map(|rule| rule.engine)
        })
    }
}

impl Rule {
    fn parse(rule: &Json, by_name: bool) -> Result<Self, String> {
        let rule = rule.as_object().ok_or("the rule is not an object")?;
        let name = text(rule, "op")?;
        let (_, operation) = OPERATIONS.into_iter().find(|(known, _)| *known == name).ok_or_else(|| {
            format!("op is {name:?}, expected {}", OPERATIONS.map(|(name, _)| name).join(", "))
        })?;
        let engine = match rule.get("engine_name") {
            Some(Json::String(name)) => name.parse().unwrap_or_else(|_| engine_id(name)),
            Some(id) => {
                id.as_i64().ok_or_else(|| format!("engine_name is {id}, expected a name or an id"))?
            }
            None => return Err("engine_name is missing".to_owned()),
        };
        let tensors =
            rule.get("tensors").and_then(Json::as_array).ok_or("tensors is missing or not a list")?;
        let read = |(i, tensor): (usize, &Json)| {
            Shape::parse(tensor, by_name).map_err(|reason| format!("tensors[{i}]: {reason}"))
        };
        let tensors: Vec<Shape> = tensors.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let inputs = inputs_of(operation);
        for (i, shape) in tensors.iter().enumerate() {
            let Some(field) = &shape.field else { continue };
            if !inputs.iter().any(|input| is_named(input, field)) {
                let names: Vec<_> =
                    inputs.iter().map(|input| format!("{}_tensor_uid", wire_name(input))).collect();
                return Err(format!("tensor_id is {field}_tensor_uid, expected one of {}", names.join(", ")));
            }
            if tensors.iter().take(i).any(|other| other.field.as_ref() == Some(field)) {
                return Err(format!("tensor_id {field}_tensor_uid is there twice"));
            }
        }
        let criteria = match rule.get("criteria") {
            None => Vec::new(),
            Some(criteria) => {
                let criteria = criteria.as_object().ok_or("criteria is not an object")?;
                criteria.iter().map(criterion).collect::<Result<_, _>>()?
            }
        };
        Ok(Self { operation, engine, tensors, criteria })
    }

    fn fits(&self, graph: &Graph, node: &Node) -> bool {
        let spec = node.operation.spec();
        if spec.wire != self.operation {
            return false;
        }
        let values = node.operation.values();
        let fields = || spec.fields.iter().zip(&values);
        let fits = |(name, expected): &(&str, i64)| {
            fields().any(|(field, value)| match (field.kind, value) {
                (FieldKind::Enum(kind), Value::Enum(number)) => {
                    kind.name == *name && i64::from(*number) == *expected
                }
                _ => false,
            })
        };
        if !self.criteria.iter().all(fits) {
            return false;
        }
        let mut inputs: Vec<(&Field, i64)> = fields()
            .filter_map(|(field, value)| match (field.kind, value) {
                (FieldKind::Input { .. }, Value::Uid(Some(uid))) => Some((field, *uid)),
                _ => None,
            })
            .collect();
        inputs.sort_by_key(|(field, _)| field.index);
        self.tensors.len() == inputs.len()
            && self.tensors.iter().zip(&inputs).all(|(shape, in_place)| {
                let input = match &shape.field {
                    None => Some(in_place),
                    Some(name) => inputs.iter().find(|(field, _)| is_named(field, name)),
                };
                let tensor = input.and_then(|(_, uid)| graph.tensor(*uid));
                tensor.is_some_and(|tensor| {
                    fit(&shape.dims, &tensor.dims)
                        && shape.strides.as_ref().is_none_or(|strides| fit(strides, &tensor.strides))
                })
            })
    }
}

impl Shape {
    fn parse(tensor: &Json, by_name: bool) -> Result<Self, String> {
        let tensor = tensor.as_object().ok_or("the tensor is not an object")?;
        let field = match by_name {
            false => None,
            true => {
                let id = text(tensor, "tensor_id")?;
                let field = id.strip_suffix("_tensor_uid");
                Some(
                    field
                        .ok_or_else(|| format!("tensor_id is {id:?}, expected a name with _tensor_uid"))?
                        .to_owned(),
                )
            }
        };
        let dims = numbers(tensor, "dim")?.ok_or("dim is missing")?;
        let strides = numbers(tensor, "stride")?;
        if strides.as_ref().is_some_and(|strides| strides.len() != dims.len()) {
            return Err("dim and stride are not equally long".to_owned());
        }
        Ok(Self { field, dims, strides })
    }
}

/// The tensors that an operation reads, by its number on the wire.
fn inputs_of(operation: u8) -> Vec<Field> {
    let spec = Operation::SPECS.iter().find(|spec| spec.wire == operation);
    let fields = spec.map_or(&[][..], |spec| spec.fields);
    fields.iter().filter(|field| matches!(field.kind, FieldKind::Input { .. })).copied().collect()
}

/// A field's name on the wire: ours has a trailing underscore if it is a Rust keyword.
fn wire_name(field: &Field) -> &'static str {
    field.name.trim_end_matches('_')
}

fn is_named(field: &Field, name: &str) -> bool {
    wire_name(field) == name
}

fn fit(expected: &[i64], actual: &[i64]) -> bool {
    expected.len() == actual.len()
        && expected.iter().zip(actual).all(|(expected, actual)| *expected == ANY || expected == actual)
}

fn text<'a>(object: &'a Map<String, Json>, key: &str) -> Result<&'a str, String> {
    object.get(key).and_then(Json::as_str).ok_or_else(|| format!("{key} is missing or not a string"))
}

fn numbers(object: &Map<String, Json>, key: &str) -> Result<Option<Vec<i64>>, String> {
    let Some(list) = object.get(key) else { return Ok(None) };
    let list = list.as_array().ok_or_else(|| format!("{key} is not a list"))?;
    let read = |number: &Json| {
        number.as_i64().filter(|number| *number >= ANY).ok_or_else(|| {
            format!("{key} has {number}, expected whole numbers of which {ANY} stands for any")
        })
    };
    list.iter().map(read).collect::<Result<_, _>>().map(Some)
}

fn criterion((name, number): (&String, &Json)) -> Result<(&'static str, i64), String> {
    let known = CRITERIA.iter().find(|(known, _)| known == name);
    let (_, enumeration) = known.ok_or_else(|| {
        format!("criteria has {name:?}, expected {}", CRITERIA.map(|(name, _)| name).join(", "))
    })?;
    let number =
        number.as_i64().ok_or_else(|| format!("criteria: {name} is {number}, expected a whole number"))?;
    Ok((enumeration, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hipdnn_plugin_sdk::graph::operation::Matmul;
    use hipdnn_plugin_sdk::graph::{DataType, Tensor};

    const MATMUL: &str = r#"{"version": 2, "engine_overrides": [
        {"op": "matmul", "engine_name": "A", "tensors": [
            {"tensor_id": "b_tensor_uid", "dim": [-1, 4]},
            {"tensor_id": "a_tensor_uid", "dim": [2, 3], "stride": [3, 1]}]}]}"#;

    fn graph() -> Graph {
        let node = Node::single(Matmul { a: 1, b: 2, c: 3 });
        let tensors = vec![
            Tensor::new(1, DataType::Float, &[2, 3], &[3, 1]),
            Tensor::new(2, DataType::Float, &[3, 4], &[4, 1]),
            Tensor::new(3, DataType::Float, &[2, 4], &[4, 1]),
        ];
        Graph { tensors, nodes: vec![node], ..Graph::default() }
    }

    fn engine(text: &str) -> Option<i64> {
        Rules::parse(text.as_bytes()).unwrap().engine(&graph(), &[engine_id("A"), 7])
    }

    #[test]
    fn tensors_are_matched_by_name_or_by_place() {
        assert_eq!(engine(MATMUL), Some(engine_id("A")));
        let by_place = |a: &str, b: &str| {
            engine(&format!(
                r#"{{"engine_overrides": [{{"op": "matmul", "engine_name": "7", "tensors": [{{"dim": {a}}}, {{"dim": {b}}}]}}]}}"#
            ))
        };
        assert_eq!(by_place("[2, 3]", "[3, 4]"), Some(7));
        assert_eq!(by_place("[-1, -1]", "[-1, 4]"), Some(7));
        assert_eq!(by_place("[3, 4]", "[2, 3]"), None);
        assert_eq!(by_place("[2, 3, 1]", "[3, 4]"), None);
        assert_eq!(by_place("[]", "[]"), None);
    }

    #[test]
    fn strides_count_where_they_are_given_and_every_input_must_be_named() {
        assert_eq!(engine(&MATMUL.replace("[3, 1]", "[1, 2]")), None);
        assert_eq!(engine(&MATMUL.replace("[3, 1]", "[-1, 1]")), Some(engine_id("A")));
        let one =
            r#"{"engine_overrides": [{"op": "matmul", "engine_name": 7, "tensors": [{"dim": [2, 3]}]}]}"#;
        assert_eq!(engine(one), None);
    }

    #[test]
    fn the_first_rule_for_a_candidate_wins() {
        let rule = |engine: &str| {
            format!(
                r#"{{"op": "matmul", "engine_name": {engine}, "tensors": [{{"dim": [-1, -1]}}, {{"dim": [-1, -1]}}]}}"#
            )
        };
        let rules = |engines: &[&str]| {
            let rules: Vec<_> = engines.iter().map(|engine| rule(engine)).collect();
            engine(&format!(r#"{{"engine_overrides": [{}]}}"#, rules.join(",")))
        };
        assert_eq!(rules(&["9", "7", "\"A\""]), Some(7));
        assert_eq!(rules(&["9"]), None);
        assert_eq!(rules(&[]), None);
    }

    #[test]
    fn criteria_must_be_met_exactly() {
        use hipdnn_plugin_sdk::graph::ReductionMode;
        use hipdnn_plugin_sdk::graph::operation::Reduction;
        let mut graph = graph();
        graph.nodes[0].operation =
            Reduction { in_: 1, out: 3, mode: ReductionMode::Max, is_deterministic: false }.into();
        let rules = |key: &str, number: u8| {
            let text = format!(
                r#"{{"version": 2, "engine_overrides": [{{"op": "reduction", "engine_name": 7, "criteria": {{"{key}": {number}}},
                "tensors": [{{"tensor_id": "in_tensor_uid", "dim": [2, -1]}}]}}]}}"#
            );
            Rules::parse(text.as_bytes()).unwrap().engine(&graph, &[7])
        };
        assert_eq!(rules("reduction_mode", ReductionMode::Max.wire()), Some(7));
        assert_eq!(rules("reduction_mode", ReductionMode::Min.wire()), None);
        assert_eq!(rules("pointwise_mode", ReductionMode::Max.wire()), None);
    }

    #[test]
    fn every_operation_that_a_rule_can_name_is_one() {
        for (name, number) in OPERATIONS {
            assert!(!inputs_of(number).is_empty(), "{name}");
        }
        let names: Vec<_> = inputs_of(12).iter().map(wire_name).collect();
        assert_eq!(names[..3], ["q", "k", "v"]);
    }

    #[test]
    fn errors_name_the_mistake_and_its_path() {
        let error = |text: &str| Rules::parse(text.as_bytes()).unwrap_err();
        assert!(error("").contains("EOF"));
        assert_eq!(error("[]"), "the file is not a JSON object");
        assert_eq!(error("{}"), "engine_overrides is missing or not a list");
        assert_eq!(error(r#"{"version": 3}"#), "version is 3, expected 1 or 2");
        assert_eq!(error(r#"{"version": "1"}"#), "version is \"1\", expected 1 or 2");
        let cases = [
            ("\"matmul\"", "\"matmull\"", "engine_overrides[0]: op is \"matmull\", expected conv_fprop, "),
            ("\"op\": ", "\"o\": ", "engine_overrides[0]: op is missing"),
            ("\"A\"", "[]", "engine_name is [], expected a name or an id"),
            (
                "b_tensor_uid",
                "c_tensor_uid",
                "tensor_id is c_tensor_uid, expected one of a_tensor_uid, b_tensor_uid",
            ),
            ("b_tensor_uid", "a_tensor_uid", "tensor_id a_tensor_uid is there twice"),
            ("b_tensor_uid", "b", "expected a name with _tensor_uid"),
            ("[-1, 4]", "[-2, 4]", "tensors[0]: dim has -2"),
            ("[-1, 4]", "[1.5, 4]", "tensors[0]: dim has 1.5"),
            ("[-1, 4]", "4", "tensors[0]: dim is not a list"),
            ("[3, 1]", "[3]", "dim and stride are not equally long"),
            (
                "\"tensors\": [",
                "\"criteria\": {\"mode\": 1}, \"tensors\": [",
                "criteria has \"mode\", expected norm_fwd_phase",
            ),
            ("\"tensors\": [", "\"criteria\": [], \"tensors\": [", "criteria is not an object"),
        ];
        for (part, by, expected) in cases {
            let text = MATMUL.replacen(part, by, 1);
            assert_ne!(text, MATMUL);
            let error = error(&text);
            assert!(error.contains(expected), "{error}");
        }
        // Damaged files are parsed or refused, without a panic.
        for cut in 0..MATMUL.len() {
            assert!(Rules::parse(&MATMUL.as_bytes()[..cut]).is_err(), "{cut}");
        }
        assert!(Rules::parse("[".repeat(1 << 20).as_bytes()).is_err());
    }
}
