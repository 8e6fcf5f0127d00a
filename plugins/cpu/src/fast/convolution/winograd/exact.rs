//! Tiles whose numbers are not finite, computed again by the sums that define them: such a number is in outputs that do not meet it.

use super::super::super::join::MOST_LANES;
use super::super::super::level::VectorWork;
use super::super::super::real::FastReal;
use super::super::super::vector::Vector;
use super::super::geometry::Block;
use super::super::operands::Operands;
use super::transform::{SIDES, elements, outputs_of};
use super::{Lane, Winograd};

/// Row and column, in a tile, of an element of the window of one of the four outputs.
fn met(side: usize, output: usize, element: usize) -> [usize; 2] {
    let step = side - 3;
    [output / 2 * step + element / 3, output % 2 * step + element % 3]
}

fn is_finite<T: FastReal>(number: T) -> bool {
    number.abs() <= T::LARGEST
}

impl<T: FastReal> Winograd<T> {
    /// Computes what is not finite in a panel's outputs again. It depends on the numbers of a tile alone, not on those
    /// that are computed with it.
    ///
    /// # Safety
    /// As [`Winograd::multiply`], with the first of the weights, and the panel's sums.
    pub(super) unsafe fn correct(
        &self,
        block: &Block,
        range: (usize, usize),
        (group, row, present): (usize, usize, usize),
        source: *const u8,
        (lane, sums): (Lane<T>, *const T),
        bias: impl Fn(usize) -> Option<T>,
    ) {
        let Operands { channels, weights, .. } = &self.operands;
        let (height, width, lanes) = (self.kernel.rows, self.kernel.columns(), self.kernel.lanes);
        for r in 0..present {
            let first = group * weights.group + (row + r) * weights.row;
            // SAFETY: the caller promises the weights.
            let weight = |channel: usize, element: usize| unsafe {
                (self.weight)(source, first + channel * weights.channel + self.window[element])
            };
            // Zeros stand for the padding, and weights that are not finite would not leave them zero.
            let mut are_zeros = None;
            self.lines(block, range, |place, run| {
                for begin in (0..run.len).step_by(lanes) {
                    let mut outputs = None;
                    for i in begin..run.len.min(begin + lanes) {
                        let from = r * width + place + i;
                        // SAFETY: the caller promises the sums.
                        let number = |place: usize| unsafe { sums.add(place * height * width + from).read() };
                        if outputs_of(self.side, number).into_iter().all(is_finite) {
                            continue;
                        }
                        let are_zeros = *are_zeros.get_or_insert_with(|| {
                            !self.planes.is_padded()
                                || (0..*channels).all(|c| (0..9).all(|e| is_finite(weight(c, e))))
                        });
                        let sums = if are_zeros {
                            let all = outputs.get_or_insert_with(|| {
                                let first = run.column + begin * self.apart();
                                // SAFETY: there are whole vectors of planes behind each line.
                                unsafe { self.exact(lane.planes.add(first), &weight) }
                            });
                            all.map(|numbers| numbers[i - begin])
                        } else {
                            let [d, h, w] = [run.at[0], run.at[1], run.at[2] + i];
                            let at = [d, h * self.apart(), w * self.apart()];
                            // SAFETY: the caller promises the planes.
                            unsafe {
                                self.inside(lane.planes.add(run.column + i * self.apart()), at, &weight)
                            }
                        };
                        for (output, sum) in sums.into_iter().enumerate() {
                            let sum = bias(r).map_or(sum, |bias| sum + bias);
                            let bounded = if sum >= T::LARGEST { T::LARGEST } else { sum };
                            let positive = if sum <= T::ZERO { T::ZERO } else { bounded };
                            let to = (2 * r + output / 2) * 2 * width + 2 * (place + i) + output % 2;
                            let number = if self.ending.positive { positive } else { sum };
                            // SAFETY: the lane has room for the outputs of a panel.
                            unsafe { lane.outputs.add(to).write(number) };
                        }
                    }
                }
            });
        }
    }

    /// The outputs of a vector of tiles, given the planes of the first.
    ///
    /// # Safety
    /// There are whole vectors of planes.
    unsafe fn exact(&self, planes: *const T, weight: impl Fn(usize, usize) -> T) -> [[T; MOST_LANES]; 4] {
        let (row, channels, pitch) = (self.planes.pitch()[1], self.operands.channels, self.planes.channel());
        // SAFETY: the caller promises the planes.
        unsafe {
            if self.side == SIDES[0] {
                let work = Exact::<_, _, { SIDES[0] }> { planes, row, channels, pitch, weight };
                self.level.run_vectors(work)
            } else {
                let work = Exact::<_, _, { SIDES[1] }> { planes, row, channels, pitch, weight };
                self.level.run_vectors(work)
            }
        }
    }

    /// The outputs of a tile, of elements inside of the input alone, given its planes and its place in them.
    ///
    /// # Safety
    /// The planes have the tile.
    unsafe fn inside(&self, planes: *const T, at: [usize; 3], weight: impl Fn(usize, usize) -> T) -> [T; 4] {
        [0, 1, 2, 3].map(|output| {
            let mut sum = T::ZERO;
            for element in 0..9 {
                let [row, column] = met(self.side, output, element);
                if !self.planes.meets(at, row * self.side + column) {
                    continue;
                }
                for channel in 0..self.operands.channels {
                    let place = channel * self.planes.channel() + row * self.planes.pitch()[1] + column;
                    // SAFETY: the caller promises the planes.
                    sum = sum + weight(channel, element) * unsafe { planes.add(place).read() };
                }
            }
            sum
        })
    }
}

/// The four outputs of a vector of tiles.
struct Exact<T, W, const SIDE: usize> {
    planes: *const T,
    /// Distance of the rows of a tile.
    row: usize,
    channels: usize,
    /// Distance of channels in the planes.
    pitch: usize,
    /// The weight of a channel and an element of the window.
    weight: W,
}

impl<T: FastReal, W: Fn(usize, usize) -> T, const SIDE: usize> VectorWork<T> for Exact<T, W, SIDE> {
    type Output = [[T; MOST_LANES]; 4];

    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(self) -> Self::Output {
        // SAFETY: the caller promises the planes and the instructions; no vector has more lanes.
        unsafe {
            let mut sums = [V::zero(); 4];
            for channel in 0..self.channels {
                let mut rows = [[V::zero(); SIDE]; SIDE];
                for (row, numbers) in rows.iter_mut().enumerate() {
                    *numbers = elements(self.planes.add(channel * self.pitch + row * self.row));
                }
                for element in 0..9 {
                    let weight = V::splat((self.weight)(channel, element));
                    for (output, sum) in sums.iter_mut().enumerate() {
                        let [row, column] = met(SIDE, output, element);
                        *sum = weight.mul_add(rows[row][column], *sum);
                    }
                }
            }
            let mut outputs = [[T::ZERO; MOST_LANES]; 4];
            for (sum, numbers) in sums.into_iter().zip(&mut outputs) {
                sum.store(numbers.as_mut_ptr());
            }
            outputs
        }
    }
}
