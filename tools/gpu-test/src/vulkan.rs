//! `gpu-test --vulkan LIBRARY [--part=K/N] [--random=N] [--seconds=N] [--guarded] [WORD...]`: every case with `VULKAN_ENGINE` in host memory, and random graphs:
//! the first N, or with `--random=FROM..TO` those with these numbers; no more are begun after so many seconds. The device is the one that `HIPDNN_VULKAN_DEVICE` names. Cases that the engine refuses are
//! counted by reason. In the device's memory, cases are also executed behind one another. With `--guarded` tensors are between pages that nothing may touch, on a device in software. `gpu-test --vulkan-graphs FOLDER [--random=N] [WORD...]` writes their graphs.

mod behind;
mod bench;
mod failing;
mod guarded;
mod host;
mod random;
mod subjects;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::ptr;
use std::time::{Duration, Instant};

use hipdnn_plugin_sdk::json;

use crate::backend::{Backend, Plan};
use crate::case::Case;
use crate::failing::DOES_NOT_APPLY;
use crate::{Failure, cases, is_wanted, of_part};

pub use bench::run as bench;
pub use failing::run as failing;
pub use host::run as host;

use behind::Behind;
use guarded::Guards;

const ENGINE: &str = "VULKAN_ENGINE";
const RANDOM: &str = "--random=";
const SECONDS: &str = "--seconds=";
const GUARDED: &str = "--guarded";

/// Of so many random graphs one is also computed by a loaded plan.
const LOADED: u32 = 8;

/// The path of the plugin beside a library.
fn plugin(library: &Path) -> Result<String, Failure> {
    let plugin = library.with_file_name("hipdnn_plugins/engines/libhipdnn_vulkan_plugin.so");
    plugin.to_str().map(str::to_owned).ok_or_else(|| Failure("a path that is not UTF-8".to_owned()))
}

/// A case that was right.
struct Right<'a> {
    /// The largest part of what results may differ by.
    worst: f32,
    plan: Plan<'a>,
    expected: HashMap<i64, Vec<f32>>,
}

/// Runs a case in host memory, or between guards, then again with the plan saved and loaded by a loader.
fn run_case<'a>(
    backend: &'a Backend,
    loader: Option<&Backend>,
    guards: Option<&Guards>,
    case: &Case,
) -> Result<Right<'a>, Failure> {
    let plan = backend.plan(ENGINE, &case.graph, &[])?;
    let expected = case.run_on_host(backend)?;
    let run = |plan: &Plan<'_>, at_end: bool| {
        let Some(guards) = guards else {
            let mut memory = Vec::new();
            return case.run_in_host_memory(plan, |size| {
                memory.push(vec![0_u8; size].into_boxed_slice());
                Ok(memory.last_mut().map_or(ptr::null_mut(), |bytes| bytes.as_mut_ptr().cast()))
            });
        };
        let mut memory = guards.memory(at_end);
        let results = case.run_and_wait(plan, |size| memory.allocate(size), || guards.wait())?;
        memory.check()?;
        Ok(results)
    };
    let mut worst = case.compare(&expected, &run(&plan, true)?, &plan)?;
    if guards.is_some() {
        worst = worst.max(case.compare(&expected, &run(&plan, false)?, &plan)?);
    }
    if let Some(loader) = loader {
        let loaded = loader.load(&plan.save()?)?;
        worst = worst.max(case.compare(&expected, &run(&loaded, true)?, &plan)?);
    }
    Ok(Right { worst, plan, expected })
}

/// Every case that is wanted once. Making them takes seconds, so none is made for words that only random graphs have.
fn every(words: &[String]) -> impl Iterator<Item = Case> {
    let is_random = |word: &String| word.starts_with(random::NAME) || word.starts_with(random::OF_KIND);
    let all = if !words.is_empty() && words.iter().all(is_random) { Vec::new() } else { cases::all() };
    let mut known = HashSet::new();
    all.into_iter().map(|(_, case)| case).filter(move |case| known.insert(case.name.clone()))
}

/// What was computed of a kind of graphs.
#[derive(Default)]
struct Kind {
    count: usize,
    time: Duration,
    /// The largest part of what results may differ by.
    worst: f32,
}

/// The numbers of the random graphs that the first word asks for, and the other words.
fn random_numbers(words: &[String]) -> Result<(Range<u32>, &[String]), Failure> {
    match words {
        [option, words @ ..] if option.starts_with(RANDOM) => {
            let asked = option.strip_prefix(RANDOM).unwrap_or_default();
            let (from, to) = asked.split_once("..").unwrap_or(("0", asked));
            match (from.parse(), to.parse()) {
                (Ok(from), Ok(to)) if from <= to => Ok((from..to, words)),
                _ => Err(Failure(format!(
                    "{option}: expected how many graphs, or the numbers of graphs, as in {RANDOM}100..200"
                ))),
            }
        }
        words => Ok((0..0, words)),
    }
}

/// The limit in seconds that the first word asks for, and the other words.
fn limit(words: &[String]) -> Result<(Duration, &[String]), Failure> {
    match words {
        [option, words @ ..] if option.starts_with(SECONDS) => {
            let seconds = option.strip_prefix(SECONDS).and_then(|seconds| seconds.parse().ok());
            let seconds =
                seconds.ok_or_else(|| Failure(format!("{option}: expected a number of seconds")))?;
            Ok((Duration::from_secs(seconds), words))
        }
        words => Ok((Duration::MAX, words)),
    }
}

/// Writes the graphs of the cases and of random graphs into a folder, as JSON.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path, words: &[String]) -> Result<(), Failure> {
    let (numbers, words) = random_numbers(words)?;
    fs::create_dir_all(folder).map_err(|error| Failure(format!("{}: {error}", folder.display())))?;
    for case in every(words).chain(numbers.map(random::case)).filter(|case| is_wanted(&case.name, words)) {
        let path = folder.join(format!("{}.json", case.name.replace('/', "_")));
        fs::write(&path, json::write(&case.graph))
            .map_err(|error| Failure(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

/// Tells wrong cases. Returns how many there are.
fn told(wrong: Vec<(String, Failure)>) -> usize {
    for (name, failure) in &wrong {
        println!("{name:<90} FAILED: {failure}");
    }
    wrong.len()
}

/// Runs all cases. Returns how many failed.
///
/// # Errors
/// When the library cannot be opened.
pub fn check(library: &Path, words: &[String]) -> Result<usize, Failure> {
    let ((part, parts), words) = of_part(words)?;
    let (numbers, words) = random_numbers(words)?;
    let (limit, words) = limit(words)?;
    let (guards, words) = match words {
        [option, words @ ..] if option == GUARDED => (Some(Guards::new(library)?), words),
        words => (None, words),
    };
    let (backend, loader) = (Backend::open(library)?, Backend::open(library)?);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    // Host memory is waited for, so each case also takes its turn in the device's.
    let mut behind = if guards.is_none() { Some(Behind::new(library)?) } else { None };
    let start = Instant::now();
    let (mut passed, mut failed) = (0, 0);
    // Drivers compile a loaded plan again: the plan of every eighth random graph has to do.
    let random = numbers.map(|number| (number % LOADED == 0, random::case(number)));
    for (place, (is_loaded, case)) in every(words).map(|case| (true, case)).chain(random).enumerate() {
        if place % parts != part || !is_wanted(&case.name, words) {
            continue;
        }
        if start.elapsed() > limit {
            println!("stopped before {}", case.name);
            break;
        }
        if guards.is_some() {
            // The process may end in it.
            eprintln!("{}", case.name);
        }
        let begin = Instant::now();
        match run_case(&backend, is_loaded.then_some(&loader), guards.as_ref(), &case) {
            Ok(Right { worst, plan, expected }) => {
                passed += 1;
                let kind = kinds.entry(random::kind(&case.name).to_owned()).or_default();
                kind.count += 1;
                kind.time += begin.elapsed();
                kind.worst = kind.worst.max(worst);
                log::info!("{:<90} error {worst:.1e}", case.name);
                if let Some(behind) = &mut behind {
                    failed += told(behind.add(case, plan, expected));
                }
            }
            Err(failure) if failure.0.contains(DOES_NOT_APPLY) => {
                let reason = backend.refusal(ENGINE, &case.graph)?.unwrap_or_else(|| "no reason".to_owned());
                // Numbers and names of nodes differ from case to case.
                let reason = reason.rsplit("): ").next().unwrap_or(&reason).to_owned();
                log::info!("{:<90} refused: {reason}", case.name);
                *reasons.entry(reason).or_default() += 1;
            }
            Err(failure) => {
                failed += 1;
                println!("{:<90} FAILED: {failure}", case.name);
            }
        }
    }
    failed += behind.map_or(0, |mut behind| told(behind.run()));
    println!("{passed} passed");
    println!("{failed} failed, in {:.0} s", start.elapsed().as_secs_f64());
    for (name, Kind { count, time, worst }) in kinds {
        let time = time.as_secs_f64() * 1e3 / count as f64;
        println!("{count} {name}: {time:.1} ms each, differ by {worst:.2} of the tolerance at most");
    }
    for (reason, count) in reasons {
        println!("{count} refused: {reason}");
    }
    Ok(failed)
}
