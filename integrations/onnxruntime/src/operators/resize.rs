//! Resizing of images. Repeating elements a whole number of times is a copy; otherwise results are weighted sums of neighbours.

use hipdnn::graph::PointwiseMode;

use super::Cost::Layout;
use super::own::one;
use super::phases::Phases;
use super::{Operator, axis, onnx};
use crate::lowering::{Lowered, Lowering, Reason, View, elements, refuse};
use crate::model::{Attribute, Element, Node};
use crate::steps::{Resize, Taps};

pub const OPERATORS: &[Operator] =
    &[onnx("Resize", (10, 19), Layout, resize), onnx("Upsample", (7, 9), Layout, resize)];

/// How far from the middle of two elements a place still counts as there.
const MIDDLE: f32 = 1e-6;

/// How a place in the result is one in the input, and rounded: fixed before version 11.
fn places(node: &Node) -> (&str, &str) {
    if node.since < 11 {
        return ("asymmetric", "floor");
    }
    let transformation = node.text("coordinate_transformation_mode", "half_pixel");
    (transformation, node.text("nearest_mode", "round_prefer_floor"))
}

fn resize(node: &Node, lowering: &mut Lowering<'_>) -> Lowered<()> {
    let x = lowering.input(node, 0)?;
    known(node)?;
    let (transformation, nearest) = places(node);
    let parts = parts(node, lowering, &x)?;
    let (out, scales) = sizes(node, lowering, &x)?;
    if x.dims == out && parts.is_none() {
        return lowering.set(node, 0, x);
    }
    // With these two, output i is input ⌊i / factor⌋ for whole factors: pixel centres round to the pixel that contains them.
    let repeats = match transformation {
        "asymmetric" => nearest == "floor",
        "half_pixel" | "half_pixel_symmetric" => {
            matches!(nearest, "round_prefer_floor" | "round_prefer_ceil")
        }
        _ => false,
    };
    let whole = |(size, dim): (&i64, &i64)| (*dim > 0 && size % dim == 0).then(|| size / dim);
    if node.text("mode", "nearest") == "nearest"
        && repeats
        && let Some(factors) = out.iter().zip(&x.dims).map(whole).collect::<Option<Vec<_>>>()
    {
        return repeat(node, lowering, &x, &factors);
    }
    let is_nearest = node.text("mode", "nearest") == "nearest";
    if (!is_nearest || parts.is_some()) && !x.element.is_float() {
        return refuse(format!("elements are {}", x.element.name()));
    }
    let mut axes = Vec::new();
    for (at, (to, scale)) in out.iter().zip(&scales).enumerate() {
        let from = x.dims.get(at).copied().unwrap_or(1);
        let part = parts.as_ref().and_then(|parts| parts.get(at).copied());
        if *scale != 1.0 || from != *to || part.is_some_and(|part| part != [0.0, 1.0]) {
            axes.push((at, taps(node, Axis { from, to: *to, scale: *scale, part })?));
        }
    }
    let is_narrow =
        (!is_nearest || parts.is_some()) && !matches!(x.element, Element::Float | Element::Double);
    let mut y = match is_narrow {
        true => lowering.map(PointwiseMode::Identity, &[&x], Element::Float)?,
        false => x.clone(),
    };
    let phases: Option<Vec<Phases>> = match lowering.on_gpu && y.element == Element::Float {
        true => axes.iter().map(|(at, taps)| Phases::of(taps, *x.dims.get(*at)?)).collect(),
        false => None,
    };
    if let Some(phases) = phases {
        // The last axis first: the input of the others stays small.
        for ((at, _), phases) in axes.iter().zip(&phases).rev() {
            y = phases.resized(lowering, &y, *at)?;
        }
    } else {
        for pair in axes.chunks(2) {
            y = resized(lowering, &y, pair)?;
        }
    }
    let beyond = node.float("extrapolation_value", 0.0);
    if parts.is_some() && beyond != 0.0 {
        y = with_beyond(lowering, &y, &axes, beyond)?;
    }
    let y = if is_narrow { lowering.map(PointwiseMode::Identity, &[&y], x.element)? } else { y };
    lowering.set(node, 0, y)
}

/// The part of each axis that is resized, from 0 for the first element to 1 for the last one; none if it is the whole.
fn parts(node: &Node, lowering: &Lowering<'_>, x: &View) -> Lowered<Option<Vec<[f32; 2]>>> {
    if places(node).0 != "tf_crop_and_resize" {
        return Ok(None);
    }
    let all: Vec<i64> = (0..i64::try_from(x.rank()).unwrap_or(0)).collect();
    let chosen = axes_in_order(node.ints("axes").unwrap_or(&all), x.rank())?;
    let given = lowering.numbers(node, 1).filter(|given| given.len() == 2 * chosen.len());
    let Some(given) = given else { return refuse("the part that is resized is not constant") };
    let (begins, ends) = given.split_at(chosen.len());
    let mut parts = vec![[0.0, 1.0]; x.rank()];
    for ((at, begin), end) in chosen.iter().zip(begins).zip(ends) {
        parts.iter_mut().skip(*at).take(1).for_each(|of| *of = [*begin as f32, *end as f32]);
    }
    Ok(Some(parts))
}

/// A tensor with a number where the places of some axis, whose weights are all zero there, are outside of the input.
fn with_beyond(lowering: &mut Lowering<'_>, y: &View, axes: &[(usize, Taps)], beyond: f32) -> Lowered<View> {
    let (mut dims, mut inside) = (vec![1; y.rank()], vec![true]);
    for (at, taps) in axes {
        let size = i64::try_from(taps.size()).unwrap_or(0);
        dims.iter_mut().skip(*at).take(1).for_each(|dim| *dim = size);
        let own: Vec<bool> =
            taps.weights.chunks(taps.count.max(1)).map(|of| of.iter().any(|of| *of != 0.0)).collect();
        inside = inside.iter().flat_map(|so_far| own.iter().map(move |own| *so_far && *own)).collect();
    }
    let bytes = inside.iter().flat_map(|inside| if *inside { 0.0_f32 } else { beyond }.to_ne_bytes());
    let more = lowering.data(Element::Float, &dims, &bytes.collect::<Vec<u8>>())?;
    lowering.binary(PointwiseMode::Add, y, &more)
}

/// A tensor resized along one or two axes, in rising order; its channels stay last.
fn resized(lowering: &mut Lowering<'_>, x: &View, axes: &[(usize, Taps)]) -> Lowered<View> {
    let rank = x.rank();
    let order: Vec<usize> = match x.is_channels_last() {
        true => std::iter::once(0).chain(2..rank).chain([1]).collect(),
        false => (0..rank).collect(),
    };
    let places = |of: &[usize]| -> Vec<usize> {
        (0..rank).map(|axis| of.iter().position(|of| *of == axis).unwrap_or(axis)).collect()
    };
    let back = places(&order);
    let moved = x.permuted(&order).ok_or_else(|| Reason("no such axis".to_owned()))?;
    let mut axes: Vec<(usize, &Taps)> =
        axes.iter().map(|(at, taps)| (back.get(*at).copied().unwrap_or(*at), taps)).collect();
    axes.sort_by_key(|(at, _)| *at);
    let size = |range: &[i64]| usize::try_from(elements(range)).unwrap_or(0);
    let dims = moved.dims.as_slice();
    let (Some((first, first_taps)), Some((last, last_taps))) = (axes.first(), axes.last()) else {
        return Ok(x.clone());
    };
    let (outer, rest) = dims.split_at(*first);
    let inner = dims.get(last + 1..).unwrap_or(&[]);
    let (from, stays, taps) = if axes.len() == 1 {
        // The first axis has one element.
        let from = [1, size(rest.get(..1).unwrap_or(&[]))];
        (from, [size(outer), 1, size(inner)], [Taps::all(1), (*first_taps).clone()])
    } else {
        let middle = dims.get(first + 1..*last).unwrap_or(&[]);
        let from = [*first, *last].map(|at| size(dims.get(at..=at).unwrap_or(&[])));
        (from, [size(outer), size(middle), size(inner)], [(*first_taps).clone(), (*last_taps).clone()])
    };
    let mut result = moved.dims.to_vec();
    for (at, taps) in &axes {
        let size = i64::try_from(taps.size()).unwrap_or(0);
        result.iter_mut().skip(*at).take(1).for_each(|dim| *dim = size);
    }
    let y = one(lowering, Resize { stays, from, taps }, &[&moved], (x.element, result))?;
    y.permuted(&back).ok_or_else(|| Reason("no such axis".to_owned()))
}

/// Rejects attributes that no size supports.
fn known(node: &Node) -> Lowered<()> {
    if node.int("antialias", 0) != 0 && node.text("mode", "nearest") == "nearest" {
        return refuse("the nearest elements are filtered");
    }
    let part = (places(node).0 == "tf_crop_and_resize").then_some([0.0, 1.0]);
    let one = Axis { from: 2, to: 2, scale: 1.0, part };
    taps(node, one).map(|_| ())
}

/// The dimensions of the result, and the scale of each.
fn sizes(node: &Node, lowering: &mut Lowering<'_>, x: &View) -> Lowered<(Vec<i64>, Vec<f32>)> {
    let all: Vec<i64> = (0..i64::try_from(x.rank()).unwrap_or(0)).collect();
    let chosen = axes_in_order(node.ints("axes").unwrap_or(&all), x.rank())?;
    let (mut out, mut scales) = (x.dims.to_vec(), vec![1.0; x.rank()]);
    let mut set = |at: usize, size: i64, scale: f32| {
        out.iter_mut().skip(at).take(1).for_each(|slot| *slot = size);
        scales.iter_mut().skip(at).take(1).for_each(|slot| *slot = scale);
    };
    let dim = |at: usize| x.dims.get(at).copied().unwrap_or(0);
    let ones = chosen.len();
    let scales_of = |lowering: &mut Lowering<'_>| match node.attributes.get("scales") {
        Some(Attribute::Floats(list)) => {
            Ok(Some(list.iter().map(|scale| f64::from(*scale)).collect::<Vec<_>>()))
        }
        _ => lowering.factors(node, if node.since < 11 { 1 } else { 2 }, ones),
    };
    if let Some(given) = scales_of(lowering)?.filter(|given| !given.is_empty()) {
        if given.len() != chosen.len() || given.iter().any(|scale| !(*scale > 0.0 && *scale <= 1024.0)) {
            return refuse(format!("scales {given:?} of {} dimensions", x.rank()));
        }
        for (at, scale) in chosen.iter().zip(&given) {
            set(*at, (dim(*at) as f32 * *scale as f32).floor() as i64, *scale as f32);
        }
        return Ok((out, scales));
    }
    if !Lowering::has_input(node, 3) {
        return refuse("neither scales nor sizes");
    }
    let own = chosen.iter().map(|at| dim(*at)).collect::<Vec<_>>();
    let given = lowering.parameter(node, 3, "the list of sizes", |_| own)?.unwrap_or_default();
    if given.len() != chosen.len() || x.elements() < 1 || given.iter().any(|size| *size < 1) {
        return refuse(format!("sizes {given:?} for dims {:?}", x.dims));
    }
    let ratios = chosen.iter().zip(&given).map(|(at, size)| *size as f32 / dim(*at) as f32);
    let one = match node.text("keep_aspect_ratio_policy", "stretch") {
        "stretch" => None,
        "not_larger" => ratios.reduce(f32::min),
        "not_smaller" => ratios.reduce(f32::max),
        other => return refuse(format!("keep_aspect_ratio_policy is {other:?}")),
    };
    for (at, size) in chosen.iter().zip(&given) {
        let have = dim(*at) as f32;
        match one {
            Some(scale) => set(*at, (scale * have).round() as i64, scale),
            None => set(*at, *size, *size as f32 / have),
        }
    }
    Ok((out, scales))
}

/// A dimension before and after.
#[derive(Clone, Copy, Debug)]
struct Axis {
    from: i64,
    to: i64,
    scale: f32,
    /// The part that is resized, if it is not the whole.
    part: Option<[f32; 2]>,
}

impl Axis {
    /// The position of element `at` of the result in the input.
    fn origin(self, at: i64, transformation: &str) -> Lowered<f32> {
        let (place, from, to) = (at as f32, self.from as f32, self.to as f32);
        // CPUExecutionProvider crops no axis that keeps its size.
        if self.scale == 1.0 {
            return Ok(place);
        }
        let centre = || (place + 0.5) / self.scale - 0.5;
        Ok(match transformation {
            "half_pixel" => centre(),
            "pytorch_half_pixel" => {
                if self.to > 1 {
                    centre()
                } else {
                    0.0
                }
            }
            "half_pixel_symmetric" => from / 2.0 * (1.0 - to / (self.scale * from)) + centre(),
            "align_corners" => {
                if self.to > 1 {
                    place * (from - 1.0) / (to - 1.0)
                } else {
                    0.0
                }
            }
            "asymmetric" => place / self.scale,
            "tf_crop_and_resize" => {
                let [begin, end] = self.part.unwrap_or([0.0, 1.0]);
                if self.to > 1 {
                    begin * (from - 1.0) + place * (end - begin) * (from - 1.0) / (to - 1.0)
                } else {
                    0.5 * (begin + end) * (from - 1.0)
                }
            }
            other => return refuse(format!("coordinate_transformation_mode is {other:?}")),
        })
    }
}

fn taps(node: &Node, axis: Axis) -> Lowered<Taps> {
    let (transformation, nearest) = places(node);
    let excludes = node.int("exclude_outside", 0) != 0;
    let a = node.float("cubic_coeff_a", -0.75);
    if node.int("antialias", 0) != 0 {
        return filtered(node, axis, a);
    }
    let one = |at: i64| -> Lowered<Vec<(i64, f32)>> {
        let origin = axis.origin(at, transformation)?;
        let floor = origin.floor();
        let ratio = origin - floor;
        let first = floor as i64;
        let mut taps = match node.text("mode", "nearest") {
            "nearest" => {
                let place = match nearest {
                    // A place in the middle may be computed a little beside it.
                    "round_prefer_floor" if (ratio - 0.5).abs() <= MIDDLE => floor,
                    "round_prefer_ceil" if (ratio - 0.5).abs() <= MIDDLE => floor + 1.0,
                    "round_prefer_floor" => (origin - 0.5).ceil(),
                    "round_prefer_ceil" => (origin + 0.5).floor(),
                    "floor" => floor,
                    "ceil" => origin.ceil(),
                    other => return refuse(format!("nearest_mode is {other:?}")),
                };
                vec![(place as i64, 1.0)]
            }
            "linear" => vec![(first, 1.0 - ratio), (first + 1, ratio)],
            "cubic" => {
                let near = |t: f32| ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
                let far = |t: f32| ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a;
                let weights = [far(ratio + 1.0), near(ratio), near(1.0 - ratio), far(2.0 - ratio)];
                (first - 1..).zip(weights).collect()
            }
            other => return refuse(format!("mode is {other:?}")),
        };
        let is_inside = |place: i64| (0..axis.from).contains(&place);
        if excludes && taps.iter().any(|(place, _)| !is_inside(*place)) {
            taps.iter_mut().filter(|(place, _)| !is_inside(*place)).for_each(|(_, weight)| *weight = 0.0);
            let sum: f32 = taps.iter().map(|(_, weight)| weight).sum();
            taps.iter_mut().for_each(|(_, weight)| *weight /= sum);
        }
        if axis.part.is_some() && !(0.0..=(axis.from - 1) as f32).contains(&origin) {
            taps.iter_mut().for_each(|(_, weight)| *weight = 0.0);
        }
        taps.iter_mut().for_each(|(place, _)| *place = (*place).clamp(0, axis.from - 1));
        // At an end both are one element, of which CPUExecutionProvider adds halves: an infinity stays one.
        if let [(first, u), (second, v)] = taps.as_mut_slice()
            && first == second
            && !excludes
            && axis.part.is_none()
        {
            (*u, *v) = (0.5, 0.5);
        }
        Ok(taps)
    };
    let all = (0..axis.to).map(one).collect::<Lowered<Vec<_>>>()?;
    let count = all.first().map_or(1, Vec::len);
    let places = all.iter().flatten().map(|(place, _)| usize::try_from(*place).unwrap_or(0)).collect();
    // A single element is copied.
    let is_weighted = count > 1 || axis.part.is_some();
    let weights = all.iter().flatten().map(|(_, weight)| *weight).filter(|_| is_weighted).collect();
    Ok(Taps { count, places, weights })
}

/// Taps of a filter that is as wide as the elements of a smaller result.
fn filtered(node: &Node, axis: Axis, a: f32) -> Lowered<Taps> {
    let is_cubic = match node.text("mode", "nearest") {
        "linear" => false,
        "cubic" => true,
        other => return refuse(format!("mode is {other:?}")),
    };
    let excludes = node.int("exclude_outside", 0) != 0;
    let narrow = axis.scale.min(1.0);
    let reach = if is_cubic { 2.0 } else { 1.0 } / narrow;
    let weight = |at: f32| {
        let t = at.abs();
        match is_cubic {
            false => (1.0 - t).max(0.0),
            true if t < 1.0 => ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0,
            true if t < 2.0 => (((t - 5.0) * t + 8.0) * t - 4.0) * a,
            true => 0.0,
        }
    };
    let one = |at: i64| -> Lowered<Vec<(i64, f32)>> {
        let centre = 0.5 + axis.origin(at, places(node).0)?;
        let [first, end] = [centre - reach, centre + reach].map(|edge| (edge + 0.5).floor() as i64);
        let mut taps: Vec<(i64, f32)> =
            (first..end).map(|place| (place, weight((place as f32 - centre + 0.5) * narrow))).collect();
        taps.retain(|(place, _)| !excludes || (0..axis.from).contains(place));
        taps.iter_mut().for_each(|(place, _)| *place = (*place).clamp(0, axis.from - 1));
        let sum: f32 = taps.iter().map(|(_, weight)| weight).sum();
        taps.iter_mut().for_each(|(_, weight)| *weight /= sum);
        Ok(taps)
    };
    let mut all = (0..axis.to).map(one).collect::<Lowered<Vec<_>>>()?;
    let count = all.iter().map(Vec::len).max().unwrap_or(0).max(1);
    all.iter_mut().for_each(|taps| taps.resize(count, (0, 0.0)));
    let places = all.iter().flatten().map(|(place, _)| usize::try_from(*place).unwrap_or(0)).collect();
    Ok(Taps { count, places, weights: all.iter().flatten().map(|(_, weight)| *weight).collect() })
}

/// Axes that may count from the end, in the order given.
fn axes_in_order(list: &[i64], rank: usize) -> Lowered<Vec<usize>> {
    list.iter().map(|at| axis(*at, rank)).collect()
}

/// Repeats each element `factor` times along each dimension.
fn repeat(node: &Node, lowering: &mut Lowering<'_>, x: &View, factors: &[i64]) -> Lowered<()> {
    if factors.iter().any(|factor| *factor < 1) {
        return refuse(format!("factors {factors:?}"));
    }
    let dims: Vec<i64> = x.dims.iter().zip(factors).map(|(dim, factor)| dim * factor).collect();
    // Dimensions with a factor are split in two: the element, and its repetitions.
    let (mut single, mut wide) = (Vec::new(), Vec::new());
    for (dim, factor) in x.dims.iter().zip(factors) {
        single.push(*dim);
        wide.push(*dim);
        if *factor > 1 {
            single.push(1);
            wide.push(*factor);
        }
    }
    let to = lowering.fresh_like(x.element, &dims, x);
    let from = lowering.reshape(x, &single)?.expanded(&wide);
    let (Some(from), Some(place)) = (from, to.reshaped(&wide)) else { return refuse("too many dimensions") };
    lowering.copy(&from, &place)?;
    lowering.set(node, 0, to)
}
