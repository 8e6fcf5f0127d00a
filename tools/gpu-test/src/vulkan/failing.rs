//! `gpu-test --vulkan-failing LIBRARY WAY`: drivers that lack what the engine needs, and calls that fail, on the stand-in loader of
//! `c_tests/vulkan/standin.c`. In each way the reason is told, and the process goes on.
//!
//! `old` and `none`: without a usable device; `memory`: each call that can fail does so in turn; `vkQueueSubmit` and `vkWaitSemaphores`: the
//! device is lost in that call.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::ptr;

use hipdnn_plugin_sdk::function_table;
use hipdnn_plugin_sdk::graph::DataType;
use hipdnn_plugin_sdk::graph::operation::Matmul;

use super::{ENGINE, host};
use crate::Failure;
use crate::backend::Backend;
use crate::case::{Case, Order};
use crate::failing::DOES_NOT_APPLY;

function_table! {
    /// The stand-in's own functions.
    pub struct Standin: "the stand-in for Vulkan's loader", ["libvulkan.so.1"] {
        required {
            fn standin_fail(calls: c_int, result: c_int, name: *const c_char);
            fn standin_failed() -> *const c_char;
        }
        optional {}
    }
}

/// `VK_ERROR_OUT_OF_DEVICE_MEMORY` and `VK_ERROR_DEVICE_LOST`.
const OUT_OF_MEMORY: c_int = -2;
const LOST: c_int = -4;

/// The backend's status of a plugin that failed.
const PLUGIN_ERROR: &str = "status 14:";

/// More calls than a case has.
const MOST: c_int = 1000;

/// What opens a device and makes memory. After the first execution the first of these are done.
const FIRST: [&CStr; 10] = [
    c"vkCreateInstance",
    c"vkEnumeratePhysicalDevices",
    c"vkCreateDevice",
    c"vkCreateSemaphore",
    c"vkCreateCommandPool",
    c"vkAllocateCommandBuffers",
    c"vkCreateBuffer",
    c"vkBindBufferMemory",
    c"vkAllocateMemory",
    c"vkMapMemory",
];

/// Two products, with memory between them.
fn products() -> Case {
    let mut case = Case::new("two products");
    let mut operand = || case.input(DataType::Float, &[1, 16, 16], Order::ChannelsFirst, [-1.0, 1.0]);
    let [a, b, c] = [operand(), operand(), operand()];
    let between = case.between(DataType::Float, &[1, 16, 16], Order::ChannelsFirst);
    let out = case.output(DataType::Float, &[1, 16, 16], Order::ChannelsFirst);
    case.node(Matmul { a, b, c: between });
    case.node(Matmul { a: between, b: c, c: out });
    case
}

impl Standin {
    /// The name of the function that failed.
    fn name(&self) -> Option<String> {
        // SAFETY: the function has no arguments.
        let name = unsafe { (self.standin_failed)() };
        // SAFETY: the stand-in returns null or a constant.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }
}

/// Plans and computes once.
fn once(backend: &Backend, case: &Case) -> Result<(), Failure> {
    let expected = case.run_on_host(backend)?;
    let plan = backend.plan(ENGINE, &case.graph, &[])?;
    let mut memory = Vec::new();
    let got = case.run_in_host_memory(&plan, |size| {
        memory.push(vec![0_u8; size].into_boxed_slice());
        Ok(memory.last_mut().map_or(ptr::null_mut(), |bytes| bytes.as_mut_ptr().cast()))
    })?;
    case.compare(&expected, &got, &plan).map(drop)
}

/// Without a usable device the engine does not apply, the reason is told, and another engine computes.
fn refused(backend: &Backend, case: &Case, words: &str) -> Result<(), Failure> {
    match once(backend, case) {
        Err(failure) if failure.0.contains(DOES_NOT_APPLY) => {}
        Err(failure) => return Err(failure),
        Ok(()) => return Err(Failure("the engine computed".to_owned())),
    }
    let reason = backend.refusal(ENGINE, &case.graph)?.unwrap_or_default();
    if !reason.contains(words) {
        return Err(Failure(format!("the reason is {reason:?}, expected {words:?}")));
    }
    case.run_on_host(backend).map(drop)
}

/// What became of a graph when a call failed.
#[derive(Default)]
struct Outcomes {
    failed: u32,
    refused: u32,
    survived: u32,
}

impl Outcomes {
    fn add(&mut self, name: &str, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Ok(()) => self.survived += 1,
            // The engine does not apply while its device cannot be opened.
            Err(failure) if failure.0.contains(DOES_NOT_APPLY) => self.refused += 1,
            Err(failure) if failure.0.contains(PLUGIN_ERROR) && failure.0.contains(name) => self.failed += 1,
            Err(failure) => return Err(Failure(format!("{name}: {failure}"))),
        }
        Ok(())
    }
}

/// Makes each call fail in turn. Returns what became of the graph.
fn every_call(backend: &Backend, case: &Case, standin: &Standin) -> Result<String, Failure> {
    let mut outcomes = Outcomes::default();
    // The device stays open once it is, so these come before any success.
    for name in FIRST {
        // SAFETY: the name is a constant.
        unsafe { (standin.standin_fail)(0, OUT_OF_MEMORY, name.as_ptr()) };
        let result = once(backend, case);
        if standin.name().is_none() {
            return Err(Failure(format!("{} was not called", name.to_string_lossy())));
        }
        outcomes.add(&name.to_string_lossy(), result)?;
    }
    for number in 0..MOST {
        // What failed once does no harm to what follows.
        // SAFETY: the stand-in keeps no pointer but the name, which is null.
        unsafe { (standin.standin_fail)(-1, 0, ptr::null()) };
        once(backend, case).map_err(|failure| Failure(format!("after call {number}: {failure}")))?;
        // SAFETY: the name is null, which stands for any function.
        unsafe { (standin.standin_fail)(number, OUT_OF_MEMORY, ptr::null()) };
        let result = once(backend, case);
        let Some(name) = standin.name() else {
            result?;
            let Outcomes { failed, refused, survived } = outcomes;
            return Ok(format!(
                "{} functions and {number} calls failed: {failed} executions failed, {refused} plans were refused, {survived} were computed all the same",
                FIRST.len()
            ));
        };
        outcomes.add(&name, result)?;
    }
    Err(Failure(format!("{MOST} calls failed, and none was the last")))
}

/// Loses the device in a call. It stays lost, and the host computes on.
fn lost(backend: &Backend, case: &Case, standin: &Standin, function: &str) -> Result<(), Failure> {
    once(backend, case)?;
    let name = CString::new(function).map_err(|_| Failure("a name with a NUL".to_owned()))?;
    let name = Box::leak(name.into_boxed_c_str());
    // SAFETY: the name is never freed.
    unsafe { (standin.standin_fail)(0, LOST, name.as_ptr()) };
    let is_told = |result: Result<(), Failure>| match result {
        Err(failure) if failure.0.contains("the device is lost") => Ok(()),
        other => Err(Failure(format!("{other:?}, expected that the device is lost"))),
    };
    is_told(once(backend, case))?;
    if standin.name().as_deref() != Some(function) {
        return Err(Failure(format!("{function} was not called")));
    }
    let reason = backend.refusal(ENGINE, &case.graph)?.unwrap_or_default();
    is_told(Err(Failure(reason)))?;
    case.run_on_host(backend).map(drop)
}

/// Checks a way to fail. Returns how many checks failed, which is none.
///
/// # Errors
/// The check that failed.
pub fn run(library: &Path, way: &str) -> Result<usize, Failure> {
    let backend = Backend::open(library)?;
    let case = host::graph();
    let standin = || Standin::load_from(&["libvulkan.so.1"]).map_err(|error| Failure(error.to_string()));
    match way {
        "old" => refused(&backend, &case, "its driver supports Vulkan 1.1, expected 1.2 or newer")?,
        "none" => refused(&backend, &case, "the loader found no driver")?,
        "memory" => println!("{}", every_call(&backend, &products(), &standin()?)?),
        function => lost(&backend, &case, &standin()?, function)?,
    }
    println!("{way}: told, and the process goes on; 1 passed");
    Ok(0)
}
