//! The epilogue of an int8 product: zero points, bias, scale, residual, RELU, and quantization back to bytes.
//!
//! The stages have a fixed order, and each is optional. With a scale the order is
//!
//! `v = (sum + bias) · scale · second + shift + residual`, clipped;
//! `y = round(v · factor + before) + after`, clipped before and after rounding.
//!
//! The bytes y may be looked up in a table, or enter another such round as its sums, minus a zero point.
//!
//! Each operation is rounded to single precision, like the nodes of a graph.

use std::ops::Range;

use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::element::Element;
use crate::gemm::byte_tile::GROUP;
use crate::int8::problem::{Group, Problem};
use crate::kernel::Refusal;
use crate::layout::MAX_RANK;
use crate::pointwise::lookup::ENTRIES;
use crate::simd::array;

/// A parameter: one value for all columns or one per column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Param {
    pub(crate) slot: usize,
    pub(crate) data_type: DataType,
    /// The stride of columns; 0 if one value is shared by all.
    pub(crate) stride: usize,
    /// The value, if the graph contains it.
    pub(crate) value: Option<f64>,
}

impl Param {
    /// The value for a column.
    ///
    /// # Safety
    /// The tensors are those of the operation, which has the column.
    pub(crate) unsafe fn get(&self, tensors: &[*mut u8], column: usize) -> f64 {
        if let Some(value) = self.value {
            return value;
        }
        let at = column * self.stride;
        // SAFETY: the tensor has a value for the column, as this function requires.
        unsafe {
            match self.data_type {
                DataType::Float => {
                    return f64::from(tensors[self.slot].cast::<f32>().add(at).read_unaligned());
                }
                DataType::Int32 => {
                    return f64::from(tensors[self.slot].cast::<i32>().add(at).read_unaligned());
                }
                _ => {}
            }
        }
        // Planning checked the type.
        let element = Element::<f64>::of(self.data_type).ok();
        // SAFETY: the tensor has a value for the column, as this function requires.
        element.map_or(0.0, |element| unsafe { element.load(tensors[self.slot], at) })
    }

    /// Refuses types that cannot be read.
    pub(crate) fn checked(self) -> Result<Self, Refusal> {
        Element::<f64>::of(self.data_type)?;
        Ok(self)
    }
}

/// How a value is rounded to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Toward zero, as in every store to an integer.
    Cut,
    /// To nearest, ties to even.
    Even,
    /// Down.
    Down,
}

/// Quantization back to bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quantize {
    /// The factor that values are multiplied or divided by.
    pub(crate) factor: Option<Param>,
    pub(crate) divides: bool,
    pub(crate) before: f32,
    pub(crate) clips_before: [f32; 2],
    pub(crate) round: Round,
    /// The zero point.
    pub(crate) after: Option<Param>,
    pub(crate) clips_after: [f32; 2],
}

/// A residual, either single precision or bytes with a scale and a zero point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Residual {
    pub(crate) slot: usize,
    pub(crate) data_type: DataType,
    /// Along the dimensions of the result.
    pub(crate) strides: [usize; MAX_RANK],
    pub(crate) zero: Option<Param>,
    pub(crate) scale: Option<Param>,
}

/// The single-precision stages after the sums.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scaled {
    /// Multiplied together, they are the scale: those of the operands, or one.
    pub(crate) scales: Vec<Param>,
    /// Another scale, of a node behind.
    pub(crate) second: Option<Param>,
    /// Multiplied together, they are added: a bias, and its scale if it has one.
    pub(crate) shift: Vec<Param>,
    pub(crate) residual: Option<Residual>,
    pub(crate) clips: [f32; 2],
    pub(crate) quantize: Option<Quantize>,
}

impl Scaled {
    /// No stages: the sums themselves.
    pub(crate) const NONE: Self = Self {
        scales: Vec::new(),
        second: None,
        shift: Vec::new(),
        residual: None,
        clips: NO_CLIPS,
        quantize: None,
    };
}

/// What is done with bytes before they are stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PostOp {
    /// Maps each byte by a table indexed by its value.
    Table(Box<[i32; ENTRIES]>, DataType),
    /// Minus a zero point, the bytes are sums again, which become bytes of another type.
    Round { zero: Option<Param>, scaled: Box<Scaled>, output: DataType },
}

/// The most such operations.
pub(crate) const MAX_POST_OPS: usize = 6;

/// No bounds.
pub(crate) const NO_CLIPS: [f32; 2] = [f32::NEG_INFINITY, f32::INFINITY];

/// The stages of a product.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stages {
    /// The zero points of x and of the weights.
    pub(crate) x_zero: Option<Param>,
    pub(crate) w_zero: Option<Param>,
    /// Integers added to the sums, which stay 32-bit.
    pub(crate) bias: Option<Param>,
    /// `None` if the sums themselves are the result.
    pub(crate) scaled: Option<Scaled>,
    /// The type of the bytes that later operations start from.
    pub(crate) inner: Option<DataType>,
    pub(crate) post_ops: Vec<PostOp>,
}

impl Stages {
    /// Whether sums of rows are needed: if the weights have a zero point, or are shifted.
    pub(crate) fn needs_row_sums(&self, problem: &Problem) -> bool {
        self.w_zero.is_some() || !problem.w.is_signed
    }

    /// The rounds after the first.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = &Scaled> {
        self.post_ops.iter().filter_map(|post_op| match post_op {
            PostOp::Round { scaled, .. } => Some(scaled.as_ref()),
            PostOp::Table(..) => None,
        })
    }

    /// The residual, which one of the rounds adds.
    pub(crate) fn residual(&self) -> Option<Residual> {
        self.scaled.iter().chain(self.rounds()).find_map(|scaled| scaled.residual)
    }
}

/// Calls `f` with the product of some parameters for each column from 0 on, rounded to single precision.
///
/// # Safety
/// The tensors are those of the operation, which has the columns.
unsafe fn each(
    params: &[Param],
    tensors: &[*mut u8],
    columns: &Range<usize>,
    mut f: impl FnMut(usize, Option<f64>),
) {
    // Parameters shared by all columns are read once.
    let product = |is_one: bool, column: usize| {
        let of = params.iter().filter(|param| (param.stride == 0) == is_one);
        // SAFETY: the tensors have a value for each column, as this function requires.
        of.map(|param| unsafe { param.get(tensors, column) }).reduce(|a, b| f64::from(a as f32 * b as f32))
    };
    let of_all = product(true, 0);
    let has_others = params.iter().any(|param| param.stride != 0);
    for column in 0..columns.len() {
        let own = if has_others { product(false, columns.start + column) } else { None };
        let value = match (own, of_all) {
            (Some(own), Some(of_all)) => Some(f64::from(own as f32 * of_all as f32)),
            (own, of_all) => own.or(of_all),
        };
        f(column, value);
    }
}

/// The parameters of a run for each column of all groups.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    /// Added to the sums to account for the zero points.
    pub(crate) correction: *mut i32,
    /// Multiplied with the sum of a row and subtracted.
    pub(crate) w_zero: *mut i32,
    pub(crate) bias: *mut i32,
    pub(crate) scale: *mut f32,
    pub(crate) second: *mut f32,
    pub(crate) shift: *mut f32,
    /// Slopes and offsets of the first round ([`crate::int8::folded`]); then both scales, shifts, slopes and
    /// offsets of later rounds. `between` is the stride of kinds in words.
    pub(crate) rounds: *mut f32,
    pub(crate) between: usize,
}

// SAFETY: workers only read the parameters.
unsafe impl Sync for Columns {}

impl Columns {
    /// Parameters in an area; `between` is the stride of kinds in words.
    pub(crate) fn of_area(area: *mut i32, between: usize) -> Self {
        let at = |index: usize| area.wrapping_add(index * between);
        Self {
            correction: at(0),
            w_zero: at(1),
            bias: at(2),
            scale: at(3).cast(),
            second: at(4).cast(),
            shift: at(5).cast(),
            rounds: at(6).cast(),
            between,
        }
    }

    /// The kinds of parameters with this many later rounds.
    pub(crate) const fn kinds(rounds: usize) -> usize {
        8 + 5 * rounds
    }

    /// The parameters of the first column, repeated for a group.
    ///
    /// # Safety
    /// The parameters of the first column were written to the area that this points to.
    pub(crate) unsafe fn spread(&self, rounds: usize, to: &mut [[i32; GROUP]]) {
        for (kind, to) in to.iter_mut().enumerate().take(Self::kinds(rounds)) {
            // SAFETY: the area has a value of each kind, as this function requires.
            *to = [unsafe { self.correction.add(kind * self.between).read() }; GROUP];
        }
    }

    /// The parameters from a column on.
    pub(crate) fn from(&self, column: usize) -> Self {
        Self {
            correction: self.correction.wrapping_add(column),
            w_zero: self.w_zero.wrapping_add(column),
            bias: self.bias.wrapping_add(column),
            scale: self.scale.wrapping_add(column),
            second: self.second.wrapping_add(column),
            shift: self.shift.wrapping_add(column),
            rounds: self.rounds.wrapping_add(column),
            between: self.between,
        }
    }

    #[inline(always)]
    fn of_kind<const N: usize>(&self, first: usize) -> [*mut f32; N] {
        array::from_fn(|at| self.rounds.wrapping_add((first + at) * self.between))
    }

    /// Slopes and offsets of the first round.
    #[inline(always)]
    pub(crate) fn folded(&self) -> [*mut f32; 2] {
        self.of_kind(0)
    }

    /// Both scales and shifts of a later round.
    #[inline(always)]
    pub(crate) fn of_round(&self, round: usize) -> [*mut f32; 3] {
        self.of_kind(2 + 5 * round)
    }

    /// Slopes and offsets of a later round.
    #[inline(always)]
    pub(crate) fn folded_of_round(&self, round: usize) -> [*mut f32; 2] {
        self.of_kind(5 + 5 * round)
    }

    /// Writes the parameters of a group's columns. `sums` are those of the packed weights, and `shifted` is
    /// the shift of x.
    ///
    /// # Safety
    /// The tensors are those of the operation; there is room for the columns, and a sum for each.
    pub(crate) unsafe fn write(
        &self,
        (stages, problem): (&Stages, &Problem),
        tensors: &[*mut u8],
        group: Group,
        sums: *const i32,
        x_zero: i32,
    ) {
        let terms = problem.terms() as i32;
        let shifted_weights = if problem.w.is_signed { 0 } else { 128 };
        let of = group.columns..group.columns + problem.columns;
        // SAFETY: the tensors have the columns, and there is room for them.
        unsafe {
            self.write_numbers(stages, tensors, of.clone());
            each(stages.w_zero.as_slice(), tensors, &of, |column, zero| {
                self.w_zero.add(column).write(zero.unwrap_or(0.0) as i32 - shifted_weights);
            });
            for column in 0..problem.columns {
                // Σ (x - z)(w - u) = Σ x w - z Σ w - u Σ x + n z u
                let of_terms = terms.wrapping_mul(x_zero).wrapping_mul(self.w_zero.add(column).read());
                let of_sum = x_zero.wrapping_mul(sums.add(column).read());
                self.correction.add(column).write(of_terms.wrapping_sub(of_sum));
            }
        }
    }

    /// Writes the parameters that do not depend on the zero points.
    ///
    /// # Safety
    /// The tensors are those of the operation, and there is room for the columns.
    pub(crate) unsafe fn write_numbers(&self, stages: &Stages, tensors: &[*mut u8], of: Range<usize>) {
        let none = Scaled::NONE;
        // SAFETY: the tensors have the columns, and there is room for them.
        unsafe {
            self.correction.write_bytes(0, of.len());
            self.w_zero.write_bytes(0, of.len());
            each(stages.bias.as_slice(), tensors, &of, |column, bias| {
                self.bias.add(column).write(bias.unwrap_or(0.0) as i32);
            });
            let first = (stages.scaled.as_ref().unwrap_or(&none), [self.scale, self.second, self.shift]);
            let later = stages.rounds().enumerate().map(|(round, scaled)| (scaled, self.of_round(round)));
            for (scaled, [scale, second, shift]) in std::iter::once(first).chain(later) {
                // Adding 0 would change the sign of -0.
                for (params, to, absent) in [
                    (&scaled.scales[..], scale, 1.0),
                    (scaled.second.as_slice(), second, 1.0),
                    (&scaled.shift[..], shift, -0.0),
                ] {
                    each(params, tensors, &of, |at, value| to.add(at).write(value.unwrap_or(absent) as f32));
                }
            }
        }
    }

    /// Zeros the columns from `first` to `last`, which complete a group.
    ///
    /// # Safety
    /// The area that this points to has room for parameters of each kind up to column `last`.
    pub(crate) unsafe fn clear(&self, rounds: usize, first: usize, last: usize) {
        for kind in 0..Self::kinds(rounds) {
            // SAFETY: there is room for the columns, as this function requires.
            unsafe { self.correction.add(kind * self.between + first).write_bytes(0, last - first) };
        }
    }
}
