//! Fuses nodes that form one operation of hipDNN: attention, normalizations, GELU and SWISH, as exporters write them; and moves bytes instead
//! of numbers between dequantizing and quantizing with equal parameters.
//!
//! Intermediate values must have one reader and must not be outputs. The fused node takes the place of the last one.

use std::collections::{BTreeMap, HashSet};

mod find;
mod norm;

use self::find::{Find, Finder, Found, is_close};
use crate::model::{Attribute, Element, Model, Node, ValueId};

/// The domain of nodes that only this library has.
pub const DOMAIN: &str = "hipdnn";

/// Fuses what is found. Nodes stay in an order in which every value is written before it is read.
pub fn rewrite(model: &mut Model) {
    let finds: [Find; 5] = [moved, swish, gelu, norm::of_sqrt, attention];
    for find in finds {
        let (mut removed, mut first) = (HashSet::new(), 0);
        // Readers and writers only change after a replaced node.
        while let Some((at, found)) = next(model, &removed, find, first) {
            if let Some(slot) = model.nodes.get_mut(found.at) {
                *slot = found.node;
                removed.extend(found.without);
            }
            first = at + 1;
        }
        let mut place = 0;
        model.nodes.retain(|_| {
            place += 1;
            !removed.contains(&(place - 1))
        });
    }
}

/// The first match at or after node `first`, and its node.
fn next(model: &Model, removed: &HashSet<usize>, find: Find, first: usize) -> Option<(usize, Found)> {
    let finder = Finder::new(model, removed);
    let mut places = (first..model.nodes.len()).filter(|at| !removed.contains(at));
    places.find_map(|at| Some((at, find(&finder, at)?)))
}

/// Operators that move elements of their first input, whatever they represent.
const MOVERS: [&str; 6] = ["Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "MaxPool"];

/// DequantizeLinear, something that moves elements, and QuantizeLinear with the same scale and zero point: moves the bytes.
fn moved(of: &Finder<'_>, at: usize) -> Option<Found> {
    let mover = MOVERS.iter().find_map(|name| of.node(at, name))?;
    let before = of.node(*of.writer.get(&(*mover.inputs.first()?)?)?, "DequantizeLinear")?;
    let last = of.only_reader(at)?;
    let after = of.node(last, "QuantizeLinear")?;
    let element = |value: &Option<ValueId>| of.model.values.get((*value)?)?.element;
    let stored = *before.inputs.first()?;
    let zero = |node: &Node| match node.inputs.get(2) {
        Some(Some(value)) => of.constant(*value),
        _ => Some(0.0),
    };
    let scale = |node: &Node| of.constant((*node.inputs.get(1)?)?);
    let is_same = scale(before)? == scale(after)? && zero(before)? == zero(after)?;
    let is_of_bytes = matches!(element(&stored), Some(Element::Int8 | Element::Uint8));
    (is_same && is_of_bytes && element(&stored) == element(after.outputs.first()?)).then_some(())?;
    let inputs = std::iter::once(stored).chain(mover.inputs.iter().skip(1).copied()).collect();
    let mut node = of.made(&mover.operator, &mover.domain, mover.since, inputs, last)?;
    node.attributes = mover.attributes.clone();
    Some(Found { node, at: last, without: vec![at] })
}

/// x · sigmoid(x).
fn swish(of: &Finder<'_>, at: usize) -> Option<Found> {
    let x = (*of.node(at, "Sigmoid")?.inputs.first()?)?;
    let last = of.only_reader(at)?;
    if Finder::beside(of.node(last, "Mul")?, of.output(at)?)? != x {
        return None;
    }
    let node = of.made("Swish", "", 24, vec![Some(x)], last)?;
    Some(Found { node, at: last, without: vec![at] })
}

/// x · (erf(x / √2) + 1) · 0.5, multiplied in any order.
fn gelu(of: &Finder<'_>, at: usize) -> Option<Found> {
    let erf = of.node(at, "Erf")?;
    let inner = of.writer_for((*erf.inputs.first()?)?, at)?;
    let x = if let Some(node) = of.node(inner, "Div") {
        let (x, number) = of.beside_number(node, true)?;
        is_close(number, std::f64::consts::SQRT_2).then_some(x)?
    } else {
        let (x, number) = of.beside_number(of.node(inner, "Mul")?, false)?;
        is_close(number, std::f64::consts::FRAC_1_SQRT_2).then_some(x)?
    };
    let sum = of.only_reader(at)?;
    is_close(of.beside_number(of.node(sum, "Add")?, false)?.1, 1.0).then_some(())?;
    let mut without = vec![inner, at, sum];
    let half =
        |at: usize| of.beside_number(of.node(at, "Mul")?, false).filter(|(_, number)| is_close(*number, 0.5));
    let product = of.only_reader(sum)?;
    let last = if let Some((value, _)) = half(product) {
        // The sum is halved, then multiplied with x.
        (value == of.output(sum)?).then_some(())?;
        without.push(product);
        let last = of.only_reader(product)?;
        (Finder::beside(of.node(last, "Mul")?, of.output(product)?)? == x).then_some(last)?
    } else {
        let other = Finder::beside(of.node(product, "Mul")?, of.output(sum)?)?;
        if other == x {
            without.push(product);
            let last = of.only_reader(product)?;
            half(last).map(|_| last)?
        } else {
            // x was halved before.
            let before = of.writer_for(other, product)?;
            (half(before)?.0 == x).then_some(())?;
            without.push(before);
            product
        }
    };
    let node = of.made("Gelu", "", 20, vec![Some(x)], last)?;
    Some(Found { node, at: last, without })
}

/// softmax(q · kᵀ · scale + mask) · v, perhaps with zeros in place of NaN between both.
fn attention(of: &Finder<'_>, at: usize) -> Option<Found> {
    let softmax = of.node(at, "Softmax")?;
    let scores = (*softmax.inputs.first()?)?;
    let dims = of.model.values.get(scores)?.dims.as_ref();
    let last_axis =
        |axis: i64| axis == -1 || dims.is_some_and(|dims| i64::try_from(dims.len()) == Ok(axis + 1));
    let axis = softmax.int("axis", if softmax.since >= 13 { -1 } else { 1 });
    last_axis(axis).then_some(())?;
    let (end, mut without) = of.without_nan(at);
    let is_guarded = end != at;
    let last = of.only_reader(end)?;
    let [weights, v] = Finder::operands(of.node(last, "MatMul")?)?;
    (weights == of.output(end)? && v != weights).then_some(())?;
    without.push(at);
    let (mut above, mut mask, mut scale) = (of.writer_for(scores, at)?, None, 1.0);
    if let Some(node) = of.node(above, "Add") {
        without.push(above);
        let [a, b] = Finder::operands(node)?;
        let is_score = |value: ValueId| {
            let by = of.writer_for(value, above)?;
            let product = of.node(by, "MatMul").is_some();
            let scaled = ["Div", "Mul"].iter().find_map(|name| of.node(by, name));
            let scaled = scaled.and_then(|node| of.beside_number(node, node.operator == "Div"));
            let inner = scaled.and_then(|(value, _)| of.writer_for(value, by));
            (product || inner.is_some_and(|at| of.node(at, "MatMul").is_some())).then_some(by)
        };
        let (next, other) = is_score(a).map(|by| (by, b)).or_else(|| is_score(b).map(|by| (by, a)))?;
        (above, mask) = (next, Some(other));
    }
    if of.node(above, "MatMul").is_none() {
        let node = of.node(above, "Div").or_else(|| of.node(above, "Mul"))?;
        let is_division = node.operator == "Div";
        let (value, number) = of.beside_number(node, is_division)?;
        without.push(above);
        scale = if is_division { 1.0 / number } else { number };
        above = of.writer_for(value, above)?;
    }
    let [q, k] = Finder::operands(of.node(above, "MatMul")?)?;
    without.push(above);
    (scale.is_finite() && scale != 0.0).then_some(())?;
    let inputs = [Some(q), Some(k), Some(v), mask].into_iter().collect();
    let mut node = of.made("ScaledAttention", DOMAIN, 1, inputs, last)?;
    node.attributes = BTreeMap::from([
        ("scale".to_owned(), Attribute::Float(scale as f32)),
        ("is_guarded".to_owned(), Attribute::Int(i64::from(is_guarded))),
    ]);
    Some(Found { node, at: last, without })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::model::{Constant, Dim, Value};

    /// A model from lines "output operator inputs", where a number is a constant, `x[4,8]` has dimensions, and means are of rows.
    fn model(lines: &[&str], output: &str) -> Model {
        let mut model = Model::default();
        let mut ids = HashMap::new();
        let mut id = |model: &mut Model, name: &str| {
            let (name, dims) = name.split_once('[').map_or((name, None), |(name, dims)| (name, Some(dims)));
            let size = |word: &str| Dim::Known(word.parse().unwrap());
            let dims = dims.map(|dims| dims.trim_end_matches(']').split(',').map(size).collect());
            *ids.entry(name.to_owned()).or_insert_with(|| {
                let bytes = name.parse::<f32>().ok().map(|number| number.to_ne_bytes().to_vec());
                let constant = bytes.map(|bytes| Constant { element: Element::Float, dims: vec![], bytes });
                model.values.push(Value { name: name.to_owned(), constant, dims, ..Value::default() });
                model.values.len() - 1
            })
        };
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let inputs = words[2..].iter().map(|name| Some(id(&mut model, name))).collect();
            let outputs = vec![Some(id(&mut model, words[0]))];
            let operator = words[1].to_owned();
            let axes = ("axes".to_owned(), Attribute::Ints(vec![-1]));
            let attributes = (operator == "ReduceMean").then_some(axes).into_iter().collect();
            model.nodes.push(Node { operator, since: 13, inputs, outputs, attributes, ..Node::default() });
        }
        model.outputs = vec![id(&mut model, output)];
        model
    }

    fn rewritten(lines: &[&str], output: &str) -> Vec<String> {
        let mut model = model(lines, output);
        rewrite(&mut model);
        let name = |value: &Option<usize>| value.map_or("-", |value| model.values[value].name.as_str());
        let inputs = |node: &Node| node.inputs.iter().map(name).collect::<Vec<_>>().join(" ");
        let line = |node: &Node| format!("{} {} {}", name(&node.outputs[0]), node.operator, inputs(node));
        model.nodes.iter().map(line).collect()
    }

    #[test]
    fn activations_are_found_in_any_order() {
        assert_eq!(rewritten(&["s Sigmoid x", "y Mul x s"], "y"), ["y Swish x"]);
        for lines in [
            ["a Div x 1.4142135", "b Erf a", "c Add b 1", "d Mul x c", "y Mul d 0.5"],
            ["a Mul 0.70710677 x", "b Erf a", "c Add 1 b", "d Mul c 0.5", "y Mul d x"],
            ["h Mul x 0.5", "a Div x 1.4142135", "b Erf a", "c Add b 1", "y Mul h c"],
        ] {
            assert_eq!(rewritten(&lines, "y"), ["y Gelu x"], "{lines:?}");
        }
    }

    #[test]
    fn normalizations_of_rows_are_found() {
        let rms = |square: &str, quotient: &[&str]| {
            let square = format!("p[4,8] {square}");
            let mut lines = vec![square.as_str(), "m ReduceMean p", "a Add m 0.00001", "r Sqrt a"];
            lines.extend(quotient);
            rewritten(&lines, "y")
        };
        let found = ["y SimplifiedLayerNormalization x w"];
        assert_eq!(rms("Pow x[4,8] 2", &["n Div x r", "y Mul n w[8]"]), found);
        assert_eq!(rms("Mul x[4,8] x", &["q Reciprocal r", "n Mul x q", "y Mul w[8] n"]), found);
        assert_eq!(rms("Pow x[4,8] 2", &["q Div 1 r", "n Mul q x", "y Mul n w[8]"]), found);
        // Another power, another dividend, a scale for each element.
        assert_eq!(rms("Pow x[4,8] 3", &["n Div x r", "y Mul n w[8]"]).len(), 6);
        assert_eq!(rms("Pow x[4,8] 2", &["n Div z r", "y Mul n w[8]"]).len(), 6);
        assert_eq!(rms("Pow x[4,8] 2", &["n Div x r", "y Mul n w[4,8]"]).len(), 6);
        let layer = |first: &str| {
            let lines = [
                first,
                "d[4,8] Sub x m",
                "p[4,8] Pow d 2",
                "v ReduceMean p",
                "a Add 0.00001 v",
                "r Sqrt a",
                "n Div d r",
                "s Mul n w[8]",
                "y Add s b[8]",
            ];
            rewritten(&lines, "y")
        };
        assert_eq!(layer("m ReduceMean x[4,8]"), ["y LayerNormalization x w b"]);
        // The difference to another mean is normalized by its squares.
        let other = layer("m ReduceMean z[4,8]");
        assert_eq!(other[2..], ["s SimplifiedLayerNormalization d w", "y Add s b"]);
    }

    #[test]
    fn what_is_read_elsewhere_stays() {
        let lines = ["s Sigmoid x", "y Mul x s", "z Add y s"];
        assert_eq!(rewritten(&lines, "z"), lines);
        let lines = ["s Sigmoid x", "y Mul x s"];
        assert_eq!(rewritten(&lines, "s"), lines);
        let lines = ["a Div 1.4142135 x", "b Erf a", "c Add b 1", "d Mul x c", "y Mul d 0.5"];
        assert_eq!(rewritten(&lines, "y"), lines);
        let lines = ["a Div x 1.5", "b Erf a", "c Add b 1", "d Mul x c", "y Mul d 0.5"];
        assert_eq!(rewritten(&lines, "y"), lines);
    }

    #[test]
    fn bytes_are_moved_where_numbers_are_quantized_as_they_were() {
        let lines = |scale: &str| {
            let last = format!("y QuantizeLinear r {scale} 3");
            ["d DequantizeLinear q 0.5 3".to_owned(), "r Reshape d s".to_owned(), last]
        };
        let moved = |scale: &str| {
            let lines = lines(scale);
            let mut model = model(&lines.each_ref().map(String::as_str), "y");
            for value in model.values.iter_mut().filter(|value| ["q", "y"].contains(&value.name.as_str())) {
                value.element = Some(Element::Uint8);
            }
            rewrite(&mut model);
            model.nodes.iter().map(|node| node.operator.clone()).collect::<Vec<_>>()
        };
        assert_eq!(moved("0.5"), ["DequantizeLinear", "Reshape"]);
        assert_eq!(moved("0.25"), ["DequantizeLinear", "Reshape", "QuantizeLinear"]);
    }

    #[test]
    fn attention_is_found_with_and_without_scale_and_mask() {
        let lines = ["s MatMul q k", "t Div s 8", "u Add t m", "p Softmax u", "y MatMul p v"];
        assert_eq!(rewritten(&lines, "y"), ["y ScaledAttention q k v m"]);
        let lines = ["s MatMul q k", "u Add m s", "p Softmax u", "y MatMul p v"];
        assert_eq!(rewritten(&lines, "y"), ["y ScaledAttention q k v m"]);
        let lines = ["s MatMul q k", "p Softmax s", "y MatMul p v"];
        assert_eq!(rewritten(&lines, "y"), ["y ScaledAttention q k v -"]);
        let lines = ["s MatMul q k", "p Softmax s", "n IsNaN p", "w Where n 0 p", "y MatMul w v"];
        assert_eq!(rewritten(&lines, "y"), ["y ScaledAttention q k v -"]);
        let lines = ["s MatMul q k", "p Softmax s", "y MatMul v p"];
        assert_eq!(rewritten(&lines, "y"), lines);
    }
}
