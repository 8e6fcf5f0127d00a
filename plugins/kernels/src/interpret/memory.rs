//! Memory of a workgroup, with a record of who touched what since the last barrier.

use super::Argument;
use super::element::{decode, encode};
use crate::form::{Memory, Parameter};
use crate::scalar::Scalar;

/// Who accessed an element last, and when.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Mark {
    /// The number of barriers before, from 1.
    epoch: u32,
    /// The thread, or another number for accesses by a subgroup.
    who: u32,
}

/// Several threads.
const MANY: u32 = u32::MAX;

#[derive(Clone, Copy, Default)]
struct Record {
    written: Mark,
    read: Mark,
    /// The thread and its group of copies that will have written it.
    copied: Option<(u32, u32)>,
    has_value: bool,
}

pub(super) struct Array {
    scalar: Scalar,
    cells: Vec<u64>,
    records: Vec<Record>,
}

impl Array {
    pub(super) fn new(scalar: Scalar, length: usize) -> Self {
        Self { scalar, cells: vec![0; length], records: vec![Record::default(); length] }
    }
}

/// Groups of copies of a thread.
#[derive(Clone, Copy, Default)]
pub(super) struct Copies {
    pub(super) committed: u32,
    pub(super) done: u32,
    /// Those that others see, since a barrier.
    pub(super) seen: u32,
}

pub(super) struct Store<'a, 'b> {
    pub(super) arguments: &'a mut [Argument<'b>],
    pub(super) parameters: &'a [Parameter],
    pub(super) arrays: Vec<Array>,
    pub(super) copies: Vec<Copies>,
    pub(super) epoch: u32,
    pub(super) others: u32,
}

impl Store<'_, '_> {
    pub(super) fn scalar(&self, memory: Memory) -> Result<Scalar, String> {
        match memory {
            Memory::Global(pointer) => match self.parameters.get(pointer.0 as usize) {
                Some(Parameter::Memory { scalar, .. }) => Ok(*scalar),
                _ => Err(format!("parameter {} is no memory", pointer.0)),
            },
            Memory::Shared(shared) => self
                .arrays
                .get(shared.0 as usize)
                .map(|array| array.scalar)
                .ok_or_else(|| format!("no shared array {}", shared.0)),
        }
    }

    pub(super) fn barrier(&mut self) {
        self.epoch += 1;
        self.copies.iter_mut().for_each(|copies| copies.seen = copies.done);
    }

    /// A number for an access by a subgroup together, different from all others.
    pub(super) fn collective(&mut self) -> u32 {
        self.others += 1;
        self.others
    }

    pub(super) fn read(&mut self, memory: Memory, index: i64, who: u32) -> Result<u64, String> {
        let scalar = self.scalar(memory)?;
        match memory {
            Memory::Global(pointer) => {
                let place = usize::try_from(index).ok().and_then(|index| index.checked_mul(scalar.size()));
                let bytes = match self.arguments.get(pointer.0 as usize) {
                    Some(Argument::Memory(bytes)) => place.and_then(|at| bytes.get(at..at + scalar.size())),
                    _ => None,
                };
                let bytes = bytes.ok_or_else(|| {
                    format!("thread {who} reads element {index} of parameter {}", pointer.0)
                })?;
                Ok(decode(bytes, scalar))
            }
            Memory::Shared(shared) => {
                let (epoch, copies) = (self.epoch, &self.copies);
                let array = self.arrays.get_mut(shared.0 as usize).ok_or("no such array")?;
                let name = || format!("element {index} of shared array {}", shared.0);
                let outside = || format!("thread {who} reads {}", name());
                let place = usize::try_from(index).map_err(|_| outside())?;
                let record = array.records.get_mut(place).ok_or_else(outside)?;
                if !record.has_value {
                    return Err(format!("{} is read before it is written", name()));
                }
                if record.written.epoch == epoch && record.written.who != who {
                    return Err(format!(
                        "{} is read by {who} and written by {} without a barrier between",
                        name(),
                        record.written.who
                    ));
                }
                if let Some((thread, group)) = record.copied
                    && copies.get(thread as usize).is_none_or(|copies| copies.seen <= group)
                {
                    return Err(format!("{} is read before its copy was waited for", name()));
                }
                let same = record.read == Mark { epoch, who } || record.read.epoch != epoch;
                record.read = Mark { epoch, who: if same { who } else { MANY } };
                Ok(array.cells.get(place).copied().unwrap_or_default())
            }
        }
    }

    pub(super) fn write(
        &mut self,
        memory: Memory,
        index: i64,
        cell: u64,
        who: u32,
        copied: Option<(u32, u32)>,
    ) -> Result<(), String> {
        let scalar = self.scalar(memory)?;
        match memory {
            Memory::Global(pointer) => {
                if !matches!(
                    self.parameters.get(pointer.0 as usize),
                    Some(Parameter::Memory { written: true, .. })
                ) {
                    return Err(format!("parameter {} is written, but not declared so", pointer.0));
                }
                let place = usize::try_from(index).ok().and_then(|index| index.checked_mul(scalar.size()));
                let bytes = match self.arguments.get_mut(pointer.0 as usize) {
                    Some(Argument::Memory(bytes)) => {
                        place.and_then(|at| bytes.get_mut(at..at + scalar.size()))
                    }
                    _ => None,
                };
                let bytes = bytes.ok_or_else(|| {
                    format!("thread {who} writes element {index} of parameter {}", pointer.0)
                })?;
                bytes.iter_mut().zip(encode(cell, scalar)).for_each(|(to, from)| *to = from);
            }
            Memory::Shared(shared) => {
                let epoch = self.epoch;
                let array = self.arrays.get_mut(shared.0 as usize).ok_or("no such array")?;
                let name = || format!("element {index} of shared array {}", shared.0);
                let outside = || format!("thread {who} writes {}", name());
                let place = usize::try_from(index).map_err(|_| outside())?;
                let record = array.records.get_mut(place).ok_or_else(outside)?;
                for mark in [record.written, record.read] {
                    if mark.epoch == epoch && mark.who != who {
                        return Err(format!(
                            "{} is written by {who} and accessed by {} without a barrier between",
                            name(),
                            mark.who
                        ));
                    }
                }
                record.written = Mark { epoch, who };
                record.copied = copied;
                record.has_value = true;
                if let Some(own) = array.cells.get_mut(place) {
                    *own = cell;
                }
            }
        }
        Ok(())
    }
}
