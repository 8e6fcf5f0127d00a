//! What becomes of a sum of products: zero points, bias, scale, residual, RELU, and back to a byte.
//!
//! The stages have a fixed order, and each may be absent. With a scale the order is
//!
//! `v = (sum + bias) · scale + shift + residual`, clipped;
//! `y = round(v · factor + before) + after`, clipped before and after rounding.
//!
//! Each operation is rounded to single precision, as the nodes of a graph would be.

use std::ops::Range;

use hipdnn_plugin_sdk::graph::DataType;

use crate::dtype::element::Element;
use crate::int8::problem::{Group, Problem};
use crate::kernel::Refusal;
use crate::layout::MAX_RANK;

/// A number for each column, or one for all, perhaps times another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Param {
    pub(crate) slot: usize,
    pub(crate) data_type: DataType,
    /// The stride of columns; 0 where one number is for all.
    pub(crate) stride: usize,
}

impl Param {
    /// The number of a column.
    ///
    /// # Safety
    /// The tensors are those of the operation, which has the column.
    unsafe fn get(&self, tensors: &[*mut u8], column: usize) -> f64 {
        let at = column * self.stride;
        // SAFETY: the tensor has a number for the column, as this function requires.
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
        // Planning has asked for the type.
        let element = Element::<f64>::of(self.data_type).ok();
        // SAFETY: the tensor has a number for the column, as this function requires.
        element.map_or(0.0, |element| unsafe { element.load(tensors[self.slot], at) })
    }

    /// Refuses types that cannot be read.
    pub(crate) fn checked(self) -> Result<Self, Refusal> {
        Element::<f64>::of(self.data_type)?;
        Ok(self)
    }
}

/// How a value becomes whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Cut toward zero, as every write to an integer.
    Cut,
    /// To nearest, ties to even.
    Even,
    /// Down.
    Down,
}

/// Back to a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quantize {
    /// What values are multiplied with, or divided by.
    pub(crate) factor: Option<Param>,
    pub(crate) divides: bool,
    pub(crate) before: f32,
    pub(crate) clips_before: [f32; 2],
    pub(crate) round: Round,
    /// The zero point.
    pub(crate) after: Option<Param>,
    pub(crate) clips_after: [f32; 2],
}

/// A tensor that is added, perhaps of bytes with a scale and a zero point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Residual {
    pub(crate) slot: usize,
    pub(crate) data_type: DataType,
    /// By the dimensions of the result.
    pub(crate) strides: [usize; MAX_RANK],
    pub(crate) zero: Option<Param>,
    pub(crate) scale: Option<Param>,
}

/// Single precision behind the sums.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scaled {
    /// Their product is the scale.
    pub(crate) scales: Vec<Param>,
    /// Their product is added: a bias, and its scale where it has one.
    pub(crate) shift: Vec<Param>,
    pub(crate) residual: Option<Residual>,
    pub(crate) clips: [f32; 2],
    pub(crate) quantize: Option<Quantize>,
}

impl Scaled {
    /// The sums as they are.
    pub(crate) const NONE: Self =
        Self { scales: Vec::new(), shift: Vec::new(), residual: None, clips: NO_CLIPS, quantize: None };
}

/// No bounds.
pub(crate) const NO_CLIPS: [f32; 2] = [f32::NEG_INFINITY, f32::INFINITY];

/// The stages of a product.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stages {
    /// The zero points of x and of the weights.
    pub(crate) x_zero: Option<Param>,
    pub(crate) w_zero: Option<Param>,
    /// Integers that are added to the sums, which then stay in 32 bits.
    pub(crate) bias: Option<Param>,
    /// None where the sums themselves are the result.
    pub(crate) scaled: Option<Scaled>,
}

impl Stages {
    /// Whether sums of rows are needed: weights that are not zero where they stand for zero.
    pub(crate) fn needs_row_sums(&self, problem: &Problem) -> bool {
        self.w_zero.is_some() || !problem.w.is_signed
    }
}

/// The numbers of a run that are the same for all columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) clips: [f32; 2],
    /// Whether there are bounds before the last ones.
    pub(crate) has_clips: bool,
    pub(crate) residual_zero: f32,
    pub(crate) residual_scale: f32,
    pub(crate) factor: f32,
    pub(crate) before: f32,
    pub(crate) clips_before: [f32; 2],
    pub(crate) after: f32,
    pub(crate) clips_after: [f32; 2],
    /// What stands for zero in x, as the tensor has it.
    pub(crate) x_zero: i32,
}

impl Numbers {
    /// The numbers of a run.
    ///
    /// # Safety
    /// The tensors are those of the operation.
    pub(crate) unsafe fn of(stages: &Stages, output: DataType, tensors: &[*mut u8]) -> Self {
        let get = |param: &Option<Param>, absent: f64| match param {
            // SAFETY: every parameter has a first number.
            Some(param) => unsafe { param.get(tensors, 0) },
            None => absent,
        };
        let scaled = stages.scaled.as_ref();
        let residual = scaled.and_then(|scaled| scaled.residual);
        let quantize = scaled.and_then(|scaled| scaled.quantize);
        let range = match output {
            DataType::Int8 => [-128.0, 127.0],
            _ => [0.0, 255.0],
        };
        let [low, high] = quantize.map_or(NO_CLIPS, |quantize| quantize.clips_after);
        let numbers = Self {
            clips: scaled.map_or(NO_CLIPS, |scaled| scaled.clips),
            has_clips: true,
            residual_zero: residual.map_or(0.0, |residual| get(&residual.zero, 0.0)) as f32,
            residual_scale: residual.map_or(1.0, |residual| get(&residual.scale, 1.0)) as f32,
            factor: quantize.map_or(1.0, |quantize| get(&quantize.factor, 1.0)) as f32,
            before: quantize.map_or(0.0, |quantize| quantize.before),
            clips_before: quantize.map_or(NO_CLIPS, |quantize| quantize.clips_before),
            after: quantize.map_or(0.0, |quantize| get(&quantize.after, 0.0)) as f32,
            clips_after: [low.clamp(range[0], range[1]), high.clamp(range[0], range[1])],
            x_zero: get(&stages.x_zero, 0.0) as i32,
        };
        numbers.merged(quantize)
    }

    /// The same with all bounds as the last ones, where what is between them keeps the order of numbers: then the bound of a number
    /// becomes what the number at the bound would become.
    fn merged(self, quantize: Option<Quantize>) -> Self {
        let Some(quantize) = quantize else {
            return Self { has_clips: self.clips != NO_CLIPS, ..self };
        };
        let is_usual = self.factor.is_normal() && self.factor > 0.0 && self.after.is_finite();
        if !is_usual {
            return self;
        }
        let last = self.clips.map(|first| {
            let scaled = if quantize.divides { first / self.factor } else { first * self.factor };
            let [low, high] = self.clips_before;
            let value = (scaled + self.before).max(low).min(high);
            let rounded = match quantize.round {
                Round::Cut => value,
                Round::Even => value.round_ties_even(),
                Round::Down => value.floor(),
            };
            (rounded + self.after).max(self.clips_after[0]).min(self.clips_after[1])
        });
        Self { clips_after: last, has_clips: false, ..self }
    }
}

/// Calls `f` with the product of some parameters for each column, from 0 on, rounded to single precision where there are several.
///
/// # Safety
/// The tensors are those of the operation, which has the columns.
unsafe fn each(
    params: &[Param],
    tensors: &[*mut u8],
    columns: &Range<usize>,
    mut f: impl FnMut(usize, Option<f64>),
) {
    // Those that are one number for all are read once.
    let product = |is_one: bool, column: usize| {
        let of = params.iter().filter(|param| (param.stride == 0) == is_one);
        // SAFETY: the tensors have a number for each column, as this function requires.
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

/// The numbers of a run for each column of all groups.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    /// What is added to the sums for the zero points.
    pub(crate) correction: *mut i32,
    /// What the sum of a row is multiplied with and taken away.
    pub(crate) w_zero: *mut i32,
    pub(crate) bias: *mut i32,
    pub(crate) scale: *mut f32,
    pub(crate) shift: *mut f32,
}

// SAFETY: workers only read the numbers.
unsafe impl Sync for Columns {}

impl Columns {
    /// The numbers from a column on.
    pub(crate) fn from(&self, column: usize) -> Self {
        Self {
            correction: self.correction.wrapping_add(column),
            w_zero: self.w_zero.wrapping_add(column),
            bias: self.bias.wrapping_add(column),
            scale: self.scale.wrapping_add(column),
            shift: self.shift.wrapping_add(column),
        }
    }

    /// Writes the numbers of a group's columns. `sums` are those of the packed weights, and `shifted` what x has been shifted by.
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
        let scaled = stages.scaled.as_ref();
        let (scales, shift) = scaled.map_or((&[][..], &[][..]), |scaled| (&scaled.scales, &scaled.shift));
        // SAFETY: the tensors have the columns, and there is room for them.
        unsafe {
            each(stages.w_zero.as_slice(), tensors, &of, |column, zero| {
                self.w_zero.add(column).write(zero.unwrap_or(0.0) as i32 - shifted_weights);
            });
            each(stages.bias.as_slice(), tensors, &of, |column, bias| {
                self.bias.add(column).write(bias.unwrap_or(0.0) as i32);
            });
            each(scales, tensors, &of, |at, scale| self.scale.add(at).write(scale.unwrap_or(1.0) as f32));
            each(shift, tensors, &of, |at, shift| self.shift.add(at).write(shift.unwrap_or(0.0) as f32));
            for column in 0..problem.columns {
                // Σ (x - z)(w - u) = Σ x w - z Σ w - u Σ x + n z u
                let of_terms = terms.wrapping_mul(x_zero).wrapping_mul(self.w_zero.add(column).read());
                let of_sum = x_zero.wrapping_mul(sums.add(column).read());
                self.correction.add(column).write(of_terms.wrapping_sub(of_sum));
            }
        }
    }

    /// Zeros for the columns from `first` to `last`, which fill a group.
    ///
    /// # Safety
    /// There is room for them.
    pub(crate) unsafe fn clear(&self, first: usize, last: usize) {
        let count = last - first;
        // SAFETY: there is room for the columns, as this function requires.
        unsafe {
            for words in [self.correction, self.w_zero, self.bias, self.scale.cast(), self.shift.cast()] {
                words.add(first).write_bytes(0, count);
            }
        }
    }
}
