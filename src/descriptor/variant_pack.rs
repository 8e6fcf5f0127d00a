//! VARIANT_PACK: the memory of a graph's tensors for one execution.

use std::ffi::{c_int, c_void};
use std::ptr;

use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t as DeviceBuffer;
use smallvec::SmallVec;

use super::attribute::{Incoming, Outgoing, unknown};
use super::{Descriptor, Draft};
use crate::ffi::{hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type};
use crate::status::{Error, Result};

const KIND: &str = "variant pack";

const UNIQUE_IDS: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS as c_int;
const DATA_POINTERS: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS as c_int;
const WORKSPACE: c_int = Name::HIPDNN_ATTR_VARIANT_PACK_WORKSPACE as c_int;

/// Tensors that a pack holds without memory of its own: most graphs have no more.
const INLINE: usize = 4;

/// A pack that is being set up.
#[derive(Default)]
pub struct PackDraft {
    ids: SmallVec<[i64; INLINE]>,
    pointers: SmallVec<[usize; INLINE]>,
    workspace: usize,
}

/// A finalized pack.
pub struct FrozenPack {
    buffers: SmallVec<[DeviceBuffer; INLINE]>,
    workspace: *mut c_void,
    /// All addresses in one: a bit that is clear is clear in each of them.
    addresses: usize,
}

// SAFETY: the pointers are the caller's and only passed on.
unsafe impl Send for FrozenPack {}
// SAFETY: as above.
unsafe impl Sync for FrozenPack {}

impl FrozenPack {
    /// The tensors' uids and memory, in the caller's order.
    #[inline]
    pub fn buffers(&self) -> &[DeviceBuffer] {
        &self.buffers
    }

    /// The workspace, null if there is none.
    #[inline]
    pub fn workspace(&self) -> *mut c_void {
        self.workspace
    }

    /// The bitwise or of all data pointers.
    #[inline]
    pub fn addresses(&self) -> usize {
        self.addresses
    }
}

impl Draft for PackDraft {
    type Frozen = FrozenPack;

    const FINALIZE_ONCE: bool = false;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        // Here the array is looked at before the name.
        incoming.require_array()?;
        match incoming.name() {
            UNIQUE_IDS => self.ids = incoming.many(Type::HIPDNN_TYPE_INT64)?,
            DATA_POINTERS => self.pointers = incoming.many(Type::HIPDNN_TYPE_VOID_PTR)?,
            WORKSPACE => self.workspace = incoming.one(Type::HIPDNN_TYPE_VOID_PTR)?,
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    fn finalize(&mut self) -> Result<Self::Frozen> {
        let Self { ids, pointers, workspace } = self;
        if ids.is_empty() || ids.len() != pointers.len() {
            return Err(Error::bad_param(format!(
                "the variant pack has {} unique ids and {} data pointers, expected as many of one as of the other, at least 1",
                ids.len(),
                pointers.len()
            )));
        }
        let mut buffers = SmallVec::with_capacity(ids.len());
        let mut addresses = 0;
        for (uid, pointer) in ids.iter().zip(pointers.iter()) {
            addresses |= pointer;
            buffers.push(DeviceBuffer { uid: *uid, ptr: ptr::with_exposed_provenance_mut(*pointer) });
        }
        Ok(FrozenPack { buffers, workspace: ptr::with_exposed_provenance_mut(*workspace), addresses })
    }

    fn get(frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            UNIQUE_IDS => {
                let ids: Vec<i64> = frozen.buffers.iter().map(|buffer| buffer.uid).collect();
                outgoing.many(Type::HIPDNN_TYPE_INT64, &ids)
            }
            DATA_POINTERS => {
                let pointers: Vec<usize> = frozen.buffers.iter().map(|buffer| buffer.ptr.addr()).collect();
                outgoing.many(Type::HIPDNN_TYPE_VOID_PTR, &pointers)
            }
            WORKSPACE => outgoing.exactly_one(Type::HIPDNN_TYPE_VOID_PTR, frozen.workspace.addr()),
            other => Err(unknown(KIND, other, "read")),
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

    /// The pack in a finalized variant pack, for execution.
    #[inline]
    pub fn variant_pack(&self) -> Result<&FrozenPack> {
        match self {
            Self::VariantPack(lifecycle) => {
                lifecycle.frozen().ok_or_else(|| Error::bad_param("the variant pack is not finalized"))
            }
            other => Err(other.wrong_kind(KIND)),
        }
    }
}
