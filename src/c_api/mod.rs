//! The functions of the C interface: check the inputs, make one safe call, write the outputs.
//!
//! Failures become a status here, and a text for `hipdnnGetLastErrorString`. Outputs are written last and only on success.

#![expect(non_snake_case, reason = "parameters have the names that the header gives them")]
#![expect(rustdoc::broken_intra_doc_links, reason = "`@param[out]` is a command of the header, not a link")]

mod bytes;
mod describe;
mod descriptor;
mod engines;
mod error;
mod graph;
mod guard;
mod handle;
mod logging;
mod plan;
mod plugin_paths;
mod policies;
mod ranking;
mod texts;
mod version;

pub use descriptor::*;
pub use engines::*;
pub use error::*;
pub use graph::*;
pub use handle::*;
pub use logging::*;
pub use plan::*;
pub use plugin_paths::*;
pub use policies::*;
pub use ranking::*;
pub use version::*;
