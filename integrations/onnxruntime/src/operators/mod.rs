//! The supported operators, each with the versions of its definition that are known and its translation to hipDNN's operations.
//!
//! A node is built twice: once alone, when ONNX Runtime asks which nodes are claimed, with made-up sizes for unknown dimensions;
//! and once with its subgraph, for each shape. Restrictions that only depend on the node are found the first time, with a reason.

mod attention;
mod blocks;
mod clip;
mod conv;
mod deform;
mod einsum;
mod fused;
mod integer;
mod late;
mod layout;
mod matmul;
mod norm;
mod optimized;
mod own;
mod pad;
mod phases;
mod places;
mod pointwise;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod resize;
mod rotary;
mod sample;
mod scores;
mod spectrum;
mod whole;

pub use late::is_open;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::lowering::{Lowered, Lowering, Reason, View, refuse};
use crate::model::{Element, Node};

/// Builds a node.
pub type Build = fn(&Node, &mut Lowering<'_>) -> Lowered<()>;

/// The weight of an operator in deciding which subgraphs are worth claiming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// It computes much per byte.
    Heavy,
    /// It reads and writes each element.
    Light,
    /// It only changes the layout.
    Layout,
}

/// An operator.
pub struct Operator {
    /// Its domain; empty means ONNX's own.
    pub domain: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The first and the last version of its definition known here.
    pub since: (i32, i32),
    /// Its weight.
    pub cost: Cost,
    /// Its build function.
    pub build: Build,
}

const fn onnx(name: &'static str, since: (i32, i32), cost: Cost, build: Build) -> Operator {
    Operator { domain: "", name, since, cost, build }
}

const fn microsoft(name: &'static str, cost: Cost, build: Build) -> Operator {
    Operator { domain: "com.microsoft", name, since: (1, 1), cost, build }
}

/// The lists, one per family.
const LISTS: &[&[Operator]] = &[
    conv::OPERATORS,
    deform::OPERATORS,
    matmul::OPERATORS,
    einsum::OPERATORS,
    integer::OPERATORS,
    quantize::OPERATORS,
    attention::OPERATORS,
    fused::OPERATORS,
    rotary::OPERATORS,
    blocks::OPERATORS,
    norm::OPERATORS,
    optimized::OPERATORS,
    pool::OPERATORS,
    pad::OPERATORS,
    own::OPERATORS,
    late::OPERATORS,
    places::OPERATORS,
    recurrent::OPERATORS,
    reduce::OPERATORS,
    pointwise::OPERATORS,
    clip::OPERATORS,
    layout::OPERATORS,
    resize::OPERATORS,
    sample::OPERATORS,
    spectrum::OPERATORS,
    whole::OPERATORS,
];

/// All operators.
pub fn all() -> impl Iterator<Item = &'static Operator> {
    LISTS.iter().copied().flatten()
}

/// The operator of a node, or why it is not supported.
pub fn find(node: &Node) -> Lowered<&'static Operator> {
    static NAMED: LazyLock<HashMap<&str, Vec<&Operator>>> = LazyLock::new(|| {
        let mut named: HashMap<&str, Vec<&Operator>> = HashMap::new();
        all().for_each(|operator| named.entry(operator.name).or_default().push(operator));
        named
    });
    let named = NAMED.get(node.operator.as_str()).into_iter().flatten();
    let named = named.copied().find(|operator| operator.domain == node.domain);
    let Some(operator) = named else { return refuse("this operator is not computed here") };
    let (first, last) = operator.since;
    if !(first..=last).contains(&node.since) {
        return refuse(format!("its definition is of version {}, expected {first} to {last}", node.since));
    }
    Ok(operator)
}

/// Normalizes an axis that may count from the end.
fn axis(axis: i64, rank: usize) -> Lowered<usize> {
    let signed = i64::try_from(rank).unwrap_or(0);
    let from_start = if axis < 0 { axis + signed } else { axis };
    let found = usize::try_from(from_start).ok().filter(|axis| *axis < rank);
    found.ok_or_else(|| Reason(format!("axis {axis} of a tensor of {rank} dimensions")))
}

/// Normalizes axes that may count from the end, and sorts them.
fn axes(list: &[i64], rank: usize) -> Lowered<Vec<usize>> {
    let mut found = list.iter().map(|at| axis(*at, rank)).collect::<Lowered<Vec<_>>>()?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Rejects tensors of types other than floating point.
fn floats(views: &[&View]) -> Lowered<()> {
    match views.iter().find(|view| !view.element.is_float()) {
        Some(view) => refuse(format!("elements are {}, expected a floating-point type", view.element.name())),
        None => Ok(()),
    }
}

/// Rejects tensors of different types.
fn same_type(views: &[&View]) -> Lowered<()> {
    let mut types = views.iter().map(|view| view.element);
    let first = types.next();
    match types.find(|element| Some(*element) != first) {
        Some(other) => {
            refuse(format!("operands are {} and {}", first.map_or("", Element::name), other.name()))
        }
        None => Ok(()),
    }
}

/// The window of a convolution or pooling: one number per spatial dimension.
#[derive(Clone, Debug, PartialEq)]
struct Window {
    size: Vec<i64>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
    before: Vec<i64>,
    after: Vec<i64>,
    out: Vec<i64>,
}

impl Window {
    /// Reads the attributes shared by convolutions and poolings. For poolings, `pooling` says whether the number of positions is rounded up.
    fn read(node: &Node, input: &[i64], size: &[i64], pooling: Option<bool>) -> Lowered<Self> {
        let ceil = pooling == Some(true);
        let spatial = size.len();
        if input.len() != spatial {
            return refuse(format!("a window of {spatial} dimensions over {} spatial ones", input.len()));
        }
        let list = |name: &str| -> Lowered<Vec<i64>> {
            match node.ints(name) {
                None => Ok(vec![1; spatial]),
                Some(list) if list.len() == spatial && list.iter().all(|value| *value > 0) => {
                    Ok(list.to_vec())
                }
                Some(list) => refuse(format!("{name} is {list:?}")),
            }
        };
        let (stride, dilation) = (list("strides")?, list("dilations")?);
        let mut window = Self {
            size: size.to_vec(),
            stride,
            dilation,
            before: vec![0; spatial],
            after: vec![0; spatial],
            out: vec![0; spatial],
        };
        let auto = node.text("auto_pad", "NOTSET");
        let pads = node.ints("pads").unwrap_or(&[]);
        if !matches!(pads.len(), 0) && pads.len() != 2 * spatial {
            return refuse(format!("pads is {pads:?}"));
        }
        for at in 0..spatial {
            let get = |of: &[i64]| of.get(at).copied().unwrap_or(1);
            let (have, step) = (get(input), get(&window.stride));
            let reach = (get(size) - 1) * get(&window.dilation) + 1;
            let (before, after, out) = match auto {
                "NOTSET" | "" | "VALID" => {
                    let pad =
                        |at: usize| if auto == "VALID" { 0 } else { pads.get(at).copied().unwrap_or(0) };
                    let (before, after) = (pad(at), pad(at + spatial));
                    (before, after, positions([have, before, after], reach, step, ceil))
                }
                "SAME_UPPER" | "SAME_LOWER" => {
                    let out = ceil_div(have, step);
                    // ONNX Runtime pads for a pooling as if its window were not dilated.
                    let span = if pooling.is_some() { get(size) } else { reach };
                    let total = (out - 1) * step + span - have;
                    // Where windows have gaps, it leaves elements out at both ends of a pooling.
                    let total = if pooling.is_some() { total } else { total.max(0) };
                    let before = if auto == "SAME_UPPER" { total / 2 } else { (total + 1) / 2 };
                    let after = total - before;
                    (before, after, positions([have, before, after], reach, step, ceil))
                }
                other => return refuse(format!("auto_pad is {other:?}")),
            };
            if (before < 0 || after < 0) && (pooling.is_none() || !auto.starts_with("SAME")) {
                return refuse("padding is negative");
            }
            if out < 1 || have < 1 {
                return refuse(format!("a window of {reach} over {have} elements has no position"));
            }
            for (list, value) in
                [(&mut window.before, before), (&mut window.after, after), (&mut window.out, out)]
            {
                if let Some(slot) = list.get_mut(at) {
                    *slot = value;
                }
            }
        }
        Ok(window)
    }
}

/// The number of positions of a window with this reach over elements and the padding before and after them.
fn positions([have, before, after]: [i64; 3], reach: i64, step: i64, ceil: bool) -> i64 {
    let room = have + before + after - reach;
    let out = if ceil { ceil_div(room, step) } else { room.div_euclid(step) } + 1;
    // A window that would begin after the input and its leading padding is dropped.
    out - i64::from(ceil && (out - 1) * step >= have + before)
}

fn ceil_div(a: i64, b: i64) -> i64 {
    a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0)
}

/// The first two dimensions and the spatial ones of an image.
fn image(view: &View) -> Lowered<(i64, i64, Vec<i64>)> {
    match view.dims.as_slice() {
        [batch, channels, spatial @ ..] if !spatial.is_empty() => Ok((*batch, *channels, spatial.to_vec())),
        dims => refuse(format!("an image has dims {dims:?}, expected three or more")),
    }
}

/// A tensor with one number per channel, reshaped to broadcast over an image of this rank.
fn by_channel(lowering: &mut Lowering<'_>, view: &View, rank: usize) -> Lowered<View> {
    let mut dims = vec![1; rank];
    if let Some(channels) = dims.get_mut(1) {
        *channels = view.elements();
    }
    lowering.reshape(view, &dims)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::model::Attribute;

    #[test]
    fn every_operator_is_listed_once() {
        let mut names = HashSet::new();
        for operator in all() {
            assert!(names.insert((operator.domain, operator.name)), "{} twice", operator.name);
            assert!(operator.since.0 <= operator.since.1, "{}", operator.name);
        }
    }

    #[test]
    fn definitions_of_other_versions_are_left_to_others() {
        let node = |since| Node { operator: "Relu".to_owned(), since, ..Node::default() };
        assert!(find(&node(14)).is_ok());
        let reason = find(&node(99)).err().unwrap();
        assert_eq!(reason.0, "its definition is of version 99, expected 6 to 14");
        let unknown =
            Node { operator: "Relu".to_owned(), domain: "my".to_owned(), since: 14, ..Node::default() };
        assert!(find(&unknown).is_err());
    }

    #[test]
    fn windows_have_the_positions_of_the_definition() {
        let window = |attributes: &[(&str, Attribute)], have: i64, size: i64, ceil: bool| {
            let attributes =
                attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            let node = Node { attributes, ..Node::default() };
            let window = Window::read(&node, &[have], &[size], Some(ceil)).unwrap();
            (window.before[0], window.after[0], window.out[0])
        };
        let ints = |list: &[i64]| Attribute::Ints(list.to_vec());
        assert_eq!(window(&[("pads", ints(&[1, 1])), ("strides", ints(&[2]))], 224, 3, false), (1, 1, 112));
        let same = |word: &str| Attribute::Text(word.to_owned());
        assert_eq!(
            window(&[("auto_pad", same("SAME_UPPER")), ("strides", ints(&[2]))], 5, 2, false),
            (0, 1, 3)
        );
        assert_eq!(window(&[("auto_pad", same("SAME_LOWER"))], 4, 2, false), (1, 0, 4));
        assert_eq!(window(&[("auto_pad", same("VALID")), ("strides", ints(&[2]))], 4, 3, true), (0, 0, 2));
        assert_eq!(window(&[("dilations", ints(&[2]))], 7, 3, false), (0, 0, 3));
        // Rounded up; and dropping a last window that would begin in the trailing padding.
        assert_eq!(window(&[("strides", ints(&[2]))], 4, 3, true), (0, 0, 2));
        assert_eq!(window(&[("strides", ints(&[3])), ("pads", ints(&[0, 1]))], 2, 1, true), (0, 1, 1));
    }

    #[test]
    fn constant_numbers_are_in_the_graph() {
        use crate::lowering::Step;
        use crate::model::{Constant, Model, Value};
        let value =
            |name: &str| Value { name: name.to_owned(), element: Some(Element::Float), ..Value::default() };
        let constant =
            Constant { element: Element::Float, dims: vec![1], bytes: 2_f32.to_ne_bytes().to_vec() };
        let number = Value { constant: Some(constant), is_constant: true, ..value("two") };
        let model = Model { values: vec![value("x"), number, value("y")], ..Model::default() };
        let is_number = |operator: &str, inputs: [usize; 2]| {
            let node = Node {
                operator: operator.to_owned(),
                since: 14,
                inputs: inputs.map(Some).to_vec(),
                outputs: vec![Some(2)],
                ..Node::default()
            };
            let mut lowering = Lowering::new(&model);
            lowering.bind_input(0, Element::Float, &[2, 3], false);
            lowering.bind_input(1, Element::Float, &[1], true);
            (find(&node).unwrap().build)(&node, &mut lowering).unwrap();
            let [Step::Node { operation, .. }] = lowering.program.steps.as_slice() else {
                panic!("one operation")
            };
            let second = operation.inputs()[1];
            lowering.program.view(second).is_none()
        };
        assert!(is_number("Div", [0, 1]) && is_number("Add", [1, 0]));
        assert!(!is_number("Sub", [1, 0]));
    }
}
