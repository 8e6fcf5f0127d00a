//! Gradients of attention as kernels.

use hipdnn_kernels::attention::gradients::{self, Gradients, Of};
use hipdnn_kernels::attention::{Attention, Tensor};
use hipdnn_kernels::domain::{Access, Join, Origin, Program, Store, Written};
use hipdnn_kernels::form::Parameter;
use hipdnn_kernels::product::Launch;
use hipdnn_kernels::{Scalar, Target};
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::attention::AttentionGradients;
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Tensor as GraphTensor};

use super::{Uids, Whole, absent, check_compute_type, named};
use crate::Argument;
use crate::spelling::{strides, unused};

/// Writes the kernels of one node.
struct Writer<'a> {
    graph: &'a mut Graph,
    target: &'a Target,
    name: &'a str,
    gradients: Gradients,
    /// The arguments before the row sums, and those behind the result.
    before: Vec<Argument>,
    behind: Vec<Argument>,
    sums: i64,
    kernels: Vec<Whole>,
}

/// A tensor between kernels, without gaps.
fn between(graph: &mut Graph, real: Scalar, dims: [usize; 4]) -> (i64, Tensor) {
    let data_type = if real == Scalar::F64 { DataType::Double } else { DataType::Float };
    let dims = dims.map(|dim| dim as i64);
    let dense = strides(&dims);
    let uid = unused(graph);
    let tensor = GraphTensor { is_virtual: true, ..GraphTensor::new(uid, data_type, &dims, &dense) };
    graph.tensors.push(tensor);
    let mut own = [0; 4];
    for (to, from) in own.iter_mut().zip(dense) {
        *to = usize::try_from(from).unwrap_or(0);
    }
    (uid, Tensor { scalar: real, strides: own, alignment: ALIGNMENT })
}

fn launch(written: Written) -> Launch {
    Launch { kernel: written.kernel, grid: written.groups }
}

/// The kernels of the gradients of an attention, in order. Tensors between them are added to the graph.
///
/// # Errors
/// What is not supported.
pub(super) fn backward(
    graph: &mut Graph,
    node: &Node,
    problem: &AttentionGradients,
    target: &Target,
    name: &str,
) -> Result<Vec<Whole>, Refusal> {
    check_compute_type(node, &problem.q)?;
    let (shape, options) = (&problem.shape, &problem.options);
    absent("dropout", options.dropout.is_some())?;
    let mut uids = Uids::new(graph, node);
    let o = uids.sequences("o", &problem.o)?;
    let of_o = std::mem::take(&mut uids.used);
    let q = uids.sequences("q", &problem.q)?;
    let k = uids.sequences("k", &problem.k)?;
    let v = uids.sequences("v", &problem.v)?;
    let d_o = uids.sequences("do", &problem.d_o)?;
    let stats = uids.sequences("stats", &problem.stats)?;
    let before = std::mem::take(&mut uids.used);
    let attention = uids.attention(shape, options, [q, k, v, o])?;
    let behind = std::mem::take(&mut uids.used);
    let mut results = Vec::with_capacity(3);
    for (of, name, own) in
        [(Of::Queries, "dq", &problem.dq), (Of::Keys, "dk", &problem.dk), (Of::Values, "dv", &problem.dv)]
    {
        let tensor = uids.sequences(name, own)?;
        results.push((of, tensor, own.operand.slot));
    }
    let all = uids.all;
    let real = Gradients::real(&attention);
    let (sums, of_sums) = between(graph, real, [shape.batch, shape.heads, shape.queries, 1]);
    let gradients = Gradients { attention, stats, d_o, sums: of_sums };
    let written = gradients::row_sums(&gradients, target, &format!("{name}_sums"))?;
    let of_d_o = before.get(3).copied();
    let arguments = of_o.into_iter().chain(of_d_o).chain([Argument::Memory(sums)]).collect();
    let first = Whole { launch: launch(written), arguments };
    let kernels = vec![first];
    let mut writer = Writer { graph, target, name, gradients, before, behind, sums, kernels };
    for (of, tensor, slot) in results {
        let uid = all.get(slot).copied().unwrap_or_default();
        writer.add(of, &tensor, uid, [shape.batch, shape.heads])?;
    }
    if let Some(dbias) = &problem.dbias {
        writer.bias(dbias, all.get(dbias.slot).copied().unwrap_or_default())?;
    }
    Ok(writer.kernels)
}

impl Writer<'_> {
    /// Adds the kernel of a gradient.
    fn add(&mut self, of: Of, result: &Tensor, uid: i64, shared: [usize; 2]) -> Result<(), Refusal> {
        let name = format!("{}_{}", self.name, self.kernels.len());
        let launch = gradients::write(&self.gradients, of, result, shared, self.target, &name)?;
        let own = [Argument::Memory(self.sums), Argument::Memory(uid)];
        let arguments = self.before.iter().chain(&own).chain(&self.behind).copied().collect();
        self.kernels.push(Whole { launch, arguments });
        Ok(())
    }

    /// Adds the kernels of the mask's gradient.
    fn bias(&mut self, dbias: &Operand, uid: i64) -> Result<(), Refusal> {
        let scalar = named("dbias", dbias.data_type)?;
        crate::memory::in_memory(self.graph, "dbias", uid, dbias)?;
        // Dimensions are aligned with the last ones of the scores.
        let (mut dims, mut steps) = ([1; 4], [0; 4]);
        let layout = &dbias.layout;
        let own = layout.dims().iter().zip(layout.strides()).rev();
        for ((dim, step), (to, stride)) in dims.iter_mut().zip(&mut steps).rev().zip(own) {
            (*dim, *step) = (*to, *stride);
        }
        let Attention { queries, keys, .. } = self.gradients.attention;
        let [batch, heads, of_queries, of_keys] = dims;
        let result = Tensor { scalar, strides: steps, alignment: scalar.size() };
        if [of_queries, of_keys] == [queries, keys] {
            return self.add(Of::Mask, &result, uid, [batch, heads]);
        }
        let real = Gradients::real(&self.gradients.attention);
        let (whole, of_whole) = between(self.graph, real, [batch, heads, queries, keys]);
        self.add(Of::Mask, &of_whole, whole, [batch, heads])?;
        let mut program = Program {
            dims: vec![batch, heads, queries, keys],
            reduced: Some(vec![false, false, of_queries != queries, of_keys != keys]),
            ..Program::default()
        };
        let mut access = |tensor: &Tensor, strides: Vec<usize>, written: bool| {
            let Tensor { scalar, alignment, .. } = *tensor;
            program.parameters.push(Parameter::Memory { scalar, written, alignment: scalar.size() });
            Access { parameter: program.parameters.len() - 1, scalar, strides, alignment }
        };
        let from = access(&of_whole, of_whole.strides.to_vec(), false);
        let broadcast = steps.iter().zip(dims).map(|(step, dim)| if dim == 1 { 0 } else { *step });
        let to = access(&result, broadcast.collect(), true);
        let loaded = program.push(Origin::Load(from), real);
        let value = program.push(Origin::Reduce(Join::Sum, loaded), real);
        program.stores.push(Store { value, access: to });
        let written = program.write(&format!("{}_{}", self.name, self.kernels.len()), self.target)?;
        let arguments = vec![Argument::Memory(whole), Argument::Memory(uid)];
        self.kernels.push(Whole { launch: launch(written), arguments });
        Ok(())
    }
}
