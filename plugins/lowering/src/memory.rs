//! Tensors in memory, as kernels of whole nodes see them.

use hipdnn_kernels::Scalar;
use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;
use hipdnn_plugin_sdk::graph::Graph;

/// The most elements that a tensor may span: indices have 32 bits.
const MAX_EXTENT: usize = i32::MAX as usize;

/// What a tensor's address is a multiple of.
pub fn alignment(graph: &Graph, uid: i64, scalar: Scalar) -> usize {
    let tensor = graph.tensor(uid);
    let promised =
        tensor.map_or(1, |tensor| if tensor.is_virtual { ALIGNMENT as i64 } else { tensor.alignment });
    // Elements are aligned to their own size, as everywhere.
    usize::try_from(promised).unwrap_or(1).max(scalar.size())
}

/// Checks that a tensor of a node is in memory.
///
/// # Errors
/// When it is passed by value, or spans too many elements.
pub fn in_memory(graph: &Graph, name: &str, uid: i64, operand: &Operand) -> Result<(), Refusal> {
    let by_value =
        graph.tensor(uid).is_none_or(|tensor| tensor.value.is_some() || tensor.is_runtime_pass_by_value);
    if by_value {
        return Err(format!("{name}: is passed by value, expected a tensor in memory"));
    }
    let extent = operand.layout.extent();
    if extent > MAX_EXTENT {
        return Err(format!("{name}: spans {extent} elements, expected at most {MAX_EXTENT}"));
    }
    Ok(())
}
