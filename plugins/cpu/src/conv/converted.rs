//! Convolutions of 8-bit floats: the operands are converted to the compute type, then convolved.
//!
//! No other algorithm has to know of 8-bit floats. Constant weights are converted once.

use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode, Tensor};

use crate::dtype::element::{Compute, is_float_of_eight_bits};
use crate::kernel::{Choice, Facts, Kernel, MAX_TENSORS, Refusal};
use crate::layout::{Layout, MAX_RANK, storage_size};
use crate::pointwise::chain::{Chain, Value};
use crate::pointwise::{Epilogue, plan_chain};
use crate::problem::Operand;
use crate::problem::convolution::{Convolution, Direction};
use crate::problem::pointwise::Broadcast;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::scratch::Scratch;
use crate::threading::partition::Threads;

/// The operands of a convolution. Their converted copies are numbered after all tensors of the kernel, because an
/// epilogue may also read one of the original tensors.
const MAX_COPIES: usize = 3;

/// A convolution of converted operands.
pub(crate) struct Converted {
    convolution: Box<dyn Kernel>,
    copies: Vec<Copied>,
    /// Bytes of all copies; the scratch memory of the inner convolution begins after them.
    size: usize,
    constant: Option<Constant>,
}

/// Constant weights.
struct Constant {
    /// Index of the weights in `copies`.
    place: usize,
    /// Their converted copy.
    copy: Prepacked<u8>,
    /// The convolution that prepacks these weights. It runs only with the copy kept here.
    convolution: Box<dyn Kernel>,
}

/// An operand that is converted.
struct Copied {
    slot: usize,
    /// Offset and size of its copy in the scratch memory.
    offset: usize,
    size: usize,
    is_result: bool,
    /// Reads the first of two tensors and writes the second.
    kernel: Box<dyn Kernel>,
}

/// Plans a convolution whose operands need no conversion.
pub(crate) type PlanConv =
    fn(&Convolution, Compute, Isa, Settings, Option<Epilogue>) -> Result<Box<dyn Kernel>, Refusal>;

impl Converted {
    /// Plans the conversions and the convolution; `None` if no operand is an 8-bit float.
    pub(crate) fn plan(
        convolution: &Convolution,
        compute: Compute,
        isa: Isa,
        settings: Settings,
        epilogue: Option<Epilogue>,
        plan_conv: PlanConv,
    ) -> Result<Option<Self>, Refusal> {
        let mut converted = *convolution;
        let result = match convolution.direction {
            Direction::Forward => convolution.y.slot,
            Direction::BackwardData => convolution.x.slot,
            Direction::BackwardFilter => convolution.w.slot,
        };
        let (mut scratch, mut copies) = (Scratch::default(), Vec::new());
        for operand in [&mut converted.x, &mut converted.w, &mut converted.y] {
            if !is_float_of_eight_bits(operand.data_type) {
                continue;
            }
            let (tensor, mut copy) = (*operand, packed(operand, compute)?);
            copy.slot = MAX_TENSORS + copies.len();
            let is_result = operand.slot == result;
            if is_result && epilogue.is_some() {
                // An epilogue reads the result before it would be rounded to 8 bits.
                return Err(format!("the result is {}, expected a wider one", operand.data_type.name()));
            }
            let ends = if is_result { [copy, tensor] } else { [tensor, copy] };
            let size = storage_size(copy.data_type, copy.layout.elements())?;
            copies.push(Copied {
                slot: operand.slot,
                offset: scratch.area::<u8>(size, 1),
                size,
                is_result,
                kernel: plan_copy(ends, compute, isa, settings.threads)?,
            });
            *operand = copy;
        }
        if copies.is_empty() {
            return Ok(None);
        }
        let plan = |constant_weights| {
            plan_conv(&converted, compute, isa, Settings { constant_weights, ..settings }, epilogue)
        };
        let is_weights = |copied: &Copied| copied.slot == convolution.w.slot && !copied.is_result;
        let weights = copies.iter().position(is_weights);
        let constant = match weights {
            Some(place) if settings.constant_weights => Some(Constant {
                place,
                copy: Prepacked::new(copies[place].size, true),
                convolution: plan(true)?,
            }),
            _ => None,
        };
        // Weights that need no conversion stay in the caller's memory.
        let is_constant = settings.constant_weights && weights.is_none();
        let size = scratch.size();
        Ok(Some(Self { convolution: plan(is_constant)?, copies, size, constant }))
    }
}

/// A dense tensor of the same shape with its dimensions in the same order.
fn packed(operand: &Operand, compute: Compute) -> Result<Operand, Refusal> {
    let data_type = match compute {
        Compute::Single => DataType::Float,
        Compute::Double => DataType::Double,
    };
    let dims: Vec<i64> = operand.layout.dims().iter().map(|dim| *dim as i64).collect();
    let mut axes: Vec<usize> = (0..dims.len()).collect();
    axes.sort_by_key(|axis| operand.layout.strides()[*axis]);
    let (mut strides, mut elements) = (vec![0; dims.len()], 1_i64);
    for axis in axes {
        strides[axis] = elements;
        elements = elements.saturating_mul(dims[axis]);
    }
    let layout = Layout::of(&Tensor::new(0, data_type, &dims, &strides))?;
    Ok(Operand { data_type, layout, ..*operand })
}

/// Plans the conversion of one tensor to another of the same shape.
fn plan_copy(
    [from, to]: [Operand; 2],
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    let mut strides = [0; MAX_RANK];
    strides[..from.layout.rank()].copy_from_slice(from.layout.strides());
    let mut chain = Chain::default();
    let value: Value = chain.input(&Broadcast { operand: Operand { slot: 0, ..from }, strides });
    chain.push_mode(PointwiseMode::Identity, vec![value], to.data_type);
    plan_chain(&chain, &Operand { slot: 1, ..to }, compute, isa, threads)
}

impl Copied {
    /// Converts the tensor into its copy, or the other way round.
    ///
    /// # Safety
    /// Both pointers are valid for their tensors.
    unsafe fn run(&self, tensor: *mut u8, copy: *mut u8) {
        let ends = if self.is_result { [copy, tensor] } else { [tensor, copy] };
        // SAFETY: passed on. A copy has no memory of its own.
        unsafe { self.kernel.run(&ends, std::ptr::null_mut()) };
    }
}

impl Kernel for Converted {
    fn facts(&self) -> Facts {
        self.convolution.facts()
    }

    fn scratch_size(&self) -> usize {
        let constant = self.constant.as_ref().map_or(0, |constant| constant.convolution.scratch_size());
        self.size + self.convolution.scratch_size().max(constant)
    }

    fn choices(&self) -> Vec<&Choice> {
        self.convolution.choices()
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let mut pointers = [std::ptr::null_mut(); MAX_TENSORS + MAX_COPIES];
        pointers[..tensors.len()].copy_from_slice(tensors);
        let mut convolution = &self.convolution;
        // SAFETY: this function requires the tensors, the memory has room for the copies, and what is behind
        // them is the convolution's own. Its tensors are those that it was planned for.
        unsafe {
            for (place, copied) in self.copies.iter().enumerate() {
                let (tensor, copy) = (tensors[copied.slot], scratch.add(copied.offset));
                pointers[MAX_TENSORS + place] = copy;
                match &self.constant {
                    _ if copied.is_result => {}
                    Some(constant) if constant.place == place => {
                        let fill = |to| {
                            copied.run(tensor, to);
                            true
                        };
                        let (prepacked, _) = constant.copy.get(tensor, copy, fill);
                        if !std::ptr::eq(prepacked, copy) {
                            pointers[MAX_TENSORS + place] = prepacked.cast_mut();
                            convolution = &constant.convolution;
                        }
                    }
                    _ => copied.run(tensor, copy),
                }
            }
            convolution.run(&pointers, scratch.add(self.size));
            for (copied, copy) in self.copies.iter().zip(&pointers[MAX_TENSORS..]) {
                if copied.is_result {
                    copied.run(tensors[copied.slot], *copy);
                }
            }
        }
    }
}
