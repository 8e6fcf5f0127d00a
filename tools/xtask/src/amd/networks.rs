//! Training of small networks on the emulated device by generated kernels alone.

use super::{INSIDE, LIMIT, PROGRAM, inside};
use crate::Failure;
use crate::install::LIBRARY;
use crate::process::run_within;
use crate::userland::Userland;

/// The engine that must be able to train without AMD's libraries for networks.
const ENGINE: &str = "HIPRTC_ENGINE";

/// The engines over those libraries.
const OTHERS: &str = "MIOPEN_ENGINE,MIOPEN_ENGINE_DETERMINISTIC,HIPBLASLT_ENGINE";

/// Trains the networks, and compares their losses with those of the engine for CPUs.
pub fn train(userland: &Userland, rig: &str) -> Result<String, Failure> {
    let (program, library) = (format!("/{INSIDE}/{PROGRAM}"), format!("/{INSIDE}/lib/{LIBRARY}"));
    let mut command = inside(userland, rig, &[&program, "--training", &library, ENGINE]);
    let out = run_within(command.env("HIPDNN_DISABLE_ENGINES", OTHERS), LIMIT)?;
    let names: Vec<&str> = out
        .lines()
        .filter(|line| line.contains(" graphs, losses "))
        .filter_map(|line| line.split(':').next())
        .collect();
    if names.is_empty() {
        Err(Failure::new(format!("no network was trained\n{out}")))
    } else {
        Ok(names.join(", "))
    }
}
