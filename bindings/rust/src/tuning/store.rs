//! Earlier results on disk, for the same graph and for similar graphs.
//!
//! A file holds the results on one device: a line of JSON for each graph, of which the last one counts. Malformed lines are
//! skipped, so that a truncated or damaged file only loses those.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use hipdnn_plugin_sdk::environment;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::hash::Fnv1a;
use hipdnn_plugin_sdk::os::files;
use hipdnn_plugin_sdk::plain_file;
use serde::{Deserialize, Serialize};

use super::problem::Configuration;
use crate::{KnobSetting, KnobValue};

/// The version of the format, the name of its folder.
const VERSION: &str = "1";

/// A larger file is started anew.
const LARGEST: u64 = 4 << 20;

/// The number of similar graphs given to a search.
const MOST_SIMILAR: usize = 4;

/// Graphs whose shapes differ by more are not similar: the sum of the base-2 logarithms of the ratios of all dimensions.
const FARTHEST: f64 = 16.0;

/// The type, the sizes and the strides of a tensor.
type Form = (String, Vec<i64>, Vec<i64>);

/// An operation with its tensors.
type Operation = (String, Vec<Form>);

/// The result for a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// The operations and their tensors, without names and uids: equal for equal graphs.
    graph: Vec<Operation>,
    /// The attributes of the operations, as a hash.
    attributes: u64,
    /// The name of the engine.
    pub engine: String,
    /// The knob settings.
    pub knobs: Vec<(String, KnobValue)>,
    /// The time of an execution.
    pub ms: f64,
    /// The time of the library's default choice.
    pub default_ms: f64,
}

impl Tuning {
    /// The result for a graph; `engine` is its engine's name.
    pub fn new(graph: &Graph, engine: &str, found: &Configuration, ms: f64, default_ms: f64) -> Self {
        let knobs = found.knobs.iter().map(|setting| (setting.id.clone(), setting.value.clone()));
        let (shape, attributes) = shape(graph);
        Self { graph: shape, attributes, engine: engine.to_owned(), knobs: knobs.collect(), ms, default_ms }
    }

    /// The configuration, if an engine of this name has an id.
    pub fn configuration(&self, id: impl FnOnce(&str) -> Option<i64>) -> Option<Configuration> {
        let setting =
            |(id, value): &(String, KnobValue)| KnobSetting { id: id.clone(), value: value.clone() };
        Some(Configuration { engine: id(&self.engine)?, knobs: self.knobs.iter().map(setting).collect() })
    }

    /// The distance of two graphs; none if they are of different kinds.
    fn distance(&self, other: &Self) -> Option<f64> {
        let mut sum = if self.attributes == other.attributes { 0.0 } else { 1.0 };
        if self.graph.len() != other.graph.len() {
            return None;
        }
        for ((operation, tensors), (other, others)) in self.graph.iter().zip(&other.graph) {
            if operation != other || tensors.len() != others.len() {
                return None;
            }
            for ((kind, dims, strides), (other, theirs, their_strides)) in tensors.iter().zip(others) {
                if kind != other || dims.len() != theirs.len() {
                    return None;
                }
                sum += if order(strides) == order(their_strides) { 0.0 } else { 4.0 };
                let ratio = |(a, b): (&i64, &i64)| ((*a).max(1) as f64 / (*b).max(1) as f64).log2().abs();
                sum += dims.iter().zip(theirs).map(ratio).sum::<f64>();
            }
        }
        Some(sum)
    }
}

/// The dimensions, sorted by stride: the layout of a tensor, whatever its size.
fn order(strides: &[i64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..strides.len()).collect();
    places.sort_by_key(|place| strides.get(*place).copied());
    places
}

fn shape(graph: &Graph) -> (Vec<Operation>, u64) {
    let mut attributes = Fnv1a::new();
    let mut nodes = Vec::new();
    for node in &graph.nodes {
        let tensors = node.operation.tensors().into_iter().filter_map(|uid| graph.tensor(uid));
        let of = |tensor: &crate::graph::Tensor| {
            (format!("{:?}", tensor.data_type), tensor.dims.clone(), tensor.strides.clone())
        };
        nodes.push((node.operation.spec().name.to_owned(), tensors.map(of).collect()));
        // Uids are not attributes.
        let mut operation = node.operation.clone();
        operation.for_each_tensor(|uid| *uid = 0);
        attributes = attributes.add(format!("{operation:?} {:?}", node.compute_type).as_bytes());
    }
    (nodes, attributes.number())
}

/// The results on one device.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
}

impl Store {
    /// The store of a device (the bytes of its DeviceProperties table) in the cache folder; none if the environment disables caches.
    pub fn of_device(device: &[u8]) -> Option<Self> {
        let is_off = |name: &str| {
            environment::path(name).is_some_and(|value| {
                let value = value.to_string_lossy().trim().to_lowercase();
                ["1", "true", "on", "yes", "enable", "enabled"].contains(&value.as_str())
            })
        };
        if is_off("HIPDNN_DISABLE_CACHE") || is_off("HIPDNN_DISABLE_EXACT_ENGINE_CACHE") {
            return None;
        }
        let root = match environment::path("HIPDNN_CACHE_DIR") {
            Some(root) => PathBuf::from(root),
            None => Path::new(&environment::path("HOME")?).join(".cache/hipdnn"),
        };
        Some(Self::in_folder(&root, device))
    }

    /// The store of a device in a folder.
    pub fn in_folder(root: &Path, device: &[u8]) -> Self {
        let hash = Fnv1a::new().add(device).number();
        Self { path: root.join("tuning").join(VERSION).join(format!("{hash:016x}.jsonl")) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self) -> Vec<Tuning> {
        let text = || -> io::Result<String> {
            let file = plain_file::open(&self.path, OpenOptions::new().read(true))?;
            let mut bytes = Vec::new();
            file.take(LARGEST).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = text().unwrap_or_default();
        text.split_inclusive('\n')
            .filter_map(|line| serde_json::from_str(line.strip_suffix('\n')?).ok())
            .collect()
    }

    /// The result for a graph.
    pub fn find(&self, graph: &Graph) -> Option<Tuning> {
        let (shape, attributes) = shape(graph);
        let is_same = |found: &Tuning| found.attributes == attributes && found.graph == shape;
        self.read().into_iter().rev().find(is_same)
    }

    /// The results for graphs of the same operations and types, the most similar shapes first, including this graph's own.
    pub fn similar(&self, graph: &Graph) -> Vec<Tuning> {
        let own = Tuning::new(graph, "", &Configuration::of(0), 0.0, 0.0);
        let mut near: Vec<(f64, Tuning)> = Vec::new();
        for found in self.read().into_iter().rev() {
            let is_known = near
                .iter()
                .any(|(_, other)| other.graph == found.graph && other.attributes == found.attributes);
            if let Some(distance) = own.distance(&found).filter(|distance| *distance <= FARTHEST && !is_known)
            {
                near.push((distance, found));
            }
        }
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.into_iter().map(|(_, found)| found).take(MOST_SIMILAR).collect()
    }

    /// Stores a result, replacing what was known of the graph.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn keep(&self, tuning: &Tuning) -> io::Result<()> {
        let mut line = serde_json::to_string(tuning)?;
        line.push('\n');
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        files::with_mode(options.create(true), 0o600);
        let length = fs::metadata(&self.path).map_or(0, |known| known.len());
        if length + line.len() as u64 > LARGEST {
            options.write(true).truncate(true);
        } else {
            options.append(true);
        }
        let mut file = plain_file::open(&self.path, &mut options)?;
        // In one write, so that lines of two processes do not mix.
        file.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests;
