//! An engine of hipDNN for every GPU with a Vulkan driver, as an engine plugin.
//!
//! Nothing of Vulkan is linked. The [`loader`] is opened when a graph is first asked about; without it, or without a device, the engine
//! does not apply and the reason says what was looked for. Kernels are generated as SPIR-V and get addresses, as in HIP and CUDA.
//!
//! An [`instance`] lists devices by their [`properties`]. A [`gpu`] is an open device with its [`queue`] and its [`memory`]. A [`plan`] has
//! pipelines, which multiply by cooperative matrices where [`trust`] allows it, and finds tensors ([`bind`]) on the device, or on the host, from where they are imported or copied ([`staging`]).

pub mod bfloat;
pub mod bind;
pub mod buffer;
pub mod cache;
pub mod clock;
pub mod code;
pub mod device;
pub mod failure;
pub mod gpu;
pub mod handle;
pub mod instance;
pub mod loader;
pub mod memory;
pub mod pipeline;
pub mod places;
pub mod plan;
pub mod plugin;
pub mod properties;
pub mod public;
pub mod queue;
pub mod rounding;
pub mod saved;
pub mod staging;
pub mod target;
pub mod trial;
pub mod trust;
pub mod work;
