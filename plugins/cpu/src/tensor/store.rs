//! Stores of packed weights, which plans share.
//!
//! A program whose lengths change makes plans for each length, each of which would pack the same weights again. It makes
//! a store for the constants of a session, and sets it while a thread makes plans for them. Plans for other shapes then
//! find what the first one packed.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Weak};

use hipdnn_plugin_sdk::lock::{Mutex, OnceLock};
use hipdnn_plugin_sdk::thread::Key;

use crate::simd::isa::Isa;
use crate::tensor::packed::Packed;

/// What decides the packed form of weights, beside their elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PackedForm {
    /// The kernel, and the address of its routine that packs a data type as another; 0 if it has only one.
    kernel: &'static str,
    routine: usize,
    /// Every number that packing reads.
    numbers: Vec<usize>,
}

impl PackedForm {
    pub(crate) fn new(kernel: &'static str, routine: usize) -> Self {
        Self { kernel, routine, numbers: Vec::new() }
    }

    /// With more numbers.
    pub(crate) fn and(mut self, numbers: impl IntoIterator<Item = usize>) -> Self {
        self.numbers.extend(numbers);
        self
    }

    /// With the instruction set that packs.
    pub(crate) fn on(self, isa: Isa) -> Self {
        self.and([isa as usize])
    }
}

/// The packed weights of some constants: at most one copy of each form, as long as a plan uses it.
///
/// Whoever makes plans for a store promises that an address holds the same weights in all of their executions: the
/// promise of one plan with constant weights, for all of them together.
#[derive(Default)]
pub(crate) struct Store {
    /// By the address of the weights and the form.
    packed: Mutex<HashMap<(usize, PackedForm), Weak<Packed>>>,
}

impl Store {
    /// The store for which this thread makes plans.
    pub(crate) fn of_thread() -> Option<Arc<Self>> {
        let handle = ptr::with_exposed_provenance::<Handle>(KEY.get().copied().flatten()?.get());
        // SAFETY: the program keeps a store that it has set for a thread.
        unsafe { handle.as_ref() }.map(|handle| Arc::clone(&handle.0))
    }

    /// The memory for the weights at an address: that of a plan, or new memory of this size and alignment.
    pub(crate) fn packed(&self, source: *mut u8, form: &PackedForm, size: [usize; 2]) -> Arc<Packed> {
        let mut all = self.packed.lock();
        let key = (source.addr(), form.clone().and(size));
        if let Some(found) = all.get(&key).and_then(Weak::upgrade) {
            return found;
        }
        all.retain(|_, packed| packed.strong_count() > 0);
        let made = Arc::new(Packed::new(size));
        all.insert(key, Arc::downgrade(&made));
        made
    }

    /// The number of packed weights that plans use, and their bytes.
    fn used(&self) -> [usize; 2] {
        let all = self.packed.lock();
        let alive = || all.values().filter_map(Weak::upgrade);
        [alive().count(), alive().map(|packed| packed.bytes()).sum()]
    }
}

/// A store as programs hold it. Plans keep the store itself.
pub struct Handle(Arc<Store>);

/// The address of each thread's [`Handle`], or 0.
static KEY: OnceLock<Option<Key>> = OnceLock::new();

fn key() -> Option<Key> {
    *KEY.get_or_init(|| Key::new(None))
}

/// Makes a store of packed weights, for the constants of a session.
#[unsafe(no_mangle)]
pub extern "C" fn hipdnnCpuPluginCreateWeights_ext() -> *mut Handle {
    Box::into_raw(Box::new(Handle(Arc::default())))
}

/// Makes plans that this thread makes share packed weights in a store, or not if null. Returns the former store.
///
/// The program promises that memory bound as constant weights to any plan made for the store holds the same values in
/// each execution of each of these plans that binds it.
///
/// # Safety
/// The store is null, or stays until another is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnCpuPluginShareWeights_ext(weights: *const Handle) -> *const Handle {
    let Some(key) = key() else { return ptr::null() };
    let before = key.get();
    key.set(weights.expose_provenance());
    ptr::with_exposed_provenance(before)
}

/// Writes the number of packed weights that plans of a store use, and their bytes, to two numbers.
///
/// # Safety
/// The store exists, and the numbers are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnCpuPluginCountWeights_ext(weights: *const Handle, numbers: *mut usize) {
    // SAFETY: the store exists, and both numbers are writable, as this function requires.
    unsafe {
        if let Some(Handle(store)) = weights.as_ref() {
            numbers.cast::<[usize; 2]>().write_unaligned(store.used());
        }
    }
}

/// Destroys a store. Its plans go on, and keep what they use.
///
/// # Safety
/// The store is null, or one that exists and that no thread has set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnCpuPluginDestroyWeights_ext(weights: *mut Handle) {
    if !weights.is_null() {
        // SAFETY: it was made as a box, and is not used again.
        drop(unsafe { Box::from_raw(weights) });
    }
}
