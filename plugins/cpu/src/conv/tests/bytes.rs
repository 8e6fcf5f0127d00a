use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Tensor};

use crate::conv::tests::{Case, plain};
use crate::problem::convolution::Direction;
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, run};

/// Sums of bytes are exact in 32 bits, even if a float could not hold them.
#[test]
fn products_of_bytes() {
    let mut random = Random::new(7);
    let bytes = [DataType::Int8, DataType::Uint8];
    for round in 0..60 {
        let mut case = Case::random(&mut random);
        if round < 4 {
            case = plain([1, 1200, 5, 6], [9, 1200, 3, 3], 1, 1, ConvMode::CrossCorrelation);
        }
        case.compute = DataType::Float;
        let result = random.of(&[DataType::Int32, DataType::Int32, DataType::Float, DataType::Int8]);
        let [x, w] = [random.of(&bytes), random.of(&bytes)];
        for (array, data_type) in [(&mut case.x, x), (&mut case.w, w), (&mut case.y, result)] {
            let Tensor { uid, dims, strides, .. } = array.tensor.clone();
            let number = || random.of(&[-128.0, -127.0, -3.0, 0.0, 5.0, 127.0, 200.0, 255.0]);
            *array = Array::new(uid, data_type, &dims, &strides).filled(number);
        }
        case.check(Direction::Forward, Isa::available());
    }
}

#[test]
fn gradients_of_bytes_are_refused() {
    let mut case = plain([1, 2, 4, 4], [3, 2, 3, 3], 1, 1, ConvMode::CrossCorrelation);
    let Tensor { uid, dims, strides, .. } = case.w.tensor.clone();
    case.w = Array::new(uid, DataType::Int8, &dims, &strides);
    for direction in [Direction::BackwardData, Direction::BackwardFilter] {
        let mut arrays = [case.x.clone(), case.w.clone(), case.y.clone()];
        let refusal = run(case.operation(direction), DataType::Float, Isa::detect(), &mut arrays);
        assert!(refusal.unwrap_err().contains("int8"));
    }
}
