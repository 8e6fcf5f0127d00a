//! How the operations of a graph treat numbers: what engines say of it begins here.

use hipdnn_plugin_sdk::Numerics;
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, ReductionMode};
use hipdnn_plugin_sdk::numerics::{MatrixSums, OrderBy, functions_of, note};

use crate::chain::Chain;
use crate::prepare::{CheckedNode, Prepared};
use crate::problem::Problem;
use crate::problem::batchnorm::Batchnorm;
use crate::problem::convolution::Direction;
use crate::problem::normalization::Normalization;
use crate::problem::resample::{Pooling, Resample};

/// How an operation adds up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summation {
    /// Whether each item of a batch has sums of its own.
    pub of_items: bool,
    /// Whether they are divided into parts.
    pub split: bool,
    /// Whether the parts, or the algorithm, depend on the number of threads on a CPU.
    pub by_threads: bool,
    /// Whether the reference, or the parts, are in double precision.
    pub double: bool,
    /// Whether all terms are integers, so that the sums are exact.
    pub exact: bool,
}

/// The sums of a node; none if it has none.
pub fn sums(node: &CheckedNode<'_>) -> Option<Summation> {
    let integers = |types: [DataType; 2]| types.iter().all(|data_type| is_integer(*data_type));
    Some(match node.problem {
        Problem::Convolution(own) => {
            let weights = own.direction == Direction::BackwardFilter;
            let types = match own.direction {
                Direction::Forward => [&own.x, &own.w],
                Direction::BackwardData => [&own.y, &own.w],
                Direction::BackwardFilter => [&own.x, &own.y],
            };
            let exact = integers(types.map(|operand| operand.data_type));
            // Winograd or not; and padding beside weights that are not finite.
            let sides = own.window.iter().zip(&own.pre_padding).take(own.spatial);
            let by_threads =
                weights || sides.into_iter().any(|(window, padding)| *window > 1 || *padding > 0);
            Summation { of_items: !weights, split: weights, by_threads, exact, ..Summation::default() }
        }
        Problem::Matmul(own) => {
            let exact = integers([own.a.data_type, own.b.data_type]);
            Summation { of_items: true, exact, ..Summation::default() }
        }
        Problem::Mixture(_) => Summation { of_items: true, ..Summation::default() },
        Problem::MixtureGradient(_) => Summation::default(),
        Problem::Attention(_) | Problem::AttentionGradients(_) => {
            Summation { of_items: true, split: true, ..Summation::default() }
        }
        Problem::Batchnorm(own) if matches!(**own, Batchnorm::Inference(_)) => return None,
        Problem::Batchnorm(_) | Problem::Normalization(Normalization::Backward(_)) => {
            Summation { split: true, by_threads: true, double: true, ..Summation::default() }
        }
        Problem::Normalization(Normalization::Forward(_)) => {
            Summation { double: true, ..Summation::default() }
        }
        Problem::Reduction(own) => match own.mode {
            ReductionMode::Min | ReductionMode::Max | ReductionMode::Amax => return None,
            // How many rows there are decides whether and how they are divided.
            _ => Summation { of_items: true, split: true, double: true, ..Summation::default() },
        },
        Problem::Resample(own) if is_maximum(own) => return None,
        Problem::Resample(_) => Summation::default(),
        Problem::Pointwise(_) | Problem::BlockScale(_) => return None,
    })
}

fn is_integer(data_type: DataType) -> bool {
    use DataType as D;
    matches!(data_type, D::Boolean | D::Int4 | D::Int8 | D::Uint8 | D::Int32 | D::Int64)
}

fn is_maximum(pooling: &Resample) -> bool {
    matches!(pooling.pooling, Pooling::Maximum { .. })
}

/// Whether a node takes a maximum or the like, in which NaN could get lost.
pub fn chooses(node: &CheckedNode<'_>) -> bool {
    use PointwiseMode as M;
    match node.problem {
        Problem::Pointwise(own) => matches!(own.mode, M::Max | M::Min | M::ReluFwd | M::ReluBwd),
        Problem::Reduction(own) => {
            matches!(own.mode, ReductionMode::Min | ReductionMode::Max | ReductionMode::Amax)
        }
        Problem::Resample(own) => is_maximum(own),
        _ => false,
    }
}

/// The functions that a node computes, by which approximations are named.
pub fn functions(node: &CheckedNode<'_>) -> &'static [&'static str] {
    match node.problem {
        Problem::Attention(_) | Problem::AttentionGradients(_) => &["exp"],
        Problem::Pointwise(own) => functions_of(own.mode),
        _ => &[],
    }
}

/// The largest errors of functions in units in the last place, in single and in double precision.
pub type Errors = [&'static [(&'static str, u32)]; 2];

/// What is the same for all steps of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// What the order of sums depends on.
    pub order: &'static [OrderBy],
    /// Whether the bits of an item may depend on the size of its batch.
    pub batch_dependent: bool,
    /// Whether maxima and the like keep NaN for certain.
    pub keeps_nan: bool,
    /// Whether values between fused nodes may stay as they are.
    pub skips_rounding: bool,
    /// How far its functions may be off; others are not known.
    pub errors: Errors,
}

/// Engines of a library that does not tell how it adds up, nor what it does to NaN.
pub const LIBRARY: Engine = Engine {
    order: &[OrderBy::Shapes, OrderBy::Device, OrderBy::Library],
    batch_dependent: true,
    keeps_nan: false,
    skips_rounding: true,
    errors: [&[], &[]],
};

/// Engines of generated kernels, with or without their knob for bits that do not depend on the batch.
pub const fn generated(batch_invariant: bool, errors: Errors) -> Engine {
    Engine {
        order: &[OrderBy::Shapes, OrderBy::Device],
        batch_dependent: !batch_invariant,
        keeps_nan: true,
        skips_rounding: false,
        errors,
    }
}

/// What a library's matrix multiplication with epilogue may do, beside [`LIBRARY`]: matrix instructions for small types, and parts
/// of sums that are added in the result's type. Floats are multiplied in TF32 if that is allowed.
pub fn of_chain(chain: &Chain, tf32: bool) -> Numerics {
    use DataType as D;
    let product = &chain.product;
    let [a, b, c] = [&product.a, &product.b, &product.c].map(|matrix| matrix.data_type);
    let small = |data_type| matches!(data_type, D::Half | D::Bfloat16 | D::Fp8E4m3 | D::Fp8E5m2);
    let rounds = tf32 && a == D::Float;
    Numerics::default()
        .note_if(rounds || small(a) || small(b) || chain.double, note::TENSOR_CORE)
        .note_if(rounds, note::DOWN_CONVERT_INPUTS)
        .note_if(small(c), note::REDUCED_PRECISION_REDUCTION)
}

/// How instructions of AMD's devices add products of a type, whichever of them a library takes; not known of others.
///
/// They sum in single precision, and take along the sum two products of 16 bits at least (V_DOT2, V_MFMA of gfx908; 4 elsewhere) and 16
/// of 8-bit floats (instruction set documents of CDNA 1 to 4, RDNA 3 and 4). Tests on MI100 and MI250X found no bit of that lost (Li
/// and others, arXiv:2403.00232).
pub const fn of_amd(operand: DataType) -> Option<MatrixSums> {
    match operand {
        DataType::Half | DataType::Bfloat16 => Some(MatrixSums { terms: 2, bits: 24 }),
        DataType::Fp8E4m3 | DataType::Fp8E5m2 => Some(MatrixSums { terms: 16, bits: 24 }),
        _ => None,
    }
}

/// What a step of a GPU engine may do to numbers: sums in the compute type, divided among threads, and functions. The engine adds
/// what else it knows.
pub fn of_step(prepared: &Prepared, nodes: &[usize], engine: Engine) -> Numerics {
    let mut numerics = Numerics::default();
    for node in nodes.iter().filter_map(|place| prepared.node(*place)) {
        if let Some(sums) = sums(&node) {
            let compute = match node.node.compute_type {
                own @ (DataType::Double | DataType::Int32 | DataType::Boolean) => own,
                _ => DataType::Float,
            };
            let rounds = !sums.exact && matches!(compute, DataType::Float | DataType::Double);
            numerics = numerics
                .sums(compute, if rounds { engine.order } else { &[] })
                .note_if(rounds, note::SPLIT_SUMS)
                .note_if(rounds && engine.batch_dependent, note::BATCH_DEPENDENT);
        }
        numerics = numerics.note_if(engine.keeps_nan && chooses(&node), note::STRICT_NAN_PROP);
        let [single, double] = engine.errors;
        let errors = if node.node.compute_type == DataType::Double { double } else { single };
        let error = |name: &str| errors.iter().find(|(own, _)| *own == name).map(|(_, error)| *error);
        numerics =
            functions(&node).iter().fold(numerics, |numerics, name| numerics.function(name, error(name)));
    }
    let inside = if engine.skips_rounding { unrounded(prepared, nodes) } else { Vec::new() };
    inside.into_iter().fold(numerics, Numerics::unrounded)
}

/// The virtual tensors between these nodes whose type has fewer bits than what they are computed in.
fn unrounded(prepared: &Prepared, nodes: &[usize]) -> Vec<i64> {
    let readers = prepared.readers();
    let graph = &prepared.graph;
    let own = || nodes.iter().filter_map(|place| graph.nodes.get(*place));
    let narrow = |uid: &i64| {
        let tensor = graph.tensor(*uid).filter(|tensor| tensor.is_virtual);
        tensor.is_some_and(|tensor| {
            let wide = [DataType::Float, DataType::Double, DataType::Int32, DataType::Int64];
            !wide.contains(&tensor.data_type)
        })
    };
    let stays = |uid: &i64| readers.get(uid).is_some_and(|all| all.iter().all(|place| nodes.contains(place)));
    let made = own().flat_map(|node| node.operation.outputs());
    made.filter(|uid| narrow(uid) && stays(uid)).collect()
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise};
    use hipdnn_plugin_sdk::graph::{Graph, Node, Operation, Tensor};

    use super::*;
    use crate::chain::{Part, partition};
    use crate::prepare::prepare;

    /// c = GELU of the virtual tensor 3 = a · b.
    fn graph(data_type: DataType) -> Graph {
        let node = |name: &str, operation: Operation| Node {
            name: name.to_owned(),
            compute_type: DataType::Float,
            operation,
        };
        let mut tensors: Vec<Tensor> =
            (1..=4).map(|uid| Tensor::new(uid, data_type, &[16, 16], &[16, 1])).collect();
        tensors[2].is_virtual = true;
        let gelu = Pointwise::new(PointwiseMode::GeluApproxTanhFwd, 3, None, 4);
        let nodes = vec![node("m", Matmul { a: 1, b: 2, c: 3 }.into()), node("g", gelu.into())];
        Graph { tensors, nodes, ..Graph::default() }
    }

    #[test]
    fn fused_nodes_of_a_library_skip_the_rounding_between_them() {
        let prepared = prepare(&graph(DataType::Half)).unwrap();
        let whole = of_step(&prepared, &[0, 1], LIBRARY);
        assert_eq!(whole.unrounded, [3].into());
        assert!(whole.notes.contains(&note::SKIP_ROUNDING) && whole.notes.contains(&note::BATCH_DEPENDENT));
        assert_eq!(whole.functions, [("tanh", None)].into());
        // One after the other, or by kernels that round, or in single precision.
        let own = generated(false, [&[("tanh", 3)], &[("tanh", 1)]]);
        assert_eq!(of_step(&prepared, &[1], own).functions, [("tanh", Some(3))].into());
        for (nodes, engine) in [(&[0][..], LIBRARY), (&[1], LIBRARY), (&[0, 1], own)] {
            assert!(of_step(&prepared, nodes, engine).unrounded.is_empty());
        }
        let single = prepare(&graph(DataType::Float)).unwrap();
        assert!(of_step(&single, &[0, 1], LIBRARY).unrounded.is_empty());
        assert!(
            !of_step(&single, &[0, 1], generated(true, LIBRARY.errors))
                .notes
                .contains(&note::BATCH_DEPENDENT)
        );
    }

    #[test]
    fn floats_are_rounded_to_tf32_only_where_that_is_allowed() {
        let chain = |data_type| {
            let parts: Vec<Part> = partition(&prepare(&graph(data_type)).unwrap(), Ok).unwrap();
            parts[0].chain.clone()
        };
        let (single, half) = (chain(DataType::Float), chain(DataType::Half));
        assert!(of_chain(&single, false).is_empty());
        let allowed = of_chain(&single, true).notes;
        assert_eq!(allowed, [note::TENSOR_CORE, note::DOWN_CONVERT_INPUTS].into());
        for tf32 in [false, true] {
            let small = [note::TENSOR_CORE, note::REDUCED_PRECISION_REDUCTION].into();
            assert_eq!(of_chain(&half, tf32).notes, small);
        }
    }

    #[test]
    fn integers_are_exact_and_maxima_keep_nan() {
        let mut whole = graph(DataType::Int8);
        whole.nodes.truncate(1);
        whole.tensors[2].is_virtual = false;
        whole.tensors.truncate(3);
        whole.nodes[0].compute_type = DataType::Int32;
        let told = of_step(&prepare(&whole).unwrap(), &[0], generated(false, LIBRARY.errors));
        assert!(told.order.is_empty() && told.notes.is_empty());
        let mut maximum = graph(DataType::Float);
        maximum.nodes[1].operation = Pointwise::new(PointwiseMode::ReluFwd, 3, None, 4).into();
        let prepared = prepare(&maximum).unwrap();
        let keeps = |engine| of_step(&prepared, &[1], engine).notes.contains(&note::STRICT_NAN_PROP);
        assert!(keeps(generated(false, LIBRARY.errors)) && !keeps(LIBRARY));
    }
}
