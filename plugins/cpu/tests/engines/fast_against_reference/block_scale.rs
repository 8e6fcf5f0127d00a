//! Block scale quantization and dequantization: bit-identical to the reference.

use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::{BlockScaleDequantize, BlockScaleQuantize};

use super::{EIGHT_BITS, FLOATS, equals_reference, fill, tensor};
use crate::engines::common::{Case, Random};

const SMALL: [DataType; 5] =
    [DataType::Int4, DataType::Int8, DataType::Fp4E2m1, DataType::Fp6E2m3, DataType::Fp6E3m2];

/// Dims, one of which sometimes exceeds a unit of work.
fn dims(random: &mut Random) -> Vec<i64> {
    let rank = random.int(1, 4);
    let mut dims: Vec<i64> = (0..rank).map(|_| random.int(1, 20)).collect();
    if random.chance(25) {
        let which = random.int(0, rank - 1) as usize;
        dims = vec![2; rank as usize];
        dims[which] = random.int(100, 9000);
    }
    dims
}

/// The number of blocks of a dimension.
fn blocks_of(dim: i64, block: i64) -> i64 {
    (dim - 1) / block.min(dim) + 1
}

#[test]
fn quantized() {
    for seed in 30_000..30_250 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let dims = dims(random);
        let rank = dims.len();
        let axis = random.int(0, rank as i64 - 1) as usize;
        let block = random.one_of(&[1, 2, 7, 16, 32, 300]);
        let mut scale_dims = dims.clone();
        scale_dims[axis] = blocks_of(dims[axis], block);
        let mut y_dims = dims.clone();
        let transpose = rank > 1 && random.chance(30);
        if transpose {
            y_dims.swap(rank - 2, rank - 1);
            scale_dims.swap(rank - 2, rank - 1);
        }
        let y_type = random.one_of(&[SMALL.as_slice(), &EIGHT_BITS].concat());
        let scale_type = random.one_of(&[FLOATS.as_slice(), &EIGHT_BITS, &[DataType::Fp8E8m0]].concat());
        let x_type = random.one_of(&FLOATS);
        let x = tensor(random, &mut case, x_type, &dims);
        let y = tensor(random, &mut case, y_type, &y_dims);
        let scale = tensor(random, &mut case, scale_type, &scale_dims);
        let size = random.one_of(&[1.0, 1.0, 1e-3, 1000.0]);
        fill(random, &mut case, x, -size, size);
        let (axis, block_size) = (Some(axis as i64), block as i32);
        case.node(BlockScaleQuantize { x, y, scale, block_size, axis, transpose });
        equals_reference(&case, &[y, scale], &format!("seed {seed}"));
    }
}

#[test]
fn dequantized() {
    for seed in 31_000..31_250 {
        let random = &mut Random(seed);
        let mut case = Case::new();
        let dims = dims(random);
        let block_size: Vec<i32> = dims.iter().map(|_| random.one_of(&[1, 1, 3, 16, 32, 500])).collect();
        let blocks = dims.iter().zip(&block_size);
        let scale_dims: Vec<i64> = blocks.map(|(dim, block)| blocks_of(*dim, i64::from(*block))).collect();
        // As many sizes as differing dimensions, or one per dimension.
        let differ = |axis: &usize| dims[*axis] != scale_dims[*axis];
        let given: Vec<i32> = (0..dims.len()).filter(differ).map(|axis| block_size[axis]).collect();
        let all = [FLOATS.as_slice(), &EIGHT_BITS, &SMALL, &[DataType::Int32, DataType::Fp8E8m0]].concat();
        let [x_type, scale_type] = [(); 2].map(|()| random.one_of(&all));
        let y_type = random.one_of(&[
            DataType::Float,
            DataType::Float,
            DataType::Half,
            DataType::Double,
            EIGHT_BITS[0],
        ]);
        let x = tensor(random, &mut case, x_type, &dims);
        let scale = tensor(random, &mut case, scale_type, &scale_dims);
        let y = tensor(random, &mut case, y_type, &dims);
        fill(random, &mut case, x, -9.0, 9.0);
        fill(random, &mut case, scale, -4.0, 4.0);
        case.node(BlockScaleDequantize {
            x,
            scale,
            y,
            block_size: given,
            is_negative_scale: random.chance(20),
        });
        equals_reference(&case, &[y], &format!("seed {seed}"));
    }
}
