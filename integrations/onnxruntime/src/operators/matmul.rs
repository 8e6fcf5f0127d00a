//! Matrix products.

use hipdnn::graph::PointwiseMode;
use hipdnn::graph::operation::Matmul;

use super::Cost::Heavy;
use super::{Operator, floats, onnx, same_type};
use crate::lowering::{Lowered, Lowering, View, broadcast_dims, refuse};
use crate::model::{Element, Node};

pub const OPERATORS: &[Operator] =
    &[onnx("MatMul", (1, 13), Heavy, matmul), onnx("Gemm", (7, 13), Heavy, gemm)];

/// The product of views of rank two or more, whose batch dimensions broadcast.
pub fn product(lowering: &mut Lowering<'_>, name: &str, a: &View, b: &View) -> Lowered<View> {
    product_to(lowering, name, a, b, a.element)
}

fn product_to(
    lowering: &mut Lowering<'_>,
    name: &str,
    a: &View,
    b: &View,
    element: Element,
) -> Lowered<View> {
    let rank = a.rank().max(b.rank());
    let wide = |view: &View| {
        let mut dims = vec![1; rank - view.rank()];
        dims.extend(&view.dims);
        view.reshaped(&dims)
    };
    let (Some(a), Some(b)) = (wide(a), wide(b)) else {
        return refuse("operands of other dimensions");
    };
    let ([a_batch @ .., m, k], [b_batch @ .., inner, n]) = (a.dims.as_slice(), b.dims.as_slice()) else {
        return refuse(format!("a product of {:?} and {:?}", a.dims, b.dims));
    };
    if k != inner {
        return refuse(format!("a product of {:?} and {:?}", a.dims, b.dims));
    }
    let mut dims = broadcast_dims(&[a_batch, b_batch])?;
    dims.extend([*m, *n]);
    let c = lowering.fresh(element, &dims);
    let operation = Matmul { a: lowering.tensor(&a), b: lowering.tensor(&b), c: lowering.tensor(&c) };
    lowering.op(name, operation)?;
    Ok(c)
}

fn matmul(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let (a, b) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    floats(&[&a, &b])?;
    same_type(&[&a, &b])?;
    let c = matmul_of(lowering, &node.name, &a, &b, a.element)?;
    lowering.set(node, 0, c)
}

/// ONNX's product: a vector is a row on the left and a column on the right; its dimension is dropped from the result.
pub fn matmul_of(
    lowering: &mut Lowering<'_>,
    name: &str,
    a: &View,
    b: &View,
    element: Element,
) -> Lowered<View> {
    let (row, column) = (a.rank() == 1, b.rank() == 1);
    let a = if row { a.reshaped(&[1, a.elements()]) } else { Some(a.clone()) };
    let b = if column { b.reshaped(&[b.elements(), 1]) } else { Some(b.clone()) };
    let (Some(a), Some(b)) = (a, b) else { return refuse("a vector of other dimensions") };
    let c = product_to(lowering, name, &a, &b, element)?;
    let mut dims = c.dims.to_vec();
    if column {
        dims.pop();
    }
    if row {
        let at = dims.len().saturating_sub(if column { 1 } else { 2 });
        if at < dims.len() {
            dims.remove(at);
        }
    }
    lowering.reshape(&c, &dims)
}

fn gemm(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let y = gemm_of(node, lowering)?;
    lowering.set(node, 0, y)
}

/// A product of matrices and what is added to it.
pub fn gemm_of(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<View> {
    let (mut a, mut b) = (lowering.input(node, 0)?, lowering.input(node, 1)?);
    floats(&[&a, &b])?;
    same_type(&[&a, &b])?;
    if a.rank() != 2 || b.rank() != 2 {
        return refuse(format!("a product of {:?} and {:?}, expected matrices", a.dims, b.dims));
    }
    for (view, name) in [(&mut a, "transA"), (&mut b, "transB")] {
        if node.int(name, 0) != 0
            && let Some(transposed) = view.transposed()
        {
            *view = transposed;
        }
    }
    let mut y = product(lowering, &node.name, &a, &b)?;
    let (alpha, beta) = (f64::from(node.float("alpha", 1.0)), f64::from(node.float("beta", 1.0)));
    if alpha != 1.0 {
        y = lowering.with_number(PointwiseMode::Mul, &y, alpha)?;
    }
    if Lowering::has_input(node, 2) && beta != 0.0 {
        let mut c = lowering.input(node, 2)?;
        same_type(&[&y, &c])?;
        if beta != 1.0 {
            c = lowering.with_number(PointwiseMode::Mul, &c, beta)?;
        }
        let wide = lowering.binary(PointwiseMode::Add, &y, &c)?;
        if wide.dims != y.dims {
            return refuse(format!("{:?} is added to a product of {:?}", c.dims, y.dims));
        }
        y = wide;
    }
    Ok(y)
}
