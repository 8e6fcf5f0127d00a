//! Plans made without a device, executed on the emulated one.

use std::fs;

use super::{INSIDE, inside};
use crate::Failure;
use crate::install::{LIBRARY, TOOL};
use crate::process::run;
use crate::userland::Userland;

/// The graphs, whose names are those of their files.
const GRAPHS: [&str; 2] = ["layernorm", "batchnorm"];

/// Compiles plans for two architectures without a device, and runs those for the emulated one with empty caches.
pub fn plans(userland: &Userland, rig: &str) -> Result<String, Failure> {
    let program = format!("/{INSIDE}/{TOOL}");
    let library = format!("/{INSIDE}/lib/{LIBRARY}");
    let inner = format!("{INSIDE}/plans.hdpk");
    let file = format!("/{inner}");
    let graphs = GRAPHS.map(|name| format!("/{INSIDE}/graphs/{name}.json"));
    let mut words = vec![program.as_str(), "--backend", &library, "compile"];
    words.extend(graphs.iter().map(String::as_str));
    words.extend(["--device", "gfx942,gfx1100", "--output", &file]);
    let mut compile = userland.command(&words);
    run(compile.env("HIPDNN_DISABLE_CACHE", "1"))?;
    for graph in GRAPHS {
        let words =
            [program.as_str(), "--backend", &library, "plan", "load", &file, "--graph", graph, "--check"];
        let mut load = inside(userland, rig, &words);
        let said = run(load.env("HIPDNN_DISABLE_CACHE", "1"))?;
        if !said.starts_with("HIPRTC_ENGINE ") || said.matches(": ok").count() == 0 {
            return Err(Failure::new(format!("the plan of {graph} was not taken:\n{said}")));
        }
    }
    fs::remove_file(userland.path(inner))?;
    Ok(format!("{} graphs", GRAPHS.len()))
}
