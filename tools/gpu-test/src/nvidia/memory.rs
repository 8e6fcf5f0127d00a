//! Whether device memory is freed.

use hipdnn_plugin_sdk::gpu::Gpu;

use super::{Check, Context, Outcome, Subject, subjects};
use crate::Failure;
use crate::cases::{CUBLASLT, CUDNN};
use crate::gate::{self, Fail};

/// The functions that fail in some of the runs: those that put work on a stream.
const QUEUES: [&str; 3] = ["cuLaunchKernel", "cudnnBackendExecute", "cublasLtMatmul"];

/// The number of plans before measuring memory: for cuDNN more than a process caches.
const PLANS: [(&str, usize); 3] = [("NVRTC_ENGINE", 12), (CUDNN, 140), (CUBLASLT, 140)];

/// The tolerance after as many plans again: the driver allocates in pieces of 2 MiB.
const MISSING: usize = 4 << 20;

pub fn checks() -> Vec<Check> {
    vec![("device memory after plans that ran and plans that failed".to_owned(), Box::new(comes_back))]
}

fn free(context: &Context<'_>) -> Result<usize, Failure> {
    context.gpu().synchronize()?;
    let _entered = context.device.enter()?;
    let (mut free, mut total) = (0, 0);
    // SAFETY: the function writes only to the locals `free` and `total`.
    let answer = unsafe { (context.driver.cuMemGetInfo_v2)(&mut free, &mut total) };
    context.check("cuMemGetInfo", answer).map(|()| free)
}

fn comes_back(context: &Context<'_>) -> Result<Outcome, Failure> {
    let backend = context.open()?;
    let mut notes = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for Subject { engine, mut case } in subjects(context)? {
        if known.contains(&engine) {
            continue;
        }
        known.push(engine);
        let gpu: Gpu = context.gpu();
        let mut limit = 2_000_000_000;
        let mut run = || {
            limit += 1;
            if [CUDNN, CUBLASLT].contains(&engine) {
                case.knobs = vec![("global.workspace_size_limit", limit)];
            }
            let fail = if limit % 3 == 0 { QUEUES.iter().find(|name| queues(engine, name)) } else { None };
            gate::record(engine, fail.map_or(Fail::Nothing, |name| Fail::Function(name)));
            let plan = backend.plan(engine, &case.graph, &case.knobs)?;
            let done = case.run_on_device(gpu, &plan).map(drop);
            match (gate::take().failed, done) {
                (None, done) => done,
                (Some(_), Err(_)) => Ok(()),
                (Some(name), Ok(())) => Err(Failure(format!("{name} fails and the execution does not"))),
            }
        };
        let plans = PLANS.iter().find(|(of, _)| *of == engine).map_or(0, |(_, plans)| *plans);
        (0..plans).try_for_each(|_| run())?;
        let before = free(context)?;
        (0..plans).try_for_each(|_| run())?;
        let missing = before.saturating_sub(free(context)?);
        if missing > MISSING {
            return Err(Failure(format!(
                "{engine}: {missing} bytes are missing after {plans} plans, expected at most {MISSING}"
            )));
        }
        notes.push(format!("{engine}: {missing} after {plans} plans"));
    }
    Ok(Outcome::Passed(format!("bytes missing: {}", notes.join(", "))))
}

/// Whether an engine puts work on a stream by this function.
fn queues(engine: &str, name: &str) -> bool {
    let of =
        [("NVRTC_ENGINE", "cuLaunchKernel"), (CUDNN, "cudnnBackendExecute"), (CUBLASLT, "cublasLtMatmul")];
    of.contains(&(engine, name))
}
