//! The cuDNN and cuBLASLt engines of hipDNN, as an engine plugin for NVIDIA GPUs.
//!
//! Nothing of NVIDIA's is linked. The driver, [`cudnn`] and [`lt`] are opened when a graph is first asked about; without them, or
//! without a device, an engine does not apply and the reason says what was looked for.
//!
//! `CUDNN_ENGINE`: [`lowering`] says which objects of cuDNN's graph API nodes become, [`descriptor`] makes them, [`compiled`] finds the
//! plan that cuDNN makes of them, by a [`trial`] where that is asked for, and [`part`] is such a plan. A graph that cuDNN does not take
//! whole is divided into several.
//!
//! `CUBLASLT_ENGINE`: a `chain` of nodes becomes one call of cuBLASLt with one of the algorithms of [`lt`]. Chains and `product`s are
//! the planner's, which the engine of hipBLASLt has in common.
//!
//! Plans [`ahead`] are for a device that is not here.
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
pub mod names;
pub mod part;
pub mod plan;
pub mod plugin;
pub mod timing;
pub mod trial;
