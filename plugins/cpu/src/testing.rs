//! Helpers for the kernels' tests.

pub(crate) mod limits;

use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor};

use crate::dtype::element::Element;
use crate::fusion::graph::parts_at;
use crate::fusion::node::plan_node_at;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{Layout, Walk};
use crate::plan::steps::Plan;
use crate::prepare::{CheckedNode, prepare};
use crate::problem::convolution::Convolution;
use crate::problem::matmul::Matmul;
use crate::problem::{Operand, Problem, pointers};
use crate::reference;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::simd::vector::{Vector, VectorTask};
use limits::Limit;

/// Pseudo-random values, the same in every run.
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

    /// An integer from `low` to `high`, both included.
    pub(crate) fn within(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() as usize) % (high - low + 1)
    }

    /// One of several.
    pub(crate) fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.within(0, items.len() - 1)]
    }

    /// A small integer, so that sums of products are exact.
    pub(crate) fn whole(&mut self) -> f64 {
        self.within(0, 6) as f64 - 3.0
    }

    /// A value from -3 to 3.
    pub(crate) fn real(&mut self) -> f64 {
        (self.next() % 60_001) as f64 / 10_000.0 - 3.0
    }
}

/// The number of random cases in a long test: a tenth unless `HIPDNN_TEST_LONG` is set, as every night.
pub(crate) fn cases(all: u64) -> u64 {
    if std::env::var_os("HIPDNN_TEST_LONG").is_some() { all } else { all / 10 }
}

/// The floating-point types of 8 bits.
pub(crate) const EIGHT_BITS: [DataType; 4] =
    [DataType::Fp8E4m3, DataType::Fp8E5m2, DataType::Fp8E4m3Fnuz, DataType::Fp8E5m2Fnuz];

/// Strides for dimensions in this order, slowest first, with `gap` elements between rows.
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

/// Dimension orders of [N, C, ...]: channels first, channels last, and reversed.
pub(crate) fn order(rank: usize, which: usize) -> Vec<usize> {
    match which {
        0 => (0..rank).collect(),
        1 if rank > 1 => std::iter::once(0).chain(2..rank).chain(std::iter::once(1)).collect(),
        _ => (0..rank).rev().collect(),
    }
}

/// A packed tensor, the first dimension slowest.
pub(crate) fn packed(uid: i64, data_type: DataType, dims: &[i64]) -> Tensor {
    Tensor::new(uid, data_type, dims, &strides(dims, &order(dims.len(), 0), 0))
}

/// A function in single precision, computed on vectors.
pub(crate) trait Function: Copy {
    /// The function of each lane.
    fn of<V: Vector<Scalar = f32>>(self, x: V) -> V;
}

/// A function of each element of a slice.
struct Each<'a, F>(F, &'a mut [f32]);

impl<F: Function> VectorTask<f32> for Each<'_, F> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = f32>>(self) {
        for chunk in self.1.chunks_mut(V::LANES) {
            let mut values = [0.0; 16];
            values[..chunk.len()].copy_from_slice(chunk);
            // SAFETY: no vector has more lanes than there are values; the processor has its instructions.
            unsafe { self.0.of(V::load(values.as_ptr())).store(values.as_mut_ptr()) };
            chunk.copy_from_slice(&values[..chunk.len()]);
        }
    }
}

/// Applies a function to each element with an instruction set that the processor supports.
pub(crate) fn each(isa: Isa, function: impl Function, x: &[f32]) -> Vec<f32> {
    let mut y = x.to_vec();
    // SAFETY: only instruction sets of this processor are tested.
    unsafe { isa.run_vectors(Each(function, &mut y)) };
    y
}

/// A tensor with its memory.
#[derive(Clone)]
pub(crate) struct Array {
    pub(crate) tensor: Tensor,
    bytes: Vec<u8>,
}

impl Array {
    pub(crate) fn new(uid: i64, data_type: DataType, dims: &[i64], strides: &[i64]) -> Self {
        let last: i64 = dims.iter().zip(strides).map(|(d, s)| (d - 1) * s).sum();
        let size = (last as usize + 1) * data_type.size().unwrap();
        // An odd address, so that no kernel relies on alignment.
        Self { tensor: Tensor::new(uid, data_type, dims, strides), bytes: vec![0xAB; size + 1] }
    }

    /// An array for the tensor of [`packed`].
    pub(crate) fn packed(uid: i64, data_type: DataType, dims: &[i64]) -> Self {
        let tensor = packed(uid, data_type, dims);
        Self::new(uid, data_type, dims, &tensor.strides)
    }

    /// All indices with the offsets of their elements, the last dimension fastest.
    fn walk(&self) -> Walk<1> {
        let of = |values: &[i64]| values.iter().map(|value| *value as usize).collect::<Vec<_>>();
        Walk::new(&of(&self.tensor.dims), [&of(&self.tensor.strides)])
    }

    pub(crate) fn filled(mut self, mut value: impl FnMut() -> f64) -> Self {
        self.walk().for_each(|(_, [offset])| self.set_at(offset, value()));
        self
    }

    /// All indices, the last dimension fastest.
    pub(crate) fn indices(&self) -> Vec<Vec<usize>> {
        self.walk().map(|(index, _)| index[..self.tensor.dims.len()].to_vec()).collect()
    }

    /// All elements, the last dimension fastest.
    pub(crate) fn values(&self) -> Vec<f64> {
        self.walk().map(|(_, [offset])| self.get_at(offset)).collect()
    }

    /// The address of the first element.
    pub(crate) fn first(&mut self) -> *mut u8 {
        self.bytes[1..].as_mut_ptr()
    }

    fn offset(&self, index: &[usize]) -> usize {
        index.iter().zip(&self.tensor.strides).map(|(i, s)| i * *s as usize).sum()
    }

    fn element(&self, offset: usize) -> Element<f64> {
        assert!((offset + 1) * self.tensor.data_type.size().unwrap() < self.bytes.len());
        Element::of(self.tensor.data_type).unwrap()
    }

    fn get_at(&self, offset: usize) -> f64 {
        // SAFETY: the element is inside the array, as `element` asserts.
        unsafe { self.element(offset).load(self.bytes[1..].as_ptr(), offset) }
    }

    fn set_at(&mut self, offset: usize, value: f64) {
        // SAFETY: the element is inside the array, as `element` asserts.
        unsafe { self.element(offset).store(self.first(), offset, value) };
    }

    pub(crate) fn get(&self, index: &[usize]) -> f64 {
        self.get_at(self.offset(index))
    }

    pub(crate) fn set(&mut self, index: &[usize], value: f64) {
        self.set_at(self.offset(index), value);
    }

    /// Stores the code of an 8-bit element.
    pub(crate) fn set_code(&mut self, index: &[usize], code: u8) {
        assert_eq!(self.tensor.data_type.size(), Some(1));
        let offset = self.offset(index);
        self.bytes[1 + offset] = code;
    }

    /// The value after rounding to the dtype.
    pub(crate) fn rounded(&self, value: f64) -> f64 {
        let mut bytes = [0; 8];
        let element = self.element(0);
        // SAFETY: an element has at most eight bytes.
        unsafe {
            element.store(bytes.as_mut_ptr(), 0, value);
            element.load(bytes.as_ptr(), 0)
        }
    }
}

/// Runs a kernel on the tensors that it was planned for, with scratch memory full of NaN.
///
/// # Safety
/// As for [`Kernel::run`].
pub(crate) unsafe fn run_kernel(kernel: &dyn Kernel, tensors: &[*mut u8]) {
    let mut scratch = vec![0xFF_u8; kernel.scratch_size() + 128];
    let aligned = scratch.as_ptr().align_offset(64);
    // SAFETY: the scratch memory is what the kernel asked for, and the tensors are valid, as this function requires.
    unsafe { kernel.run(tensors, scratch.as_mut_ptr().add(aligned)) };
    let used = aligned + kernel.scratch_size();
    assert!(scratch[used..].iter().all(|byte| *byte == 0xFF), "wrote beyond the scratch memory");
}

/// Runs an operation with an instruction set and with the reference, and compares all elements of `results`: given an expected array,
/// `scale` returns the magnitude that errors are relative to, or none if there are none.
pub(crate) fn check_with_reference(
    operation: &Operation,
    compute: DataType,
    isa: Isa,
    arrays: &[Array],
    results: &[i64],
    scale: impl Fn(&Array) -> Option<f64>,
) {
    let (mut got, mut expected) = (arrays.to_vec(), arrays.to_vec());
    run(operation.clone(), compute, isa, &mut got).unwrap();
    run_planned(operation.clone(), compute, &mut expected, |_, node| reference::plan_node(node)).unwrap();
    let tensors = || arrays.iter().map(|array| &array.tensor).collect::<Vec<_>>();
    for (got, expected) in got.iter().zip(&expected).filter(|(a, _)| results.contains(&a.tensor.uid)) {
        // Other tensors stay as they are.
        let scale = scale(expected).filter(|_| operation.outputs().contains(&expected.tensor.uid));
        let limit =
            scale.map(|scale| Limit::new(operation, compute, isa, arrays, (expected.tensor.uid, scale)));
        let agree = |a, b| same(a, b) || limit.is_some_and(|limit| limit.holds(a, b));
        for (i, (a, b)) in got.values().into_iter().zip(expected.values()).enumerate() {
            assert!(
                agree(a, b),
                "{operation:?} at {isa:?} in {compute:?}: element {i} of tensor {} is {a}, expected {b}, {limit:?}\n{:?}",
                got.tensor.uid,
                tensors(),
            );
        }
    }
}

/// The layout of a tensor as an operand.
pub(crate) fn operand(slot: usize, data_type: DataType, dims: &[i64], strides: &[i64]) -> Operand {
    let layout = Layout::of(&Tensor::new(1, data_type, dims, strides)).unwrap();
    Operand { slot, data_type, layout }
}

/// Plans the operation and runs it on the arrays.
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

/// As [`run`], with another planner.
pub(crate) fn run_planned(
    operation: Operation,
    compute_type: DataType,
    arrays: &mut [Array],
    plan: impl FnOnce(&Graph, &CheckedNode<'_>) -> Result<Box<dyn Kernel>, Refusal>,
) -> Result<(), Refusal> {
    let graph = Graph { tensors: arrays.iter().map(|a| a.tensor.clone()).collect(), ..Graph::default() };
    let order = pointers(&graph, &operation);
    let node = Node { name: String::new(), compute_type, operation };
    let problem = Problem::of(&graph, &node.operation)?;
    let kernel = plan(&graph, &CheckedNode { place: 0, node: &node, problem: &problem })?;
    let tensors: Vec<*mut u8> = order
        .iter()
        .map(|uid| {
            let array = arrays.iter_mut().find(|array| array.tensor.uid == *uid).unwrap();
            array.first()
        })
        .collect();
    // SAFETY: the arrays cover their tensors.
    unsafe {
        kernel.check(&tensors)?;
        run_kernel(&*kernel, &tensors);
    }
    Ok(())
}

/// The problem of a convolution.
pub(crate) fn convolution_of(graph: &Graph, operation: &Operation) -> Convolution {
    match Problem::of(graph, operation) {
        Ok(Problem::Convolution(convolution)) => *convolution,
        other => panic!("{other:?}"),
    }
}

/// The problem of a matrix multiplication.
pub(crate) fn matmul_of(graph: &Graph, operation: &Operation) -> Matmul {
    match Problem::of(graph, operation) {
        Ok(Problem::Matmul(matmul)) => *matmul,
        other => panic!("{other:?}"),
    }
}

/// Runs the operations as one graph; `between` are its virtual tensors.
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

/// Whether values are equal, or both NaN.
pub(crate) fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}
