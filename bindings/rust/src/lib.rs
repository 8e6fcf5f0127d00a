//! Safe Rust over the C functions of a `libhipdnn_backend.so`, this project's or another, found at run time.
//!
//! A [`Backend`] is the open library, and a [`Handle`] has the engines of its plugins. A graph of operations is built with
//! [`GraphBuilder`] (or read from JSON or bytes) and becomes an [`OperationGraph`], which tells which engines can run it and
//! why the others cannot. An [`Engine`] with its knob settings is an [`EngineConfig`], which makes an [`ExecutionPlan`]; a
//! [`VariantPack`] binds memory to its tensors.
//!
//! # In a program
//!
//! It needs Rust 1.95 and, to compile, nothing of hipDNN: the library is opened when the program runs. In `Cargo.toml`, with the path
//! of a clone (or `git` and a `tag` in the place of `path`):
//!
//! ```toml
//! [dependencies]
#![doc = concat!("hipdnn = { path = \"hipdnn/bindings/rust\", version = \"", env!("CARGO_PKG_VERSION"), "\" }")]
//! ```
//!
//! [`Backend::open`] says where the library is looked for; after `cargo xtask build` in the clone, `HIPDNN_BACKEND_LIBRARY_PATH` can
//! name its `target/stage/lib`. Engines are beside the library, in `hipdnn_plugins/engines`. This program asks who computes a graph:
//!
//! ```
//! use hipdnn::graph::{DataType, operation::Matmul};
//! use hipdnn::{Backend, GraphBuilder, Handle};
//!
//! fn main() -> hipdnn::Result<()> {
//!     let handle = Handle::new(&Backend::open(None)?)?;
//!     let mut graph = GraphBuilder::new("product", DataType::Float);
//!     let [a, b, c] = [[1, 2, 3], [1, 3, 2], [1, 2, 2]].map(|dims| graph.tensor(&dims));
//!     graph.node("product", Matmul { a, b, c });
//!     let offer = graph.build(&handle)?.offer()?;
//!     println!("{} engines can run it {}", offer.engines.len(), offer.reasons);
//!     Ok(())
//! }
//! ```
//!
//! And this one computes:
//!
//! ```
//! use hipdnn::graph::{DataType, PointwiseMode, operation::{Matmul, Pointwise}};
//! use hipdnn::{Backend, Engine, EngineConfig, ExecutionPlan, GraphBuilder, Handle, VariantPack};
//!
//! # fn main() -> hipdnn::Result<()> {
//! let backend = Backend::open(None)?;
//! let handle = Handle::new(&backend)?;
//!
//! // relu(a · b), whose product is virtual.
//! let mut graph = GraphBuilder::new("matmul_relu", DataType::Float);
//! let (a, b) = (graph.tensor(&[1, 2, 3]), graph.tensor(&[1, 3, 2]));
//! let (c, y) = (graph.virtual_tensor(&[1, 2, 2]), graph.tensor(&[1, 2, 2]));
//! graph.node("product", Matmul { a, b, c });
//! graph.node("relu", Pointwise::new(PointwiseMode::ReluFwd, c, None, y));
//! let graph = graph.build(&handle)?;
//!
//! let offer = graph.offer()?;
//! let best = *offer.engines.first().expect("the CPU engines run this");
//! let plan = ExecutionPlan::new(&EngineConfig::new(&Engine::new(&graph, best)?, &[])?)?;
//!
//! // By default, tensors are aligned to 16 bytes.
//! #[repr(align(16))]
//! struct Array<const N: usize>([f32; N]);
//! let mut left = Array([1.0, 2.0, 3.0, -4.0, 5.0, -6.0]);
//! let mut right = Array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
//! let mut result = Array([0.0; 4]);
//! let mut workspace = vec![0_u8; plan.workspace_size()?];
//! let memory = [
//!     (a, left.0.as_mut_ptr().cast()),
//!     (b, right.0.as_mut_ptr().cast()),
//!     (y, result.0.as_mut_ptr().cast()),
//! ];
//! let pack = VariantPack::new(&backend, &memory, workspace.as_mut_ptr().cast())?;
//! // SAFETY: each array is as large as its tensor, and in memory that a CPU engine can access.
//! unsafe { plan.execute(&handle, &pack) }?;
//! assert_eq!(result.0, [4.0, 5.0, 0.0, 0.0]);
//! # Ok(())
//! # }
//! ```
//!
//! The crate has no Cargo features. What a library lacks is an [`Error::Function`] when it is called, so a program may be newer than the
//! library. [`OperationGraph::explain`] asks each engine about a graph, [`tuning`] measures them, [`ahead`] reads plans that were made
//! elsewhere, [`hardware`] has memory and streams of GPUs, and [`forward_log`] hands the library's log to the crate `log`. Each version
//! 0.x of the crate may change its interface; the list of changes says how.
//!
//! # Memory and GPUs
//!
//! A plan reads and writes memory of its device, at the addresses of its [`VariantPack`]: [`hardware::DeviceMemory`] on a GPU, any on
//! the CPU. On a GPU [`ExecutionPlan::execute`] only starts the work, on the handle's stream ([`Handle::set_stream`]); memory, plan and
//! stream must live until it is done. That is why these functions are `unsafe`.
//!
//! # Threads
//!
//! Finalized objects are immutable and [`Sync`]. A [`Handle`] has a stream that can be set, so it is [`Send`] but not
//! `Sync`: use one per thread. An [`OperationGraph`] changes when it is finalized, and is only `Send`. Every object keeps the library open.
//!
//! ```
//! fn shared<T: Send + Sync>() {}
//! shared::<hipdnn::Backend>();
//! shared::<hipdnn::ExecutionPlan>();
//! ```
//! ```compile_fail
//! fn shared<T: Sync>() {}
//! shared::<hipdnn::Handle>();
//! ```
//!
//! # Errors
//!
//! An [`Error`] from the library has its [`Status`] and its message, which names the argument, its value and what was expected. A graph
//! that no engine can run is not an error until it is planned: [`Offer::reasons`] says why each engine refused.
//!
//! ```
//! use hipdnn::{Backend, Error, OperationGraph, Status};
//!
//! # fn main() -> hipdnn::Result<()> {
//! let backend = Backend::open(None)?;
//! match OperationGraph::from_json(&backend, b"{}") {
//!     Err(Error::Status { status, text, .. }) => {
//!         assert_eq!(status, Status::BadParam);
//!         assert!(text.contains("nodes") || text.contains("tensors"), "{text}");
//!     }
//!     _ => panic!("a graph without nodes was read"),
//! }
//! # Ok(())
//! # }
//! ```

pub mod ahead;
mod backend;
mod builder;
pub mod constants;
mod descriptor;
mod engine;
mod error;
mod explain;
mod functions;
mod graph_descriptor;
mod handle;
pub mod hardware;
mod knob;
mod log;
mod plan;
mod search;
mod serialized;
pub mod tuning;

pub use self::log::{ForwardedLog, forward_log, listen};
pub use backend::Backend;
pub use builder::GraphBuilder;
pub use descriptor::Descriptor;
pub use engine::{Engine, EngineConfig, NumericalNote, WantedNotes};
pub use error::{Error, Result, Status, one_line};
pub use explain::Verdict;
pub use graph_descriptor::{Offer, OperationGraph};
pub use handle::{EngineInfo, Handle, PolicyInfo, RankingOutcome};
/// Graphs as plain data: tensors, nodes and their operations.
pub use hipdnn_plugin_sdk::graph;
pub use knob::{Knob, KnobRange, KnobSetting, KnobValue};
pub use plan::{ExecutionPlan, VariantPack};
pub use serialized::Contents;
