//! Block scales: each thread quantizes a block; elements of the way back are computed one by one.

#![expect(clippy::indexing_slicing, reason = "axes run below the rank of x, at most MAX_RANK")]

use std::rc::Rc;

use hipdnn_kernels::form::{Index, Memory, Parameter, Unary};
use hipdnn_kernels::product::Launch;
use hipdnn_kernels::{Builder, Scalar, Value};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::layout::{MAX_RANK, storage_size};
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::block_scale::{Dequantize, Quantize};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node};

use crate::Argument;
use crate::adding::Adding;
use crate::attention::Whole;
use crate::codes::{Code, remainder, to_odd};
use crate::memory::in_memory;
use crate::way::Way;

/// Threads of a workgroup.
const THREADS: u32 = 64;

/// The most workgroups along the first axis.
const ACROSS: usize = 32768;

/// The last byte of a tensor.
pub(crate) fn last_byte(operand: &Operand) -> Result<usize, Refusal> {
    let bytes = storage_size(operand.data_type, operand.layout.extent())?;
    // Positions of bits are whole numbers of 32 bits.
    match Code::of(operand.data_type)?.bits() {
        bits @ 0..8 if operand.layout.extent() > i32::MAX as usize / bits => Err(format!(
            "spans {} elements, expected at most {}",
            operand.layout.extent(),
            i32::MAX as usize / bits
        )),
        _ => Ok(bytes.saturating_sub(1)),
    }
}

/// Refuses blocks that share a byte of the output.
fn check_bytes(p: &Quantize, bits: usize) -> Result<(), Refusal> {
    if bits >= 8 {
        return Ok(());
    }
    // As many elements fill whole bytes.
    let whole = if 8 % bits == 0 { 8 / bits } else { 4 };
    let dims = p.x.layout.dims();
    let apart = |axis: usize| {
        let stride = p.y_strides[axis];
        if axis == p.axis {
            stride == 1 && (p.block.is_multiple_of(whole) || p.block >= dims[axis])
        } else {
            stride.is_multiple_of(whole)
        }
    };
    if (0..dims.len()).any(|axis| dims[axis] > 1 && !apart(axis)) {
        return Err(format!(
            "y: has strides {:?} along the dimensions of x and blocks of {} along dimension {}, expected blocks that share no byte of {}",
            &p.y_strides[..dims.len()],
            p.block,
            p.axis,
            p.y.data_type.name()
        ));
    }
    Ok(())
}

/// The kernel of a quantization.
///
/// # Errors
/// What is not supported.
pub(crate) fn quantize(graph: &Graph, node: &Node, p: &Quantize, way: Way<'_>) -> Result<Whole, Refusal> {
    let uids = node.operation.tensors();
    let mut arguments = Vec::with_capacity(3);
    for (name, operand) in [("x", &p.x), ("y", &p.y), ("scale", &p.scale)] {
        let uid = uids.get(operand.slot).copied().unwrap_or_default();
        in_memory(graph, name, uid, operand)?;
        arguments.push(Argument::Memory(uid));
    }
    let named = |name: &'static str| move |refusal: Refusal| format!("{name}: {refusal}");
    let x_code = Code::of(p.x.data_type).map_err(named("x"))?;
    let y_code = Code::of(p.y.data_type).map_err(named("y"))?;
    let of_scale = Code::of(p.scale.data_type).map_err(named("scale"))?;
    let [x_last, y_last] = [last_byte(&p.x).map_err(named("x"))?, last_byte(&p.y).map_err(named("y"))?];
    if matches!(y_code, Code::Exponent) || matches!(y_code, Code::Own(own) if own != Scalar::I8) {
        return Err(format!(
            "y: data type is {}, expected a floating-point type of 4 to 8 bits with a sign, int4 or int8",
            p.y.data_type.name()
        ));
    }
    let is_scale = match of_scale {
        Code::Own(own) => own.is_float(),
        _ => of_scale.bits() == 8,
    };
    if !is_scale {
        return Err(format!(
            "scale: data type is {}, expected fp8_e8m0 or another floating-point type of 8 bits or more",
            p.scale.data_type.name()
        ));
    }
    check_bytes(p, y_code.bits())?;
    let rank = p.x.layout.dims().len();
    let mut dims = p.x.layout.dims().to_vec();
    let length = dims[p.axis];
    dims[p.axis] = length.div_ceil(p.block);
    let blocks: usize = dims.iter().product();
    if blocks > i32::MAX as usize / 2 {
        return Err(format!("x: has {blocks} blocks, expected at most {}", i32::MAX / 2));
    }
    let threads = THREADS.min(way.target.threads);
    let groups = blocks.div_ceil(threads as usize).max(1);
    let grid = [groups.min(ACROSS) as u32, groups.div_ceil(ACROSS) as u32, 1];
    let mut b = Builder::new(way.name, threads, way.target);
    let memory = |b: &mut Builder, scalar: Scalar, written: bool| {
        b.parameter(Parameter::Memory { scalar, written, alignment: scalar.size() })
    };
    let x = memory(&mut b, x_code.scalar(), false);
    let y = memory(&mut b, y_code.scalar(), true);
    let scales = memory(&mut b, of_scale.scalar(), true);
    let [across, down, thread] =
        [Index::Group(0), Index::Group(1), Index::Thread].map(|index| b.index(index));
    let before = b.mul(down, ACROSS);
    let group = b.add(before, across);
    let first = b.mul(group, threads);
    let number = b.add(first, thread);
    let inside = b.less(number, blocks);
    b.when(inside, |b| {
        let mut left = number;
        let zero = b.number(0);
        let [mut x_at, mut y_at, mut scale_at, mut start] = [zero; 4];
        for axis in (0..rank).rev() {
            let (rest, own) = b.div_rem(left, dims[axis]);
            left = rest;
            let place = if axis == p.axis { b.mul(own, p.block) } else { own };
            if axis == p.axis {
                start = place;
            }
            for (at, own, stride) in [
                (&mut x_at, place, p.x.layout.strides()[axis]),
                (&mut y_at, place, p.y_strides[axis]),
                (&mut scale_at, own, p.scale_strides[axis]),
            ] {
                // A dimension of one element may have any stride.
                let distance = if dims[axis] == 1 { zero } else { b.mul(own, stride) };
                *at = b.add(*at, distance);
            }
        }
        let count = if length.is_multiple_of(p.block) {
            b.number(p.block)
        } else {
            let rest = b.number(length);
            let rest = b.sub(rest, start);
            b.min(rest, p.block)
        };
        let (x_step, y_step) =
            if length == 1 { (0, 0) } else { (p.x.layout.strides()[p.axis], p.y_strides[p.axis]) };
        let element = |b: &mut Builder, i: Value| {
            let along = b.mul(i, x_step);
            let at = b.add(x_at, along);
            x_code.load(b, x, at, x_last, Scalar::F32)
        };
        let most = b.local(Scalar::F32, 0.0);
        b.for_range(0, count, 1, |b, i| {
            let own = element(b, i);
            let own = b.unary(Unary::Abs, own);
            let so_far = b.get(most);
            let next = b.max(so_far, own);
            b.set(most, next);
        });
        let most = b.get(most);
        let (scale, stored) = of_scale.round_up(b, most, y_code.largest());
        b.store(Memory::Global(scales), scale_at, stored);
        let reciprocal = b.unary(Unary::Reciprocal, scale);
        let [is_zero, is_none] = [b.equal(scale, 0.0), b.equal(most, 0.0)];
        let is_zero = b.or(is_zero, is_none);
        b.for_range(0, count, 1, |b, i| {
            let own = element(b, i);
            // The quotient is corrected by its remainder: devices divide inexactly. What remains then makes its last bit odd, so that
            // rounding it is rounding the exact one.
            let near = b.mul(own, reciprocal);
            let rest = remainder(b, own, scale, near);
            let by = b.mul(rest, reciprocal);
            let value = b.add(near, by);
            let rest = remainder(b, own, scale, value);
            let value = to_odd(b, value, rest);
            let value = b.select(is_zero, 0.0, value);
            let value = b.min(value, y_code.largest());
            let value = b.max(value, -y_code.largest());
            let code = y_code.encode(b, value);
            let along = b.mul(i, y_step);
            let at = b.add(y_at, along);
            y_code.store(b, y, at, y_last, code);
        });
    });
    Ok(Whole { launch: Launch { kernel: b.finish(), grid }, arguments })
}

/// Adds the elements of the way back.
pub(crate) fn dequantize(node: &mut Adding<'_>, p: &Dequantize) -> Result<(), Refusal> {
    let named = |name: &'static str| move |refusal: Refusal| format!("{name}: {refusal}");
    let (of_x, of_scale) =
        (Code::of(p.x.data_type).map_err(named("x"))?, Code::of(p.scale.data_type).map_err(named("scale"))?);
    let lasts = [last_byte(&p.x).map_err(named("x"))?, last_byte(&p.scale).map_err(named("scale"))?];
    let (p, real) = (*p, node.real);
    let uids = [node.uid(p.x.slot)?, node.uid(p.scale.slot)?];
    let value = node.group.gather(
        node.graph,
        real,
        &uids,
        Rc::new(move |b, tensors, indices| {
            let [x, scale] = *tensors else { return b.float(0.0, real) };
            let zero = b.number(0);
            let (mut x_at, mut scale_at) = (zero, zero);
            for (axis, index) in indices.iter().enumerate().take(p.x.layout.dims().len().min(MAX_RANK)) {
                if p.x.layout.dims()[axis] == 1 {
                    continue;
                }
                let along = b.mul(*index, p.x.layout.strides()[axis]);
                x_at = b.add(x_at, along);
                if p.scale.layout.dims()[axis] > 1 {
                    let block = b.div(*index, p.block[axis]);
                    let along = b.mul(block, p.scale.layout.strides()[axis]);
                    scale_at = b.add(scale_at, along);
                }
            }
            let own = of_x.load(b, x, x_at, lasts[0], real);
            let scale = of_scale.load(b, scale, scale_at, lasts[1], real);
            let factor = if p.is_negative_scale {
                let exponent = b.convert(scale, Scalar::F32);
                let exponent = b.unary(Unary::Neg, exponent);
                let factor = b.unary(Unary::Exp2, exponent);
                b.convert(factor, real)
            } else {
                scale
            };
            b.mul(own, factor)
        }),
    )?;
    node.write_element(&p.y, value)
}

/// Refuses types of results that kernels do not write.
pub(crate) fn check(p: &Dequantize) -> Result<(), Refusal> {
    match p.y.data_type {
        DataType::Float | DataType::Double | DataType::Half | DataType::Bfloat16 => Ok(()),
        other => crate::codes::scalar(other).map(|_| ()).map_err(|refusal| format!("y: {refusal}")),
    }
}
