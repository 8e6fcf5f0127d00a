//! The test cases.

mod activation;
mod batchnorm;
mod convolution;
mod fusion;
mod graph;
mod matmul;
mod normalization;
mod nvidia;
mod pooling;
mod reduction;
mod rtc;
mod softmax;
mod tensor_op;

use std::fs;
use std::path::Path;

use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::json;

use crate::Failure;
use crate::case::{Case, Order};
use crate::memory::half_step;

/// The engine that uses MIOpen's own choice.
const MIOPEN: &str = "MIOPEN_ENGINE";
/// The engine that asks MIOpen for deterministic kernels.
const DETERMINISTIC: &str = "MIOPEN_ENGINE_DETERMINISTIC";

/// The engine with generated kernels.
pub const RTC: &str = "HIPRTC_ENGINE";

/// The engine of matmuls.
pub const HIPBLASLT: &str = "HIPBLASLT_ENGINE";

/// The engine that passes graphs to cuDNN.
pub const CUDNN: &str = "CUDNN_ENGINE";

/// The engine of matmuls with cuBLASLt.
pub const CUBLASLT: &str = "CUBLASLT_ENGINE";

/// The types that the engines compute.
const TYPES: [DataType; 3] = [DataType::Float, DataType::Half, DataType::Bfloat16];
/// The types of activations and operations on two tensors.
const TYPES_WITHOUT_BFLOAT16: [DataType; 2] = [DataType::Float, DataType::Half];
/// The layouts of images.
const ORDERS: [Order; 2] = [Order::ChannelsFirst, Order::ChannelsLast];

pub use batchnorm::half_parameters;

/// Every case with the engine that runs it.
pub fn all() -> Vec<(&'static str, Case)> {
    let mut cases = Vec::new();
    cases.extend(convolution::cases());
    cases.extend(batchnorm::cases());
    cases.extend(activation::cases());
    cases.extend(tensor_op::cases());
    cases.extend(pooling::cases());
    cases.extend(reduction::cases());
    cases.extend(normalization::cases());
    cases.extend(softmax::cases());
    cases.extend(graph::cases());
    cases.extend(fusion::cases());
    cases.extend(rtc::cases());
    cases.extend(matmul::cases());
    cases.extend(nvidia::cases());
    for (_, case) in cases.iter_mut().filter(|(engine, _)| [MIOPEN, DETERMINISTIC].contains(engine)) {
        case.allowance = case.allowance.max(of_miopen(case));
    }
    cases
}

/// MIOpen's kernels round on the way in 16 bits, some of them each sum, of which nothing tells a plan: two neighbours for the reference
/// and for the kernel.
fn of_miopen(case: &Case) -> f64 {
    let types = case.graph.tensors.iter().map(|tensor| tensor.data_type);
    let narrow = types.filter(|data_type| matches!(data_type, DataType::Bfloat16 | DataType::Half));
    4.0 * narrow.map(half_step).fold(0.0, f64::max)
}

/// Writes the graphs of an engine into a folder, as JSON in files with the names of the cases.
pub fn write(folder: &Path, engine: &str) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure(format!("{}: {error}", folder.display())))?;
    for (_, case) in all().into_iter().filter(|(of, _)| *of == engine) {
        let path = folder.join(format!("{}.json", case.name));
        fs::write(&path, json::write(&case.graph))
            .map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

/// A case by its engine and its name.
pub fn named(engine: &str, name: &str) -> Result<Case, Failure> {
    let found = all().into_iter().find(|(of, case)| *of == engine && case.name == name);
    found.map(|(_, case)| case).ok_or_else(|| Failure(format!("no case of {engine} is called {name:?}")))
}
