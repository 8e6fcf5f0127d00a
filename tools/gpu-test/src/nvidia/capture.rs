//! Executions captured into a CUDA graph, which is run several times with different inputs.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::driver::{
    CAPTURE_GLOBAL, CAPTURE_RELAXED, CAPTURE_THREAD_LOCAL, NODE_ALLOCATES, NODE_HOST, NON_BLOCKING, Stream,
};
use super::{Check, Context, Outcome, Subject, subjects};
use crate::Failure;
use crate::backend::Plan;
use crate::bound::Bound;
use crate::gate::{self, Call, Fail};
use crate::runs::only_runs;

/// Executions in a graph.
const EXECUTIONS: usize = 20;

/// Sets of tensors that the executions alternate between.
const SETS: usize = 4;

/// Runs of a graph, each with different inputs.
const RUNS: usize = 3;

/// Further calls of a plan with its own workspace during capture: each captured execution gets a permanent buffer.
const FOR_OWN_MEMORY: [&str; 2] = ["cuMemAlloc_v2", "cuEventCreate"];

/// The kinds of captures: whether the plan was executed before, and the capture mode.
const WAYS: [(bool, c_int, &str); 4] = [
    (false, CAPTURE_GLOBAL, "of a plan that never ran, global"),
    (true, CAPTURE_GLOBAL, "global"),
    (true, CAPTURE_THREAD_LOCAL, "thread local"),
    (true, CAPTURE_RELAXED, "relaxed"),
];

pub fn checks(context: &Context<'_>) -> Result<Vec<Check>, Failure> {
    let mut checks: Vec<Check> = Vec::new();
    for Subject { engine, case } in subjects(context)? {
        for (ran, mode, how) in WAYS {
            let (name, subject) = (case.name.clone(), Subject { engine, case: case.clone() });
            checks.push((
                format!("capture, {how}: {engine}: {name}"),
                Box::new(move |context| captured(context, &subject, ran, mode)),
            ));
        }
        let (name, subject) = (case.name.clone(), Subject { engine, case: case.clone() });
        checks.push((
            format!("capture, global, by a handle that comes meanwhile: {engine}: {name}"),
            Box::new(move |context| by_a_new_handle(context, &subject)),
        ));
        let (name, subject) = (case.name.clone(), Subject { engine, case });
        checks.push((
            format!("capture, global, while another thread executes: {engine}: {name}"),
            Box::new(move |context| beside_another(context, &subject)),
        ));
    }
    Ok(checks)
}

/// The bits of the tensors' contents.
type Bits = Vec<HashMap<i64, Vec<u32>>>;

fn bits(sets: &[Bound<'_>]) -> Result<Bits, Failure> {
    let of = |set: &Bound<'_>| {
        let results = set.results()?.into_iter();
        Ok(results.map(|(uid, values)| (uid, values.into_iter().map(f32::to_bits).collect())).collect())
    };
    sets.iter().map(of).collect()
}

/// Puts [`EXECUTIONS`] on the stream of the plan's handle.
fn execute(plan: &Plan<'_>, sets: &[Bound<'_>]) -> Result<(), Failure> {
    for set in sets.iter().cycle().take(EXECUTIONS) {
        // SAFETY: the callers wait for the work before the tensors end.
        unsafe { set.execute(plan) }?;
    }
    Ok(())
}

fn captured(context: &Context<'_>, subject: &Subject, ran: bool, mode: c_int) -> Result<Outcome, Failure> {
    let Subject { engine, case } = subject;
    let stream = Stream::new(context, NON_BLOCKING)?;
    let backend = context.open()?;
    // SAFETY: the stream outlives the handle.
    unsafe { backend.set_stream(stream.stream) }?;
    let plan = backend.plan(engine, &case.graph, &case.knobs)?;
    let bind = |_| case.bind(context.gpu(), plan.workspace_size);
    let sets: Vec<Bound<'_>> = (0..SETS).map(bind).collect::<Result<_, _>>()?;
    let fill = |run: usize| {
        sets.iter().enumerate().try_for_each(|(set, bound)| bound.fill(&case.moved(17 * run + set)))?;
        Ok::<_, Failure>(context.gpu().synchronize()?)
    };
    fill(0)?;
    if ran {
        execute(&plan, &sets)?;
        stream.wait()?;
    }
    gate::record(engine, Fail::Nothing);
    let graph = stream.capture(mode, || execute(&plan, &sets));
    let calls = gate::take().calls;
    let graph = graph?;
    let kinds = graph.kinds()?;
    // Memory passed with every execution is all that the plan needs.
    let (own, others): (Vec<Call>, Vec<Call>) =
        calls.into_iter().partition(|call| plan.workspace_size == 0 && FOR_OWN_MEMORY.contains(&call.name));
    only_runs(&others)?;
    if kinds.len() < EXECUTIONS || kinds.iter().any(|kind| [NODE_ALLOCATES, NODE_HOST].contains(kind)) {
        return Err(Failure(format!(
            "the graph is made of {kinds:?}, expected at least {EXECUTIONS} kernels, copies and the like"
        )));
    }
    let mut of_graph = Vec::new();
    for run in 0..RUNS {
        fill(run)?;
        // SAFETY: `plan` and `bound`, which the captured work uses, live until the end of this function.
        unsafe { graph.run(&stream) }?;
        of_graph.push(bits(&sets)?);
    }
    for (run, of_graph) in of_graph.iter().enumerate() {
        fill(run)?;
        execute(&plan, &sets)?;
        stream.wait()?;
        if bits(&sets)? != *of_graph {
            return Err(Failure(format!("run {run} of the graph gives other bits than executions do")));
        }
        for (set, bound) in sets.iter().enumerate() {
            let moved = case.moved(17 * run + set);
            moved.compare(&moved.run_on_host(&backend)?, &bound.results()?, &plan)?;
        }
    }
    let buffers = own.iter().filter(|call| call.name == "cuMemAlloc_v2").count();
    Ok(Outcome::Passed(format!("{} pieces of work, {buffers} buffers of the plan's own", kinds.len())))
}

/// A plan of another handle, as in programs with a handle for each stream: creating a handle's objects must not end the capture.
fn by_a_new_handle(context: &Context<'_>, subject: &Subject) -> Result<Outcome, Failure> {
    let Subject { engine, case } = subject;
    let stream = Stream::new(context, NON_BLOCKING)?;
    let backend = context.open()?;
    let plan = backend.plan(engine, &case.graph, &case.knobs)?;
    let bound = case.bind(context.gpu(), plan.workspace_size)?;
    context.gpu().synchronize()?;
    let mut others = Vec::new();
    let graph = stream.capture(CAPTURE_GLOBAL, || {
        for _ in 0..2 {
            let other = context.open()?;
            // SAFETY: the stream outlives the handle, and the tensors the work.
            unsafe {
                other.set_stream(stream.stream)?;
                plan.execute_with(&other, &bound.tensors(), bound.workspace())?;
            }
            others.push(other);
        }
        Ok(())
    })?;
    // SAFETY: `plan` and `bound`, which the captured work uses, live until the end of this function.
    unsafe { graph.run(&stream) }?;
    case.compare(&case.run_on_host(&backend)?, &bound.results()?, &plan)?;
    // Outside of captures, the handles work normally.
    for other in &others {
        bound.fill(case)?;
        // SAFETY: the pointers are those of `bound`, which lives until the stream was waited for.
        unsafe { plan.execute_with(other, &bound.tensors(), bound.workspace()) }?;
        stream.wait()?;
        case.compare(&case.run_on_host(&backend)?, &bound.results()?, &plan)?;
    }
    Ok(Outcome::Passed(format!("{} handles", others.len())))
}

/// A thread that executes the same graph with its own plan, handle and stream must not end a capture, however strict.
fn beside_another(context: &Context<'_>, subject: &Subject) -> Result<Outcome, Failure> {
    let Subject { engine, case } = subject;
    let (is_over, executions) = (AtomicBool::new(false), AtomicUsize::new(0));
    let expected = case.run_on_host(&context.open()?)?;
    let another = || -> Result<(), Failure> {
        let stream = Stream::new(context, NON_BLOCKING)?;
        let other_stream = Stream::new(context, NON_BLOCKING)?;
        let backend = context.open()?;
        let plan = backend.plan(engine, &case.graph, &case.knobs)?;
        let bound = case.bind(context.gpu(), plan.workspace_size)?;
        context.gpu().synchronize()?;
        // Two streams, so that a plan with its own memory has a buffer for each.
        let run = || {
            for stream in [&stream, &other_stream] {
                // SAFETY: the streams outlive the handle, and the tensors the work.
                unsafe {
                    backend.set_stream(stream.stream)?;
                    bound.execute(&plan)?;
                }
                // The program itself waits in a way that the other thread's capture allows.
                context.gpu().beside_captures(|| stream.wait())?;
            }
            Ok::<_, Failure>(())
        };
        let mut result = Ok(());
        while result.is_ok() && !is_over.load(Ordering::Acquire) {
            result = run();
            executions.fetch_add(1, Ordering::Release);
        }
        result?;
        case.compare(&expected, &bound.results()?, &plan).map(drop)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(another);
        let result = captures(context, subject, &executions, || other.is_finished());
        is_over.store(true, Ordering::Release);
        let other = other.join().map_err(|_| Failure("the other thread panics".to_owned()))?;
        other.map_err(|failure| Failure(format!("the other thread: {failure}")))?;
        result
    })
}

/// Captures one execution after another while the other thread executes.
fn captures(
    context: &Context<'_>,
    Subject { engine, case }: &Subject,
    executions: &AtomicUsize,
    is_finished: impl Fn() -> bool,
) -> Result<Outcome, Failure> {
    const CAPTURES: usize = 20;
    let stream = Stream::new(context, NON_BLOCKING)?;
    let backend = context.open()?;
    // SAFETY: the stream outlives the handle.
    unsafe { backend.set_stream(stream.stream) }?;
    let plan = backend.plan(engine, &case.graph, &case.knobs)?;
    let sets = [case.bind(context.gpu(), plan.workspace_size)?];
    context.gpu().synchronize()?;
    // By then the other thread has created and loaded everything.
    while executions.load(Ordering::Acquire) < 3 {
        if is_finished() {
            return Err(Failure("the other thread ended before its third execution".to_owned()));
        }
        std::thread::yield_now();
    }
    let before = executions.load(Ordering::Acquire);
    for _ in 0..CAPTURES {
        drop(stream.capture(CAPTURE_GLOBAL, || {
            // Let it execute during the capture.
            let seen = executions.load(Ordering::Acquire);
            execute(&plan, &sets)?;
            while executions.load(Ordering::Acquire) < seen + 2 && !is_finished() {
                std::thread::yield_now();
            }
            Ok(())
        })?);
    }
    let meanwhile = executions.load(Ordering::Acquire) - before;
    Ok(Outcome::Passed(format!("{CAPTURES} captures beside {meanwhile} rounds of executions")))
}
