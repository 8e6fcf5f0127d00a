//! Makes plans of calls: at once, or in the background while PyTorch computes them.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use hipdnn_plugin_sdk::os::memory;

use super::arguments::{CPU, Kind, Value, dtype};
use super::events::Choice;
use super::functions::Functions;
use super::plan::{CallPlan, Switches};
use super::proof::Proof;
use super::recipe::{Reason, Recipe};
use super::table::Entry;
use super::worker;
use crate::device::{Place, Stream};
use crate::session::Session;

/// How an operation compares with PyTorch's.
#[derive(Clone, Copy, PartialEq)]
pub enum Class {
    /// A matrix product or convolution: on GPUs PyTorch calls the same vendor libraries.
    Product,
    /// Engines are faster than PyTorch on GPUs as well.
    Faster,
    /// Engines are faster than PyTorch on GPUs, and slower on CPUs.
    FasterOnGpus,
    /// Attention, whose GPU engines are the vendor's.
    FasterProduct,
    /// PyTorch is as fast on GPUs, or faster.
    Plain,
}

impl Class {
    /// Whether engines compute it faster than PyTorch on GPUs as well.
    pub fn is_for_gpus(self) -> bool {
        matches!(self, Self::Faster | Self::FasterOnGpus | Self::FasterProduct)
    }
}

/// A PyTorch operation with a kernel.
pub struct Op {
    /// With its namespace, and its overload after a dot.
    pub name: &'static CStr,
    pub kinds: &'static [Kind],
    /// The number of results.
    pub answers: usize,
    pub class: Class,
    pub recipe: fn(&[Value]) -> Result<Recipe, Reason>,
    /// PyTorch's own function, once looked up and proven.
    pub direct: Proof,
    /// Whether the program left it to PyTorch.
    pub is_left: AtomicBool,
}

impl Op {
    /// The name without the overload, and the overload.
    pub fn split(&self) -> (CString, CString) {
        let mut parts = self.name.to_bytes().splitn(2, |byte| *byte == b'.');
        let mut part = || CString::new(parts.next().unwrap_or_default()).unwrap_or_default();
        (part(), part())
    }
}

static SESSION: OnceLock<Arc<Session>> = OnceLock::new();
static IS_ROCM: AtomicBool = AtomicBool::new(false);

/// Whether an item of a batch must have the same bits in every batch.
static INVARIANT: AtomicBool = AtomicBool::new(false);

/// Sets the library that makes plans; false if one was set already.
pub fn open(session: Arc<Session>, is_rocm: bool) -> bool {
    IS_ROCM.store(is_rocm, Ordering::Relaxed);
    SESSION.set(session).is_ok()
}

/// Sets whether an item of a batch must have the same bits in every batch.
pub fn set_invariant(is_set: bool) {
    INVARIANT.store(is_set, Ordering::Relaxed);
}

/// Whether an item of a batch must have the same bits in every batch.
pub fn is_invariant() -> bool {
    INVARIANT.load(Ordering::Relaxed)
}

/// The GPU with this number in PyTorch.
pub fn gpu(number: i32) -> Place {
    if IS_ROCM.load(Ordering::Relaxed) { Place::Rocm(number) } else { Place::Cuda(number) }
}

/// The plans after which freed memory is given back: plans live long, and the heap keeps what was freed below them.
const PLANS: u32 = 64;

/// Gives freed memory back from time to time.
fn tidy() {
    static MADE: AtomicU32 = AtomicU32::new(0);
    if MADE.fetch_add(1, Ordering::Relaxed) % PLANS == PLANS - 1 {
        memory::give_back();
    }
}

/// Plans a call.
pub fn plan(op: &'static Op, f: &Functions, values: &[Value], entry: &Entry) {
    let promises = Promises::now(f);
    entry.plan(false, || make(op, values, promises));
    tidy();
}

/// Plans a call in the background.
pub fn plan_aside(op: &'static Op, f: &Functions, values: Vec<Value>, entry: Arc<Entry>) {
    let promises = Promises::now(f);
    worker::queue(move || {
        entry.plan(true, || beside_captures(&values, || make(op, &values, promises)));
        tidy();
    });
}

/// What was asked of results.
#[derive(Clone, Copy)]
struct Promises {
    is_exact: bool,
    is_invariant: bool,
}

impl Promises {
    fn now(f: &Functions) -> Self {
        Self { is_exact: is_exact(f), is_invariant: is_invariant() }
    }
}

/// Whether PyTorch was asked for deterministic results, in general or of cuDNN.
fn is_exact(f: &Functions) -> bool {
    f.must_not_vary()
        || f.context.zip(f.is_cudnn_deterministic).is_none_or(|(context, is_set)| {
            // SAFETY: the context lives as long as the process.
            unsafe { is_set(context()) }
        })
}

/// Lets this thread allocate although another one captures a stream.
fn beside_captures<T>(values: &[Value], work: impl FnOnce() -> T) -> T {
    let number = values.iter().find_map(|of| match of {
        Value::Tensor(of) if of.device.0 != CPU => Some(of.device.1),
        _ => None,
    });
    let Some(place) = number.map(gpu) else { return work() };
    let Ok(_entered) = place.enter(Stream::default()) else { return work() };
    // SAFETY: it is a default stream, whose device was entered.
    match unsafe { place.gpu(Stream::default()) } {
        Ok(Some(gpu)) => gpu.beside_captures(work),
        _ => work(),
    }
}

fn make(op: &Op, values: &[Value], promises: Promises) -> (Result<CallPlan, Reason>, Choice) {
    let has = |kind: i32| values.iter().any(|of| matches!(of, Value::Tensor(of) if of.dtype == kind));
    let is_product = matches!(op.class, Class::Product | Class::FasterProduct);
    let make = || {
        let session = SESSION.get().ok_or("no library is open")?;
        let recipe = (op.recipe)(values)?;
        // PyTorch decides on TF32, separately for each of its libraries.
        if is_product && has(dtype::FLOAT) && recipe.device().0 != CPU {
            return Err("products of float on a GPU".to_owned());
        }
        if recipe.answers.len() != op.answers {
            return Err("another number of results".to_owned());
        }
        let place = if recipe.device().0 == CPU { Place::Host } else { gpu(recipe.device().1) };
        let Promises { is_exact, is_invariant } = promises;
        CallPlan::new(session, recipe, place, Switches { is_product, is_exact, is_invariant })
    };
    // Gradient tests compare double results to the last bit; networks hardly use double.
    (make(), if has(dtype::DOUBLE) { Choice::Theirs } else { Choice::Open })
}
