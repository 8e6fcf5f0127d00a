//! Random inputs that make sense: chosen by a tensor's type and the operation that reads it.

use crate::data_type::DataType;
use crate::failure::Result;
use crate::graph::{Graph, Node, Tensor};
use crate::tensor::{Array, Random, count};

/// How a tensor is filled.
#[derive(Clone, Debug, PartialEq)]
enum Fill {
    /// Real numbers in a range.
    Between(f64, f64),
    /// Integers in a range, inclusive.
    Whole(i64, i64),
    /// Powers of two, by their exponents.
    Power(i64, i64),
    /// A constant.
    All(f64),
    /// These values, repeated.
    These(Vec<f64>),
}

/// Random values for a tensor of a graph. The same seed gives the same values.
pub fn fill(graph: &Graph, tensor: &Tensor, seed: u64) -> Result<Array> {
    values(choose(graph, tensor, seed), tensor, seed)
}

/// The values of a fill for a tensor.
fn values(fill: Fill, tensor: &Tensor, seed: u64) -> Result<Array> {
    let count = count(tensor)?;
    let dims: Vec<usize> = tensor.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or(0)).collect();
    let mut random = Random::new(seed, tensor.uid.cast_unsigned());
    let values = match suited(fill, tensor.data_type) {
        Fill::Between(least, end) => (0..count).map(|_| random.between(least, end)).collect(),
        Fill::Whole(least, greatest) => (0..count).map(|_| random.whole(least, greatest) as f64).collect(),
        Fill::Power(least, greatest) => {
            (0..count).map(|_| (random.whole(least, greatest) as f64).exp2()).collect()
        }
        Fill::All(value) => vec![value; count],
        Fill::These(values) if values.is_empty() => vec![0.0; count],
        Fill::These(values) => values.iter().copied().cycle().take(count).collect(),
    };
    Ok(Array { dims, values })
}

/// The same as integers, for integer types.
fn suited(fill: Fill, data_type: DataType) -> Fill {
    match fill {
        Fill::Between(least, _) if data_type.is_integer() && least >= 0.0 => Fill::Whole(1, 4),
        Fill::Between(..) if data_type.is_integer() => usual(data_type),
        Fill::Between(..) if data_type == DataType::Fp8E8m0 => Fill::Power(-2, 2),
        fill => fill,
    }
}

/// The default fill of a type.
fn usual(data_type: DataType) -> Fill {
    match data_type {
        DataType::Boolean => Fill::Whole(0, 1),
        DataType::Uint8 => Fill::Whole(0, 8),
        DataType::Int4 => Fill::Whole(-4, 4),
        DataType::Int8 | DataType::Int32 | DataType::Int64 => Fill::Whole(-8, 8),
        DataType::Fp8E8m0 => Fill::Power(-2, 2),
        _ => Fill::Between(-1.0, 1.0),
    }
}

const POSITIVE: Fill = Fill::Between(0.5, 1.5);

fn choose(graph: &Graph, tensor: &Tensor, seed: u64) -> Fill {
    if let Some(ragged) = graph.tensors.iter().find(|other| other.ragged_offset == Some(tensor.uid)) {
        return offsets(graph, tensor, ragged, seed);
    }
    for node in &graph.nodes {
        for port in node.inputs.iter().filter(|port| port.uid == tensor.uid) {
            if let Some(fill) = for_role(graph, node, &port.role, tensor) {
                return fill;
            }
        }
    }
    usual(tensor.data_type)
}

/// The fill that a role requires, if any.
fn for_role(graph: &Graph, node: &Node, role: &str, tensor: &Tensor) -> Option<Fill> {
    let dim = |role: &str, from_end: usize| -> Option<i64> {
        graph.tensor(node.input(role)?)?.dims.iter().rev().nth(from_end).copied()
    };
    let is_attention = node.operation.starts_with("Sdpa");
    Some(match (node.operation.as_str(), role) {
        (_, "variance" | "inv_variance" | "inv_rms" | "prev_running_variance") => POSITIVE,
        (_, "epsilon") => Fill::All(1e-5),
        (_, "momentum") => Fill::All(0.1),
        ("Pointwise", role) => return for_pointwise(node, role),
        (_, "scale") if is_attention => Fill::All(1.0 / (dim("q", 0)?.max(1) as f64).sqrt()),
        (_, "seq_len_q" | "seq_len_kv") if is_attention => {
            let longest = longest(graph, node, role == "seq_len_q")?;
            Fill::Whole((longest / 2).max(1), longest)
        }
        (_, "page_table_k" | "page_table_v") => {
            let container = if role == "page_table_k" { "k" } else { "v" };
            let blocks = *graph.tensor(node.input(container)?)?.dims.first()?;
            // In reverse, so that the order of the table matters.
            Fill::These((0..blocks).rev().map(|block| block as f64).collect())
        }
        (_, "seed" | "offset") if is_attention => Fill::Whole(0, 1000),
        (_, "dropout_mask" | "block_mask") => Fill::Whole(0, 1),
        (_, "dropout_scale") => Fill::All(1.25),
        (_, "dropout_scale_inv") => Fill::All(0.8),
        (_, "stats") if is_attention => {
            // About the log-sum-exp of so many scores, so that the gradients stay moderate.
            let logarithm = (dim("k", 1)?.max(1) as f64).ln();
            Fill::Between(logarithm, logarithm + 1.0)
        }
        (_, role)
            if is_attention && (role.starts_with("descale_") || matches!(role, "scale_s" | "scale_o")) =>
        {
            POSITIVE
        }
        (_, "first_token_offset") => {
            let rows = dim("token", 1)?;
            let groups = tensor.dims.iter().product::<i64>().max(1);
            Fill::These((0..groups).map(|group| (group * rows / groups) as f64).collect())
        }
        ("MoeGroupedMatmul", "token_index" | "token_ks") => for_routing(graph, node, role, tensor)?,
        ("BlockScaleDequantize", "scale")
            if node.parameter("is_negative_scale").is_some_and(|flag| flag == true) =>
        {
            Fill::Whole(-2, 2)
        }
        ("BlockScaleDequantize", "scale") => Fill::Power(-2, 2),
        ("ResampleBwd", "index") => indices(graph, node)?,
        _ => return None,
    })
}

fn for_pointwise(node: &Node, role: &str) -> Option<Fill> {
    let mode = node.parameter("operation")?.as_str()?;
    match (mode, role) {
        ("log" | "sqrt" | "rsqrt" | "reciprocal", "in_0") | ("div", "in_1") => Some(POSITIVE),
        ("binary_select", "in_2") | ("logical_and" | "logical_or" | "logical_not", _) => {
            Some(Fill::Whole(0, 1))
        }
        _ => None,
    }
}

/// The longest sequence of queries or of keys; with paged keys, a sequence's pages.
fn longest(graph: &Graph, node: &Node, of_queries: bool) -> Option<i64> {
    let role = if of_queries { "q" } else { "k" };
    let length = *graph.tensor(node.input(role)?)?.dims.iter().rev().nth(1)?;
    let table = node.input("page_table_k").and_then(|uid| graph.tensor(uid)).filter(|_| !of_queries);
    let pages = table.map_or(1, |table| table.dims.iter().skip(1).product::<i64>());
    let longest = length.saturating_mul(pages.max(1));
    let most = node.parameter("max_seq_len_kv").and_then(|value| value.as_i64()).filter(|_| !of_queries);
    Some(most.map_or(longest, |most| longest.min(most)).max(1))
}

/// Indices of routed tokens, each unique.
fn for_routing(graph: &Graph, node: &Node, role: &str, tensor: &Tensor) -> Option<Fill> {
    let count = tensor.dims.iter().product::<i64>().max(0);
    let ways = node.parameter("top_k").and_then(|value| value.as_i64()).unwrap_or(1).max(1);
    let is_scatter = node.parameter("mode").is_some_and(|mode| mode == "scatter");
    let rows = *graph.tensor(node.input("token")?)?.dims.iter().rev().nth(1)?;
    Some(match (role, is_scatter) {
        ("token_ks", _) => Fill::These((0..count).map(|row| (row % ways) as f64).collect()),
        (_, true) => Fill::These((0..count).map(|row| (row / ways) as f64).collect()),
        (_, false) => Fill::Whole(0, (rows - 1).max(0)),
    })
}

/// The offsets of consecutive sequences with the graph's lengths.
fn offsets(graph: &Graph, tensor: &Tensor, ragged: &Tensor, seed: u64) -> Fill {
    let count = tensor.dims.iter().product::<i64>().max(0);
    let uses = |node: &&Node, role: &str| {
        node.input(role) == Some(ragged.uid) || node.output(role) == Some(ragged.uid)
    };
    let reader =
        graph.nodes.iter().find(|node| node.inputs.iter().chain(&node.outputs).any(|p| p.uid == ragged.uid));
    let lengths = reader.and_then(|node| {
        let of_keys = ["k", "v", "dk", "dv"].iter().any(|role| uses(&node, role));
        let role = if of_keys { "seq_len_kv" } else { "seq_len_q" };
        let lengths = graph.tensor(node.input(role)?)?;
        // By role only: a graph could make these lengths depend on offsets in turn.
        values(for_role(graph, node, role, lengths)?, lengths, seed).ok()
    });
    // A sequence of a tensor [batch, heads, length, width] is stored as [length, heads, width].
    let of = |place: usize| ragged.dims.get(place).copied().unwrap_or(1);
    let (row, longest) = (of(1).saturating_mul(of(3)), of(2));
    let mut offsets = Vec::new();
    let mut at = 0.0;
    for sequence in 0..count {
        offsets.push(at);
        let length =
            lengths.as_ref().and_then(|array| array.values.get(usize::try_from(sequence).ok()?).copied());
        at += length.unwrap_or(longest as f64) * row as f64 / ragged.ragged_multiplier.max(1) as f64;
    }
    Fill::These(offsets)
}

/// For each element of a pooling's result, the first index of its window that is inside the image.
fn indices(graph: &Graph, node: &Node) -> Option<Fill> {
    let list = |key: &str| -> Option<Vec<i64>> {
        node.parameter(key)?.as_array()?.iter().map(|value| value.as_i64()).collect()
    };
    let (pads, strides) = (list("pre_padding")?, list("stride")?);
    let spatial =
        |uid: Option<i64>| -> Option<Vec<i64>> { Some(graph.tensor(uid?)?.dims.get(2..)?.to_vec()) };
    let (small, large) = (spatial(node.input("dy"))?, spatial(node.output("dx"))?);
    let count = small.iter().product::<i64>().clamp(0, 1 << 24);
    let places = (0..count).map(|at| {
        let (mut rest, mut below, mut place) = (at, 1, 0);
        for (axis, (outputs, inputs)) in small.iter().zip(&large).enumerate().rev() {
            let (pad, stride) =
                (pads.get(axis).copied().unwrap_or(0), strides.get(axis).copied().unwrap_or(1));
            let first = rest % outputs.max(&1) * stride - pad;
            place += first.clamp(0, (inputs - 1).max(0)) * below;
            below *= inputs;
            rest /= outputs.max(&1);
        }
        place as f64
    });
    Some(Fill::These(places.collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::testing::{graph, pointwise, tensor};

    #[test]
    fn values_depend_only_on_seed_and_uid() {
        let tensors =
            vec![tensor(1, "a", &[64], false), tensor(2, "b", &[64], false), tensor(3, "c", &[64], false)];
        let graph = graph("", tensors, vec![pointwise("", "div", 1, Some(2), 3)]);
        let values = |uid: i64, seed| fill(&graph, graph.tensor(uid).unwrap(), seed).unwrap().values;
        assert_eq!(values(1, 7), values(1, 7));
        assert_ne!(values(1, 7), values(1, 8));
        assert!(values(1, 7).iter().all(|value| (-1.0..1.0).contains(value)));
        assert!(values(2, 7).iter().all(|value| (0.5..1.5).contains(value)), "a divisor may not be 0");
    }

    #[test]
    fn lengths_and_offsets_match() {
        let whole = |uid: i64, name: &str, dims: &[i64]| {
            let mut tensor = tensor(uid, name, dims, false);
            tensor["data_type"] = json!("int32");
            tensor
        };
        let mut q = tensor(1, "q", &[3, 2, 10, 4], false);
        q["ragged_offset_tensor_uid"] = json!(5);
        let tensors = vec![
            q,
            tensor(2, "k", &[3, 2, 20, 4], false),
            tensor(3, "o", &[3, 2, 10, 4], false),
            whole(4, "lengths", &[3, 1, 1, 1]),
            whole(5, "offsets", &[4, 1, 1, 1]),
        ];
        let sdpa = json!({"type": "SdpaAttributes", "name": "", "compute_data_type": "float",
            "inputs": {"q_tensor_uid": 1, "k_tensor_uid": 2, "v_tensor_uid": 2, "seq_len_q_tensor_uid": 4},
            "outputs": {"o_tensor_uid": 3}, "attributes": {}});
        let graph = graph("", tensors, vec![sdpa]);
        let lengths = fill(&graph, graph.tensor(4).unwrap(), 1).unwrap().values;
        let offsets = fill(&graph, graph.tensor(5).unwrap(), 1).unwrap().values;
        assert!(lengths.iter().all(|length| (5.0..=10.0).contains(length)));
        assert_eq!(offsets[0], 0.0);
        for (pair, length) in offsets.windows(2).zip(&lengths) {
            assert_eq!(pair[1] - pair[0], length * 8.0);
        }
    }

    #[test]
    fn lengths_that_are_offsets_of_their_own_sequences_do_no_harm() {
        let mut q = tensor(1, "q", &[1, 1, 4, 4], false);
        q["ragged_offset_tensor_uid"] = json!(2);
        let sdpa = json!({"type": "SdpaAttributes", "name": "", "compute_data_type": "float",
            "inputs": {"q_tensor_uid": 1, "k_tensor_uid": 1, "v_tensor_uid": 1, "seq_len_q_tensor_uid": 2,
                       "seq_len_kv_tensor_uid": 2},
            "outputs": {"o_tensor_uid": 3}, "attributes": {}});
        let tensors = vec![q, tensor(2, "both", &[2], false), tensor(3, "o", &[1, 1, 4, 4], false)];
        let graph = graph("", tensors, vec![sdpa]);
        assert_eq!(fill(&graph, graph.tensor(2).unwrap(), 0).unwrap().values.len(), 2);
    }
}
