//! The override shapes of a variant pack, for one execution.

use std::collections::HashSet;

use super::attribute::{Incoming, Outgoing};
use crate::ffi::hipdnnBackendAttributeType_t as Type;
use crate::memory;
use crate::plugin::OverrideArrays;
use crate::status::{Error, Result};

/// One of the four lists of numbers.
#[derive(Clone, Copy)]
pub enum List {
    /// The uids of the overridden tensors.
    Uids,
    /// The number of dimensions of each.
    Lengths,
    /// The dimensions of all of them, concatenated.
    Shapes,
    /// The strides, likewise.
    Strides,
}

/// Override shapes for tensors of a pack.
#[derive(Default)]
pub struct Overrides {
    uids: Vec<i64>,
    lengths: Vec<i64>,
    shapes: Vec<i64>,
    strides: Vec<i64>,
    /// The arrays for plugins, made when the pack is finalized.
    arrays: Arrays,
}

/// Lengths, and pointers to the dimensions and strides of each tensor.
#[derive(Default)]
struct Arrays {
    lengths: Vec<u32>,
    shapes: Vec<Place>,
    strides: Vec<Place>,
}

/// A pointer into one of the lists.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Place(*const i64);

// SAFETY: it points into a list that no longer changes and lives as long.
unsafe impl Send for Place {}
// SAFETY: the list no longer changes, so threads may share it.
unsafe impl Sync for Place {}

impl Overrides {
    fn list(&self, list: List) -> &Vec<i64> {
        match list {
            List::Uids => &self.uids,
            List::Lengths => &self.lengths,
            List::Shapes => &self.shapes,
            List::Strides => &self.strides,
        }
    }

    /// Sets a list.
    pub fn set(&mut self, list: List, incoming: &Incoming) -> Result<()> {
        let values = memory::collect("overrides", incoming.array::<i64>(Type::HIPDNN_TYPE_INT64)?)?;
        *match list {
            List::Uids => &mut self.uids,
            List::Lengths => &mut self.lengths,
            List::Shapes => &mut self.shapes,
            List::Strides => &mut self.strides,
        } = values;
        Ok(())
    }

    /// Gets a list; one that was never set is empty.
    pub fn get(overrides: Option<&Self>, list: List, outgoing: &Outgoing) -> Result<()> {
        let values = overrides.map_or(&[][..], |overrides| overrides.list(list));
        outgoing.many(Type::HIPDNN_TYPE_INT64, values)
    }

    /// Checks that the lists match each other and the pack's uids, `bound`. Returns whether there is any override.
    pub fn finalize(&mut self, bound: impl Iterator<Item = i64>) -> Result<bool> {
        let Self { uids, lengths, shapes, strides, .. } = &*self;
        if [uids, lengths, shapes, strides].iter().all(|list| list.is_empty()) {
            return Ok(false);
        }
        let fail = |what: String| Err(Error::bad_param(format!("the overrides of the variant pack: {what}")));
        if uids.len() != lengths.len() {
            return fail(format!(
                "there are {} uids and {} lengths, expected as many of one as of the other",
                uids.len(),
                lengths.len()
            ));
        }
        // Both sets, and three words for each tensor.
        let (tensors, most) = bound.size_hint();
        let sets = most.unwrap_or(tensors).saturating_add(uids.len()).saturating_mul(32);
        memory::require("overrides", sets.saturating_add(uids.len().saturating_mul(40)))?;
        let bound: HashSet<i64> = bound.collect();
        let mut seen = HashSet::new();
        for uid in uids {
            if !bound.contains(uid) {
                return fail(format!("tensor {uid} is not among the unique ids of the pack"));
            }
            if !seen.insert(*uid) {
                return fail(format!("tensor {uid} is there twice"));
            }
        }
        let mut arrays = Arrays::default();
        let mut end = 0_usize;
        for (uid, length) in uids.iter().zip(lengths) {
            let Some(short) = u32::try_from(*length).ok().filter(|length| *length > 0) else {
                return fail(format!("tensor {uid} has {length} dimensions, expected 1 to {}", u32::MAX));
            };
            arrays.lengths.push(short);
            // Clamped to the lists; lengths beyond them are refused below.
            arrays.shapes.push(Place(shapes.get(end..).unwrap_or_default().as_ptr()));
            arrays.strides.push(Place(strides.get(end..).unwrap_or_default().as_ptr()));
            end = end.saturating_add(short as usize);
        }
        if shapes.len() != end || strides.len() != end {
            return fail(format!(
                "there are {} dimensions and {} strides, expected {end} of each, the sum of the lengths",
                shapes.len(),
                strides.len()
            ));
        }
        self.arrays = arrays;
        Ok(true)
    }

    /// The overridden tensors.
    pub fn uids(&self) -> &[i64] {
        &self.uids
    }

    /// Each overridden tensor with its dimensions and strides.
    pub fn layouts(&self) -> impl Iterator<Item = (i64, &[i64], &[i64])> {
        let mut begin = 0_usize;
        self.uids.iter().zip(&self.lengths).map(move |(uid, length)| {
            let end = begin.saturating_add(usize::try_from(*length).unwrap_or(0));
            let (shape, strides) = (self.shapes.get(begin..end), self.strides.get(begin..end));
            begin = end;
            (*uid, shape.unwrap_or_default(), strides.unwrap_or_default())
        })
    }

    /// The arrays of finalized overrides for plugins.
    pub fn arrays(&self) -> OverrideArrays {
        OverrideArrays {
            // Attributes have fewer elements than u32::MAX.
            count: self.uids.len() as u32,
            uids: self.uids.as_ptr(),
            lengths: self.arrays.lengths.as_ptr(),
            // `Place` wraps only a pointer.
            shapes: self.arrays.shapes.as_ptr().cast(),
            strides: self.arrays.strides.as_ptr().cast(),
        }
    }
}
