//! Rounds values with one multiplication and addition, if the result provably equals that of the graph.
//!
//! A graph turns x into `round(((x · s · s₂) + t + r) / f)`, each operation rounded. With `a = s · s₂ / f`, `b = t / f`
//! and `c = rₛ / f`, `q = x · a + b + (r · c)` differs from the value to round by less than 16 units of 2⁻²⁴
//! of `|q| + |b| + 255 · |c|`: every operation of either way is off by half a unit of its result, and none of
//! these is larger. So both round to the same integer unless q is that close to the middle of two; then the
//! value is computed like in the graph. If q exceeds 512, both ways end at the same limit of a byte.

use hipdnn_plugin_sdk::graph::DataType;

use crate::int8::epilogue::{Columns, NO_CLIPS, Round, Scaled, Stages};
use crate::int8::requantization::{BoundPostOp, Requantization};

/// Quotients of larger magnitude saturate a byte, whatever its zero point.
const BEYOND: f32 = 512.0;

/// The largest magnitude of a residual byte.
const MOST_ADDED: f32 = 255.0;

/// The relative error bound of q.
const UNIT: f32 = 16.0 / 16_777_216.0;

/// Above this distance from the middle of two integers, too few values would take the folded form.
const LARGEST_ERROR: f32 = 1.0 / 32.0;

/// Multipliers far from the limits of single precision.
const MULTIPLIERS: [f32; 2] = [1e-20, 1e20];

impl Requantization {
    /// The factor of values before rounding, if the folded form applies.
    fn multiplier(&self, scaled: &Scaled) -> Option<f32> {
        let quantize = scaled.quantize?;
        let is_nearest = quantize.round == Round::Even && self.before == 0.0;
        let is_plain = !self.has_clips && quantize.clips_before == NO_CLIPS && self.after.abs() <= MOST_ADDED;
        let is_of_bytes = scaled
            .residual
            .is_none_or(|residual| matches!(residual.data_type, DataType::Int8 | DataType::Uint8));
        let multiplier = if quantize.divides { self.inverse } else { self.factor };
        let is_usual = multiplier > MULTIPLIERS[0] && multiplier < MULTIPLIERS[1];
        (is_nearest && is_plain && is_of_bytes && is_usual).then_some(multiplier)
    }

    /// Prepares the folded form with the parameters of these columns.
    ///
    /// # Safety
    /// `scale`, `second` and `shift` have a value for each column, and `slope` and `offset` room for one.
    unsafe fn fold(
        &mut self,
        scaled: Option<&Scaled>,
        [scale, second, shift]: [*mut f32; 3],
        [slope, offset]: [*mut f32; 2],
        columns: usize,
    ) {
        let Some(multiplier) = scaled.and_then(|scaled| self.multiplier(scaled)) else { return };
        self.residual_slope = if self.adds { self.residual_scale * multiplier } else { 0.0 };
        let less = self.residual_zero * self.residual_slope;
        let mut most = 0.0_f32;
        for column in 0..columns {
            // SAFETY: the column has its parameters, as this function requires.
            unsafe {
                let of_shift = shift.add(column).read() * multiplier;
                let of_both = scale.add(column).read() * second.add(column).read();
                slope.add(column).write(of_both * multiplier);
                offset.add(column).write(of_shift - less);
                let size = if of_shift.is_nan() { f32::INFINITY } else { of_shift.abs() };
                most = most.max(size);
            }
        }
        let error = UNIT * (BEYOND + most + MOST_ADDED * self.residual_slope.abs());
        self.within = if error < LARGEST_ERROR { 0.5 - error } else { 0.0 };
    }
}

impl Stages {
    /// Prepares the folded form for every round to which it applies.
    ///
    /// # Safety
    /// The parameters of this many columns were written.
    pub(crate) unsafe fn fold(
        &self,
        (first, post_ops): (&mut Requantization, &mut [Option<BoundPostOp<'_>>]),
        of: Columns,
        columns: usize,
    ) {
        // SAFETY: the columns have the parameters of every round, as this function requires.
        unsafe {
            first.fold(self.scaled.as_ref(), [of.scale, of.second, of.shift], of.folded(), columns);
            let later = post_ops.iter_mut().filter_map(|post_op| match post_op {
                Some(BoundPostOp::Round(numbers, _, _, place)) => Some((numbers, *place)),
                _ => None,
            });
            for ((numbers, place), scaled) in later.zip(self.rounds()) {
                numbers.fold(Some(scaled), of.of_round(place), of.folded_of_round(place), columns);
            }
        }
    }
}
