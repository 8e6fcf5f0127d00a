use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Operation, PointwiseMode, Tensor};

use crate::conv::tests::{Case, dilated, plain};
use crate::problem::convolution::Direction;
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, order, run_together_for, same, strides};

/// The epilogue of a convolution: optional bias, residual and RELU.
#[test]
fn bias_residual_and_relu() {
    for seed in 0..240 {
        let mut random = Random::new(5000 + seed);
        let mut case = if seed % 8 == 7 {
            // A window that slides along one axis.
            let (rows, height) = (random.within(16, 20) as i64, random.within(20, 30) as i64);
            plain([1, 1, height, 16], [rows, 1, 5, 16], 1, 0, ConvMode::CrossCorrelation)
        } else if seed % 8 == 6 {
            // A window that is mostly in the padding.
            let sizes = [random.within(1, 9), random.within(1, 18), 6];
            dilated::same_size(&mut random, sizes)
        } else if random.within(0, 1) == 0 {
            let (rows, channels) = (random.within(1, 18) as i64, random.within(1, 9) as i64);
            let x = [random.within(1, 2) as i64, channels, random.within(1, 8) as i64, random.of(&[7, 16])];
            let side = random.of(&[1, 3]);
            plain(x, [rows, channels, side, side], 1, side / 2, ConvMode::CrossCorrelation)
        } else {
            Case::random(&mut random)
        };
        let result = case.y.tensor.clone();
        let spoiled = random.within(0, 5) == 0;
        if spoiled {
            let index: Vec<usize> =
                case.w.tensor.dims.iter().map(|dim| random.within(0, *dim as usize - 1)).collect();
            case.w.set(&index, random.of(&[f64::NAN, f64::INFINITY]));
        }
        let products = case.expected(Direction::Forward);
        let rank = result.dims.len();
        let data_type = random.of(&[case.compute, case.compute, DataType::Half]);
        let mut dims = vec![1; rank];
        dims[1] = result.dims[1];
        let bias_type = random.of(&[case.compute, case.compute, DataType::Half]);
        let bias = Array::new(4, bias_type, &dims, &strides(&dims, &order(rank, 0), random.of(&[0, 3])));
        let bias = bias.filled(|| random.whole());
        let whole_strides = strides(&result.dims, &order(rank, random.of(&[0, 0, 1])), random.of(&[0, 0, 2]));
        let whole = Array::new(5, case.compute, &result.dims, &whole_strides).filled(|| random.whole());
        let [has_bias, has_whole, relu] = [(); 3].map(|()| random.within(0, 2) > 0);

        let like = |uid| Tensor { uid, data_type, is_virtual: true, ..result.clone() };
        let mut operations = vec![case.operation(Direction::Forward)];
        let mut between = vec![like(6)];
        let mut steps = Vec::new();
        if has_bias {
            steps.push((PointwiseMode::Add, Some(4)));
        }
        if has_whole {
            steps.push((PointwiseMode::Add, Some(5)));
        }
        if relu || steps.is_empty() {
            steps.push((PointwiseMode::ReluFwd, None));
        }
        for (mode, other) in steps {
            let last = between.len() as i64 + 5;
            // The operands of a sum may be swapped.
            let pair = match other {
                Some(other) if random.within(0, 1) == 0 => (other, Some(last)),
                other => (last, other),
            };
            operations.push(Pointwise::new(mode, pair.0, pair.1, last + 1).into());
            between.push(like(last + 1));
        }
        between.pop();
        match operations.as_mut_slice() {
            [Operation::ConvolutionForward(first), .., Operation::Pointwise(last)] => {
                first.y = 6;
                last.out_0 = 3;
            }
            _ => unreachable!(),
        }
        let relu = operations.len() > 1 + usize::from(has_bias) + usize::from(has_whole);
        let y = Array::new(3, data_type, &result.dims, &result.strides);
        let forms = [
            Algorithm::Automatic,
            Algorithm::Direct,
            Algorithm::ImplicitGemm,
            Algorithm::Winograd,
            Algorithm::Winograd4,
            Algorithm::Im2col,
        ];
        let convolution = forms[seed as usize % forms.len()];
        let bound = case.bound(Direction::Forward, convolution);
        let expected: Vec<[f64; 2]> = y
            .indices()
            .iter()
            .zip(&products)
            .map(|(index, product)| {
                let channel: Vec<usize> =
                    index.iter().zip(&dims).map(|(at, dim)| at % *dim as usize).collect();
                // Each result is rounded to its dtype; rounding is monotonic.
                [-bound, bound].map(|bound| {
                    let mut sum = y.rounded(*product + bound);
                    sum = y.rounded(sum + if has_bias { bias.get(&channel) } else { 0.0 });
                    sum = y.rounded(sum + if has_whole { whole.get(index) } else { 0.0 });
                    let sum = if relu && sum <= 0.0 { 0.0 } else { sum };
                    y.rounded(sum)
                })
            })
            .collect();
        for isa in Isa::available() {
            let mut arrays = [case.x.clone(), case.w.clone(), y.clone(), bias.clone(), whole.clone()];
            let settings = Settings { convolution, ..Settings::default() };
            run_together_for(&operations, case.compute, (*isa, settings), &mut arrays, &between);
            for (index, (got, expected)) in arrays[2].values().into_iter().zip(&expected).enumerate() {
                let [least, most] = *expected;
                assert!(
                    same(got, least) || (least..=most).contains(&got),
                    "seed {seed} at {isa:?}, element {index} is {got}, expected {expected:?}\n{:?}\n{:?}\n{:?}\n{operations:?}",
                    case.x.tensor,
                    case.w.tensor,
                    y.tensor,
                );
            }
        }
    }
}
