//! Kernels called by PyTorch: ours if its plan is known to be faster, else PyTorch's own.

use std::cell::Cell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::arguments::{Arguments, CPU, CUDA, Kind, free, pointer};
use super::budget;
use super::choices;
use super::clock::{self, Clock};
use super::events::Choice;
use super::functions::{Functions, Kernel, functions};
use super::keys;
use super::layouts;
use super::passing;
use super::planning::{self, Class, Op};
use super::steps;
use super::table::{self, Entry};
use crate::device::{Place, Stream};
use crate::session::Session;

/// Whether to compute everything that engines support here, faster or not.
static ALWAYS: AtomicBool = AtomicBool::new(false);

/// The fewest elements of a GPU tensor for a call to be computed here: smaller calls are bound by the host, and PyTorch's kernels take
/// less of its time.
const LEAST_ON_GPU: i64 = 1 << 20;

/// A dispatch key, by its name and number.
pub type NamedKey = (String, u16);

/// PyTorch's keys and version.
pub struct About {
    /// The key of all operations, and that of those that are faster on GPUs.
    pub keys: [NamedKey; 2],
    /// The number of the tracing key.
    pub tracer: u16,
    /// That of modes in Python.
    pub python: u16,
    /// The version of its interface.
    pub version: u64,
    pub is_rocm: bool,
}

/// Whether an operation has a kernel for threads on GPUs, or for other threads.
pub fn is_registered(op: &Op, on_gpus: bool) -> bool {
    op.class.is_for_gpus() || !on_gpus
}

/// Registers the kernels under their dispatch keys.
pub fn register(
    operations: &[(&'static Op, Kernel)],
    session: Arc<Session>,
    about: &About,
) -> Result<(), String> {
    let f = functions()?;
    let [all, gpu] = &about.keys;
    keys::ALL.set(all.1);
    keys::GPU.set(gpu.1);
    keys::TRACER.set(about.tracer);
    keys::PYTHON.set(about.python);
    passing::open(about.version);
    if !planning::open(session, about.is_rocm) {
        return Ok(());
    }
    for ((name, _), on_gpu) in [(all, false), (gpu, true)] {
        let key = CString::new(name.as_str()).map_err(|_| format!("{name:?} is not a dispatch key"))?;
        let mut library = std::ptr::null_mut();
        // SAFETY: the strings end with a NUL, the file's lives as long as the process, and the function writes only to the local
        // `library`.
        let status =
            unsafe { (f.library)(c"aten".as_ptr(), key.as_ptr(), c"hipdnn".as_ptr(), 0, &raw mut library) };
        if status != 0 {
            return Err(format!("PyTorch takes no kernels for {name}: {}", f.error()));
        }
        // The registration lasts as long as the process, so the library is never deleted.
        for (op, kernel) in operations.iter().filter(|(op, _)| is_registered(op, on_gpu)) {
            let name = op.name.to_bytes_with_nul().strip_prefix(b"aten::").unwrap_or_default();
            // SAFETY: the library is alive, the name ends with a NUL, and the kernel reads arguments as in the schema.
            if unsafe { (f.register)(library, name.as_ptr().cast(), *kernel, about.version) } != 0 {
                return Err(format!("PyTorch does not take the kernel of {:?}: {}", op.name, f.error()));
            }
        }
    }
    Ok(())
}

/// Sets whether to compute everything that engines support here, or only what is faster.
pub fn always(is_set: bool) {
    ALWAYS.store(is_set, Ordering::Relaxed);
}

/// Whether everything that engines support is computed here.
pub fn is_always() -> bool {
    ALWAYS.load(Ordering::Relaxed)
}

thread_local! {
    /// The thread's buffer for arguments.
    static READ: Cell<Option<Box<Arguments>>> = const { Cell::new(None) };
}

/// Handles a call from PyTorch.
///
/// # Safety
/// The stack has a value of each of the operation's kinds, and room for its results.
pub unsafe fn enter(op: &'static Op, stack: *mut u64) {
    let Ok(f) = functions() else { return };
    let mut arguments = READ.take().unwrap_or_default();
    // SAFETY: the stack has a value of each kind, as this function requires.
    let tried = catch_unwind(AssertUnwindSafe(|| unsafe { attempt(op, f, stack, &mut arguments) }));
    READ.set(Some(arguments));
    let timed = match tried {
        Ok(Attempt::Done) => return,
        Ok(Attempt::Former(timed)) => timed,
        // After a panic, which is a bug here, PyTorch computes the call. The arguments were not consumed.
        Err(_) => None,
    };
    // SAFETY: the arguments are as passed by PyTorch.
    unsafe { former(op, f, stack) };
    if let Some((entry, clock)) = timed {
        clock.stop(&entry, Choice::Theirs);
    }
}

enum Attempt {
    Done,
    /// PyTorch's kernel should compute; the time may count for an entry.
    Former(Option<(Arc<Entry>, Clock)>),
}

/// # Safety
/// The stack has a value of each of the operation's kinds, and room for its results.
unsafe fn attempt(op: &'static Op, f: &Functions, stack: *mut u64, arguments: &mut Arguments) -> Attempt {
    // PyTorch traces some operations, such as convolution, by what its own kernels call.
    if keys::TRACER.is_active(f) || keys::has_ended(f) || op.is_left.load(Ordering::Relaxed) {
        return Attempt::Former(None);
    }
    // SAFETY: the stack has a value of each kind, as this function requires.
    if unsafe { is_pytorchs(op, f, stack) } {
        return Attempt::Former(None);
    }
    // SAFETY: the stack has a value of each kind, as this function requires.
    if !unsafe { arguments.read(f, stack, op.kinds) } {
        return Attempt::Former(None);
    }
    // The words have types and devices; the address of its name identifies the operation. No address has the highest bit.
    arguments.words.push(op.name.as_ptr().addr() as i64 | i64::from(planning::is_invariant()) << 63);
    let device = arguments.device.unwrap_or_default();
    arguments.words.push(i64::from(device.0) << 32 | i64::from(device.1));
    let Some(entry) = find(op, f, arguments, device) else { return Attempt::Former(None) };
    if device.0 != CPU && !wants_all(f) {
        keys::gains(f, entry.gain());
    }
    let leaves = device.0 == CPU && !wants_all(f) && steps::note(f, &entry);
    let Some(Ok(plan)) = entry.planned().map(|planned| &planned.plan).filter(|_| !leaves) else {
        entry.passed_on.fetch_add(1, Ordering::Relaxed);
        return Attempt::Former(None);
    };
    let (by, clock) = choose(&entry, f, device);
    if by == Choice::Theirs {
        entry.passed_on.fetch_add(1, Ordering::Relaxed);
        return Attempt::Former(clock.map(|clock| (entry, clock)));
    }
    // SAFETY: the tensors are alive, and match those that the plan was made for: their words are equal.
    let ran = unsafe { plan.run(f, &arguments.tensors, arguments.momentum) };
    let Ok(answers) = ran else {
        entry.choose(Choice::Theirs);
        entry.passed_on.fetch_add(1, Ordering::Relaxed);
        return Attempt::Former(None);
    };
    // SAFETY: the kernel owns the arguments, and the stack has room for the results.
    unsafe {
        free(f, stack, op.kinds, plan.same());
        for (at, answer) in answers.iter().enumerate() {
            stack.add(at).write(*answer);
        }
    }
    if let Some(clock) = clock {
        clock.stop(&entry, Choice::Ours);
    }
    entry.routed.fetch_add(1, Ordering::Relaxed);
    Attempt::Done
}

/// Whether PyTorch computes a call, without reading its arguments: on a CPU, operations that it computes faster there; on a GPU, calls
/// with few elements, and operations that it computes as fast, such as matmul and convolution, for which both call the vendor's
/// libraries. The thread's next such calls do not come here at all.
/// `enable(timed=False)` and deterministic algorithms override this.
///
/// # Safety
/// The stack has a value of each of the operation's kinds.
unsafe fn is_pytorchs(op: &Op, f: &Functions, stack: *const u64) -> bool {
    if op.kinds.first() != Some(&Kind::Tensor) {
        return false;
    }
    let (mut is_defined, mut device, mut elements) = (false, -1, 0);
    // SAFETY: the first value is a tensor's handle, and the functions write only to the locals `is_defined`, `device` and `elements`. An
    // undefined tensor is not queried further.
    unsafe {
        let tensor = pointer(stack.read());
        let is_known = (f.is_defined)(tensor, &raw mut is_defined) == 0
            && is_defined
            && (f.device_type)(tensor, &raw mut device) == 0
            && (device != CUDA || (f.elements)(tensor, &raw mut elements) == 0);
        if !is_known || device != CPU && device != CUDA {
            return false;
        }
    }
    let is_timed = !wants_all(f);
    if device == CPU {
        keys::change(f, false);
        return is_timed && op.class == Class::FasterOnGpus;
    }
    keys::change(f, is_timed);
    let is_left = is_timed && (!op.class.is_for_gpus() || elements < LEAST_ON_GPU);
    if is_left {
        keys::gains(f, Some(0));
    }
    is_left
}

/// The entry of a call, planned if possible now. None for a new call while its stream is being captured.
fn find(op: &'static Op, f: &Functions, arguments: &Arguments, device: (i32, i32)) -> Option<Arc<Entry>> {
    let is_aside = device.0 != CPU && !wants_all(f);
    // Planning allocates and measures, which would end a capture. Calls made before the capture have their plans.
    let make = || (!is_captured(f, device)).then(|| new_entry(op, f, arguments, device));
    let entry = table::find(&arguments.words, make)?;
    // A call that an earlier process left to PyTorch needs no plan.
    let is_left = entry.is_stored && entry.choice() == Choice::Theirs && !wants_all(f);
    if is_left || entry.planned().is_some() || is_captured(f, device) {
        return Some(entry);
    }
    if wants_all(f) {
        planning::plan(op, f, &arguments.values(), &entry);
    } else if !is_aside {
        // What never recurs is not worth a plan, and the first steps not that many.
        let is_known = entry.is_stored;
        if (entry.recurs() || is_known) && budget::allows() {
            let start = Instant::now();
            planning::plan(op, f, &arguments.values(), &entry);
            budget::spend(start.elapsed());
        }
    } else if entry.take() {
        planning::plan_aside(op, f, arguments.values(), Arc::clone(&entry));
    }
    Some(entry)
}

/// Whether times are ignored.
fn wants_all(f: &Functions) -> bool {
    ALWAYS.load(Ordering::Relaxed) || f.must_not_vary()
}

/// The entry of a call that is new in this process.
fn new_entry(op: &Op, f: &Functions, arguments: &Arguments, device: (i32, i32)) -> Entry {
    let words = arguments.words.get(..arguments.words.len().saturating_sub(2)).unwrap_or_default();
    let known = if wants_all(f) { None } else { choices::find(f, op.name, words, device) };
    Entry::new(op.name, &arguments.words, known)
}

/// The place and stream of a call.
fn place(f: &Functions, device: (i32, i32)) -> Option<(Place, Stream)> {
    if device.0 == CPU {
        return Some((Place::Host, Stream::default()));
    }
    let mut stream = std::ptr::null_mut();
    // SAFETY: the function writes only to the local `stream`.
    if unsafe { (f.stream?)(device.1, &raw mut stream) } != 0 {
        return None;
    }
    Some((planning::gpu(device.1), Stream::new(stream.addr())))
}

/// Whether a device's current stream is being captured.
fn is_captured(f: &Functions, device: (i32, i32)) -> bool {
    // SAFETY: the stream is the one that PyTorch has just said to be current; it never destroys those of its pools.
    place(f, device).is_none_or(|(place, stream)| unsafe { stream.is_captured(place) })
}

/// Chooses who computes a call, and starts a clock if it is timed.
fn choose(entry: &Entry, f: &Functions, device: (i32, i32)) -> (Choice, Option<Clock>) {
    match entry.choice() {
        _ if ALWAYS.load(Ordering::Relaxed) => (Choice::Ours, None),
        _ if entry.is_stored && f.must_not_vary() => (Choice::Ours, None),
        Choice::Open if f.must_not_vary() || is_captured(f, device) => (Choice::Ours, None),
        Choice::Open => {
            clock::read(entry);
            match (entry.choice(), place(f, device)) {
                (Choice::Open, Some((place, stream))) => {
                    if place == Place::Host && !budget::allows() {
                        return (Choice::Theirs, None);
                    }
                    let (by, counts) = entry.turn();
                    (by, Clock::start(place, stream, counts))
                }
                (choice, _) => (choice, None),
            }
        }
        choice => (choice, None),
    }
}

/// Calls PyTorch's own kernel, and raises its error.
///
/// # Safety
/// The stack has a value of each of the operation's kinds, and room for its results.
unsafe fn former(op: &Op, f: &Functions, stack: *mut u64) {
    if let Some(direct) = op.direct.get(f, || layouts::proven(f, op))
        // SAFETY: the stack has a value of each kind, as this function requires.
        && let Some(answers) = unsafe { passing::directly(op, f, stack, direct) }
    {
        for (at, answer) in answers.iter().take(op.answers).enumerate() {
            // SAFETY: the stack has room for the results, as this function requires.
            unsafe { stack.add(at).write(*answer) };
        }
        return;
    }
    // SAFETY: the stack matches the operation, as this function requires.
    if unsafe { passing::stably(op, f, stack) } != 0 {
        let text = CString::new(f.error().replace('\0', " ")).unwrap_or_default();
        // SAFETY: the strings end with a NUL. The function raises an error, which PyTorch catches above.
        unsafe { (f.check)(false, c"former".as_ptr(), c"hipdnn".as_ptr(), 0, text.as_ptr()) };
    }
}
