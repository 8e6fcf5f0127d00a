//! Views of tensors and the loops over them: strides, rows, images, scratch memory, prepacked operands.
//!
//! Nothing here knows of the operations of a graph, except for the modes of a reduction in [`combine`].

#![expect(
    clippy::indexing_slicing,
    reason = "planning checks the shapes that indices come from; checks in the loops would only cost time"
)]

pub(crate) mod combine;
pub(crate) mod converted;
pub(crate) mod image;
pub(crate) mod loop_nest;
pub(crate) mod moments;
pub(crate) mod packed;
pub(crate) mod parts;
pub(crate) mod prepacked;
pub(crate) mod recode;
pub(crate) mod row;
pub(crate) mod row_codec;
pub(crate) mod row_converter;
pub(crate) mod scratch;
pub mod store;
pub(crate) mod view;
