//! Bundles: graphs in files with the values of their tensors, metadata and support claims beside them, in the layout of AMD's
//! integration tests.
//!
//! ```text
//! {Name}.json  {Name}.meta.json  {Name}.support.json  {Name}.tensor{uid}.bin          one graph
//! graph.template.json  sweep.json  support.json  golden/{case}/tensor{uid}.bin         one graph for each case of a sweep
//! ```

mod claims;
mod discovery;
mod machine;
mod metadata;
mod settings;
mod sweep;
mod values;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use claims::{Claims, PLATFORMS};
pub use discovery::{Found, find, stray_claims};
pub use machine::Machine;
pub use metadata::{Level, Metadata};
pub use settings::Settings;
pub use values::Values;

use crate::failure::{Failure, Result};

/// A graph with what lies beside it.
#[derive(Debug)]
pub struct Bundle {
    /// The graph as JSON.
    pub graph: Value,
    /// How it is to be checked.
    pub metadata: Metadata,
    /// Where the values of its tensors are.
    pub values: Values,
}

/// The JSON in a file.
fn read_json(path: &Path) -> Result<Value> {
    let bytes = std::fs::read(path).map_err(|error| Failure::input(error.to_string()).of_file(path))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::input(format!("this is not JSON: {error}")).of_file(path))
}

/// A file beside another, by the other's name without its extension.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}.{ending}"))
}
