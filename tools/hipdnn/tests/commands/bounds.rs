//! The errors of sums and products beside their bounds, and results beside the tolerance of `--check`, over random graphs.

use hipdnn::{Backend, Handle};
use hipdnn_tool::comparison::{Changes, Judged, judge};
use hipdnn_tool::computation::{Loaded, inputs, plan, reference};
use hipdnn_tool::double;
use hipdnn_tool::numerics::{Report, Row, results};
use hipdnn_tool::rounding::Limits;
use hipdnn_tool::steps;
use hipdnn_tool::tensor::Random;
use hipdnn_tool::views::Views;
use serde_json::{Value, json};

use crate::{cpu_plugin, library};

/// Few graphs, or as many as every night.
fn count() -> u64 {
    if std::env::var_os("HIPDNN_TEST_LONG").is_some() { 10_000 } else { 300 }
}

/// A random graph, node by node.
struct Draft {
    random: Random,
    tensors: Vec<Value>,
    nodes: Vec<Value>,
}

/// A tensor that nodes can read.
#[derive(Clone)]
struct Made {
    uid: usize,
    dims: Vec<i64>,
}

const TYPES: [&str; 4] = ["float", "half", "bfloat16", "double"];

impl Draft {
    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.random.whole(0, all.len() as i64 - 1) as usize]
    }

    fn tensor(&mut self, dims: &[i64], is_virtual: bool) -> Made {
        let mut strides = vec![1; dims.len()];
        for at in (1..dims.len()).rev() {
            strides[at - 1] = strides[at] * dims[at];
        }
        let uid = self.tensors.len() + 1;
        let data_type = self.one_of(&TYPES);
        self.tensors
            .push(json!({"uid": uid, "name": "", "data_type": data_type, "dims": dims, "strides": strides,
                                 "virtual": is_virtual}));
        Made { uid, dims: dims.to_vec() }
    }

    fn node(&mut self, kind: &str, inputs: Value, (role, out): (&str, &Made), parameters: Value) {
        let compute = self.one_of(&["float", "float", "double"]);
        let mut node = json!({"type": kind, "name": "", "compute_data_type": compute, "inputs": inputs,
                              "outputs": {role: out.uid}});
        if !parameters.is_null() {
            node["parameters"] = parameters;
        }
        self.nodes.push(node);
    }

    /// Appends an operation on a tensor. Returns its result.
    fn step(&mut self, of: &Made) -> Made {
        let dims = of.dims.clone();
        match self.random.whole(0, 6) {
            0 | 1 => {
                let modes = ["add", "sub", "mul"];
                let mode = self.one_of(&modes);
                // The same tensor twice may cancel altogether.
                let other = self.tensor(&dims, false);
                let out = self.tensor(&dims, true);
                let inputs =
                    json!({"operation": mode, "in_0_tensor_uid": of.uid, "in_1_tensor_uid": other.uid});
                self.node("PointwiseAttributes", inputs, ("out_0_tensor_uid", &out), Value::Null);
                out
            }
            2 => {
                let mode = self.one_of(&["relu_fwd", "tanh_fwd", "abs", "neg", "sigmoid_fwd", "exp"]);
                let out = self.tensor(&dims, true);
                let inputs = json!({"operation": mode, "in_0_tensor_uid": of.uid});
                self.node("PointwiseAttributes", inputs, ("out_0_tensor_uid", &out), Value::Null);
                out
            }
            3 => {
                let axis = self.random.whole(0, dims.len() as i64 - 1) as usize;
                let mut less = dims;
                less[axis] = 1;
                let out = self.tensor(&less, true);
                let mode = self.one_of(&["add", "avg"]);
                let compute = self.one_of(&["float", "double"]);
                self.nodes.push(
                    json!({"type": "ReductionAttributes", "name": "", "compute_data_type": compute,
                    "in_tensor_uid": of.uid, "out_tensor_uid": out.uid, "mode": mode.to_uppercase(),
                    "is_deterministic": false}),
                );
                out
            }
            _ if dims.len() == 4 => {
                let (channels, kernel) = (self.random.whole(1, 24), 1 + 2 * self.random.whole(0, 1));
                let pad = kernel / 2;
                let filter = self.tensor(&[channels, dims[1], kernel, kernel], false);
                let out = self.tensor(&[dims[0], channels, dims[2], dims[3]], true);
                let inputs = json!({"x_tensor_uid": of.uid, "w_tensor_uid": filter.uid});
                let parameters = json!({"pre_padding": [pad, pad], "post_padding": [pad, pad], "stride": [1, 1],
                                        "dilation": [1, 1], "conv_mode": "CROSS_CORRELATION"});
                self.node("ConvolutionFwdAttributes", inputs, ("y_tensor_uid", &out), parameters);
                out
            }
            _ => {
                let columns = self.random.whole(1, 40);
                let factor = self.tensor(&[dims[0], dims[2], columns], false);
                let out = self.tensor(&[dims[0], dims[1], columns], true);
                let inputs = json!({"a_tensor_uid": of.uid, "b_tensor_uid": factor.uid});
                self.node("MatmulAttributes", inputs, ("c_tensor_uid", &out), Value::Null);
                out
            }
        }
    }
}

/// The graph of a seed: one to five nodes in a row, over rank 3 or 4, in any types.
fn graph(seed: u64) -> Value {
    let mut draft = Draft { random: Random::new(seed, 0), tensors: Vec::new(), nodes: Vec::new() };
    let rank = draft.random.whole(3, 4);
    let greatest = if rank == 3 { 96 } else { 12 };
    let mut dims: Vec<i64> = (0..rank).map(|_| draft.random.whole(1, greatest)).collect();
    dims[0] = draft.random.whole(1, 3);
    let mut last = draft.tensor(&dims, false);
    for _ in 0..draft.random.whole(1, 5) {
        last = draft.step(&last);
    }
    draft.tensors[last.uid - 1]["virtual"] = json!(false);
    json!({"name": "", "io_data_type": "float", "intermediate_data_type": "float", "compute_data_type": "float",
           "tensors": draft.tensors, "nodes": draft.nodes})
}

#[test]
fn measured_errors_are_within_their_bounds() {
    let backend = Backend::open(Some(&library())).unwrap();
    backend.set_engine_plugin_paths(&[cpu_plugin()]).unwrap();
    let handle = Handle::new(&backend).unwrap();
    let engines = handle.engines().unwrap();
    let engine = engines.iter().find(|engine| engine.name == "CPU_ENGINE").unwrap();
    let (mut ratios, mut left, mut most) = (Vec::new(), Vec::new(), 0.0_f64);
    for seed in 0..count() {
        let text = graph(seed);
        let analysed = double::load(&handle, &text).and_then(|(operations, graph)| {
            let loaded = Loaded { operations, graph, views: Views::default() };
            let inputs = inputs(&loaded.graph, &[], seed)?;
            let results = results(&handle, &loaded, (engine, &[]), &inputs, None)?;
            let plan = plan(&loaded.operations, engine, &[])?;
            let steps = steps::of(&plan)?;
            let expected = reference(&handle, &loaded.operations, &loaded.graph, &inputs)?;
            let held_to = (&expected, Some(&expected), &Changes::new());
            let limits = Limits { steps: steps.as_deref(), factor: 1.0 };
            for Judged { comparison, is_wrong, .. } in
                judge(&handle, &loaded, (&inputs, &results), held_to, limits)?
            {
                assert!(!is_wrong, "seed {seed}: {comparison:?} is called wrong\n{text}");
                most = most.max(comparison.used);
            }
            Ok(Report::new(&handle, &loaded, (engine, &[]), (&inputs, &results), None)?.analysis)
        });
        let analysis = match analysed {
            Ok(analysis) => analysis,
            Err(failure) => {
                left.push(format!("seed {seed}: {failure}"));
                continue;
            }
        };
        for Row { node, operation, added, bound, .. } in analysis.rows {
            let Some(bound) = bound else { continue };
            assert!(
                added <= bound,
                "seed {seed}, node {node}, {operation}: {added:?} above {bound:?}\n{text}"
            );
            // A sum that may overflow has no bound.
            if added.0 > 0.0 && bound.0.is_finite() {
                ratios.push(bound.0 / added.0);
            }
        }
    }
    assert!(left.len() as u64 * 20 < count(), "{} graphs were not analysed: {left:#?}", left.len());
    assert!(ratios.len() as u64 > count() / 2, "only {} errors", ratios.len());
    ratios.sort_by(f64::total_cmp);
    let at = |part: f64| ratios[((ratios.len() - 1) as f64 * part) as usize];
    println!(
        "{} graphs, {} errors, {most:.3} of the tolerance; bound over error: median {:.1}, least {:.2}, 90 % below {:.1}",
        count(),
        ratios.len(),
        at(0.5),
        at(0.0),
        at(0.9)
    );
    assert!(at(0.5) <= 30.0, "the median bound is {:.1} times the error", at(0.5));
}
