//! Gradients of attention as kernels.

use hipdnn_kernels::Target;
use hipdnn_kernels::attention::gradients::{self, Gradients, Of};
use hipdnn_kernels::attention::{Attention, Start, Tensor};
use hipdnn_kernels::domain::{Access, Join, Origin, Program, Store};
use hipdnn_kernels::form::Parameter;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::attention::AttentionGradients;
use hipdnn_plugin_planner::problem::attention::shape as planned;
use hipdnn_plugin_planner::{Refusal, in_own_frame};
use hipdnn_plugin_sdk::graph::{Graph, Node};

use super::{Uids, Whole, between, check_compute_type, launch, named};
use crate::Argument;
use crate::way::Way;

/// Writes the kernels of one node.
struct Writer<'a> {
    graph: &'a mut Graph,
    target: &'a Target,
    name: &'a str,
    gradients: Box<Gradients>,
    /// The arguments before the row sums, and those behind the result.
    before: Vec<Argument>,
    behind: Vec<Argument>,
    sums: i64,
    kernels: Vec<Whole>,
}

/// What the kernels of a node read, and their arguments for it.
struct Read {
    attention: Attention,
    stats: Tensor,
    d_o: Tensor,
    of_o: Vec<Argument>,
    of_d_o: Vec<Argument>,
    /// Those before the row sums, and those behind the result.
    before: Vec<Argument>,
    behind: Vec<Argument>,
}

fn read(uids: &mut Uids<'_>, problem: &AttentionGradients, way: Way<'_>) -> Result<Box<Read>, Refusal> {
    let o = uids.sequences("o", &problem.o)?;
    let of_o = std::mem::take(&mut uids.used);
    let q = uids.sequences("q", &problem.q)?;
    let k = uids.sequences("k", &problem.k)?;
    let v = uids.sequences("v", &problem.v)?;
    let first = uids.used.len();
    let d_o = uids.sequences("do", &problem.d_o)?;
    let of_d_o = uids.used.get(first..).unwrap_or_default().to_vec();
    let stats = uids.sequences("stats", &problem.stats)?;
    let before = std::mem::take(&mut uids.used);
    let attention = uids.attention(&problem.shape, &problem.options, [q, k, v, o], way)?;
    let behind = std::mem::take(&mut uids.used);
    Ok(Box::new(Read { attention, stats, d_o, of_o, of_d_o, before, behind }))
}

/// The kernels of the gradients of an attention, in order. Tensors between them are added to the graph.
///
/// # Errors
/// What is not supported.
pub(super) fn backward(
    graph: &mut Graph,
    node: &Node,
    problem: &AttentionGradients,
    way: Way<'_>,
) -> Result<Vec<Whole>, Refusal> {
    let Way { target, name, .. } = way;
    check_compute_type(node, &problem.q)?;
    let (shape, options) = (&problem.shape, &problem.options);
    let mut uids = Uids::new(graph, node);
    let read = in_own_frame(|| read(&mut uids, problem, way))?;
    let of_lengths: Vec<Argument> = options
        .lengths
        .iter()
        .flatten()
        .filter_map(|own| uids.all.get(own.slot).map(|uid| Argument::Memory(*uid)))
        .collect();
    let mut results = Vec::with_capacity(3);
    for (of, name, own) in
        [(Of::Queries, "dq", &problem.dq), (Of::Keys, "dk", &problem.dk), (Of::Values, "dv", &problem.dv)]
    {
        let tensor = uids.sequences(name, own)?;
        results.push((of, tensor, std::mem::take(&mut uids.used)));
    }
    let all = uids.all;
    let real = Gradients::real(&read.attention);
    let (sums, of_sums) = between(graph, real, [shape.batch, shape.heads, shape.queries, 1]);
    let Read { attention, stats, d_o, of_o, of_d_o, before, behind } = *read;
    let gradients = Box::new(Gradients { attention, stats, d_o, sums: of_sums });
    let written = gradients::row_sums(&gradients, target, &format!("{name}_sums"))?;
    let mut arguments: Vec<Argument> =
        of_o.into_iter().chain(of_d_o).chain([Argument::Memory(sums)]).collect();
    if [problem.o.start, problem.d_o.start] != [planned::Start::Even; 2] {
        arguments.extend(of_lengths);
    }
    let first = Whole { launch: launch(written), arguments };
    let kernels = vec![first];
    let mut writer = Writer { graph, target, name, gradients, before, behind, sums, kernels };
    for (of, tensor, own) in results {
        writer.add(of, &tensor, &own, [shape.batch, shape.heads])?;
    }
    if let Some(dbias) = &problem.dbias {
        writer.bias(dbias, all.get(dbias.slot).copied().unwrap_or_default())?;
    }
    Ok(writer.kernels)
}

impl Writer<'_> {
    /// Adds the kernel of a gradient.
    fn add(&mut self, of: Of, result: &Tensor, own: &[Argument], shared: [usize; 2]) -> Result<(), Refusal> {
        let name = format!("{}_{}", self.name, self.kernels.len());
        let launch = gradients::write(&self.gradients, of, result, shared, self.target, &name)?;
        let sums = [Argument::Memory(self.sums)];
        let arguments = self.before.iter().chain(&sums).chain(own).chain(&self.behind).copied().collect();
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
        let result = Tensor { scalar, strides: steps, alignment: scalar.size(), start: Start::Even };
        if [of_queries, of_keys] == [queries, keys] {
            return self.add(Of::Mask, &result, &[Argument::Memory(uid)], [batch, heads]);
        }
        let real = Gradients::real(&self.gradients.attention);
        let (whole, of_whole) = between(self.graph, real, [batch, heads, queries, keys]);
        self.add(Of::Mask, &of_whole, &[Argument::Memory(whole)], [batch, heads])?;
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
