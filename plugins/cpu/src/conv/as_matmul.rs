//! Convolutions whose filter covers the whole image: each weight meets one input element per image, so they are
//! plain matrix multiplications.

use hipdnn_plugin_sdk::graph::{DataType, Tensor};

use crate::layout::{Layout, MAX_RANK};
use crate::problem::Operand;
use crate::problem::convolution::{Convolution, Direction};
use crate::problem::matmul::Matmul;

/// The matrix multiplication that computes the convolution; `None` if the filter does not cover the image, or if
/// the elements of an image or of a filter have no single stride.
pub(crate) fn matmul(c: &Convolution) -> Option<Matmul> {
    let covers = (0..c.spatial).all(|i| {
        c.output[i] == 1
            && c.pre_padding[i] == 0
            && c.window[i] == c.input[i]
            && (c.window[i] == 1 || (c.dilation[i] == 1 && !c.mirrored))
    });
    if !covers || c.groups != 1 {
        return None;
    }
    let (x, w, y) = (c.x.layout.strides(), c.w.layout.strides(), c.y.layout.strides());
    let (elements, of_x, of_w) = merged(c)?;
    let [n, o] = [(c.batch, x[0], y[0]), (c.out_channels, w[0], y[1])];
    // Each operand as rows and columns: how many, and their strides.
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
    Some(Matmul { a, b, c: matmul, m, n, k, batch: 0, a_share: share, b_share: share })
}

/// Channels and spatial dimensions merged into one: its size, and its strides in x and in w.
fn merged(c: &Convolution) -> Option<(usize, usize, usize)> {
    let (x, w) = (c.x.layout.strides(), c.w.layout.strides());
    let sizes = std::iter::once(c.in_channels).chain(c.input.into_iter().take(c.spatial));
    let mut axes: Vec<_> = sizes.zip(x[1..].iter().zip(&w[1..])).filter(|(size, _)| *size > 1).collect();
    axes.sort_by_key(|(_, (_, of_w))| **of_w);
    let Some((_, (of_x, of_w))) = axes.first().copied() else { return Some((1, 1, 1)) };
    let mut elements = 1;
    for (size, (x, w)) in axes {
        if *x != of_x * elements || *w != of_w * elements {
            return None;
        }
        elements *= size;
    }
    Some((elements, *of_x, *of_w))
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
    let [dims, strides] = [dims, strides].map(|values| values.map(|value| value as i64));
    Layout::of(&Tensor::new(0, data_type, &dims, &strides)).ok()
}
