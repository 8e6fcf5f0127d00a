//! Both operations against the reference, with every instruction set.

use hipdnn_plugin_sdk::graph::operation::{MoeGroupedMatmul, MoeGroupedMatmulBackward};
use hipdnn_plugin_sdk::graph::{DataType, MoeGroupedMatmulMode, Operation};

use crate::simd::isa::Isa;
use crate::testing::{Array, EIGHT_BITS, Random, cases, check_with_reference, strides};

const TYPES: [DataType; 4] = [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16];

/// What the floating-point tensors contain.
#[derive(Clone, Copy, PartialEq)]
enum Values {
    /// Integers, whose sums are exact.
    Whole,
    /// The same with some NaN and infinities.
    NonFinite,
    /// Any real number from -3 to 3.
    Any,
}

fn array(random: &mut Random, values: Values, uid: i64, data_type: DataType, dims: &[i64]) -> Array {
    let order: &[usize] = if dims.len() == 3 && dims[0] > 1 {
        random.of(&[&[0, 1, 2], &[0, 2, 1], &[2, 1, 0]])
    } else {
        random.of(&[&[0, 1, 2], &[0, 1, 2], &[0, 2, 1]])
    };
    Array::new(uid, data_type, dims, &strides(dims, order, random.of(&[0, 0, 3]))).filled(|| match values {
        Values::NonFinite if random.within(0, 300) == 0 => random.of(&[f64::NAN, f64::INFINITY]),
        Values::Whole | Values::NonFinite => random.whole(),
        Values::Any => random.real(),
    })
}

fn integers(uid: i64, values: &[usize], gap: i64) -> Array {
    let mut values = values.iter();
    let dims = [1, values.len() as i64, 1];
    Array::new(uid, DataType::Int32, &dims, &[dims[1] * gap, gap, 1])
        .filled(|| values.next().map_or(0.0, |value| *value as f64))
}

/// The first rows of groups: some groups are empty, and the first row need not be 0.
fn first_rows(random: &mut Random, groups: usize, rows: usize) -> Vec<usize> {
    let least = random.of(&[0, 0, rows / 3]);
    let mut first: Vec<usize> = (0..groups).map(|_| random.within(least, rows)).collect();
    first[0] = least;
    first.sort_unstable();
    first
}

fn check(seed: u64, values: Values) {
    let random = &mut Random::new(seed);
    let one_type = random.of(&[true, true, false]).then(|| random.of(&TYPES));
    let others = if values == Values::Whole { [TYPES, EIGHT_BITS].concat() } else { TYPES.to_vec() };
    let types = [(); 3].map(|()| one_type.unwrap_or_else(|| random.of(&others)));
    let compute = random.of(&[DataType::Float, DataType::Float, DataType::Double]);
    let most = random.of(&[6, 40, 130]);
    let [rows, depth, columns] = [(); 3].map(|()| random.within(1, most));
    // More than one block of rows, or of terms.
    let (rows, depth) = random.of(&[(rows, depth), (rows, depth), (600, depth.min(9)), (rows.min(9), 1500)]);
    let experts = random.within(1, 5);
    let groups = experts * random.within(1, 3);
    let mode =
        random.of(&[MoeGroupedMatmulMode::None, MoeGroupedMatmulMode::Gather, MoeGroupedMatmulMode::Scatter]);
    let tokens = if mode == MoeGroupedMatmulMode::Gather { random.within(1, 30) } else { rows };
    let top_k = random.within(1, 3);
    let places = rows.div_ceil(top_k);
    // Sometimes several rows write the same output.
    let made: Vec<usize> = (0..rows).map(|row| if random.within(0, 9) == 0 { 0 } else { row }).collect();
    let (index, ks): (Vec<usize>, Vec<usize>) = match mode {
        MoeGroupedMatmulMode::Gather => (made.iter().map(|row| row % tokens).collect(), Vec::new()),
        _ => made.iter().map(|row| (row / top_k % places, row % top_k)).unzip(),
    };
    let first = first_rows(random, groups, rows);
    let gap = random.of(&[1, 1, 2]);
    let dims = |sizes: [usize; 3]| sizes.map(|size| size as i64);
    let mut arrays = vec![
        array(random, values, 1, types[0], &dims([1, tokens, depth])),
        array(random, values, 2, types[1], &dims([experts, depth, columns])),
        array(random, values, 3, types[2], &dims([1, rows, columns])),
        integers(4, &first, gap),
    ];
    if mode != MoeGroupedMatmulMode::None {
        arrays.push(integers(5, &index, gap));
    }
    if mode == MoeGroupedMatmulMode::Scatter {
        arrays.push(integers(6, &ks, gap));
    }
    let forward: Operation = MoeGroupedMatmul {
        token: 1,
        weight: 2,
        output: 3,
        first_token_offset: 4,
        token_index: (mode != MoeGroupedMatmulMode::None).then_some(5),
        token_ks: (mode == MoeGroupedMatmulMode::Scatter).then_some(6),
        mode,
        top_k: top_k as i32,
    }
    .into();
    compare(&forward, compute, &arrays, 3, (values, depth));
    let arrays = [
        array(random, values, 1, types[0], &dims([1, rows, depth])),
        array(random, values, 2, types[1], &dims([experts, depth, columns])),
        array(random, values, 3, types[2], &dims([1, rows, columns])),
        integers(4, &first, gap),
    ];
    let backward: Operation =
        MoeGroupedMatmulBackward { doutput: 3, token: 1, first_token_offset: 4, dweight: 2 }.into();
    compare(&backward, compute, &arrays, 2, (values, rows));
}

/// Each term is at most 9.
fn compare(
    operation: &Operation,
    compute: DataType,
    arrays: &[Array],
    result: i64,
    (values, terms): (Values, usize),
) {
    for isa in Isa::available() {
        check_with_reference(operation, compute, *isa, arrays, &[result], |_| {
            (values == Values::Any).then_some(9.0 * terms as f64)
        });
    }
}

#[test]
fn any_groups_and_routes() {
    (0..cases(70)).for_each(|seed| check(seed, Values::Whole));
}

#[test]
fn nan_and_infinity_match_the_formula() {
    (1000..1020).for_each(|seed| check(seed, Values::NonFinite));
}

#[test]
fn sums_of_real_numbers() {
    (2000..2000 + cases(25)).for_each(|seed| check(seed, Values::Any));
}
