//! `gpu-test --vulkan-host LIBRARY FILE`: what `VULKAN_ENGINE` costs the host. The first process stores a plan in the file; a second one loads it, and
//! tells how long its first result took and what an execution costs until it is queued.

use std::fs;
use std::path::Path;
use std::ptr;
use std::time::Instant;

use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Pointwise};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use super::bench::{Functions, Memory, Place, content};
use super::{ENGINE, plugin};
use crate::Failure;
use crate::backend::Backend;
use crate::case::{Case, Order};

/// Executions of a round, after which the device is waited for, and rounds.
const EXECUTIONS: usize = 32;
const ROUNDS: usize = 200;

/// A convolution and what follows it.
pub(super) fn graph() -> Case {
    let mut case = Case::new("convolution and relu");
    let order = Order::ChannelsFirst;
    let x = case.input(DataType::Float, &[1, 8, 8, 8], order, [-1.0, 1.0]);
    let w = case.input(DataType::Float, &[8, 8, 3, 3], order, [-1.0, 1.0]);
    let between = case.between(DataType::Float, &[1, 8, 8, 8], order);
    let y = case.output(DataType::Float, &[1, 8, 8, 8], order);
    case.node(ConvolutionForward {
        pre_padding: vec![1; 2],
        post_padding: vec![1; 2],
        ..ConvolutionForward::new(x, w, between, 2)
    });
    case.node(Pointwise::new(PointwiseMode::ReluFwd, between, None, y));
    case
}

/// Measures. Returns how many failed, which is none.
///
/// # Errors
/// Those of the library and of Vulkan.
pub fn run(library: &Path, file: &Path) -> Result<usize, Failure> {
    let start = Instant::now();
    let backend = Backend::open(library)?;
    let case = graph();
    let failure = |error: std::io::Error| Failure(format!("{}: {error}", file.display()));
    if !file.exists() {
        let plan = backend.plan(ENGINE, &case.graph, &[])?;
        fs::write(file, plan.save()?).map_err(failure)?;
        println!("planned and stored after {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        return Ok(0);
    }
    let plan = backend.load(&fs::read(file).map_err(failure)?)?;
    let functions =
        Functions::load_from(&[&*plugin(library)?]).map_err(|error| Failure(error.to_string()))?;
    let place = Place::Vulkan(&functions);
    let mut memory = Vec::new();
    for tensor in case.bound() {
        memory.push((tensor.uid, Memory::with(place, &content(tensor)?)?));
    }
    let tensors: Vec<_> = memory.iter().map(|(uid, memory)| (*uid, memory.pointer)).collect();
    // SAFETY: every tensor has its bytes, plans need no workspace, and all live until the device is done.
    let execute = || unsafe { plan.execute(&tensors, ptr::null_mut()) };
    execute()?;
    place.synchronize()?;
    println!("loaded, computed once after {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..EXECUTIONS {
            execute()?;
        }
        times.push(begin.elapsed().as_secs_f64() * 1e6 / EXECUTIONS as f64);
        place.synchronize()?;
    }
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    println!("an execution of two kernels is queued in {:.2} us (median; 10 % in {:.2})", at(50), at(10));
    Ok(0)
}
