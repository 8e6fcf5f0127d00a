//! Memory of a Vulkan device, with a real library whose plugins include that of `VULKAN_ENGINE`, in the folder
//! `HIPDNN_BACKEND_LIBRARY_PATH`. Without a device the reason is checked.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failure of the test")]

use std::ffi::c_void;
use std::path::Path;

use hipdnn::graph::operation::{Matmul, Pointwise};
use hipdnn::graph::{DataType, PointwiseMode};
use hipdnn::hardware::{DeviceMemory, Gpu, Stream, vulkan_devices};
use hipdnn::{
    Backend, Engine, EngineConfig, Error, ExecutionPlan, GraphBuilder, Handle, Status, VariantPack,
};

fn handle() -> Handle {
    let folder =
        std::env::var_os("HIPDNN_BACKEND_LIBRARY_PATH").expect("HIPDNN_BACKEND_LIBRARY_PATH is not set");
    Handle::new(&Backend::open(Some(Path::new(&folder))).unwrap()).unwrap()
}

/// A handle and the first usable device.
fn device() -> Option<(Handle, Gpu)> {
    let handle = handle();
    let devices = match vulkan_devices(&handle) {
        Ok(devices) => devices,
        Err(error) => {
            let text = error.to_string();
            assert!(
                ["no library for Vulkan", "no plugin of VULKAN_ENGINE", "vkCreateInstance failed"]
                    .iter()
                    .any(|reason| text.contains(reason)),
                "{text}"
            );
            println!("skipped: {text}");
            return None;
        }
    };
    let Some(first) = devices.iter().find(|device| device.is_usable) else {
        println!("skipped: no Vulkan device of {devices:?} can be used");
        return None;
    };
    assert!(!first.name.is_empty() && first.memory_bytes > 0 && first.uuid.len() == 32, "{first:?}");
    let gpu = Gpu::vulkan(&handle, first.number).unwrap();
    Some((handle, gpu))
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Four numbers from an offset on.
fn numbers(memory: &DeviceMemory, offset: usize) -> Vec<f32> {
    let mut bytes = vec![0; 16];
    memory.download(offset, &mut bytes).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
}

#[test]
fn bytes_come_back_and_places_outside_are_refused() {
    let Some((_handle, gpu)) = device() else { return };
    let sent: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    let [memory, other] = [200_000, 300_000].map(|bytes| DeviceMemory::new(gpu, bytes).unwrap());
    assert!(memory.as_ptr().addr().is_multiple_of(256) && memory.as_ptr() != other.as_ptr());
    memory.upload(0, &sent).unwrap();
    let stream = Stream::new(gpu).unwrap();
    // SAFETY: both have as many bytes from there on, and do not overlap.
    unsafe { stream.copy(other.as_ptr().wrapping_byte_add(4096), memory.as_ptr(), 200_000) }.unwrap();
    stream.synchronize().unwrap();
    gpu.synchronize().unwrap();
    let mut back = vec![0; 200_000];
    other.download(4096, &mut back).unwrap();
    assert!(back == sent);

    let error = memory.download(1, &mut back).unwrap_err();
    assert!(matches!(error, Error::Argument(_)) && error.to_string().contains("200000 bytes"), "{error}");
    // SAFETY: the plugin refuses addresses that are not its memory.
    let error = unsafe { gpu.upload(sent.as_ptr().cast_mut().cast(), &[1]) }.unwrap_err();
    assert!(error.to_string().contains("expected memory of device vulkan:"), "{error}");
    let text = DeviceMemory::new(gpu, usize::MAX / 2).unwrap_err().to_string();
    assert!(text.contains("allocating 9223372036854775807 bytes"), "{text}");
    assert!(text.contains("expected at most the") || text.contains("vkAllocateMemory failed"), "{text}");
    // What is there before stays usable.
    other.download(4096, &mut back).unwrap();
    assert!(back == sent);
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let Some((handle, _)) = device() else { return };
    for number in [-1, 99] {
        let error = Gpu::vulkan(&handle, number).unwrap_err().to_string();
        assert!(
            error.contains(&format!("opening Vulkan device {number}")) && error.contains("expected"),
            "{error}"
        );
    }
}

/// The plan of a product of square matrices and its RELU by an engine, and the uids of its operands and its result.
fn plan_by(engine: &str, handle: &Handle, side: i64) -> (ExecutionPlan, [i64; 3]) {
    let mut graph = GraphBuilder::new("matmul_relu", DataType::Float);
    let dims = [1, side, side];
    let (a, b) = (graph.tensor(&dims), graph.tensor(&dims));
    let (c, y) = (graph.virtual_tensor(&dims), graph.tensor(&dims));
    graph.node("product", Matmul { a, b, c });
    graph.node("relu", Pointwise::new(PointwiseMode::ReluFwd, c, None, y));
    let graph = graph.build(handle).unwrap();
    let all = handle.engines().unwrap();
    let id = all.iter().find(|known| known.name == engine).unwrap().id;
    let engine = Engine::new(&graph, id).unwrap();
    (ExecutionPlan::new(&EngineConfig::new(&engine, &[]).unwrap()).unwrap(), [a, b, y])
}

/// The operands, and a result that was not written.
const BEFORE: [[f32; 4]; 3] = [[1.0, 0.0, 0.0, -1.0], [1.0, 2.0, 3.0, 4.0], [f32::NAN; 4]];

/// Executes a plan on memory at these addresses.
///
/// # Safety
/// Each address has the elements of its tensor behind it, or is one that is refused.
unsafe fn execute(
    handle: &Handle,
    gpu: Gpu,
    (plan, uids): &(ExecutionPlan, [i64; 3]),
    addresses: [*mut c_void; 3],
) -> Result<(), Error> {
    let bound: Vec<_> = uids.iter().copied().zip(addresses).collect();
    let workspace = DeviceMemory::new(gpu, plan.workspace_size().unwrap()).unwrap();
    let pack = VariantPack::new(handle.backend(), &bound, workspace.as_ptr()).unwrap();
    // SAFETY: each address has the elements of its tensor, as this function requires.
    unsafe { plan.execute(handle, &pack) }
}

/// A product and its RELU in device memory, by an engine.
fn computed_by(engine: &str, handle: &Handle, gpu: Gpu) -> Result<Vec<f32>, Error> {
    let plan = plan_by(engine, handle, 2);
    let memory = BEFORE.map(|values| {
        let memory = DeviceMemory::new(gpu, 16).unwrap();
        memory.upload(0, &bytes(&values)).unwrap();
        memory
    });
    // SAFETY: each memory has the four elements of its tensor.
    unsafe { execute(handle, gpu, &plan, memory.each_ref().map(DeviceMemory::as_ptr)) }?;
    Ok(numbers(&memory[2], 0))
}

const COMPUTED: [f32; 4] = [1.0, 2.0, 0.0, 0.0];

#[test]
fn a_graph_runs_in_device_memory() {
    let Some((handle, gpu)) = device() else { return };
    assert_eq!(computed_by("VULKAN_ENGINE", &handle, gpu).unwrap(), COMPUTED);
}

#[test]
fn tensors_may_lie_anywhere_in_an_allocation() {
    let Some((handle, gpu)) = device() else { return };
    let memory = DeviceMemory::new(gpu, 4096).unwrap();
    memory.upload(0, &[0xff; 4096]).unwrap();
    let places = [48, 4096 - 16, 1232];
    for (place, values) in places.into_iter().zip(BEFORE) {
        memory.upload(place, &bytes(&values)).unwrap();
    }
    let addresses = places.map(|place| memory.as_ptr().wrapping_byte_add(place));
    // SAFETY: sixteen bytes of the allocation are behind each address.
    unsafe { execute(&handle, gpu, &plan_by("VULKAN_ENGINE", &handle, 2), addresses) }.unwrap();
    let mut all = vec![0; 4096];
    memory.download(0, &mut all).unwrap();
    let mut expected = vec![0xff; 4096];
    for (place, values) in places.into_iter().zip([BEFORE[0], BEFORE[1], COMPUTED]) {
        expected[place..place + 16].copy_from_slice(&bytes(&values));
    }
    assert!(all == expected, "bytes beside the tensors are written");
}

#[test]
fn addresses_that_cannot_be_used_are_named() {
    let Some((handle, gpu)) = device() else { return };
    let plan = plan_by("VULKAN_ENGINE", &handle, 4);
    let memory = DeviceMemory::new(gpu, 256).unwrap();
    memory.upload(0, &[0; 256]).unwrap();
    let start = memory.as_ptr();
    for (place, address, reason) in [
        (0, start.wrapping_byte_add(224), "32 bytes before the end of its memory"),
        (1, start.wrapping_byte_add(2), "is not aligned to 16 bytes"),
        (2, std::ptr::null_mut(), "is null"),
    ] {
        let mut addresses = [0, 64, 128].map(|offset| start.wrapping_byte_add(offset));
        addresses[place] = address;
        // SAFETY: the others have their elements, and this one is refused.
        let error = unsafe { execute(&handle, gpu, &plan, addresses) }.unwrap_err();
        assert!(
            matches!(error, Error::Status { status: Status::BadParam | Status::Plugin, .. }),
            "{error:?}"
        );
        let (text, uid) = (error.to_string(), plan.1[place]);
        assert!(text.contains(&format!("tensor {uid}")) && text.contains(reason), "{text}");
    }
    assert!(numbers(&memory, 128) == [0.0; 4], "a refused execution wrote its result");
}

/// The variable that lets CPU engines copy device memory.
const COPIES: &str = "HIPDNN_CPU_FALLBACK";

#[test]
fn cpu_engines_refuse_device_memory_or_copy_it() {
    let Some((handle, gpu)) = device() else { return };
    let copies = std::env::var_os(COPIES).is_some();
    for engine in ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"] {
        match computed_by(engine, &handle, gpu) {
            Ok(numbers) => assert!(copies && numbers == COMPUTED, "{engine}: {numbers:?}"),
            Err(error) => {
                assert!(
                    !copies && error.to_string().contains("is device memory, which"),
                    "{engine}: {error}"
                );
            }
        }
    }
    if !copies {
        // The variable is read when a plan is made: a process of its own has it.
        let mut own = std::process::Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", "cpu_engines_refuse_device_memory_or_copy_it"]).env(COPIES, "1");
        let done = own.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }
}
