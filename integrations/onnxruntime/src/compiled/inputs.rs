//! The inputs of a run: the application's tensors, checked against the compiled subgraph, and the integers that decide shapes.

use std::ffi::c_void;
use std::sync::Arc;

use super::Subgraph;
use crate::failure::Result;
use crate::lowering::elements;
use crate::memory::Memory;
use crate::model::{Element, Kept};
use crate::partition::known;

/// The most integers of an input that decides a shape.
const MOST_INTEGERS: usize = 4096;

/// Where ONNX Runtime keeps a session's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// On the host: all of them.
    Host,
    /// On the GPU that computes: constants, and tensors between nodes of the provider.
    Gpu,
}

/// A tensor of the application.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its dimensions.
    pub dims: Vec<i64>,
    /// The type of its elements.
    pub element: Option<Element>,
    /// Its first element.
    pub data: *const c_void,
    /// Whether it is in GPU memory.
    pub is_on_gpu: bool,
}

/// Memory for a result.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Its first element.
    pub data: *mut c_void,
    /// Whether it is in GPU memory.
    pub is_on_gpu: bool,
}

impl Output {
    /// One that is made after the run.
    pub const LATER: Self = Self { data: std::ptr::null_mut(), is_on_gpu: false };
}

impl Input {
    /// The bytes of its elements.
    pub fn bytes(&self) -> usize {
        let size = self.element.map_or(0, |element| element.size());
        usize::try_from(elements(&self.dims)).unwrap_or(0) * size
    }
}

impl Subgraph {
    /// Where ONNX Runtime keeps its tensors.
    pub fn residence(&self) -> Residence {
        self.residence
    }

    /// Drops references to large constants: ONNX Runtime moves them to the GPU once everything is compiled.
    pub(super) fn forget_constants(&mut self) {
        if self.residence == Residence::Gpu {
            self.model.values.iter_mut().for_each(|value| value.kept = None);
        }
    }

    /// Copies large constants, for plans that are made later.
    pub(super) fn keep_constants(&mut self) -> Result<()> {
        if self.residence == Residence::Gpu {
            for value in &mut self.model.values {
                if let Some(kept) = &value.kept {
                    value.kept = Some(Kept::of(Arc::new(Memory::of(kept.bytes())?), kept.bytes().len()));
                }
            }
        }
        Ok(())
    }

    /// The integers of an input, on the host or the GPU.
    ///
    /// # Safety
    /// The input's memory has as many elements as its dimensions say.
    pub(super) unsafe fn integers_of(&self, input: Option<&Input>) -> Result<Vec<i64>> {
        let Some((input, on_gpu)) = input.filter(|input| input.is_on_gpu).zip(self.on_gpu.as_ref()) else {
            // SAFETY: the input's memory has as many elements as its dimensions say, as this function requires; it is on the host here.
            return unsafe { self.integers(input) };
        };
        // Words, so that integers are aligned; longer lists are not copied.
        let mut words = vec![0_u64; input.bytes().min(8 * MOST_INTEGERS).div_ceil(8)];
        if !words.is_empty() && input.bytes() <= 8 * MOST_INTEGERS {
            // SAFETY: the input's memory has as many elements as its dimensions say, as this function requires; the words have room for
            // their bytes.
            unsafe { on_gpu.download(words.as_mut_ptr().cast(), input.data, input.bytes()) }?;
        }
        let copy = Input { data: words.as_ptr().cast(), is_on_gpu: false, ..input.clone() };
        // SAFETY: the copy has the elements, unless there are too many.
        unsafe { self.integers(Some(&copy)) }
    }

    /// The integers of an input, or the bits of its floats; none if they are more than a shape has.
    ///
    /// # Safety
    /// The input's memory has as many elements as its dimensions say.
    unsafe fn integers(&self, input: Option<&Input>) -> Result<Vec<i64>> {
        let input = input.ok_or_else(|| self.failure("an input is absent"))?;
        let count = usize::try_from(elements(&input.dims)).unwrap_or(usize::MAX);
        if count > MOST_INTEGERS {
            // Not a shape. A node that needs it as one fails to build.
            return Ok(Vec::new());
        }
        if count > 0 && input.data.is_null() {
            return Err(self.failure("a shape has no memory"));
        }
        // SAFETY: the input's memory has as many elements as its dimensions say, as this function requires.
        let read = |at: usize| unsafe {
            match input.element {
                Some(Element::Int64) => Some(input.data.cast::<i64>().add(at).read_unaligned()),
                Some(Element::Int32) => Some(i64::from(input.data.cast::<i32>().add(at).read_unaligned())),
                Some(Element::Float) => Some(i64::from(input.data.cast::<u32>().add(at).read_unaligned())),
                _ => None,
            }
        };
        let integers = (0..count).map(read).collect::<Option<Vec<_>>>();
        integers.ok_or_else(|| self.failure("a shape is of other elements than int64, int32 or float"))
    }

    /// Checks a run's inputs against the compiled subgraph.
    pub(super) fn verify(&self, inputs: &[Input]) -> Result<()> {
        if inputs.len() != self.model.inputs.len() {
            let expected = self.model.inputs.len();
            return Err(self.failure(&format!("{} inputs, expected {expected}", inputs.len())));
        }
        for (id, input) in self.model.inputs.iter().zip(inputs) {
            let Some(value) = self.model.values.get(*id) else { continue };
            if input.element.is_none() || input.element != value.element {
                return Err(
                    self.failure(&format!("input {:?} has another type than the model says", value.name))
                );
            }
            let constant = value.dims.as_deref().and_then(known).filter(|_| value.is_constant);
            if constant.is_some_and(|dims| dims != input.dims) {
                return Err(self.failure(&format!("constant {:?} has other dimensions", value.name)));
            }
        }
        Ok(())
    }
}
