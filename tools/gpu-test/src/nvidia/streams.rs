//! One plan on many streams, and threads that plan and execute concurrently.

use std::collections::HashMap;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Barrier;

use hipdnn_plugin_sdk::cuda::CUstream;

use super::driver::{NON_BLOCKING, Stream};
use super::{Check, Context, Outcome, Subject, subjects};
use crate::Failure;
use crate::backend::Plan;
use crate::bound::Bound;
use crate::case::Case;

/// The number of threads.
const THREADS: usize = 8;

/// The rounds of each thread.
const ROUNDS: usize = 5;

/// The number of streams.
const STREAMS: usize = 6;

/// The results of the reference engine.
type Expected = HashMap<i64, Vec<f32>>;

pub fn checks(context: &Context<'_>) -> Result<Vec<Check>, Failure> {
    let mut checks: Vec<Check> = Vec::new();
    for Subject { engine, case } in subjects(context)? {
        for without_workspace in [false, true] {
            let mut subject = Subject { engine, case: case.clone() };
            subject.case.without_workspace = without_workspace;
            let how = if without_workspace { ", the workspace left to the plan" } else { "" };
            checks.push((
                format!(
                    "streams: one plan on null, 1, 2 and {STREAMS} streams{how}: {engine}: {}",
                    case.name
                ),
                Box::new(move |context| streams(context, &subject)),
            ));
        }
        let (name, subject) = (case.name.clone(), Subject { engine, case });
        checks.push((
            format!("threads: {THREADS} with a handle each and one plan: {engine}: {name}"),
            Box::new(move |context| shared_plan(context, &subject)),
        ));
    }
    checks.push((
        format!("threads: {THREADS} with a handle each that plan and execute every case"),
        Box::new(own_plans),
    ));
    Ok(checks)
}

/// The reference's results of a case, with different values for each user.
fn expected(context: &Context<'_>, case: &Case, users: usize) -> Result<Vec<(Case, Expected)>, Failure> {
    let backend = context.open()?;
    let of = |user| {
        let moved = case.moved(13 * user);
        let expected = moved.run_on_host(&backend)?;
        Ok((moved, expected))
    };
    (0..users).map(of).collect()
}

fn streams(context: &Context<'_>, Subject { engine, case }: &Subject) -> Result<Outcome, Failure> {
    let made = (0..STREAMS).map(|number| Stream::new(context, NON_BLOCKING * (number as u32 % 2)));
    let made: Vec<Stream<'_>> = made.collect::<Result<_, _>>()?;
    // Null, the legacy default stream, and the per-thread default stream.
    let mut streams: Vec<CUstream> = vec![null_mut(), without_provenance_mut(1), without_provenance_mut(2)];
    streams.extend(made.iter().map(|stream| stream.stream));
    let expected = expected(context, case, streams.len())?;
    let backend = context.open()?;
    let plan = backend.plan(engine, &case.graph, &case.knobs)?;
    let sets: Vec<Bound<'_>> = expected
        .iter()
        .map(|(case, _)| case.bind(context.gpu(), plan.workspace_size))
        .collect::<Result<_, _>>()?;
    for round in 0..ROUNDS {
        for ((case, _), set) in expected.iter().zip(&sets) {
            set.fill(case)?;
        }
        context.gpu().synchronize()?;
        for _ in 0..ROUNDS {
            for (stream, set) in streams.iter().zip(&sets) {
                // SAFETY: the streams outlive the handle, and the tensors the work.
                unsafe {
                    backend.set_stream(*stream)?;
                    set.execute(&plan)?;
                }
            }
        }
        context.gpu().synchronize()?;
        for (stream, ((case, expected), set)) in streams.iter().zip(expected.iter().zip(&sets)) {
            case.compare(expected, &set.results()?, &plan)
                .map_err(|failure| Failure(format!("round {round}, stream {stream:?}: {failure}")))?;
        }
    }
    Ok(Outcome::Passed(format!("{} streams", streams.len())))
}

/// Runs `work` on several threads concurrently, each with its number.
fn together(work: impl Fn(usize) -> Result<(), Failure> + Sync) -> Result<(), Failure> {
    let (barrier, work) = (&Barrier::new(THREADS), &work);
    std::thread::scope(|scope| {
        let thread = |number| {
            scope.spawn(move || {
                barrier.wait();
                work(number).map_err(|failure| Failure(format!("thread {number}: {failure}")))
            })
        };
        let threads: Vec<_> = (0..THREADS).map(thread).collect();
        let mut ended = threads.into_iter().map(|thread| thread.join());
        ended.try_for_each(|ended| ended.map_err(|_| Failure("a thread panics".to_owned()))?)
    })
}

/// Repeatedly executes a plan, waits, and compares.
fn rounds(
    stream: &Stream<'_>,
    (case, expected): &(Case, Expected),
    (set, plan): (&Bound<'_>, &Plan<'_>),
    execute: impl Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    for _ in 0..ROUNDS {
        set.fill(case)?;
        // Wait for the copies: the stream does not synchronize with the default stream.
        stream.synchronized()?;
        (0..ROUNDS).try_for_each(|_| execute())?;
        stream.wait()?;
        case.compare(expected, &set.results()?, plan)?;
    }
    Ok(())
}

fn shared_plan(context: &Context<'_>, Subject { engine, case }: &Subject) -> Result<Outcome, Failure> {
    let expected = expected(context, case, THREADS)?;
    let backend = context.open()?;
    let plan = backend.plan(engine, &case.graph, &case.knobs)?;
    together(|number| {
        let Some(own) = expected.get(number) else { return Ok(()) };
        let stream = Stream::new(context, NON_BLOCKING)?;
        let backend = context.open()?;
        // SAFETY: the stream outlives the handle.
        unsafe { backend.set_stream(stream.stream) }?;
        let set = own.0.bind(context.gpu(), plan.workspace_size)?;
        rounds(&stream, own, (&set, &plan), || {
            // SAFETY: the tensors live until the work is waited for.
            unsafe { plan.execute_with(&backend, &set.tensors(), set.workspace()) }
        })
    })?;
    Ok(Outcome::Passed(format!("{} executions", THREADS * ROUNDS * ROUNDS)))
}

fn own_plans(context: &Context<'_>) -> Result<Outcome, Failure> {
    let subjects = subjects(context)?;
    let expected: Vec<Vec<(Case, Expected)>> =
        subjects.iter().map(|subject| expected(context, &subject.case, THREADS)).collect::<Result<_, _>>()?;
    together(|number| {
        let stream = Stream::new(context, NON_BLOCKING)?;
        let backend = context.open()?;
        // SAFETY: the stream outlives the handle.
        unsafe { backend.set_stream(stream.stream) }?;
        // Each thread starts with a different case.
        for place in 0..subjects.len() {
            let place = (place + number) % subjects.len();
            let (Some(subject), Some(expected)) = (subjects.get(place), expected.get(place)) else {
                continue;
            };
            let Some(own) = expected.get(number) else { continue };
            let named = |failure| Failure(format!("{}: {}: {failure}", subject.engine, subject.case.name));
            let plan =
                backend.plan(subject.engine, &subject.case.graph, &subject.case.knobs).map_err(named)?;
            let set = own.0.bind(context.gpu(), plan.workspace_size)?;
            // SAFETY: the tensors live until the work is waited for.
            rounds(&stream, own, (&set, &plan), || unsafe { set.execute(&plan) }).map_err(named)?;
        }
        Ok(())
    })?;
    Ok(Outcome::Passed(format!("{} plans", THREADS * subjects.len())))
}
