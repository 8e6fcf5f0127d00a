//! The parameters of the epilogue that all columns share in a run.

use hipdnn_plugin_sdk::graph::DataType;

use crate::int8::epilogue::{MAX_POST_OPS, NO_CLIPS, Param, PostOp, Quantize, Round, Scaled, Stages};
use crate::int8::vector16::{self, Vector16};
use crate::pointwise::lookup::ENTRIES;

/// The parameters of a run that all columns share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requantization {
    pub(crate) clips: [f32; 2],
    /// Whether there are bounds before the last ones.
    pub(crate) has_clips: bool,
    pub(crate) residual_zero: f32,
    pub(crate) residual_scale: f32,
    pub(crate) factor: f32,
    /// The nearest inverse of a factor that divides; 0 if dividing by it is not accurate enough.
    pub(crate) inverse: f32,
    pub(crate) before: f32,
    pub(crate) clips_before: [f32; 2],
    pub(crate) after: f32,
    pub(crate) clips_after: [f32; 2],
    /// Whether this round adds the residual.
    pub(crate) adds: bool,
    /// The zero point of the sums.
    pub(crate) zero: f32,
    /// The factor of residual bytes in the folded form, and the most that its results may differ from an
    /// integer ([`crate::int8::folded`]); 0 if it does not apply.
    pub(crate) residual_slope: f32,
    pub(crate) within: f32,
}

/// The value for all columns, or `absent`.
///
/// # Safety
/// The tensors are those of the operation.
unsafe fn one(param: &Option<Param>, absent: f64, tensors: &[*mut u8]) -> f64 {
    match param {
        // SAFETY: plans check that a parameter has one value or one for each column, so that a first one exists.
        Some(param) => unsafe { param.get(tensors, 0) },
        None => absent,
    }
}

impl Requantization {
    /// Reads the parameters of a run.
    ///
    /// # Safety
    /// The tensors are those of the operation.
    pub(crate) unsafe fn of(
        scaled: Option<&Scaled>,
        zero: &Option<Param>,
        output: DataType,
        tensors: &[*mut u8],
    ) -> Self {
        // SAFETY: the tensors are those of the operation, as this function requires.
        let get = |param: &Option<Param>, absent: f64| unsafe { one(param, absent, tensors) };
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
            inverse: 0.0,
            before: quantize.map_or(0.0, |quantize| quantize.before),
            clips_before: quantize.map_or(NO_CLIPS, |quantize| quantize.clips_before),
            after: quantize.map_or(0.0, |quantize| get(&quantize.after, 0.0)) as f32,
            clips_after: [low.clamp(range[0], range[1]), high.clamp(range[0], range[1])],
            adds: residual.is_some(),
            zero: get(zero, 0.0) as f32,
            residual_slope: 0.0,
            within: 0.0,
        };
        let size = numbers.factor.abs();
        let inverse = if size > FACTORS[0] && size < FACTORS[1] { 1.0 / numbers.factor } else { 0.0 };
        Self { inverse, ..numbers }.merged(quantize)
    }

    /// Merges all bounds into the last ones, if the operations in between are monotonic: a bound then becomes
    /// what a value at the bound would become.
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

/// Factors for which [`Vector16::quotient`](crate::int8::vector16::quotient) divides: far from the limits of
/// single precision.
const FACTORS: [f32; 2] = [1e-20, 1e20];

/// What is done with bytes, with the parameters of a run.
#[derive(Clone, Copy)]
pub(crate) enum BoundPostOp<'a> {
    /// The table, and the index of value 0.
    Table(&'a [i32; ENTRIES], usize),
    /// The parameters, whether it divides, how it rounds, and its index among the rounds.
    Round(Requantization, bool, Round, usize),
}

/// Values rounded to integers that fit in bytes.
///
/// # Safety
/// The processor has the instructions that [`Vector16::run`] compiles for.
#[inline(always)]
pub(crate) unsafe fn requantized<S: Vector16>(
    mut values: S::Floats,
    numbers: &Requantization,
    divides: bool,
    round: Round,
) -> S::Ints {
    // SAFETY: the processor has the instructions, as this function requires.
    unsafe {
        let clip = |values, [low, high]: [f32; 2]| S::clip(values, S::floats(low), S::floats(high));
        if numbers.has_clips {
            values = clip(values, numbers.clips);
        }
        let scaled = match divides {
            true => vector16::quotient::<S>(values, numbers.factor, numbers.inverse),
            false => S::times(values, S::floats(numbers.factor)),
        };
        values = S::plus(scaled, S::floats(numbers.before));
        if numbers.has_clips {
            values = clip(values, numbers.clips_before);
        }
        let rounded = match round {
            Round::Even => S::nearest(values),
            Round::Down => S::floor(values),
            Round::Cut => values,
        };
        S::truncate(clip(S::plus(rounded, S::floats(numbers.after)), numbers.clips_after))
    }
}

impl Stages {
    /// Reads the parameters of a run: of the first round, and of later operations.
    ///
    /// # Safety
    /// The tensors are those of the operation.
    pub(crate) unsafe fn numbers<'a>(
        &'a self,
        output: DataType,
        tensors: &[*mut u8],
    ) -> (Requantization, [Option<BoundPostOp<'a>>; MAX_POST_OPS]) {
        let mut post_ops = [None; MAX_POST_OPS];
        let mut rounds = 0;
        // SAFETY: the tensors are those of the operation, as this function requires.
        unsafe {
            for (bound, post_op) in post_ops.iter_mut().zip(&self.post_ops) {
                *bound = Some(match post_op {
                    PostOp::Table(entries, from) => {
                        BoundPostOp::Table(entries, if *from == DataType::Int8 { 128 } else { 0 })
                    }
                    PostOp::Round { zero, scaled, output } => {
                        let quantize = scaled.quantize;
                        let (divides, round) = quantize
                            .map_or((false, Round::Cut), |quantize| (quantize.divides, quantize.round));
                        rounds += 1;
                        let numbers = Requantization::of(Some(scaled), zero, *output, tensors);
                        BoundPostOp::Round(numbers, divides, round, rounds - 1)
                    }
                });
            }
            (Requantization::of(self.scaled.as_ref(), &None, self.inner.unwrap_or(output), tensors), post_ops)
        }
    }

    /// The zero point of a column's weights.
    ///
    /// # Safety
    /// The tensors are those of the operation, which has the column.
    pub(crate) unsafe fn w_zero(&self, tensors: &[*mut u8], column: usize) -> i32 {
        // SAFETY: the tensor has a value for the column, as this function requires.
        self.w_zero.as_ref().map_or(0, |param| unsafe { param.get(tensors, column) } as i32)
    }

    /// The zero point of x, as stored.
    ///
    /// # Safety
    /// The tensors are those of the operation.
    pub(crate) unsafe fn x_zero(&self, tensors: &[*mut u8]) -> i32 {
        // SAFETY: the tensors are those of the operation, as this function requires.
        unsafe { one(&self.x_zero, 0.0, tensors) as i32 }
    }
}
