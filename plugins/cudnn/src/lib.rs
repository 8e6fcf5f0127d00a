//! The cuDNN and cuBLASLt engines of hipDNN, as an engine plugin for NVIDIA GPUs.
//!
//! NVIDIA's libraries are not linked. The driver, [`cudnn`] and [`lt`] are opened when a graph is first
//! queried; without them, or without a device, an engine does not apply and its reason lists what was tried.
//!
//! `CUDNN_ENGINE`: [`lowering`] translates nodes to objects of cuDNN's graph API, [`descriptor`] creates
//! them, [`compiled`] has cuDNN make a plan, timed by a [`trial`] if requested, and a [`part`] is such a
//! plan. Graphs that cuDNN does not accept whole are divided into several parts.
//!
//! `CUBLASLT_ENGINE`: a `chain` of nodes becomes one call of cuBLASLt with one of the algorithms of [`lt`].
//! Chains and `product`s come from the planner, which the hipBLASLt engine uses as well.
//!
//! Plans [`ahead`] are for a device that is not present.
//!
//! Parts and chains are the steps of a [`plan`], which runs on the stream of a [`handle`].

pub mod ahead;
pub mod compiled;
pub mod cudnn;
pub mod descriptor;
pub mod handle;
pub mod knob;
pub mod library;
pub mod lowering;
pub mod lt;
mod matrices;
pub mod names;
mod notes;
pub mod part;
pub mod plan;
pub mod plugin;
pub mod timing;
pub mod trial;
