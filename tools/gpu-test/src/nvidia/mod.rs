//! Checks of the engines for NVIDIA GPUs besides results: captured graphs, streams, threads, devices, kinds of memory, notes, and
//! failing calls of NVIDIA's libraries.

mod capture;
mod devices;
pub mod driver;
mod failing;
mod memory;
mod notes;
mod numbers;
mod pointers;
mod streams;

use std::ffi::c_int;
use std::path::Path;
use std::time::Instant;

use hipdnn_plugin_sdk::cuda::{self, Cuda, Device};
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::hip::Hip;

use crate::backend::Backend;
use crate::case::Case;
use crate::cases::{self, CUBLASLT, CUDNN, RTC};
use crate::{Failure, engine_for, is_wanted};

use driver::Driver;

/// A device, the driver and the library under test.
pub struct Context<'a> {
    /// The path of the library.
    pub library: &'a Path,
    /// The driver, as engines use it.
    pub cuda: &'static Cuda,
    /// The rest of the driver.
    pub driver: &'static Driver,
    /// The device.
    pub device: Device,
    /// Engines whose library is missing, and the names searched.
    absent: Vec<(&'static str, String)>,
}

impl<'a> Context<'a> {
    /// The device of this thread's CUDA context, else the first one.
    fn new(library: &'a Path) -> Result<Self, Failure> {
        let failure = |error: &dyn std::fmt::Display| Failure(error.to_string());
        let cuda = Cuda::with_device().map_err(|refusal| failure(&refusal))?;
        let driver = Driver::get().map_err(|error| failure(&error))?;
        // SAFETY: null is a default stream.
        let context = unsafe { cuda::context_of(cuda, std::ptr::null_mut()) }?;
        let device = Device::of_context(cuda, context)?;
        let mut new = Self { library, cuda, driver, device, absent: Vec::new() };
        let backend = new.open()?;
        let mut absent: Vec<(&'static str, String)> = Vec::new();
        for Subject { engine, case } in subjects(&new)? {
            if let Some(reason) = backend.refusal(engine, &case.graph)?
                && reason.contains("no library for")
                && !absent.iter().any(|(other, _)| *other == engine)
            {
                absent.push((engine, reason));
            }
        }
        for (engine, reason) in &absent {
            println!("{engine:<90} left out: {reason}");
        }
        new.absent = absent;
        Ok(new)
    }

    /// The same for another device.
    fn on(&self, device: Device) -> Context<'a> {
        Context {
            library: self.library,
            cuda: self.cuda,
            driver: self.driver,
            device,
            absent: self.absent.clone(),
        }
    }

    /// Why an engine is skipped, if its library is missing.
    fn missing(&self, engine: &str) -> Option<&str> {
        self.absent.iter().find(|(other, _)| *other == engine).map(|(_, reason)| reason.as_str())
    }

    /// The device, for memory functions.
    pub fn gpu(&self) -> Gpu {
        Gpu::Cuda(self.device)
    }

    /// Converts a CUDA result.
    ///
    /// # Errors
    /// `answer` is an error.
    pub fn check(&self, function: &str, answer: c_int) -> Result<(), Failure> {
        Ok(self.cuda.check(function, answer)?)
    }

    /// A handle of the library.
    ///
    /// # Errors
    /// The library's message.
    pub fn open(&self) -> Result<Backend, Failure> {
        Backend::open(self.library)
    }
}

/// The outcome of a check.
pub enum Outcome {
    /// It passed, with a note.
    Passed(String),
    /// It cannot be run here, for this reason.
    LeftOut(String),
}

/// A check and its name.
pub type Check = (String, Box<dyn Fn(&Context<'_>) -> Result<Outcome, Failure>>);

/// A case of an engine.
pub struct Subject {
    /// The engine.
    pub engine: &'static str,
    /// The case.
    pub case: Case,
}

/// Cases of each engine: with its own workspace, with one passed to each execution, of one call and of several.
const SUBJECTS: [(&str, &str); 9] = [
    (RTC, "largest of the columns of row sums"),
    (RTC, "scale, bias, residual, relu [2, 3, 20, 36] float ChannelsFirst"),
    (RTC, "softmax of scaled scores [2, 3, 40] half"),
    (CUDNN, "conv forward 3x3 half ChannelsLast"),
    (CUDNN, "conv 3x3 + bias + residual + relu half ChannelsLast"),
    (CUDNN, "batchnorm training, kept 3 half ChannelsLast"),
    (CUDNN, "sdpa Causal [2, 4, 128, 128, 64] bfloat16"),
    (CUBLASLT, "matmul, bias true, residual true, relu_fwd, half"),
    (CUBLASLT, "matmul [3, 16, 40] [3, 40, 24], by columns [false, false, false], bfloat16"),
];

/// The cases of the checks, without those of skipped engines.
///
/// # Errors
/// A case does not exist.
pub fn subjects(context: &Context<'_>) -> Result<Vec<Subject>, Failure> {
    let subject = |(engine, name): (&'static str, &str)| {
        let case = cases::named(engine, name)?;
        let engine = engine_for(context.gpu(), engine)
            .ok_or_else(|| Failure(format!("{engine} is not an engine for NVIDIA GPUs")))?;
        Ok(Subject { engine, case })
    };
    let is_there = |subject: &Result<Subject, Failure>| match subject {
        Ok(subject) => context.missing(subject.engine).is_none(),
        Err(_) => true,
    };
    SUBJECTS.into_iter().map(subject).filter(is_there).collect()
}

/// Runs all checks except failing calls, or those whose names contain one of the words. Returns how many failed.
///
/// # Errors
/// There is no GPU, or no check with such a name.
pub fn check(library: &Path, words: &[String]) -> Result<usize, Failure> {
    let context = Context::new(library)?;
    // The process's plugins also find it.
    if let Ok(hip) = Hip::get() {
        println!("beside the HIP runtime {}, devices: {}", hip.library().name(), hip.device_count()?);
    }
    let groups = [
        capture::checks(&context)?,
        streams::checks(&context)?,
        pointers::checks(),
        devices::checks(),
        memory::checks(),
        notes::checks(&context)?,
        numbers::checks(&context)?,
    ];
    run(&context, groups.into_iter().flatten().collect(), words)
}

/// Makes calls fail, one part of several. Returns for how many engines a check failed.
///
/// # Errors
/// As [`check`].
pub fn check_calls(library: &Path, part: (usize, usize), words: &[String]) -> Result<usize, Failure> {
    run(&Context::new(library)?, failing::checks(part), words)
}

fn run(context: &Context<'_>, checks: Vec<Check>, words: &[String]) -> Result<usize, Failure> {
    let (mut passed, mut left_out, mut failed) = (0, 0, 0);
    for (name, check) in checks {
        if !is_wanted(&name, words) {
            continue;
        }
        let start = Instant::now();
        let result = check(context);
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(Outcome::Passed(note)) => {
                passed += 1;
                println!("{name:<90} {note}  {seconds:5.2} s");
            }
            Ok(Outcome::LeftOut(reason)) => {
                left_out += 1;
                println!("{name:<90} left out: {reason}");
            }
            Err(failure) => {
                failed += 1;
                println!("{name:<90} FAILED: {failure}");
            }
        }
    }
    println!("{passed} checks passed, {left_out} left out, {failed} failed");
    if passed + left_out + failed == 0 {
        return Err(Failure(format!("no check has {} in its name", words.join(" or "))));
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_name_cases_that_exist() {
        for (engine, name) in SUBJECTS {
            cases::named(engine, name).unwrap();
        }
    }
}
