//! Kernels as PyTorch calls them: ours where a plan is known to be faster, else the one that PyTorch has.

use std::cell::Cell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::arguments::{Arguments, CPU, Kind, Value, dtype, free, pointer};
use super::clock::{self, Clock};
use super::events::Choice;
use super::functions::{Functions, Kernel, functions};
use super::plan::{CallPlan, Switches};
use super::recipe::{Reason, Recipe};
use super::table::{self, Entry};
use crate::device::{Place, Stream};
use crate::session::Session;

/// An operation of PyTorch's that kernels are registered for.
pub struct Op {
    /// With its namespace, ended by a NUL.
    pub name: &'static std::ffi::CStr,
    pub kinds: &'static [Kind],
    /// How many values PyTorch gets.
    pub answers: usize,
    /// Whether it is a product or convolution.
    pub is_product: bool,
    pub recipe: fn(&[Value]) -> Result<Recipe, Reason>,
    pub kernel: Kernel,
}

static KEY: AtomicU16 = AtomicU16::new(0);
/// The key of tracing.
static TRACER: AtomicU16 = AtomicU16::new(0);
static VERSION: AtomicU64 = AtomicU64::new(0);
static IS_ROCM: AtomicBool = AtomicBool::new(false);
/// Whether whatever an engine computes is computed here, faster or not.
static ALWAYS: AtomicBool = AtomicBool::new(false);
static SESSION: OnceLock<Arc<Session>> = OnceLock::new();

/// What PyTorch says of itself.
pub struct About {
    /// Its interface's version.
    pub version: u64,
    pub is_rocm: bool,
    /// The number of the key that tracing has.
    pub tracer: u16,
}

/// Registers the kernels under a dispatch key, by its name and number.
pub fn register(
    operations: &[Op],
    session: Arc<Session>,
    key: &str,
    number: u16,
    about: &About,
) -> Result<(), String> {
    let f = functions()?;
    let name = CString::new(key).map_err(|_| format!("{key:?} is no dispatch key"))?;
    KEY.store(number, Ordering::Relaxed);
    TRACER.store(about.tracer, Ordering::Relaxed);
    VERSION.store(about.version, Ordering::Relaxed);
    IS_ROCM.store(about.is_rocm, Ordering::Relaxed);
    if SESSION.set(session).is_err() {
        return Ok(());
    }
    let mut library = std::ptr::null_mut();
    // SAFETY: the texts end with a NUL, the file's lives as long as the process, and the output is valid.
    let status =
        unsafe { (f.library)(c"aten".as_ptr(), name.as_ptr(), c"hipdnn".as_ptr(), 0, &raw mut library) };
    if status != 0 {
        return Err(format!("PyTorch takes no kernels for {key}: {}", f.error()));
    }
    // The registration lasts as long as the process, so the library is never deleted.
    for op in operations {
        let name = op.name.to_bytes_with_nul().strip_prefix(b"aten::").unwrap_or_default();
        // SAFETY: the library is alive, the name ends with a NUL, and the kernel reads what the schema says.
        if unsafe { (f.register)(library, name.as_ptr().cast(), op.kernel, about.version) } != 0 {
            return Err(format!("PyTorch does not take the kernel of {:?}: {}", op.name, f.error()));
        }
    }
    Ok(())
}

/// Has whatever an engine computes be computed here, faster or not; or what is faster alone.
pub fn always(is_set: bool) {
    ALWAYS.store(is_set, Ordering::Relaxed);
}

thread_local! {
    /// What calls are read into.
    static READ: Cell<Option<Box<Arguments>>> = const { Cell::new(None) };
}

/// A call of PyTorch's.
///
/// # Safety
/// The stack has a value of each of the operation's kinds, and room for its answers.
pub unsafe fn enter(op: &'static Op, stack: *mut u64) {
    let Ok(f) = functions() else { return };
    let mut arguments = READ.take().unwrap_or_default();
    // SAFETY: the stack has a value of each kind, as this function requires.
    let tried = catch_unwind(AssertUnwindSafe(|| unsafe { attempt(op, f, stack, &mut arguments) }));
    READ.set(Some(arguments));
    let timed = match tried {
        Ok(Attempt::Done) => return,
        Ok(Attempt::Former(timed)) => timed,
        // A panic here is our error, so PyTorch computes the call. The arguments were not taken.
        Err(_) => None,
    };
    // SAFETY: the arguments are as PyTorch brought them.
    unsafe { former(op, f, stack) };
    if let Some((entry, clock)) = timed {
        clock.stop(&entry, Choice::Theirs);
    }
}

enum Attempt {
    Done,
    /// PyTorch's kernel is to compute, and the time may count for an entry.
    Former(Option<(Arc<Entry>, Clock)>),
}

/// # Safety
/// The stack has a value of each of the operation's kinds, and room for its answers.
unsafe fn attempt(op: &'static Op, f: &Functions, stack: *mut u64, arguments: &mut Arguments) -> Attempt {
    let tracer = TRACER.load(Ordering::Relaxed);
    // PyTorch traces some operations, such as convolution, by what its own kernels call.
    // SAFETY: any key may be asked for.
    if unsafe { (f.includes)(tracer) && !(f.excludes)(tracer) } {
        return Attempt::Former(None);
    }
    // SAFETY: the stack has a value of each kind, as this function requires.
    if op.is_product && unsafe { is_pytorchs_product(f, stack, op.kinds) } {
        return Attempt::Former(None);
    }
    // SAFETY: the stack has a value of each kind, as this function requires.
    if !unsafe { arguments.read(f, stack, op.kinds) } {
        return Attempt::Former(None);
    }
    // Types and devices are in the words; the operation is told apart by its name's place.
    arguments.words.push(op.name.as_ptr().addr() as i64);
    let device = arguments.device.unwrap_or_default();
    arguments.words.push(i64::from(device.0) << 32 | i64::from(device.1));
    // Planning allocates and measures, which ends captures. What ran before the capture has its plan.
    let make = || (!is_captured(f, device)).then(|| plan(op, f, arguments));
    let Some(entry) = table::find(&arguments.words, make) else { return Attempt::Former(None) };
    let Some(plan) = &entry.plan else {
        entry.passed_on.fetch_add(1, Ordering::Relaxed);
        return Attempt::Former(None);
    };
    let (by, clock) = choose(&entry, f, device);
    if by == Choice::Theirs {
        entry.passed_on.fetch_add(1, Ordering::Relaxed);
        return Attempt::Former(clock.map(|clock| (entry, clock)));
    }
    // SAFETY: the tensors are alive, and like those that the plan was made for: the same words describe them.
    let Ok(answers) = (unsafe { plan.run(f, &arguments.tensors, arguments.momentum) }) else {
        entry.choose(Choice::Theirs);
        entry.passed_on.fetch_add(1, Ordering::Relaxed);
        return Attempt::Former(None);
    };
    // SAFETY: the arguments are the kernel's to free, and the stack has room for the answers.
    unsafe {
        free(f, stack, op.kinds, plan.is_in_place().then_some(0));
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

/// Whether a product or convolution is PyTorch's from the beginning: on a GPU both call the same libraries of the vendor, so that timing
/// would cost more than it gains. `enable(timed=False)` and deterministic algorithms ask for ours.
///
/// # Safety
/// The stack has a value of each kind.
unsafe fn is_pytorchs_product(f: &Functions, stack: *const u64, kinds: &[Kind]) -> bool {
    if ALWAYS.load(Ordering::Relaxed) || kinds.first() != Some(&Kind::Tensor) || f.must_not_vary() {
        return false;
    }
    let (mut is_defined, mut device) = (false, CPU);
    // SAFETY: the first value is a tensor's handle, and the outputs are valid. An undefined tensor is asked nothing else.
    unsafe {
        let tensor = pointer(stack.read());
        (f.is_defined)(tensor, &raw mut is_defined) == 0
            && is_defined
            && (f.device_type)(tensor, &raw mut device) == 0
            && device != CPU
    }
}

/// Where a call goes.
fn place(f: &Functions, device: (i32, i32)) -> Option<(Place, Stream)> {
    if device.0 == CPU {
        return Some((Place::Host, Stream::default()));
    }
    let mut stream = std::ptr::null_mut();
    // SAFETY: the output is valid.
    if unsafe { (f.stream?)(device.1, &raw mut stream) } != 0 {
        return None;
    }
    let is_rocm = IS_ROCM.load(Ordering::Relaxed);
    let place = if is_rocm { Place::Rocm(device.1) } else { Place::Cuda(device.1) };
    Some((place, Stream::new(stream.addr())))
}

/// Whether the work of a device's current stream becomes part of a graph.
fn is_captured(f: &Functions, device: (i32, i32)) -> bool {
    // SAFETY: PyTorch's current stream is alive.
    place(f, device).is_none_or(|(place, stream)| unsafe { stream.is_captured(place) })
}

/// Who computes a call, and the clock that times it.
fn choose(entry: &Entry, f: &Functions, device: (i32, i32)) -> (Choice, Option<Clock>) {
    match entry.choice() {
        _ if ALWAYS.load(Ordering::Relaxed) => (Choice::Ours, None),
        Choice::Open if f.must_not_vary() || is_captured(f, device) => (Choice::Ours, None),
        Choice::Open => {
            clock::read(entry);
            match (entry.choice(), place(f, device)) {
                (Choice::Open, Some((place, stream))) => {
                    let (by, counts) = entry.turn();
                    (by, if counts { Clock::start(place, stream) } else { None })
                }
                (choice, _) => (choice, None),
            }
        }
        choice => (choice, None),
    }
}

fn plan(op: &'static Op, f: &Functions, arguments: &Arguments) -> Entry {
    let values = arguments.values();
    let made = || {
        let session = SESSION.get().ok_or("no library is open")?;
        let recipe = (op.recipe)(&values)?;
        // TF32 is PyTorch's to allow, for each of its libraries in ways of its own.
        let is_single = values.iter().any(|of| matches!(of, Value::Tensor(t) if t.dtype == dtype::FLOAT));
        if op.is_product && is_single && recipe.device().0 != CPU {
            return Err("products of float on a GPU".to_owned());
        }
        let is_exact = f.must_not_vary()
            || f.context.zip(f.is_cudnn_deterministic).is_none_or(|(context, is_set)| {
                // SAFETY: the context lives as long as the process.
                unsafe { is_set(context()) }
            });
        if recipe.answers.len() != op.answers {
            return Err("another number of results".to_owned());
        }
        let is_rocm = IS_ROCM.load(Ordering::Relaxed);
        CallPlan::new(session, recipe, Switches { is_product: op.is_product, is_exact, is_rocm })
    };
    let entry = Entry::new(&arguments.words, made());
    let is_double = values.iter().any(|of| matches!(of, Value::Tensor(t) if t.dtype == dtype::DOUBLE));
    if is_double && entry.plan.is_some() {
        // Tests of gradients compare results of double precision to the last bit; networks hardly use them.
        entry.choose(Choice::Theirs);
    }
    entry
}

/// Calls PyTorch's own kernel, and raises its error.
///
/// # Safety
/// The stack has a value of each of the operation's kinds, and room for its answers.
unsafe fn former(op: &Op, f: &Functions, stack: *mut u64) {
    let key = KEY.load(Ordering::Relaxed);
    // SAFETY: the key is one that this thread includes, or this kernel were not called; the stack is as the operation wants it.
    let status = unsafe {
        (f.exclude)(key, true);
        let status = (f.call)(op.name.as_ptr(), c"".as_ptr(), stack, VERSION.load(Ordering::Relaxed));
        (f.exclude)(key, false);
        status
    };
    if status != 0 {
        let text = CString::new(f.error().replace('\0', " ")).unwrap_or_default();
        // SAFETY: the texts end with a NUL. The function raises an error, which PyTorch catches above.
        unsafe { (f.check)(false, c"former".as_ptr(), c"hipdnn".as_ptr(), 0, text.as_ptr()) };
    }
}
