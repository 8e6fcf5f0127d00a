//! Recomputes tiles with NaN or infinity directly: the transforms spread such values to unrelated outputs.

use crate::conv::geometry::Block;
use crate::conv::operands::Operands;
use crate::conv::winograd::gemm::MAX_COLUMNS;
use crate::conv::winograd::problem::{Winograd, WorkerMemory};
use crate::conv::winograd::transform::{MAX_OUTPUTS, MAX_SIDE, Tile, elements, with_sides};
use crate::simd::clip::Clip;
use crate::simd::vector::{Float, MAX_LANES, Vector, VectorTask};

/// Row and column, in a tile, of one output's tap.
#[inline(always)]
fn met(tile: Tile, output: usize, element: usize) -> [usize; 2] {
    let at = [output / tile.outputs, output % tile.outputs];
    [at[0] * tile.stride + element / 3, at[1] * tile.stride + element % 3]
}

fn is_finite<T: Float>(value: T) -> bool {
    value.abs() <= T::LARGEST
}

impl<T: Float> Winograd<T> {
    /// Recomputes the outputs of a panel that are NaN or infinite. Depends only on the tile's own inputs, not
    /// on other tiles computed with it.
    ///
    /// # Safety
    /// As [`Winograd::multiply`], with the first of the weights, and the panel's accumulators in this many
    /// vectors.
    pub(crate) unsafe fn correct(
        &self,
        (block, range, vectors): (&Block, (usize, usize), usize),
        (group, row, present): (usize, usize, usize),
        source: *const u8,
        (worker, sums): (WorkerMemory<T>, *const T),
        bias: impl Fn(usize) -> Option<T>,
    ) {
        let Operands { channels, weights, .. } = &self.operands;
        let (width, lanes, side) = (self.kernel.columns(), self.kernel.lanes, self.tile.outputs);
        let mut lines = [T::ZERO; MAX_OUTPUTS * MAX_COLUMNS];
        for r in 0..present {
            // SAFETY: the sums are valid, as this function requires; no GEMM tile has more
            // columns.
            unsafe {
                self.with_epilogue(sums.add(r * width), 1, vectors, (None, Clip::Nothing), lines.as_mut_ptr())
            };
            let first = group * weights.group + (row + r) * weights.row;
            // SAFETY: the weights are valid, as this function requires.
            let weight = |channel: usize, element: usize| unsafe {
                (self.weight)(source, first + channel * weights.channel + self.window[element])
            };
            // A weight that is NaN or infinite times a zero of the padding is NaN.
            let mut are_zeros = None;
            self.lines(block, range, |first_tile, run| {
                for begin in (0..run.len).step_by(lanes) {
                    let mut outputs = None;
                    for i in begin..run.len.min(begin + lanes) {
                        let at = |output: usize| {
                            output / side * side * width + side * (first_tile + i) + output % side
                        };
                        if (0..side * side).all(|output| is_finite(lines[at(output)])) {
                            continue;
                        }
                        let are_zeros = *are_zeros.get_or_insert_with(|| {
                            !self.planes.is_padded()
                                || (0..*channels).all(|c| (0..9).all(|e| is_finite(weight(c, e))))
                        });
                        let [d, h, w] = [run.at[0], run.at[1], run.at[2] + i];
                        let tile = [d, h, w * self.tile.input_stride()];
                        let meets = |element: usize| self.planes.meets(tile, element);
                        let sums = if are_zeros || (0..self.tile.side.pow(2)).all(meets) {
                            let all = outputs.get_or_insert_with(|| {
                                let first = run.column + begin * self.tile.input_stride();
                                // SAFETY: whole vectors of planes follow each line.
                                unsafe { self.exact(worker.planes.add(first), &weight) }
                            });
                            all.map(|values| values[i - begin])
                        } else {
                            // SAFETY: the planes are valid, as this function requires.
                            unsafe {
                                self.inside(
                                    worker.planes.add(run.column + i * self.tile.input_stride()),
                                    tile,
                                    &weight,
                                )
                            }
                        };
                        for (output, sum) in sums.into_iter().enumerate().take(side * side) {
                            let sum = bias(r).map_or(sum, |bias| sum + bias);
                            let to = r * side * side * width + at(output);
                            let value = self.channel_epilogue.clip.to::<T>().of(sum);
                            // SAFETY: the worker has room for the outputs of a panel.
                            unsafe { worker.outputs.add(to).write(value) };
                        }
                    }
                }
            });
        }
    }

    /// The outputs of a vector of tiles, given the planes of the first.
    ///
    /// # Safety
    /// From `planes` on, each plane is readable for a whole vector of tiles.
    unsafe fn exact(
        &self,
        planes: *const T,
        weight: impl Fn(usize, usize) -> T,
    ) -> [[T; MAX_LANES]; MAX_OUTPUTS] {
        let (rows, channels, row_stride) = (self.rows, self.operands.channels, self.planes.channel());
        // SAFETY: the planes are valid, as this function requires.
        unsafe {
            with_sides!(self.tile, SIDE, OUTPUTS => {
                let work = Exact::<_, _, SIDE, OUTPUTS> { planes, rows, channels, row_stride, weight };
                self.isa.run_vectors(work)
            })
        }
    }

    /// The outputs of a tile, given its planes and position, from inputs inside the image only.
    ///
    /// # Safety
    /// Each plane is readable at the tile, which `planes` points to.
    unsafe fn inside(
        &self,
        planes: *const T,
        at: [usize; 3],
        weight: impl Fn(usize, usize) -> T,
    ) -> [T; MAX_OUTPUTS] {
        let mut outputs = [T::ZERO; MAX_OUTPUTS];
        // For each tap, the outputs for which it is inside the input, and where.
        let mut met_by = [[(0, 0); MAX_OUTPUTS]; 9];
        let mut counts = [0; 9];
        for (element, (met_by, count)) in met_by.iter_mut().zip(&mut counts).enumerate() {
            for output in 0..self.tile.outputs.pow(2) {
                let [row, column] = met(self.tile, output, element);
                if self.planes.meets(at, row * self.tile.side + column) {
                    met_by[*count] = (output, self.rows[row] + column);
                    *count += 1;
                }
            }
        }
        for channel in 0..self.operands.channels {
            let planes = planes.wrapping_add(channel * self.planes.channel());
            for (element, (met_by, count)) in met_by.iter().zip(counts).enumerate() {
                let weight = weight(channel, element);
                for (output, offset) in &met_by[..count] {
                    // SAFETY: the planes are valid, as this function requires.
                    let value = unsafe { planes.add(*offset).read() };
                    outputs[*output] = outputs[*output] + weight * value;
                }
            }
        }
        outputs
    }
}

/// The outputs of a vector of tiles.
struct Exact<T, W, const SIDE: usize, const OUTPUTS: usize> {
    planes: *const T,
    /// Offset of each row of a tile.
    rows: [usize; MAX_SIDE],
    channels: usize,
    /// Stride of channels in the planes.
    row_stride: usize,
    /// The weight of a channel and tap.
    weight: W,
}

impl<T: Float, W: Fn(usize, usize) -> T, const SIDE: usize, const OUTPUTS: usize> VectorTask<T>
    for Exact<T, W, SIDE, OUTPUTS>
{
    type Output = [[T; MAX_LANES]; MAX_OUTPUTS];

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) -> Self::Output {
        // SAFETY: the planes and the instructions are valid, as this function requires; no vector has more
        // lanes.
        unsafe {
            let tile = Tile { side: SIDE, outputs: OUTPUTS, stride: (SIDE - 3) / (OUTPUTS - 1) };
            let mut sums = [V::zero(); MAX_OUTPUTS];
            for channel in 0..self.channels {
                let mut rows = [[V::zero(); SIDE]; SIDE];
                for (row, values) in rows.iter_mut().enumerate() {
                    *values = elements(self.planes.add(channel * self.row_stride + self.rows[row]));
                }
                for element in 0..9 {
                    let weight = V::splat((self.weight)(channel, element));
                    for (output, sum) in sums.iter_mut().enumerate().take(OUTPUTS * OUTPUTS) {
                        let [row, column] = met(tile, output, element);
                        *sum = weight.mul_add(rows[row][column], *sum);
                    }
                }
            }
            let mut outputs = [[T::ZERO; MAX_LANES]; MAX_OUTPUTS];
            for (sum, values) in sums.into_iter().zip(&mut outputs) {
                sum.store(values.as_mut_ptr());
            }
            outputs
        }
    }
}
