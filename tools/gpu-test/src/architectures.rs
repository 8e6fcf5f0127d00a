//! Compiles the generated kernels for every architecture, which needs no device.

use hipdnn_rtc_plugin::handle::Platform;
use hipdnn_rtc_plugin::source::{Options, Program, generate_with};

use crate::Failure;
use crate::cases;
use crate::registers::ARCHITECTURES;

/// Turing, Ampere, Ada, Hopper and Blackwell.
const OF_NVIDIA: [&str; 6] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100"];

/// A kernel that compiles for every architecture known to the compiler.
const NOTHING: &str = "extern \"C\" __global__ void nothing() {}";

/// Compiles the kernels of the cases, or of one part of several, for all architectures or for one. Returns a summary.
pub fn compile(platform: Platform, part: (usize, usize), only: Option<&str>) -> Result<String, Failure> {
    let failure = |error: &dyn std::fmt::Display| Failure(error.to_string());
    // The first one is that of the test devices.
    let (needed, architectures): (_, &[&str]) = match platform {
        Platform::Hip => ("gfx1100", &ARCHITECTURES),
        Platform::Cuda => ("sm_90", &OF_NVIDIA),
    };
    let compiler = platform.compiler().map_err(|error| failure(&error))?;
    let (mut known, mut count) = (Vec::new(), 0);
    for architecture in architectures.iter().filter(|known| only.is_none_or(|only| only == **known)) {
        match compiler.compile(NOTHING, architecture) {
            Ok(_) => {
                let (source, kernels) = source(platform, architecture, part)?;
                compiler.compile(&source, architecture).map_err(|error| failure(&error))?;
                count = kernels;
                known.push(*architecture);
            }
            Err(error) if *architecture == needed => return Err(failure(&error)),
            Err(_) => println!("{architecture} is not known to {}", compiler.name().unwrap_or_default()),
        }
    }
    if known.is_empty() {
        return Err(Failure(format!("no architecture of {} was compiled for", architectures.join(", "))));
    }
    Ok(format!("{count} kernels for {}", known.join(", ")))
}

/// The source of the kernels of a part of the cases for an architecture, and their number.
fn source(
    platform: Platform,
    architecture: &str,
    (part, parts): (usize, usize),
) -> Result<(String, usize), Failure> {
    let mut all = Program::default();
    let generated = cases::all().into_iter().filter(|(engine, _)| *engine == cases::RTC);
    for (place, (_, case)) in generated.enumerate().filter(|(place, _)| place % parts == part) {
        let program = generate_with(&case.graph, Options::default().on(architecture))
            .map_err(|refusal| Failure(format!("{}: {refusal}", case.name)))?;
        for mut kernel in program.kernels {
            // One source for all, so every kernel needs a unique name.
            let name = format!("case_{place}_{}", kernel.name);
            kernel.text = kernel.text.replace(&kernel.name, &name);
            all.kernels.push(kernel);
        }
    }
    Ok((all.source(platform.language()), all.kernels.len()))
}
