//! Several devices in one process.

use std::ffi::c_void;
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
        (
            "devices: memory of another is taken while there is peer access, and refused again after"
                .to_owned(),
            Box::new(|context| with_second(context, peer_memory)),
        ),
    ]
}

/// Runs a check with the first and the second device, if there are two.
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
    // SAFETY: the functions write only to the locals `number` and `primary`. The primary context stays retained: the process ends soon.
    unsafe {
        context.check("cuDeviceGet", (cuda.cuDeviceGet)(&mut number, 1))?;
        let answer = (cuda.cuDevicePrimaryCtxRetain)(&mut primary, number);
        context.check("cuDevicePrimaryCtxRetain", answer)?;
    }
    let device = Device::of_context(cuda, primary)?;
    work(context, &context.on(device))
}

/// Uses both devices in turn with the same handle, selected by the stream or by the thread's context.
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
                case.compare(&expected, &bound.results()?, &plan).map_err(named)?;
                executions += 1;
                // Keep plans of both devices alive at the same time.
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

/// Peer access between two devices, until ended or dropped.
struct PeerAccess<'a> {
    from: &'a Context<'a>,
    to: &'a Context<'a>,
}

impl<'a> PeerAccess<'a> {
    /// Lets kernels of `from` access memory of `to`; none if the devices cannot.
    fn new(from: &'a Context<'a>, to: &'a Context<'a>) -> Result<Option<Self>, Failure> {
        let (numbers, mut can) = ((from.device.number, to.device.number), 0);
        // SAFETY: the function writes only to the local `can`.
        let answer = unsafe { (from.driver.cuDeviceCanAccessPeer)(&mut can, numbers.0, numbers.1) };
        from.check("cuDeviceCanAccessPeer", answer)?;
        if can == 0 {
            return Ok(None);
        }
        let _entered = from.device.enter()?;
        // SAFETY: the context is a primary one that stays retained.
        let answer = unsafe { (from.driver.cuCtxEnablePeerAccess)(to.device.context, 0) };
        from.check("cuCtxEnablePeerAccess", answer)?;
        Ok(Some(Self { from, to }))
    }

    /// Disables the access.
    fn end(self) -> Result<(), Failure> {
        std::mem::ManuallyDrop::new(self).disable()
    }

    fn disable(&self) -> Result<(), Failure> {
        // After an error, work may still be running.
        self.from.gpu().synchronize()?;
        let _entered = self.from.device.enter()?;
        // SAFETY: access was enabled, and no work that needs it is left.
        let answer = unsafe { (self.from.driver.cuCtxDisablePeerAccess)(self.to.device.context) };
        self.from.check("cuCtxDisablePeerAccess", answer)
    }
}

impl Drop for PeerAccess<'_> {
    fn drop(&mut self) {
        if let Err(failure) = self.disable() {
            eprintln!("gpu-test: {failure}");
        }
    }
}

/// The first device computes with tensors on the second device.
fn peer_memory(first: &Context<'_>, second: &Context<'_>) -> Result<Outcome, Failure> {
    let backend = first.open()?;
    let (mut executions, mut refusals) = (0, 0);
    for Subject { engine, case } in subjects(first)? {
        let named = |failure| Failure(format!("{engine}: {}: {failure}", case.name));
        let expected = case.run_on_host(&backend)?;
        let plan = backend.plan(engine, &case.graph, &case.knobs)?;
        let here = case.bind(first.gpu(), plan.workspace_size)?;
        let there = case.bind(second.gpu(), 0)?;
        second.gpu().synchronize()?;
        let Some(access) = PeerAccess::new(first, second)? else {
            return Ok(Outcome::LeftOut("the devices cannot reach each other's memory".to_owned()));
        };
        let tensors: Vec<(i64, *mut c_void)> = there.tensors();
        // SAFETY: the tensors live until the work is done, and the first device can access them.
        unsafe { plan.execute(&tensors, here.workspace()) }.map_err(named)?;
        first.gpu().synchronize()?;
        case.compare(&expected, &there.results()?, &plan).map_err(named)?;
        executions += 1;
        access.end().map_err(named)?;
        for tensor in tensors {
            refused(first, &plan, &here, tensor).map_err(named)?;
            refusals += 1;
        }
    }
    Ok(Outcome::Passed(format!("{executions} executions, {refusals} refusals after")))
}
