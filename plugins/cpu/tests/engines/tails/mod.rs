//! Pointwise nodes behind every kind of node: a plan that fuses them has the bits of one that does not.
//!
//! Each graph is planned twice: with its intermediate tensors in memory, where every node is a step of its
//! own, and with virtual ones.

mod anchors;

use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode as M, TensorValue};

use self::anchors::{ANCHORS, Anchor};
use super::common::{Case, Random, cases};
use super::integers::{BYTES, node};
use super::quantized::NO_FRACTION;
use hipdnn_cpu_plugin::fusion::graph::parts_at;
use hipdnn_cpu_plugin::plan::steps::Plan;
use hipdnn_cpu_plugin::settings::{Algorithm, Settings};
use hipdnn_cpu_plugin::simd::isa::Isa;
use hipdnn_cpu_plugin::threading::partition::Threads;
use hipdnn_plugin_planner::prepare::prepare;

/// A graph, the result of its first node, and what follows.
struct Tail {
    case: Case,
    /// The tensors so far; the last one is read next.
    values: Vec<i64>,
    dims: Vec<i64>,
    compute: DataType,
    strides: Vec<i64>,
}

impl Tail {
    fn last(&self) -> i64 {
        self.values[self.values.len() - 1]
    }

    /// Adds a node that reads the last result.
    fn push(&mut self, of: DataType, operation: impl FnOnce(i64, i64) -> Pointwise) {
        let out = self.case.tensor_with(of, &self.dims, &self.strides);
        let operation = operation(self.last(), out);
        node(&mut self.case, self.compute, operation);
        self.values.push(out);
    }

    /// A constant, or a tensor of this value.
    fn number(&mut self, random: &mut Random, value: f32) -> i64 {
        if random.chance(50) {
            return self.case.value(DataType::Float, TensorValue::Float32(value));
        }
        let uid = self.case.tensor(DataType::Float, &vec![1; self.dims.len()]);
        self.case.memory(uid).fill(|| f64::from(value));
        uid
    }

    /// An operand that spreads to the result.
    fn operand(&mut self, random: &mut Random) -> i64 {
        let mut dims = self.dims.clone();
        match random.int(0, 4) {
            0 | 1 => {
                let value = random.one_of(&[0.0, 1.0, -1.0, 0.3, 7.3, 1e-3, NO_FRACTION, -NO_FRACTION]);
                return self.number(random, value);
            }
            2 | 3 => dims.iter_mut().enumerate().filter(|(at, _)| *at != 1).for_each(|(_, dim)| *dim = 1),
            _ => {}
        }
        let uid = self.case.tensor(DataType::Float, &dims);
        self.case.memory(uid).fill(|| random.real(-3.0, 3.0));
        uid
    }

    /// Adds a random node.
    fn grow(&mut self, random: &mut Random) {
        let wide = if self.compute == DataType::Double { DataType::Double } else { DataType::Float };
        let small = [DataType::Half, DataType::Half, DataType::Bfloat16, DataType::Int8, DataType::Int32];
        let of = if random.chance(15) { random.one_of(&small) } else { wide };
        match random.int(0, 9) {
            0..=6 => {
                let mode =
                    random.one_of(&[M::Mul, M::Mul, M::Add, M::Add, M::Sub, M::Sub, M::Max, M::Min, M::Div]);
                let other = match random.chance(10) {
                    true => random.one_of(&self.values),
                    false => self.operand(random),
                };
                let first = random.chance(75);
                self.push(of, |last, out| match first {
                    true => Pointwise::new(mode, last, Some(other), out),
                    false => Pointwise::new(mode, other, Some(last), out),
                });
            }
            7 => {
                let (upper, slope) =
                    (random.one_of(&[None, None, Some(6.0)]), random.one_of(&[None, Some(0.1)]));
                let lower = random.one_of(&[None, None, Some(-0.5)]);
                self.push(of, |last, out| Pointwise {
                    relu_upper_clip: upper,
                    relu_lower_clip_slope: slope,
                    relu_lower_clip: lower,
                    ..Pointwise::new(M::ReluFwd, last, None, out)
                });
            }
            _ => {
                let modes = [
                    M::SigmoidFwd,
                    M::TanhFwd,
                    M::GeluFwd,
                    M::SwishFwd,
                    M::Abs,
                    M::Neg,
                    M::Floor,
                    M::Identity,
                ];
                let mode = random.one_of(&modes);
                self.push(of, |last, out| Pointwise::new(mode, last, None, out));
            }
        }
    }

    /// Adds and subtracts a number that leaves no fraction.
    fn round(&mut self, random: &mut Random) {
        let number = self.number(random, NO_FRACTION);
        self.push(DataType::Float, |last, out| Pointwise::new(M::Add, last, Some(number), out));
        self.push(DataType::Float, |last, out| Pointwise::new(M::Sub, last, Some(number), out));
    }

    /// Adds nodes that quantize the last result to bytes, and half the time those that dequantize it.
    fn quantize(&mut self, random: &mut Random) {
        let of = random.one_of(&BYTES);
        let scale = random.one_of(&[0.03, 0.125, 1.7]);
        let zero = if of == DataType::Int8 { random.int(-20, 20) } else { random.int(0, 200) } as f32;
        let (factor, mode) = if random.chance(50) { (scale, M::Div) } else { (1.0 / scale, M::Mul) };
        let [factor, zero_point] = [factor, zero].map(|value| self.number(random, value));
        self.push(DataType::Float, |last, out| Pointwise::new(mode, last, Some(factor), out));
        match random.int(0, 2) {
            0 => self.round(random),
            1 => self.push(DataType::Float, |last, out| Pointwise::new(M::Floor, last, None, out)),
            _ => {}
        }
        self.push(of, |last, out| Pointwise::new(M::Add, last, Some(zero_point), out));
        if random.chance(50) {
            let scale = self.number(random, scale);
            self.push(DataType::Float, |last, out| Pointwise::new(M::Sub, last, Some(zero_point), out));
            self.push(DataType::Float, |last, out| Pointwise::new(M::Mul, last, Some(scale), out));
        }
    }

    /// The values of the last result with intermediate tensors in memory, and with virtual ones.
    fn results(&self, isa: Isa, settings: Settings) -> [Vec<f64>; 2] {
        let between = &self.values[..self.values.len() - 1];
        let mut joined = self.case.clone();
        joined.memory.retain(|memory| !between.contains(&memory.tensor.uid));
        for tensor in joined.graph.tensors.iter_mut().filter(|tensor| between.contains(&tensor.uid)) {
            tensor.is_virtual = true;
        }
        [self.case.clone(), joined].map(|mut case| {
            let plan =
                Plan::in_parts(&prepare(&case.graph).unwrap(), |prepared| parts_at(prepared, isa, settings));
            case.execute(&plan.unwrap());
            case.values(self.last())
        })
    }

    /// The nodes, each with its compute type and the types of its result.
    fn nodes(&self) -> String {
        let described = self.case.graph.nodes.iter().map(|node| {
            let outputs = node.operation.outputs();
            let of = outputs.iter().filter_map(|uid| self.case.graph.tensor(*uid));
            let of: Vec<_> = of.map(|tensor| (tensor.data_type, &tensor.dims)).collect();
            format!("{:?} in {:?} to {of:?}", node.operation, node.compute_type)
        });
        described.collect::<Vec<_>>().join("\n")
    }

    /// Checks that both plans give the same bits; returns the values.
    fn check(&self, random: &mut Random) -> Result<Vec<f64>, String> {
        let threads = Threads { most: random.int(1, 2) as usize, deterministic: true, ..Threads::default() };
        let settings = Settings {
            threads,
            convolution: if random.chance(50) {
                Algorithm::Automatic
            } else {
                random.one_of(&Algorithm::VALUES)
            },
            ..Settings::default()
        };
        let mut last = Vec::new();
        for isa in Isa::available() {
            let [apart, joined] = self.results(*isa, settings);
            // The sign of a zero may differ.
            let differs = |(a, b): (&f64, &f64)| a != b && !(a.is_nan() && b.is_nan());
            if let Some(at) = apart.iter().zip(&joined).position(differs) {
                return Err(format!(
                    "at {isa:?} with {settings:?}: element {at} is {}, node by node {}\n{}",
                    joined[at],
                    apart[at],
                    self.nodes()
                ));
            }
            last = joined;
        }
        Ok(last)
    }
}

/// Makes graphs for each anchor, and fails with how many of each differ, and the first of them.
fn compare(cases: u64, salt: u64, make: impl Fn(Anchor, &mut Random) -> Option<Result<(), String>>) {
    let (mut counts, mut all) = (Vec::new(), Vec::new());
    for anchor in ANCHORS {
        let mut wrong: Vec<String> = (0..cases)
            .filter_map(|seed| {
                let random = &mut Random(seed + (anchor as u64 + salt) * (1 << 32));
                make(anchor, random)?.err().map(|words| format!("{anchor:?}, seed {seed}: {words}"))
            })
            .collect();
        if !wrong.is_empty() {
            counts.push((anchor, wrong.len()));
            all.push(wrong.swap_remove(0));
        }
    }
    assert!(all.is_empty(), "of {cases} graphs each {counts:?} differ\n{}", all.join("\n\n"));
}

#[test]
fn fused_tails_have_the_bits_of_single_nodes() {
    compare(cases(250), 1, |anchor, random| {
        let mut tail = Tail::of(anchor, random);
        (0..random.int(1, 7)).for_each(|_| tail.grow(random));
        Some(tail.check(random).map(drop))
    });
}

#[test]
fn quantized_tails_have_the_bits_of_single_nodes() {
    compare(cases(150), 101, |anchor, random| {
        let mut tail = Tail::of(anchor, random);
        for _ in 0..random.int(1, 3) {
            (0..random.int(0, 2)).for_each(|_| tail.grow(random));
            tail.quantize(random);
        }
        Some(tail.check(random).map(drop))
    });
}

#[test]
fn rounding_behind_any_node_leaves_no_fraction() {
    compare(cases(200), 201, |anchor, random| {
        let mut tail = Tail::of(anchor, random);
        if tail.compute == DataType::Double {
            return None;
        }
        let factor = tail.number(random, 7.3);
        tail.push(DataType::Float, |last, out| Pointwise::new(M::Mul, last, Some(factor), out));
        if random.chance(50) {
            tail.grow(random);
        }
        tail.round(random);
        Some(tail.check(random).and_then(|values| {
            // A sum with a number below -2²² has half integers.
            let fraction = values.iter().find(|value| value.abs() < 4e6 && value.fract() != 0.0);
            fraction.map_or(Ok(()), |value| Err(format!("{value}\n{}", tail.nodes())))
        }))
    });
}
