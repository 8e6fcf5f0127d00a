//! VARIANT_PACK: the memory of a graph's tensors for one execution.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t as DeviceBuffer;
use smallvec::SmallVec;

use super::attribute::{Incoming, Outgoing, unknown};
use super::overrides::{List, Overrides};
use super::{Descriptor, Draft};
use crate::ffi::{hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::memory;
use crate::status::{Error, Result};

const KIND: &str = "variant pack";

const UNIQUE_IDS: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS as c_int;
const DATA_POINTERS: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS as c_int;
const WORKSPACE: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_WORKSPACE as c_int;
const OVERRIDE_UNIQUE_IDS: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT as c_int;
const OVERRIDE_SHAPES: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT as c_int;
const OVERRIDE_STRIDES: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT as c_int;
const OVERRIDE_LENGTHS: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT as c_int;

/// The list of overrides that an attribute refers to, if any.
fn list(name: c_int) -> Option<List> {
    match name {
        OVERRIDE_UNIQUE_IDS => Some(List::Uids),
        OVERRIDE_SHAPES => Some(List::Shapes),
        OVERRIDE_STRIDES => Some(List::Strides),
        OVERRIDE_LENGTHS => Some(List::Lengths),
        _ => None,
    }
}

/// Tensors that a pack stores without allocating: most graphs have no more.
const INLINE: usize = 4;

/// A pack. Ids and pointers are stored in the form that plugins take, so finalizing moves nothing.
#[derive(Default)]
pub struct Pack {
    /// One entry per id or pointer, whichever are more.
    buffers: SmallVec<[Buffer; INLINE]>,
    ids: usize,
    pointers: usize,
    workspace: usize,
    /// The bitwise or of all data pointers, to check alignment quickly.
    addresses: usize,
    /// None once a pack without overrides is finalized.
    overrides: Option<Box<Overrides>>,
    /// The handle of the first plan for which the memory was found to be right; 0 for none.
    checked: AtomicUsize,
}

/// Fails if there is not enough memory for so many tensors; the list may double.
#[inline]
fn require(count: usize) -> Result<()> {
    memory::require("the tensors of a variant pack", count.saturating_mul(2 * size_of::<Buffer>()))
}

/// A tensor's id and memory.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Buffer(DeviceBuffer);

// SAFETY: nothing here reads or writes what the pointer points to.
unsafe impl Send for Buffer {}
// SAFETY: nothing here reads or writes what the pointer points to.
unsafe impl Sync for Buffer {}

impl Pack {
    /// The tensors' ids and memory, in the caller's order.
    #[inline]
    pub fn buffers(&self) -> &[DeviceBuffer] {
        let buffers = self.buffers.as_slice();
        // SAFETY: `Buffer` wraps only a `DeviceBuffer`.
        unsafe { std::slice::from_raw_parts(buffers.as_ptr().cast(), buffers.len()) }
    }

    /// The workspace, null if there is none.
    #[inline]
    pub fn workspace(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.workspace)
    }

    /// The bitwise or of all data pointers.
    #[inline]
    pub fn addresses(&self) -> usize {
        self.addresses
    }

    /// The override shapes, if there are any.
    #[inline]
    pub fn overrides(&self) -> Option<&Overrides> {
        self.overrides.as_deref()
    }

    /// Whether the memory was found to be right for the plan of this handle.
    #[inline]
    pub fn is_checked_for(&self, plan: usize) -> bool {
        self.checked.load(Ordering::Relaxed) == plan
    }

    /// Remembers that the memory is right for the plan of this handle, the first one: threads with several would take the line from
    /// each other.
    #[inline]
    pub fn set_checked_for(&self, plan: usize) {
        if self.checked.load(Ordering::Relaxed) == 0 {
            self.checked.store(plan, Ordering::Relaxed);
        }
    }

    /// Sets a list of overrides. Out of line, to keep setting the usual attributes short.
    #[cold]
    fn set_override(&mut self, incoming: &Incoming) -> Result<()> {
        match list(incoming.name()) {
            Some(list) => self.overrides.get_or_insert_default().set(list, incoming),
            None => Err(unknown(KIND, incoming.name(), "set")),
        }
    }

    /// Checks the overrides, and drops them if all lists are empty.
    #[cold]
    fn finalize_overrides(&mut self) -> Result<()> {
        let bound = self.buffers.iter().map(|buffer| buffer.0.uid);
        if let Some(overrides) = &mut self.overrides
            && !overrides.finalize(bound)?
        {
            self.overrides = None;
        }
        Ok(())
    }

    /// Makes room for `count` ids and `other` pointers, or the other way round.
    #[inline]
    fn resize(&mut self, count: usize, other: usize) {
        const NOTHING: Buffer = Buffer(DeviceBuffer { uid: 0, ptr: ptr::null_mut() });
        let size = count.max(other);
        if self.buffers.len() == size {
            return;
        }
        // `SmallVec::resize` adds elements one by one.
        match [NOTHING; INLINE].get(..size) {
            Some(few) if self.buffers.is_empty() => self.buffers.extend_from_slice(few),
            _ => self.buffers.resize(size, NOTHING),
        }
    }
}

impl Draft for Pack {
    type Frozen = ();

    const FINALIZE_ONCE: bool = false;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        // This kind checks the array before the name.
        incoming.require_array()?;
        match incoming.name() {
            UNIQUE_IDS => {
                let ids = incoming.array::<i64>(Type::HIPDNN_TYPE_INT64)?;
                require(ids.len())?;
                self.resize(ids.len(), self.pointers);
                self.ids = ids.len();
                for (buffer, uid) in self.buffers.iter_mut().zip(ids) {
                    buffer.0.uid = uid;
                }
            }
            DATA_POINTERS => {
                let pointers = incoming.array::<usize>(Type::HIPDNN_TYPE_VOID_PTR)?;
                require(pointers.len())?;
                self.resize(pointers.len(), self.ids);
                self.pointers = pointers.len();
                self.addresses = 0;
                for (buffer, pointer) in self.buffers.iter_mut().zip(pointers) {
                    self.addresses |= pointer;
                    buffer.0.ptr = ptr::with_exposed_provenance_mut(pointer);
                }
            }
            WORKSPACE => self.workspace = incoming.one(Type::HIPDNN_TYPE_VOID_PTR)?,
            _ => return self.set_override(incoming),
        }
        Ok(())
    }

    fn finalize(&mut self) -> Result<()> {
        let Self { ids, pointers, .. } = *self;
        if ids == 0 || ids != pointers {
            return Err(Error::bad_param(format!(
                "the variant pack has {ids} unique ids and {pointers} data pointers, expected as many of one as of the other, at least 1"
            )));
        }
        if self.overrides.is_some() { self.finalize_overrides() } else { Ok(()) }
    }

    fn get(&self, (): &(), outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            UNIQUE_IDS => {
                let ids = memory::collect(KIND, self.buffers().iter().map(|buffer| buffer.uid))?;
                outgoing.many(Type::HIPDNN_TYPE_INT64, &ids)
            }
            DATA_POINTERS => {
                outgoing.require_type(Type::HIPDNN_TYPE_VOID_PTR)?;
                // Both generations of the interface require the count here.
                outgoing.require_count()?;
                let pointers = memory::collect(KIND, self.buffers().iter().map(|buffer| buffer.ptr.addr()))?;
                outgoing.many(Type::HIPDNN_TYPE_VOID_PTR, &pointers)
            }
            WORKSPACE => outgoing.exactly_one(Type::HIPDNN_TYPE_VOID_PTR, self.workspace),
            other => match list(other) {
                Some(list) => Overrides::get(self.overrides(), list, outgoing),
                None => Err(unknown(KIND, other, "read")),
            },
        }
    }
}

impl Descriptor {
    /// Fails unless this is a variant pack.
    #[inline]
    pub fn check_variant_pack(&self) -> Result<()> {
        match self {
            Self::VariantPack(_) => Ok(()),
            other => Err(other.wrong_kind(KIND)),
        }
    }

    /// The pack of a finalized variant pack, for execution.
    #[inline]
    pub fn variant_pack(&self) -> Result<&Pack> {
        match self {
            Self::VariantPack(lifecycle) => {
                lifecycle.frozen_draft().ok_or_else(|| Error::bad_param("the variant pack is not finalized"))
            }
            other => Err(other.wrong_kind(KIND)),
        }
    }
}
