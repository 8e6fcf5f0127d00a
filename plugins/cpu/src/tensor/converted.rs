//! Kernels whose operands have unsupported dtypes: copies these to the compute type and results back.
//!
//! Algorithms need not support these dtypes. Constant weights are converted once.

use hipdnn_plugin_sdk::graph::{DataType, Tensor};

use crate::dtype::element::{Compute, with_compute};
use crate::kernel::{Choice, Facts, Kernel, MAX_TENSORS, Refusal};
use crate::layout::{Layout, storage_size};
use crate::problem::Operand;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::recode::Recode;
use crate::tensor::scratch::Scratch;
use crate::tensor::store::PackedForm;
use crate::threading::partition::Threads;

/// The most operands of a kernel. Converted copies are numbered after all of its tensors, because an epilogue
/// may also read an original tensor.
const MAX_COPIES: usize = 3;

/// The most bytes of a copy; sums of a few sizes cannot overflow.
const MAX_SIZE: usize = isize::MAX as usize / 8;

/// A kernel with converted operands.
pub(crate) struct Converted {
    kernel: Box<dyn Kernel>,
    copies: Vec<Copied>,
    /// Bytes of all copies; the scratch memory of the inner kernel begins after them.
    size: usize,
    constant: Option<Constant>,
}

/// Constant weights.
struct Constant {
    /// Index of the weights in `copies`.
    index: usize,
    /// The kernel that prepacks these weights. It runs only with the copy kept here, and ends before it: packed weights in
    /// a store are known by its address.
    kernel: Box<dyn Kernel>,
    /// Their converted copy.
    copy: Prepacked<u8>,
}

/// An operand that is converted.
struct Copied {
    slot: usize,
    /// Offset and size of its copy in the scratch memory.
    offset: usize,
    size: usize,
    is_result: bool,
    form: PackedForm,
    /// A kernel that reads the first of two tensors and writes the second.
    kernel: Box<dyn Kernel>,
}

/// The copies of operands.
pub(crate) struct Copies {
    compute: Compute,
    threads: Threads,
    scratch: Scratch,
    copies: Vec<Copied>,
}

impl Copies {
    pub(crate) fn new(compute: Compute, threads: Threads) -> Self {
        Self { compute, threads, scratch: Scratch::default(), copies: Vec::new() }
    }

    /// Replaces an operand with a copy in the compute type.
    pub(crate) fn convert(&mut self, operand: &mut Operand) -> Result<(), Refusal> {
        self.copy(operand, self.compute, false)
    }

    /// Does so for the result, in a type that holds its sums. Refuses an epilogue, which would read unrounded
    /// values.
    pub(crate) fn convert_result(
        &mut self,
        operand: &mut Operand,
        sums: Compute,
        has_epilogue: bool,
    ) -> Result<(), Refusal> {
        if has_epilogue {
            return Err(format!("the result is {}, expected a wider one", operand.data_type.name()));
        }
        self.copy(operand, sums, true)
    }

    fn copy(&mut self, operand: &mut Operand, compute: Compute, is_result: bool) -> Result<(), Refusal> {
        let (tensor, mut copy) = (*operand, packed(operand, compute)?);
        copy.slot = MAX_TENSORS + self.copies.len();
        // The conversion kernel has these two tensors.
        let (outer, inner) = (Operand { slot: 0, ..tensor }, Operand { slot: 1, ..copy });
        let ends = if is_result { [&inner, &outer] } else { [&outer, &inner] };
        let kernel: Box<dyn Kernel> =
            with_compute!(compute, T => Box::new(Recode::<T>::plan(ends, None, self.threads)?));
        let size = storage_size(copy.data_type, copy.layout.extent())?;
        if size > MAX_SIZE {
            return Err(format!("a copy of {} would have {size} bytes", tensor.data_type.name()));
        }
        let offset = self.scratch.area::<u8>(size, 1);
        let form = PackedForm::new("converted", 0).and([tensor.data_type as usize, compute as usize]);
        let form = form.and(tensor.layout.dims().iter().copied());
        let form =
            [&tensor, &copy].iter().fold(form, |form, of| form.and(of.layout.strides().iter().copied()));
        self.copies.push(Copied { slot: tensor.slot, offset, size, is_result, form, kernel });
        *operand = copy;
        Ok(())
    }

    /// Wraps the conversions around a kernel on the copies; `None` if there are none. `plan` learns whether
    /// the weights are constant.
    pub(crate) fn around(
        self,
        weights: usize,
        [constant_weights, shares_weights]: [bool; 2],
        plan: impl Fn(bool) -> Result<Box<dyn Kernel>, Refusal>,
    ) -> Result<Option<Converted>, Refusal> {
        let Self { copies, scratch, .. } = self;
        if copies.is_empty() {
            return Ok(None);
        }
        let index = copies.iter().position(|copied| copied.slot == weights && !copied.is_result);
        let constant = match index {
            Some(index) if constant_weights => {
                let form = shares_weights.then(|| copies[index].form.clone());
                let copy = Prepacked::new(copies[index].size, true, form);
                Some(Constant { index, kernel: plan(true)?, copy })
            }
            _ => None,
        };
        // Weights that need no conversion stay in the caller's memory.
        let kernel = plan(constant_weights && index.is_none())?;
        Ok(Some(Converted { kernel, copies, size: scratch.size(), constant }))
    }
}

/// A dense tensor of the same shape and dimension order. Broadcast dimensions stay broadcast.
fn packed(operand: &Operand, compute: Compute) -> Result<Operand, Refusal> {
    let data_type = match compute {
        Compute::Single => DataType::Float,
        Compute::Double => DataType::Double,
    };
    let dims: Vec<i64> = operand.layout.dims().iter().map(|dim| *dim as i64).collect();
    let mut axes: Vec<usize> = (0..dims.len()).collect();
    axes.sort_by_key(|axis| operand.layout.strides()[*axis]);
    let (mut strides, mut elements) = (vec![0; dims.len()], 1_i64);
    for axis in axes.into_iter().filter(|axis| operand.layout.strides()[*axis] > 0) {
        strides[axis] = elements;
        elements = elements.saturating_mul(dims[axis]);
    }
    let layout = Layout::of(&Tensor::new(0, data_type, &dims, &strides))?;
    Ok(Operand { data_type, layout, ..*operand })
}

impl Copied {
    /// Converts the tensor into its copy, or vice versa.
    ///
    /// # Safety
    /// Both pointers are valid for their tensors.
    unsafe fn run(&self, tensor: *mut u8, copy: *mut u8) {
        // SAFETY: both tensors are valid; the kernel of a copy needs no scratch memory.
        unsafe { self.kernel.run(&[tensor, copy], std::ptr::null_mut()) };
    }
}

impl Kernel for Converted {
    fn facts(&self) -> Facts {
        self.kernel.facts()
    }

    fn scratch_size(&self) -> usize {
        let constant = self.constant.as_ref().map_or(0, |constant| constant.kernel.scratch_size());
        self.size.saturating_add(self.kernel.scratch_size().max(constant))
    }

    fn choices(&self) -> Vec<&Choice> {
        self.kernel.choices()
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let mut pointers = [std::ptr::null_mut(); MAX_TENSORS + MAX_COPIES];
        pointers[..tensors.len()].copy_from_slice(tensors);
        let mut kernel = &self.kernel;
        for (index, copied) in self.copies.iter().enumerate() {
            let (tensor, copy) = (tensors[copied.slot], scratch.wrapping_add(copied.offset));
            pointers[MAX_TENSORS + index] = copy;
            // SAFETY: this function requires the tensor, and the memory has room for its copy.
            unsafe {
                match &self.constant {
                    _ if copied.is_result => {}
                    Some(constant) if constant.index == index => {
                        let fill = |to| {
                            copied.run(tensor, to);
                            true
                        };
                        let (prepacked, _) = constant.copy.get(tensor, copy, fill);
                        if !std::ptr::eq(prepacked, copy) {
                            pointers[MAX_TENSORS + index] = prepacked.cast_mut();
                            kernel = &constant.kernel;
                        }
                    }
                    _ => copied.run(tensor, copy),
                }
            }
        }
        // SAFETY: the inner kernel gets the tensors that it was planned for and the memory after the copies;
        // operands are copied.
        unsafe {
            kernel.run(&pointers, scratch.add(self.size));
            for (copied, copy) in self.copies.iter().zip(&pointers[MAX_TENSORS..]) {
                if copied.is_result {
                    copied.run(tensors[copied.slot], *copy);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(dims: &[i64], strides: &[i64]) -> Operand {
        let tensor = Tensor::new(1, DataType::Boolean, dims, strides);
        Operand { slot: 0, data_type: tensor.data_type, layout: Layout::of(&tensor).unwrap() }
    }

    #[test]
    fn broadcasts_are_kept_and_too_large_copies_are_refused() {
        let mut copies = Copies::new(Compute::Single, Threads::default());
        let mut shared = operand(&[64, 8, 4], &[0, 4, 1]);
        copies.convert(&mut shared).unwrap();
        assert_eq!(shared.layout.strides(), [0, 4, 1]);
        assert_eq!(copies.copies[0].size, 8 * 4 * 4);
        let mut huge = operand(&[1, (1 << 61) - 1], &[1, 1]);
        assert!(copies.convert(&mut huge).unwrap_err().contains("bytes"));
    }
}
