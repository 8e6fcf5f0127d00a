//! Results that share memory with operands, as the library allows: they are the same as in separate memory.

use std::collections::HashMap;

use hipdnn_plugin_sdk::graph::operation::{Layernorm, Matmul, Pointwise, Reduction};
use hipdnn_plugin_sdk::graph::{DataType, Graph, NormFwdPhase, Operation, PointwiseMode as M, ReductionMode};
use hipdnn_plugin_sdk::graph::{Tensor, TensorValue};

use super::common::{Case, Random, packed};
use super::integers::parts;
use super::limits::assert_engines_agree;
use hipdnn_cpu_plugin::fusion::graph::parts_at;
use hipdnn_cpu_plugin::plan::planner::planner;
use hipdnn_cpu_plugin::plan::steps::Plan;
use hipdnn_cpu_plugin::settings::Settings;
use hipdnn_cpu_plugin::simd::isa::Isa;
use hipdnn_plugin_planner::prepare::prepare;

/// Whether an operation computes each element from the same element of an operand, which is not read later.
fn is_by_element(operation: &Operation, input: i64, output: i64) -> bool {
    match operation {
        Operation::Pointwise(_) | Operation::Reduction(_) | Operation::BatchnormInference(_) => true,
        Operation::Layernorm(it) => output == it.y && input == it.x,
        _ => false,
    }
}

/// The sizes other than 1 with their strides.
fn view(tensor: &Tensor) -> Vec<(i64, i64)> {
    let all = tensor.dims.iter().copied().zip(tensor.strides.iter().copied());
    all.filter(|(dim, _)| *dim != 1).collect()
}

/// Whether a result may share an operand's memory.
fn may_be_in_place(graph: &Graph, written: i64, read: i64) -> bool {
    let tensor = |uid| graph.tensors.iter().find(|tensor| tensor.uid == uid).unwrap();
    let [to, from] = [written, read].map(tensor);
    let writes = |uid: i64| graph.nodes.iter().position(|node| node.operation.outputs().contains(&uid));
    let last_read = graph.nodes.iter().rposition(|node| node.operation.inputs().contains(&read));
    let in_memory = [to, from].iter().all(|tensor| !tensor.is_virtual && tensor.value.is_none());
    let same = to.dims.len() == from.dims.len() && view(to) == view(from);
    let of_a_size = to.data_type.size().is_some() && to.data_type.size() == from.data_type.size();
    let (Some(writer), Some(last_read), None) = (writes(written), last_read, writes(read)) else {
        return false;
    };
    if !in_memory || !same || !of_a_size || last_read > writer {
        return false;
    }
    let mut ways = HashMap::from([(written, true)]);
    for node in graph.nodes[..=writer].iter().rev() {
        for output in node.operation.outputs() {
            let Some(so_far) = ways.get(&output).copied() else { continue };
            for input in node.operation.inputs() {
                *ways.entry(input).or_insert(true) &= so_far && is_by_element(&node.operation, input, output);
            }
        }
    }
    ways.get(&read).copied().unwrap_or(true)
}

/// Results with the operands whose memory they share; each tensor is in one pair at most.
fn pairs(graph: &Graph, random: &mut Random) -> Vec<(i64, i64)> {
    let mut pairs: Vec<(i64, i64)> = Vec::new();
    let written: Vec<i64> = graph.nodes.iter().flat_map(|node| node.operation.outputs()).collect();
    for written in written {
        let is_free = |read: &i64| pairs.iter().all(|pair| pair.1 != *read);
        let reads = graph.tensors.iter().map(|tensor| tensor.uid).filter(is_free);
        let reads: Vec<i64> = reads.filter(|read| may_be_in_place(graph, written, *read)).collect();
        if !reads.is_empty() {
            pairs.push((written, random.one_of(&reads)));
        }
    }
    pairs
}

/// Executes a plan with results in the memory of operands, to which the results are then copied.
fn execute(case: &mut Case, plan: &Plan, pairs: &[(i64, i64)]) {
    let mut buffers = case.buffers();
    for (written, read) in pairs {
        let ptr = case.memory(*read).first().cast();
        buffers.iter_mut().filter(|buffer| buffer.uid == *written).for_each(|buffer| buffer.ptr = ptr);
    }
    let mut workspace = vec![0xFF_u8; plan.workspace_size()];
    // SAFETY: every tensor has memory for its extent, a result in another's memory has its layout, and the
    // workspace has the reported size.
    unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap_or_else(|error| panic!("{error}"));
    for (written, read) in pairs {
        let tensor = case.memory(*written).tensor.clone();
        let mut memory = case.memory(*read).clone();
        memory.tensor = tensor;
        *case.memory(*written) = memory;
    }
}

/// Runs a case with results in the memory of operands on every instruction set, and compares with the same
/// parts in separate memory. Returns how many results shared memory.
pub fn check(case: &Case, random: &mut Random, what: &str) -> usize {
    let pairs = pairs(&case.graph, random);
    if pairs.is_empty() {
        return 0;
    }
    for isa in Isa::available() {
        let plan = Plan::in_parts(&prepare(&case.graph).unwrap(), |prepared| {
            parts_at(prepared, *isa, Settings::default())
        });
        let plan = plan.unwrap();
        let (mut apart, mut in_place) = (case.clone(), case.clone());
        apart.execute(&plan);
        execute(&mut in_place, &plan, &pairs);
        let written: Vec<i64> = case.graph.nodes.iter().flat_map(|node| node.operation.outputs()).collect();
        for memory in case.memory.iter().filter(|memory| written.contains(&memory.tensor.uid)) {
            let uid = memory.tensor.uid;
            let bits = |case: &Case| case.values(uid).into_iter().map(f64::to_bits).collect::<Vec<_>>();
            assert!(
                bits(&in_place) == bits(&apart),
                "{what} at {isa:?}: tensor {uid} differs in place, with {pairs:?}\n{:#?}",
                case.graph
            );
        }
    }
    pairs.len()
}

/// A filled tensor.
fn numbers(case: &mut Case, random: &mut Random, dims: &[i64]) -> i64 {
    let uid = case.tensor(DataType::Float, dims);
    case.memory(uid).fill(|| random.real(-1.0, 1.0));
    uid
}

/// Products, normalizations, row sums and element-wise operations on square matrices, several not virtual.
fn random_graph(random: &mut Random) -> Case {
    let mut case = Case::new();
    let dims = [random.int(1, 3), random.one_of(&[5, 16, 33])];
    let dims = [dims[0], dims[1], dims[1]];
    let mut made: Vec<i64> = (0..4).map(|_| numbers(&mut case, random, &dims)).collect();
    let count = random.int(3, 14);
    for at in 0..count {
        let virtual_tensor = at + 1 < count && random.chance(60);
        let mut result = |dims: &[i64]| match virtual_tensor {
            true => case.virtual_tensor(DataType::Float, dims, &packed(dims)),
            false => case.tensor(DataType::Float, dims),
        };
        let [a, b] = [(); 2].map(|()| random.one_of(&made));
        let out = result(&dims);
        match random.int(0, 9) {
            0 => case.node(Matmul { a, b, c: out }),
            1 => {
                let [scale, bias] = [(); 2].map(|()| numbers(&mut case, random, &[1, 1, dims[2]]));
                let epsilon = case.value(DataType::Float, TensorValue::Float32(1e-3));
                case.node(Layernorm {
                    x: a,
                    scale,
                    bias,
                    epsilon,
                    y: out,
                    mean: None,
                    inv_variance: None,
                    forward_phase: NormFwdPhase::Inference,
                    normalized_dim_count: 1,
                });
            }
            2 => {
                let rows = [dims[0], dims[1], 1];
                let largest = case.virtual_tensor(DataType::Float, &rows, &packed(&rows));
                let mode = ReductionMode::Max;
                case.node(Reduction { in_: a, out: largest, mode, is_deterministic: false });
                case.node(Pointwise::new(M::Sub, b, Some(largest), out));
            }
            3..=5 => {
                case.node(Pointwise::new(random.one_of(&[M::TanhFwd, M::Neg, M::ReluFwd]), a, None, out))
            }
            _ => case.node(Pointwise::new(random.one_of(&[M::Add, M::Sub, M::Max]), a, Some(b), out)),
        }
        made.push(out);
    }
    case
}

#[test]
fn results_in_the_memory_of_operands() {
    let (mut shared, mut fused) = (0, 0);
    for seed in 0..400 {
        let random = &mut Random(70_000 + seed);
        let case = random_graph(random);
        fused += usize::from(parts(&case) < case.graph.nodes.len());
        shared += check(&case, random, &format!("seed {seed}"));
        // The parts compute the same as the nodes.
        let (mut fast, mut reference) = (case.clone(), case.clone());
        fast.run(planner(0));
        reference.run(planner(1));
        assert_engines_agree(&format!("seed {seed}"), &fast, &reference);
    }
    assert!(shared > 200 && fused > 100, "{shared} results in place, {fused} graphs with fused parts");
}
