//! Matmuls of block-scaled small types.

use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::{BlockScaleDequantize, Matmul};

use crate::case::{Case, Order};

const FIRST: Order = Order::ChannelsFirst;
const RANGE: [f32; 2] = [-2.0, 2.0];

/// The type of scales, and the block size along a row of a or a column of b.
#[derive(Clone, Copy)]
struct Scales(DataType, i64);

/// A dequantized matrix of the result's type. Blocks extend along the dimension `axis`.
fn factor(
    case: &mut Case,
    dims: [i64; 3],
    axis: usize,
    small: DataType,
    wide: DataType,
    scales: Scales,
) -> i64 {
    let Scales(of_scales, size) = scales;
    // The summed dimension is contiguous.
    let [batch, rows, columns] = dims;
    let strides = |rows: i64, columns: i64| match axis {
        1 => [rows * columns, 1, rows],
        _ => [rows * columns, columns, 1],
    };
    let x = case.input_with_strides(small, &dims, &strides(rows, columns), RANGE);
    let blocks = if axis == 1 { [batch, rows / size, columns] } else { [batch, rows, columns / size] };
    let scale = case.input_with_strides(of_scales, &blocks, &strides(blocks[1], blocks[2]), [0.25, 4.0]);
    let y = case.between(wide, &dims, FIRST);
    if let (Some(tensor), 1) = (case.graph.tensors.last_mut(), axis) {
        tensor.strides = strides(rows, columns).to_vec();
    }
    let block_size = if axis == 1 { vec![size as i32, 1] } else { vec![1, size as i32] };
    case.node(BlockScaleDequantize { x, scale, y, block_size, is_negative_scale: false });
    y
}

/// a · b, where b may have the result's type.
fn product(small: DataType, wide: DataType, scales: Scales, batch: i64, both: bool) -> Case {
    let Scales(of_scales, size) = scales;
    let factors = if both { "both factors" } else { "one factor" };
    let [small_name, scales_name, wide_name] = [small, of_scales, wide].map(DataType::name);
    let mut case =
        Case::new(format!("{factors} {small_name}, {scales_name} for {size}, batch {batch}, {wide_name}"));
    let (m, n, k) = (96, 64, 128);
    let a = factor(&mut case, [batch, m, k], 2, small, wide, scales);
    let b = if both {
        factor(&mut case, [batch, k, n], 1, small, wide, scales)
    } else {
        case.input_with_strides(wide, &[batch, k, n], &[n * k, 1, k], RANGE)
    };
    let c = case.output(wide, &[batch, m, n], FIRST);
    case.node(Matmul { a, b, c });
    case
}

pub fn cases() -> Vec<Case> {
    let (e8m0, float) = (Scales(DataType::Fp8E8m0, 32), Scales(DataType::Float, 16));
    let (half, bfloat16) = (DataType::Half, DataType::Bfloat16);
    vec![
        product(DataType::Fp8E4m3, bfloat16, e8m0, 1, true),
        product(DataType::Fp8E4m3, bfloat16, e8m0, 1, false),
        product(DataType::Fp8E4m3, half, e8m0, 3, true),
        product(DataType::Fp8E5m2, bfloat16, e8m0, 3, true),
        product(DataType::Fp8E4m3, bfloat16, float, 1, true),
        product(DataType::Fp8E4m3, half, float, 3, false),
    ]
}
