//! Depthwise convolutions with channels last: each thread computes a strip of outputs along the last dimension.
//!
//! Neighbouring threads have neighbouring channels, so their loads of x are coalesced. Each loaded element of x serves all
//! windows of the strip. A workgroup has few channels and keeps their filters in shared memory.

#![expect(clippy::indexing_slicing, reason = "axes run below the number of spatial dimensions")]

use std::fmt::Write;
use std::ops::RangeInclusive;

use hipdnn_plugin_planner::problem::convolution::Convolution;

use super::body::{Body, load, offset, spatial};
use super::value::Real;
use crate::Refusal;

/// The longest strip.
const LONGEST: usize = 8;
/// Threads that keep a device busy: strips are shorter where there are fewer.
const BUSY: usize = 1 << 15;
/// Channels of a workgroup; for most shapes up to 64 take longer on an H200 (benches/results/depthwise_gpu.csv).
const CHANNELS: RangeInclusive<usize> = 8..=32;
/// The most elements of a filter.
const TAPS: usize = 128;
/// The most elements of x along the strip that a thread holds.
const REACH: usize = 40;
/// Threads of a workgroup: the most, the number that suffices, and those of a warp.
const THREADS: (usize, usize, usize) = (256, 192, 32);

/// How a depthwise convolution is divided among threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strip {
    /// The dimension of y that strips lie along.
    pub axis: usize,
    /// Elements of y that a thread makes.
    pub count: usize,
    /// Channels of a workgroup.
    pub channels: usize,
    /// Threads of a workgroup.
    pub threads: usize,
    /// Elements of a channel's filter.
    taps: usize,
    /// The distance between filters, and the window with the distances along it.
    filters: usize,
    window: Vec<(usize, usize)>,
}

impl Strip {
    /// The strips of a forward convolution; `None` unless it is depthwise, x and y have channels last, and it has enough
    /// outputs.
    pub fn of(p: &Convolution) -> Option<Self> {
        let [xs, ys, ws] = [&p.x, &p.y, &p.w].map(|operand| operand.layout.strides());
        let last = p.spatial.checked_sub(1)?;
        let is_depthwise = p.in_channels == 1 && p.out_channels == 1 && p.groups > 1;
        let window = &p.window[..p.spatial];
        let taps = window.iter().try_fold(1_usize, |product, size| product.checked_mul(*size))?;
        if !is_depthwise || xs[1] != 1 || ys[1] != 1 || taps > TAPS {
            return None;
        }
        let width = p.output[last];
        let sizes = p.output[..p.spatial].iter().chain([&p.batch, &p.groups]);
        let elements = sizes.copied().try_fold(1_usize, usize::checked_mul)?;
        let fits = |count: &usize| {
            let reach = reach(p, *count);
            width.is_multiple_of(*count)
                && elements / count >= BUSY
                && reach.is_some_and(|reach| reach <= REACH)
        };
        let count = (2..=LONGEST).rev().find(fits)?;
        let (channels, threads) = workgroup(p.groups, elements / p.groups / count)?;
        Some(Self {
            axis: last + 2,
            count,
            channels,
            threads,
            taps,
            filters: ws[0],
            window: window.iter().copied().zip((0..p.spatial).map(|axis| ws[axis + 2])).collect(),
        })
    }

    /// The distance between filters in shared memory: odd, so that those of neighbouring channels are in different banks.
    fn pitch(&self) -> usize {
        self.taps | 1
    }

    /// The numbers in shared memory.
    pub fn staged(&self) -> usize {
        self.channels * self.pitch()
    }

    /// The statements that bring the filters of a workgroup, whose channels begin at `first`, from `w` to `to`.
    pub fn stage(&self, w: &str, tag: &str, to: &str, first: &str, real: Real) -> Vec<String> {
        let mut offset = format!("({first} + c) * {}u", self.filters);
        let mut inner = 1;
        for (size, stride) in self.window.iter().rev() {
            let _ = write!(offset, " + tap / {inner}u % {size}u * {stride}u");
            inner *= size;
        }
        let (taps, pitch) = (self.taps, self.pitch());
        vec![
            format!(
                "for (index_t k = threadIdx.x; k < {}u; k += {}u) {{",
                self.channels * taps,
                self.threads
            ),
            format!("    const index_t c = k / {taps}u;"),
            format!("    const index_t tap = k % {taps}u;"),
            format!("    {to}[c * {pitch}u + tap] = ({}){tag}::load({w}[{offset}]);", real.name()),
            "}".to_owned(),
            "__syncthreads();".to_owned(),
        ]
    }

    /// The function of a strip, from the staged filters.
    ///
    /// # Errors
    /// A type that the source has no name for.
    pub fn body(&self, p: &Convolution, real: Real) -> Result<String, Refusal> {
        let xs = p.x.layout.strides();
        let (count, last, name) = (self.count, p.spatial - 1, real.name());
        let (size, stride, dilation) = (p.window[last], p.stride[last], p.dilation[last]);
        let reach = reach(p, count).unwrap_or(1);
        let mut body = Body::new();
        body.line(format!("x += i0 * {}u + i1;", xs[0]));
        body.line(format!("w += i1 % {}u * {}u;", self.channels, self.pitch()));
        body.line("#pragma unroll");
        body.line(format!("for (int t = 0; t < {count}; t++) out[t] = 0;"));
        (0..last).for_each(|axis| body.filter_axis(p, axis));
        // The staged filter is dense.
        let inside = |axis: usize| p.window[axis + 1..p.spatial].iter().product();
        let filter: Vec<(String, usize)> = (0..last).map(|axis| (format!("t{axis}"), inside(axis))).collect();
        body.line(format!("const index_t at_x = {};", offset(&spatial("p", &p.x, last))));
        body.line(format!("const {name} *filter = w + {};", offset(&filter)));
        body.line(format!("const index_t first = i{} * {stride}u - {}u;", last + 2, p.pre_padding[last]));
        body.line(format!("{name} held[{reach}];"));
        body.line("#pragma unroll");
        body.each(format!("int j = 0; j < {reach}; j++"));
        body.line("const index_t at = first + j;");
        let x = load("x", &p.x, &format!("at_x + at * {}u", xs[last + 2]), real)?;
        body.line(format!("held[j] = at < {}u ? {x} : 0;", p.input[last]));
        body.end(1);
        body.line("#pragma unroll");
        body.each(format!("int r = 0; r < {size}; r++"));
        let turned = if p.mirrored { format!("{} - r", size - 1) } else { "r".to_owned() };
        body.line(format!("const {name} factor = filter[{turned}];"));
        body.line("#pragma unroll");
        body.each(format!("int t = 0; t < {count}; t++"));
        body.line(format!("out[t] = m_fma(held[t * {stride} + r * {dilation}], factor, out[t]);"));
        body.end(last + 2);
        Ok(body.text)
    }
}

/// The channels and threads of a workgroup, which divide these channels and positions. It prefers whole warps, then enough
/// threads, then more channels for wider coalesced loads.
fn workgroup(channels: usize, positions: usize) -> Option<(usize, usize)> {
    let (most, enough, together) = THREADS;
    let divisors = CHANNELS.filter(|own| channels.is_multiple_of(*own));
    let choices = divisors.flat_map(|own| {
        let places = (1..=most / own).filter(|places| positions.is_multiple_of(*places));
        places.map(move |places| (own, own * places))
    });
    choices.max_by_key(|(own, threads)| (threads.is_multiple_of(together), (*threads).min(enough), *own))
}

/// The elements of x along a strip that its windows reach.
fn reach(p: &Convolution, count: usize) -> Option<usize> {
    let last = p.spatial.checked_sub(1)?;
    let steps = (count - 1).checked_mul(p.stride[last])?;
    (p.window[last] - 1).checked_mul(p.dilation[last])?.checked_add(steps)?.checked_add(1)
}
