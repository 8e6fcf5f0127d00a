//! The chains of a graph as a sequence of cuBLASLt calls.

use std::ffi::{c_int, c_void};

use hipdnn_plugin_planner::chain::{Chain, Part, Summed, partition};
use hipdnn_plugin_planner::numerics::of_chain;
use hipdnn_plugin_planner::plan::Found;
use hipdnn_plugin_planner::prepare::Prepared;
use hipdnn_plugin_planner::product::Matrix;
use hipdnn_plugin_sdk::cuda::Device;
use hipdnn_plugin_sdk::ffi::hipStream_t;
use hipdnn_plugin_sdk::gpu::check_alignment;
use hipdnn_plugin_sdk::gpu::workspace::ALIGNMENT;
use hipdnn_plugin_sdk::graph::{DataType, Graph};
use hipdnn_plugin_sdk::numerics::note;
use hipdnn_plugin_sdk::{Numerics, PluginError, Refusal};

use crate::knob::Options;
use crate::lt::algorithm::{Run, Split};
use crate::lt::description::epilogue;
use crate::lt::library::cublasLtMatmulAlgo_t;
use crate::matrices::sums;

/// A chain with its algorithm.
#[derive(Debug)]
pub struct Product {
    /// The chain.
    pub part: Part,
    /// Its call.
    pub run: Run,
    /// What it does to numbers.
    pub numerics: Numerics,
}

impl AsRef<Part> for Product {
    fn as_ref(&self) -> &Part {
        &self.part
    }
}

/// Whether a graph consists only of chains that cuBLASLt is known to support.
pub fn takes(prepared: &Prepared) -> bool {
    let checked = |part: Part| {
        epilogue(&part.chain)?;
        is_shown(&part.chain).then_some(part).ok_or_else(|| Refusal::new("was never run on a device").into())
    };
    partition(prepared, checked).is_ok()
}

/// Gradient epilogues are known to work in forms that were run on a device: 16- and 32-bit floats, and
/// operand sums only without a batch.
fn is_shown(chain: &Chain) -> bool {
    let product = &chain.product;
    let wide =
        |matrix: &Matrix| matches!(matrix.data_type, DataType::Float | DataType::Half | DataType::Bfloat16);
    let plain = product.auxiliary.is_none() && chain.sums.is_none();
    let of_factor = chain.sums.is_some_and(|sums| sums.of != Summed::Result);
    plain || wide(&product.a) && wide(&product.b) && (!of_factor || product.batch == 1)
}

/// The alignment of a tensor's address.
fn promised(graph: &Graph, uid: i64) -> usize {
    let tensor = graph.tensor(uid).filter(|tensor| !tensor.is_virtual);
    let promised = tensor.and_then(|tensor| usize::try_from(tensor.alignment).ok());
    promised.map_or(ALIGNMENT, |bytes| if bytes.is_power_of_two() { bytes } else { 1 })
}

/// The matmuls of a graph. `saved` contains earlier results for it.
///
/// # Errors
/// What cuBLASLt does not support, and its own errors; they name the node.
pub fn products(
    device: &Device,
    prepared: &Prepared,
    options: &Options,
    saved: &Found,
) -> Result<Vec<Product>, PluginError> {
    partition(prepared, |part| {
        let alignment = part.tensors.unscaled().map(|uid| promised(&prepared.graph, uid)).min().unwrap_or(1);
        let algorithm = saved.of(&part.nodes).map(algorithm).transpose()?;
        let run = Run::new(device, &part.chain, alignment, options, algorithm)?;
        let numerics = of_chain(&part.chain, options.tf32);
        let numerics = numerics.note_if(options.benchmarking, note::NONDETERMINISTIC);
        let numerics = with_sums(numerics, &part.chain, device.capability, run.split());
        Ok(Product { part, run, numerics })
    })
}

/// Adds how a chain adds up on a device of this compute capability, if its dot products are divided so.
fn with_sums(numerics: Numerics, chain: &Chain, capability: c_int, split: Option<Split>) -> Numerics {
    let mut numerics = numerics;
    // Taken back, so that the first sums are not added to ones that are not known.
    if numerics.notes.remove(&note::TENSOR_CORE) {
        for operand in [&chain.product.a, &chain.product.b] {
            numerics = numerics.matrix_sums(sums(operand.data_type, capability));
        }
    }
    // How sums of rows are divided is not known.
    let Some(split) = split.filter(|_| chain.sums.is_none()) else { return numerics };
    if !split.rounds {
        numerics.notes.remove(&note::REDUCED_PRECISION_REDUCTION);
    }
    numerics.parts(split.parts)
}

/// A saved algorithm.
fn algorithm(bytes: &[u8]) -> Result<cublasLtMatmulAlgo_t, PluginError> {
    let mut algorithm = cublasLtMatmulAlgo_t::default();
    let (words, rest) = bytes.as_chunks::<8>();
    if words.len() != algorithm.data.len() || !rest.is_empty() {
        return Err(PluginError::invalid_value(format!(
            "a saved algorithm has {} bytes, expected {}",
            bytes.len(),
            size_of_val(&algorithm)
        )));
    }
    for (word, bytes) in algorithm.data.iter_mut().zip(words) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(algorithm)
}

impl Product {
    /// The algorithm, for a saved plan.
    pub fn save(&self) -> Vec<u8> {
        self.run.algorithm().data.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Queues the matmul on a stream.
    ///
    /// # Errors
    /// When a tensor is misaligned, and cuBLASLt's.
    ///
    /// # Safety
    /// The tensors are those of the chain, in its order, valid until the work is done, as is `workspace` for
    /// [`Run::workspace_size`] bytes.
    pub unsafe fn run(
        &self,
        tensors: &[*mut c_void],
        workspace: *mut c_void,
        stream: hipStream_t,
    ) -> Result<(), PluginError> {
        let matrices = self.part.tensors.unscaled().count();
        for (place, (uid, pointer)) in self.part.tensors.all().zip(tensors).enumerate() {
            let alignment = if place < matrices { self.run.alignment } else { size_of::<f32>() };
            check_alignment(uid, *pointer, alignment)?;
        }
        // SAFETY: the tensors and the workspace are valid until the work is done, as this function requires.
        unsafe { self.run.run(&self.part.tensors.filled(tensors), workspace, stream) }
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_planner::prepare::prepare;
    use hipdnn_plugin_sdk::graph::operation::Matmul;
    use hipdnn_plugin_sdk::graph::{Node, Tensor};
    use hipdnn_plugin_sdk::numerics::MatrixSums;

    use super::*;

    #[test]
    fn products_tell_their_instructions_and_parts() {
        let told = |data_type, tf32, split| {
            let tensors = (1..=3).map(|uid| Tensor::new(uid, data_type, &[64, 64], &[64, 1])).collect();
            let operation = Matmul { a: 1, b: 2, c: 3 }.into();
            let node = Node { name: "m".to_owned(), compute_type: DataType::Float, operation };
            let prepared = prepare(&Graph { tensors, nodes: vec![node], ..Graph::default() }).unwrap();
            let parts: Vec<Part> = partition(&prepared, Ok).unwrap();
            let chain = &parts[0].chain;
            with_sums(of_chain(chain, tf32), chain, 90, split)
        };
        let sums = |terms| Some(MatrixSums { terms, bits: 24 });
        let reduces = |told: &Numerics| told.notes.contains(&note::REDUCED_PRECISION_REDUCTION);
        let plain = told(DataType::Half, false, None);
        assert!(plain.matrix_sums == sums(8) && plain.parts.is_none() && reduces(&plain));
        for (rounds, parts) in [(false, 1), (false, 4), (true, 4)] {
            let told = told(DataType::Half, false, Some(Split { parts, rounds }));
            assert_eq!((told.parts, reduces(&told)), (Some(parts), rounds));
        }
        assert_eq!(told(DataType::Float, true, None).matrix_sums, sums(4));
        assert_eq!(told(DataType::Float, false, None).matrix_sums, None);
    }

    #[test]
    fn algorithms_are_read_as_they_were_written() {
        let written: Vec<u8> = (0..64).collect();
        let read = algorithm(&written).unwrap();
        assert_eq!(read.data[1], 0x0f0e_0d0c_0b0a_0908);
        for size in [0, 63, 65, 72] {
            let error = algorithm(&vec![0; size]).unwrap_err();
            assert_eq!(error.message(), format!("a saved algorithm has {size} bytes, expected 64"));
        }
    }
}
