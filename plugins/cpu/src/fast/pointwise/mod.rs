//! An operation on each element.

mod functions;
mod mode;

#[cfg(test)]
mod tests;

use self::functions::Functions;
use self::mode::Mode;
use super::lanes::{Lanes, Threads};
use super::level::Level;
use super::nest::Nest;
use super::real::{FastReal, Run};
use super::scratch::Tensors;
use crate::element::Compute;
use crate::kernel::{Kernel, Refusal};
use crate::problem::Operand;
use crate::problem::pointwise::Pointwise;
use crate::reference::Numbers;

/// Numbers in a buffer for what is not read or written in place.
const BUFFER: usize = 512;

/// Plans a pointwise operation for a level of the processor.
pub(super) fn plan(
    pointwise: &Pointwise,
    compute: Compute,
    level: Level,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    match compute {
        Compute::Single => Ok(Box::new(Elements::<f32>::plan(pointwise, level, threads)?)),
        Compute::Double => Ok(Box::new(Elements::<f64>::plan(pointwise, level, threads)?)),
    }
}

/// How an operand of the inner loop becomes numbers side by side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// It is.
    InPlace,
    /// One number repeats.
    Repeated,
    /// The elements are converted or brought together.
    Copied,
}

/// A tensor of the operation.
struct Memory<T> {
    slot: usize,
    run: Run<T>,
    access: Access,
}

impl<T: FastReal> Memory<T> {
    fn of(operand: &Operand, apart: usize) -> Result<Self, Refusal> {
        let run = Run::of_number(operand.data_type)?;
        let access = match apart {
            0 => Access::Repeated,
            1 if run.same => Access::InPlace,
            _ => Access::Copied,
        };
        Ok(Self { slot: operand.slot, run, access })
    }
}

/// A pointwise operation with every decision made.
struct Elements<T> {
    mode: Mode<T>,
    /// The loops over the operands and, last, the result.
    nest: Nest<4>,
    inputs: Vec<Memory<T>>,
    output: Memory<T>,
    /// Elements that are computed at once.
    chunk: usize,
    lanes: Lanes,
}

impl<T: Functions> Elements<T> {
    fn plan(pointwise: &Pointwise, level: Level, threads: Threads) -> Result<Self, Refusal> {
        let layout = &pointwise.output.layout;
        let none = [0; crate::layout::MAX_RANK];
        let strides = |i: usize| pointwise.inputs.get(i).map_or(&none, |input| &input.strides);
        let nest = Nest::new(layout.dims(), [strides(0), strides(1), strides(2), layout.strides()], 3);
        let numbers = Numbers::of(&pointwise.activation);
        let mode = Mode::of(pointwise.mode, numbers, level)
            .ok_or_else(|| format!("{} is no function of its operands", pointwise.mode.name()))?;
        let inputs = pointwise.inputs.iter().zip(nest.apart);
        let inputs =
            inputs.map(|(input, apart)| Memory::of(&input.operand, apart)).collect::<Result<Vec<_>, _>>()?;
        let mut output = Memory::of(&pointwise.output, nest.apart[3])?;
        if output.access == Access::Repeated {
            // One element, whatever its stride.
            output.access = Access::Copied;
        }
        let in_place = |memory: &Memory<T>| memory.access == Access::InPlace;
        let chunk = if inputs.iter().all(in_place) && in_place(&output) { usize::MAX } else { BUFFER };
        let copies = inputs.iter().chain([&output]).filter(|memory| memory.access == Access::Copied).count();
        let elements = layout.elements();
        let time = elements as f64 * (mode.time + copies as f64);
        let lanes = threads.lanes(time, elements.div_ceil(BUFFER));
        Ok(Self { mode, nest, inputs, output, chunk, lanes })
    }

    /// Computes some elements, counted in the order of the loops.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    unsafe fn part(&self, tensors: &[*mut u8], elements: std::ops::Range<usize>) {
        let mut buffers = [[T::ZERO; BUFFER]; 4];
        // The element that a repeated operand's buffer is full of, and how full.
        let mut repeated = [(usize::MAX, 0); 3];
        let mut at = elements.start;
        let mut place = self.nest.place(at / self.nest.len);
        while at < elements.end {
            let first = at % self.nest.len;
            let end = self.nest.len.min(first + (elements.end - at));
            let mut from = first;
            while from < end {
                let len = (end - from).min(self.chunk);
                // SAFETY: the elements are inside the tensors; chunks are no longer than the buffers unless every operand is
                // used in place.
                unsafe {
                    let offset = |i: usize| place.offsets[i] + from * self.nest.apart[i];
                    let [output_buffer, input_buffers @ ..] = &mut buffers;
                    let mut operands = [std::ptr::null(); 3];
                    for (i, (input, buffer)) in self.inputs.iter().zip(input_buffers).enumerate() {
                        let base = tensors[input.slot].cast_const().add(offset(i) * input.run.size);
                        operands[i] = match input.access {
                            Access::InPlace => base.cast(),
                            Access::Repeated => {
                                if repeated[i].0 != offset(i) || repeated[i].1 < len {
                                    (input.run.load)(base, 0, buffer.as_mut_ptr(), 1);
                                    let number = buffer[0];
                                    buffer[..len].fill(number);
                                    repeated[i] = (offset(i), len);
                                }
                                buffer.as_ptr()
                            }
                            Access::Copied => {
                                (input.run.load)(base, self.nest.apart[i], buffer.as_mut_ptr(), len);
                                buffer.as_ptr()
                            }
                        };
                    }
                    for i in self.inputs.len()..3 {
                        operands[i] = operands[0];
                    }
                    let to = tensors[self.output.slot].add(offset(3) * self.output.run.size);
                    if self.output.access == Access::InPlace {
                        self.mode.run(operands, to.cast(), len);
                    } else {
                        self.mode.run(operands, output_buffer.as_mut_ptr(), len);
                        (self.output.run.store)(output_buffer.as_ptr(), to, self.nest.apart[3], len);
                    }
                }
                from += len;
            }
            at += end - first;
            self.nest.advance(&mut place);
        }
    }
}

impl<T: Functions> Kernel for Elements<T> {
    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let shared = Tensors(tensors);
        let elements = self.nest.runs() * self.nest.len;
        self.lanes.run(|lane| {
            // SAFETY: the caller promises the tensors; each lane computes elements of its own.
            unsafe { self.part(shared.all(), self.lanes.share(lane, elements)) };
        });
    }
}
