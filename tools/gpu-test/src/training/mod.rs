//! `gpu-test --training`: steps of two small networks, each layer and gradient a graph, on the device and with the engine for CPUs.
//!
//! Both start with the same weights and each goes on with its own, so that a wrong gradient shows in the next loss. A loss may differ
//! by what the plans' steps say of the roundings of its graphs ([`hipdnn_tool::rounding`]), which do not depend on each other, once
//! for each step: norms keep layers from making errors larger.

mod layers;
mod networks;
mod tape;

use std::ffi::c_void;
use std::path::Path;
use std::time::Instant;

use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::json;
use hipdnn_tool::rounding::Limits;

use crate::backend::{Backend, Plan};
use crate::memory::{DeviceMemory, pack, unpack};
use crate::{Failure, is_wanted};
use tape::{Piece, Tape, View};

/// The engine for CPUs.
const HOST: &str = "CPU_ENGINE";

/// The steps of a training; one would show no gradient.
const STEPS: usize = 4;

/// A network: its graphs and where its loss is.
pub struct Network {
    name: &'static str,
    tape: Tape,
    loss: View,
}

/// Trains the networks whose names contain one of the words. The library's first choice for each graph must be this engine.
///
/// # Errors
/// There is no device, or the library cannot be loaded.
pub fn check(library: &Path, engine: &str, words: &[String]) -> Result<usize, Failure> {
    let gpu = Gpu::find().map_err(|refusal| Failure(refusal.to_string()))?;
    let backend = Backend::open(library)?;
    let mut failed = 0;
    for network in networks::all().into_iter().filter(|network| is_wanted(network.name, words)) {
        let start = Instant::now();
        match train(&backend, gpu, engine, &network) {
            Ok(done) => {
                println!("{}: {done}, {:.1} s", network.name, start.elapsed().as_secs_f64());
            }
            Err(failure) => {
                failed += 1;
                println!("{} FAILED: {failure}", network.name);
            }
        }
    }
    Ok(failed)
}

fn train(backend: &Backend, gpu: Gpu, engine: &str, network: &Network) -> Result<String, Failure> {
    let pieces = &network.tape.pieces;
    let expected = Host::new(network)?.losses(&plans(backend, pieces, HOST)?, network)?;
    for piece in pieces {
        let first = backend.engines(&piece.graph)?.into_iter().next();
        if first.as_deref() != Some(engine) {
            let first = first.as_deref().unwrap_or("no engine");
            return Err(Failure(format!("the library's choice for {} is {first}", piece.name)));
        }
    }
    let of_device = plans(backend, pieces, engine)?;
    let mut squares = 0.0;
    for (piece, plan) in pieces.iter().zip(&of_device) {
        squares += roundings(piece, plan)?.powi(2);
    }
    let limit = squares.sqrt();
    let got = Device::new(gpu, network)?.losses(&of_device, network)?;
    let worst = compare(&expected, &got, limit)?;
    Ok(format!(
        "{} graphs, losses {got:.4?} within {worst:.0e} of {HOST}'s, {limit:.0e} allowed",
        pieces.len()
    ))
}

fn plans<'a>(backend: &'a Backend, pieces: &[Piece], engine: &str) -> Result<Vec<Plan<'a>>, Failure> {
    let plan = |piece: &Piece| {
        let planned = backend.plan(engine, &piece.graph, &[]);
        planned.map_err(|failure| Failure(format!("{}, {engine}: {failure}", piece.name)))
    };
    pieces.iter().map(plan).collect()
}

/// What the results of a graph may differ by, relative to the largest: by the roundings of the plan and of the other engine.
fn roundings(piece: &Piece, plan: &Plan<'_>) -> Result<f64, Failure> {
    let graph = hipdnn_tool::graph::Graph::from_json(&json::write(&piece.graph))
        .map_err(|failure| Failure(failure.to_string()))?;
    let steps = plan.steps()?;
    let limits = Limits { steps: steps.as_deref(), factor: 1.0 };
    let of = |uid: &i64| {
        let limit = limits.of(&graph, graph.tensor(*uid)?);
        Some(limit.relative + limit.of_largest)
    };
    Ok(piece.results.iter().filter_map(of).fold(0.0, f64::max))
}

/// The largest difference of two trainings, relative to the loss. Losses must fall, which they do not with wrong gradients.
fn compare(expected: &[f32], got: &[f32], limit: f64) -> Result<f64, Failure> {
    let mut worst = 0.0_f64;
    for (step, (one, other)) in expected.iter().zip(got).enumerate() {
        let gap = f64::from((one - other) / one).abs();
        // A NaN is beyond every limit.
        if gap.is_nan() || gap > limit * (step + 1) as f64 {
            return Err(Failure(format!(
                "losses {got:?}, expected {expected:?} within {limit:.1e} for each step"
            )));
        }
        worst = worst.max(gap);
    }
    let falls = |losses: &[f32]| losses.windows(2).all(|pair| matches!(pair, [a, b] if b < a));
    if expected.len() != got.len() || expected.is_empty() || !falls(expected) || !falls(got) {
        return Err(Failure(format!("losses {got:?} and {expected:?} do not fall")));
    }
    Ok(worst)
}

/// A training in some memory.
trait Place {
    /// The address of an element.
    fn at(&mut self, memory: usize, offset: usize) -> *mut c_void;
    /// A workspace of at least so many bytes.
    fn workspace(&mut self, size: usize) -> Result<*mut c_void, Failure>;
    /// Waits for the work.
    fn wait(&self) -> Result<(), Failure>;
    /// The values in a part of the memory.
    fn read(&self, memory: usize) -> Result<Vec<f32>, Failure>;
    /// Writes them.
    fn write(&mut self, memory: usize, values: &[f32]) -> Result<(), Failure>;

    /// The losses of the steps.
    fn losses(&mut self, plans: &[Plan<'_>], network: &Network) -> Result<Vec<f32>, Failure> {
        let mut losses = Vec::new();
        for _ in 0..STEPS {
            for (piece, plan) in network.tape.pieces.iter().zip(plans) {
                let places = piece.places.iter();
                let tensors: Vec<(i64, *mut c_void)> =
                    places.map(|(uid, memory, offset)| (*uid, self.at(*memory, *offset))).collect();
                let workspace = self.workspace(plan.workspace_size)?;
                // SAFETY: the views of a tape are inside their memory, which lives as long as `self`, as does the workspace until it
                // is asked for again, which is after the work.
                unsafe { plan.execute(&tensors, workspace) }
                    .and_then(|()| self.wait())
                    .map_err(|failure| Failure(format!("{}: {failure}", piece.name)))?;
            }
            losses.extend(self.read(network.loss.memory)?);
            for (weight, next) in &network.tape.weights {
                let values = self.read(next.memory)?;
                self.write(weight.memory, &values)?;
            }
        }
        Ok(losses)
    }
}

/// The host's memory.
struct Host {
    memory: Vec<Vec<f32>>,
    workspace: Vec<u64>,
}

impl Host {
    fn new(network: &Network) -> Result<Self, Failure> {
        Ok(Self { memory: network.tape.memory.clone(), workspace: Vec::new() })
    }

    fn part(&self, memory: usize) -> Result<&Vec<f32>, Failure> {
        self.memory.get(memory).ok_or_else(|| Failure(format!("no memory {memory}")))
    }
}

impl Place for Host {
    fn at(&mut self, memory: usize, offset: usize) -> *mut c_void {
        let part = self.memory.get_mut(memory).map(Vec::as_mut_ptr).unwrap_or(std::ptr::null_mut());
        part.wrapping_add(offset).cast()
    }

    fn workspace(&mut self, size: usize) -> Result<*mut c_void, Failure> {
        // Aligned as engines for CPUs ask for.
        self.workspace.resize(size / 8 + 16, 0);
        let start = self.workspace.as_mut_ptr().cast::<u8>();
        Ok(start.wrapping_add(start.align_offset(64)).cast())
    }

    fn wait(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn read(&self, memory: usize) -> Result<Vec<f32>, Failure> {
        self.part(memory).cloned()
    }

    fn write(&mut self, memory: usize, values: &[f32]) -> Result<(), Failure> {
        if let Some(part) = self.memory.get_mut(memory) {
            values.clone_into(part);
        }
        Ok(())
    }
}

/// A device's memory.
struct Device {
    gpu: Gpu,
    memory: Vec<DeviceMemory>,
    workspace: Option<DeviceMemory>,
}

impl Device {
    fn new(gpu: Gpu, network: &Network) -> Result<Self, Failure> {
        let part = |values: &Vec<f32>| DeviceMemory::with(gpu, &pack(DataType::Float, values)?);
        let memory = network.tape.memory.iter().map(part).collect::<Result<_, _>>()?;
        Ok(Self { gpu, memory, workspace: None })
    }

    fn part(&self, memory: usize) -> Result<&DeviceMemory, Failure> {
        self.memory.get(memory).ok_or_else(|| Failure(format!("no memory {memory}")))
    }
}

impl Place for Device {
    fn at(&mut self, memory: usize, offset: usize) -> *mut c_void {
        let part = self.memory.get(memory).map_or(std::ptr::null_mut(), |part| part.pointer);
        part.wrapping_byte_add(offset * size_of::<f32>())
    }

    fn workspace(&mut self, size: usize) -> Result<*mut c_void, Failure> {
        let workspace = self.workspace.insert(DeviceMemory::new(self.gpu, size)?);
        Ok(workspace.pointer)
    }

    fn wait(&self) -> Result<(), Failure> {
        Ok(self.gpu.synchronize()?)
    }

    fn read(&self, memory: usize) -> Result<Vec<f32>, Failure> {
        unpack(DataType::Float, &self.part(memory)?.bytes()?)
    }

    fn write(&mut self, memory: usize, values: &[f32]) -> Result<(), Failure> {
        self.part(memory)?.fill(&pack(DataType::Float, values)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_that_differ_or_do_not_fall_are_found() {
        let losses = [2.0, 1.5, 1.25];
        assert_eq!(compare(&losses, &losses, 1e-5).unwrap(), 0.0);
        assert!(compare(&losses, &[2.0, 1.5, 1.2501], 1e-5).is_err());
        assert!(compare(&losses, &[2.0, 1.5, 1.250_01], 1e-5).is_ok());
        assert!(compare(&losses, &[2.0, 1.5, f32::NAN], 1.0).is_err());
        assert!(compare(&losses, &losses[..2], 1.0).is_err());
        for same in [&[2.0, 2.1][..], &[]] {
            assert!(compare(same, same, 1.0).is_err());
        }
        assert!(compare(&losses, &[2.0, 1.5, 1.5], 0.1).is_err());
    }

    #[test]
    fn every_view_is_inside_its_memory() {
        for network in networks::all() {
            assert!(network.tape.pieces.len() > 40, "{}", network.name);
            for piece in &network.tape.pieces {
                for (uid, memory, offset) in &piece.places {
                    let tensor = piece.graph.tensor(*uid).unwrap();
                    let last: i64 =
                        tensor.dims.iter().zip(&tensor.strides).map(|(dim, by)| (dim - 1) * by).sum();
                    assert!(offset + (last as usize) < network.tape.memory[*memory].len(), "{}", piece.name);
                }
            }
        }
    }
}
