//! Further checks on a machine with an AMD GPU: CPU engines with device memory, and the order of engines.

use std::ffi::{c_int, c_uint, c_void};
use std::process::Command;
use std::ptr;

use hipdnn_plugin_sdk::function_table;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::graph::operation::{ConvolutionForward, Pointwise};
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};
use hipdnn_plugin_sdk::hip::Hip;

use crate::Failure;
use crate::backend::Backend;
use crate::case::{Case, Order};
use crate::cases;
use crate::failing::DOES_NOT_APPLY;

/// The CPU engines.
const ON_THE_PROCESSOR: [&str; 2] = ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"];

/// The check that runs in its own process.
const COPIES: &str = "CPU engines: device memory is copied with HIPDNN_CPU_FALLBACK";

/// The variable that asks for copies.
const FALLBACK: &str = "HIPDNN_CPU_FALLBACK";

/// A check: its name, and what it does.
pub type Check = (&'static str, fn(&Backend, &'static Hip) -> Result<(), Failure>);

/// All checks.
pub const CHECKS: [Check; 5] = [
    (COPIES, device_memory_is_copied),
    ("CPU engines: device memory is refused", device_memory),
    ("CPU engines: memory of the host that HIP knows", host_memory),
    ("batchnorm with half parameters: computed, or refused by every engine of the device", half_parameters),
    ("default order: engines of the device before those of the processor", order),
];

/// relu(a + b), which every plugin has an engine for; some engines store the sum in the workspace.
fn sum() -> Case {
    let dims = [2, 3, 4, 5];
    let mut case = Case::new("sum");
    let a = case.input(DataType::Float, &dims, Order::ChannelsFirst, [-1.0, 1.0]);
    let b = case.input(DataType::Float, &dims, Order::ChannelsFirst, [-1.0, 1.0]);
    let sum = case.between(DataType::Float, &dims, Order::ChannelsFirst);
    let y = case.output(DataType::Float, &dims, Order::ChannelsFirst);
    case.node(Pointwise::new(PointwiseMode::Add, a, Some(b), sum));
    case.node(Pointwise::new(PointwiseMode::ReluFwd, sum, None, y));
    case
}

/// A convolution, which all but hipBLASLt have engines for.
fn convolution() -> Case {
    let mut case = Case::new("convolution");
    let x = case.input(DataType::Float, &[1, 2, 5, 5], Order::ChannelsFirst, [-1.0, 1.0]);
    let w = case.input(DataType::Float, &[3, 2, 3, 3], Order::ChannelsFirst, [-1.0, 1.0]);
    let y = case.output(DataType::Float, &[1, 3, 5, 5], Order::ChannelsFirst);
    case.node(ConvolutionForward {
        pre_padding: vec![1, 1],
        post_padding: vec![1, 1],
        ..ConvolutionForward::new(x, w, y, 2)
    });
    case
}

/// CPU engines refuse device memory and name the tensor or the workspace. Reading the memory would end the process.
fn device_memory(backend: &Backend, hip: &'static Hip) -> Result<(), Failure> {
    let case = sum();
    for engine in ON_THE_PROCESSOR {
        let plan = backend.plan(engine, &case.graph, &[])?;
        let refusal = match case.run_on_device(Gpu::Hip(hip), &plan) {
            Ok(_) => return Err(Failure(format!("{engine} computes in device memory"))),
            Err(failure) => failure.0,
        };
        if !refusal.contains("the buffer of tensor 1 is device memory") {
            return Err(Failure(format!("{engine}: {refusal}")));
        }
    }
    Ok(())
}

/// With the variable, CPU engines compute correct results in device memory. In its own process, since the variable is read
/// once.
fn device_memory_is_copied(backend: &Backend, hip: &'static Hip) -> Result<(), Failure> {
    if std::env::var_os(FALLBACK).is_none() {
        let failed = |error: std::io::Error| Failure(format!("this program: {error}"));
        // /proc may be missing.
        let [program, library] = [0, 1].map(|at| std::env::args_os().nth(at).unwrap_or_default());
        let output =
            Command::new(program).arg(library).arg(COPIES).env(FALLBACK, "1").output().map_err(failed)?;
        return if output.status.success() {
            Ok(())
        } else {
            Err(Failure(String::from_utf8_lossy(&output.stdout).into_owned()))
        };
    }
    for case in [sum(), convolution()] {
        let expected = case.run_on_host(backend)?;
        for engine in ON_THE_PROCESSOR {
            let named = |failure| Failure(format!("{engine}: {}: {failure}", case.name));
            let plan = backend.plan(engine, &case.graph, &[])?;
            // The second execution reuses the first one's buffers.
            for _ in 0..2 {
                let got = case.run_on_device(Gpu::Hip(hip), &plan).map_err(named)?;
                case.compare(&expected, &got, &plan).map_err(named)?;
            }
        }
    }
    Ok(())
}

/// Engines either compute correct results or refuse before anything runs.
fn half_parameters(backend: &Backend, hip: &'static Hip) -> Result<(), Failure> {
    for case in cases::half_parameters() {
        for engine in backend.engines(&case.graph)? {
            if ON_THE_PROCESSOR.contains(&engine.as_str()) {
                continue;
            }
            let named = |failure| Failure(format!("{engine}: {}: {failure}", case.name));
            let plan = backend.plan(&engine, &case.graph, &[]).map_err(named)?;
            case.run_plan(backend, Gpu::Hip(hip), &plan).map_err(named)?;
        }
        match backend.plan("MIOPEN_ENGINE", &case.graph, &[]) {
            Err(Failure(words)) if words.contains(DOES_NOT_APPLY) => {}
            other => return Err(Failure(format!("{}: {:?}", case.name, other.map(drop)))),
        }
    }
    Ok(())
}

function_table! {
    /// The functions of HIP for memory of the host.
    #[expect(non_snake_case, reason = "the names of HIP")]
    struct HostMemory: "the HIP runtime", ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"] {
        required {
            fn hipHostMalloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) -> c_int;
            fn hipHostFree(pointer: *mut c_void) -> c_int;
            fn hipMallocManaged(pointer: *mut *mut c_void, size: usize, flags: c_uint) -> c_int;
            fn hipHostRegister(pointer: *mut c_void, size: usize, flags: c_uint) -> c_int;
            fn hipHostUnregister(pointer: *mut c_void) -> c_int;
        }
        optional {}
    }
}

/// Plain, hipHostMalloc, registered and managed memory, each for all tensors and the workspace.
fn host_memory(backend: &Backend, hip: &'static Hip) -> Result<(), Failure> {
    let functions =
        HostMemory::load_from(&[hip.library().name()]).map_err(|error| Failure(error.to_string()))?;
    let case = sum();
    let expected = case.run_on_host(backend)?;
    for engine in ON_THE_PROCESSOR {
        let plan = backend.plan(engine, &case.graph, &[])?;
        for kind in ["plain", "hipHostMalloc", "hipMallocManaged", "hipHostRegister"] {
            let mut plain = Vec::new();
            let mut memory = Vec::new();
            let got = case.run_in_host_memory(&plan, |size| {
                let mut pointer = ptr::null_mut();
                // SAFETY: outputs are valid, and the registered memory has this size and outlives the run.
                let answer = unsafe {
                    match kind {
                        "hipHostMalloc" => (functions.hipHostMalloc)(&mut pointer, size, 0),
                        // 1: accessible from every device, the usual kind.
                        "hipMallocManaged" => (functions.hipMallocManaged)(&mut pointer, size, 1),
                        _ => {
                            let mut bytes = vec![0_u8; size].into_boxed_slice();
                            pointer = bytes.as_mut_ptr().cast();
                            plain.push(bytes);
                            if kind == "plain" { 0 } else { (functions.hipHostRegister)(pointer, size, 0) }
                        }
                    }
                };
                hip.check(kind, answer)?;
                memory.push(pointer);
                Ok(pointer)
            });
            for pointer in memory {
                // SAFETY: each was allocated above by the matching function.
                let answer = unsafe {
                    match kind {
                        "plain" => 0,
                        "hipHostRegister" => (functions.hipHostUnregister)(pointer),
                        "hipMallocManaged" => (hip.hipFree)(pointer),
                        _ => (functions.hipHostFree)(pointer),
                    }
                };
                hip.check(kind, answer)?;
            }
            got.and_then(|got| case.compare(&expected, &got, &plan))
                .map_err(|failure| Failure(format!("{engine}, {kind}: {failure}")))?;
        }
    }
    Ok(())
}

/// The order of engines for two graphs that MIOpen and generated kernels compute.
fn order(backend: &Backend, _: &'static Hip) -> Result<(), Failure> {
    let on_the_device = ["MIOPEN_ENGINE", "HIPRTC_ENGINE", "MIOPEN_ENGINE_DETERMINISTIC"];
    for case in [sum(), convolution()] {
        let expected = [&on_the_device[..], &ON_THE_PROCESSOR].concat();
        let engines = backend.engines(&case.graph)?;
        if engines != expected {
            return Err(Failure(format!("{}: {engines:?}, expected {expected:?}", case.name)));
        }
    }
    Ok(())
}
