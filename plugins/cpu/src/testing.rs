//! What the kernels' tests have in common.

use half::{bf16, f16};
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor};

use crate::dtype::element::Element;
use crate::fusion::graph::parts_at;
use crate::fusion::node::plan_node_at;
use crate::kernel::{Kernel, Refusal};
use crate::plan::steps::Plan;
use crate::prepare::{CheckedNode, prepare};
use crate::problem::Problem;
use crate::problem::convolution::Convolution;
use crate::problem::matmul::Matmul;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::simd::vector::{Vector, VectorTask};

/// Numbers that look random and are the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn within(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() as usize) % (high - low + 1)
    }

    /// One of several.
    pub(crate) fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.within(0, items.len() - 1)]
    }

    /// A small whole number, so that sums of products are exact.
    pub(crate) fn whole(&mut self) -> f64 {
        self.within(0, 6) as f64 - 3.0
    }

    /// A number from -3 to 3.
    pub(crate) fn real(&mut self) -> f64 {
        (self.next() % 60_001) as f64 / 10_000.0 - 3.0
    }
}

/// The floats of 8 bits.
pub(crate) const EIGHT_BITS: [DataType; 4] =
    [DataType::Fp8E4m3, DataType::Fp8E5m2, DataType::Fp8E4m3Fnuz, DataType::Fp8E5m2Fnuz];

/// Strides for an order of the dimensions, the first of `order` being the farthest apart, with `gap` elements between rows.
pub(crate) fn strides(dims: &[i64], order: &[usize], gap: i64) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut next = 1;
    for (i, axis) in order.iter().rev().enumerate() {
        strides[*axis] = next;
        next *= dims[*axis];
        if i == 0 {
            next += gap;
        }
    }
    strides
}

/// Dimension orders of [N, C, ...]: channels first, channels last, and one that nobody uses.
pub(crate) fn order(rank: usize, which: usize) -> Vec<usize> {
    match which {
        0 => (0..rank).collect(),
        1 if rank > 1 => std::iter::once(0).chain(2..rank).chain(std::iter::once(1)).collect(),
        _ => (0..rank).rev().collect(),
    }
}

/// A function of numbers of single precision, computed on vectors.
pub(crate) trait Function: Copy {
    /// The function of each lane.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    unsafe fn of<V: Vector<Scalar = f32>>(self, x: V) -> V;
}

/// A function of each of some numbers.
struct Each<'a, F>(F, &'a mut [f32]);

impl<F: Function> VectorTask<f32> for Each<'_, F> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = f32>>(self) {
        for chunk in self.1.chunks_mut(V::LANES) {
            let mut numbers = [0.0; 16];
            numbers[..chunk.len()].copy_from_slice(chunk);
            // SAFETY: the vector is no longer than the numbers, and run at its instruction set.
            unsafe { self.0.of(V::load(numbers.as_ptr())).store(numbers.as_mut_ptr()) };
            chunk.copy_from_slice(&numbers[..chunk.len()]);
        }
    }
}

/// A function of each of some numbers, at an instruction set that the processor supports.
pub(crate) fn each(isa: Isa, function: impl Function, x: &[f32]) -> Vec<f32> {
    let mut y = x.to_vec();
    // SAFETY: only levels that the processor has are tested.
    unsafe { isa.run_vectors(Each(function, &mut y)) };
    y
}

/// A tensor with memory.
#[derive(Clone)]
pub(crate) struct Array {
    pub(crate) tensor: Tensor,
    bytes: Vec<u8>,
}

impl Array {
    pub(crate) fn new(uid: i64, data_type: DataType, dims: &[i64], strides: &[i64]) -> Self {
        let last: i64 = dims.iter().zip(strides).map(|(d, s)| (d - 1) * s).sum();
        let size = (last as usize + 1) * data_type.size().unwrap();
        // An odd first byte, so that no kernel relies on alignment.
        Self { tensor: Tensor::new(uid, data_type, dims, strides), bytes: vec![0xAB; size + 1] }
    }

    pub(crate) fn filled(mut self, mut number: impl FnMut() -> f64) -> Self {
        let mut index = vec![0; self.tensor.dims.len()];
        loop {
            self.set(&index, number());
            if !self.advance(&mut index) {
                return self;
            }
        }
    }

    /// All indices, the last dimension fastest.
    pub(crate) fn indices(&self) -> Vec<Vec<usize>> {
        let mut index = vec![0; self.tensor.dims.len()];
        let mut indices = vec![index.clone()];
        while self.advance(&mut index) {
            indices.push(index.clone());
        }
        indices
    }

    /// All numbers, the last dimension fastest.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        let mut index = vec![0; self.tensor.dims.len()];
        let mut numbers = Vec::new();
        loop {
            numbers.push(self.get(&index));
            if !self.advance(&mut index) {
                return numbers;
            }
        }
    }

    /// The address of the first element.
    pub(crate) fn first(&mut self) -> *mut u8 {
        self.bytes[1..].as_mut_ptr()
    }

    fn advance(&self, index: &mut [usize]) -> bool {
        for (i, dim) in index.iter_mut().zip(&self.tensor.dims).rev() {
            *i += 1;
            if *i < *dim as usize {
                return true;
            }
            *i = 0;
        }
        false
    }

    fn place(&self, index: &[usize]) -> usize {
        let offset: usize = index.iter().zip(&self.tensor.strides).map(|(i, s)| i * *s as usize).sum();
        1 + offset * self.tensor.data_type.size().unwrap()
    }

    pub(crate) fn get(&self, index: &[usize]) -> f64 {
        let at = &self.bytes[self.place(index)..];
        match self.tensor.data_type {
            DataType::Float => f64::from(f32::from_ne_bytes(at[..4].try_into().unwrap())),
            DataType::Double => f64::from_ne_bytes(at[..8].try_into().unwrap()),
            DataType::Half => f16::from_ne_bytes(at[..2].try_into().unwrap()).to_f64(),
            DataType::Bfloat16 => bf16::from_ne_bytes(at[..2].try_into().unwrap()).to_f64(),
            DataType::Boolean => f64::from(at[0]),
            DataType::Int8 => f64::from(at[0].cast_signed()),
            DataType::Uint8 => f64::from(at[0]),
            DataType::Int32 => f64::from(i32::from_ne_bytes(at[..4].try_into().unwrap())),
            other => {
                assert!(at.len() >= other.size().unwrap());
                // SAFETY: the element is inside the array.
                unsafe { Element::<f64>::of(other).unwrap().load(at.as_ptr(), 0) }
            }
        }
    }

    pub(crate) fn set(&mut self, index: &[usize], number: f64) {
        let place = self.place(index);
        let at = &mut self.bytes[place..];
        match self.tensor.data_type {
            DataType::Float => at[..4].copy_from_slice(&(number as f32).to_ne_bytes()),
            DataType::Double => at[..8].copy_from_slice(&number.to_ne_bytes()),
            DataType::Half => at[..2].copy_from_slice(&f16::from_f64(number).to_ne_bytes()),
            DataType::Bfloat16 => at[..2].copy_from_slice(&bf16::from_f64(number).to_ne_bytes()),
            DataType::Boolean => at[0] = u8::from(number != 0.0),
            DataType::Int8 => at[0] = (number as i8).cast_unsigned(),
            DataType::Uint8 => at[0] = number as u8,
            DataType::Int32 => at[..4].copy_from_slice(&(number as i32).to_ne_bytes()),
            other => {
                assert!(at.len() >= other.size().unwrap());
                // SAFETY: the element is inside the array.
                unsafe { Element::<f64>::of(other).unwrap().store(at.as_mut_ptr(), 0, number) };
            }
        }
    }

    /// Writes an element of 8 bits as it is stored.
    pub(crate) fn set_code(&mut self, index: &[usize], code: u8) {
        assert_eq!(self.tensor.data_type.size(), Some(1));
        let place = self.place(index);
        self.bytes[place] = code;
    }

    /// What a number becomes when it is stored.
    pub(crate) fn rounded(&self, number: f64) -> f64 {
        match self.tensor.data_type {
            DataType::Float => f64::from(number as f32),
            DataType::Half => f16::from_f64(number).to_f64(),
            DataType::Bfloat16 => bf16::from_f64(number).to_f64(),
            DataType::Int32 => f64::from(number as i32),
            DataType::Int8 => f64::from(number as i8),
            DataType::Uint8 => f64::from(number as u8),
            DataType::Double | DataType::Boolean => number,
            other => {
                let mut element = Self::new(0, other, &[1], &[1]);
                element.set(&[0], number);
                element.get(&[0])
            }
        }
    }
}

/// Plans the operation and runs it on the arrays. The scratch memory is full of NaN before.
pub(crate) fn run(
    operation: Operation,
    compute_type: DataType,
    isa: Isa,
    arrays: &mut [Array],
) -> Result<(), Refusal> {
    run_planned(operation, compute_type, arrays, |graph, node| {
        plan_node_at(graph, node, isa, Settings::default())
    })
}

/// The same as another planner has it.
pub(crate) fn run_planned(
    operation: Operation,
    compute_type: DataType,
    arrays: &mut [Array],
    plan: impl FnOnce(&Graph, &CheckedNode<'_>) -> Result<Box<dyn Kernel>, Refusal>,
) -> Result<(), Refusal> {
    let order = operation.tensors();
    let graph = Graph { tensors: arrays.iter().map(|a| a.tensor.clone()).collect(), ..Graph::default() };
    let node = Node { name: String::new(), compute_type, operation };
    let problem = Problem::of(&graph, &node.operation)?;
    let kernel = plan(&graph, &CheckedNode { place: 0, node: &node, problem: &problem })?;
    let mut scratch = vec![0xFF_u8; kernel.scratch_size() + 128];
    let aligned = scratch.as_ptr().align_offset(64);
    let tensors: Vec<*mut u8> = order
        .iter()
        .map(|uid| {
            let array = arrays.iter_mut().find(|array| array.tensor.uid == *uid).unwrap();
            array.first()
        })
        .collect();
    // SAFETY: the arrays cover their tensors, and the scratch memory what the kernel asked for.
    unsafe { kernel.run(&tensors, scratch.as_mut_ptr().add(aligned)) };
    let used = aligned + kernel.scratch_size();
    assert!(scratch[used..].iter().all(|byte| *byte == 0xFF), "wrote beyond the scratch memory");
    Ok(())
}

/// The numbers of a convolution.
pub(crate) fn convolution_of(graph: &Graph, operation: &Operation) -> Convolution {
    match Problem::of(graph, operation) {
        Ok(Problem::Convolution(convolution)) => *convolution,
        other => panic!("{other:?}"),
    }
}

/// The numbers of a matrix multiplication.
pub(crate) fn matmul_of(graph: &Graph, operation: &Operation) -> Matmul {
    match Problem::of(graph, operation) {
        Ok(Problem::Matmul(matmul)) => *matmul,
        other => panic!("{other:?}"),
    }
}

/// Runs the operations as one graph, whose tensors without memory are `between`.
pub(crate) fn run_together(
    operations: &[Operation],
    compute_type: DataType,
    isa: Isa,
    arrays: &mut [Array],
    between: &[Tensor],
) {
    run_together_for(operations, compute_type, (isa, Settings::default()), arrays, between);
}

/// The same with settings.
pub(crate) fn run_together_for(
    operations: &[Operation],
    compute_type: DataType,
    (isa, settings): (Isa, Settings),
    arrays: &mut [Array],
    between: &[Tensor],
) {
    let own = arrays.iter().map(|array| array.tensor.clone());
    let node =
        |operation: &Operation| Node { name: String::new(), compute_type, operation: operation.clone() };
    let graph = Graph {
        tensors: own.chain(between.iter().cloned()).collect(),
        nodes: operations.iter().map(node).collect(),
        ..Graph::default()
    };
    let plan =
        Plan::in_parts(&prepare(&graph).unwrap(), |prepared| parts_at(prepared, isa, settings)).unwrap();
    let buffers: Vec<hipdnnPluginDeviceBuffer_t> = arrays
        .iter_mut()
        .map(|array| hipdnnPluginDeviceBuffer_t { uid: array.tensor.uid, ptr: array.first().cast() })
        .collect();
    let mut workspace = vec![0xFF_u8; plan.workspace_size()];
    // SAFETY: the arrays cover their tensors, and the workspace is as large as the plan asked for.
    unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
}

/// Numbers are equal, or both are NaN.
pub(crate) fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}
