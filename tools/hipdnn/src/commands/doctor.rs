//! `hipdnn doctor`

use std::path::{Path, PathBuf};

use super::Outcome;
use crate::failure::{Failure, Result, one_line};
use crate::loading::{self, Loading};
use hipdnn::Backend;
use hipdnn::hardware::{self, Found, VulkanDevice};
use hipdnn_plugin_sdk::cpu_isa::CpuIsa;
use hipdnn_plugin_sdk::os::{environment, processors};

/// Prefixes of variables that affect what is found.
const VARIABLES: [&str; 6] = ["HIPDNN_", "HIP_", "CUDA_", "ROCM_", "VK_", "LD_LIBRARY_PATH"];

/// Lines that each begin with a keyword. `python -m hipdnn` uses the same keywords.
#[derive(Default)]
struct Report(String);

impl Report {
    fn line(&mut self, word: &str, text: &str) {
        self.0.push_str(&format!("{word:<11} {}\n", one_line(text)));
    }
}

/// Shows what a bug report needs, including what is missing.
pub fn doctor(backend: Result<Backend>, plugins: &[PathBuf]) -> Outcome {
    let mut report = Report::default();
    report.line("hipdnn", env!("CARGO_PKG_VERSION"));
    report.line("system", &system());
    report.line("processor", &processor());
    if let Some(line) = CpuIsa::description() {
        report.line("ISA", &line);
    }
    gpus(&mut report);
    let failure = backend.and_then(|backend| library(&mut report, &backend, plugins)).err();
    if let Some(failure) = &failure {
        report.line("library", &failure.to_string());
    }
    let wanted = |name: &str| VARIABLES.iter().any(|prefix| name.starts_with(prefix));
    let mut variables: Vec<_> = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        // Omit the one that the tool sets itself.
        .filter(|(name, value)| wanted(name) && !(name == "HIPDNN_LOG_FILE" && value == environment::NOWHERE))
        .collect();
    variables.sort();
    variables.iter().for_each(|(name, value)| report.line("variable", &format!("{name}={value}")));
    Outcome { text: report.0, failure }
}

fn library(report: &mut Report, backend: &Backend, plugins: &[PathBuf]) -> Result<()> {
    let added = loading::add_plugins(backend, plugins)?;
    let version = backend.version().unwrap_or_else(|| "of no version".to_owned());
    report.line("library", &format!("{version}, {}", backend.path()));
    let (handle, loading) = Loading::watch(backend);
    for plugin in &loading.plugins {
        report.line(
            "plugin",
            &format!("{} {}, {}, generation {}", plugin.name, plugin.version, plugin.file, plugin.generation),
        );
    }
    for line in loading.remarks().lines() {
        report.line("plugins", line);
    }
    let handle = handle?;
    match hardware::vulkan_devices(&handle) {
        Err(reason) => report.line("device", &format!("no Vulkan device: {reason}")),
        Ok(devices) if devices.is_empty() => {
            report.line("device", "no Vulkan device: the loader found no driver");
        }
        Ok(devices) => devices.iter().for_each(|device| report.line("device", &vulkan(device))),
    }
    let engines = handle.engines()?;
    for engine in &engines {
        report.line("engine", &format!("{} ({} {})", engine.name, engine.plugin, engine.version));
    }
    // Older libraries have none.
    for policy in handle.policies().unwrap_or_default() {
        report.line("policy", &format!("{} ({} {})", policy.name, policy.plugin, policy.version));
    }
    let nothing = || engines.is_empty().then(|| Failure::work("no engine is loaded"));
    loading.failure_of(&added).or_else(nothing).map_or(Ok(()), Err)
}

fn gpus(report: &mut Report) {
    let drivers: Vec<_> =
        environment::GPU_FILES.into_iter().filter(|file| Path::new(file).exists()).collect();
    if drivers.is_empty() {
        report.line("GPU driver", "none");
    }
    drivers.iter().for_each(|driver| report.line("GPU driver", driver));
    for Found { library, version, file, .. } in hardware::libraries() {
        let file = file.map_or_else(|| "not there".to_owned(), |file| file.display().to_string());
        let version = version.map(|version| format!(" {version}")).unwrap_or_default();
        report.line("GPU library", &format!("{library}{version}, {file}"));
    }
    match hardware::devices() {
        // The missing library was already reported.
        Err(_) => {}
        Ok(devices) => {
            for device in devices {
                let (number, memory) = (device.number, device.memory_bytes >> 20);
                let (architecture, units) = (device.architecture, device.compute_units);
                report.line("device", &format!("{number}, {architecture}, {units} units, {memory} MiB"));
            }
        }
    }
}

fn vulkan(device: &VulkanDevice) -> String {
    let VulkanDevice { number, name, kind, version, memory_bytes, .. } = device;
    let use_of = if device.is_usable { "" } else { ", not usable" };
    format!("vulkan:{number}, {name}, {kind}, Vulkan {version}, {} MiB{use_of}", memory_bytes >> 20)
}

/// The system, and the architecture that this is compiled for.
fn system() -> String {
    format!("{}, {}", environment::system(), std::env::consts::ARCH)
}

fn processor() -> String {
    let model = processors::model().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {threads} threads")
}
