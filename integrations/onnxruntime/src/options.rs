//! What an application may set: session options `ep.hipdnnexecutionprovider.NAME`, or options of the provider.

use std::path::PathBuf;

use hipdnn::{KnobSetting, KnobValue};

use crate::failure::{Failure, Result};

/// What every entry of ours begins with: ONNX Runtime's prefix and the provider's name in lower case.
pub const PREFIX: &str = "ep.hipdnnexecutionprovider.";

/// The engine of processors.
pub const CPU_ENGINE: &str = "CPU_ENGINE";

/// The knobs that the provider sets itself.
pub const OWN_KNOBS: [&str; 3] = ["threads", "deterministic", "constant_weights"];

/// The most plans that a subgraph keeps, one for each shape.
const PLANS: usize = 16;

/// Which nodes are taken of those that can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Subgraphs that are worth it.
    Profitable,
    /// All.
    All,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The processors, with the application's memory.
    Cpu,
    /// The AMD or NVIDIA GPU of the process, where the provider keeps constants and what is between its nodes.
    Gpu,
}

/// Whose threads compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Those of the engine where a graph has few subgraphs, else those of the session.
    Auto,
    /// Those of ONNX Runtime's session.
    Session,
    /// Those of the engine.
    Engine,
}

/// How a session writes compiled models, if it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Whether one is wanted.
    pub is_on: bool,
    /// Whether it is in the node itself.
    pub is_embedded: bool,
    /// The model that is written.
    pub file: Option<PathBuf>,
}

/// The options of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What computes; without a word of the application the GPU, where a session has no other device.
    pub device: Device,
    /// The engine that computes; without one `CPU_ENGINE`, or whichever engine of the GPU is best for a part.
    pub engine: Option<String>,
    /// The most threads that an execution uses; 0 is one for each processor.
    pub threads: i64,
    /// Whose threads compute.
    pub pool: Pool,
    /// Whether results are the same for any number of threads.
    pub deterministic: bool,
    /// Which nodes are taken.
    pub take: Take,
    /// Further knobs of the engine.
    pub knobs: Vec<KnobSetting>,
    /// The most plans that a subgraph keeps.
    pub plans: usize,
    /// Whether what a run does on a GPU is captured, and started as a whole at the next runs with the same memory.
    pub capture: bool,
    /// A file that gets a line of JSON for each graph: what is taken, and why the rest is not.
    pub report: Option<PathBuf>,
    /// Whether and how a compiled model is written; ONNX Runtime's own options say so.
    pub context: Wanted,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            device: Device::Cpu,
            engine: None,
            threads: 0,
            pool: Pool::Auto,
            deterministic: false,
            take: Take::Profitable,
            knobs: Vec::new(),
            plans: PLANS,
            capture: true,
            report: None,
            context: Wanted { is_embedded: true, ..Wanted::default() },
        }
    }
}

impl Options {
    /// Reads a session's configuration. Entries of others are passed over; one of ours that makes no sense is an error.
    /// `is_of_gpus` says that a session has no other device.
    pub fn read<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>, is_of_gpus: bool) -> Result<Self> {
        let mut options = Self::default();
        if is_of_gpus {
            options.device = Device::Gpu;
        }
        for (key, value) in entries {
            match key {
                "ep.context_enable" => options.context.is_on = value == "1",
                "ep.context_embed_mode" => options.context.is_embedded = value != "0",
                "ep.context_file_path" if !value.is_empty() => {
                    options.context.file = Some(PathBuf::from(value))
                }
                _ => {}
            }
            let Some(name) = key.strip_prefix(PREFIX) else { continue };
            let wrong = |expected: &str| {
                Failure::argument(format!("option {key}: is {value:?}, expected {expected}"))
            };
            let flag = || match value {
                "0" | "false" => Ok(false),
                "1" | "true" => Ok(true),
                _ => Err(wrong("0 or 1")),
            };
            let whole = |least: i64, most: i64| {
                let number = value.parse().ok().filter(|number| (least..=most).contains(number));
                number.ok_or_else(|| wrong(&format!("an integer from {least} to {most}")))
            };
            match name {
                "device" => {
                    options.device = match value {
                        "cpu" if is_of_gpus => {
                            return Err(wrong("gpu, since the session was given no other device"));
                        }
                        "cpu" => Device::Cpu,
                        "gpu" => Device::Gpu,
                        _ => return Err(wrong("cpu or gpu")),
                    }
                }
                "engine" if !value.is_empty() => options.engine = Some(value.to_owned()),
                "engine" => return Err(wrong("the name of an engine")),
                "threads" => options.threads = whole(0, 256)?,
                "pool" => {
                    options.pool = match value {
                        "auto" => Pool::Auto,
                        "session" => Pool::Session,
                        "engine" => Pool::Engine,
                        _ => return Err(wrong("auto, session or engine")),
                    }
                }
                "deterministic" => options.deterministic = flag()?,
                "take" => {
                    options.take = match value {
                        "profitable" => Take::Profitable,
                        "all" => Take::All,
                        _ => return Err(wrong("profitable or all")),
                    }
                }
                "knobs" => {
                    options.knobs = knobs(value).ok_or_else(|| wrong("NAME=VALUE, with commas between"))?
                }
                "plans" => options.plans = usize::try_from(whole(1, 4096)?).unwrap_or(PLANS),
                "capture" => options.capture = flag()?,
                "report" => options.report = Some(PathBuf::from(value)),
                _ => {
                    return Err(Failure::argument(format!(
                        "option {key}: is unknown, expected one of device, engine, threads, pool, deterministic, take, knobs, plans, capture, report"
                    )));
                }
            }
        }
        Ok(options)
    }

    /// What a compiled model says of its engine.
    pub fn engine_name(&self) -> &str {
        match (&self.engine, self.device) {
            (Some(name), _) => name,
            (None, Device::Cpu) => CPU_ENGINE,
            (None, Device::Gpu) => "engines of a GPU",
        }
    }

    /// The knobs of a plan.
    pub fn settings(&self, constant_weights: bool) -> Vec<KnobSetting> {
        // Other engines lack these, and the library would warn at each plan.
        let own = self.device == Device::Cpu && self.engine.as_deref().is_none_or(|name| name == CPU_ENGINE);
        let set = |id: &str, value: i64| KnobSetting { id: id.to_owned(), value: KnobValue::Int(value) };
        let mut settings = Vec::new();
        if own && self.threads > 0 {
            settings.push(set("threads", self.threads));
        }
        if own && self.deterministic {
            settings.push(set("deterministic", 1));
        }
        if own && constant_weights {
            settings.push(set("constant_weights", 1));
        }
        settings.retain(|setting| self.knobs.iter().all(|knob| knob.id != setting.id));
        settings.extend(
            self.knobs.iter().filter(|knob| constant_weights || knob.id != "constant_weights").cloned(),
        );
        settings
    }
}

fn knobs(text: &str) -> Option<Vec<KnobSetting>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (id, value) = pair.split_once('=')?;
            let (id, value) = (id.trim(), value.trim());
            if id.is_empty() || value.is_empty() {
                return None;
            }
            let value = value.parse().map(KnobValue::Int).or_else(|_| value.parse().map(KnobValue::Float));
            let value = value.unwrap_or_else(|_| {
                KnobValue::Text(pair.split_once('=').map_or("", |(_, v)| v.trim()).to_owned())
            });
            Some(KnobSetting { id: id.to_owned(), value })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Options> {
        let key = format!("{PREFIX}{name}");
        Options::read([("session.disable_cpu_ep_fallback", "1"), (key.as_str(), value)], false)
    }

    #[test]
    fn options_are_read() {
        assert_eq!(Options::read([], false).unwrap(), Options::default());
        assert_eq!(read("device", "gpu").unwrap().device, Device::Gpu);
        assert_eq!(read("threads", "3").unwrap().threads, 3);
        assert_eq!(read("take", "all").unwrap().take, Take::All);
        assert!(!read("capture", "0").unwrap().capture);
        let knobs = read("knobs", "convolution=5, x=0.5,y=z").unwrap().knobs;
        let texts: Vec<String> = knobs.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["convolution=5", "x=0.5", "y=z"]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (name, value, expected) in [
            ("threads", "many", "an integer from 0 to 256"),
            ("threads", "-1", "an integer from 0 to 256"),
            ("device", "tpu", "cpu or gpu"),
            ("take", "some", "profitable or all"),
            ("pool", "other", "auto, session or engine"),
            ("deterministic", "2", "0 or 1"),
            ("capture", "yes", "0 or 1"),
            ("knobs", "threads", "NAME=VALUE"),
            ("thread", "2", "expected one of device, engine, threads"),
        ] {
            let text = read(name, value).unwrap_err().text;
            assert!(text.contains(name) && text.contains(expected), "{text}");
        }
    }

    #[test]
    fn sessions_of_gpus_compute_there() {
        assert_eq!(Options::read([], true).unwrap().device, Device::Gpu);
        let key = format!("{PREFIX}device");
        let failure = Options::read([(key.as_str(), "cpu")], true).unwrap_err();
        assert!(failure.text.contains("no other device"), "{failure}");
    }

    #[test]
    fn weights_are_constant_only_where_it_is_said() {
        let options =
            Options { knobs: knobs("constant_weights=1,convolution=2").unwrap(), ..Options::default() };
        let of = |constant| options.settings(constant).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(of(false), ["convolution=2"]);
        assert_eq!(of(true), ["constant_weights=1", "convolution=2"]);
    }
}
