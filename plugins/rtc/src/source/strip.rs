//! Depthwise convolutions with channels last: each thread makes a strip of neighbours along the last dimension.
//!
//! Neighbouring threads have neighbouring channels, so what they read of x lies side by side. An element of x serves all windows of
//! the strip that it lies in. A workgroup has few channels, whose filters it keeps in shared memory.

#![expect(clippy::indexing_slicing, reason = "axes run below the number of spatial dimensions")]

use std::fmt::Write;
use std::ops::RangeInclusive;

use hipdnn_plugin_planner::problem::convolution::Convolution;

use super::value::{Real, element};
use crate::Refusal;

/// The longest strip.
const LONGEST: usize = 8;
/// Threads that keep a device busy: strips are shorter where there are fewer.
const BUSY: usize = 1 << 15;
/// Channels of a workgroup. More take longer on an H200 (benches/results/depthwise_gpu.csv).
const CHANNELS: RangeInclusive<usize> = 8..=32;
/// The most elements of a filter.
const TAPS: usize = 128;
/// The most elements of x along the strip that a thread holds.
const REACH: usize = 40;
/// Threads of a workgroup: the most, those that are enough, and those that run together.
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
    /// The strips of a forward convolution; none where it is not depthwise, where x or y has its channels apart, or where there are
    /// too few elements.
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
        let (count, last, real_name) = (self.count, p.spatial - 1, real.name());
        let (size, stride, dilation) = (p.window[last], p.stride[last], p.dilation[last]);
        let reach = reach(p, count).unwrap_or(1);
        let tag = element(p.x.data_type)?;
        let mut text = String::new();
        let mut line = |text_of: String| {
            let _ = writeln!(text, "    {text_of}");
        };
        line(format!("x += i0 * {}u + i1;", xs[0]));
        line(format!("w += i1 % {}u * {}u;", self.channels, self.pitch()));
        line("#pragma unroll".to_owned());
        line(format!("for (int t = 0; t < {count}; t++) out[t] = 0;"));
        let (mut at_x, mut at_w) = ("0u".to_owned(), "0u".to_owned());
        for axis in 0..last {
            let (size, stride, padding) = (p.window[axis], p.stride[axis], p.pre_padding[axis]);
            line(format!("for (index_t r{axis} = 0; r{axis} < {size}u; r{axis}++) {{"));
            // What lies before x wraps around and lies behind it.
            line(format!(
                "const index_t p{axis} = i{} * {stride}u + r{axis} * {}u - {padding}u;",
                axis + 2,
                p.dilation[axis]
            ));
            line(format!("if (p{axis} >= {}u) continue;", p.input[axis]));
            let _ = write!(at_x, " + p{axis} * {}u", xs[axis + 2]);
            let turned = if p.mirrored { format!("({}u - r{axis})", size - 1) } else { format!("r{axis}") };
            at_w = format!("({at_w}) * {size}u + {turned}");
        }
        line(format!("const {tag}::type *row = x + ({at_x});"));
        line(format!("const {real_name} *filter = w + ({at_w}) * {size}u;"));
        line(format!("const index_t first = i{} * {stride}u - {}u;", last + 2, p.pre_padding[last]));
        line(format!("{real_name} held[{reach}];"));
        line("#pragma unroll".to_owned());
        line(format!("for (int j = 0; j < {reach}; j++) {{"));
        line("    const index_t at = first + j;".to_owned());
        line(format!(
            "    held[j] = at < {}u ? ({real_name}){tag}::load(row[at * {}u]) : 0;",
            p.input[last],
            xs[last + 2]
        ));
        line("}".to_owned());
        line("#pragma unroll".to_owned());
        line(format!("for (int r = 0; r < {size}; r++) {{"));
        let turned = if p.mirrored { format!("{} - r", size - 1) } else { "r".to_owned() };
        line(format!("    const {real_name} factor = filter[{turned}];"));
        line("    #pragma unroll".to_owned());
        line(format!("    for (int t = 0; t < {count}; t++)"));
        line(format!("        out[t] = m_fma(held[t * {stride} + r * {dilation}], factor, out[t]);"));
        line("}".to_owned());
        for _ in 0..last {
            line("}".to_owned());
        }
        Ok(text)
    }
}

/// The channels and threads of a workgroup that divide so many channels and positions: whole groups of threads that run together, enough of
/// them, and many channels, so that what they read lies side by side.
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
