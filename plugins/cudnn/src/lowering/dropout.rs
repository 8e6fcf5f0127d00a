//! Dropout of attention, with a given mask or one that cuDNN draws.
//!
//! For the same seed and offset cuDNN draws the same mask in both directions. Other engines draw different
//! masks.

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::attention::options::Dropout;

use super::shape::packed;
use super::{Builder, Descriptor, TensorPlace};
use crate::names::{
    ATTR_OPERATION_RNG_DESC, ATTR_OPERATION_RNG_OFFSET_DESC, ATTR_OPERATION_RNG_SEED,
    ATTR_OPERATION_RNG_YDESC, ATTR_RNG_BERNOULLI_DIST_PROBABILITY, ATTR_RNG_DISTRIBUTION,
    BACKEND_OPERATION_RNG_DESCRIPTOR, BACKEND_RNG_DESCRIPTOR, DATA_FLOAT, RNG_DISTRIBUTION_BERNOULLI,
    TYPE_RNG_DISTRIBUTION,
};

/// The uids of an operation's tensors for dropout.
#[derive(Clone, Copy, Default)]
pub(super) struct Uids {
    pub(super) mask: Option<i64>,
    pub(super) scale: Option<i64>,
    pub(super) seed: Option<i64>,
    pub(super) offset: Option<i64>,
    pub(super) dump: Option<i64>,
}

/// A mask drawn by cuDNN: 1 for what is kept, else 0.
#[derive(Clone, Copy)]
pub(super) struct Drawn {
    pub(super) mask: TensorPlace,
    /// 1 / `kept`
    pub(super) scale: TensorPlace,
    /// The probability of being kept.
    pub(super) kept: f32,
}

/// The factors of the probabilities, which have these dims, in order.
pub(super) fn factors(
    builder: &mut Builder<'_>,
    dims: &[i64; 4],
    dropout: Option<&Dropout>,
    uids: Uids,
) -> Result<Option<[TensorPlace; 2]>, Refusal> {
    if let (Some(Dropout::Mask { .. }), Some(mask), Some(scale)) = (dropout, uids.mask, uids.scale) {
        let mask = builder.tensor(mask)?;
        return Ok(Some([builder.tensor_as(scale, packed(&[1; 4]))?, mask]));
    }
    Ok(drawn(builder, dims, dropout, uids)?.map(|drawn| [drawn.mask, drawn.scale]))
}

/// The mask that cuDNN draws, if it is to draw one.
pub(super) fn drawn(
    builder: &mut Builder<'_>,
    dims: &[i64; 4],
    dropout: Option<&Dropout>,
    uids: Uids,
) -> Result<Option<Drawn>, Refusal> {
    let (Some(Dropout::Random { probability, .. }), Some(seed), Some(offset)) =
        (dropout, uids.seed, uids.offset)
    else {
        return Ok(None);
    };
    if *probability >= 1.0 {
        return Err(format!("dropout_probability: is {probability}, expected less than 1"));
    }
    if *probability <= 0.0 && uids.dump.is_none() {
        return Ok(None);
    }
    let [seed, offset] =
        [builder.tensor_as(seed, packed(&[1; 4]))?, builder.tensor_as(offset, packed(&[1; 4]))?];
    let mask = match uids.dump {
        Some(dump) => builder.tensor(dump)?,
        None => builder.between(DATA_FLOAT, dims),
    };
    let generator = Descriptor::new(BACKEND_RNG_DESCRIPTOR)
        .number(ATTR_RNG_DISTRIBUTION, TYPE_RNG_DISTRIBUTION, RNG_DISTRIBUTION_BERNOULLI)
        .double(ATTR_RNG_BERNOULLI_DIST_PROBABILITY, 1.0 - f64::from(*probability));
    builder.operation(
        Descriptor::new(BACKEND_OPERATION_RNG_DESCRIPTOR)
            .tensor(ATTR_OPERATION_RNG_YDESC, mask)
            .descriptor(ATTR_OPERATION_RNG_DESC, generator)
            .tensor(ATTR_OPERATION_RNG_SEED, seed)
            .tensor(ATTR_OPERATION_RNG_OFFSET_DESC, offset),
    );
    let kept = 1.0 - probability;
    Ok(Some(Drawn { mask, scale: builder.float(1.0 / kept), kept }))
}
