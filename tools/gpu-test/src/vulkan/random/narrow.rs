//! Random block scales and mixtures of experts.

use hipdnn_plugin_sdk::graph::operation::{
    BlockScaleDequantize, BlockScaleQuantize, MoeGroupedMatmul, MoeGroupedMatmulBackward, Pointwise,
};
use hipdnn_plugin_sdk::graph::{DataType, MoeGroupedMatmulMode, PointwiseMode};

use super::Random;
use crate::case::{Case, Order};

const FIRST: Order = Order::ChannelsFirst;

/// Types of quantized elements.
const NARROW: [DataType; 9] = [
    DataType::Fp8E4m3,
    DataType::Fp8E5m2,
    DataType::Fp8E4m3Fnuz,
    DataType::Fp8E5m2Fnuz,
    DataType::Fp6E2m3,
    DataType::Fp6E3m2,
    DataType::Fp4E2m1,
    DataType::Int8,
    DataType::Int4,
];

/// Types of scales.
const SCALES: [DataType; 7] = [
    DataType::Fp8E8m0,
    DataType::Fp8E8m0,
    DataType::Fp8E4m3,
    DataType::Fp8E5m2,
    DataType::Half,
    DataType::Bfloat16,
    DataType::Float,
];

fn dims(random: &mut Random) -> Vec<i64> {
    let rank = 1 + random.next(3) as usize;
    (0..rank).map(|_| random.size(20)).collect()
}

pub(super) fn quantize(case: &mut Case, random: &mut Random) {
    let narrow = random.of(&NARROW, DataType::Fp8E4m3);
    let is_packed =
        matches!(narrow, DataType::Fp6E2m3 | DataType::Fp6E3m2 | DataType::Fp4E2m1 | DataType::Int4);
    let mut x = dims(random);
    let mut axis = random.next(x.len() as u64) as usize;
    let mut block = random.size(12);
    let mut transpose = x.len() > 1 && random.next(3) == 0;
    if is_packed {
        // Blocks of whole bytes, along the last dimension.
        (axis, block, transpose) = (x.len() - 1, 4 * random.size(4), false);
        if let Some(last) = x.last_mut() {
            *last = 4 * random.size(8);
        }
    }
    let from = random.data_type();
    let range = random.of(&[[-2.0, 2.0], [-300.0, 300.0], [-0.01, 0.02]], [-2.0, 2.0]);
    let order = random.order();
    let input = case.input(from, &x, order, range);
    let block = block.min(x.get(axis).copied().unwrap_or(1));
    let mut scales = x.clone();
    if let Some(dim) = scales.get_mut(axis) {
        *dim = (*dim + block - 1) / block;
    }
    if transpose {
        let rank = x.len();
        x.swap(rank - 2, rank - 1);
        scales.swap(rank - 2, rank - 1);
    }
    let y = case.output(narrow, &x, if is_packed { FIRST } else { order });
    let of_scale = random.of(&SCALES, DataType::Float);
    let scale = case.output(of_scale, &scales, FIRST);
    // Results are exact but for the last bit of a scale.
    case.is_defined = true;
    let is_last = axis + 1 == scales.len() && random.next(2) == 0;
    case.node(BlockScaleQuantize {
        x: input,
        y,
        scale,
        block_size: block as i32,
        axis: if is_last { None } else { Some(axis as i64) },
        transpose,
    });
}

pub(super) fn dequantize(case: &mut Case, random: &mut Random) {
    let x = dims(random);
    let blocks: Vec<i64> = x.iter().map(|dim| random.size(*dim as u64)).collect();
    let scales: Vec<i64> = x.iter().zip(&blocks).map(|(dim, block)| (dim + block - 1) / block).collect();
    let narrow = random.of(&NARROW, DataType::Fp8E4m3);
    let range = if narrow == DataType::Int8 { [-127.0, 127.0] } else { [-6.0, 6.0] };
    let order = random.order();
    let input = case.input(narrow, &x, order, range);
    let of_scale = random.of(&SCALES, DataType::Float);
    let scale = case.input(of_scale, &scales, FIRST, [0.25, 4.0]);
    let to = random.data_type();
    let goes_on = random.next(2) == 0;
    let y = if goes_on { case.between(DataType::Float, &x, FIRST) } else { case.output(to, &x, order) };
    let is_negative_scale = random.next(4) == 0;
    let block_size = blocks.iter().map(|block| *block as i32).collect();
    case.node(BlockScaleDequantize { x: input, scale, y, block_size, is_negative_scale });
    if goes_on {
        let out = case.output(to, &x, order);
        case.node(Pointwise::new(PointwiseMode::ReluFwd, y, None, out));
    }
}

/// Rising offsets below `rows`.
fn offsets(random: &mut Random, groups: i64, rows: i64) -> Vec<f32> {
    let mut all: Vec<i64> = (0..groups).map(|_| random.next(rows as u64 + 1) as i64).collect();
    all.sort_unstable();
    if random.next(2) == 0
        && let Some(first) = all.first_mut()
    {
        *first = 0;
    }
    all.into_iter().map(|offset| offset as f32).collect()
}

pub(super) fn mixture(case: &mut Case, random: &mut Random) {
    let (experts, depth, columns, tokens) =
        (random.size(5), random.size(30), random.size(30), random.size(12));
    let groups = experts * random.size(2);
    let data_type = random.data_type();
    let modes = [MoeGroupedMatmulMode::None, MoeGroupedMatmulMode::Gather, MoeGroupedMatmulMode::Scatter];
    let mode = random.of(&modes, MoeGroupedMatmulMode::None);
    let top_k = random.size(3);
    let rows = if mode == MoeGroupedMatmulMode::Gather { random.size(20) } else { tokens };
    let turned = random.next(2) == 0;
    let token_strides = if turned { [tokens * depth, 1, tokens] } else { [tokens * depth, depth, 1] };
    let token = case.input_with_strides(data_type, &[1, tokens, depth], &token_strides, [-1.0, 1.0]);
    let turned = random.next(2) == 0;
    let strides = if turned { [depth * columns, 1, depth] } else { [depth * columns, columns, 1] };
    let weight = case.input_with_strides(data_type, &[experts, depth, columns], &strides, [-1.0, 1.0]);
    let first = offsets(random, groups, rows);
    let first_token_offset = case.input_of(DataType::Int32, &[groups], first);
    let (mut token_index, mut token_ks, mut results) = (None, None, rows);
    match mode {
        MoeGroupedMatmulMode::None => {}
        MoeGroupedMatmulMode::Gather => {
            let index = (0..rows).map(|_| random.next(tokens as u64) as f32).collect();
            token_index = Some(case.input_of(DataType::Int32, &[rows], index));
        }
        MoeGroupedMatmulMode::Scatter => {
            results = tokens;
            // Which row each one yields, all different.
            let mut targets: Vec<i64> = (0..rows).collect();
            for place in (1..targets.len()).rev() {
                targets.swap(place, random.next(place as u64 + 1) as usize);
            }
            let index = targets.iter().map(|row| (row / top_k) as f32).collect();
            let ks = targets.iter().map(|row| (row % top_k) as f32).collect();
            token_index = Some(case.input_of(DataType::Int32, &[rows], index));
            token_ks = Some(case.input_of(DataType::Int32, &[rows], ks));
        }
    }
    let output = case.output(data_type, &[1, results, columns], FIRST);
    let top_k = top_k as i32;
    case.node(MoeGroupedMatmul {
        token,
        weight,
        first_token_offset,
        token_index,
        token_ks,
        output,
        mode,
        top_k,
    });
}

pub(super) fn mixture_gradient(case: &mut Case, random: &mut Random) {
    let (experts, depth, columns, rows) = (random.size(5), random.size(20), random.size(20), random.size(30));
    let groups = experts * random.size(2);
    let data_type = random.data_type();
    let doutput = case.input(data_type, &[1, rows, columns], FIRST, [-1.0, 1.0]);
    let token = case.input(data_type, &[1, rows, depth], random.order(), [-1.0, 1.0]);
    let first = offsets(random, groups, rows);
    let first_token_offset = case.input_of(DataType::Int32, &[groups], first);
    let dweight = case.output(random.data_type(), &[experts, depth, columns], FIRST);
    case.node(MoeGroupedMatmulBackward { doutput, token, first_token_offset, dweight });
}
