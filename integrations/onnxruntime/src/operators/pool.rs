//! Pooling.

use hipdnn::graph::operation::ResampleForward;
use hipdnn::graph::{PaddingMode, ReductionMode, ResampleMode};

use super::Cost::Light;
use super::{Operator, Window, floats, image, onnx};
use crate::lowering::{Lowered, Lowering, refuse};
use crate::model::Node;

pub const OPERATORS: &[Operator] = &[
    onnx("MaxPool", (1, 22), Light, max_pool),
    onnx("AveragePool", (1, 22), Light, average_pool),
    onnx("GlobalAveragePool", (1, 22), Light, |node, lowering| global(node, lowering, ReductionMode::Avg)),
    onnx("GlobalMaxPool", (1, 22), Light, |node, lowering| global(node, lowering, ReductionMode::Max)),
];

fn max_pool(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    if Lowering::has_output(node, 1) {
        return refuse("indices are wanted, which hipDNN counts otherwise");
    }
    pool(node, lowering, ResampleMode::Maxpool)
}

fn average_pool(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let includes = node.int("count_include_pad", 0) != 0;
    let mode =
        if includes { ResampleMode::AvgpoolIncludePadding } else { ResampleMode::AvgpoolExcludePadding };
    pool(node, lowering, mode)
}

fn pool(node: &Node, lowering: &mut Lowering<'_>, mode: ResampleMode) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    floats(&[&x])?;
    let (batch, channels, spatial) = image(&x)?;
    if spatial.len() > 3 {
        return refuse("more than 3 spatial dimensions");
    }
    let Some(size) = node.ints("kernel_shape").filter(|size| size.iter().all(|of| *of > 0)) else {
        return refuse("kernel_shape is absent");
    };
    if spatial.len() > 2 {
        lowering.slow = Some("a window of 3 dimensions is computed element by element".to_owned());
    }
    let ceil = node.int("ceil_mode", 0) != 0;
    let mut window = Window::read(node, &spatial, size, ceil)?;
    if window.dilation.iter().any(|step| *step != 1) {
        return refuse("the window is dilated");
    }
    for at in 0..spatial.len() {
        let get = |of: &[i64]| of.get(at).copied().unwrap_or(0);
        let (have, size, before, after) = (get(&spatial), get(size), get(&window.before), get(&window.after));
        // The last windows may reach beyond the padding.
        let needed = (get(&window.out) - 1) * get(&window.stride) + size - have - before;
        if needed > after {
            if mode == ResampleMode::AvgpoolIncludePadding {
                return refuse("a window that reaches beyond the padding counts fewer elements");
            }
            if let Some(slot) = window.after.get_mut(at) {
                *slot = needed;
            }
        }
        if before >= size || after >= size {
            return refuse(format!("padding of {before} and {after} around a window of {size}"));
        }
    }
    let mut dims = vec![batch, channels];
    dims.extend(&window.out);
    let y = lowering.fresh(x.element, &dims);
    let padding_mode =
        if mode == ResampleMode::Maxpool { PaddingMode::NegInfPad } else { PaddingMode::ZeroPad };
    let operation = ResampleForward {
        x: lowering.tensor(&x),
        y: lowering.tensor(&y),
        index: None,
        pre_padding: window.before,
        post_padding: window.after,
        stride: window.stride,
        window: window.size,
        resample_mode: mode,
        padding_mode,
        generate_index: None,
    };
    lowering.op(&node.name, operation)?;
    lowering.set(node, 0, y)
}

fn global(node: &Node, lowering: &mut Lowering<'_>, mode: ReductionMode) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    floats(&[&x])?;
    image(&x)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    let y = lowering.reduce(mode, &x, &axes)?;
    lowering.set(node, 0, y)
}
