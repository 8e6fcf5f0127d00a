//! Pooling.

use hipdnn::graph::operation::ResampleForward;
use hipdnn::graph::{PaddingMode, PointwiseMode, ReductionMode, ResampleMode};

use super::Cost::Light;
use super::{Operator, Window, floats, image, onnx};
use crate::lowering::{Lowered, Lowering, Reason, View, elements, refuse};
use crate::model::{Element, Node};
use crate::steps::Largest;

/// The largest window that is computed position by position.
const MOST_TAPS: i64 = 256;

pub const OPERATORS: &[Operator] = &[
    onnx("MaxPool", (1, 22), Light, max_pool),
    onnx("AveragePool", (1, 22), Light, average_pool),
    onnx("GlobalAveragePool", (1, 22), Light, |node, lowering| global(node, lowering, ReductionMode::Avg)),
    onnx("GlobalMaxPool", (1, 22), Light, |node, lowering| global(node, lowering, ReductionMode::Max)),
];

fn max_pool(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    if Lowering::has_output(node, 1) {
        return with_indices(node, lowering, &x);
    }
    if matches!(x.element, Element::Int8 | Element::Uint8) {
        // Single precision holds every byte.
        let wide = lowering.map(PointwiseMode::Identity, &[&x], Element::Float)?;
        let y = pooled(node, lowering, &wide, ResampleMode::Maxpool)?;
        let y = lowering.map(PointwiseMode::Identity, &[&y], x.element)?;
        return lowering.set(node, 0, y);
    }
    pool(node, lowering, ResampleMode::Maxpool)
}

/// Also the indices, which hipDNN counts otherwise.
fn with_indices(node: &Node, lowering: &mut Lowering<'_>, x: &View) -> Lowered<()> {
    let (batch, channels, from) = image(x)?;
    let Some(size) = node.ints("kernel_shape").filter(|_| from.len() <= 3) else {
        return refuse("kernel_shape is absent, or there are more than 3 spatial dimensions");
    };
    let window = Window::read(node, &from, size, Some(node.int("ceil_mode", 0) != 0))?;
    let dims: Vec<i64> = [batch, channels].into_iter().chain(window.out.iter().copied()).collect();
    let own = Largest {
        from,
        to: window.out,
        size: window.size,
        stride: window.stride,
        dilation: window.dilation,
        before: window.before,
        by_columns: node.int("storage_order", 0) != 0,
    };
    let is_narrow = !matches!(x.element, Element::Float | Element::Double);
    if is_narrow && !x.element.is_float() && !matches!(x.element, Element::Int8 | Element::Uint8) {
        return refuse(format!("elements are {}", x.element.name()));
    }
    let wide = match is_narrow {
        true => lowering.map(PointwiseMode::Identity, &[x], Element::Float)?,
        false => x.clone(),
    };
    let packed = lowering.packed(&wide)?;
    let made = lowering.on_host(own, &[&packed], &[(wide.element, dims.clone()), (Element::Int64, dims)]);
    let [y, indices] = <[View; 2]>::try_from(made).map_err(|_| Reason("no result".to_owned()))?;
    let y = if is_narrow { lowering.map(PointwiseMode::Identity, &[&y], x.element)? } else { y };
    lowering.set(node, 0, y)?;
    lowering.set(node, 1, indices)
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
    let y = pooled(node, lowering, &x, mode)?;
    lowering.set(node, 0, y)
}

fn pooled(node: &Node, lowering: &mut Lowering<'_>, x: &View, mode: ResampleMode) -> Lowered<View> {
    let (batch, channels, spatial) = image(x)?;
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
    let mut window = Window::read(node, &spatial, size, Some(ceil))?;
    let (mut x, mut spatial) = (x.clone(), spatial);
    for (at, have) in spatial.iter_mut().enumerate() {
        let less = window.before.get(at).map_or(0, |before| (-before).max(0));
        // An average's last window ends with the padding.
        let is_average = mode != ResampleMode::Maxpool;
        let less_after = window.after.get(at).map_or(0, |after| if is_average { (-after).max(0) } else { 0 });
        *have -= less + less_after;
        x = x.sliced(at + 2, less, 1, *have).ok_or_else(|| Reason("no such axis".to_owned()))?;
    }
    window.before.iter_mut().chain(&mut window.after).for_each(|of| *of = (*of).max(0));
    let x = &x;
    if window.dilation.iter().any(|step| *step != 1) {
        return tap_by_tap(lowering, x, window, mode);
    }
    for at in 0..spatial.len() {
        let get = |of: &[i64]| of.get(at).copied().unwrap_or(0);
        let (have, size, before, after) = (get(&spatial), get(size), get(&window.before), get(&window.after));
        // The last windows may reach beyond the padding.
        let needed = (get(&window.out) - 1) * get(&window.stride) + size - have - before;
        if needed > after {
            if mode == ResampleMode::AvgpoolIncludePadding {
                // A window that reaches beyond the padding counts fewer elements.
                return tap_by_tap(lowering, x, window, mode);
            }
            if let Some(slot) = window.after.get_mut(at) {
                *slot = needed;
            }
        }
        if before >= size || after >= size {
            return tap_by_tap(lowering, x, window, mode);
        }
    }
    let mut dims = vec![batch, channels];
    dims.extend(&window.out);
    let y = lowering.fresh_like(x.element, &dims, x);
    let padding_mode =
        if mode == ResampleMode::Maxpool { PaddingMode::NegInfPad } else { PaddingMode::ZeroPad };
    let operation = ResampleForward {
        x: lowering.tensor(x),
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
    Ok(y)
}

/// Pooling that hipDNN lacks: combines shifted parts of the padded image, one per position of the window.
fn tap_by_tap(
    lowering: &mut Lowering<'_>,
    x: &View,
    mut window: Window,
    mode: ResampleMode,
) -> Lowered<View> {
    lowering.slow =
        Some("a window that is dilated or reaches beyond the padding is computed place by place".to_owned());
    let is_maximum = mode == ResampleMode::Maxpool;
    let taps: i64 = elements(&window.size);
    if taps > MOST_TAPS {
        return refuse(format!("a dilated window of {taps} elements"));
    }
    let (size, stride, dilation, out) =
        (window.size.clone(), window.stride.clone(), window.dilation.clone(), window.out.clone());
    let before = window.before.clone();
    let declared = window.after.clone();
    // Room for every window; the last ones may reach beyond the padding.
    for (at, after) in window.after.iter_mut().enumerate() {
        let get = |of: &[i64]| of.get(at).copied().unwrap_or(0);
        let have = x.dims.get(at + 2).copied().unwrap_or(0) + get(&before);
        let reach = (get(&size) - 1) * get(&dilation) + 1;
        *after = (*after).max((get(&out) - 1) * get(&stride) + reach - have);
    }
    let outside = if is_maximum { f32::NEG_INFINITY } else { 0.0 };
    let outside = lowering.data(Element::Float, &[1], &outside.to_ne_bytes())?;
    let outside = lowering.map(PointwiseMode::Identity, &[&outside], x.element)?;
    let whole = padded(lowering, x, &mut window, &outside)?;
    let mut y: Option<View> = None;
    for tap in 0..taps {
        let (mut part, mut left) = (Some(whole.clone()), tap);
        for at in (0..size.len()).rev() {
            let get = |of: &[i64]| of.get(at).copied().unwrap_or(1);
            let place = left % get(&size);
            left /= get(&size);
            part = part.and_then(|part| part.sliced(at + 2, place * get(&dilation), get(&stride), get(&out)));
        }
        let part = part.ok_or_else(|| Reason("a window outside of its image".to_owned()))?;
        let together = if is_maximum { PointwiseMode::Max } else { PointwiseMode::Add };
        y = Some(match y {
            Some(y) => lowering.binary(together, &y, &part)?,
            None => part,
        });
    }
    let mut y = y.ok_or_else(|| Reason("a window without elements".to_owned()))?;
    if !is_maximum {
        let mut counts = vec![1.0_f32];
        let mut dims = vec![1, 1];
        for at in 0..size.len() {
            let get = |of: &[i64]| of.get(at).copied().unwrap_or(1);
            let have = x.dims.get(at + 2).copied().unwrap_or(0);
            let includes = mode == ResampleMode::AvgpoolIncludePadding;
            let range = if includes { -get(&before)..have + get(&declared) } else { 0..have };
            let of = |place: i64| {
                let first = place * get(&stride) - get(&before);
                (0..get(&size)).filter(|tap| range.contains(&(first + tap * get(&dilation)))).count().max(1)
                    as f32
            };
            let line: Vec<f32> = (0..get(&out)).map(of).collect();
            counts = counts.iter().flat_map(|count| line.iter().map(move |of| count * of)).collect();
            dims.push(get(&out));
        }
        let bytes: Vec<u8> = counts.iter().flat_map(|count| count.to_ne_bytes()).collect();
        let counts = lowering.data(Element::Float, &dims, &bytes)?;
        y = lowering.binary(PointwiseMode::Div, &y, &counts)?;
    }
    Ok(y)
}

/// An image with constant padding; the window then needs none.
fn padded(lowering: &mut Lowering<'_>, x: &View, window: &mut Window, outside: &View) -> Lowered<View> {
    let (before, after) = (std::mem::take(&mut window.before), std::mem::take(&mut window.after));
    window.before = vec![0; before.len()];
    window.after = vec![0; after.len()];
    surrounded(lowering, x, [&before, &after], outside)
}

/// An image with this many elements of a number before and after each spatial axis.
pub fn surrounded(
    lowering: &mut Lowering<'_>,
    x: &View,
    [before, after]: [&[i64]; 2],
    outside: &View,
) -> Lowered<View> {
    if before.iter().chain(after).all(|count| *count == 0) {
        return Ok(x.clone());
    }
    let mut dims = x.dims.to_vec();
    for ((dim, before), after) in dims.iter_mut().skip(2).zip(before).zip(after) {
        *dim += before + after;
    }
    let whole = lowering.fresh(x.element, &dims);
    let mut inner = whole.clone();
    for (at, (before, after)) in before.iter().zip(after).enumerate() {
        let axis = at + 2;
        let have = x.dims.get(axis).copied().unwrap_or(0);
        // The remainder of earlier axes: the edges of this one, and the part between them.
        for (from, count) in [(0, *before), (before + have, *after)] {
            let edge = inner.sliced(axis, from, 1, count);
            let edge = edge.ok_or_else(|| Reason("an edge of another axis".to_owned()))?;
            let fill = outside.reshaped(&[1]).and_then(|of| of.expanded(&edge.dims));
            lowering.copy(&fill.ok_or_else(|| Reason("padding of several elements".to_owned()))?, &edge)?;
        }
        inner = inner.sliced(axis, *before, 1, have).ok_or_else(|| Reason("no image".to_owned()))?;
    }
    lowering.copy(x, &inner)?;
    Ok(whole)
}

fn global(node: &Node, lowering: &mut Lowering<'_>, mode: ReductionMode) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    floats(&[&x])?;
    image(&x)?;
    let axes: Vec<usize> = (2..x.rank()).collect();
    let y = lowering.reduce(mode, &x, &axes)?;
    lowering.set(node, 0, y)
}
