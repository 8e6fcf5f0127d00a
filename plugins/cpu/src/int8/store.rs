//! The epilogue of a tile of sums, row by row.

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::byte_kernel::MAX_GROUPS;
use crate::gemm::byte_tile::GROUP;
use crate::int8::epilogue::{Columns, Round};
use crate::int8::requantization::{BoundPostOp, Requantization, requantized};
use crate::int8::vector16::{self, Vector16, Vector16Task};
use crate::simd::isa::Isa;

/// The most columns in a tile.
pub(crate) const WIDTH: usize = GROUP * MAX_GROUPS;

/// The kind of a tile's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The sums.
    Accumulators,
    /// The sums, saturated to bytes, signed or not.
    Bytes { is_signed: bool },
    /// Single precision.
    Floats,
    /// Bytes quantized from single precision.
    Quantized { divides: bool, round: Round },
}

/// A residual, at the first column of a tile.
#[derive(Clone, Copy)]
pub(crate) struct Added<'a> {
    pub(crate) data_type: DataType,
    /// Each row's first element.
    pub(crate) rows: &'a [*const u8],
    /// The stride of columns.
    pub(crate) column: usize,
}

/// A tile of sums, and where its results go.
pub(crate) struct Tile<'a> {
    pub(crate) sums: *const i32,
    pub(crate) stride: usize,
    /// Columns in the result.
    pub(crate) columns: usize,
    /// Each row's first result.
    pub(crate) to: &'a [*mut u8],
    /// The sum of each row of operand A; null if not needed.
    pub(crate) row_sums: *const i32,
    pub(crate) of_columns: Columns,
    /// Whether all columns share the parameters of the first group.
    pub(crate) is_one: bool,
    pub(crate) has_bias: bool,
    pub(crate) numbers: &'a Requantization,
    /// What is done with the bytes, in order, ended by `None`.
    pub(crate) post_ops: &'a [Option<BoundPostOp<'a>>],
    pub(crate) added: Option<Added<'a>>,
    pub(crate) kind: Kind,
}

/// The kinds of [`Round`].
const CUT: u8 = Round::Cut as u8;
const EVEN: u8 = Round::Even as u8;
const DOWN: u8 = Round::Down as u8;

/// Instead of a [`Round`]: sums clamped to two bounds, and bytes with later rounds.
const CLAMPED: u8 = 3;
const POST_OPS: u8 = 4;

/// A tile with its parameters in registers; in memory, the compiler would assume that stores change them.
struct Ready<'t, 'a, S: Vector16> {
    tile: &'t Tile<'a>,
    of_columns: Columns,
    sums: *const i32,
    row_sums: *const i32,
    has_bias: bool,
    has_clips: bool,
    stride: usize,
    /// Masks a column's index to that of its parameters.
    mask: usize,
    clips: [S::Floats; 2],
    factor: S::Floats,
    before: S::Floats,
    clips_before: [S::Floats; 2],
    after: S::Floats,
    clips_after: [S::Floats; 2],
}

impl<'t, 'a, S: Vector16> Ready<'t, 'a, S> {
    /// # Safety
    /// The processor has the instructions that [`Vector16::run`] compiles for.
    #[inline(always)]
    unsafe fn of(tile: &'t Tile<'a>) -> Self {
        let Tile { sums, stride, row_sums, of_columns, has_bias, numbers, .. } = *tile;
        let Requantization { clips, has_clips, factor, before, clips_before, after, clips_after, .. } =
            *numbers;
        // SAFETY: the processor has the instructions, as this function requires.
        unsafe {
            let two = |[low, high]: [f32; 2]| [S::floats(low), S::floats(high)];
            let (clips, clips_before, clips_after) = (two(clips), two(clips_before), two(clips_after));
            let [factor, before, after] = [S::floats(factor), S::floats(before), S::floats(after)];
            Self {
                tile,
                of_columns,
                sums,
                row_sums,
                has_bias,
                has_clips,
                stride,
                mask: if tile.is_one { 0 } else { usize::MAX },
                clips,
                factor,
                before,
                clips_before,
                after,
                clips_after,
            }
        }
    }
}

impl Tile<'_> {
    /// Computes the tile's results.
    ///
    /// # Safety
    /// The processor has the instruction set. Accumulators and parameters have whole groups of columns; rows
    /// of results and of the residual have the tile's columns.
    pub(crate) unsafe fn run(&self, isa: Isa) {
        // SAFETY: the processor has the instructions, and the tile its memory, as this function requires.
        unsafe { vector16::run_at(isa, self) };
    }
}

impl Vector16Task for &Tile<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Vector16>(self) {
        // SAFETY: the processor has the instructions, and the tile its memory, as this function requires.
        unsafe {
            let ready = Ready::<S>::of(self);
            match self.kind {
                Kind::Accumulators => ready.ints(),
                Kind::Floats => ready.single(),
                Kind::Bytes { is_signed: true } => ready.bytes::<CLAMPED, false>([-128, 127], self.kind),
                Kind::Bytes { is_signed: false } => ready.bytes::<CLAMPED, false>([0, 255], self.kind),
                Kind::Quantized { .. } if matches!(self.post_ops.first(), Some(Some(_))) => {
                    ready.bytes::<POST_OPS, false>([0; 2], self.kind);
                }
                Kind::Quantized { divides: false, round } => ready.rounded::<false>(round),
                Kind::Quantized { divides: true, round } => ready.rounded::<true>(round),
            }
        }
    }
}

impl<S: Vector16> Ready<'_, '_, S> {
    /// The sums of a group, with zero points and bias.
    ///
    /// # Safety
    /// As [`Tile::run`], for a row and group of the tile.
    #[inline(always)]
    unsafe fn sums(&self, row: usize, at: usize) -> S::Ints {
        let Columns { correction, w_zero, bias, .. } = self.of_columns;
        let own = at & self.mask;
        // SAFETY: sums and parameters have the group.
        unsafe {
            let mut sums =
                S::add(S::load(self.sums.add(row * self.stride + at)), S::load(correction.add(own)));
            if !self.row_sums.is_null() {
                let of_row = S::ints(self.row_sums.add(row).read());
                sums = S::less_product(sums, of_row, S::load(w_zero.add(own)));
            }
            if self.has_bias {
                sums = S::saturating_add(sums, S::load(bias.add(own)));
            }
            sums
        }
    }

    /// The sums clamped to two bounds.
    ///
    /// # Safety
    /// As [`Ready::sums`].
    #[inline(always)]
    unsafe fn clamped(&self, row: usize, at: usize, [low, high]: [i32; 2]) -> S::Ints {
        // SAFETY: sums and parameters have the group.
        unsafe { S::clamp(self.sums(row, at), S::ints(low), S::ints(high)) }
    }

    /// The values of a group in single precision, clipped.
    ///
    /// # Safety
    /// As [`Ready::sums`].
    #[inline(always)]
    unsafe fn floats(&self, row: usize, at: usize) -> S::Floats {
        let Columns { scale, second, shift, .. } = self.of_columns;
        let own = at & self.mask;
        // SAFETY: sums and parameters have the group.
        unsafe {
            let scaled = S::times(S::of_ints(self.sums(row, at)), S::load_floats(scale.add(own)));
            let scaled = S::times(scaled, S::load_floats(second.add(own)));
            let mut values = S::plus(scaled, S::load_floats(shift.add(own)));
            if let Some(added) = self.tile.added.as_ref().filter(|_| self.tile.numbers.adds) {
                values = S::plus(values, self.added(added, self.tile.numbers, row, at));
            }
            match self.has_clips {
                true => S::clip(values, self.clips[0], self.clips[1]),
                false => values,
            }
        }
    }

    /// A group of the residual's values.
    ///
    /// # Safety
    /// As [`Ready::sums`].
    #[inline(always)]
    unsafe fn added(&self, added: &Added<'_>, numbers: &Requantization, row: usize, at: usize) -> S::Floats {
        let Requantization { residual_zero, residual_scale, .. } = *numbers;
        let columns = (self.tile.columns - at).min(GROUP);
        // SAFETY: the tensor has the row's columns, and whole groups are read only where it has them.
        unsafe {
            if added.data_type == DataType::Float {
                let from = added.rows[row].cast::<f32>();
                if added.column == 1 && columns == GROUP {
                    return S::load_floats(from.add(at));
                }
                return S::load_floats(gathered(from, added.column, at..at + columns).as_ptr());
            }
            let bytes = self.added_bytes(added, row, at);
            S::times(S::minus(bytes, S::floats(residual_zero)), S::floats(residual_scale))
        }
    }

    /// A group of the residual's bytes.
    ///
    /// # Safety
    /// As [`Ready::sums`], for a residual of bytes.
    #[inline(always)]
    unsafe fn added_bytes(&self, added: &Added<'_>, row: usize, at: usize) -> S::Floats {
        let columns = (self.tile.columns - at).min(GROUP);
        let from = added.rows[row];
        // SAFETY: the tensor has the row's columns, and whole groups are read only where it has them.
        unsafe {
            let gathered = match added.column == 1 && columns == GROUP {
                true => from.add(at).cast::<[u8; GROUP]>().read(),
                false => gathered(from, added.column, at..at + columns),
            };
            S::of_ints(match added.data_type {
                DataType::Int8 => S::signed(gathered.as_ptr()),
                _ => S::unsigned(gathered.as_ptr()),
            })
        }
    }

    /// Values rounded to integers that fit in bytes, by a slope and an offset per column; `None` if the
    /// graph's operations may give another result ([`crate::int8::folded`]).
    ///
    /// # Safety
    /// As [`Ready::sums`].
    #[inline(always)]
    unsafe fn folded(
        &self,
        values: S::Floats,
        [slope, offset]: [*mut f32; 2],
        numbers: &Requantization,
        row: usize,
        at: usize,
    ) -> Option<S::Ints> {
        let own = at & self.mask;
        // SAFETY: parameters have the group, the residual has the row, and the processor has the
        // instructions.
        unsafe {
            let mut values =
                S::fused(values, S::load_floats(slope.add(own)), S::load_floats(offset.add(own)));
            if let Some(added) = self.tile.added.as_ref().filter(|_| numbers.adds) {
                values =
                    S::fused(self.added_bytes(added, row, at), S::floats(numbers.residual_slope), values);
            }
            let whole = S::nearest(values);
            // Not a closure, which would be compiled without the instructions.
            if !S::are_below(S::minus(values, whole), S::floats(numbers.within)) {
                return None;
            }
            let [low, high] = numbers.clips_after;
            let clipped = S::clip(S::plus(whole, S::floats(numbers.after)), S::floats(low), S::floats(high));
            Some(S::truncate(clipped))
        }
    }

    /// A group of sums rounded to integers that fit in bytes, the folded form if possible.
    ///
    /// # Safety
    /// As [`Ready::sums`].
    #[inline(always)]
    unsafe fn first(&self, row: usize, at: usize) -> Option<S::Ints> {
        let numbers = self.tile.numbers;
        if !S::IS_FUSED || numbers.within == 0.0 {
            return None;
        }
        // SAFETY: sums and parameters have the group.
        unsafe { self.folded(S::of_ints(self.sums(row, at)), self.of_columns.folded(), numbers, row, at) }
    }

    /// A group of values rounded to integers that fit in bytes.
    ///
    /// # Safety
    /// As [`Ready::sums`].
    #[inline(always)]
    unsafe fn quantized<const DIVIDES: bool, const ROUND: u8>(&self, row: usize, at: usize) -> S::Ints {
        // SAFETY: sums and parameters have the group, and the processor the instructions.
        unsafe {
            if ROUND == EVEN
                && let Some(bytes) = self.first(row, at)
            {
                return bytes;
            }
            let (values, numbers) = (self.floats(row, at), self.tile.numbers);
            let scaled = match DIVIDES {
                true => vector16::quotient::<S>(values, numbers.factor, numbers.inverse),
                false => S::times(values, self.factor),
            };
            let mut values = S::plus(scaled, self.before);
            if self.has_clips {
                values = S::clip(values, self.clips_before[0], self.clips_before[1]);
            }
            let rounded = match ROUND {
                EVEN => S::nearest(values),
                DOWN => S::floor(values),
                _ => values,
            };
            S::truncate(S::clip(S::plus(rounded, self.after), self.clips_after[0], self.clips_after[1]))
        }
    }

    /// A group of bytes after all tables and later rounds. Separate from [`Ready::quantized`], whose loop
    /// keeps its parameters in registers.
    ///
    /// # Safety
    /// As [`Ready::sums`].
    #[inline(always)]
    unsafe fn with_post_ops(&self, divides: bool, round: Round, row: usize, at: usize) -> S::Ints {
        // SAFETY: sums and parameters have the group, and the processor the instructions.
        unsafe {
            let mut bytes = match self.first(row, at) {
                Some(bytes) => bytes,
                None => requantized::<S>(self.floats(row, at), self.tile.numbers, divides, round),
            };
            for post_op in self.tile.post_ops.iter().map_while(Option::as_ref) {
                bytes = self.post_op(post_op, bytes, row, at);
            }
            bytes
        }
    }

    /// A group of bytes after another table or round.
    ///
    /// # Safety
    /// As [`Ready::sums`].
    #[inline(always)]
    unsafe fn post_op(&self, post_op: &BoundPostOp<'_>, bytes: S::Ints, row: usize, at: usize) -> S::Ints {
        // SAFETY: parameters have the group, a table an entry for every byte, and the processor the instructions.
        unsafe {
            let (numbers, divides, round, place) = match post_op {
                BoundPostOp::Table(entries, zero) => return S::looked_up(bytes, entries.as_ptr().add(*zero)),
                BoundPostOp::Round(numbers, divides, round, place) => (numbers, *divides, *round, *place),
            };
            let [scale, second, shift] = self.of_columns.of_round(place);
            let own = at & self.mask;
            let mut values = S::minus(S::of_ints(bytes), S::floats(numbers.zero));
            if S::IS_FUSED && numbers.within > 0.0 {
                let folded = self.of_columns.folded_of_round(place);
                if let Some(bytes) = self.folded(values, folded, numbers, row, at) {
                    return bytes;
                }
            }
            values = S::times(values, S::load_floats(scale.add(own)));
            values = S::times(values, S::load_floats(second.add(own)));
            values = S::plus(values, S::load_floats(shift.add(own)));
            if let Some(added) = self.tile.added.as_ref().filter(|_| numbers.adds) {
                values = S::plus(values, self.added(added, numbers, row, at));
            }
            requantized::<S>(values, numbers, divides, round)
        }
    }

    /// Stores scaled and rounded values.
    ///
    /// # Safety
    /// As [`Tile::run`].
    #[inline(always)]
    unsafe fn rounded<const DIVIDES: bool>(&self, round: Round) {
        // SAFETY: the instructions and the memory are those of this function's contract.
        unsafe {
            match round {
                Round::Cut => self.bytes::<CUT, DIVIDES>([0; 2], self.tile.kind),
                Round::Even => self.bytes::<EVEN, DIVIDES>([0; 2], self.tile.kind),
                Round::Down => self.bytes::<DOWN, DIVIDES>([0; 2], self.tile.kind),
            }
        }
    }

    /// Stores bytes. How they follow from sums is a constant, not a closure: one that is not inlined is compiled without
    /// the instructions.
    ///
    /// # Safety
    /// As [`Tile::run`].
    #[inline(always)]
    unsafe fn bytes<const HOW: u8, const DIVIDES: bool>(&self, bounds: [i32; 2], kind: Kind) {
        for row in 0..self.tile.to.len() {
            for at in (0..self.tile.columns).step_by(GROUP) {
                // SAFETY: the row has the columns, and the buffer a group.
                unsafe {
                    let values = match (HOW, kind) {
                        (CLAMPED, _) => self.clamped(row, at, bounds),
                        (POST_OPS, Kind::Quantized { divides, round }) => {
                            self.with_post_ops(divides, round, row, at)
                        }
                        _ => self.quantized::<DIVIDES, HOW>(row, at),
                    };
                    let to = self.tile.to[row].add(at);
                    match (self.tile.columns - at).min(GROUP) {
                        GROUP => S::bytes(values, to),
                        columns => S::first_bytes(values, to, columns),
                    }
                }
            }
        }
    }

    /// Stores integers of 32 bits.
    ///
    /// # Safety
    /// As [`Tile::run`].
    #[inline(always)]
    unsafe fn ints(&self) {
        for row in 0..self.tile.to.len() {
            for at in (0..self.tile.columns).step_by(GROUP) {
                // SAFETY: the row has the columns, and the buffer a group.
                unsafe {
                    let (values, to) = (self.sums(row, at), self.tile.to[row].cast::<i32>().wrapping_add(at));
                    let columns = self.tile.columns - at;
                    if columns >= GROUP {
                        S::store(values, to);
                        continue;
                    }
                    let mut buffer = [0; GROUP];
                    S::store(values, buffer.as_mut_ptr());
                    to.cast::<u8>()
                        .copy_from_nonoverlapping(buffer.as_ptr().cast(), columns * size_of::<i32>());
                }
            }
        }
    }

    /// Stores single precision.
    ///
    /// # Safety
    /// As [`Tile::run`].
    #[inline(always)]
    unsafe fn single(&self) {
        for row in 0..self.tile.to.len() {
            for at in (0..self.tile.columns).step_by(GROUP) {
                // SAFETY: the row has the columns, and the buffer a group.
                unsafe {
                    let (values, to) =
                        (self.floats(row, at), self.tile.to[row].cast::<f32>().wrapping_add(at));
                    let columns = self.tile.columns - at;
                    if columns >= GROUP {
                        S::store_floats(values, to);
                        continue;
                    }
                    let mut buffer = [0.0; GROUP];
                    S::store_floats(values, buffer.as_mut_ptr());
                    to.cast::<u8>()
                        .copy_from_nonoverlapping(buffer.as_ptr().cast(), columns * size_of::<f32>());
                }
            }
        }
    }
}

/// Up to a group of elements at a stride. Not inlined: its setup would be repeated for every group.
///
/// # Safety
/// `from` is readable for as many elements of this stride, at any alignment.
#[cold]
#[inline(never)]
unsafe fn gathered<T: Copy + Default>(
    from: *const T,
    stride: usize,
    columns: std::ops::Range<usize>,
) -> [T; GROUP] {
    let mut to = [T::default(); GROUP];
    for (to, column) in to.iter_mut().zip(columns) {
        // SAFETY: the element is readable, as this function requires.
        *to = unsafe { from.add(column * stride).read_unaligned() };
    }
    to
}
