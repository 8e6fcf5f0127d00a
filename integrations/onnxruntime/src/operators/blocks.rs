//! Products with block-quantized weights.

use hipdnn::graph::PointwiseMode as Mode;

use super::Cost::Heavy;
use super::matmul::product;
use super::{Operator, floats, microsoft};
use crate::bits::{Form, Matrix, Zeros};
use crate::lowering::{Host, Lowered, Lowering, Reason, View, refuse};
use crate::model::{Element, Node};

/// The most rows multiplied with packed weights directly: for more, unpacking to single precision pays off.
const FEW_ROWS: i64 = 8;

pub const OPERATORS: &[Operator] = &[microsoft("MatMulNBits", Heavy, matmul)];

fn matmul(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let a = lowering.input(node, 0)?;
    floats(&[&a])?;
    let (k, n) = (node.int("K", 0), node.int("N", 0));
    let form = Form::new(n, k, node.int("block_size", 0), node.int("bits", 4)).map_err(Reason)?;
    if Lowering::has_input(node, 4) {
        return refuse("weights are in another order");
    }
    if a.dims.last() != Some(&k) {
        return refuse(format!("a product of {:?} and {k} × {n}", a.dims));
    }
    let zeros = lowering.optional(node, 3);
    if zeros.is_none() && Lowering::has_input(node, 3) {
        return refuse("the zeros have an unknown shape");
    }
    let weights: Vec<View> =
        [lowering.input(node, 1)?, lowering.input(node, 2)?].into_iter().chain(zeros).collect();
    let as_they_are = a.element == Element::Float && as_they_are(&weights);
    let mut y = match a.elements() / k.max(1) {
        // Both ways add in an order of their own.
        rows if as_they_are && (rows <= FEW_ROWS || lowering.batch_invariant) => {
            few_rows(lowering, form, &a, &weights)?
        }
        _ => {
            let w = match as_they_are {
                true => lowering.host(
                    Host::Unpack(form),
                    &weights.iter().collect::<Vec<_>>(),
                    Element::Float,
                    &[n, k],
                ),
                false => unpacked(node, lowering, form)?,
            };
            let w = w.transposed().ok_or_else(|| Reason("weights are not a matrix".to_owned()))?;
            product(lowering, &node.name, &a, &w)?
        }
    };
    if let Some(bias) = lowering.optional(node, 5) {
        y = lowering.binary(Mode::Add, &y, &bias)?;
    }
    lowering.set(node, 0, y)
}

/// Whether weights, scales and zero points are multiplied in place.
fn as_they_are(weights: &[View]) -> bool {
    let [bytes, scales, zeros @ ..] = weights else { return false };
    bytes.element == Element::Uint8
        && scales.element == Element::Float
        && zeros.iter().all(|zeros| matches!(zeros.element, Element::Uint8 | Element::Float))
        && weights.iter().all(View::is_packed)
}

/// The product of rows, usually few, with packed weights.
fn few_rows(lowering: &mut Lowering<'_>, form: Form, a: &View, weights: &[View]) -> Lowered<View> {
    let a = if a.is_packed() {
        a.clone()
    } else {
        let packed = lowering.fresh(a.element, &a.dims);
        lowering.copy(a, &packed)?;
        packed
    };
    let mut dims = a.dims.to_vec();
    if let Some(last) = dims.last_mut() {
        *last = i64::try_from(form.n).unwrap_or(0);
    }
    let reads: Vec<&View> = std::iter::once(&a).chain(weights).collect();
    Ok(lowering.host(Host::Multiply(form), &reads, Element::Float, &dims))
}

/// Constant weights in single precision, unpacked once.
fn unpacked(node: &Node, lowering: &mut Lowering<'_>, form: Form) -> Lowered<View> {
    let Some(bytes) = lowering.bytes(node, 1) else { return refuse("the weights are not constant") };
    let Some(scales) = lowering.numbers(node, 2) else { return refuse("the scales are not constant") };
    let zeros = match lowering.optional(node, 3) {
        None => Zeros::Middle,
        Some(view) if view.element.is_float() => {
            let Some(zeros) = lowering.numbers(node, 3) else { return refuse("the zeros are not constant") };
            Zeros::Floats(zeros.iter().map(|zero| *zero as f32).collect())
        }
        Some(_) => match lowering.bytes(node, 3) {
            Some(bytes) => Zeros::Packed(bytes),
            None => return refuse("the zeros are not constant"),
        },
    };
    let scales = scales.iter().map(|scale| *scale as f32).collect();
    let matrix = Matrix::new(form, bytes, scales, zeros).map_err(Reason)?;
    let dims = [form.n, form.k].map(|size| i64::try_from(size).unwrap_or(0));
    lowering.folded(node, Element::Float, &dims, || {
        let mut row = vec![0.0; form.k];
        let mut out = Vec::with_capacity(4 * form.n * form.k);
        for at in 0..form.n {
            matrix.row(at, &mut row);
            out.extend(row.iter().flat_map(|number| number.to_ne_bytes()));
        }
        Ok(out)
    })
}
