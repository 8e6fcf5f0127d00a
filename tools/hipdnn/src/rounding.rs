//! How far the results of a plan may be from the reference, from what its steps say they do to numbers.
//!
//! A node that sums n terms in a type with half step u is off by at most γₙ Σ|t|, γₙ = n u / (1 - n u), in any order (Higham,
//! Accuracy and Stability of Numerical Algorithms, 3.1). Roundings that do not depend on each other mostly cancel: their sum stays
//! below λ √n u times the largest partial sum with probability 1 - 2 exp(-λ²/2) (Higham, Mary, SIAM J. Sci. Comput. 41, 2019).
//!
//! A result x may differ from the reference r by
//!
//! ```text
//! 2 u max(|x|, |r|) + e A + t
//! ```
//!
//! where u is half a step of the result's type and t its smallest number, so that the two may be neighbours; A is the largest
//! finite magnitude in the reference; and e adds up, over the nodes that the result depends on, the lesser of both bounds for the
//! roundings of the plan and of the reference, and what does not cancel: operands that are cut to TF32, functions, matrix
//! instructions that cut sums, and the tensors between nodes, of which each side may have stored the neighbour.

use std::collections::HashSet;

use hipdnn_plugin_sdk::graph::PointwiseMode;
use hipdnn_plugin_sdk::numerics::functions_of;

use crate::data_type::DataType;
use crate::double::mode;
use crate::graph::{Graph, Node, Tensor};
use crate::steps::{Numerics, Step};
use crate::tensor::{Tolerance, steps};

/// λ: results are beyond the bound with a probability of 3 · 10⁻⁸.
const CONFIDENCE: f64 = 6.0;

/// An operand that is rounded to TF32, which has 10 bits of a fraction; tensor cores cut what is below.
const TF32: f64 = 1.0 / 1024.0;

/// An operand of `half` that is rounded to, or cut to, bfloat16, which has 7 bits of a fraction.
const BFLOAT16: f64 = 1.0 / 128.0;

/// A function whose error an engine does not know, in half steps: what the reference's own formulas may be off by.
const UNKNOWN_FUNCTION: f64 = 32.0;

/// What a node's roundings amount to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roundings {
    /// Half a step of the type in which it adds up.
    pub unit: f64,
    /// The roundings of that type on the way of a term into the sum.
    count: f64,
    /// How much larger each gets inside the transforms of an algorithm.
    growth: f64,
    /// Parts of sums that are added in a smaller type, and half its step.
    parts: (f64, f64),
    /// The error of a term, or of the sum, that does not cancel.
    fixed: f64,
}

impl Roundings {
    /// Those of a node whose step says this, or if nothing is known, of one that computes as the graph says.
    pub fn of(graph: &Graph, node: &Node, notes: Option<&Numerics>) -> Self {
        let none = Numerics::default();
        let notes = notes.unwrap_or(&none);
        let has = |note: &str| notes.notes.iter().any(|own| own == note);
        let operands = || node.inputs.iter().filter_map(|port| graph.tensor(port.uid));
        let is_product = is_product(node);
        let terms = terms(graph, node);
        let mut unit = unit(node, notes);
        let exact = is_product && operands().all(|tensor| tensor.data_type.is_integer());
        let mut fixed = 0.0;
        if is_product && has("TENSOR_CORE") && !exact {
            // Each instruction aligns its products with the largest, cuts what is below the bits that it keeps, and cuts the sum, always
            // towards 0. One that is not known may do so for each eight.
            let of_one = notes.matrix_sums.map_or(8, |sums| sums.terms.max(1));
            // No type that multiplies has fewer bits than 8: what claims it may be off by anything.
            let bits = notes.matrix_sums.map(|sums| f64::from(sums.bits.clamp(8, 53)));
            unit = bits.map_or(unit, |bits| unit.max((1.0 - bits).exp2()));
            fixed += (terms / f64::from(of_one)).ceil() * unit;
        }
        let (growth, count) = match () {
            () if exact => (1.0, 1.0),
            () if !is_product || !node.operation.starts_with("Conv") => (1.0, terms),
            // `docs/numerics.md` has both bounds; others are not known.
            () if has("WINOGRAD_TILE_6x6") => (176.0, terms / 9.0 + 18.0),
            () if has("WINOGRAD_TILE_13x13") => (1e4, terms),
            () if has("WINOGRAD") => (16.0, terms / 9.0 + 11.0),
            () => (1.0, terms),
        };
        let by_fft = by_fft(graph, node).filter(|_| has("FFT") && !exact);
        // An engine that may take several algorithms names all of them.
        let (growth, count) = match by_fft {
            Some((more, roundings)) if more * roundings > growth * count => (more, roundings),
            _ => (growth, count),
        };
        fixed += of_functions(node, notes) * unit;
        if is_product && has("DOWN_CONVERT_INPUTS") {
            let halves = operands().any(|tensor| tensor.data_type == DataType::Half);
            fixed += 2.0 * if halves { BFLOAT16 } else { TF32 };
        }
        let sums = is_product && !exact || node.operation == "Reduction";
        let parts = match node.outputs.iter().filter_map(|port| graph.tensor(port.uid)).next() {
            Some(tensor) if sums && has("REDUCED_PRECISION_REDUCTION") => {
                // If it is not known, a part has a tile of terms at least.
                let usual = (terms / 32.0).clamp(1.0, 32.0);
                (notes.parts.map_or(usual, f64::from).min(terms), steps(tensor.data_type).0)
            }
            _ => (0.0, 0.0),
        };
        Self { unit, count: count + converted(graph, node, unit) + of_formula(node), growth, parts, fixed }
    }

    /// A bound of the error of the sum over the sum of the terms' magnitudes, whatever their order.
    pub fn certain(&self) -> f64 {
        let gamma =
            |roundings: f64| if roundings < 1.0 { roundings / (1.0 - roundings) } else { f64::INFINITY };
        let sums = gamma(self.count * self.growth * self.unit);
        let parts = gamma(self.parts.0 * self.parts.1);
        (1.0 + sums) * (1.0 + parts) * (1.0 + self.fixed) - 1.0
    }

    /// The sum of the squares of roundings that cancel.
    fn squares(&self) -> f64 {
        self.count * self.growth * self.unit.powi(2) + self.parts.0 * self.parts.1.powi(2)
    }
}

/// The type in which a node computes: half types in single precision, as nodes without a compute type.
pub fn accumulator(node: &Node) -> DataType {
    if node.compute_type == DataType::Double { DataType::Double } else { DataType::Float }
}

/// The smallest normal number of a type that processors flush below it; `half` is converted first, and then normal.
pub fn normal(data_type: DataType) -> f64 {
    match data_type {
        DataType::Double => f64::MIN_POSITIVE,
        DataType::Float | DataType::Bfloat16 | DataType::Unset => f64::from(f32::MIN_POSITIVE),
        _ => 0.0,
    }
}

/// Half a step of the type in which a step adds up: of several, the shortest.
fn unit(node: &Node, notes: &Numerics) -> f64 {
    let own = steps(accumulator(node)).0;
    let types = notes.accumulators.iter().filter_map(|name| DataType::named(name));
    let units = types.filter(|data_type| !data_type.is_integer()).map(|data_type| steps(data_type).0);
    // A wider sum is rounded to the compute type.
    units.fold(own, f64::max)
}

/// Whether a node multiplies matrices or windows.
pub(crate) fn is_product(node: &Node) -> bool {
    let names = ["ConvolutionFwd", "ConvolutionBwd", "ConvolutionWrw", "Matmul"];
    names.contains(&node.operation.as_str())
        || ["MoeGroupedMatmul", "Sdpa"].iter().any(|name| node.operation.starts_with(name))
}

/// The errors of functions in a node, in half steps.
fn of_functions(node: &Node, notes: &Numerics) -> f64 {
    let own: &[&str] = match node.operation.as_str() {
        "Pointwise" => {
            let of_node = PointwiseMode::ALL.iter().find(|own| own.name() == mode(node));
            of_node.map_or(&[], |own| functions_of(*own))
        }
        operation if operation.starts_with("Sdpa") => &["exp"],
        _ => &[],
    };
    // The error of a weight w of attention is 5 half steps and 2 |ln w|, at most 2 / e beside the largest weight. By Vulkan's 2^x it is
    // 6 and 4 |log2 w|, at most 4 / (e ln 2), and the argument's rounding.
    let most = if node.operation == "Pointwise" { f64::INFINITY } else { 9.0 };
    let of = |ulp: &Option<u32>| ulp.map_or(UNKNOWN_FUNCTION, |ulp| most.min(2.0 * f64::from(ulp)));
    let met = notes.functions.iter().filter(|(name, _)| own.contains(&name.as_str()));
    met.map(|(_, ulp)| of(ulp)).fold(0.0, f64::max)
}

/// The roundings of each term's two operands to the accumulator's type.
fn converted(graph: &Graph, node: &Node, unit: f64) -> f64 {
    let is_wider = |tensor: &Tensor| match tensor.data_type.is_integer() {
        true => tensor.data_type.bits() > 24,
        false => steps(tensor.data_type).0 < unit,
    };
    let operands = node.inputs.iter().filter_map(|port| graph.tensor(port.uid));
    if operands.into_iter().any(is_wider) { 2.0 } else { 0.0 }
}

/// The roundings of a node's formula outside of its sums.
fn of_formula(node: &Node) -> f64 {
    match node.operation.as_str() {
        "Pointwise" => match mode(node) {
            "add" | "sub" | "mul" | "div" | "abs" | "neg" | "identity" | "max_op" | "min_op" => 0.0,
            _ => 8.0,
        },
        // The factor of a mean, and the product with it; a root.
        "Reduction" | "ResampleFwd" | "ResampleBwd" => 2.0,
        "ConvolutionFwd" | "ConvolutionBwd" | "ConvolutionWrw" | "Matmul" => 0.0,
        _ => 16.0,
    }
}

/// The limits of a plan's results.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// What the plan's steps say; none if it is not known.
    pub steps: Option<&'a [Step]>,
    /// Multiplies them.
    pub factor: f64,
}

impl Limits<'_> {
    /// Whether a step may count subnormal numbers as zeros.
    pub fn flushes(&self) -> bool {
        self.steps.into_iter().flatten().any(|step| step.numerics.flushes())
    }

    /// What the step says that computes a node.
    pub(crate) fn notes(&self, place: usize) -> Option<&Numerics> {
        let step = self.steps?.iter().find(|step| step.nodes.contains(&place))?;
        Some(&step.numerics)
    }

    /// The tolerance of a tensor that a graph writes.
    pub fn of(&self, graph: &Graph, tensor: &Tensor) -> Tolerance {
        if tensor.data_type.is_integer() {
            return Tolerance { relative: 0.0, of_largest: 0.0, absolute: 0.0 };
        }
        let (mut squares, mut certain, mut fixed, mut flushed) = (0.0, 0.0, 0.0, 0.0);
        let (mut seen, mut nodes) = (HashSet::new(), HashSet::new());
        let mut open = vec![tensor.uid];
        while let Some(uid) = open.pop() {
            let writes = |node: &Node| node.outputs.iter().any(|port| port.uid == uid);
            let place = graph.nodes.iter().position(writes);
            let Some((place, node)) = place.and_then(|place| Some((place, graph.nodes.get(place)?))) else {
                continue;
            };
            let Some(written) = graph.tensor(uid).filter(|_| seen.insert(uid)) else { continue };
            let notes = self.notes(place);
            if uid != tensor.uid {
                // Where only one side rounds, half a step; else the two may have taken neighbours.
                let is_unrounded = notes.is_some_and(|notes| notes.unrounded.contains(&uid));
                fixed += if is_unrounded { 1.0 } else { 2.0 } * steps(written.data_type).0;
            }
            fixed += inside(graph, node, uid);
            open.extend(node.inputs.iter().map(|port| port.uid));
            if !nodes.insert(place) {
                continue;
            }
            for own in [Roundings::of(graph, node, notes), Roundings::of(graph, node, None)] {
                squares += own.squares();
                certain += own.certain() - own.fixed;
                fixed += own.fixed;
            }
            if notes.is_some_and(Numerics::flushes) {
                flushed += terms(graph, node) * f64::from(f32::MIN_POSITIVE);
            }
        }
        let (step, smallest) = steps(tensor.data_type);
        let of_largest = fixed + f64::min(certain, CONFIDENCE * squares.sqrt());
        Tolerance { relative: 2.0 * step, of_largest, absolute: smallest + flushed }.times(self.factor)
    }
}
/// The tolerance for rounding tensors inside a node, for one of its outputs.
fn inside(graph: &Graph, node: &Node, written: i64) -> f64 {
    let is_of_rows = ["stats", "max", "sum_exp"].iter().any(|role| node.output(role) == Some(written));
    let rounded = match node.operation.as_str() {
        // The weights.
        "Sdpa" if !is_of_rows => 1.0,
        // The weights and their gradients.
        "SdpaBackward" => 2.0,
        _ => 0.0,
    };
    let q = node.inputs.iter().find(|port| port.role == "q").and_then(|port| graph.tensor(port.uid));
    rounded * q.map_or(0.0, |q| 2.0 * steps(q.data_type).0)
}

/// How roundings grow in a convolution by FFT, and their number on the way of a term into the sum.
///
/// A transform of n numbers has log₂ n stages, each of which may add 7 half steps to the error in the norm (Higham, 24.1). There
/// are three, a product, and a sum of channels. The norm is that of a whole tile, of which an element may have all of the error.
fn by_fft(graph: &Graph, node: &Node) -> Option<(f64, f64)> {
    let tensor = |roles: [&str; 2]| {
        let mut ports = node.inputs.iter().chain(&node.outputs);
        let port = ports.find(|port| roles.contains(&port.role.as_str()))?;
        graph.tensor(port.uid)
    };
    let (image, window) = (tensor(["x", "dx"])?, tensor(["w", "dw"])?);
    let sizes = image.dims.iter().zip(&window.dims).skip(2);
    // Tiles are powers of two, which hold an image and its window's rim or are smaller; no library's are below 32.
    let stages: f64 = sizes.map(|(size, width)| ((size + width - 1).max(32) as f64).log2().ceil()).sum();
    let taps: i64 = window.dims.iter().skip(2).product();
    Some(((stages / 2.0).exp2(), terms(graph, node) / taps.max(1) as f64 + 21.0 * stages + 3.0))
}

/// The most terms that a node sums for an element.
pub fn terms(graph: &Graph, node: &Node) -> f64 {
    let dims = |role: &str| -> Vec<f64> {
        let port = node.inputs.iter().chain(&node.outputs).find(|port| port.role == role);
        let tensor = port.and_then(|port| graph.tensor(port.uid));
        tensor.map_or_else(Vec::new, |tensor| tensor.dims.iter().map(|dim| *dim as f64).collect())
    };
    let count = |role: &str| dims(role).iter().product::<f64>();
    let at = |role: &str, place: usize| dims(role).get(place).copied().unwrap_or(1.0);
    let last = |role: &str, from_end: usize| dims(role).iter().rev().nth(from_end).copied().unwrap_or(1.0);
    let list = |key: &str| -> f64 {
        let values = node.parameter(key).and_then(|value| value.as_array());
        values.map_or(1.0, |values| values.iter().filter_map(|value| value.as_f64()).product())
    };
    let terms = match node.operation.as_str() {
        "ConvolutionFwd" => count("w") / at("w", 0),
        "ConvolutionBwd" => count("w") / at("w", 1),
        "ConvolutionWrw" => count("dy") / at("dy", 1),
        "Matmul" => last("a", 0),
        "Batchnorm" | "BatchnormBackward" => count("x") / at("x", 1),
        "Layernorm" | "LayernormBackward" | "RMSNorm" | "RMSNormBackward" => {
            count("scale").max(count("x") / count("scale").max(1.0))
        }
        "Sdpa" => last("q", 0) + last("k", 1),
        "SdpaBackward" => last("q", 0) + last("k", 1) + last("q", 1),
        "Reduction" => count("in") / count("out").max(1.0),
        "ResampleFwd" | "ResampleBwd" => list("window"),
        "MoeGroupedMatmul" => last("token", 0),
        "MoeGroupedMatmulBwd" => count("token") / last("token", 0),
        _ => 1.0,
    };
    if terms.is_finite() { terms.max(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::graph::testing::{convolution, graph, pointwise, tensor};

    const HALF_STEP: f64 = 1.0 / (1 << 24) as f64;

    fn step(nodes: &[usize], numerics: Value) -> Step {
        serde_json::from_value(json!({"nodes": nodes, "numerics": numerics})).unwrap()
    }

    /// A convolution of 36 terms and an activation, with a tensor between them.
    fn block(between: &str) -> Graph {
        let mut tensors = vec![
            tensor(1, "x", &[1, 4, 8, 8], false),
            tensor(2, "w", &[6, 4, 3, 3], false),
            tensor(3, "", &[1, 6, 8, 8], true),
            tensor(4, "y", &[1, 6, 8, 8], false),
        ];
        tensors[2]["data_type"] = between.into();
        graph("g", tensors, vec![convolution("conv", 1, 2, 3), pointwise("", "mul", 3, Some(3), 4)])
    }

    fn of(graph: &Graph, steps: Option<&[Step]>) -> Tolerance {
        Limits { steps, factor: 1.0 }.of(graph, graph.tensor(4).unwrap())
    }

    fn is_near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-5, "{value:e}, expected {expected:e}");
    }

    #[test]
    fn sums_of_both_sides_and_virtual_tensors_widen_it() {
        let tolerance = of(&block("float"), None);
        let roundings = 6.0 * f64::sqrt(2.0 * 37.0);
        is_near(tolerance.of_largest, HALF_STEP * (roundings + 2.0));
        assert_eq!(tolerance.relative, 2.0 * HALF_STEP);
        let twice = Limits { steps: None, factor: 2.0 };
        is_near(
            twice.of(&block("float"), block("float").tensor(4).unwrap()).of_largest,
            2.0 * tolerance.of_largest,
        );
    }

    #[test]
    fn each_note_of_the_plan_has_its_part() {
        let graph = block("half");
        let with = |numerics| of(&graph, Some(&[step(&[0, 1], numerics)])).of_largest;
        let plain = with(json!({"accumulators": ["float"]}));
        is_near(plain, of(&graph, None).of_largest);
        let half = (-11_f64).exp2();
        // A plan that stores no half between its nodes differs from the reference's by its half step.
        is_near(plain - with(json!({"accumulators": ["float"], "unrounded": [3]})), half);
        let squares = |plan: f64| 6.0 * (plan + 37.0 * HALF_STEP.powi(2)).sqrt();
        let sums = squares(37.0 * HALF_STEP.powi(2));
        // Two roundings of the operands to half more.
        is_near(with(json!({"accumulators": ["half"]})) - plain, squares(39.0 * half.powi(2)) - sums);
        is_near(with(json!({"notes": ["DOWN_CONVERT_INPUTS"]})) - plain, (-9_f64).exp2());
        let winograd = squares((176.0 * (4.0 + 18.0) + 1.0) * HALF_STEP.powi(2)) - sums;
        is_near(with(json!({"notes": ["WINOGRAD", "WINOGRAD_TILE_6x6"]})) - plain, winograd);
        // 4 channels, and three transforms of 32 × 32.
        let fft = squares((32.0 * (4.0 + 213.0) + 1.0) * HALF_STEP.powi(2)) - sums;
        is_near(with(json!({"notes": ["FFT"]})) - plain, fft);
        is_near(with(json!({"notes": ["FFT", "WINOGRAD_TILE_6x6"]})) - plain, fft);
        let reduced = |parts: f64| 2.0 * half + parts / (1.0 - parts) + 74.0 * HALF_STEP;
        is_near(with(json!({"notes": ["REDUCED_PRECISION_REDUCTION"]})), reduced(36.0 / 32.0 * half));
        is_near(with(json!({"notes": ["REDUCED_PRECISION_REDUCTION"], "parts": 4})), reduced(4.0 * half));
        assert!(of(&graph, Some(&[step(&[0], json!({"notes": ["FLUSH_SUBNORMALS"]}))])).absolute > 4e-37);
    }

    #[test]
    fn operands_lose_what_the_shorter_type_has_not() {
        for (data_type, of_operand) in [("float", -10_f64), ("half", -7.0)] {
            let mut tensors =
                vec![tensor(1, "x", &[1, 4, 8, 8], false), tensor(2, "w", &[6, 4, 3, 3], false)];
            tensors.iter_mut().for_each(|tensor| tensor["data_type"] = data_type.into());
            tensors.push(tensor(4, "y", &[1, 6, 8, 8], false));
            let graph = graph("g", tensors, vec![convolution("conv", 1, 2, 4)]);
            let down = of(&graph, Some(&[step(&[0], json!({"notes": ["DOWN_CONVERT_INPUTS"]}))]));
            is_near(down.of_largest - of(&graph, None).of_largest, 2.0 * of_operand.exp2());
        }
    }

    #[test]
    fn matrix_instructions_cut_what_is_below_their_bits() {
        let graph = block("half");
        let with = |numerics| of(&graph, Some(&[step(&[0, 1], numerics)])).of_largest;
        let plain = with(json!({}));
        // Each of 36 terms, if the instruction is not known.
        is_near(with(json!({"notes": ["TENSOR_CORE"]})) - plain, 5.0 * HALF_STEP);
        for (terms, bits) in [(16, 24), (32, 14)] {
            let sums = json!({"notes": ["TENSOR_CORE"], "matrix_sums": {"terms": terms, "bits": bits}});
            let cut = f64::from(1 - bits).exp2();
            // The product's 36 terms and two operands, and the factor, beside those of the reference.
            let squares = |plan: f64| 6.0 * (plan + 38.0 * HALF_STEP.powi(2)).sqrt();
            let inside = squares(38.0 * cut.powi(2)) - squares(36.0 * HALF_STEP.powi(2));
            is_near(with(sums) - plain, inside + (36.0 / f64::from(terms)).ceil() * cut);
        }
    }

    #[test]
    fn sums_of_rows_may_have_parts_in_the_type_of_the_result() {
        let mut tensors = vec![tensor(1, "x", &[64, 8], false), tensor(4, "y", &[1, 8], false)];
        for tensor in &mut tensors {
            tensor["data_type"] = "half".into();
        }
        let reduction = json!({"type": "ReductionAttributes", "name": "", "compute_data_type": "float",
            "inputs": {"in_tensor_uid": 1}, "outputs": {"out_tensor_uid": 4}, "parameters": {"mode": "ADD"}});
        let graph = graph("g", tensors, vec![reduction]);
        let with = |numerics| of(&graph, Some(&[step(&[0], numerics)])).of_largest;
        let parts = 2.0 * (-11_f64).exp2();
        let reduced = with(json!({"notes": ["REDUCED_PRECISION_REDUCTION"]}));
        assert!(reduced > parts && reduced - with(json!({})) < 1.01 * parts, "{reduced:e}");
    }

    #[test]
    fn functions_count_where_they_are_computed() {
        let of = |mode: &str, functions: Value| {
            let tensors = vec![tensor(1, "x", &[4], false), tensor(4, "y", &[4], false)];
            let graph = graph("g", tensors, vec![pointwise("", mode, 1, None, 4)]);
            of(&graph, Some(&[step(&[0], json!({"functions": functions}))])).of_largest
        };
        is_near(of("exp", json!({"exp": 2})) - of("exp", json!({})), 4.0 * HALF_STEP);
        is_near(of("exp", json!({"exp": null})) - of("exp", json!({})), 32.0 * HALF_STEP);
        assert_eq!(of("neg", json!({"exp": 2})), of("neg", json!({})));
    }

    #[test]
    fn few_roundings_are_bounded_for_certain_and_integers_are_exact() {
        let mut tensors = vec![tensor(1, "x", &[4], false), tensor(4, "y", &[4], false)];
        let sum = |tensors: &[Value]| graph("g", tensors.to_vec(), vec![pointwise("", "add", 1, Some(1), 4)]);
        is_near(of(&sum(&tensors), None).of_largest, 2.0 * HALF_STEP);
        tensors[1]["data_type"] = "int8".into();
        assert_eq!(of(&sum(&tensors), None), Tolerance { relative: 0.0, of_largest: 0.0, absolute: 0.0 });
        let mut tensors: Vec<Value> = (1..=4).map(|uid| tensor(uid, "", &[64, 64], false)).collect();
        tensors[0]["data_type"] = "int8".into();
        tensors[1]["data_type"] = "int8".into();
        let product = json!({"type": "MatmulAttributes", "name": "", "compute_data_type": "float",
            "inputs": {"a_tensor_uid": 1, "b_tensor_uid": 2}, "outputs": {"c_tensor_uid": 4}});
        is_near(of(&graph("g", tensors, vec![product]), None).of_largest, 2.0 * HALF_STEP);
    }

    #[test]
    fn weights_of_attention_are_rounded_to_the_type_of_the_queries() {
        let of = |data_type: &str| {
            let tensors = (1..=5).map(|uid| {
                let mut tensor = tensor(uid, "", &[1, 2, 9, 16], false);
                tensor["data_type"] = if uid == 5 { "float" } else { data_type }.into();
                tensor
            });
            let sdpa = json!({"type": "SdpaAttributes", "name": "", "compute_data_type": "float",
                "inputs": {"q_tensor_uid": 1, "k_tensor_uid": 2, "v_tensor_uid": 3},
                "outputs": {"o_tensor_uid": 4, "stats_tensor_uid": 5}});
            let graph = graph("g", tensors.collect(), vec![sdpa]);
            let limits = Limits { steps: None, factor: 1.0 };
            [4, 5].map(|uid| limits.of(&graph, graph.tensor(uid).unwrap()).of_largest)
        };
        for (data_type, step) in [("half", (-10_f64).exp2()), ("bfloat16", (-7_f64).exp2())] {
            let [values, statistics] = of(data_type);
            is_near(values - statistics, step);
        }
    }
}
