//! Every backward operation of both engines against finite differences, in double precision.
//!
//! A [`Check`] holds the tensors of two graphs: one computes results, the other computes how Σ result ·
//! weight changes with each operand. The first is run with each element of an operand moved by a small step
//! to either side, and the second must give the difference quotients. Each engine runs both.
//!
//! Every run computes the same values. A failure prints its seed.

mod attention;
mod convolution;
mod graphs;
mod mixture;
mod normalization;
mod pointwise;
mod resample;

use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_cpu_plugin::plan::steps::Plan;
use hipdnn_plugin_sdk::graph::{DataType, Operation};

use super::common::{Case, Random, fill, tensor};

const DOUBLE: DataType = DataType::Double;

/// The step of operands: its error is its square times third derivatives of about 1, and 2⁻⁵³ divided by it.
const STEP: f64 = 1e-5;

/// An operand of the forward graph, and the tensor to which the backward graph writes its gradient.
struct Gradient {
    of: i64,
    written_to: i64,
}

/// A result of the forward graph, and the weights of its elements: the backward graph's incoming gradient.
struct Weighted {
    result: i64,
    weights: i64,
}

/// A forward graph, and the backward graph that is checked against it.
pub struct Check {
    seed: u64,
    pub random: Random,
    /// The tensors of both graphs, without nodes.
    pub case: Case,
    forward: Vec<Operation>,
    backward: Vec<Operation>,
    results: Vec<Weighted>,
    gradients: Vec<Gradient>,
}

impl Check {
    pub fn new(seed: u64) -> Self {
        Self::of(seed, Case::new(), Random(seed))
    }

    /// A check whose tensors already exist.
    pub fn of(seed: u64, mut case: Case, random: Random) -> Self {
        case.graph.compute_type = DOUBLE;
        let (forward, backward) = (Vec::new(), Vec::new());
        Self { seed, random, case, forward, backward, results: Vec::new(), gradients: Vec::new() }
    }

    /// A tensor of any layout.
    pub fn tensor(&mut self, dims: &[i64]) -> i64 {
        tensor(&mut self.random, &mut self.case, DOUBLE, dims)
    }

    /// A filled tensor.
    pub fn given(&mut self, dims: &[i64], low: f64, high: f64) -> i64 {
        let uid = self.tensor(dims);
        fill(&mut self.random, &mut self.case, uid, low, high);
        uid
    }

    /// A virtual tensor.
    pub fn between(&mut self, dims: &[i64]) -> i64 {
        let uid = self.tensor(dims);
        self.case.memory.retain(|memory| memory.tensor.uid != uid);
        self.case
            .graph
            .tensors
            .iter_mut()
            .filter(|tensor| tensor.uid == uid)
            .for_each(|t| t.is_virtual = true);
        uid
    }

    /// The weights of a result's elements.
    pub fn weights(&mut self, result: i64) -> i64 {
        let weights = self.given(&self.dims(result), -1.0, 1.0);
        self.weighted(result, weights);
        weights
    }

    /// The same with an existing tensor of weights.
    pub fn weighted(&mut self, result: i64, weights: i64) {
        self.results.push(Weighted { result, weights });
    }

    /// The tensor for the gradient of an operand.
    pub fn gradient(&mut self, of: i64) -> i64 {
        let written_to = self.tensor(&self.dims(of));
        self.gradient_at(of, written_to);
        written_to
    }

    /// The same with an existing tensor.
    pub fn gradient_at(&mut self, of: i64, written_to: i64) {
        self.gradients.push(Gradient { of, written_to });
    }

    fn dims(&self, uid: i64) -> Vec<i64> {
        self.case.graph.tensor(uid).unwrap().dims.clone()
    }

    pub fn forward(&mut self, operation: impl Into<Operation>) {
        self.forward.push(operation.into());
    }

    pub fn backward(&mut self, operation: impl Into<Operation>) {
        self.backward.push(operation.into());
    }

    /// Checks every gradient with both engines; `tolerance` is relative for slopes above 1.
    #[track_caller]
    pub fn holds(&self, tolerance: f64) {
        for engine in 0..2 {
            let plan = |operations: &[Operation]| {
                let mut graph = self.case.clone();
                operations.iter().for_each(|operation| graph.node(operation.clone()));
                let used: Vec<i64> = operations.iter().flat_map(Operation::tensors).collect();
                graph.graph.tensors.retain(|tensor| used.contains(&tensor.uid));
                planner(engine).plan(&graph.graph).unwrap_or_else(|refusal| panic!("{refusal}"))
            };
            let (forward, backward) = (plan(&self.forward), plan(&self.backward));
            let mut case = self.case.clone();
            let slopes: Vec<Vec<f64>> =
                self.gradients.iter().map(|gradient| self.slopes(&mut case, &forward, gradient.of)).collect();
            // The backward graph reads results of the forward one.
            case.execute(&forward);
            case.execute(&backward);
            for (gradient, slopes) in self.gradients.iter().zip(slopes) {
                self.compare(engine, &case, gradient, &slopes, tolerance);
            }
        }
    }

    fn compare(&self, engine: usize, case: &Case, gradient: &Gradient, slopes: &[f64], tolerance: f64) {
        let (seed, written_to) = (self.seed, gradient.written_to);
        let got = case.values(written_to);
        assert_eq!(got.len(), slopes.len());
        let tensors = || -> Vec<(i64, &[i64], &[i64])> {
            self.case
                .graph
                .tensors
                .iter()
                .map(|tensor| (tensor.uid, &tensor.dims[..], &tensor.strides[..]))
                .collect()
        };
        for (at, (got, slope)) in got.iter().zip(slopes).enumerate() {
            assert!(
                (got - slope).abs() <= tolerance * slope.abs().max(1.0),
                "seed {seed}, engine {engine}: tensor {written_to}, the gradient of tensor {}: element {at} is {got}, \
                 expected {slope}\n{:?}\n{:#?}",
                gradient.of,
                self.backward,
                tensors()
            );
        }
        assert!(slopes.iter().any(|slope| slope.abs() > 1e-3), "seed {seed}: nothing to see in {written_to}");
    }

    /// The weighted sum of the results with these operands.
    fn value(&self, case: &mut Case, forward: &Plan) -> f64 {
        case.execute(forward);
        let of = |weighted: &Weighted| -> f64 {
            let terms = case.values(weighted.result).into_iter().zip(case.values(weighted.weights));
            terms.map(|(result, weight)| if weight == 0.0 { 0.0 } else { result * weight }).sum()
        };
        self.results.iter().map(of).sum()
    }

    fn slopes(&self, case: &mut Case, forward: &Plan, operand: i64) -> Vec<f64> {
        let mut at = case.values(operand);
        let mut slopes = Vec::with_capacity(at.len());
        for place in 0..at.len() {
            let here = at[place];
            let [below, above] = [here - STEP, here + STEP].map(|moved| {
                at[place] = moved;
                case.fill(operand, &at);
                self.value(case, forward)
            });
            at[place] = here;
            slopes.push((above - below) / (2.0 * STEP));
        }
        case.fill(operand, &at);
        slopes
    }
}
