//! A depthwise convolution and the 1 × 1 convolution behind it are one step, with the bits of one node after the other.

use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Pointwise};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Graph, Node, Operation, PointwiseMode as M, Tensor};

use crate::fusion::graph::parts_at;
use crate::prepare::prepare;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::testing::{Array, Random, packed, run, run_together_for};
use crate::threading::partition::Threads;

const X: i64 = 1;
const W: i64 = 2;
const Y: i64 = 3;
const FIRST_BIAS: i64 = 4;
const WEIGHTS: i64 = 5;
const BIAS: i64 = 6;
const RESIDUAL: i64 = 7;
/// The first result of a node; those of the others follow.
const RESULTS: i64 = 10;

fn convolution(x: i64, w: i64, y: i64, [padding, stride]: [i64; 2]) -> Operation {
    let conv_mode = ConvMode::CrossCorrelation;
    let [pre_padding, post_padding] = [vec![padding; 2], vec![padding; 2]];
    let (stride, dilation) = (vec![stride; 2], vec![1; 2]);
    ConvolutionForward { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode }.into()
}

/// The operations, and the tensors of their results.
struct Block {
    operations: Vec<Operation>,
    results: Vec<Tensor>,
    dims: Vec<i64>,
}

impl Block {
    fn last(&self) -> i64 {
        RESULTS + self.results.len() as i64 - 1
    }

    fn push(&mut self, operation: impl FnOnce(i64, i64) -> Operation) {
        let (from, to) = (self.last(), self.last() + 1);
        self.operations.push(operation(from, to));
        self.results.push(packed(to, DataType::Float, &self.dims));
    }

    fn pointwise(&mut self, mode: M, other: Option<i64>) {
        self.push(|from, to| Pointwise::new(mode, from, other, to).into());
    }

    fn clip(&mut self) {
        self.push(|from, to| {
            let mut clip = Pointwise::new(M::ReluFwd, from, None, to);
            clip.relu_upper_clip = Some(2.5);
            clip.into()
        });
    }
}

#[test]
fn depthwise_and_pointwise_are_one_step() {
    for seed in 0..48 {
        let mut random = Random::new(900 + seed);
        let [batch, channels] = [random.within(1, 3), random.within(2, 40)].map(|n| n as i64);
        let outputs = random.within(1, 70) as i64;
        let [side, stride] = [random.of(&[3, 5]), random.of(&[1, 2])];
        // Filters that meet narrow images only partly are no such steps.
        let columns = if seed % 4 == 0 { random.within(1, 7) } else { random.within(8, 40) } as i64;
        let rows = random.of(&[7, 14, 28]);
        let input = [rows * stride, columns * stride];
        let between = vec![batch, channels, rows, columns];
        let mut block = Block {
            operations: vec![convolution(X, W, RESULTS, [side / 2, stride])],
            results: vec![packed(RESULTS, DataType::Float, &between)],
            dims: between,
        };
        block.pointwise(M::Add, Some(FIRST_BIAS));
        match random.within(0, 2) {
            0 => block.clip(),
            1 => {
                let biased = block.last();
                block.pointwise(M::SigmoidFwd, None);
                block.pointwise(M::Mul, Some(biased));
            }
            _ => {}
        }
        block.dims[1] = outputs;
        block.push(|from, to| convolution(from, WEIGHTS, to, [0, 1]));
        // Nor are sums that are rounded to integers.
        let is_whole = seed % 8 == 1;
        if is_whole && let Some(sums) = block.results.last_mut() {
            sums.data_type = DataType::Int32;
        }
        for (mode, other) in [(M::Add, BIAS), (M::Add, RESIDUAL)] {
            if random.within(0, 2) > 0 {
                block.pointwise(mode, Some(other));
            }
        }
        match random.within(0, 2) {
            0 => block.clip(),
            1 => block.pointwise(M::TanhFwd, None),
            _ => {}
        }
        let mut array =
            |uid, dims: &[i64]| Array::packed(uid, DataType::Float, dims).filled(|| random.real());
        let known = [
            array(X, &[batch, channels, input[0], input[1]]),
            array(W, &[channels, 1, side, side]),
            array(FIRST_BIAS, &[1, channels, 1, 1]),
            array(WEIGHTS, &[outputs, channels, 1, 1]),
            array(BIAS, &[1, outputs, 1, 1]),
            array(RESIDUAL, &block.dims),
        ];
        let is_separable = if is_whole { Some(false) } else { (columns > 7).then_some(true) };
        check(seed, &block, &known, is_separable);
    }
}

fn check(seed: u64, block: &Block, known: &[Array], is_separable: Option<bool>) {
    let virtuals: Vec<_> =
        block.results.iter().map(|tensor| Tensor { is_virtual: true, ..tensor.clone() }).collect();
    let (last, between) = virtuals.split_last().unwrap();
    let result = Array::packed(Y, last.data_type, &last.dims);
    let mut operations = block.operations.clone();
    match operations.last_mut() {
        Some(Operation::Pointwise(pointwise)) => pointwise.out_0 = Y,
        Some(Operation::ConvolutionForward(convolution)) => convolution.y = Y,
        other => panic!("{other:?}"),
    }
    let node = |operation| Node { name: String::new(), compute_type: DataType::Float, operation };
    let tensors = known.iter().map(|array| array.tensor.clone()).chain([result.tensor.clone()]);
    let graph = Graph {
        tensors: tensors.chain(between.iter().cloned()).collect(),
        nodes: operations.iter().cloned().map(node).collect(),
        ..Graph::default()
    };
    for isa in Isa::available() {
        let mut all = known.to_vec();
        for (operation, tensor) in block.operations.iter().zip(&block.results) {
            all.push(Array::packed(tensor.uid, tensor.data_type, &tensor.dims));
            run(operation.clone(), DataType::Float, *isa, &mut all).unwrap();
        }
        let expected = all.last().unwrap().values();
        for (most, deterministic) in [(1, false), (3, false), (3, true)] {
            let settings = Settings::from(Threads { most, deterministic, ..Threads::default() });
            let parts = parts_at(&prepare(&graph).unwrap(), *isa, settings).unwrap();
            let names: Vec<_> = parts.iter().map(|part| part.kernel.facts().algorithm).collect();
            // The bands may not divide among several threads.
            let is_one = names == ["separable"];
            let is_expected = is_separable.is_none_or(|wanted| is_one == wanted || (wanted && most > 1));
            assert!(is_expected, "seed {seed}, {isa:?}: {names:?} of {operations:?}");
            let mut arrays = known.to_vec();
            arrays.push(result.clone());
            run_together_for(&operations, DataType::Float, (*isa, settings), &mut arrays, between);
            let got = arrays.last().unwrap().values();
            assert!(got == expected, "seed {seed}, {most} threads, {isa:?}: {operations:?}");
        }
    }
}
