use hipdnn_plugin_sdk::graph::{ConvMode, DataType};

use crate::conv::tests::plain;
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, order, strides};

#[test]
fn windows_that_slide_along_one_axis() {
    let (correlation, mut random) = (ConvMode::CrossCorrelation, Random::new(37));
    for (x, w, stride) in [
        ([1, 1, 40, 28], [32, 1, 5, 28], 1),
        ([1, 1, 98, 28], [19, 1, 19, 28], 3),
        ([2, 1, 40, 28], [32, 1, 5, 28], 1),
        ([1, 70, 30, 1], [16, 70, 1, 1], 1),
    ] {
        let mut case = plain(x, w, stride, 0, correlation);
        case.check_all(Isa::available());
        // Rows with a dilation, and contiguous channels.
        case.dilation = vec![2, 1];
        case.y.tensor.dims[2] = (x[2] - 2 * (w[2] - 1) - 1) / stride + 1;
        for which in [0, 1] {
            for array in [&mut case.x, &mut case.w, &mut case.y] {
                let dims = array.tensor.dims.clone();
                let strides = strides(&dims, &order(4, which), 0);
                *array =
                    Array::new(array.tensor.uid, DataType::Float, &dims, &strides).filled(|| random.whole());
            }
            case.check_all(Isa::available());
        }
    }
}
