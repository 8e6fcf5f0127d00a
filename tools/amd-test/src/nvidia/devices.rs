//! Several devices in one process.

use std::ptr::null_mut;

use hipdnn_plugin_sdk::cuda::Device;

use super::driver::{NON_BLOCKING, Stream};
use super::pointers::refused;
use super::{Check, Context, Outcome, Subject, subjects};
use crate::Failure;

pub fn checks() -> Vec<Check> {
    vec![
        ("devices: each computes right".to_owned(), Box::new(|context| with_second(context, each))),
        (
            "devices: a plan of one is refused on another".to_owned(),
            Box::new(|context| with_second(context, refused_plan)),
        ),
        (
            "devices: memory of another is refused with the tensor's uid".to_owned(),
            Box::new(|context| with_second(context, refused_memory)),
        ),
    ]
}

/// Does something with the first and the second device, where there are two.
fn with_second(
    context: &Context<'_>,
    work: fn(&Context<'_>, &Context<'_>) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    let cuda = context.cuda;
    let count = cuda.device_count()?;
    if count < 2 {
        return Ok(Outcome::LeftOut(format!("{count} GPU, expected at least 2")));
    }
    let (mut number, mut primary) = (0, null_mut());
    // SAFETY: the outputs are valid. The primary context stays retained: the process ends soon.
    unsafe {
        context.check("cuDeviceGet", (cuda.cuDeviceGet)(&mut number, 1))?;
        let answer = (cuda.cuDevicePrimaryCtxRetain)(&mut primary, number);
        context.check("cuDevicePrimaryCtxRetain", answer)?;
    }
    let device = Device::of_context(cuda, primary)?;
    work(context, &context.on(device))
}

/// By a stream of the device, and by the context of the thread, on both in turn with the same handle.
fn each(first: &Context<'_>, second: &Context<'_>) -> Result<Outcome, Failure> {
    let backend = first.open()?;
    let streams = [Stream::new(first, NON_BLOCKING)?, Stream::new(second, NON_BLOCKING)?];
    let mut executions = 0;
    for Subject { engine, case } in subjects(first)? {
        let expected = case.run_on_host(&backend)?;
        let mut plans = Vec::new();
        for by_stream in [true, false, true] {
            for (context, stream) in [first, second].into_iter().zip(&streams) {
                let number = context.device.number;
                let named = |failure| Failure(format!("{engine}: {}: device {number}: {failure}", case.name));
                // SAFETY: the streams outlive the handle.
                unsafe { backend.set_stream(if by_stream { stream.stream } else { null_mut() }) }?;
                let _entered = (!by_stream).then(|| context.device.enter()).transpose()?;
                let plan = backend.plan(engine, &case.graph, &case.knobs).map_err(named)?;
                let bound = case.bind(context.gpu(), plan.workspace_size)?;
                context.gpu().synchronize()?;
                // SAFETY: the tensors live until the work is waited for.
                unsafe { bound.execute(&plan) }.map_err(named)?;
                context.gpu().synchronize()?;
                case.compare(&expected, &bound.results()?).map_err(named)?;
                executions += 1;
                // Plans of both devices are there at the same time.
                plans.push(plan);
            }
        }
    }
    Ok(Outcome::Passed(format!("{executions} executions")))
}

fn refused_plan(first: &Context<'_>, second: &Context<'_>) -> Result<Outcome, Failure> {
    let (backend, other) = (first.open()?, first.open()?);
    let stream = Stream::new(second, NON_BLOCKING)?;
    // SAFETY: the stream outlives the handle.
    unsafe { other.set_stream(stream.stream) }?;
    let expected = format!(
        "the plan was made for device {} and the handle works on device {}",
        first.device.number, second.device.number
    );
    let subjects = subjects(first)?;
    for Subject { engine, case } in &subjects {
        let plan = backend.plan(engine, &case.graph, &case.knobs)?;
        let bound = case.bind(second.gpu(), plan.workspace_size)?;
        // SAFETY: the tensors live until both devices have nothing to do.
        match unsafe { plan.execute_with(&other, &bound.tensors(), bound.workspace()) } {
            Err(Failure(words)) if words.contains(&expected) => {}
            other => {
                let words = other.map_or_else(|failure| failure.0, |()| "it is executed".to_owned());
                return Err(Failure(format!("{engine}: {}: {words}, expected {expected:?}", case.name)));
            }
        }
        first.gpu().synchronize()?;
        second.gpu().synchronize()?;
    }
    Ok(Outcome::Passed(format!("{} plans", subjects.len())))
}

fn refused_memory(first: &Context<'_>, second: &Context<'_>) -> Result<Outcome, Failure> {
    let backend = first.open()?;
    let mut refusals = 0;
    for Subject { engine, case } in subjects(first)? {
        let plan = backend.plan(engine, &case.graph, &case.knobs)?;
        let bound = case.bind(first.gpu(), plan.workspace_size)?;
        let elsewhere = case.bind(second.gpu(), 0)?;
        for tensor in elsewhere.tensors() {
            refused(first, &plan, &bound, tensor)
                .map_err(|failure| Failure(format!("{engine}: {}: {failure}", case.name)))?;
            refusals += 1;
        }
    }
    Ok(Outcome::Passed(format!("{refusals} refusals")))
}
