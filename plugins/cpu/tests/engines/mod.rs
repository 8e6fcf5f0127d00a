//! Tests of whole engines: the reference against independent results, the fast engine against the reference.

pub(crate) mod common;
mod fast_against_reference;
mod gradients;
mod hostile_attention;
mod hostile_graphs;
mod in_place;
mod integers;
mod knobs;
mod large_integers;
mod large_numbers;
mod loaded;
mod oracle_attention;
mod quantized;
mod quantized_chains;
pub mod reference_attention;
mod reference_batchnorm;
mod reference_block_scale;
mod reference_convolution;
mod reference_matmul;
mod reference_mixture;
mod reference_normalization;
mod reference_pointwise;
mod reference_reduction;
mod reference_resample;
mod tails;
mod whole_graphs;
mod without_workspace;
