//! A normalization with an element-wise prologue.
//!
//! The prologue writes a few rows at a time to the result's memory, which the normalization overwrites.

use hipdnn_plugin_sdk::graph::Operation;

use crate::dtype::element::Compute;
use crate::fusion::delayed;
use crate::fusion::state::{Candidate, Fusion, result, with_result};
use crate::kernel::Part;
use crate::norm;
use crate::norm::rows::Fused;
use crate::pointwise::plan_epilogue;
use crate::problem::{Problem, pointers};
use crate::settings::Settings;
use crate::simd::isa::Isa;

/// The tensor that a node normalizes.
fn normalized(operation: &Operation) -> Option<i64> {
    match operation {
        Operation::Layernorm(norm) => Some(norm.x),
        Operation::RmsNorm(norm) => Some(norm.x),
        _ => None,
    }
}

/// The normalization in place, in another tensor's memory.
fn in_place(operation: &Operation, uid: i64) -> Option<Operation> {
    let mut operation = with_result(operation, uid)?;
    match &mut operation {
        Operation::Layernorm(norm) => norm.x = uid,
        Operation::RmsNorm(norm) => norm.x = uid,
        _ => return None,
    }
    Some(operation)
}

impl Fusion<'_> {
    /// The part of a chain, the normalization that alone reads its result, and what follows; `None` if they
    /// cannot be fused.
    pub(crate) fn normalized(&self, taken: &[bool], isa: Isa, settings: Settings) -> Option<Part> {
        let Self { prepared, uses, .. } = *self;
        let largest = self.without_reductions.or_else(|| self.of_one())?;
        if self.producer.is_some() || !uses.tensors.get(&largest.result)?.is_virtual {
            return None;
        }
        let [index] = *uses.readers(largest.result) else { return None };
        let node = prepared.graph.nodes.get(index)?;
        let reads = node.operation.inputs().into_iter().filter(|uid| *uid == largest.result).count();
        if *taken.get(index)?
            || normalized(&node.operation) != Some(largest.result)
            || reads != 1
            || Compute::of(node.compute_type).ok()? != self.compute
        {
            return None;
        }
        let mut before = self.clone();
        before.truncate_to(largest);
        let after = self.following(index, taken);
        let with_after =
            after.and_then(|(after, result)| before.clone().fused(index, Some(after), result, isa, settings));
        with_after.or_else(|| before.fused(index, None, result(&node.operation)?, isa, settings))
    }

    /// The state with a single member, if there is only one.
    fn of_one(&self) -> Option<Candidate> {
        let one = self.members.len() == 1 && !self.chain.reduces();
        let result = self.last_result().filter(|_| one)?;
        Some(Candidate { members: 1, steps: self.chain.steps.len(), inputs: self.chain.inputs.len(), result })
    }

    /// The part of this chain, the normalization after it, and what may follow; `result` is the last tensor.
    fn fused(
        mut self,
        index: usize,
        after: Option<Self>,
        result: i64,
        isa: Isa,
        settings: Settings,
    ) -> Option<Part> {
        let node = self.prepared.graph.nodes.get(index)?;
        // The result is rounded like the intermediate tensor.
        let data_type = |uid| self.uses.tensors.get(&uid).map(|tensor| tensor.data_type);
        if data_type(normalized(&node.operation)?)? != data_type(result)? {
            return None;
        }
        let operation = in_place(&node.operation, result)?;
        let mut tensors = pointers(&self.prepared.graph, &operation);
        self.assign_slots(&mut tensors)?;
        let slot = tensors.iter().position(|uid| *uid == result)?;
        let output = self.uses.operand(result, slot)?;
        let mut fused = Fused {
            prologue: Some(plan_epilogue(&self.chain, &output, self.compute, isa).ok()?),
            epilogue: None,
        };
        let mut members = self.members;
        members.push(index);
        let writes_early = after.is_some();
        if let Some(mut after) = after {
            after.assign_slots(&mut tensors)?;
            fused.epilogue = Some(after.epilogue_of(&output, isa)?.plan().ok()?);
            members.extend(after.members.into_iter().filter(|member| *member != index));
        }
        if delayed::reads(self.prepared, self.uses, &members) {
            return None;
        }
        let problem = Problem::of(&self.prepared.graph, &operation).ok()?;
        let Problem::Normalization(normalization) = problem else { return None };
        let kernel = norm::plan(&normalization, self.compute, isa, settings.threads, fused).ok()?;
        let node = *members.last()?;
        Some(Part { node, members, tensors, kernel, writes_early })
    }
}
