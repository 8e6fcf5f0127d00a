//! `vulkan_compile FOLDER [WORD...]`: every kernel of the graphs that `gpu-test --vulkan-graphs FOLDER` wrote, compiled by the driver of the first
//! device, which need not be there: AMD's by Mesa's RADV with `RADV_FORCE_FAMILY`. The last lines are rows of `benches/results/vulkan_radv.csv`.

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ash::khr::pipeline_executable_properties;
use ash::vk;
use hipdnn_kernels::print::spirv;
use hipdnn_plugin_lowering::{Lowered, lower};
use hipdnn_plugin_sdk::graph::{Graph, Operation};
use hipdnn_plugin_sdk::{PluginError, json};
use hipdnn_vulkan_plugin::device::Device;
use hipdnn_vulkan_plugin::loader;
use hipdnn_vulkan_plugin::pipeline::Pipeline;
use hipdnn_vulkan_plugin::properties::Properties;
use hipdnn_vulkan_plugin::target::{features, options, target};

type Failure = Box<dyn Error>;

/// What a compiler says of kernels of a kind.
#[derive(Default)]
struct Kind {
    modules: usize,
    failed: usize,
    /// Kernels with registers in memory.
    spilling: usize,
    /// The most registers and bytes of them: vector registers, spilled vector and scalar registers, bytes of scratch memory.
    most: [u64; 4],
}

/// A device that compiles.
struct Compiler {
    device: Arc<Device>,
    statistics: pipeline_executable_properties::Device,
}

/// What the compiler says of one pipeline: vector registers, spilled vector and scalar registers, bytes of scratch memory.
const NAMES: [&str; 4] = ["VGPRs", "Spilled VGPRs", "Spilled SGPRs", "Scratch size"];

fn told(error: PluginError) -> Failure {
    error.message().into()
}

impl Compiler {
    /// The first device's compiler.
    fn open() -> Result<Self, Failure> {
        let entry = loader::entry()?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the struct is alive during the call. The instance lives as long as the process.
        let instance = unsafe { entry.create_instance(&info, None) }?;
        // SAFETY: the instance was just created and is never destroyed.
        let all = unsafe { instance.enumerate_physical_devices() }?;
        let first = all.first().ok_or_else(|| Failure::from("the driver has no device"))?;
        // SAFETY: the device is one of the instance.
        let properties = unsafe { Properties::ask(entry, &instance, *first, 0) }.map_err(told)?;
        // SAFETY: the device is one of the instance.
        let extensions = unsafe { instance.enumerate_device_extension_properties(*first) }?;
        let name = pipeline_executable_properties::NAME;
        if !extensions.iter().any(|own| own.extension_name_as_c_str() == Ok(name)) {
            return Err(Failure::from(format!("{}: lacks {}", properties.label(), name.to_string_lossy())));
        }
        // SAFETY: the device is one of the instance, which is never destroyed.
        let device = unsafe { Device::open_to_compile(&instance, &Arc::new(properties)) }.map_err(told)?;
        let statistics = pipeline_executable_properties::Device::new(&instance, &device.functions);
        Ok(Self { device: Arc::new(device), statistics })
    }

    /// Compiles a kernel.
    fn compile(&self, lowered: &Lowered) -> Result<[u64; 4], Failure> {
        let module = spirv::print(&lowered.written.kernel, &features(&self.device.properties))?;
        // SAFETY: the printer writes valid modules, with the features that the device has.
        let pipeline = unsafe { Pipeline::new(&self.device, &module) }.map_err(told)?;
        let info = vk::PipelineInfoKHR::default().pipeline(pipeline.pipeline());
        // SAFETY: the pipeline is the device's, which has the extension.
        let executables = unsafe { self.statistics.get_pipeline_executable_properties(&info) };
        let mut told = [0; 4];
        for place in 0..executables?.len() {
            let info = vk::PipelineExecutableInfoKHR::default()
                .pipeline(pipeline.pipeline())
                .executable_index(place as u32);
            // SAFETY: the pipeline was made with the flag that keeps statistics.
            let all = unsafe { self.statistics.get_pipeline_executable_statistics(&info) }?;
            for (told, name) in told.iter_mut().zip(NAMES) {
                let own = all
                    .iter()
                    .find(|own| own.name_as_c_str().is_ok_and(|text| text.to_bytes() == name.as_bytes()));
                let own = own.ok_or_else(|| Failure::from(format!("the compiler does not tell {name:?}")))?;
                if own.format != vk::PipelineExecutableStatisticFormatKHR::UINT64 {
                    return Err(Failure::from(format!("{name:?}: expected a number of 64 bits")));
                }
                // SAFETY: the format is `UINT64`, so that the driver wrote this field of the union.
                *told += unsafe { own.value.u64 };
            }
        }
        Ok(told)
    }
}

/// The kind of a kernel.
fn kind(graph: &Graph, lowered: &Lowered) -> &'static str {
    let nodes = || lowered.nodes.iter().filter_map(|place| graph.nodes.get(*place));
    let has = |is: fn(&Operation) -> bool| nodes().any(|node| is(&node.operation));
    use Operation as O;
    if has(|o| matches!(o, O::Matmul(_) | O::MoeGroupedMatmul(_) | O::MoeGroupedMatmulBackward(_))) {
        "products"
    } else if has(|o| {
        matches!(
            o,
            O::ConvolutionForward(_) | O::ConvolutionBackwardData(_) | O::ConvolutionBackwardFilter(_)
        )
    }) {
        "convolutions"
    } else if has(|o| matches!(o, O::Sdpa(_) | O::SdpaBackward(_))) {
        "attention"
    } else {
        "others"
    }
}

/// The graphs of a folder whose names have one of the words.
fn graphs(folder: &str, words: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let files = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut paths: Vec<PathBuf> = files.iter().map(fs::DirEntry::path).collect();
    let is_wanted = |path: &PathBuf| {
        words.is_empty() || words.iter().any(|word| path.to_string_lossy().contains(word.as_str()))
    };
    paths.retain(|path| path.extension().is_some_and(|end| end == "json") && is_wanted(path));
    paths.sort();
    Ok(paths)
}

fn run() -> Result<bool, Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, words) = arguments.split_first().ok_or("usage: vulkan_compile FOLDER [WORD...]")?;
    let compiler = Compiler::open()?;
    let properties = &compiler.device.properties;
    let target = target(properties, properties.shapes.clone());
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    let (mut known, mut refused) = (HashSet::new(), 0);
    for path in graphs(folder, words)? {
        let graph = json::read(&fs::read_to_string(&path)?)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let Ok(program) = lower(&graph, &target, options(properties, false)) else {
            refused += 1;
            continue;
        };
        for lowered in &program.kernels {
            // Kernels of several graphs may differ in their names alone.
            let mut kernel = lowered.written.kernel.clone();
            kernel.name.clear();
            if !known.insert(format!("{kernel:?}")) {
                continue;
            }
            let kind = kinds.entry(kind(&graph, lowered)).or_default();
            kind.modules += 1;
            match compiler.compile(lowered) {
                Ok(told) => {
                    let spills = told.iter().skip(1).any(|number| *number > 0);
                    kind.spilling += usize::from(spills);
                    if spills {
                        println!("{name}: {} spills: {NAMES:?} {told:?}", lowered.written.kernel.name);
                    }
                    for (most, own) in kind.most.iter_mut().zip(told) {
                        *most = own.max(*most);
                    }
                }
                Err(failure) => {
                    kind.failed += 1;
                    println!("{name}: FAILED: {failure}");
                }
            }
        }
    }
    println!("{refused} graphs refused");
    println!(
        "device,driver,kernels,modules,failed,spilling,most VGPRs,spilled VGPRs,spilled SGPRs,scratch bytes"
    );
    for (name, kind) in &kinds {
        let most = kind.most.map(|number| number.to_string()).join(",");
        let Kind { modules, failed, spilling, .. } = kind;
        println!("{},{},{name},{modules},{failed},{spilling},{most}", properties.name, properties.driver);
    }
    println!("{} modules compiled", kinds.values().map(|kind| kind.modules - kind.failed).sum::<usize>());
    Ok(kinds.values().all(|kind| kind.failed == 0))
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            println!("vulkan_compile: {failure}");
            ExitCode::from(2)
        }
    }
}
