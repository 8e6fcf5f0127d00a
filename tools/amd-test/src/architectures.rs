//! Whether the compiler takes the generated kernels for every architecture, which needs no device.

use hipdnn_rtc_plugin::hiprtc::Hiprtc;
use hipdnn_rtc_plugin::source::{HIP, PRELUDE, generate};

use crate::Failure;
use crate::cases;

/// Waves of 64, waves of 64 with matrix cores of the next generation, and waves of 32.
const ARCHITECTURES: [&str; 4] = ["gfx90a", "gfx942", "gfx1100", "gfx1201"];

/// Something that every compiler compiles for an architecture that it knows.
const NOTHING: &str = "extern \"C\" __global__ void nothing() {}";

/// Compiles the kernels of every case, and answers for which architectures.
pub fn compile() -> Result<String, Failure> {
    let failure = |error: &dyn std::fmt::Display| Failure(error.to_string());
    let hiprtc = Hiprtc::get().map_err(|error| failure(&error))?;
    let mut source = [HIP, PRELUDE].join("\n");
    let mut count = 0;
    for (place, (_, case)) in cases::all().into_iter().filter(|(engine, _)| *engine == cases::RTC).enumerate()
    {
        let program =
            generate(&case.graph).map_err(|refusal| Failure(format!("{}: {refusal}", case.name)))?;
        for kernel in &program.kernels {
            // One source for all, so every kernel needs a name of its own.
            source.push_str(&kernel.text.replace(&kernel.name, &format!("case_{place}_{}", kernel.name)));
            count += 1;
        }
    }
    let mut known = Vec::new();
    for architecture in ARCHITECTURES {
        match hiprtc.compile(NOTHING, architecture) {
            Ok(_) => {
                hiprtc.compile(&source, architecture).map_err(|error| failure(&error))?;
                known.push(architecture);
            }
            // The device of these tests is one of this architecture.
            Err(error) if architecture == "gfx1100" => return Err(failure(&error)),
            Err(_) => println!("{architecture} is not known to {}", hiprtc.version().unwrap_or_default()),
        }
    }
    Ok(format!("{count} kernels for {}", known.join(", ")))
}
