//! An epilogue of sums and an activation, as one loop over blocks of a kernel's results.

use std::marker::PhantomData;
use std::ops::Range;

use crate::layout::MAX_RANK;
use crate::pointwise::activation::{Bias, Run, SumsAndActivation};
use crate::pointwise::chain::Chain;
use crate::pointwise::elements::BlockEpilogue;
use crate::pointwise::functions::Functions;
use crate::problem::Operand;
use crate::simd::array::Each;
use crate::tensor::loop_nest::{Axes, LoopNest, Position};

/// The tensors: the first and the second summand, and the result.
const TENSORS: usize = 3;

/// The epilogue of a kernel.
pub(crate) struct Activated<T> {
    form: SumsAndActivation,
    /// The slots of the summands, if there are any.
    slots: [Option<usize>; 2],
    /// The slot of the result.
    output: usize,
    axes: Box<Axes<TENSORS>>,
    nest: Box<LoopNest<TENSORS>>,
    /// Computes boxes whose rows are not contiguous.
    general: Box<dyn BlockEpilogue>,
    compute: PhantomData<fn() -> T>,
}

impl<T: Functions> Activated<T> {
    /// The epilogue of a chain of this form; `general` computes the same.
    pub(crate) fn new(
        chain: &Chain,
        output: &Operand,
        form: SumsAndActivation,
        general: Box<dyn BlockEpilogue>,
    ) -> Self {
        let mut form = form;
        // A single sum may be with a whole tensor.
        let second = form.before[1].or(form.behind);
        let is_second = |input: usize| chain.inputs[input].strides == chain.inputs[0].strides;
        let (first, second) = match (form.before[0], second) {
            (Some(only), None) if is_second(only) => (None, Some(only)),
            both => both,
        };
        form.before = [first, second.filter(|_| form.behind.is_none())];
        let none = [0; MAX_RANK];
        let strides = |input: Option<usize>| input.map_or(&none, |input| &chain.inputs[input].strides);
        let strides = [strides(first), strides(second), output.layout.strides()];
        let axes = Box::new(Axes::new(output.layout.dims(), strides, TENSORS - 1));
        let nest = Box::new(axes.nest());
        let slots = [first, second].each(|input| input.map(|input| chain.inputs[input].slot));
        Self { form, slots, output: output.slot, axes, nest, general, compute: PhantomData }
    }

    /// Whether the rows of a nest are contiguous.
    fn has_rows(&self, nest: &LoopNest<TENSORS>) -> bool {
        let [first, second, output] = nest.inner_strides;
        let is_row = |slot: Option<usize>, stride: usize| slot.is_none() || stride == 1;
        output == 1 && (first == 0 || is_row(self.slots[0], first)) && is_row(self.slots[1], second)
    }

    /// Computes some elements of a nest with contiguous rows.
    ///
    /// # Safety
    /// As [`BlockEpilogue::run_on_box`], for the elements.
    unsafe fn part(
        &self,
        tensors: &[*mut u8],
        nest: &LoopNest<TENSORS>,
        base: [usize; TENSORS],
        elements: Range<usize>,
    ) {
        let first = self.slots.map(|slot| slot.map(|slot| tensors[slot].cast::<T>().cast_const()));
        let runs = Rows {
            nest,
            position: nest.position(elements.start / nest.len),
            first,
            output: tensors[self.output].cast(),
            base,
            elements,
        };
        let activation = &self.form.activation;
        // SAFETY: the tensors are those of the operation, and the elements are inside of them.
        unsafe { activation.run(activation.numbers(tensors), self.form.behind.is_some(), runs) };
    }
}

/// The rows of some elements.
struct Rows<'a, T> {
    nest: &'a LoopNest<TENSORS>,
    position: Position<TENSORS>,
    first: [Option<*const T>; 2],
    output: *mut T,
    base: [usize; TENSORS],
    elements: Range<usize>,
}

impl<T: Functions> Iterator for Rows<'_, T> {
    type Item = Run<T>;

    fn next(&mut self) -> Option<Run<T>> {
        if self.elements.is_empty() {
            return None;
        }
        let within = self.elements.start % self.nest.len;
        let len = (self.nest.len - within).min(self.elements.len());
        let offset = |tensor: usize| {
            self.base[tensor] + self.position.offsets[tensor] + within * self.nest.inner_strides[tensor]
        };
        let bias = match self.first[0].map(|first| first.wrapping_add(offset(0))) {
            None => Bias::None,
            // SAFETY: each of the task's elements has a bias.
            Some(bias) if self.nest.inner_strides[0] == 0 => Bias::One(unsafe { bias.read_unaligned() }),
            Some(bias) => Bias::Row(bias),
        };
        let residual = self.first[1].map_or(std::ptr::null(), |first| first.wrapping_add(offset(1)));
        let values = self.output.wrapping_add(offset(2));
        self.elements.start += len;
        self.nest.advance(&mut self.position);
        Some(Run { values, len, bias, residual })
    }
}

impl<T: Functions> BlockEpilogue for Activated<T> {
    unsafe fn run_on_box(&self, tensors: &[*mut u8], origin: &[usize], size: &[usize]) {
        let (nest, base) = self.axes.nest_of_box(origin, size);
        let elements = nest.runs() * nest.len;
        // SAFETY: this function requires the tensors and the box.
        unsafe {
            if self.has_rows(&nest) {
                self.part(tensors, &nest, base, 0..elements);
            } else {
                self.general.run_on_box(tensors, origin, size);
            }
        }
    }

    unsafe fn run_on_range(&self, tensors: &[*mut u8], elements: Range<usize>) {
        // SAFETY: this function requires the tensors and the elements.
        unsafe {
            if self.has_rows(&self.nest) {
                self.part(tensors, &self.nest, [0; TENSORS], elements);
            } else {
                self.general.run_on_range(tensors, elements);
            }
        }
    }

    fn time(&self) -> f64 {
        self.form.activation.time().min(self.general.time())
    }
}
