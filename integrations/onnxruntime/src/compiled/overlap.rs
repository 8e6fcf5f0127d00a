//! Results in the memory of inputs: an application may bind the same tensor as both.
//!
//! Engines read an input after they have begun to write results, so such a result is computed elsewhere and copied in the end. Caches
//! of the past, which are continued in place, are the exception.

use std::ffi::c_void;

use super::{Input, Output, Prepared, Ready, Subgraph};
use crate::failure::Result;
use crate::lowering::{Host, Place};
use crate::memory::Memory;

/// The alignment of results that are computed elsewhere.
const ALIGNMENT: usize = 64;

/// The inputs that an operation continues in place, each with its output.
pub(super) fn continued(stages: &[Ready]) -> Vec<(usize, usize)> {
    let pair = |stage: &Ready| match stage {
        Ready::Host { host: Host::Append, reads, writes, .. } => {
            match (reads.first()?.place, writes.first()?.place) {
                (Place::Input(from, 0), Place::Output(to, 0)) => Some((from, to)),
                _ => None,
            }
        }
        _ => None,
    };
    stages.iter().filter_map(pair).collect()
}

/// Whether two ranges of memory share a byte.
pub(super) fn overlap((a, a_bytes): (*const c_void, usize), (b, b_bytes): (*const c_void, usize)) -> bool {
    let (a, b) = (a.addr(), b.addr());
    a_bytes > 0 && b_bytes > 0 && a < b.saturating_add(b_bytes) && b < a.saturating_add(a_bytes)
}

impl Prepared {
    /// The place of an output among those whose size is only known after a run, and the axis of that size.
    fn late_place(&self, output: usize) -> Option<(usize, usize)> {
        let of = |(place, (at, axis)): (usize, &(usize, usize))| (*at == output).then_some((place, *axis));
        self.late.iter().enumerate().find_map(of)
    }

    /// Whether an output is made after a run, or is the size of one and behind the `count` of the model.
    pub(super) fn is_late(&self, output: usize, count: usize) -> bool {
        output >= count || self.late_place(output).is_some()
    }
}

impl Subgraph {
    /// For each output, whether it shares memory with an input that it does not continue.
    pub(super) fn overlapping(&self, prepared: &Prepared, inputs: &[Input], outputs: &[Output]) -> Vec<bool> {
        let sizes = self.output_sizes(&prepared.outputs);
        let changing: Vec<(usize, &Input)> =
            inputs.iter().enumerate().filter(|(at, _)| !self.is_constant(*at)).collect();
        let is_overlapping = |(at, (output, bytes)): (usize, (&Output, usize))| {
            let target = (output.data.cast_const(), bytes);
            changing.iter().any(|(from, input)| {
                let is_continued =
                    input.data == output.data.cast_const() && prepared.continued.contains(&(*from, at));
                input.is_on_gpu == output.is_on_gpu
                    && !is_continued
                    && overlap((input.data, input.bytes()), target)
            })
        };
        outputs.iter().zip(sizes).enumerate().map(is_overlapping).collect()
    }

    /// Calls `run` with scratch memory and the outputs, those that share memory with inputs placed in that memory from `first` on; and
    /// copies these at the end. `output` makes an output whose dimensions are known by then.
    ///
    /// # Safety
    /// Outputs have as many elements as their dimensions say.
    pub(super) unsafe fn beside(
        &self,
        prepared: &Prepared,
        (inputs, outputs): (&[Input], &[Output]),
        first: usize,
        run: impl FnOnce(&Memory, &[Output]) -> Result<()>,
        output: &mut impl FnMut(usize, &[i64]) -> Result<Output>,
    ) -> Result<()> {
        let mut elsewhere = self.overlapping(prepared, inputs, outputs);
        for (at, is) in elsewhere.iter_mut().enumerate() {
            *is |= prepared.is_late(at, self.model.outputs.len());
        }
        let sizes = self.output_sizes(&prepared.outputs);
        let mut end = first.next_multiple_of(ALIGNMENT);
        let mut place = |(is, bytes): (&bool, &usize)| {
            let begin = end;
            end += if *is { bytes.next_multiple_of(ALIGNMENT) } else { 0 };
            is.then_some(begin)
        };
        let places: Vec<Option<usize>> = elsewhere.iter().zip(&sizes).map(&mut place).collect();
        self.with_scratch(end, |scratch| {
            let moved = |(output, place): (&Output, &Option<usize>)| Output {
                data: place.map_or(output.data, |begin| scratch.as_ptr().wrapping_add(begin).cast()),
                ..*output
            };
            let own: Vec<Output> = outputs.iter().zip(&places).map(moved).collect();
            run(scratch, &own)?;
            let moved = own.iter().zip(outputs).zip(sizes).enumerate();
            for (at, ((from, to), bytes)) in moved.filter(|(_, ((a, b), _))| a.data != b.data) {
                if at >= self.model.outputs.len() {
                    // The size of one before.
                    continue;
                }
                let (mut to, mut bytes) = (*to, bytes);
                if let Some((place, axis)) = prepared.late_place(at) {
                    let size = own.get(self.model.outputs.len() + place);
                    // SAFETY: the run wrote the size, an output behind the model's, to memory with room for it.
                    let size = size.map(|of| unsafe { of.data.cast::<i64>().read_unaligned() });
                    let mut dims = prepared.outputs.get(at).cloned().unwrap_or_default();
                    let room =
                        dims.get_mut(axis).zip(size).filter(|(room, size)| (0..=**room).contains(size));
                    let (dim, size) = room.ok_or_else(|| self.failure("a result has no size"))?;
                    let of_one = bytes.checked_div(usize::try_from(*dim).unwrap_or(0)).unwrap_or(0);
                    bytes = of_one * usize::try_from(size).unwrap_or(0);
                    *dim = size;
                    to = output(at, &dims)?;
                }
                // SAFETY: outputs have as many elements as their dimensions say, as this function requires; the other memory is scratch
                // with room for it.
                unsafe { to.data.cast::<u8>().copy_from_nonoverlapping(from.data.cast(), bytes) };
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_overlap_where_they_share_a_byte() {
        let at = |address: usize| std::ptr::without_provenance::<c_void>(address);
        assert!(overlap((at(64), 8), (at(64), 8)) && overlap((at(64), 8), (at(71), 8)));
        assert!(!overlap((at(64), 8), (at(72), 8)) && !overlap((at(72), 8), (at(64), 8)));
        assert!(!overlap((at(64), 0), (at(64), 8)));
    }
}
