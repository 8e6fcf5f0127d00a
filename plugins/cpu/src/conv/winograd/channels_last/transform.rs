//! The transforms of tiles with vectors of channels.

#![expect(clippy::needless_range_loop, reason = "iterators over registers are calls, see `simd::array`")]

use std::ops::Range;

use crate::conv::geometry::Strides;
use crate::conv::winograd::channels_last::problem::{ChannelsLast, MAX_WIDTH, Place};
use crate::conv::winograd::transform::{MAX_OUTPUTS, MAX_SIDE, input, output};
use crate::gemm::tile::TileFunction;
use crate::simd::array;
use crate::simd::row;
use crate::simd::vector::{Float, Lanewise, MAX_LANES, Vector, VectorTask};

/// Bᵀ d B of some tiles, for all channels of a group.
pub(super) struct Inputs<'a, T: 'static, const SIDE: usize> {
    pub(super) winograd: &'a ChannelsLast<T>,
    /// The group's first channel in the input, and a zero for each channel.
    pub(super) from: *const T,
    pub(super) zeros: *const T,
    pub(super) tiles: Range<usize>,
    /// A row of channels for each transformed element and tile.
    pub(super) to: *mut T,
}

impl<T: Float, const SIDE: usize> Inputs<'_, T, SIDE> {
    /// Transforms a vector of channels of a tile, given its pixels.
    ///
    /// # Safety
    /// Pixels and results have the channels from `first` on: a whole vector, or these lanes. The processor has the vector's
    /// instructions.
    #[inline(always)]
    unsafe fn tile<V: Vector<Scalar = T>>(
        &self,
        pixels: &[[*const T; MAX_SIDE]; MAX_SIDE],
        first: usize,
        lanes: Option<V::Lanes>,
        to: *mut T,
    ) {
        let stride = self.winograd.position_stride();
        // SAFETY: this function requires the instructions.
        let mut rows = [[unsafe { V::zero() }; SIDE]; SIDE];
        for column in 0..SIDE {
            let elements: [V; SIDE] = array::from_fn(|row| {
                // SAFETY: this function requires the pixels.
                unsafe { row::read::<V>(pixels[row][column].add(first), lanes) }
            });
            let transformed = input(elements);
            for row in 0..SIDE {
                rows[row][column] = transformed[row];
            }
        }
        for row in 0..SIDE {
            let transformed = input(rows[row]);
            for column in 0..SIDE {
                // SAFETY: this function requires the results.
                unsafe { transformed[column].store(to.add((SIDE * row + column) * stride + first)) };
            }
        }
    }
}

impl<T: Float, const SIDE: usize> VectorTask<T> for Inputs<'_, T, SIDE> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let channels = self.winograd.operands.channels;
        let whole = channels / V::LANES * V::LANES;
        let mut place = self.winograd.place(self.tiles.start);
        for tile in 0..self.tiles.len() {
            // SAFETY: the input has the group, and the results a row of whole vectors for each tile.
            unsafe {
                let pixels = self.winograd.pixels(&place, self.from, self.zeros);
                let to = self.to.add(tile * self.winograd.row());
                for first in (0..whole).step_by(V::LANES) {
                    self.tile::<V>(&pixels, first, None, to);
                }
                if whole < channels {
                    self.tile::<V>(&pixels, whole, Some(V::lanes(0, channels - whole)), to);
                }
            }
            self.winograd.step(&mut place);
        }
    }
}

/// Aᵀ m A of some tiles, for the channels of a panel, and the epilogue.
pub(super) struct Outputs<'a, T: 'static, const SIDE: usize, const OUTPUTS: usize> {
    pub(super) winograd: &'a ChannelsLast<T>,
    pub(super) tensors: &'a [*mut u8],
    pub(super) group: usize,
    /// The panel's first channel in the group, and how many there are.
    pub(super) first: usize,
    pub(super) present: usize,
    pub(super) tiles: Range<usize>,
    /// The panel's sums: for each transformed element and tile a row of channels.
    pub(super) sums: *const T,
}

/// What the channels of a panel share.
struct Shared<'a, T> {
    output: (*mut T, Strides),
    residual: Option<(*const T, Strides)>,
    /// A bias for each channel.
    bias: *const T,
    function: Option<(&'a dyn TileFunction, [f64; 2])>,
}

impl<T: Float, const SIDE: usize, const OUTPUTS: usize> Outputs<'_, T, SIDE, OUTPUTS> {
    /// The sums of a vector of channels, transformed back; computed again if there are NaN or infinite ones.
    ///
    /// # Safety
    /// The sums are complete, and the processor has the vector's instructions.
    #[inline(always)]
    unsafe fn sums<V: Vector<Scalar = T>>(
        &self,
        tile: usize,
        place: &Place,
        vector: usize,
    ) -> [V; MAX_OUTPUTS] {
        let (width, stride) = (self.winograd.kernel.width, self.winograd.sums_stride());
        let from = self.sums.wrapping_add(tile * width + vector);
        // SAFETY: this function requires the instructions.
        let zero = unsafe { V::zero() };
        let mut lines = [[zero; SIDE]; OUTPUTS];
        for column in 0..SIDE {
            // SAFETY: this function requires the sums.
            let elements: [V; SIDE] =
                array::from_fn(|row| unsafe { V::load(from.add((SIDE * row + column) * stride)) });
            let transformed = output::<V, SIDE, OUTPUTS>(elements);
            for line in 0..OUTPUTS {
                lines[line][column] = transformed[line];
            }
        }
        let (mut values, mut zeros) = ([zero; MAX_OUTPUTS], zero);
        for line in 0..OUTPUTS {
            let of_line = output::<V, SIDE, OUTPUTS>(lines[line]);
            for column in 0..OUTPUTS {
                values[OUTPUTS * line + column] = of_line[column];
                // Zero times infinity or NaN is NaN.
                zeros = of_line[column].mul_add(zero, zeros);
            }
        }
        if zeros.sum() != T::ZERO {
            let channels = self.first + vector..self.first + self.present.min(vector + V::LANES);
            let mut exact = [[T::ZERO; MAX_LANES]; MAX_OUTPUTS];
            // SAFETY: the tensors have the place and the channels, and each row has room for a vector.
            unsafe {
                (0..OUTPUTS * OUTPUTS).for_each(|at| values[at].store(exact[at].as_mut_ptr()));
                self.winograd.correct(self.tensors, self.group, place, channels, &mut exact);
                (0..OUTPUTS * OUTPUTS).for_each(|at| values[at] = V::load(exact[at].as_ptr()));
            }
        }
        values
    }

    /// Applies the epilogue to a vector of channels of a tile, and writes it.
    ///
    /// # Safety
    /// The tensors have the channels from `vector` on: a whole vector, or these lanes. The processor has the vector's
    /// instructions.
    #[inline(always)]
    unsafe fn write<V: Vector<Scalar = T>>(
        &self,
        shared: &Shared<'_, T>,
        mut values: [V; MAX_OUTPUTS],
        place: &Place,
        (vector, lanes): (usize, Option<V::Lanes>),
    ) {
        let ChannelsLast { epilogue, operands, .. } = self.winograd;
        let size = operands.windows.output;
        let [depth, row, column] = place.at;
        let (row, column) = (OUTPUTS * row, OUTPUTS * column);
        let (rows, columns) = (OUTPUTS.min(size[1] - row), OUTPUTS.min(size[2] - column));
        let at = |strides: &Strides, line: usize, of_line: usize| {
            strides.offset(place.image, [depth, row + line, column + of_line]) + vector
        };
        // SAFETY: there is a bias for each of a panel's channels.
        let bias = unsafe { V::load(shared.bias.add(vector)) };
        for at in 0..OUTPUTS * OUTPUTS {
            values[at] = values[at].lanewise(Lanewise::Add, bias);
        }
        let add_residual = |values: &mut [V; MAX_OUTPUTS]| {
            let Some((from, strides)) = &shared.residual else { return };
            for line in 0..rows {
                for of_line in 0..columns {
                    let value = &mut values[OUTPUTS * line + of_line];
                    // SAFETY: this function requires the channels of the residual.
                    let other = unsafe { row::read::<V>(from.add(at(strides, line, of_line)), lanes) };
                    *value = value.lanewise(Lanewise::Add, other);
                }
            }
        };
        if !epilogue.residual_last {
            add_residual(&mut values);
        }
        if let Some((function, numbers)) = shared.function {
            // SAFETY: this function requires the instructions, and there are as many values.
            unsafe { function.apply(numbers, values.as_mut_ptr().cast(), OUTPUTS * OUTPUTS * V::LANES) };
        }
        if epilogue.residual_last {
            add_residual(&mut values);
        }
        epilogue.clip.to::<T>().vectors(&mut values);
        let (to, strides) = &shared.output;
        for line in 0..rows {
            for of_line in 0..columns {
                let value = values[OUTPUTS * line + of_line];
                // SAFETY: this function requires the channels of the output.
                unsafe { row::write(value, to.add(at(strides, line, of_line)), lanes) };
            }
        }
    }

    /// What the panel's channels share; `bias` has a zero for each.
    ///
    /// # Safety
    /// The tensors have the panel's channels.
    unsafe fn shared<'s>(&'s self, bias: &'s mut [T; MAX_WIDTH]) -> Shared<'s, T> {
        let ChannelsLast { epilogue, operands, .. } = self.winograd;
        let channel = self.group * operands.rows + self.first;
        if let Some((slot, stride)) = epilogue.bias {
            let from = self.tensors[slot].cast_const().cast::<T>();
            for (at, bias) in bias.iter_mut().enumerate().take(self.present) {
                // SAFETY: this function requires the bias of each channel.
                *bias = unsafe { from.add((channel + at) * stride).read_unaligned() };
            }
        }
        let of_panel = |slot: usize| self.tensors[slot].cast::<T>().wrapping_add(channel);
        let function = epilogue.activation.as_ref().map(|activation| {
            // SAFETY: the tensors are those of the operation.
            (activation as &dyn TileFunction, unsafe { activation.numbers(self.tensors) })
        });
        Shared {
            output: (of_panel(operands.output.slot), operands.output.strides),
            residual: epilogue.residual.map(|(slot, strides)| (of_panel(slot).cast_const(), strides)),
            bias: bias.as_ptr(),
            function,
        }
    }
}

impl<T: Float, const SIDE: usize, const OUTPUTS: usize> VectorTask<T> for Outputs<'_, T, SIDE, OUTPUTS> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let mut bias = [T::ZERO; MAX_WIDTH];
        // SAFETY: the tensors have the panel's channels.
        let shared = unsafe { self.shared(&mut bias) };
        let whole = self.present / V::LANES * V::LANES;
        let mut place = self.winograd.place(self.tiles.start);
        for tile in 0..self.tiles.len() {
            for vector in (0..self.present).step_by(V::LANES) {
                // SAFETY: this function requires the instructions; the sums are complete, and the tensors have the channels.
                unsafe {
                    let lanes = (vector >= whole).then(|| V::lanes(0, self.present - whole));
                    let values = self.sums::<V>(tile, &place, vector);
                    match lanes {
                        None => self.write::<V>(&shared, values, &place, (vector, None)),
                        lanes => self.write::<V>(&shared, values, &place, (vector, lanes)),
                    }
                }
            }
            self.winograd.step(&mut place);
        }
    }
}
