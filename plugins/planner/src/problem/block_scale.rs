//! Block scaling: conversion to a narrow type with a scale per block, and back.

#![expect(clippy::indexing_slicing, reason = "every index is below a rank that is checked first")]

use hipdnn_plugin_sdk::graph::operation::{BlockScaleDequantize, BlockScaleQuantize};

use super::{Operand, Operands};
use crate::Refusal;
use crate::layout::MAX_RANK;

/// Divides elements by the scale of their block and rounds them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantize {
    /// The input.
    pub x: Operand,
    /// The output.
    pub y: Operand,
    /// The scale of each block.
    pub scale: Operand,
    /// The dimension of x along which blocks extend.
    pub axis: usize,
    /// Elements per block, at most the size of the dimension; the last block may have fewer.
    pub block: usize,
    /// Strides of y along the dimensions of x.
    pub y_strides: [usize; MAX_RANK],
    /// Strides of the scale along the dimensions of x; along the axis, per block.
    pub scale_strides: [usize; MAX_RANK],
}

/// Multiplies elements of a narrow type by the scale of their block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dequantize {
    /// The input.
    pub x: Operand,
    /// The scale of each block.
    pub scale: Operand,
    /// The output, with x's dims.
    pub y: Operand,
    /// Elements of x along each dimension that share a scale; only x's dimensions have valid entries.
    pub block: [usize; MAX_RANK],
    /// Whether the scale's exponent is negated.
    pub is_negative_scale: bool,
}

/// A block scale operation whose shapes agree.
#[derive(Clone, Debug, PartialEq)]
pub enum BlockScale {
    /// To a narrow type.
    Quantize(Box<Quantize>),
    /// Back from it.
    Dequantize(Box<Dequantize>),
}

impl BlockScale {
    /// Conversion to a narrow type. A refusal names the inconsistent argument, as for the way back.
    pub(crate) fn quantize(operands: &Operands<'_>, q: &BlockScaleQuantize) -> Result<Self, Refusal> {
        Ok(Self::Quantize(Box::new(quantize(operands, q.block_size, q.axis, q.transpose)?)))
    }

    /// Conversion back.
    pub(crate) fn dequantize(operands: &Operands<'_>, d: &BlockScaleDequantize) -> Result<Self, Refusal> {
        Ok(Self::Dequantize(Box::new(dequantize(operands, &d.block_size, d.is_negative_scale)?)))
    }
}

fn size(name: &str, value: i32) -> Result<usize, Refusal> {
    usize::try_from(value)
        .ok()
        .filter(|size| *size > 0)
        .ok_or_else(|| format!("{name}: is {value}, expected more than 0"))
}

fn quantize(
    operands: &Operands<'_>,
    block: i32,
    axis: Option<i64>,
    transpose: bool,
) -> Result<Quantize, Refusal> {
    let [x, y, scale] = [operands.required("x")?, operands.required("y")?, operands.required("scale")?];
    let xd = x.layout.dims();
    let rank = xd.len();
    let least = if transpose { 2 } else { 1 };
    if rank < least {
        return Err(format!("x: dims are {xd:?}, expected {least} or more"));
    }
    let axis = match axis {
        None => rank - 1,
        Some(axis) => usize::try_from(axis).ok().filter(|axis| *axis < rank).ok_or_else(|| {
            format!("axis: is {axis}, expected 0 to {} as x has {rank} dimensions", rank - 1)
        })?,
    };
    let block = size("block_size", block)?.min(xd[axis]);
    // The position of each dimension of x in the outputs.
    let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
    if transpose {
        order.swap(rank - 2, rank - 1);
    }
    let strides = |name: &str, operand: &Operand, along_axis: usize| {
        let mut wanted = xd.to_vec();
        wanted[axis] = along_axis;
        if transpose {
            wanted.swap(rank - 2, rank - 1);
        }
        if operand.layout.dims() != wanted {
            let exchanged = if transpose { ", with the last two dimensions exchanged" } else { "" };
            return Err(format!(
                "{name}: dims are {:?}, expected {wanted:?}, as x has {xd:?} and blocks of {block} along dimension {axis}{exchanged}",
                operand.layout.dims()
            ));
        }
        let mut strides = [0; MAX_RANK];
        for (of_x, of_operand) in order[..rank].iter().enumerate() {
            strides[of_x] = operand.layout.strides()[*of_operand];
        }
        Ok(strides)
    };
    let y_strides = strides("y", &y, xd[axis])?;
    let scale_strides = strides("scale", &scale, xd[axis].div_ceil(block))?;
    Ok(Quantize { x, y, scale, axis, block, y_strides, scale_strides })
}

const _: () = assert!(MAX_RANK == 8, "the order of dimensions above has an entry for each");

fn dequantize(operands: &Operands<'_>, sizes: &[i32], negative: bool) -> Result<Dequantize, Refusal> {
    let [x, scale, y] = [operands.required("x")?, operands.required("scale")?, operands.required("y")?];
    let (xd, sd) = (x.layout.dims(), scale.layout.dims());
    let rank = xd.len();
    if sd.len() != rank {
        return Err(format!("scale: dims {sd:?} has {} entries, expected {rank} as in x", sd.len()));
    }
    if y.layout.dims() != xd {
        return Err(format!("y: dims are {:?}, expected {xd:?} as in x", y.layout.dims()));
    }
    // The sizes are for the dimensions along which x and scale differ, or for the last ones.
    let differing: Vec<usize> = (0..rank).filter(|axis| xd[*axis] != sd[*axis]).collect();
    let axes = if sizes.len() == differing.len() {
        differing
    } else if sizes.len() <= rank {
        (rank - sizes.len()..rank).collect()
    } else {
        return Err(format!("block_size: {sizes:?} has {} entries, expected at most {rank}", sizes.len()));
    };
    let mut block = [1; MAX_RANK];
    for (place, (axis, value)) in axes.iter().zip(sizes).enumerate() {
        block[*axis] = size(&format!("block_size[{place}]"), *value)?.min(xd[*axis]);
    }
    for axis in 0..rank {
        let blocks = xd[axis].div_ceil(block[axis]);
        if sd[axis] != blocks {
            return Err(format!(
                "scale: dims[{axis}] is {}, expected {blocks}: x has {} there, in blocks of {}",
                sd[axis], xd[axis], block[axis]
            ));
        }
    }
    Ok(Dequantize { x, scale, y, block, is_negative_scale: negative })
}
