//! The hipBLASLt engine of hipDNN, as an engine plugin: products of matrices with what follows them, on AMD GPUs.
//!
//! Nothing of AMD's is linked. [`hipblaslt`], [`rocblas`] and the HIP runtime are opened when a graph is first asked about;
//! without them, or without a device, the engine does not apply and the reason says what was looked for.
//!
//! A `chain` of nodes of a graph becomes one call: of hipBLASLt where that finds an [`algorithm`], else of rocBLAS where a
//! [`gemm`] alone is enough. A [`plan`] makes the calls in order on the stream of a [`handle`].

pub mod algorithm;
pub mod gemm;
pub mod handle;
pub mod hipblaslt;
pub mod knob;
pub mod plan;
pub mod plugin;
pub mod rocblas;
pub mod run;
