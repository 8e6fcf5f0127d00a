//! Writes a channels-last output from registers: a row of channels for each output of a tile.
//!
//! Sums begin with the bias. Tiles whose outputs have no common stride and panels that are not full go through a buffer.

use std::ops::Range;

use crate::conv::direct::problem::Direct;
use crate::conv::direct::store::MAX_WIDTH;
use crate::conv::direct::tile::MAX_PIXELS;
use crate::conv::direct::tiles::{Accumulators, At};
use crate::conv::epilogue::ChannelEpilogue;
use crate::conv::geometry::{Block, Strides};
use crate::conv::operands::Operands;
use crate::gemm::accumulator::Accumulator;
use crate::gemm::prefetch::TilePrefetch;
use crate::gemm::tile::{NextTiles, RegisterEpilogue, TileFunction};

/// Elements of the largest tile, or two.
const MAX_TILE: usize = 2 * MAX_PIXELS * MAX_WIDTH;

/// A panel's part of the tensors.
pub(super) struct Rows<'a, T> {
    /// The epilogue without its residual.
    epilogue: RegisterEpilogue<'a, T>,
    /// The panel's first channel in image 0 of the output, and of the residual.
    output: (*mut T, Strides),
    residual: Option<(*const T, Strides)>,
    /// Whether all outputs of the block have a common stride.
    is_run: bool,
    /// Channels of the panel.
    present: usize,
    /// A value per channel; zeros without a bias.
    bias: [T; MAX_WIDTH],
    /// Whether sums begin with the bias. If products with the padding may be NaN, it is added when these are repaired.
    begins: bool,
}

/// Whether the outputs of a block have a common stride in a tensor.
fn is_run(strides: &Strides, block: &Block, whole: [usize; 3]) -> bool {
    let Block { images, size, .. } = block;
    let [depth, row, column] = strides.spatial;
    let is_whole = |axis: usize| size[axis] == whole[axis];
    (size[1] == 1 || (is_whole(2) && row == whole[2] * column))
        && (size[0] == 1 || (is_whole(2) && is_whole(1) && depth == whole[1] * whole[2] * column))
        && (*images == 1 || (*size == whole && strides.batch == whole.iter().product::<usize>() * column))
}

impl<'a, T: Accumulator> Rows<'a, T> {
    /// The rows of `present` channels from `first` on.
    ///
    /// # Safety
    /// The tensors are those of the operation, and have the block and the channels.
    pub(super) unsafe fn of(
        direct: &'a Direct<T>,
        form: &'a ChannelEpilogue,
        tensors: &[*mut u8],
        block: &Block,
        (first, present): (usize, usize),
        begins: bool,
    ) -> Self {
        let Operands { output, windows, .. } = &direct.operands;
        let mut bias = [T::ZERO; MAX_WIDTH];
        if let Some((slot, _)) = form.bias {
            // SAFETY: the bias has a value for each channel.
            unsafe {
                let from = tensors[slot].cast::<T>().add(first);
                bias.iter_mut()
                    .take(present)
                    .enumerate()
                    .for_each(|(at, bias)| *bias = from.add(at).read_unaligned());
            }
        }
        let residual = form
            .residual
            .map(|(slot, strides)| (tensors[slot].cast::<T>().wrapping_add(first).cast_const(), strides));
        let function = form.activation.as_ref().map(|activation| {
            // SAFETY: the tensors are those of the operation.
            (activation as &dyn TileFunction, unsafe { activation.numbers(tensors) })
        });
        let is_run = |strides: &Strides| is_run(strides, block, windows.output);
        Self {
            epilogue: RegisterEpilogue {
                function,
                residual_last: form.residual_last,
                clip: T::bounds(form.clip),
                ..RegisterEpilogue::NONE
            },
            is_run: is_run(&output.strides) && residual.is_none_or(|(_, strides)| is_run(&strides)),
            output: (tensors[output.slot].cast::<T>().wrapping_add(first), output.strides),
            residual,
            present,
            bias,
            begins,
        }
    }

    /// The epilogue and the rows of the output from a tile of `size` outputs on.
    #[inline(always)]
    fn begin_at<'r>(&'r self, at: &At, size: usize, to: &mut Accumulators<'r, T>) {
        let (image, first) = at.first;
        to.epilogue = self.epilogue;
        if let Some((residual, strides)) = self.residual {
            to.epilogue.residual = residual.wrapping_add(strides.offset(image, first));
            to.epilogue.residual_stride = strides.spatial[2];
            to.next.residual = size * strides.spatial[2];
        }
        let (output, strides) = self.output;
        to.to = (output.wrapping_add(strides.offset(image, first)), strides.spatial[2]);
        to.next.to = size * strides.spatial[2];
    }

    /// What sums begin with, for every output.
    pub(super) fn first(&self) -> *const T {
        if self.begins { self.bias.as_ptr() } else { std::ptr::null() }
    }
}

/// The image and the place in it of an output of a block.
fn place(block: &Block, pixel: usize) -> (usize, [usize; 3]) {
    let [depth, height, width] = block.size;
    let (line, w) = (pixel / width, pixel % width);
    let (plane, h) = (line / height, line % height);
    let [z, y, x] = block.origin;
    (block.image + plane / depth, [z + plane % depth, y + h, x + w])
}

impl<T: Accumulator> Direct<T> {
    /// Adds the last words of a tile, or of two, from the output `pixel` of the block on, and writes the results, and those of the
    /// tiles that follow with constant strides. Returns the number of tiles.
    ///
    /// # Safety
    /// The panel's weights and the columns have the words, `sums` is the first of the block's, and the rows are those of the panel.
    #[inline(always)]
    pub(super) unsafe fn write_rows(
        &self,
        rows: &Rows<'_, T>,
        (block, pixel): (&Block, usize),
        (at, behind): (&At, Option<&At>),
        words: Range<usize>,
        (weights, columns, sums): (*const T, *const T, *mut T),
        lines: Option<&mut TilePrefetch>,
    ) -> usize {
        let kernel = &self.scheme.kernel;
        let count = at.count + behind.map_or(0, |behind| behind.count);
        let size = if behind.is_some() { 2 * kernel.pixels } else { kernel.pixels };
        let follows = |behind: &At| {
            behind.is_line && at.first.0 == behind.first.0 && at.first.1[..2] == behind.first.1[..2]
        };
        let is_line = at.is_line && behind.is_none_or(follows);
        let mut to = Accumulators::kept(
            sums.wrapping_add(pixel * kernel.width),
            kernel.width,
            rows.first(),
            words.start > 0,
        );
        let tiles = size / kernel.pixels;
        let follow = if lines.is_some() { 0 } else { at.follow[usize::from(!rows.is_run)] };
        let next = NextTiles {
            count: ((follow + 1) / tiles).saturating_sub(1),
            a: tiles * at.step,
            from: if words.start > 0 { size * kernel.width } else { 0 },
            ..NextTiles::NONE
        };
        let sums_of_tile = to.to.0;
        let is_whole =
            rows.present == kernel.width && count == size && (rows.is_run || is_line) && rows.begins;
        if is_whole {
            to.next = next;
            rows.begin_at(at, size, &mut to);
        }
        // SAFETY: this function requires the words, the sums and the rows; a tile with a common stride has all of its outputs.
        unsafe {
            self.add((at, behind), words, weights, columns, to, lines);
            if is_whole {
                return tiles * (1 + next.count);
            }
            if !rows.begins {
                self.repair(rows, (block, pixel..pixel + count), weights, columns, sums);
            }
            self.copy_rows(rows, (block, pixel), (at, behind), count, sums_of_tile);
        }
        tiles
    }

    /// Repairs NaN of the padding and adds the bias.
    ///
    /// # Safety
    /// As [`Self::write_rows`].
    #[cold]
    unsafe fn repair(
        &self,
        rows: &Rows<'_, T>,
        (block, pixels): (&Block, Range<usize>),
        weights: *const T,
        columns: *const T,
        sums: *mut T,
    ) {
        let width = self.scheme.kernel.width;
        // SAFETY: the block has sums for the outputs.
        unsafe {
            if let Some(correct) = self.scheme.correct {
                correct(self, (block, pixels.clone()), weights, columns, sums);
            }
            for pixel in pixels {
                for (channel, bias) in rows.bias.iter().enumerate().take(width) {
                    let sum = sums.add(pixel * width + channel);
                    sum.write(sum.read().plus(*bias));
                }
            }
        }
    }

    /// Applies the epilogue to complete sums and writes those of the panel's channels.
    ///
    /// # Safety
    /// As [`Self::write_rows`]; `sums` are the tile's.
    #[inline(never)]
    unsafe fn copy_rows(
        &self,
        rows: &Rows<'_, T>,
        (block, pixel): (&Block, usize),
        (at, behind): (&At, Option<&At>),
        count: usize,
        sums: *mut T,
    ) {
        let width = self.scheme.kernel.width;
        let mut epilogue = rows.epilogue;
        let mut others = [T::ZERO; MAX_TILE];
        // SAFETY: the tensors have the outputs and the channels, the sums the tile.
        unsafe {
            if let Some((residual, strides)) = rows.residual {
                for (at, other) in others.chunks_exact_mut(width).take(count).enumerate() {
                    let (image, place) = place(block, pixel + at);
                    let from = residual.wrapping_add(strides.offset(image, place));
                    other.as_mut_ptr().copy_from(from, rows.present);
                }
                (epilogue.residual, epilogue.residual_stride) = (others.as_ptr(), width);
            }
            if !epilogue.is_none() {
                let sums =
                    Accumulators { epilogue, ..Accumulators::kept(sums, width, std::ptr::null(), true) };
                self.add((at, behind), 0..0, std::ptr::null(), std::ptr::null(), sums, None);
            }
            for at in 0..count {
                let (image, place) = place(block, pixel + at);
                let to = rows.output.0.wrapping_add(rows.output.1.offset(image, place));
                to.copy_from_nonoverlapping(sums.add(at * width), rows.present);
            }
        }
    }
}
