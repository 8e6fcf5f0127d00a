mod rows;

use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Operation, PointwiseMode};
use hipdnn_plugin_sdk::rounding::to_half;

use crate::dtype::element::{Compute, ComputeType};
use crate::pointwise::chain::{Chain, Input, Value};
use crate::pointwise::plan_chain;
use crate::pointwise::scalar::{ActivationParameters, function};
use crate::problem::pointwise::Activation;
use crate::simd::isa::Isa;
use crate::testing::limits::Limit;
use crate::testing::{Array, Random, operand, order, run, run_kernel, same, strides};
use crate::threading::partition::Threads;

fn operation(mode: PointwiseMode, inputs: usize, random: &mut Random) -> Pointwise {
    let mut parameter = |low: f32| random.of(&[None, Some(low), Some(low + 0.5)]);
    Pointwise {
        in_0: 1,
        out_0: 9,
        in_1: (inputs > 1).then_some(2),
        in_2: (inputs > 2).then_some(3),
        axis: None,
        operation: mode,
        relu_lower_clip: parameter(-0.5),
        relu_upper_clip: parameter(1.0),
        relu_lower_clip_slope: parameter(0.0),
        swish_beta: parameter(0.5),
        elu_alpha: parameter(0.5),
        softplus_beta: parameter(0.5),
    }
}

/// The parameters that an operation computes with.
fn parameters<T: ComputeType>(operation: &Pointwise) -> ActivationParameters<T> {
    let real = |value: f32| T::from_f64(f64::from(value));
    let number = |value: Option<f32>, otherwise: f32| real(value.unwrap_or(otherwise));
    ActivationParameters {
        lower_clip: number(operation.relu_lower_clip, 0.0),
        upper_clip: operation.relu_upper_clip.map(real),
        lower_clip_slope: number(operation.relu_lower_clip_slope, 0.0),
        swish_beta: number(operation.swish_beta, 1.0),
        elu_alpha: number(operation.elu_alpha, 1.0),
        softplus_beta: number(operation.softplus_beta, 1.0),
    }
}

/// A mode in double precision must give what the reference's function gives, with operands that are dense,
/// broadcast over [1, C, 1, ...] or over the last dimension, or of any other shape.
fn check(mode: PointwiseMode, dims: &[i64], random: &mut Random, isa: Isa) {
    let mut arrays = Vec::new();
    let output = strides(dims, &order(dims.len(), random.within(0, 2)), random.of(&[0, 0, 2]));
    for uid in 1..=mode.operands() as i64 {
        let shape: Vec<i64> = match random.within(0, 4) {
            0 => dims.iter().enumerate().map(|(i, dim)| if i == 1 { *dim } else { 1 }).collect(),
            1 => dims[dims.len() - 1..].to_vec(),
            2 => vec![1],
            _ => dims.to_vec(),
        };
        let same_order = shape.len() == dims.len() && random.of(&[true, false]) && shape == dims;
        let steps = if same_order {
            output.clone()
        } else {
            strides(&shape, &order(shape.len(), random.within(0, 2)), 0)
        };
        let data_type = random.of(&[DataType::Double, DataType::Double, DataType::Half, DataType::Boolean]);
        arrays.push(Array::new(uid, data_type, &shape, &steps).filled(|| match random.within(0, 19) {
            0 => random.of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]),
            1..5 => random.whole(),
            _ => random.real(),
        }));
    }
    let data_type = random.of(&[DataType::Double, DataType::Double, DataType::Bfloat16, DataType::Int32]);
    let inputs = arrays.clone();
    arrays.push(Array::new(9, data_type, dims, &output));
    let operation = operation(mode, inputs.len(), random);
    let parameters = parameters::<f64>(&operation);
    run(operation.into(), DataType::Double, isa, &mut arrays).unwrap();
    let function = function::<f64>(mode).unwrap();
    let result = arrays.last().unwrap();
    for index in result.indices() {
        let mut operands = [0.0; 3];
        for (operand, input) in operands.iter_mut().zip(&inputs) {
            let dims = &input.tensor.dims;
            let own: Vec<usize> = index[index.len() - dims.len()..]
                .iter()
                .zip(dims)
                .map(|(i, dim)| if *dim == 1 { 0 } else { *i })
                .collect();
            *operand = input.get(&own);
        }
        let expected = result.rounded(function(operands, &parameters));
        let got = result.get(&index);
        assert!(
            same(got, expected),
            "{mode:?} of {operands:?} at {isa:?} is {got}, expected {expected}, with {parameters:?} as {data_type:?}"
        );
    }
}

#[test]
fn every_mode_matches_its_function() {
    let mut random = Random::new(5);
    for mode in PointwiseMode::ALL {
        if function::<f64>(*mode).is_none() {
            continue;
        }
        for isa in Isa::available() {
            for _ in 0..12 {
                let rank = random.within(2, 4);
                let mut dims: Vec<i64> = (0..rank).map(|_| random.of(&[1, 2, 3, 7, 20])).collect();
                // Also rows that are not joined.
                dims[rank - 1] = random.of(&[dims[rank - 1], dims[rank - 1], 150]);
                check(*mode, &dims, &mut random, *isa);
            }
        }
    }
}

#[test]
fn single_precision_is_close_to_the_functions() {
    let mut random = Random::new(11);
    for mode in PointwiseMode::ALL {
        let Some(function) = function::<f32>(*mode) else { continue };
        for isa in Isa::available() {
            let len = 1000;
            let mut arrays: Vec<Array> = (1..=mode.operands() as i64)
                .map(|uid| {
                    Array::new(uid, DataType::Float, &[len], &[1]).filled(|| match random.within(0, 29) {
                        0 => random.of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0]),
                        1..4 => 40.0 * random.real(),
                        _ => random.real(),
                    })
                })
                .collect();
            let inputs: Vec<Vec<f64>> = arrays.iter().map(Array::values).collect();
            arrays.push(Array::new(9, DataType::Float, &[len], &[1]));
            let operation = operation(*mode, inputs.len(), &mut random);
            let parameters = parameters::<f32>(&operation);
            let operation: Operation = operation.into();
            let limit = Limit::new(&operation, DataType::Float, *isa, &arrays, (9, 1.0));
            run(operation, DataType::Float, *isa, &mut arrays).unwrap();
            for (i, got) in arrays.last().unwrap().values().into_iter().enumerate() {
                let mut operands = [0.0; 3];
                for (operand, input) in operands.iter_mut().zip(&inputs) {
                    *operand = input[i] as f32;
                }
                let expected = f64::from(function(operands, &parameters));
                let size = operands.iter().fold(1.0, |size: f32, operand| size.max(operand.abs()));
                let limit = limit.beside(f64::from(size) * (1.0 + expected.abs()));
                assert!(
                    limit.holds(got, expected) || same(got, expected),
                    "{mode:?} of {operands:?} at {isa:?} is {got}, expected {expected}, with {parameters:?}"
                );
            }
        }
    }
}

#[test]
fn work_for_several_threads() {
    let mut random = Random::new(6);
    for mode in [PointwiseMode::Add, PointwiseMode::ReluBwd, PointwiseMode::TanhFwd] {
        for dims in [[3, 5, 70, 90], [1, 1, 300, 400], [40, 60, 8, 8]] {
            check(mode, &dims, &mut random, Isa::detect());
        }
    }
}

#[test]
fn the_index_matches_the_reference() {
    let mut random = Random::new(7);
    let operation = Pointwise { axis: Some(0), ..operation(PointwiseMode::GenIndex, 1, &mut random) };
    let mut arrays = [1, 9].map(|uid| Array::new(uid, DataType::Float, &[4], &[1]));
    let refusal = run(operation.into(), DataType::Float, Isa::detect(), &mut arrays).unwrap_err();
    assert!(refusal.contains("gen_index"));
}

/// Modes of chains: most of a few instructions, some with their own loop.
const OF_CHAINS: [PointwiseMode; 14] = [
    PointwiseMode::Add,
    PointwiseMode::Sub,
    PointwiseMode::Mul,
    PointwiseMode::Div,
    PointwiseMode::Max,
    PointwiseMode::Min,
    PointwiseMode::Abs,
    PointwiseMode::Neg,
    PointwiseMode::ReluFwd,
    PointwiseMode::Identity,
    PointwiseMode::CmpGe,
    PointwiseMode::BinarySelect,
    PointwiseMode::AddSquare,
    PointwiseMode::Floor,
];

/// A chain over `len` values in double precision gives bit for bit the same as its functions one by one.
fn check_chain(random: &mut Random, isa: Isa, len: usize) {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0];
    let mut inputs: Vec<Vec<f64>> = (0..random.within(1, 5))
        .map(|_| (0..len).map(|i| if i % 7 == 3 { random.of(&special) } else { random.real() }).collect())
        .collect();
    let mut chain = Chain::default();
    for slot in 0..inputs.len() {
        let mut strides = [0; crate::layout::MAX_RANK];
        strides[0] = 1;
        chain.inputs.push(Input { slot, data_type: DataType::Double, strides, replaced: false });
    }
    // Sometimes the result overwrites an input.
    let replaced = random.within(0, 2) == 0;
    chain.inputs[0].replaced = replaced;
    let mut expected: Vec<Vec<f64>> = Vec::new();
    for number in 0..random.within(1, 20) {
        let mode = random.of(&OF_CHAINS);
        let value = |random: &mut Random| match number {
            0 => Value::Input(random.within(0, inputs.len() - 1)),
            _ if random.within(0, 3) > 0 => Value::Step(number - 1),
            _ if random.within(0, 1) > 0 => Value::Step(random.within(number.saturating_sub(5), number - 1)),
            _ => Value::Input(random.within(0, inputs.len() - 1)),
        };
        let operands: Vec<Value> = (0..mode.operands()).map(|_| value(random)).collect();
        let half = random.within(0, 9) == 0;
        let stored = if half { DataType::Half } else { DataType::Double };
        chain.push_mode(mode, operands.clone(), stored);
        let parameters = ActivationParameters::of(&Activation::default());
        let at = |value: &Value, i: usize| match value {
            Value::Input(input) => inputs[*input][i],
            Value::Step(step) => expected[*step][i],
        };
        let results = (0..len).map(|i| {
            let mut values = [0.0; 3];
            for (to, operand) in values.iter_mut().zip(&operands) {
                *to = at(operand, i);
            }
            function::<f64>(mode).unwrap()(values, &parameters)
        });
        let round = |number: f64| if half { to_half(number).to_f64() } else { number };
        let results: Vec<f64> = results.map(round).collect();
        expected.push(results);
    }
    // Only the output rounds the last result.
    chain.push_mode(PointwiseMode::Neg, vec![Value::Step(expected.len() - 1)], DataType::Double);
    let negated = expected[expected.len() - 1].iter().map(|number| -number).collect();
    expected.push(negated);
    let steps = chain.steps.len();
    let slot = if replaced { 0 } else { inputs.len() };
    let output = operand(slot, DataType::Double, &[len as i64], &[1]);
    let kernel = plan_chain(&chain, &output, Compute::Double, isa, Threads::default());
    let kernel = match kernel {
        Ok(kernel) => kernel,
        Err(refusal) => {
            assert!(refusal.contains("keeps more"), "{refusal}");
            return;
        }
    };
    let mut out = vec![f64::NAN; len];
    let mut pointers: Vec<*mut u8> = inputs.iter_mut().map(|input| input.as_mut_ptr().cast()).collect();
    pointers.push(out.as_mut_ptr().cast());
    // SAFETY: every input and the result have `len` elements.
    unsafe { run_kernel(&*kernel, &pointers) };
    let result = if replaced { &inputs[0] } else { &out };
    for (i, (got, expected)) in result.iter().zip(&expected[steps - 1]).enumerate() {
        assert!(same(*got, *expected), "{got} at {i} of {len}, expected {expected}, at {isa:?}: {chain:#?}");
    }
}

#[test]
fn chains_match_their_operations() {
    let mut random = Random::new(21);
    for isa in Isa::available() {
        for _ in 0..400 {
            let len = random.of(&[1, 5, 16, 63, 64, 200, 256, 257, 1000]);
            check_chain(&mut random, *isa, len);
        }
    }
}

#[test]
fn repeated_elements_are_copied() {
    let mut random = Random::new(31);
    for data_type in [DataType::Float, DataType::Double, DataType::Half] {
        for times in [1, 2, 3, 17] {
            let (height, width) = (random.within(1, 5) as i64, random.within(2, 40) as i64);
            let dims = [2, height, random.of(&[1, 2]), width, times];
            let from = [2, height, 1, width, 1];
            let x = Array::new(1, data_type, &from, &strides(&from, &order(5, 0), random.of(&[0, 0, 3])));
            let x = x.filled(|| random.whole());
            for isa in Isa::available() {
                let mut arrays =
                    vec![x.clone(), Array::new(9, data_type, &dims, &strides(&dims, &order(5, 0), 0))];
                let operation = Pointwise::new(PointwiseMode::Identity, 1, None, 9);
                let compute = if data_type == DataType::Double { data_type } else { DataType::Float };
                run(operation.into(), compute, *isa, &mut arrays).unwrap();
                for index in arrays[1].indices() {
                    let [n, h, _, w, _] = index[..] else { unreachable!() };
                    assert_eq!(
                        arrays[1].get(&index),
                        x.get(&[n, h, 0, w, 0]),
                        "{index:?} of {dims:?} at {isa:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_rest_of_a_chain_begins_with_its_last_value() {
    let input = |slot: usize| Input {
        slot,
        data_type: DataType::Float,
        strides: [1; crate::layout::MAX_RANK],
        replaced: slot == 0,
    };
    let mut chain = Chain { inputs: (0..3).map(input).collect(), steps: Vec::new() };
    let mut push = |mode, operands: &[Value]| chain.push_mode(mode, operands.to_vec(), DataType::Float);
    let biased = push(PointwiseMode::Add, &[Value::Input(0), Value::Input(1)]);
    let gate = push(PointwiseMode::SigmoidFwd, &[biased]);
    let swish = push(PointwiseMode::Mul, &[biased, gate]);
    push(PointwiseMode::Add, &[swish, Value::Input(2)]);
    let rest = chain.after(1).expect("only the first step reads the input");
    assert_eq!(rest.inputs, [input(0), input(2)]);
    let operands: Vec<_> = rest.steps.iter().map(|step| step.operands.clone()).collect();
    let expected =
        [vec![Value::Input(0)], vec![Value::Input(0), Value::Step(0)], vec![Value::Step(1), Value::Input(1)]];
    assert_eq!(operands, expected);
    assert_eq!(chain.after(2), None, "the product reads the sum again");
    let last = chain.after(3).expect("the last step reads the product");
    assert_eq!(last.steps[0].operands, [Value::Input(0), Value::Input(1)]);
}
