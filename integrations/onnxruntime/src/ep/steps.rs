//! Groups of nodes that run in several steps, from the division of a graph to the compilation of its fused nodes.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;

use super::Ep;
use crate::failure::{Failure, Result};
use crate::model::Model;
use crate::operators;
use crate::partition::{self, Verdict};

/// Refuses what no GPU session would claim: a compiled model may come from a session on the host.
pub(super) fn check_loaded(model: &Model, is_on_gpu: bool) -> Result<()> {
    match model.nodes.iter().find(|node| operators::is_open(node)) {
        Some(node) if is_on_gpu => Err(Failure::ep(format!(
            "node {} of a compiled model: the number of its results is not known on GPUs, expected device=cpu",
            node.title()
        ))),
        _ => Ok(()),
    }
}

impl Ep {
    /// Notes which values are written by a group of several steps.
    pub(super) fn note_steps(&self, model: &Model, verdicts: &[Verdict], steps: &[usize]) {
        let mut first: HashMap<usize, usize> = HashMap::new();
        let mut has_steps = HashSet::new();
        for (verdict, step) in verdicts.iter().zip(steps) {
            if let Verdict::Taken(group) = verdict
                && first.entry(*group).or_insert(*step) != step
            {
                has_steps.insert(*group);
            }
        }
        let is_of = |verdict: &Verdict| matches!(verdict, Verdict::Taken(group) if has_steps.contains(group));
        let nodes = model.nodes.iter().zip(verdicts).filter(|(_, verdict)| is_of(verdict));
        let values = nodes.flat_map(|(node, _)| node.outputs.iter().flatten());
        let names = values.filter_map(|id| Some(model.values.get(*id)?.name.clone()));
        self.stepped.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }

    /// The steps of a fused node.
    pub(super) fn steps(&self, model: &Model, is_loaded: bool) -> Vec<usize> {
        let stepped = self.stepped.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |id: &usize| model.values.get(*id).is_some_and(|value| stepped.contains(&value.name));
        let has_steps = is_loaded || model.nodes.iter().any(|node| node.outputs.iter().flatten().any(name));
        drop(stepped);
        match has_steps && self.engines.gpu().is_none() {
            true => partition::steps(model),
            false => vec![0; model.nodes.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Node;

    #[test]
    fn a_compiled_model_with_counted_results_is_none_for_a_gpu() {
        let of = |operator: &str| {
            let node = Node { operator: operator.to_owned(), ..Node::default() };
            Model { nodes: vec![Node::default(), node], ..Model::default() }
        };
        for operator in ["NonZero", "Compress", "NonMaxSuppression", "Unique"] {
            assert!(check_loaded(&of(operator), false).is_ok());
            let failure = check_loaded(&of(operator), true).err().unwrap();
            assert!(failure.text.contains("expected device=cpu"), "{}", failure.text);
        }
        assert!(check_loaded(&of("Exp"), true).is_ok());
    }
}
