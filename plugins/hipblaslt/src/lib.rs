//! The hipBLASLt engine of hipDNN, as an engine plugin: matmuls with epilogues on AMD GPUs.
//!
//! AMD's libraries are not linked. [`hipblaslt`], [`rocblas`] and the HIP runtime are opened when a graph is
//! first queried; without them, or without a device, the engine does not apply and its reason lists what was
//! tried.
//!
//! A `chain` of nodes of a graph becomes one call: of hipBLASLt if it finds an [`algorithm`], else of rocBLAS
//! if a plain [`gemm`] suffices. A [`plan`] makes the calls in order on the stream of a [`handle`].

pub mod algorithm;
pub mod gemm;
pub mod handle;
pub mod hipblaslt;
pub mod knob;
pub mod plan;
pub mod plugin;
pub mod rocblas;
pub mod run;
