//! Arithmetic of shape computations, on integers and in single precision, as ONNX Runtime rounds it.

use super::{Integers, input, list};
use crate::lowering::{Lowering, broadcast_dims, elements};
use crate::model::{Element, Node};

/// Elements with their dimensions.
type Of<T> = (Vec<i64>, Vec<T>);

/// Elements of one operand paired with another's, either of which may be a single one.
pub(super) fn pair<T: Copy, R>(x: &Of<T>, y: &Of<T>, f: impl Fn(T, T) -> Option<R>) -> Option<Of<R>> {
    let count = x.1.len().max(y.1.len());
    let fits = |of: &Of<T>| of.1.len() == count || of.1.len() == 1;
    (fits(x) && fits(y)).then_some(())?;
    let get = |of: &Of<T>, at: usize| of.1.get(if of.1.len() == 1 { 0 } else { at }).copied();
    let made = (0..count).map(|at| f(get(x, at)?, get(y, at)?)).collect::<Option<Vec<_>>>()?;
    let dims = broadcast_dims(&[&x.0, &y.0]).ok()?;
    (usize::try_from(elements(&dims)) == Ok(made.len())).then_some((dims, made))
}

fn integers((dims, list): Of<i64>) -> Integers {
    Integers { dims, list }
}

/// The bits of floats, as lists of shape computations keep them.
fn bits((dims, list): Of<f32>) -> Integers {
    Integers { dims, list: list.into_iter().map(|of| i64::from(of.to_bits())).collect() }
}

/// What the node computes of its inputs.
pub(super) fn fold(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let id = (*node.inputs.first()?)?;
    match lowering.model.values.get(id)?.element? {
        Element::Float => of_floats(node, lowering),
        _ => of_integers(node, lowering),
    }
}

fn of_integers(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let of = |at: usize| input(node, lowering, at).map(|of| (of.dims, of.list));
    let unary = |f: fn(i64) -> Option<i64>| {
        let (dims, list) = of(0)?;
        Some(Integers { dims, list: list.into_iter().map(f).collect::<Option<_>>()? })
    };
    let binary = |f: fn(i64, i64) -> Option<i64>| {
        (node.inputs.len() == 2).then_some(())?;
        pair(&of(0)?, &of(1)?, f).map(integers)
    };
    match node.operator.as_str() {
        "Neg" => unary(i64::checked_neg),
        "Abs" => unary(i64::checked_abs),
        "Not" => unary(|x| Some(i64::from(x == 0))),
        "Add" => binary(i64::checked_add),
        "Sub" => binary(i64::checked_sub),
        "Mul" => binary(i64::checked_mul),
        "Div" => binary(i64::checked_div),
        "Mod" if node.int("fmod", 0) != 0 => binary(i64::checked_rem),
        // The sign of the divisor.
        "Mod" => binary(|x, y| {
            let rest = x.checked_rem(y)?;
            Some(if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest })
        }),
        "Max" => binary(|x, y| Some(x.max(y))),
        "Min" => binary(|x, y| Some(x.min(y))),
        "Equal" => binary(|x, y| Some(i64::from(x == y))),
        "Less" => binary(|x, y| Some(i64::from(x < y))),
        "LessOrEqual" => binary(|x, y| Some(i64::from(x <= y))),
        "Greater" => binary(|x, y| Some(i64::from(x > y))),
        "GreaterOrEqual" => binary(|x, y| Some(i64::from(x >= y))),
        "And" => binary(|x, y| Some(i64::from(x != 0 && y != 0))),
        "Or" => binary(|x, y| Some(i64::from(x != 0 || y != 0))),
        "ReduceProd" => reduced(node, of(0)?, Some(1), i64::checked_mul),
        "ReduceSum" => reduced(node, of(0)?, Some(0), i64::checked_add),
        "ReduceMax" => reduced(node, of(0)?, None, |x, y| Some(x.max(y))),
        "ReduceMin" => reduced(node, of(0)?, None, |x, y| Some(x.min(y))),
        "Cast" => {
            let (dims, list) = of(0)?;
            match node.int("to", 0) {
                1 => Some(bits((dims, list.into_iter().map(|of| of as f32).collect()))),
                6 if list.iter().any(|of| i32::try_from(*of).is_err()) => None,
                6 | 7 => Some(Integers { dims, list }),
                // The bits of doubles, which only ranges read.
                11 => Some(Integers {
                    dims,
                    list: list.iter().map(|of| (*of as f64).to_bits().cast_signed()).collect(),
                }),
                9 => Some(Integers { dims, list: list.iter().map(|of| i64::from(*of != 0)).collect() }),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A reduction of all elements to one; `of_none` is that of no elements, if there is one.
fn reduced(
    node: &Node,
    (dims, list): Of<i64>,
    of_none: Option<i64>,
    f: fn(i64, i64) -> Option<i64>,
) -> Option<Integers> {
    let is_of_all = node.inputs.len() == 1 && node.ints("axes").is_none();
    (is_of_all && node.int("noop_with_empty_axes", 0) == 0).then_some(())?;
    let mut all = of_none.into_iter().chain(list);
    let first = all.next()?;
    let reduced = all.try_fold(first, f)?;
    let dims = if node.int("keepdims", 1) == 0 { vec![] } else { vec![1; dims.len()] };
    Some(Integers { dims, list: vec![reduced] })
}

fn of_floats(node: &Node, lowering: &Lowering<'_>) -> Option<Integers> {
    let of = |at: usize| -> Option<Of<f32>> {
        let element = lowering.model.values.get((*node.inputs.get(at)?)?)?.element;
        (element == Some(Element::Float)).then_some(())?;
        let Integers { dims, list } = list(node, lowering, at)?;
        let list = list.into_iter().map(|of| u32::try_from(of).map(f32::from_bits));
        Some((dims, list.collect::<Result<_, _>>().ok()?))
    };
    let unary = |f: fn(f32) -> f32| {
        let (dims, list) = of(0)?;
        Some(bits((dims, list.into_iter().map(f).collect())))
    };
    let binary = |f: fn(f32, f32) -> f32| {
        (node.inputs.len() == 2).then_some(())?;
        pair(&of(0)?, &of(1)?, |x, y| Some(f(x, y))).map(bits)
    };
    let compared =
        |f: fn(f32, f32) -> bool| pair(&of(0)?, &of(1)?, |x, y| Some(i64::from(f(x, y)))).map(integers);
    match node.operator.as_str() {
        "Ceil" => unary(f32::ceil),
        "Floor" => unary(f32::floor),
        "Round" => unary(f32::round_ties_even),
        "Sqrt" => unary(f32::sqrt),
        "Reciprocal" => unary(f32::recip),
        "Neg" => unary(|x| -x),
        "Abs" => unary(f32::abs),
        "Add" => binary(|x, y| x + y),
        "Sub" => binary(|x, y| x - y),
        "Mul" => binary(|x, y| x * y),
        "Div" => binary(|x, y| x / y),
        "Max" => binary(f32::max),
        "Min" => binary(f32::min),
        // ONNX Runtime multiplies for these exponents.
        "Pow" => binary(|x, y| match y {
            2.0 => x * x,
            3.0 => x * x * x,
            _ => x.powf(y),
        }),
        "Equal" => compared(|x, y| x == y),
        "Less" => compared(|x, y| x < y),
        "LessOrEqual" => compared(|x, y| x <= y),
        "Greater" => compared(|x, y| x > y),
        "GreaterOrEqual" => compared(|x, y| x >= y),
        "Cast" => match node.int("to", 0) {
            1 => of(0).map(bits),
            6 | 7 => {
                let (dims, list) = of(0)?;
                // Beyond these the processor's conversion decides.
                let fits = list.iter().all(|of| of.abs() < 2_147_483_648.0);
                fits.then(|| Integers { dims, list: list.iter().map(|of| *of as i64).collect() })
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::{Attribute, Constant, Model, Value};

    fn value(element: Element) -> Value {
        Value { element: Some(element), ..Value::default() }
    }

    #[test]
    fn floats_between_shapes_are_computed_when_a_plan_is_made() {
        let half = Constant { element: Element::Float, dims: vec![], bytes: 0.5_f32.to_ne_bytes().to_vec() };
        let half = Value { constant: Some(half), is_constant: true, ..value(Element::Float) };
        let values = vec![
            value(Element::Int64),
            value(Element::Float),
            half,
            value(Element::Float),
            value(Element::Float),
            value(Element::Int64),
        ];
        let model = Model { values, ..Model::default() };
        let node = |operator: &str, inputs: &[usize], output: usize, to: i64| Node {
            operator: operator.to_owned(),
            since: 13,
            inputs: inputs.iter().map(|id| Some(*id)).collect(),
            outputs: vec![Some(output)],
            attributes: BTreeMap::from([("to".to_owned(), Attribute::Int(to))]),
            ..Node::default()
        };
        let mut lowering = Lowering::new(&model);
        lowering.bind_input(2, Element::Float, &[], true);
        lowering.keep_integers(0, &[], &[7]).unwrap();
        for step in [
            node("Cast", &[0], 1, 1),
            node("Mul", &[1, 2], 3, 0),
            node("Ceil", &[3], 4, 0),
            node("Cast", &[4], 5, 7),
        ] {
            let made = super::super::fold(&step, &lowering).unwrap();
            lowering.keep_integers(step.outputs[0].unwrap(), &made.dims, &made.list).unwrap();
        }
        assert_eq!(lowering.folded_integers.get(&5), Some(&vec![4]));
        assert_eq!(lowering.folded_integers.get(&3), Some(&vec![i64::from(3.5_f32.to_bits())]));
        // What is computed of constants alone stays a tensor: weights are packed once.
        assert_eq!(super::super::fold(&node("Mul", &[2, 2], 3, 0), &lowering), None);
    }

    #[test]
    fn remainders_have_the_sign_of_the_divisor() {
        let values = (0..3).map(|_| value(Element::Int64)).collect();
        let model = Model { values, ..Model::default() };
        let node = Node {
            operator: "Mod".to_owned(),
            since: 13,
            inputs: vec![Some(0), Some(1)],
            outputs: vec![Some(2)],
            ..Node::default()
        };
        let mut lowering = Lowering::new(&model);
        lowering.keep_integers(0, &[3], &[-3, 16, 7]).unwrap();
        lowering.keep_integers(1, &[1], &[7]).unwrap();
        assert_eq!(super::super::fold(&node, &lowering).unwrap().list, [4, 2, 0]);
    }

    #[test]
    fn reductions_are_of_all_elements_unless_they_say_of_none() {
        let values = (0..2).map(|_| value(Element::Int64)).collect();
        let model = Model { values, ..Model::default() };
        let node = |operator: &str, noop: i64| Node {
            operator: operator.to_owned(),
            since: 18,
            inputs: vec![Some(0)],
            outputs: vec![Some(1)],
            attributes: BTreeMap::from([("noop_with_empty_axes".to_owned(), Attribute::Int(noop))]),
            ..Node::default()
        };
        let mut lowering = Lowering::new(&model);
        for (list, expected) in
            [(vec![3, 4], [Some(12), Some(7), Some(4)]), (vec![], [Some(1), Some(0), None])]
        {
            lowering.keep_integers(0, &[list.len() as i64], &list).unwrap();
            for (operator, expected) in ["ReduceProd", "ReduceSum", "ReduceMax"].into_iter().zip(expected) {
                let made = super::super::fold(&node(operator, 0), &lowering).map(|made| made.list);
                assert_eq!(made, expected.map(|of| vec![of]), "{operator} of {list:?}");
                assert_eq!(super::super::fold(&node(operator, 1), &lowering), None);
            }
        }
    }
}
