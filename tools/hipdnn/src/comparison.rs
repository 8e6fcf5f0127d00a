//! Results beside those of the reference engine.

use crate::computation::{Arrays, Loaded};
use crate::data_type::DataType;
use crate::failure::Result;
use crate::graph::Tensor;
use crate::tensor::{Comparison, Tolerance, compare};
use crate::ties;
use hipdnn::Handle;

/// Compares each result with the reference's for these inputs. Returns the comparisons with their tensors.
pub fn compare_all<'g>(
    handle: &Handle,
    loaded: &'g Loaded,
    (inputs, outputs): (&Arrays, &Arrays),
    reference: &Arrays,
    factor: f64,
) -> Result<Vec<(&'g Tensor, Comparison)>> {
    let Loaded { operations, graph } = loaded;
    let mut compared = Vec::new();
    for (uid, array) in outputs {
        let expected = reference.iter().find(|(other, _)| other == uid).map(|(_, array)| array);
        let (Some(tensor), Some(expected)) = (graph.tensor(*uid), expected) else { continue };
        let tolerance = Tolerance::of(graph, tensor).times(factor);
        let mut comparison = compare(array, expected, tolerance, |_| false);
        if comparison.beyond > 0 && tensor.data_type.is_integer() && tensor.data_type != DataType::Boolean {
            let undecided = ties::undecided(handle, operations, graph, inputs, (tensor, factor))?;
            comparison = compare(array, expected, tolerance, |at| undecided.get(at) == Some(&true));
        }
        compared.push((tensor, comparison));
    }
    Ok(compared)
}
