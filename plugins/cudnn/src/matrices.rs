//! How NVIDIA's matrix instructions add up in what cuDNN and cuBLASLt compute, of which the libraries say nothing.

use std::ffi::c_int;

use hipdnn_plugin_planner::chain::is_small;
use hipdnn_plugin_planner::prepare::Prepared;
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::convolution::Direction;
use hipdnn_plugin_sdk::Numerics;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::numerics::{MatrixSums, note};

/// How instructions add products of a type on devices of a compute capability, 90 for 9.0; none of doubles and integers.
///
/// They take at least 16 bytes of each operand along the sum, Volta's 8 (PTX ISA, `mma`), and cut products and sums below the last of
/// 24 bits; of 8-bit floats, below that of 14 on Hopper and Ada (DeepSeek-V3, arXiv:2412.19437, 3.3.2; Khattak, Mikaitis,
/// arXiv:2512.07004). Later devices keep no fewer.
pub(crate) fn sums(operand: DataType, capability: c_int) -> Option<MatrixSums> {
    let (terms, bits) = match operand {
        DataType::Half if capability < 75 => (4, 24),
        DataType::Half | DataType::Bfloat16 => (8, 24),
        DataType::Float => (4, 24),
        _ if is_small(operand) => (16, 14),
        _ => return None,
    };
    Some(MatrixSums { terms, bits })
}

/// Adds to cuDNN's notes on some nodes how matrix instructions add up in them. Its notes do not tell that these multiply 8-bit floats.
pub(crate) fn of_nodes(
    prepared: &Prepared,
    nodes: &[usize],
    capability: c_int,
    mut numerics: Numerics,
) -> Numerics {
    // Taken back, so that the first sums are not added to ones that are not known.
    let noted = numerics.notes.remove(&note::TENSOR_CORE);
    for node in nodes.iter().filter_map(|place| prepared.node(*place)) {
        let operands = match node.problem {
            Problem::Matmul(own) => [own.a.data_type, own.b.data_type],
            Problem::Convolution(own) => match own.direction {
                Direction::Forward => [own.x.data_type, own.w.data_type],
                Direction::BackwardData => [own.y.data_type, own.w.data_type],
                Direction::BackwardFilter => [own.x.data_type, own.y.data_type],
            },
            Problem::Attention(own) => [own.q.operand.data_type, own.v.operand.data_type],
            Problem::AttentionGradients(own) => [own.q.operand.data_type, own.v.operand.data_type],
            _ => continue,
        };
        for operand in operands.into_iter().filter(|operand| noted || is_small(*operand)) {
            numerics = numerics.matrix_sums(sums(operand, capability));
        }
    }
    numerics.note_if(noted, note::TENSOR_CORE)
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_planner::prepare::prepare;
    use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise};
    use hipdnn_plugin_sdk::graph::{Graph, Node, PointwiseMode, Tensor};

    use super::*;

    /// What is told of tanh(a · b), of which cuDNN notes this.
    fn told(types: [DataType; 2], noted: bool, capability: c_int) -> Numerics {
        let mut tensors: Vec<Tensor> =
            (1..=4).map(|uid| Tensor::new(uid, DataType::Float, &[16, 16], &[16, 1])).collect();
        (tensors[0].data_type, tensors[1].data_type) = (types[0], types[1]);
        tensors[2].is_virtual = true;
        let node = |operation| Node { name: "n".to_owned(), compute_type: DataType::Float, operation };
        let tanh = Pointwise::new(PointwiseMode::TanhFwd, 3, None, 4);
        let nodes = vec![node(Matmul { a: 1, b: 2, c: 3 }.into()), node(tanh.into())];
        let prepared = prepare(&Graph { tensors, nodes, ..Graph::default() }).unwrap();
        let own = Numerics::default().note_if(noted, note::TENSOR_CORE);
        assert_eq!(of_nodes(&prepared, &[1], capability, own.clone()), own);
        of_nodes(&prepared, &[0, 1], capability, own)
    }

    #[test]
    fn products_of_small_floats_are_by_matrix_instructions_whatever_cudnn_says() {
        for types in [[DataType::Fp8E4m3; 2], [DataType::Fp8E5m2, DataType::Fp8E4m3]] {
            for noted in [false, true] {
                let told = told(types, noted, 90);
                assert!(told.notes.contains(&note::TENSOR_CORE));
                assert_eq!(told.matrix_sums, Some(MatrixSums { terms: 16, bits: 14 }));
            }
        }
    }

    #[test]
    fn other_products_only_where_it_says_so() {
        for (data_type, capability, terms) in [
            (DataType::Half, 90, 8),
            (DataType::Bfloat16, 80, 8),
            (DataType::Half, 70, 4),
            (DataType::Float, 80, 4),
        ] {
            assert_eq!(told([data_type; 2], false, capability), Numerics::default());
            let sums = told([data_type; 2], true, capability).matrix_sums;
            assert_eq!(sums, Some(MatrixSums { terms, bits: 24 }), "{data_type:?} {capability}");
        }
        assert_eq!(told([DataType::Double; 2], true, 90).matrix_sums, None);
    }
}
