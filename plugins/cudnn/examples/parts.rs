//! Prints how graphs are divided into parts for cuDNN, for a device that need not be present: cuDNN is asked
//! for plans, which are not run.
//!
//! `parts ARCHITECTURE FOLDER [NAME...]`: the architecture, such as `sm_90`, and a folder of graphs in JSON.
//! The exit status is 1 if cuDNN fails other than by having no engine, or has no engine for a graph whose
//! name begins with one of the names. Saved plans are stored next to the graphs, and a second process loads
//! them: it also fails if it cannot read a file, or searches again for a plan with compiled kernels. Whether
//! cuDNN compiles kernels while loading a plan cannot be observed here.

use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use hipdnn_cudnn_plugin::ahead::Absent;
use hipdnn_cudnn_plugin::compiled::Maker;
use hipdnn_cudnn_plugin::knob::Options;
use hipdnn_cudnn_plugin::part::{Part, parts};
use hipdnn_plugin_planner::plan::Found;
use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::ffi::HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
use hipdnn_plugin_sdk::{PluginError, json};

fn main() -> ExitCode {
    let mut arguments: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let is_second = arguments.pop_if(|last| last.as_os_str() == SECOND).is_some();
    let [architecture, folder, names @ ..] = arguments.as_slice() else {
        eprintln!("usage: parts ARCHITECTURE FOLDER [NAME...]");
        return ExitCode::from(2);
    };
    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    let is_needed = |graph: &str| names.iter().any(|name| graph.starts_with(&**name));
    let done = divided(&architecture.to_string_lossy(), folder, is_second, is_needed);
    match done {
        Ok(0) if is_second => ExitCode::SUCCESS,
        Ok(0) => match again(&arguments) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("parts: {error}");
                ExitCode::from(2)
            }
        },
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("parts: {error}");
            ExitCode::from(2)
        }
    }
}

/// The last argument of the second process, which loads the plans.
const SECOND: &str = "--saved";

/// Plans everything in a second process, from the saved plans. Returns whether it succeeded.
fn again(arguments: &[PathBuf]) -> Result<bool, Box<dyn Error>> {
    let began = Instant::now();
    let ended = Command::new(std::env::current_exe()?)
        .args(arguments)
        .arg(SECOND)
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&ended.stdout);
    let is_right = ended.status.success();
    if !is_right {
        text.lines().filter(|line| line.contains("FAILED")).for_each(|line| println!("{line}"));
    }
    let last = text.lines().last().unwrap_or_default();
    println!("{last}, of what was saved in {:.0} s", began.elapsed().as_secs_f64());
    Ok(is_right)
}

/// The result for a graph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Whole,
    Divided,
    Refused,
    Failed,
}

/// Prints a line for each graph, and returns how many failed.
fn divided(
    architecture: &str,
    folder: &Path,
    is_second: bool,
    is_needed: impl Fn(&str) -> bool + Sync,
) -> Result<usize, Box<dyn Error>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Outcome, String)>, String> {
        let absent = Absent::new(architecture).map_err(|error| error.to_string())?;
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(place) else { return Ok(done) };
            let (outcome, text) = plan(absent.maker(), file, is_second, &is_needed)?;
            done.push((place, outcome, text));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut done = Vec::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            done.extend(thread.join().map_err(|_| "a thread panicked".to_owned())??);
        }
        Ok::<(), String>(())
    })?;
    done.sort_by_key(|(place, ..)| *place);
    done.iter().for_each(|(.., text)| println!("{text}"));
    let count = |outcome| done.iter().filter(|(_, own, _)| *own == outcome).count();
    let [whole, divided, refused, failed] =
        [Outcome::Whole, Outcome::Divided, Outcome::Refused, Outcome::Failed].map(count);
    println!("{whole} whole, {divided} divided, {refused} refused, {failed} failed");
    Ok(failed)
}

/// Plans the graph in a file.
fn plan(
    maker: Maker,
    file: &Path,
    is_second: bool,
    is_needed: impl Fn(&str) -> bool,
) -> Result<(Outcome, String), String> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let failed = |error: &dyn Error| format!("{name}: {error}");
    let bytes = fs::read(file).map_err(|error| failed(&error))?;
    let graph = json::read_bytes(&bytes).map_err(|error| failed(&error))?;
    let prepared = prepare(&graph).map_err(|refusal| format!("{name}: {refusal}"))?;
    let of = |saved: &Found| parts(|| Ok(maker), &prepared, &Options::default(), saved);
    let kept = file.with_extension("plan");
    let first = if is_second {
        match fs::read(&kept) {
            Ok(bytes) => Found::read(&bytes).and_then(|saved| of(&saved)).and_then(|parts| {
                // For loaded plans this is unknown.
                match parts.iter().any(Part::is_runtime_compiled) {
                    true => Err(PluginError::internal("a plan with compiled kernels was looked for again")),
                    false => Ok(parts),
                }
            }),
            // Nothing is saved for refused graphs.
            Err(error) if error.kind() == ErrorKind::NotFound => of(&Found::default())
                .and_then(|_| Err(PluginError::internal("nothing was saved of the plan"))),
            Err(error) => return Err(failed(&error)),
        }
    } else {
        // Left by an earlier run.
        match fs::remove_file(&kept) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&error)),
            _ => of(&Found::default()),
        }
    };
    // Restoring a saved plan yields the same plan.
    let again = |first: Vec<Part>| {
        let mut saved = Found::default();
        for part in &first {
            saved.add(&part.nodes, part.save()?);
        }
        let bytes = saved.write()?;
        fs::write(&kept, &bytes).map_err(|error| PluginError::internal(failed(&error)))?;
        let second = of(&Found::read(&bytes)?)?;
        let nodes = |parts: &[Part]| parts.iter().map(|part| part.nodes.clone()).collect::<Vec<_>>();
        if nodes(&first) == nodes(&second) {
            return Ok(first);
        }
        let (first, second) = (nodes(&first), nodes(&second));
        Err(PluginError::internal(format!("parts {first:?}, and {second:?} once it was saved")))
    };
    let (outcome, text) = match first.and_then(again) {
        Ok(parts) if parts.len() == 1 => (Outcome::Whole, "whole".to_owned()),
        Ok(parts) => {
            let nodes: Vec<String> = parts.iter().map(|part| format!("{:?}", part.nodes)).collect();
            (Outcome::Divided, format!("parts {}", nodes.join(" ")))
        }
        Err(error) => {
            let is_refused = error.status() == HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
            let is_fine = is_refused && !is_needed(&name);
            let (outcome, word) =
                if is_fine { (Outcome::Refused, "refused") } else { (Outcome::Failed, "FAILED") };
            (outcome, format!("{word}: {error}"))
        }
    };
    Ok((outcome, format!("{name}: {text}")))
}
