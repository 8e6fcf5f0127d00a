//! The scales of 8-bit tensors, and the largest values, from which callers choose new scales.

use crate::attention::shared::sequences::Sequence;
use crate::dtype::element::is_float_of_eight_bits;
use crate::kernel::Refusal;
use crate::pointwise::functions::Functions;
use crate::problem::attention::Attention;
use crate::problem::attention::options::{HeadFactor, Scale};
use crate::problem::batchnorm::Scalar;
use crate::tensor::row_converter::RowConverter;

/// A scale that is known when planning, or read at execution.
pub(crate) enum ScaleSource<T> {
    Value(T),
    Tensor(usize, RowConverter<T>),
}

impl<T: Functions> ScaleSource<T> {
    pub(crate) fn of(scale: &Scale) -> Result<Self, Refusal> {
        match scale {
            Scale::Value(value) => Ok(Self::Value(T::from_f64(f64::from(*value)))),
            Scale::Tensor(scalar) => Self::of_tensor("scale", Some(scalar)),
        }
    }

    /// The only element of a tensor, or 1 without a tensor.
    fn of_tensor(name: &str, scalar: Option<&Scalar>) -> Result<Self, Refusal> {
        let Some(scalar) = scalar else { return Ok(Self::Value(T::ONE)) };
        let run =
            RowConverter::of_number(scalar.data_type).map_err(|refusal| format!("{name}: {refusal}"))?;
        Ok(Self::Tensor(scalar.slot, run))
    }

    /// # Safety
    /// The tensors are those of the operation.
    pub(crate) unsafe fn get(&self, tensors: &[*mut u8]) -> T {
        match self {
            Self::Value(value) => *value,
            // SAFETY: the tensors are those of the operation, so they have the scales.
            Self::Tensor(slot, run) => unsafe { read(run, tensors[*slot]) },
        }
    }
}

/// One element.
///
/// # Safety
/// `from` is readable for one element of the type that `run` reads.
pub(crate) unsafe fn read<T: Functions>(run: &RowConverter<T>, from: *const u8) -> T {
    let mut read = T::ZERO;
    // SAFETY: the tensors are those of the operation, so they have the scales.
    unsafe { (run.load)(from, 1, &raw mut read, 1) };
    read
}

/// A scale per head.
struct PerHead<T> {
    slot: usize,
    run: RowConverter<T>,
    /// Query heads that share a scale, and the strides of sequences and of heads.
    sharing: usize,
    strides: [usize; 2],
}

impl<T: Functions> PerHead<T> {
    fn of(name: &str, factor: Option<&HeadFactor>, heads: usize) -> Result<Option<Self>, Refusal> {
        let Some(factor) = factor else { return Ok(None) };
        let run =
            RowConverter::of(factor.operand.data_type).map_err(|refusal| format!("{name}: {refusal}"))?;
        let (sharing, strides) = (heads / factor.heads, factor.strides);
        Ok(Some(Self { slot: factor.operand.slot, run, sharing, strides }))
    }

    /// # Safety
    /// The tensors, the sequence and the head are those of the operation.
    unsafe fn get(&self, tensors: &[*mut u8], sequence: &Sequence, head: usize) -> T {
        let at = sequence.index * self.strides[0] + head / self.sharing * self.strides[1];
        // SAFETY: the tensor has a factor for the sequence and head.
        unsafe { read(&self.run, tensors[self.slot].add(at * self.run.size)) }
    }
}

/// The scales of an attention.
pub(crate) struct Scales<T> {
    /// Of queries, keys and values.
    heads: [Option<PerHead<T>>; 3],
    descale_s: ScaleSource<T>,
    scale_s: ScaleSource<T>,
    /// The last factor of the results, unless it is 1.
    scale_o: Option<ScaleSource<T>>,
    /// Where the largest probability and the largest unscaled result are written.
    largest: [Option<(usize, RowConverter<T>)>; 2],
    /// Rounds probabilities to the dtype of the values.
    pub(crate) rounding: Option<RowConverter<T>>,
}

impl<T: Functions> Scales<T> {
    pub(crate) fn of(attention: &Attention) -> Result<Self, Refusal> {
        let (factors, heads) = (&attention.factors, attention.shape.heads);
        let values = attention.v.operand.data_type;
        let rounds = factors.scale_s.is_some() && is_float_of_eight_bits(values);
        let largest = |name, scalar: &Option<Scalar>| {
            let run = |scalar: &Scalar| Ok((scalar.slot, RowConverter::of_number(scalar.data_type)?));
            scalar.as_ref().map(run).transpose().map_err(|refusal: Refusal| format!("{name}: {refusal}"))
        };
        let scale_o = factors.scale_o.as_ref();
        Ok(Self {
            heads: [
                PerHead::of("descale_q", factors.descale_q.as_ref(), heads)?,
                PerHead::of("descale_k", factors.descale_k.as_ref(), heads)?,
                PerHead::of("descale_v", factors.descale_v.as_ref(), heads)?,
            ],
            descale_s: ScaleSource::of_tensor("descale_s", factors.descale_s.as_ref())?,
            scale_s: ScaleSource::of_tensor("scale_s", factors.scale_s.as_ref())?,
            scale_o: scale_o.map(|scalar| ScaleSource::of_tensor("scale_o", Some(scalar))).transpose()?,
            largest: [largest("amax_s", &attention.amax_s)?, largest("amax_o", &attention.amax_o)?],
            rounding: if rounds { Some(RowConverter::of(values)?) } else { None },
        })
    }

    /// Whether the largest probability and the largest result are outputs.
    pub(crate) fn asks_for_largest(&self) -> [bool; 2] {
        self.largest.map(|largest| largest.is_some())
    }

    /// The factor of a head's scores.
    ///
    /// # Safety
    /// The tensors, the sequence and the head are those of the operation.
    pub(crate) unsafe fn of_scores(&self, tensors: &[*mut u8], sequence: &Sequence, head: usize) -> T {
        let [q, k, _] = &self.heads;
        // SAFETY: the tensors are those of the operation, so they have the scales.
        unsafe { at(q, tensors, sequence, head) * at(k, tensors, sequence, head) }
    }

    /// The factor of probabilities.
    ///
    /// # Safety
    /// The tensors are those of the operation.
    pub(crate) unsafe fn of_probabilities(&self, tensors: &[*mut u8]) -> T {
        // SAFETY: the tensors are those of the operation, so they have the scales.
        unsafe { self.scale_s.get(tensors) }
    }

    /// The factor of a head's weighted sums of values.
    ///
    /// # Safety
    /// As [`Scales::of_scores`].
    pub(crate) unsafe fn of_sums(&self, tensors: &[*mut u8], sequence: &Sequence, head: usize) -> T {
        let [_, _, v] = &self.heads;
        // SAFETY: the tensors are those of the operation, so they have the scales.
        unsafe { self.descale_s.get(tensors) * at(v, tensors, sequence, head) }
    }

    /// The last factor of the results; `None` if it is 1.
    ///
    /// # Safety
    /// The tensors are those of the operation.
    pub(crate) unsafe fn of_results(&self, tensors: &[*mut u8]) -> Option<T> {
        // SAFETY: the tensors are those of the operation, so they have the scales.
        self.scale_o.as_ref().map(|factor| unsafe { factor.get(tensors) })
    }

    /// Writes the largest values that are outputs.
    ///
    /// # Safety
    /// As [`Scales::of_probabilities`].
    pub(crate) unsafe fn write_largest(&self, tensors: &[*mut u8], largest: [T; 2]) {
        for (to, largest) in self.largest.iter().zip(&largest) {
            if let Some((slot, run)) = to {
                // SAFETY: the tensors are those of the operation, so they have the scales.
                unsafe { (run.store)(largest, tensors[*slot], 1, 1) };
            }
        }
    }
}

/// The scale of a head, or 1 without one.
///
/// # Safety
/// As [`Scales::of_scores`].
unsafe fn at<T: Functions>(
    factor: &Option<PerHead<T>>,
    tensors: &[*mut u8],
    sequence: &Sequence,
    head: usize,
) -> T {
    // SAFETY: the tensors are those of the operation, so they have the scales.
    factor.as_ref().map_or(T::ONE, |factor| unsafe { factor.get(tensors, sequence, head) })
}
