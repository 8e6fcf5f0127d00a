//! Convolutions that are matrix multiplications: the filter covers the whole image, so that each weight meets
//! one input element per image, or slides along a single axis of one image, so that each window is contiguous
//! in it.

use hipdnn_plugin_sdk::graph::{DataType, Tensor};

use crate::layout::{Layout, MAX_RANK};
use crate::problem::Operand;
use crate::problem::convolution::{Convolution, Direction};
use crate::problem::matmul::Matmul;
use crate::simd::array::Each;

/// A matrix multiplication that computes a convolution.
pub(crate) struct AsMatmul {
    pub(crate) matmul: Matmul,
    /// The axes of y that become rows and columns of the result, in the forward direction.
    pub(crate) axes: [usize; 2],
}

/// The smallest sizes for which sliding as a matrix multiplication is fastest: terms of a sum, output
/// channels, positions.
const LEAST: [usize; 3] = [64, 16, 16];

/// The matrix multiplication for a convolution; `None` if the filter neither covers the image nor slides
/// along one axis, or if the elements of an image or of a filter have no single stride.
pub(crate) fn matmul(c: &Convolution) -> Option<AsMatmul> {
    let covers = |i: &usize| {
        let i = *i;
        c.output[i] == 1
            && c.pre_padding[i] == 0
            && c.window[i] == c.input[i]
            && (c.window[i] == 1 || (c.dilation[i] == 1 && !c.mirrored))
    };
    if c.groups != 1 {
        return None;
    }
    let mut others = (0..c.spatial).filter(|i| !covers(i));
    let sliding = match (others.next(), others.next()) {
        (None, _) => None,
        (Some(axis), None) if slides(c, axis) => Some(axis),
        _ => return None,
    };
    let (x, w, y) = (c.x.layout.strides(), c.w.layout.strides(), c.y.layout.strides());
    let (elements, of_x, of_w) = merged(c)?;
    let o = (c.out_channels, w[0], y[1]);
    let n = match sliding {
        None => (c.batch, x[0], y[0]),
        Some(axis) => (c.output[axis], x[2 + axis] * c.stride[axis], y[2 + axis]),
    };
    if sliding.is_some() && [elements, o.0, n.0].iter().zip(LEAST).any(|(size, least)| *size < least) {
        return None;
    }
    // Each operand as rows and columns, with sizes and strides.
    let images = matrix(&c.x, (n.0, n.1), (elements, of_x))?;
    let filters = matrix(&c.w, (o.0, o.1), (elements, of_w))?;
    let outputs = matrix(&c.y, (n.0, n.2), (o.0, o.2))?;
    let (a, b, matmul) = match c.direction {
        Direction::Forward => (images, transposed(&filters)?, outputs),
        Direction::BackwardData => (outputs, filters, images),
        Direction::BackwardFilter => (transposed(&outputs)?, images, filters),
    };
    let [&[m, k], &[_, n]] = [a.layout.dims(), b.layout.dims()] else { return None };
    let share = [1; MAX_RANK];
    let matmul = Matmul { a, b, c: matmul, m, n, k, batch: 0, a_share: share, b_share: share };
    Some(AsMatmul { matmul, axes: [sliding.map_or(0, |axis| 2 + axis), 1] })
}

/// Whether all windows along this axis are inside a single image, and too wide for rows of outputs.
fn slides(c: &Convolution, axis: usize) -> bool {
    let last = (c.output[axis] - 1).checked_mul(c.stride[axis]);
    let reach = (c.window[axis] - 1).checked_mul(c.dilation[axis]);
    let end = last.zip(reach).and_then(|(last, reach)| last.checked_add(reach));
    c.direction == Direction::Forward
        && c.batch == 1
        && c.pre_padding[axis] == 0
        && end.is_some_and(|end| end < c.input[axis])
        && (c.window[axis] == 1 || !c.mirrored)
        && (0..c.spatial).any(|other| other != axis && c.window[other] > 1)
}

/// Channels and the dimensions of the window merged into one: its size, and its strides in x and in w.
fn merged(c: &Convolution) -> Option<(usize, usize, usize)> {
    let (x, w) = (c.x.layout.strides(), c.w.layout.strides());
    let mut axes = vec![(c.in_channels, x[1], w[1])];
    for i in 0..c.spatial {
        axes.push((c.window[i], x[2 + i].checked_mul(c.dilation[i])?, w[2 + i]));
    }
    axes.retain(|(size, ..)| *size > 1);
    axes.sort_by_key(|(_, _, of_w)| *of_w);
    let Some((_, of_x, of_w)) = axes.first().copied() else { return Some((1, 1, 1)) };
    let mut elements = 1;
    for (size, x, w) in axes {
        if x != of_x * elements || w != of_w * elements {
            return None;
        }
        elements *= size;
    }
    Some((elements, of_x, of_w))
}

/// An operand as a matrix with these (size, stride) pairs for rows and columns.
fn matrix(operand: &Operand, rows: (usize, usize), columns: (usize, usize)) -> Option<Operand> {
    layout(operand.data_type, [rows.0, columns.0], [rows.1, columns.1])
        .map(|layout| Operand { layout, ..*operand })
}

fn transposed(matrix: &Operand) -> Option<Operand> {
    let (&[rows, columns], &[down, right]) = (matrix.layout.dims(), matrix.layout.strides()) else {
        return None;
    };
    layout(matrix.data_type, [columns, rows], [right, down]).map(|layout| Operand { layout, ..*matrix })
}

/// The layout of a matrix with these strides; `None` if no tensor can have it.
fn layout(data_type: DataType, dims: [usize; 2], strides: [usize; 2]) -> Option<Layout> {
    let [dims, strides] = [dims, strides].each(|values| values.map(|value| value as i64));
    Layout::of(&Tensor::new(0, data_type, &dims, &strides)).ok()
}
