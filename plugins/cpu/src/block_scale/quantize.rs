//! Quantization: the largest magnitude of each block, its scale, and the elements divided by it.

use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::rounding::to_odd;

use crate::block_scale::types::{ScaleType, check_finite, is_whole, largest_of, scale_type};
use crate::kernel::{Facts, Kernel, Refusal};
use crate::problem::Operand;
use crate::problem::block_scale as problem;
use crate::simd::isa::{Isa, IsaTask};
use crate::tensor::row_codec::RowCodec;
use crate::tensor::row_converter::all_finite;
use crate::tensor::scratch::Tensors;
use crate::tensor::view::{Memory, Pointers};
use crate::threading::partition::{Threads, Workers};

/// Elements that are converted at once, and the elements per unit of work.
const TOGETHER: usize = 128;
const PART: usize = 4096;

/// Estimated nanoseconds of an element.
const TIME: f64 = 3.0;

/// A dimension: its size and the strides of x, y and the scales.
#[derive(Clone, Copy)]
struct Axis {
    dim: usize,
    strides: [usize; 3],
}

type Slot = (usize, RowCodec<f64>);

/// A planned quantization. Elements are processed along `line`, the blocks' dimension or another one; in the
/// latter case, as many blocks as a run of the line has elements are computed together.
pub(crate) struct Quantize {
    x: Slot,
    /// x again, for the error that names an element that is NaN or infinite.
    operand: Operand,
    memory: Memory<f64>,
    /// Written from single precision, whose rounding is exact.
    y: (usize, RowCodec<f32>),
    scale: Slot,
    scale_type: ScaleType,
    largest: f64,
    is_whole: bool,
    /// The dimension along which blocks lie, and the elements per block.
    axis: Axis,
    block: usize,
    /// The dimension along which neighbouring blocks are computed together; of size 1 if a block's elements
    /// are contiguous.
    line: Axis,
    others: Vec<Axis>,
    /// Blocks, or runs of blocks, per part.
    together: usize,
    workers: Workers,
    isa: Isa,
}

impl Quantize {
    pub(crate) fn plan(p: &problem::Quantize, isa: Isa, threads: Threads) -> Result<Self, Refusal> {
        let of = |axis: usize| Axis {
            dim: p.x.layout.dims()[axis],
            strides: [p.x.layout.strides()[axis], p.y_strides[axis], p.scale_strides[axis]],
        };
        let mut others: Vec<Axis> = (0..p.x.layout.rank())
            .filter(|axis| *axis != p.axis)
            .map(of)
            .filter(|axis| axis.dim > 1)
            .collect();
        others.sort_by_key(|axis| std::cmp::Reverse(axis.strides[1]));
        let axis = of(p.axis);
        let line = others.pop_if(|other| other.strides[1] < axis.strides[1] || axis.dim == 1);
        let is_across = line.is_some();
        let line = line.unwrap_or(Axis { dim: 1, strides: [0; 3] });
        let mut planned = Self {
            x: (p.x.slot, RowCodec::of(p.x.data_type)?),
            operand: p.x,
            memory: Memory::of("x", &p.x)?,
            y: (p.y.slot, RowCodec::of(p.y.data_type)?),
            scale: (p.scale.slot, RowCodec::of(p.scale.data_type)?),
            scale_type: scale_type(p.scale.data_type)?,
            largest: largest_of(p.y.data_type)?,
            is_whole: is_whole(p.y.data_type),
            axis,
            block: p.block,
            line,
            others,
            together: (PART / (p.block * line.dim.min(TOGETHER))).max(1),
            workers: threads.workers(0.0, 1),
            isa,
        };
        // Workers must not write the same byte: four elements are whole bytes in every dtype.
        let (along, across) = if is_across { (line, Some(axis)) } else { (axis, None) };
        let mut rows = planned.others.iter().copied().chain(across);
        let are_disjoint = along.strides[1] == 1
            && (is_across || p.block.is_multiple_of(4) || p.block == axis.dim)
            && rows.all(|axis| axis.dim == 1 || axis.strides[1].is_multiple_of(4));
        if are_disjoint || planned.y.1.bits >= 8 {
            let time = TIME * p.x.layout.elements() as f64;
            planned.workers = threads.workers(time, planned.runs().div_ceil(planned.together));
        }
        Ok(planned)
    }

    fn blocks(&self) -> usize {
        self.axis.dim.div_ceil(self.block)
    }

    /// The number of runs of blocks.
    fn runs(&self) -> usize {
        let others: usize = self.others.iter().map(|axis| axis.dim).product();
        others * self.line.dim.div_ceil(TOGETHER) * self.blocks()
    }

    /// Calls `work` with each run of blocks, on the workers.
    fn for_each_run(&self, work: impl Fn(Run) + Sync) {
        let runs = self.runs();
        self.workers.for_each_part(runs.div_ceil(self.together), |_, part| {
            let first = part * self.together;
            (first..runs.min(first + self.together)).for_each(|run| work(self.run_of(run)));
        });
    }

    fn run_of(&self, run: usize) -> Run {
        let (block, rest) = (run % self.blocks(), run / self.blocks());
        let lines = self.line.dim.div_ceil(TOGETHER);
        let (column, mut rest) = (rest % lines * TOGETHER, rest / lines);
        let element = block * self.block;
        let mut offsets = self.line.strides.map(|stride| column * stride);
        let within = [element, element, block];
        offsets
            .iter_mut()
            .zip(within)
            .zip(self.axis.strides)
            .for_each(|((at, index), stride)| *at += index * stride);
        for axis in self.others.iter().rev() {
            let index = rest % axis.dim;
            rest /= axis.dim;
            offsets.iter_mut().zip(axis.strides).for_each(|(at, stride)| *at += index * stride);
        }
        let len = self.block.min(self.axis.dim - element);
        Run { offsets, len, width: TOGETHER.min(self.line.dim - column) }
    }

    /// Calls `work` with the offsets in x and y of each line of a run of blocks, and its length; if lines are
    /// along blocks, with each block's elements in turn.
    #[inline(always)]
    fn for_each_line(&self, run: &Run, mut work: impl FnMut([usize; 2], usize)) {
        let [x, y, _] = run.offsets;
        let [x_stride, y_stride, _] = self.axis.strides;
        let (step, len) = if self.is_along() { (TOGETHER, None) } else { (1, Some(run.width)) };
        for first in (0..run.len).step_by(step) {
            work(
                [x + first * x_stride, y + first * y_stride],
                len.unwrap_or((run.len - first).min(TOGETHER)),
            );
        }
    }

    fn is_along(&self) -> bool {
        self.line.dim == 1
    }

    /// The strides in x and y along a line.
    fn line_strides(&self) -> [usize; 2] {
        let [x, y, _] = if self.is_along() { self.axis.strides } else { self.line.strides };
        [x, y]
    }

    /// Reads elements along a line.
    ///
    /// # Safety
    /// The tensors are those of the kernel, which have the elements; there is room for them.
    unsafe fn load(&self, tensors: &[*mut u8], at: usize, to: &mut [f64]) {
        let (slot, codec) = self.x;
        // SAFETY: this function requires the elements.
        unsafe { codec.load(tensors[slot], at, self.line_strides()[0], to.as_mut_ptr(), to.len()) };
    }
}

/// A block, or several that are computed together.
struct Run {
    /// The offsets of the first elements in x and y, and of the first scale.
    offsets: [usize; 3],
    /// Elements of a block, and blocks.
    len: usize,
    width: usize,
}

struct QuantizeRun<'a>(&'a Quantize, &'a [*mut u8], Run);

impl IsaTask for QuantizeRun<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(q, tensors, run) = self;
        let (mut values, mut scales) = ([0.0; TOGETHER], [0.0_f64; TOGETHER]);
        q.for_each_line(&run, |[x, _], len| {
            // SAFETY: made for the kernel's tensors, which have the line.
            unsafe { q.load(tensors, x, &mut values[..len]) };
            scales.iter_mut().zip(&values[..len]).for_each(|(most, value)| *most = most.max(value.abs()));
        });
        if q.is_along() {
            scales[0] = scales.iter().copied().fold(0.0, f64::max);
        }
        let blocks = &mut scales[..run.width];
        blocks.iter_mut().for_each(|scale| *scale = q.scale_type.round_up(*scale / q.largest));
        let (slot, codec) = q.scale;
        // SAFETY: made for the kernel's tensors, which have these scales; only this run writes them.
        unsafe { codec.store(blocks.as_ptr(), tensors[slot], run.offsets[2], q.line.strides[2], run.width) };
        if q.is_along() {
            scales = [scales[0]; TOGETHER];
        }
        let (slot, codec) = q.y;
        let mut rounded = [0.0_f32; TOGETHER];
        q.for_each_line(&run, |[x, y], len| {
            let values = &mut values[..len];
            // SAFETY: the line lies inside the kernel's x, from which `values` are read.
            unsafe { q.load(tensors, x, values) };
            for (value, scale) in values.iter_mut().zip(&scales) {
                let quotient = if *scale == 0.0 { 0.0 } else { *value / *scale };
                *value = quotient.clamp(-q.largest, q.largest);
            }
            if q.is_whole {
                // Stores of integers truncate.
                values.iter_mut().for_each(|value| *value = value.round_ties_even());
            }
            rounded.iter_mut().zip(&*values).for_each(|(to, value)| *to = to_odd(*value));
            // SAFETY: the line lies inside the kernel's y, and only this run writes its elements.
            unsafe { codec.store(rounded.as_ptr(), tensors[slot], y, q.line_strides()[1], len) };
        });
    }
}

impl Kernel for Quantize {
    fn facts(&self) -> Facts {
        Facts::new("block-quantize", self.workers.threads())
    }

    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        let (all, is_finite) = (Tensors(tensors), AtomicBool::new(true));
        self.for_each_run(|run| {
            let mut values = [0.0; TOGETHER];
            self.for_each_line(&run, |[x, _], len| {
                // SAFETY: this function requires the tensors of the kernel.
                let finite = unsafe {
                    self.load(all.all(), x, &mut values[..len]);
                    all_finite(values.as_ptr(), len)
                };
                if !finite {
                    is_finite.store(false, Ordering::Relaxed);
                }
            });
        });
        if is_finite.into_inner() {
            return Ok(());
        }
        // SAFETY: this function requires the tensors of the kernel.
        check_finite(&self.operand, &self.memory, unsafe { Pointers::new(tensors) })
    }

    unsafe fn run(&self, tensors: &[*mut u8], _: *mut u8) {
        let all = Tensors(tensors);
        // SAFETY: the processor supports the instruction set.
        self.for_each_run(|run| unsafe { self.isa.run(QuantizeRun(self, all.all(), run)) });
    }
}
