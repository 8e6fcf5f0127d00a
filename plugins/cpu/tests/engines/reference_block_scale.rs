//! The reference block scale operations against hand-computed results and round trips, and their refusals.

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_plugin_sdk::graph::operation::{BlockScaleDequantize, BlockScaleQuantize};
use hipdnn_plugin_sdk::graph::{DataType, Operation};

use super::common::{Case, Random, packed, strides};

/// Tensors 1 to 3 are x, y and scale.
fn quantize(x: &[i64], y: (DataType, &[i64]), scale: (DataType, &[i64]), block_size: i32) -> Case {
    let mut case = Case::new();
    let x = case.tensor(DataType::Float, x);
    let y = case.tensor(y.0, y.1);
    let scale = case.tensor(scale.0, scale.1);
    case.node(BlockScaleQuantize { x, y, scale, block_size, axis: None, transpose: false });
    case
}

/// Tensors 1 to 3 are x, scale and y.
fn dequantize(x: (DataType, &[i64]), scale: (DataType, &[i64]), block_size: &[i32]) -> Case {
    let mut case = Case::new();
    let y_dims = x.1;
    let x = case.tensor(x.0, x.1);
    let scale = case.tensor(scale.0, scale.1);
    let y = case.tensor(DataType::Float, y_dims);
    case.node(BlockScaleDequantize {
        x,
        scale,
        y,
        block_size: block_size.to_vec(),
        is_negative_scale: false,
    });
    case
}

#[test]
fn a_scale_brings_the_largest_into_range() {
    // 7 / 6 is rounded up to 2, 0.75 / 6 is 1 / 8; zeros get the smallest scale.
    let (y, scale) = ((DataType::Fp4E2m1, &[7][..]), (DataType::Fp8E8m0, &[4][..]));
    for engine in 0..2 {
        let mut case = quantize(&[7], y, scale, 2);
        case.fill(1, &[7.0, -2.5, 0.75, 0.3125, 0.0, 0.0, -6.0]);
        case.run(planner(engine));
        assert_eq!(case.values(3), [2.0, 0.125, 2_f64.powi(-127), 1.0]);
        // 3.5 lies between 3 and 4, 1.25 between 1 and 1.5, 2.5 between 2 and 3: to the even code.
        assert_eq!(case.values(2), [4.0, -1.0, 6.0, 2.0, 0.0, 0.0, -6.0]);
    }
}

#[test]
fn scales_that_have_a_zero_give_zeros() {
    let mut case = quantize(&[2, 2], (DataType::Int4, &[2, 2]), (DataType::Half, &[2, 1]), 32);
    case.fill(1, &[0.0, -0.0, 7.0, -3.5]);
    case.run(planner(1));
    assert_eq!((case.values(2), case.values(3)), (vec![0.0, 0.0, 7.0, -4.0], vec![0.0, 1.0]));
}

/// Scales that their type cannot hold saturate, and so do the results.
#[test]
fn values_beyond_every_scale_saturate() {
    let mut case = quantize(&[2], (DataType::Fp8E4m3, &[2]), (DataType::Fp8E4m3, &[1]), 2);
    case.fill(1, &[3e38, -448.0]);
    case.run(planner(1));
    assert_eq!((case.values(2), case.values(3)), (vec![448.0, -1.0], vec![448.0]));
}

#[test]
fn nan_and_infinity_are_errors() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut case = quantize(&[2, 2], (DataType::Fp8E4m3, &[2, 2]), (DataType::Float, &[2, 1]), 2);
        case.fill(1, &[1.0, 2.0, bad, 4.0]);
        let plan = planner(0).plan(&case.graph).unwrap();
        let error = case.try_execute(&plan).unwrap_err().to_string();
        assert!(error.contains("x: is") && error.contains("at [1, 0], expected finite"), "{error}");
    }
}

#[test]
fn the_last_two_dimensions_may_be_exchanged() {
    let mut case = quantize(&[2, 3], (DataType::Int8, &[3, 2]), (DataType::Float, &[2, 2]), 2);
    case.fill(1, &[127.0, 1.0, 254.0, -127.0, 2.0, 3.0]);
    let Operation::BlockScaleQuantize(node) = &mut case.graph.nodes[0].operation else { unreachable!() };
    node.transpose = true;
    case.run(planner(1));
    // Row 0 has the blocks (127, 1) and (254), row 1 (-127, 2) and (3), each a column here.
    let third = f64::from((3.0_f64 / 127.0) as f32);
    let up = if third < 3.0 / 127.0 { f64::from((third as f32).next_up()) } else { third };
    assert_eq!(case.values(3), [1.0, 1.0, 2.0, up]);
    assert_eq!(case.values(2), [127.0, -127.0, 1.0, 2.0, 127.0, 127.0]);
}

#[test]
fn negative_scales_are_exponents() {
    let mut case = dequantize((DataType::Int4, &[4]), (DataType::Int8, &[2]), &[2]);
    let Operation::BlockScaleDequantize(node) = &mut case.graph.nodes[0].operation else { unreachable!() };
    node.is_negative_scale = true;
    case.fill(1, &[1.0, -8.0, 7.0, 3.0]);
    case.fill(2, &[3.0, -2.0]);
    case.run(planner(1));
    assert_eq!(case.values(3), [0.125, -1.0, 28.0, 12.0]);
}

#[test]
fn block_sizes_belong_to_the_dimensions_that_differ_or_to_the_last() {
    let four = DataType::Fp4E2m1;
    let x = [1.0, 2.0, 3.0, 4.0, 6.0, 0.5];
    for (dims, scale, sizes, expected) in [
        ([2, 3], [1, 3], &[2][..], [2.0, 6.0, 12.0, 8.0, 18.0, 2.0]),
        ([2, 3], [2, 2], &[2], [2.0, 4.0, 9.0, 16.0, 24.0, 2.5]),
        ([2, 3], [1, 2], &[2, 2], [2.0, 4.0, 9.0, 8.0, 12.0, 1.5]),
        ([2, 3], [2, 1], &[1, 3], [2.0, 4.0, 6.0, 12.0, 18.0, 1.5]),
        ([1, 6], [1, 2], &[1, 3], [2.0, 4.0, 6.0, 12.0, 18.0, 1.5]),
        ([1, 6], [1, 6], &[], [2.0, 6.0, 12.0, 20.0, 36.0, 3.5]),
    ] {
        let mut case = dequantize((four, &dims), (DataType::Float, &scale), sizes);
        case.fill(1, &x);
        let scales: Vec<f64> = (2..2 + scale.iter().product::<i64>()).map(|n| n as f64).collect();
        case.fill(2, &scales);
        case.run(planner(1));
        assert_eq!(case.values(3), expected, "{dims:?} by {scale:?} in {sizes:?}");
    }
}

/// Round trips in every small type, any axis and stride order: errors are at most half a step of the type.
#[test]
fn quantized_numbers_come_back() {
    use DataType as Type;
    let mut random = Random(17);
    let types = [
        // Half a step relative to the value, and to the largest of the block.
        (Type::Fp8E4m3, 1.0 / 16.0, 1e-5),
        (Type::Fp8E5m2, 1.0 / 8.0, 1e-5),
        (Type::Fp8E4m3Fnuz, 1.0 / 16.0, 1e-5),
        (Type::Fp8E5m2Fnuz, 1.0 / 8.0, 1e-5),
        (Type::Fp6E2m3, 1.0 / 16.0, 0.0625 / 7.5),
        (Type::Fp6E3m2, 1.0 / 8.0, 0.03125 / 28.0),
        (Type::Fp4E2m1, 1.0 / 4.0, 0.25 / 6.0),
        (Type::Int4, 0.0, 0.5 / 7.0),
        (Type::Int8, 0.0, 0.5 / 127.0),
    ];
    for (small, relative, of_largest) in types {
        for _ in 0..40 {
            let rank = random.int(1, 4) as usize;
            let dims: Vec<i64> = (0..rank).map(|_| random.int(1, 9)).collect();
            let axis = random.int(0, rank as i64 - 1) as usize;
            let block = random.int(1, 10);
            let mut scale_dims = dims.clone();
            scale_dims[axis] = (dims[axis] + block - 1) / block;
            let mut order: Vec<usize> = (0..rank).collect();
            order.swap(0, axis);
            let mut case = Case::new();
            let x = case.tensor(Type::Float, &dims);
            let y = case.virtual_tensor(small, &dims, &strides(&dims, &order));
            let scale = case.tensor_with(Type::Float, &scale_dims, &packed(&scale_dims));
            let back = case.tensor(Type::Double, &dims);
            let (axis, block_size) = (Some(axis as i64), block as i32);
            case.node(BlockScaleQuantize { x, y, scale, block_size, axis, transpose: false });
            let differs = scale_dims != dims;
            let block_size = if differs { vec![block_size] } else { vec![] };
            case.node(BlockScaleDequantize { x: y, scale, y: back, block_size, is_negative_scale: false });
            let numbers: Vec<f64> =
                (0..dims.iter().product()).map(|_| f64::from(random.real(-9.0, 9.0) as f32)).collect();
            case.fill(x, &numbers);
            case.run(planner(1));
            // The largest of all is at least that of the block.
            let largest = numbers.iter().fold(0.0, |most: f64, n| most.max(n.abs()));
            for (got, number) in case.values(back).iter().zip(&numbers) {
                let bound = 1.0001 * (relative * number.abs()).max(of_largest * largest);
                assert!((got - number).abs() <= bound, "{}: {number} came back as {got}", small.name());
            }
        }
    }
}

#[test]
fn mismatched_arguments_are_refused() {
    type Change = fn(&mut BlockScaleQuantize);
    let (fp8, e8m0, float) = (DataType::Fp8E4m3, DataType::Fp8E8m0, DataType::Float);
    let none: Change = |_| {};
    for (y, scale, change, parts) in [
        ((fp8, [2, 5]), (e8m0, [2, 3]), none, ["y: dims are [2, 5]", "expected [2, 6]"]),
        ((fp8, [2, 6]), (e8m0, [2, 4]), none, ["scale: dims are [2, 4]", "expected [2, 3]"]),
        ((fp8, [2, 6]), (e8m0, [2, 3]), |q| q.axis = Some(2), ["axis: is 2", "0 to 1"]),
        ((fp8, [2, 6]), (e8m0, [2, 3]), |q| q.axis = Some(-1), ["axis: is -1", "0 to 1"]),
        ((fp8, [2, 6]), (e8m0, [2, 3]), |q| q.axis = Some(0), ["scale: dims are [2, 3]", "expected [1, 6]"]),
        ((fp8, [2, 6]), (e8m0, [2, 3]), |q| q.block_size = 0, ["block_size: is 0", "more than 0"]),
        ((fp8, [2, 6]), (e8m0, [2, 3]), |q| q.block_size = i32::MIN, ["block_size: is -2147483648", "0"]),
        ((fp8, [2, 6]), (e8m0, [2, 3]), |q| q.transpose = true, ["y: dims are [2, 6]", "expected [6, 2]"]),
        ((float, [2, 6]), (e8m0, [2, 3]), none, ["y: data type is float", "int4 or int8"]),
        ((e8m0, [2, 6]), (e8m0, [2, 3]), none, ["y: data type is fp8_e8m0", "with a sign"]),
        ((fp8, [2, 6]), (DataType::Int8, [2, 3]), none, ["scale: data type is int8", "fp8_e8m0"]),
        ((fp8, [2, 6]), (DataType::Fp4E2m1, [2, 3]), none, ["scale: data type is fp4_e2m1", "8 bits"]),
    ] {
        let mut case = quantize(&[2, 6], (y.0, &y.1), (scale.0, &scale.1), 2);
        let Operation::BlockScaleQuantize(node) = &mut case.graph.nodes[0].operation else { unreachable!() };
        change(node);
        let refusal = planner(0).plan(&case.graph).err().unwrap();
        assert!(parts.iter().all(|part| refusal.contains(part)), "{refusal}");
    }
    for (scale, sizes, parts) in [
        (vec![2], vec![2], ["scale: dims [2] has 1 entries", "expected 2"]),
        (vec![2, 4], vec![2], ["scale: dims[1] is 4", "expected 3"]),
        (vec![2, 3], vec![1, 2, 3], ["block_size: [1, 2, 3] has 3 entries", "at most 2"]),
        (vec![2, 3], vec![0], ["block_size[0]: is 0", "more than 0"]),
        (vec![3, 6], vec![2], ["scale: dims[0] is 3", "expected 1"]),
    ] {
        let case = dequantize((fp8, &[2, 6]), (e8m0, &scale), &sizes);
        let refusal = planner(0).plan(&case.graph).err().unwrap();
        assert!(parts.iter().all(|part| refusal.contains(part)), "{refusal}");
    }
}
