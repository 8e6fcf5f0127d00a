use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Operation, PointwiseMode, Tensor};

use crate::conv::tests::plain;
use crate::problem::convolution::Direction;
use crate::settings::{Algorithm, Settings};
use crate::simd::isa::Isa;
use crate::testing::limits::Limit;
use crate::testing::{Array, Random, order, run_together_for, same, strides};

/// Results with their channels last, by direct convolutions and Winograd's: panels that are full or not, tiles within lines and across them, padding whose products with
/// weights are NaN, more words than stay in cache, weights packed once or in each execution.
#[test]
fn bias_residual_and_activation_are_applied_in_registers() {
    for seed in 0..400 {
        let mut random = Random::new(7100 + seed);
        let [batch, height, width] =
            [(1, 3), (1, 15), (1, 15)].map(|(from, to)| random.within(from, to) as i64);
        let rows = random.of(&[1, 7, 8, 16, 17, 24, 40, 48]);
        let convolution = random.of(&[Algorithm::Direct, Algorithm::Winograd, Algorithm::Winograd4]);
        let (side, stride) = match convolution {
            Algorithm::Direct => (random.of(&[1, 1, 3, 5]), random.of(&[1, 1, 2, 3])),
            Algorithm::Winograd => (3, random.of(&[1, 1, 2])),
            _ => (3, 1),
        };
        let channels = if side == 1 && seed % 10 == 0 { 3200 } else { random.within(1, 40) as i64 };
        let groups = random.of(&[1, 1, 1, 2]);
        let rows = rows * groups;
        let mut case = plain(
            [batch, groups * channels, height, width],
            [rows, channels, side, side],
            stride,
            side / 2,
            ConvMode::CrossCorrelation,
        );
        if seed % 2 == 0 {
            let dims = case.x.tensor.dims.clone();
            case.x = Array::new(1, DataType::Float, &dims, &strides(&dims, &order(4, 1), 0))
                .filled(|| random.whole());
        }
        if seed % 5 == 0 {
            case.w.set(&[0; 4], random.of(&[f64::NAN, f64::INFINITY]));
        }
        let dims = case.y.tensor.dims.clone();
        // The channels of a concatenation are a part of its rows.
        let of = |uid, gap| Array::new(uid, DataType::Float, &dims, &strides(&dims, &order(4, 1), gap));
        let y = of(3, random.of(&[0, 0, 3]));
        let whole = of(5, random.of(&[0, 0, 2])).filled(|| random.whole());
        let of_channel = [1, dims[1], 1, 1];
        let bias = Array::new(4, DataType::Float, &of_channel, &strides(&of_channel, &order(4, 0), 0));
        let bias = bias.filled(|| random.whole());
        let [has_bias, has_whole] = [(); 2].map(|()| random.within(0, 2) > 0);
        let last = random.of(&[PointwiseMode::ReluFwd, PointwiseMode::SigmoidFwd, PointwiseMode::Identity]);

        let steps = [(PointwiseMode::Add, Some(4)), (PointwiseMode::Add, Some(5)), (last, None)];
        let steps = steps.into_iter().zip([has_bias, has_whole, true]).filter(|(_, is_there)| *is_there);
        let mut operations = vec![case.operation(Direction::Forward)];
        let mut between: Vec<Tensor> = Vec::new();
        for ((mode, other), _) in steps {
            let from = 6 + between.len() as i64;
            let strides = y.tensor.strides.clone();
            between.push(Tensor { uid: from, is_virtual: true, strides, ..case.y.tensor.clone() });
            operations.push(Pointwise::new(mode, from, other, from + 1).into());
        }
        match operations.as_mut_slice() {
            [Operation::ConvolutionForward(first), .., Operation::Pointwise(last)] => {
                (first.y, last.out_0) = (6, 3);
            }
            _ => unreachable!(),
        }
        let products = case.expected(Direction::Forward);
        let expected: Vec<f64> = y
            .indices()
            .iter()
            .zip(&products)
            .map(|(index, product)| {
                let sum = product
                    + if has_bias { bias.get(&[0, index[1], 0, 0]) } else { 0.0 }
                    + if has_whole { whole.get(index) } else { 0.0 };
                match last {
                    PointwiseMode::ReluFwd if sum <= 0.0 => 0.0,
                    PointwiseMode::SigmoidFwd => 1.0 / (1.0 + (-sum).exp()),
                    _ => sum,
                }
            })
            .collect();
        // No function has a slope above 1.
        let bound = case.bound(Direction::Forward, convolution);
        for isa in Isa::available() {
            let mut arrays = [case.x.clone(), case.w.clone(), y.clone(), bias.clone(), whole.clone()];
            let settings = Settings { convolution, constant_weights: seed % 3 > 0, ..Settings::default() };
            run_together_for(&operations, case.compute, (*isa, settings), &mut arrays, &between);
            let of = (&between[..], (arrays[2].tensor.uid, 1.0));
            let limit = Limit::of_graph(&operations, case.compute, (*isa, settings), &arrays, of);
            for (at, (got, expected)) in arrays[2].values().into_iter().zip(&expected).enumerate() {
                let [least, most] = [-bound, bound].map(|bound| y.rounded(*expected + bound));
                let is_near = (least..=most).contains(&got)
                    || last == PointwiseMode::SigmoidFwd
                        && (got - expected).abs() <= limit.allows(got, *expected) + bound;
                assert!(
                    is_near || same(got, y.rounded(*expected)),
                    "seed {seed}, {convolution:?} at {isa:?}, element {at} is {got}, expected {expected}\n{:?}\n{:?}\n{operations:?}",
                    case.x.tensor,
                    case.w.tensor,
                );
            }
        }
    }
}
