//! Results in the memory of inputs: an application may bind the same tensor as both.
//!
//! Engines read an input after they have begun to write results, so such a result is computed elsewhere and copied in the end. Caches
//! of the past, which are continued in place, are the exception.

use std::ffi::c_void;

use super::{Input, Output, Prepared, Ready, Subgraph};
use crate::failure::Result;
use crate::lowering::{Host, Place};
use crate::memory::Memory;
use crate::model::{Model, ValueId};
use crate::operators::is_open;
use crate::steps::END;

/// The outputs of operations whose number of results is only known afterwards.
pub(super) fn open_outputs(model: &Model) -> Vec<usize> {
    let late: Vec<_> =
        model.nodes.iter().filter(|node| is_open(node)).flat_map(|node| &node.outputs).collect();
    let is_late = |id: &ValueId| late.contains(&&Some(*id));
    model.outputs.iter().enumerate().filter(|(_, id)| is_late(id)).map(|(at, _)| at).collect()
}

/// The rows of three integers before the one that ends them.
///
/// # Safety
/// The memory has this many bytes, written as integers up to the end.
unsafe fn rows(data: *const c_void, bytes: usize) -> usize {
    let row = |at: &usize| {
        // SAFETY: the row is inside of the memory, and none before was the end.
        unsafe { data.cast::<i64>().wrapping_add(3 * at).read_unaligned() }
    };
    let room = bytes / ROW;
    (0..room).find(|at| row(at) == END).unwrap_or(room)
}

/// The alignment of results that are computed elsewhere.
const ALIGNMENT: usize = 64;

/// The bytes of a row of three integers.
const ROW: usize = 24;

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
fn overlap((a, a_bytes): (*const c_void, usize), (b, b_bytes): (*const c_void, usize)) -> bool {
    let (a, b) = (a.addr(), b.addr());
    a_bytes > 0 && b_bytes > 0 && a < b.saturating_add(b_bytes) && b < a.saturating_add(a_bytes)
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
    /// copies these at the end. `output` makes an output whose number of rows is known by then.
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
        for at in &self.open {
            elsewhere.iter_mut().skip(*at).take(1).for_each(|is| *is = true);
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
                let (mut to, mut bytes) = (*to, bytes);
                if self.open.contains(&at) {
                    // SAFETY: the run wrote the rows, and their end.
                    let rows = unsafe { rows(from.data, bytes) };
                    to = output(at, &[i64::try_from(rows).unwrap_or(0), 3])?;
                    bytes = rows * ROW;
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
