//! The boxes and edges of a picture.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::Marks;
use super::text::{short, width};
use crate::graph::{Graph, Node, Tensor, shape};
use crate::steps::Step;

/// Font sizes.
pub const TITLE: f64 = 13.0;
pub const BODY: f64 = 11.0;
pub const PORT: f64 = 10.0;

/// The height of the strip with the roles of an operation's tensors.
pub const STRIP: f64 = 17.0;
const LINE: f64 = 15.0;
const MARGIN: f64 = 12.0;
const LONGEST: usize = 44;

/// After how many operations an input is drawn again.
const NEAR: usize = 3;

/// The kind of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An operation of a family.
    Operation(Family),
    /// An operation, by its share of an error.
    Share(Part),
    /// An input of the graph.
    Input,
    /// An output of the graph.
    Output,
    /// A tensor inside the graph.
    Virtual,
    /// A constant.
    Value,
}

/// A range of shares of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Hundredth,
    Tenth,
    Half,
    Most,
}

impl Part {
    fn of(share: f64) -> Self {
        match share {
            share if share < 0.01 => Self::Hundredth,
            share if share < 0.1 => Self::Tenth,
            share if share < 0.5 => Self::Half,
            _ => Self::Most,
        }
    }
}

impl Kind {
    /// Whether it is an operation, not a tensor.
    pub fn is_operation(self) -> bool {
        matches!(self, Self::Operation(_) | Self::Share(_))
    }
}

/// Operations that are drawn alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Product,
    Normalization,
    Pointwise,
    Attention,
    Reduction,
    Scaling,
    Other,
}

/// A box.
#[derive(Clone, Debug)]
pub struct Item {
    pub kind: Kind,
    /// The first line.
    pub title: String,
    /// Further lines.
    pub lines: Vec<String>,
    /// The details, shown as a tooltip.
    pub tip: String,
    pub width: f64,
    pub height: f64,
}

/// An edge from one box to another.
#[derive(Clone, Debug)]
pub struct Edge {
    pub from: usize,
    pub to: usize,
    /// The role that the tensor has in the operation.
    pub role: String,
    /// Whether it leads from ragged offsets to their tensor.
    pub is_offset: bool,
}

/// All boxes and edges.
#[derive(Clone, Debug, Default)]
pub struct Diagram {
    pub items: Vec<Item>,
    pub edges: Vec<Edge>,
    /// The boxes that each step of a plan computes together, and the tensors between them.
    pub groups: Vec<Vec<usize>>,
}

impl Diagram {
    /// The boxes of a graph. An input is drawn again next to readers far from the first one, since its name is clearer than a
    /// long edge.
    pub(super) fn new(graph: &Graph, marks: Marks<'_>) -> Self {
        let depths = depths(graph);
        let mut diagram = Self::default();
        let nodes: Vec<usize> =
            graph.nodes.iter().enumerate().map(|it| diagram.push(operation(it, marks))).collect();
        let mut written: HashMap<i64, usize> = HashMap::new();
        for (node, item) in graph.nodes.iter().zip(&nodes) {
            for port in &node.outputs {
                let Some(tensor) = graph.tensor(port.uid) else { continue };
                let to = *written.entry(port.uid).or_insert_with(|| diagram.push(tensor_item(tensor, true)));
                diagram.edges.push(Edge { from: *item, to, role: port.role.clone(), is_offset: false });
            }
        }
        // The depth and the box at which each input was drawn last.
        let mut drawn: HashMap<i64, (usize, usize)> = HashMap::new();
        let mut by_depth: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, depth) in depths.iter().enumerate() {
            by_depth.entry(*depth).or_default().push(place);
        }
        for (depth, places) in &by_depth {
            for place in places {
                let (Some(node), Some(to)) = (graph.nodes.get(*place), nodes.get(*place)) else { continue };
                for port in &node.inputs {
                    let Some(tensor) = graph.tensor(port.uid) else { continue };
                    let from = match (written.get(&port.uid), drawn.get(&port.uid)) {
                        (Some(item), _) => *item,
                        (None, Some((at, item))) if depth - at <= NEAR => *item,
                        (None, _) => {
                            let item = diagram.push(tensor_item(tensor, false));
                            drawn.insert(port.uid, (*depth, item));
                            item
                        }
                    };
                    diagram.edges.push(Edge { from, to: *to, role: port.role.clone(), is_offset: false });
                }
            }
        }
        diagram.add_groups(graph, marks, &nodes, &written);
        diagram.add_rest(graph, &written, &drawn);
        diagram.widen_for_ports();
        diagram
    }

    fn push(&mut self, item: Item) -> usize {
        self.items.push(item);
        self.items.len() - 1
    }

    /// Adds groups for steps that compute several nodes: the nodes, and the tensors that exist only between them.
    fn add_groups(
        &mut self,
        graph: &Graph,
        marks: Marks<'_>,
        nodes: &[usize],
        written: &HashMap<i64, usize>,
    ) {
        for step in
            marks.planned().iter().flat_map(|planned| &planned.steps).filter(|step| step.nodes.len() > 1)
        {
            let is_inside = |place: &usize| step.nodes.contains(place);
            let readers = |uid: i64| {
                let reads = move |node: &Node| node.inputs.iter().any(|port| port.uid == uid);
                graph.nodes.iter().enumerate().filter(move |(_, node)| reads(node)).map(|(place, _)| place)
            };
            let between = step
                .nodes
                .iter()
                .filter_map(|place| graph.nodes.get(*place))
                .flat_map(|node| &node.outputs)
                .filter(|port| graph.tensor(port.uid).is_some_and(|tensor| tensor.is_virtual))
                .filter(|port| readers(port.uid).all(|place| is_inside(&place)))
                .filter_map(|port| written.get(&port.uid));
            let own = step.nodes.iter().filter_map(|place| nodes.get(*place));
            self.groups.push(own.chain(between).copied().collect());
        }
    }

    /// Adds tensors that no node names: ragged offsets, drawn next to their tensors, and unused ones.
    fn add_rest(
        &mut self,
        graph: &Graph,
        written: &HashMap<i64, usize>,
        drawn: &HashMap<i64, (usize, usize)>,
    ) {
        let mut items: HashMap<i64, usize> = drawn.iter().map(|(uid, (_, item))| (*uid, *item)).collect();
        items.extend(written);
        for tensor in &graph.tensors {
            items.entry(tensor.uid).or_insert_with(|| self.push(tensor_item(tensor, false)));
        }
        for tensor in &graph.tensors {
            let ends = (tensor.ragged_offset.and_then(|uid| items.get(&uid)), items.get(&tensor.uid));
            if let (Some(from), Some(to)) = ends {
                self.edges.push(Edge { from: *from, to: *to, role: String::new(), is_offset: true });
            }
        }
    }

    /// Widens operations for the roles along their borders.
    fn widen_for_ports(&mut self) {
        let mut above = vec![Vec::new(); self.items.len()];
        let mut below = vec![Vec::new(); self.items.len()];
        for edge in self.edges.iter().filter(|edge| !edge.is_offset) {
            if let Some(roles) = above.get_mut(edge.to) {
                roles.push(&edge.role);
            }
            if let Some(roles) = below.get_mut(edge.from) {
                roles.push(&edge.role);
            }
        }
        for ((item, above), below) in self.items.iter_mut().zip(above).zip(below) {
            if item.kind.is_operation() {
                item.width = item.width.max(strip_width(&above)).max(strip_width(&below));
            }
        }
    }
}

/// The width of the roles along one border of an operation, all with the same space.
fn strip_width(roles: &[&String]) -> f64 {
    roles.len() as f64 * port_room(roles.iter().map(|role| role.as_str()))
}

/// The space for each of some roles.
pub fn port_room<'a>(roles: impl Iterator<Item = &'a str>) -> f64 {
    roles.map(|role| width(role, PORT)).fold(0.0, f64::max) + 10.0
}

/// For each node, the length of the longest path to it.
pub fn depths(graph: &Graph) -> Vec<usize> {
    let mut of_tensor: HashMap<i64, usize> = HashMap::new();
    let mut depths = vec![0; graph.nodes.len()];
    // Nodes are in topological order; for a node that is not, later tensors count as inputs.
    for (node, depth) in graph.nodes.iter().zip(&mut depths) {
        *depth = node
            .inputs
            .iter()
            .filter_map(|port| of_tensor.get(&port.uid))
            .map(|depth| depth + 1)
            .max()
            .unwrap_or(0);
        for port in &node.outputs {
            of_tensor.entry(port.uid).or_insert(*depth);
        }
    }
    depths
}

/// The box of a node; with a plan, its last line names the algorithm, with shares of an error, its share.
fn operation((place, node): (usize, &Node), marks: Marks<'_>) -> Item {
    let planned = marks.planned();
    let (title, family) = title_and_family(node);
    let mut lines = Vec::new();
    if !node.name.is_empty() {
        lines.push(short(&node.name, LONGEST));
    }
    lines.extend(parameter_lines(node));
    let mut steps = planned.iter().flat_map(|planned| &planned.steps).enumerate();
    let step = steps.find(|(_, step)| step.nodes.contains(&place));
    let told = step.map(|(number, step)| format!("\nstep {}: {}", number + 1, step.algorithm()));
    lines.extend(step.map(|(number, step)| short(&format!("{}: {}", number + 1, step.name()), LONGEST)));
    let is_first = |step: &Step| step.nodes.iter().min() == Some(&place);
    let time = step.filter(|(_, step)| is_first(step)).and_then(|(number, _)| *planned?.times.get(number)?);
    lines.extend(time.map(|time| format!("{time:.3} ms")));
    let share = marks.share(place);
    lines.extend(share.map(|(_, line)| short(line, LONGEST)));
    let kind = share.map_or(Kind::Operation(family), |(share, _)| Kind::Share(Part::of(*share)));
    let all = node.parameters.iter().map(|(key, value)| format!("\n{key}: {value}")).collect::<String>();
    let told = told.unwrap_or_default();
    let tip = format!("{} {}\ncompute type: {}{all}{told}", node.operation, node.name, node.compute_type);
    sized(Item { kind, title, lines, tip, width: 0.0, height: 0.0 })
}

fn title_and_family(node: &Node) -> (String, Family) {
    let mode = |key: &str| node.parameter(key).and_then(Value::as_str).unwrap_or_default();
    let (title, family) = match node.operation.as_str() {
        "ConvolutionFwd" => ("convolution", Family::Product),
        "ConvolutionBwd" => ("convolution data gradient", Family::Product),
        "ConvolutionWrw" => ("convolution filter gradient", Family::Product),
        "Matmul" => ("matmul", Family::Product),
        "MoeGroupedMatmul" => ("grouped matmul", Family::Product),
        "MoeGroupedMatmulBwd" => ("grouped matmul gradient", Family::Product),
        "Batchnorm" => ("batchnorm training", Family::Normalization),
        "BatchnormBackward" => ("batchnorm gradient", Family::Normalization),
        "BatchnormInference" => ("batchnorm inference", Family::Normalization),
        "BatchnormInferenceVariance" => ("batchnorm inference, variance", Family::Normalization),
        "Layernorm" => ("layernorm", Family::Normalization),
        "LayernormBackward" => ("layernorm gradient", Family::Normalization),
        "RMSNorm" => ("RMSNorm", Family::Normalization),
        "RMSNormBackward" => ("RMSNorm gradient", Family::Normalization),
        "Pointwise" => (mode("operation"), Family::Pointwise),
        "Sdpa" => ("attention", Family::Attention),
        "SdpaBackward" => ("attention gradient", Family::Attention),
        "Reduction" => ("reduction", Family::Reduction),
        "ResampleFwd" => (mode("resample_mode"), Family::Reduction),
        "ResampleBwd" => ("resample gradient", Family::Reduction),
        "BlockScaleQuantize" => ("block scale quantize", Family::Scaling),
        "BlockScaleDequantize" => ("block scale dequantize", Family::Scaling),
        other => (other, Family::Other),
    };
    let title =
        if node.operation == "Reduction" { format!("{title} {}", mode("mode")) } else { title.to_owned() };
    (if title.is_empty() { node.operation.clone() } else { short(&title, LONGEST) }, family)
}

/// Whether a parameter has its default value.
fn is_usual(key: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => {
            matches!(
                text.as_str(),
                "" | "unset" | "AUTO" | "TOP_LEFT" | "CROSS_CORRELATION" | "none" | "not_set"
            ) || matches!(key, "operation" | "mode" | "resample_mode")
        }
        Value::Array(values) => {
            let usual = if matches!(key, "stride" | "dilation") { 1 } else { 0 };
            values.iter().all(|value| value.as_i64() == Some(usual))
        }
        _ => false,
    }
}

/// The important parameters, several per line.
fn parameter_lines(node: &Node) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let pads = (node.parameter("pre_padding"), node.parameter("post_padding"));
    let same_pads = pads.0.is_some() && pads.0 == pads.1;
    for (key, value) in &node.parameters {
        if is_usual(key, value) || (same_pads && key == "post_padding") {
            continue;
        }
        let key = if same_pads && key == "pre_padding" { "padding" } else { key.as_str() };
        let key = key.replace('_', " ");
        parts.push(match value {
            Value::Bool(_) => key,
            Value::Array(values) if values.len() > 8 => format!("{key} of {}", values.len()),
            Value::Array(values) => {
                format!("{key} {}", values.iter().map(Value::to_string).collect::<Vec<_>>().join("×"))
            }
            Value::String(text) => format!("{key} {text}"),
            other => format!("{key} {}", number(other)),
        });
    }
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + part.chars().count() <= 34 => {
                line.push_str(" · ");
                line.push_str(&part);
            }
            _ => lines.push(part),
        }
    }
    lines.into_iter().map(|line| short(&line, LONGEST)).collect()
}

fn tensor_item(tensor: &Tensor, is_written: bool) -> Item {
    let kind = match (tensor.is_virtual, &tensor.value, is_written) {
        (true, ..) => Kind::Virtual,
        (_, Some(_), _) => Kind::Value,
        (_, _, true) => Kind::Output,
        _ => Kind::Input,
    };
    let mut lines = vec![format!("{} {}", tensor.data_type, shape(&tensor.dims))];
    let order = tensor.order();
    if !order.is_empty() {
        lines.push(order);
    }
    let title = match &tensor.value {
        Some(value) => format!("{} = {}", tensor.label(), number(value)),
        None => tensor.label(),
    };
    let tip = format!(
        "tensor {} {}\n{} {}\nstrides {:?}\nalignment {}{}",
        tensor.uid,
        tensor.name,
        tensor.data_type,
        shape(&tensor.dims),
        tensor.strides,
        tensor.alignment,
        if tensor.is_runtime_pass_by_value { "\na scalar, passed by value" } else { "" }
    );
    let lines = lines.into_iter().map(|line| short(&line, LONGEST)).collect();
    sized(Item { kind, title: short(&title, LONGEST), lines, tip, width: 0.0, height: 0.0 })
}

/// A number with few enough digits to read.
fn number(value: &Value) -> String {
    let Some(number) = value.as_f64().filter(|_| value.is_f64()) else { return value.to_string() };
    let number = format!("{number:.5e}").parse().unwrap_or(number);
    if number == 0.0 || (1e-3..1e6).contains(&number.abs()) {
        format!("{number}")
    } else {
        format!("{number:e}")
    }
}

fn sized(mut item: Item) -> Item {
    let lines = item.lines.iter().map(|line| width(line, BODY)).fold(0.0, f64::max);
    item.width = (width(&item.title, TITLE) * 1.06).max(lines).max(52.0) + 2.0 * MARGIN;
    let text = 18.0 + LINE * item.lines.len() as f64;
    item.height = match item.kind {
        kind if kind.is_operation() => text + 2.0 * STRIP,
        _ => text + 8.0,
    };
    item
}
