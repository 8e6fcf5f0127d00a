use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_uint};
use std::ptr::without_provenance_mut;

use super::*;
use crate::hip::device::testing::several_devices;
use crate::hip::{HIP_ERROR_INVALID_VALUE, HIP_SUCCESS, hipError_t, hipEvent_t};

thread_local! {
    /// The HIP calls of this thread's test.
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<usize> = const { Cell::new(0x1000) };
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
    /// Whether the device has done all work.
    static DONE: Cell<bool> = const { Cell::new(false) };
    /// The function that fails.
    static FAILING: Cell<&'static str> = const { Cell::new("") };
}

fn answer(name: &'static str, argument: *mut c_void, stream: hipStream_t) -> hipError_t {
    CALLS.with_borrow_mut(|calls| {
        calls.push(match stream.addr() {
            0 => format!("{name} {:x}", argument.addr()),
            stream => format!("{name} {:x} on {stream}", argument.addr()),
        });
    });
    if FAILING.get() == name { HIP_ERROR_INVALID_VALUE } else { HIP_SUCCESS }
}

fn made() -> *mut c_void {
    let address = NEXT.get();
    NEXT.set(address + 0x1000);
    without_provenance_mut(address)
}

/// # Safety
/// `pointer` is writable.
unsafe extern "C" fn malloc(pointer: *mut *mut c_void, _: usize) -> hipError_t {
    let memory = made();
    // SAFETY: only the plan's memory calls this function, with the address of a local.
    unsafe { pointer.write(memory) };
    answer("malloc", memory, null_mut())
}

extern "C" fn free(pointer: *mut c_void) -> hipError_t {
    answer("free", pointer, null_mut())
}

/// # Safety
/// `event` is writable.
unsafe extern "C" fn create(event: *mut hipEvent_t, flags: c_uint) -> hipError_t {
    assert_eq!(flags, 2);
    let it = made();
    // SAFETY: only the plan's memory calls this function, with the address of a local.
    unsafe { event.write(it) };
    answer("create", it, null_mut())
}

extern "C" fn destroy(event: hipEvent_t) -> hipError_t {
    answer("destroy", event, null_mut())
}

extern "C" fn record(event: hipEvent_t, stream: hipStream_t) -> hipError_t {
    answer("record", event, stream)
}

extern "C" fn query(event: hipEvent_t) -> hipError_t {
    answer("query", event, null_mut());
    // hipErrorNotReady
    if DONE.get() { HIP_SUCCESS } else { 600 }
}

extern "C" fn wait(stream: hipStream_t, event: hipEvent_t, _: c_uint) -> hipError_t {
    answer("wait", event, stream)
}

/// # Safety
/// `status` is writable.
unsafe extern "C" fn is_capturing(_: hipStream_t, status: *mut c_int) -> hipError_t {
    // SAFETY: only the plan's memory calls this function, with the address of a local.
    unsafe { status.write(c_int::from(CAPTURING.get())) };
    HIP_SUCCESS
}

/// # Safety
/// `mode` is readable and writable.
unsafe extern "C" fn exchange(mode: *mut c_int) -> hipError_t {
    // SAFETY: this function requires that `mode` is readable and writable.
    let asked = unsafe { mode.replace(0) };
    answer("mode", without_provenance_mut(asked as usize), null_mut())
}

fn memory(size: usize) -> PlanMemory {
    let mut hip = several_devices();
    hip.hipMalloc = malloc;
    hip.hipFree = free;
    hip.hipEventCreateWithFlags = Some(create);
    hip.hipEventDestroy = destroy;
    hip.hipEventRecord = record;
    hip.hipEventQuery = query;
    hip.hipStreamWaitEvent = wait;
    hip.hipStreamIsCapturing = Some(is_capturing);
    hip.hipThreadExchangeStreamCaptureMode = Some(exchange);
    NEXT.set(0x1000);
    FAILING.set("");
    CAPTURING.set(false);
    DONE.set(false);
    CALLS.take();
    PlanMemory::new(Gpu::Hip(Box::leak(Box::new(hip))), Workspace::new(0, size).unwrap())
}

fn stream(number: usize) -> hipStream_t {
    without_provenance_mut(number)
}

/// Runs without a workspace on a stream and returns the HIP calls.
fn run(memory: &PlanMemory, number: usize) -> Vec<String> {
    memory
        .run(null_mut(), stream(number), |[_, step]| {
            answer("work", step, null_mut());
            Ok(())
        })
        .unwrap();
    CALLS.take()
}

#[test]
fn small_workspaces_are_the_plans() {
    let memory = memory(64);
    assert_eq!(memory.workspace_size(), 0);
    memory.make_first().unwrap();
    assert_eq!(CALLS.take(), ["mode 2", "malloc 1000", "create 2000", "mode 0"]);
    // The size of the caller's workspace is not known.
    memory
        .run(stream(0x7000), stream(5), |[_, step]| {
            assert_eq!(step.addr(), 0x1000);
            Ok(())
        })
        .unwrap();
    assert_eq!(CALLS.take(), ["record 2000 on 5"]);
    assert_eq!(run(&memory, 5), ["wait 2000 on 5", "work 1000", "record 2000 on 5"]);
    drop(memory);
    assert_eq!(CALLS.take(), ["destroy 2000", "free 1000"]);
}

#[test]
fn a_buffer_whose_work_is_done_serves_another_stream() {
    let memory = memory(64);
    assert_eq!(run(&memory, 1).len(), 6);
    DONE.set(true);
    let asked = ["mode 2", "query 2000", "mode 0"];
    assert_eq!(run(&memory, 2), [&asked[..], &["wait 2000 on 2", "work 1000", "record 2000 on 2"]].concat());
    DONE.set(false);
    let made = ["mode 2", "malloc 3000", "create 4000", "mode 0", "work 3000", "record 4000 on 1"];
    assert_eq!(run(&memory, 1), [&asked[..], &made].concat());
}

/// The calls without queries and without changes of the capture mode.
fn without_modes(mut calls: Vec<String>) -> Vec<String> {
    calls.retain(|call| !call.starts_with("mode ") && !call.starts_with("query "));
    calls
}

#[test]
fn each_stream_has_its_buffer_until_there_are_many() {
    let memory = memory(64);
    let calls = |number| without_modes(run(&memory, number));
    assert_eq!(calls(1), ["malloc 1000", "create 2000", "work 1000", "record 2000 on 1"]);
    assert_eq!(calls(2), ["malloc 3000", "create 4000", "work 3000", "record 4000 on 2"]);
    assert_eq!(calls(1), ["wait 2000 on 1", "work 1000", "record 2000 on 1"]);
    for number in 3..=MOST {
        assert_eq!(calls(number).len(), 4);
    }
    // The next stream waits on the device for the work that used the buffer.
    let calls = calls(99);
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(calls[0].starts_with("wait ") && calls[0].ends_with(" on 99"), "{calls:?}");
}

/// Another thread's capture, which queries and allocations would end.
#[test]
fn nothing_ends_the_capture_of_another_thread() {
    let memory = memory(64);
    for number in [1, 2, 1] {
        let mut relaxed = false;
        for call in run(&memory, number) {
            match call.as_str() {
                "mode 2" => relaxed = true,
                "mode 0" => relaxed = false,
                call => assert!(
                    relaxed || !["malloc", "create", "query"].iter().any(|word| call.starts_with(word)),
                    "{call}"
                ),
            }
        }
        assert!(!relaxed);
    }
}

#[test]
fn executions_at_the_same_moment_have_a_buffer_each() {
    let memory = memory(64);
    memory
        .run(null_mut(), stream(1), |[_, outer]| {
            memory.run(null_mut(), stream(1), |[_, inner]| {
                assert_ne!(outer, inner);
                Ok(())
            })
        })
        .unwrap();
    CALLS.take();
    // Work queued before a failure is still waited for.
    let error = memory.run(null_mut(), stream(1), |_| Err(PluginError::internal("it"))).unwrap_err();
    assert_eq!(error.message(), "it");
    let calls = CALLS.take();
    assert!(calls[0].starts_with("wait") && calls[1].starts_with("record"), "{calls:?}");
}

#[test]
fn a_captured_graph_keeps_its_buffer() {
    let memory = memory(64);
    memory.make_first().unwrap();
    CALLS.take();
    CAPTURING.set(true);
    assert_eq!(run(&memory, 1), ["work 1000"]);
    assert_eq!(run(&memory, 1), ["mode 2", "malloc 3000", "create 4000", "mode 0", "work 3000"]);
    CAPTURING.set(false);
    assert_eq!(
        without_modes(run(&memory, 1)),
        ["malloc 5000", "create 6000", "work 5000", "record 6000 on 1"]
    );
    CAPTURING.set(true);
    // A buffer used outside must not be waited for in a capture.
    assert_eq!(run(&memory, 1), ["mode 2", "malloc 7000", "create 8000", "mode 0", "work 7000"]);
    drop(memory);
    assert_eq!(CALLS.take().len(), 8);
}

#[test]
fn the_callers_workspace_is_used_where_one_was_asked_for() {
    let memory = memory(1 << 20);
    assert_eq!(memory.workspace_size(), (1 << 20) + 255);
    memory.make_first().unwrap();
    memory
        .run(stream(0x7001), stream(1), |places| {
            assert_eq!(places.map(|place| place.addr()), [0x7100; 2]);
            Ok(())
        })
        .unwrap();
    assert!(CALLS.take().is_empty());
    assert_eq!(without_modes(run(&memory, 1)).len(), 4);
}

#[test]
fn large_workspaces_must_be_passed_by_the_caller() {
    let memory = memory(LARGE);
    let error = memory.run(null_mut(), null_mut(), |_| panic!("it runs")).unwrap_err();
    for part in
        [&(LARGE + 255).to_string(), "EXECUTION_PLAN_WORKSPACE_SIZE", "VARIANT_PACK_WORKSPACE", "is null"]
    {
        assert!(error.message().contains(part), "{error}");
    }
    assert!(CALLS.take().is_empty());
}

#[test]
fn failures_leave_nothing_behind() {
    for (failing, freed) in [("malloc", 0), ("create", 1), ("wait", 2), ("record", 2)] {
        let memory = memory(64);
        FAILING.set(failing);
        let result = memory.run(null_mut(), stream(1), |_| Ok(()));
        assert_eq!(result.is_err(), failing != "wait", "{failing}");
        let result = memory.run(null_mut(), stream(1), |_| Ok(()));
        assert!(result.is_err(), "{failing}");
        FAILING.set("");
        drop(memory);
        let calls = CALLS.take();
        let count = |name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
        let (mallocs, frees) = (count("malloc"), count("free"));
        assert_eq!(frees, if failing == "malloc" { 0 } else { mallocs }, "{calls:?}");
        assert!(frees >= freed.min(1), "{failing}: {calls:?}");
    }
}
