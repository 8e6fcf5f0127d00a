//! The application's settings: session options `ep.hipdnnexecutionprovider.NAME`, or options of the provider.

use std::path::PathBuf;

use hipdnn::{KnobSetting, KnobValue};
use hipdnn_plugin_sdk::cpu_isa::CpuIsa;

use crate::failure::{Failure, Result};

/// The prefix of our entries: ONNX Runtime's prefix and the provider's name in lower case.
pub const PREFIX: &str = "ep.hipdnnexecutionprovider.";

/// The CPU engine.
pub const CPU_ENGINE: &str = "CPU_ENGINE";

/// The knobs that the provider sets itself.
pub const OWN_KNOBS: [&str; 5] =
    ["threads", "deterministic", "constant_weights", BATCH_INVARIANT, FLUSH_SUBNORMALS];

/// The knob that keeps an item's bits independent of its batch.
pub const BATCH_INVARIANT: &str = "batch_invariant";

/// The knob for ONNX Runtime's option `session.set_denormal_as_zero`.
const FLUSH_SUBNORMALS: &str = "flush_subnormals";

/// The most plans that a subgraph keeps, one for each shape.
const PLANS: usize = 16;

/// Which of the supported nodes are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Those in subgraphs that are worth it.
    Profitable,
    /// All.
    All,
}

/// The device that computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The processor, on the application's memory.
    Cpu,
    /// The process's AMD or NVIDIA GPU, where the provider keeps constants and tensors between its nodes.
    Gpu,
    /// A Vulkan device by its number, used like the GPU.
    Vulkan(i32),
}

impl Device {
    /// The device that a text names, other than the processor.
    fn beside_cpu(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "gpu" => Some(Self::Gpu),
            None if text == "vulkan" => Some(Self::Vulkan(0)),
            Some(("vulkan", digits)) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().ok().map(Self::Vulkan)
            }
            _ => None,
        }
    }
}

/// Whose threads compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The engine's if a graph has few subgraphs, else the session's.
    Auto,
    /// Those of ONNX Runtime's session.
    Session,
    /// The engine's.
    Engine,
}

/// How a session writes compiled models, if at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Whether one is requested.
    pub is_on: bool,
    /// Whether it is embedded in the node.
    pub is_embedded: bool,
    /// The path of the compiled model.
    pub file: Option<PathBuf>,
}

/// The options of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The device that computes; by default the GPU if a session has no other device.
    pub device: Device,
    /// The engine; by default `CPU_ENGINE`, or the best engine of the GPU for each part.
    pub engine: Option<String>,
    /// The most threads of an execution; 0 means one per processor.
    pub threads: i64,
    /// Whose threads compute.
    pub pool: Pool,
    /// Whether results are the same for any number of threads.
    pub deterministic: bool,
    /// Whether an item of a batch has the same bits in every batch.
    pub batch_invariant: bool,
    /// Whether subnormal numbers count as zeros, according to ONNX Runtime's own option.
    pub flush_subnormals: bool,
    /// Which nodes are claimed.
    pub take: Take,
    /// Further knobs of the engine.
    pub knobs: Vec<KnobSetting>,
    /// The most plans that a subgraph keeps.
    pub plans: usize,
    /// Whether GPU work of a run is captured, and replayed in later runs with the same memory.
    pub capture: bool,
    /// A file to which each graph adds a line of JSON: which nodes are claimed, and why the others are not.
    pub report: Option<PathBuf>,
    /// A folder for each graph of a run on the host, with the values that it reads.
    pub record: Option<PathBuf>,
    /// Whether and how a compiled model is written, according to ONNX Runtime's own options.
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
            batch_invariant: false,
            flush_subnormals: false,
            take: Take::Profitable,
            knobs: Vec::new(),
            plans: PLANS,
            capture: true,
            report: None,
            record: None,
            context: Wanted { is_embedded: true, ..Wanted::default() },
        }
    }
}

impl Options {
    /// Reads a session's configuration. Ignores entries of others; an invalid one of ours is an error.
    /// `only` is the GPU of a session that has no other device.
    pub fn read<'a>(
        entries: impl IntoIterator<Item = (&'a str, &'a str)>,
        only: Option<Device>,
    ) -> Result<Self> {
        let mut options = Self::default();
        options.device = only.unwrap_or(options.device);
        let mut take = None;
        for (key, value) in entries {
            match key {
                "session.set_denormal_as_zero" => options.flush_subnormals = value == "1",
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
                        "cpu" if only.is_some() => {
                            return Err(wrong("a GPU, since the session was given no other device"));
                        }
                        "cpu" => Device::Cpu,
                        _ => {
                            Device::beside_cpu(value).ok_or_else(|| wrong("cpu, gpu, vulkan or vulkan:1"))?
                        }
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
                "batch_invariant" => options.batch_invariant = flag()?,
                "take" => {
                    take = Some(match value {
                        "profitable" => Take::Profitable,
                        "all" => Take::All,
                        _ => return Err(wrong("profitable or all")),
                    })
                }
                "knobs" => {
                    options.knobs = knobs(value).ok_or_else(|| wrong("NAME=VALUE, with commas between"))?
                }
                "plans" => options.plans = usize::try_from(whole(1, 4096)?).unwrap_or(PLANS),
                "capture" => options.capture = flag()?,
                "report" => options.report = Some(PathBuf::from(value)),
                "record" => options.record = Some(PathBuf::from(value)),
                _ => {
                    return Err(Failure::argument(format!(
                        "option {key}: is unknown, expected one of device, engine, threads, pool, deterministic, batch_invariant, take, knobs, plans, capture, report, record"
                    )));
                }
            }
        }
        if options.record.is_some() && options.device != Device::Cpu {
            return Err(Failure::argument(
                "option record: the session computes on a GPU, expected device=cpu",
            ));
        }
        // The bits of what ONNX Runtime computes itself may depend on the batch.
        let whole = if options.batch_invariant { Take::All } else { options.take };
        options.take = take.unwrap_or(whole);
        Ok(options)
    }

    /// Whether an item's bits are the same in every batch, by the option or the library's variable of that name.
    pub fn is_batch_invariant(&self) -> bool {
        let variable = || std::env::var("HIPDNN_BATCH_INVARIANT").is_ok_and(|of| of.trim() == "1");
        self.batch_invariant || variable()
    }

    /// The engine's settings stored in a compiled model.
    pub fn engine_name(&self) -> &str {
        match (&self.engine, self.device) {
            (Some(name), _) => name,
            (None, Device::Cpu) => CPU_ENGINE,
            (None, Device::Gpu | Device::Vulkan(_)) => "engines of a GPU",
        }
    }

    /// Whether `CPU_ENGINE` computes.
    fn is_own_engine(&self) -> bool {
        self.device == Device::Cpu && self.engine.as_deref().is_none_or(|name| name == CPU_ENGINE)
    }

    /// Whether convolutions are faster with their channels last. With AVX2 depthwise and 1 × 1 ones are; with AVX-512 channels first
    /// are faster on few threads.
    pub fn wants_images_last(&self) -> bool {
        self.is_own_engine() && CpuIsa::Avx2.is_available() && !CpuIsa::Avx512.is_available()
    }

    /// The knobs of a plan.
    pub fn settings(&self, constant_weights: bool) -> Vec<KnobSetting> {
        // Other engines lack these, and the library would warn at each plan.
        let own = self.is_own_engine();
        let set = |id: &str, value: i64| KnobSetting { id: id.to_owned(), value: KnobValue::Int(value) };
        let mut settings = Vec::new();
        if own && self.threads > 0 {
            settings.push(set("threads", self.threads));
        }
        if own && self.deterministic {
            settings.push(set("deterministic", 1));
        }
        if self.batch_invariant {
            settings.push(set(BATCH_INVARIANT, 1));
        }
        if own && self.flush_subnormals {
            settings.push(set(FLUSH_SUBNORMALS, 1));
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
        Options::read([("session.disable_cpu_ep_fallback", "1"), (key.as_str(), value)], None)
    }

    #[test]
    fn options_are_read() {
        assert_eq!(Options::read([], None).unwrap(), Options::default());
        assert_eq!(read("device", "gpu").unwrap().device, Device::Gpu);
        for (text, number) in [("vulkan", 0), ("vulkan:1", 1)] {
            assert_eq!(read("device", text).unwrap().device, Device::Vulkan(number));
        }
        assert_eq!(read("threads", "3").unwrap().threads, 3);
        assert_eq!(read("take", "all").unwrap().take, Take::All);
        assert!(!read("capture", "0").unwrap().capture);
        assert_eq!(read("record", "folder").unwrap().record, Some(PathBuf::from("folder")));
        let knobs = read("knobs", "convolution=5, x=0.5,y=z").unwrap().knobs;
        let texts: Vec<String> = knobs.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["convolution=5", "x=0.5", "y=z"]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (name, value, expected) in [
            ("threads", "many", "an integer from 0 to 256"),
            ("threads", "-1", "an integer from 0 to 256"),
            ("device", "tpu", "cpu, gpu, vulkan or vulkan:1"),
            ("device", "vulkan:-1", "cpu, gpu, vulkan or vulkan:1"),
            ("device", "vulkan:", "cpu, gpu, vulkan or vulkan:1"),
            ("take", "some", "profitable or all"),
            ("pool", "other", "auto, session or engine"),
            ("deterministic", "2", "0 or 1"),
            ("batch_invariant", "yes", "0 or 1"),
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
        assert_eq!(Options::read([], Some(Device::Gpu)).unwrap().device, Device::Gpu);
        let key = format!("{PREFIX}device");
        let failure = Options::read([(key.as_str(), "cpu")], Some(Device::Gpu)).unwrap_err();
        assert!(failure.text.contains("no other device"), "{failure}");
        let key = format!("{PREFIX}record");
        let failure = Options::read([(key.as_str(), "folder")], Some(Device::Gpu)).unwrap_err();
        assert!(failure.text.contains("record") && failure.text.contains("device=cpu"), "{failure}");
    }

    #[test]
    fn promises_and_subnormals_are_knobs() {
        let of = |options: &Options| {
            options.settings(false).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let mut options = read("batch_invariant", "1").unwrap();
        assert_eq!((of(&options).as_str(), options.take), ("batch_invariant=1", Take::All));
        let (first, second) = (format!("{PREFIX}take"), format!("{PREFIX}batch_invariant"));
        let given = Options::read([(first.as_str(), "profitable"), (second.as_str(), "1")], None).unwrap();
        assert_eq!(given.take, Take::Profitable);
        options.flush_subnormals =
            Options::read([("session.set_denormal_as_zero", "1")], None).unwrap().flush_subnormals;
        assert_eq!(of(&options), "batch_invariant=1 flush_subnormals=1");
        options.device = Device::Gpu;
        assert_eq!(of(&options), "batch_invariant=1");
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
