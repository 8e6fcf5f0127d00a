//! `gpu-test --vulkan-bench LIBRARY [WORD...]`: times of `VULKAN_ENGINE` in its device's memory, beside those of NVIDIA's libraries on
//! the same GPU where they are there. Each line is a row of `benches/results/vulkan_h200.csv` after its date, machine and command. Where
//! both compute a graph, their results are compared.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;
use std::time::{Duration, Instant};

use hipdnn_plugin_sdk::function_table;
use hipdnn_plugin_sdk::gpu::Gpu;
use hipdnn_plugin_sdk::graph::{DataType, Tensor};

use super::ENGINE;
use super::subjects::{Subject, subjects};
use crate::backend::{Backend, Plan};
use crate::memory::{pack, unpack};
use crate::{Failure, is_wanted};

/// How long each plan is measured, after one execution.
const TIME: Duration = Duration::from_millis(80);

/// Different values of a tensor, which repeat.
const PATTERN: usize = 8191;

function_table! {
    /// Functions of the plugin for any GPU.
    #[expect(non_snake_case, reason = "the names of the C interface")]
    pub struct Functions: "the engine on Vulkan", ["libhipdnn_vulkan_plugin.so"] {
        required {
            fn hipdnnVulkanAllocate_ext(device: c_int, bytes: usize, memory: *mut *mut c_void) -> c_int;
            fn hipdnnVulkanFree_ext(device: c_int, memory: *mut c_void) -> c_int;
            fn hipdnnVulkanCopyToDevice_ext(
                device: c_int,
                to: *mut c_void,
                from: *const c_void,
                bytes: usize
            ) -> c_int;
            fn hipdnnVulkanCopyToHost_ext(
                device: c_int,
                to: *mut c_void,
                from: *const c_void,
                bytes: usize
            ) -> c_int;
            fn hipdnnVulkanCopy_ext(device: c_int, to: *mut c_void, from: *const c_void, bytes: usize) -> c_int;
            fn hipdnnVulkanSynchronize_ext(device: c_int) -> c_int;
        }
        optional {}
    }
}

/// Where a graph is computed.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// On the first Vulkan device.
    Vulkan(&'a Functions),
    /// Through CUDA.
    Cuda(Gpu),
}

fn check(status: c_int) -> Result<(), Failure> {
    if status == 0 { Ok(()) } else { Err(Failure(format!("a Vulkan function's status is {status}"))) }
}

impl Place<'_> {
    fn allocate(self, bytes: usize) -> Result<*mut c_void, Failure> {
        match self {
            Self::Cuda(gpu) => Ok(gpu.allocate(bytes)?),
            Self::Vulkan(functions) => {
                let mut memory = ptr::null_mut();
                // SAFETY: the function writes only to the local `memory`.
                check(unsafe { (functions.hipdnnVulkanAllocate_ext)(0, bytes.max(16), &mut memory) })?;
                Ok(memory)
            }
        }
    }

    /// # Safety
    /// The memory is this place's and has as many bytes.
    unsafe fn upload(self, to: *mut c_void, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            // SAFETY: the memory has as many bytes, as this function requires.
            Self::Cuda(gpu) => Ok(unsafe { gpu.upload(to, bytes) }?),
            // SAFETY: the memory has as many bytes, as this function requires.
            Self::Vulkan(functions) => check(unsafe {
                (functions.hipdnnVulkanCopyToDevice_ext)(0, to, bytes.as_ptr().cast(), bytes.len())
            }),
        }
    }

    /// # Safety
    /// The memory is this place's and has as many bytes.
    unsafe fn download(self, bytes: &mut [u8], from: *const c_void) -> Result<(), Failure> {
        match self {
            // SAFETY: the memory has as many bytes, as this function requires.
            Self::Cuda(gpu) => Ok(unsafe { gpu.download(bytes, from) }?),
            // SAFETY: the memory has as many bytes, as this function requires.
            Self::Vulkan(functions) => check(unsafe {
                (functions.hipdnnVulkanCopyToHost_ext)(0, bytes.as_mut_ptr().cast(), from, bytes.len())
            }),
        }
    }

    pub(super) fn synchronize(self) -> Result<(), Failure> {
        match self {
            Self::Cuda(gpu) => Ok(gpu.synchronize()?),
            // SAFETY: the function takes a number.
            Self::Vulkan(functions) => check(unsafe { (functions.hipdnnVulkanSynchronize_ext)(0) }),
        }
    }

    /// # Safety
    /// The memory is from this place and not freed.
    unsafe fn free(self, memory: *mut c_void) {
        match self {
            // SAFETY: the memory is this place's and not freed, as this function requires.
            Self::Cuda(gpu) => unsafe { gpu.free(memory) },
            Self::Vulkan(functions) => {
                // SAFETY: the memory is this place's and not freed, as this function requires.
                let _ = unsafe { (functions.hipdnnVulkanFree_ext)(0, memory) };
            }
        }
    }
}

/// Memory of a place.
pub(super) struct Memory<'a> {
    place: Place<'a>,
    pub(super) pointer: *mut c_void,
    pub(super) bytes: usize,
}

impl<'a> Memory<'a> {
    pub(super) fn new(place: Place<'a>, bytes: usize) -> Result<Self, Failure> {
        Ok(Self { place, pointer: place.allocate(bytes)?, bytes })
    }

    pub(super) fn with(place: Place<'a>, bytes: &[u8]) -> Result<Self, Failure> {
        let memory = Self::new(place, bytes.len())?;
        // SAFETY: the memory is the place's and has as many bytes.
        unsafe { place.upload(memory.pointer, bytes) }?;
        Ok(memory)
    }

    pub(super) fn content(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; self.bytes];
        // SAFETY: the memory is the place's and has as many bytes.
        unsafe { self.place.download(&mut bytes, self.pointer) }?;
        Ok(bytes)
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        // SAFETY: the memory is the place's, this value owns it, and who drops it waited.
        unsafe { self.place.free(self.pointer) };
    }
}

/// Small values that repeat; sums stay small.
pub(super) fn content(tensor: &Tensor) -> Result<Vec<u8>, Failure> {
    let count = tensor.dims.iter().product::<i64>() as usize;
    let mut state = tensor.uid as u32;
    let values: Vec<f32> = (0..PATTERN.min(count))
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (state >> 24) as f32 - 127.5;
            if tensor.data_type == DataType::Int8 { (number / 40.0).round() } else { number / 128.0 }
        })
        .collect();
    let pattern = pack(tensor.data_type, &values)?;
    let bytes = pattern.len() / values.len().max(1) * count;
    let mut all = Vec::with_capacity(bytes);
    while all.len() < bytes {
        all.extend(pattern.iter().take(bytes - all.len()));
    }
    Ok(all)
}

/// Milliseconds of an execution, and the result.
fn measure(place: Place<'_>, plan: &Plan<'_>, subject: &Subject) -> Result<(f64, Vec<f32>), Failure> {
    let mut memory = Vec::new();
    for tensor in subject.case.bound() {
        memory.push((tensor, Memory::with(place, &content(tensor)?)?));
    }
    let workspace = Memory::new(place, plan.workspace_size.max(16))?;
    let tensors: Vec<(i64, *mut c_void)> =
        memory.iter().map(|(tensor, memory)| (tensor.uid, memory.pointer)).collect();
    let run = |times: u32| {
        let start = Instant::now();
        for _ in 0..times {
            // SAFETY: every tensor has its bytes and the workspace its size; all live until the device is done.
            unsafe { plan.execute(&tensors, workspace.pointer) }?;
        }
        place.synchronize()?;
        Ok::<Duration, Failure>(start.elapsed())
    };
    run(2)?;
    let one = run(3)? / 3;
    let times = (TIME.as_nanos() / one.as_nanos().max(1)).clamp(3, 2000) as u32;
    let milliseconds = run(times)?.as_secs_f64() * 1e3 / f64::from(times);
    let result = memory.iter().find(|(tensor, _)| tensor.uid == subject.result);
    let (tensor, memory) = result.ok_or_else(|| Failure("a graph without its result".to_owned()))?;
    Ok((milliseconds, unpack(tensor.data_type, &memory.content()?)?))
}

/// The largest difference, relative to the largest value.
fn difference(one: &[f32], other: &[f32]) -> f32 {
    let largest = other.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let apart = one.iter().zip(other).map(|(x, y)| (x - y).abs());
    apart.fold(0.0_f32, |most, by| if by > most || by.is_nan() { by } else { most }) / largest.max(1e-30)
}

/// Measures all graphs. Returns how many results differ.
///
/// # Errors
/// When the library or Vulkan cannot be opened.
pub fn run(library: &Path, words: &[String]) -> Result<usize, Failure> {
    let backend = Backend::open(library)?;
    let plugin = library.with_file_name("hipdnn_plugins/engines/libhipdnn_vulkan_plugin.so");
    let plugin = plugin.to_str().ok_or_else(|| Failure("a path that is not UTF-8".to_owned()))?;
    let functions = Functions::load_from(&[plugin]).map_err(|error| Failure(error.to_string()))?;
    let gpu = Gpu::find().ok().filter(|gpu| matches!(gpu, Gpu::Cuda(_)));
    let mut wrong = 0;
    println!("what,VULKAN_ENGINE ms,rate,unit,peer,peer ms,ratio,difference");
    for subject in subjects().into_iter().filter(|subject| is_wanted(&subject.case.name, words)) {
        let name = &subject.case.name;
        let own = backend.plan(ENGINE, &subject.case.graph, &[]).and_then(|plan| {
            let limit = subject.case.limit(subject.result, &plan)?;
            Ok((measure(Place::Vulkan(&functions), &plan, &subject)?, limit))
        });
        let ((time, result), limit) = match own {
            Ok(own) => own,
            Err(failure) => {
                let reason = backend.refusal(ENGINE, &subject.case.graph)?.unwrap_or(failure.0);
                println!("{name},{}", reason.replace(',', ";"));
                wrong += 1;
                continue;
            }
        };
        let rate = subject.work / time / 1e9;
        let peer = gpu.map(|gpu| {
            let plan = backend.plan(subject.peer, &subject.case.graph, &[])?;
            let limit = subject.case.limit(subject.result, &plan)?;
            Ok::<_, Failure>((measure(Place::Cuda(gpu), &plan, &subject)?, limit))
        });
        let compared = match peer {
            Some(Ok(((other, expected), of_peer))) => {
                let apart = difference(&result, &expected);
                // Values repeat with signs in turn: the largest sum is far below those on the way to it.
                let tolerance = (limit + of_peer).max(1e-3);
                wrong += usize::from(apart.is_nan() || f64::from(apart) > tolerance);
                format!("{other:.4},{:.2},{apart:.1e}", other / time)
            }
            Some(Err(failure)) => format!("{},,", failure.0.replace(',', ";")),
            None => ",,".to_owned(),
        };
        println!("{name},{time:.4},{rate:.2},{},{},{compared}", subject.unit, subject.peer);
    }
    Ok(wrong)
}
