//! Graphs with memory, for tests: builds them, fills them, runs them and reads the results.

use hipdnn_cpu_plugin::dtype::element::{ComputeType, Element};
use hipdnn_cpu_plugin::plan::planner::Planner;
use hipdnn_cpu_plugin::plan::steps::{ExecuteError, Plan};
use hipdnn_plugin_planner::layout::{Layout, Walk, element_bits, storage_size};
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, Tensor, TensorValue};

/// The 8-bit floats.
pub const EIGHT_BITS: [DataType; 4] =
    [DataType::Fp8E4m3, DataType::Fp8E5m2, DataType::Fp8E4m3Fnuz, DataType::Fp8E5m2Fnuz];

/// Bytes around every tensor that kernels must not touch.
const GUARD: usize = 64;
/// A pattern that kernels never write, and that is NaN in every floating-point type, to reveal stray reads.
const PATTERN: u8 = 0xFF;

/// Pseudo-random numbers, the same in every run with the same seed (SplitMix64).
#[derive(Clone)]
pub struct Random(pub u64);

/// The number of random cases in a long test: a tenth unless `HIPDNN_TEST_LONG` is set, as every night, and N times as many if it is N.
pub fn cases(all: u64) -> u64 {
    match std::env::var("HIPDNN_TEST_LONG") {
        Ok(times) => all * times.parse().unwrap_or(1),
        Err(_) => all / 10,
    }
}

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// An integer from `low` to `high`, both included.
    pub fn int(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() % (high - low + 1) as u64) as i64
    }

    /// A number from `low` to `high`.
    pub fn real(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.next() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.int(0, choices.len() as i64 - 1) as usize]
    }

    pub fn chance(&mut self, percent: i64) -> bool {
        self.int(1, 100) <= percent
    }
}

/// A tensor and its memory.
#[derive(Clone)]
pub struct Memory {
    pub tensor: Tensor,
    layout: Layout,
    bytes: Vec<u8>,
    /// Bytes from the guard to the first element; odd values make the tensor unaligned.
    shift: usize,
}

impl Memory {
    pub fn new(tensor: &Tensor, shift: usize) -> Self {
        let layout = Layout::of(tensor).unwrap();
        let bytes = storage_size(tensor.data_type, layout.extent()).unwrap();
        let bytes = vec![PATTERN; GUARD + shift + bytes + GUARD];
        Self { tensor: tensor.clone(), layout, bytes, shift }
    }

    /// The offset of every element, in index order.
    fn offsets(&self) -> impl Iterator<Item = usize> + use<> {
        Walk::new(self.layout.dims(), [self.layout.strides()]).map(|(_, [offset])| offset)
    }

    /// Writes every element, in index order.
    pub fn fill(&mut self, mut value: impl FnMut() -> f64) {
        let element = f64::element(self.tensor.data_type).unwrap();
        for offset in self.offsets() {
            // SAFETY: the memory was made for the layout's extent.
            unsafe { element.store(self.first(), offset, value()) };
        }
    }

    /// Every element, in index order.
    pub fn values(&self) -> Vec<f64> {
        let element: Element<f64> = f64::element(self.tensor.data_type).unwrap();
        let first = self.bytes[GUARD + self.shift..].as_ptr();
        // SAFETY: the memory was made for the layout's extent.
        self.offsets().map(|offset| unsafe { element.load(first, offset) }).collect()
    }

    pub fn first(&mut self) -> *mut u8 {
        self.bytes[GUARD + self.shift..].as_mut_ptr()
    }

    /// Panics if a byte outside the elements has changed.
    pub fn check_untouched(&self) {
        let bits = element_bits(self.tensor.data_type).unwrap();
        let mut free = vec![true; self.bytes.len()];
        for offset in self.offsets() {
            let begin = GUARD + self.shift + offset * bits / 8;
            let end = GUARD + self.shift + ((offset + 1) * bits).div_ceil(8);
            free[begin..end].fill(false);
        }
        for (place, (byte, free)) in self.bytes.iter().zip(free).enumerate() {
            let place = place as i64 - (GUARD + self.shift) as i64;
            assert!(!free || *byte == PATTERN, "byte {place} of tensor {} was overwritten", self.tensor.uid);
        }
    }
}

/// A graph with memory for its tensors, except virtual ones and constants.
#[derive(Clone)]
pub struct Case {
    pub graph: Graph,
    pub memory: Vec<Memory>,
}

/// Computes strides for dimensions.
pub type Strides = fn(&[i64]) -> Vec<i64>;

/// Strides of a dense tensor whose dimensions have the given order, outermost first.
pub fn strides(dims: &[i64], order: &[usize]) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut step = 1;
    for &axis in order.iter().rev() {
        strides[axis] = step;
        step *= dims[axis];
    }
    strides
}

pub fn packed(dims: &[i64]) -> Vec<i64> {
    strides(dims, &(0..dims.len()).collect::<Vec<_>>())
}

/// Channels innermost: NHWC and similar layouts.
pub fn channels_last(dims: &[i64]) -> Vec<i64> {
    let mut order: Vec<usize> = (0..dims.len()).filter(|axis| *axis != 1).collect();
    order.push(1);
    strides(dims, &order)
}

impl Case {
    pub fn new() -> Self {
        Self { graph: Graph { compute_type: DataType::Float, ..Graph::default() }, memory: Vec::new() }
    }

    /// Adds a tensor with packed strides.
    pub fn tensor(&mut self, data_type: DataType, dims: &[i64]) -> i64 {
        self.tensor_with(data_type, dims, &packed(dims))
    }

    pub fn tensor_with(&mut self, data_type: DataType, dims: &[i64], strides: &[i64]) -> i64 {
        let uid = self.graph.tensors.len() as i64 + 1;
        let tensor = Tensor::new(uid, data_type, dims, strides);
        self.memory.push(Memory::new(&tensor, 0));
        self.graph.tensors.push(tensor);
        uid
    }

    pub fn virtual_tensor(&mut self, data_type: DataType, dims: &[i64], strides: &[i64]) -> i64 {
        let uid = self.graph.tensors.len() as i64 + 1;
        let mut tensor = Tensor::new(uid, data_type, dims, strides);
        tensor.is_virtual = true;
        self.graph.tensors.push(tensor);
        uid
    }

    /// Adds a constant scalar.
    pub fn value(&mut self, data_type: DataType, value: TensorValue) -> i64 {
        let uid = self.graph.tensors.len() as i64 + 1;
        let mut tensor = Tensor::new(uid, data_type, &[1], &[1]);
        tensor.value = Some(value);
        self.graph.tensors.push(tensor);
        uid
    }

    pub fn node(&mut self, operation: impl Into<Operation>) {
        let name = format!("n{}", self.graph.nodes.len());
        let node = Node { name, compute_type: DataType::Unset, operation: operation.into() };
        self.graph.nodes.push(node);
    }

    pub fn memory(&mut self, uid: i64) -> &mut Memory {
        self.memory.iter_mut().find(|memory| memory.tensor.uid == uid).unwrap()
    }

    pub fn fill(&mut self, uid: i64, values: &[f64]) {
        let mut values = values.iter().copied();
        self.memory(uid).fill(|| values.next().expect("as many values as elements"));
        assert_eq!(values.next(), None, "as many values as elements");
    }

    pub fn values(&self, uid: i64) -> Vec<f64> {
        self.memory.iter().find(|memory| memory.tensor.uid == uid).unwrap().values()
    }

    pub fn buffers(&mut self) -> Vec<hipdnnPluginDeviceBuffer_t> {
        let of = |memory: &mut Memory| hipdnnPluginDeviceBuffer_t {
            uid: memory.tensor.uid,
            ptr: memory.first().cast(),
        };
        self.memory.iter_mut().map(of).collect()
    }

    /// Plans and runs the graph and checks that nothing outside the tensors was written.
    pub fn run(&mut self, planner: Planner) {
        let plan = planner.plan(&self.graph).unwrap_or_else(|refusal| panic!("{refusal}"));
        self.execute(&plan);
    }

    pub fn execute(&mut self, plan: &Plan) {
        self.try_execute(plan).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Runs a plan and checks that nothing outside the tensors was written, whether it fails or not.
    pub fn try_execute(&mut self, plan: &Plan) -> Result<(), ExecuteError> {
        let buffers = self.buffers();
        let size = plan.workspace_size();
        // An odd address, and a guard that reveals writes beyond the end.
        let mut workspace = vec![PATTERN; size + 2 * GUARD];
        let base = if size == 0 { std::ptr::null_mut() } else { workspace[1..].as_mut_ptr() };
        // SAFETY: every tensor has memory for its extent, and the workspace has the size that the plan
        // reports.
        let result = unsafe { plan.execute(&buffers, base) };
        assert!(workspace[1 + size..].iter().all(|byte| *byte == PATTERN), "the workspace was overrun");
        self.memory.iter().for_each(Memory::check_untouched);
        result
    }
}

/// A tensor in a usual or random layout, sometimes with gaps or at an odd address.
pub fn tensor(random: &mut Random, case: &mut Case, data_type: DataType, dims: &[i64]) -> i64 {
    let rank = dims.len();
    let mut order: Vec<usize> = (0..rank).collect();
    match random.int(0, 2) {
        0 => {}
        1 if rank > 2 => {
            order.remove(1);
            order.push(1);
        }
        _ => (1..rank).rev().for_each(|i| order.swap(i, random.int(0, i as i64) as usize)),
    }
    let gaps: Vec<i64> = if random.chance(20) {
        dims.iter().map(|dim| dim + random.int(0, 2)).collect()
    } else {
        dims.to_vec()
    };
    let mut steps = strides(&gaps, &order);
    if random.chance(10) {
        steps.iter_mut().for_each(|step| *step *= 2);
    }
    let uid = case.tensor_with(data_type, dims, &steps);
    if random.chance(10) {
        let tensor = case.memory(uid).tensor.clone();
        *case.memory(uid) = Memory::new(&tensor, random.int(1, 9) as usize);
    }
    uid
}

/// Fills a tensor with values from `low` to `high`.
pub fn fill(random: &mut Random, case: &mut Case, uid: i64, low: f64, high: f64) {
    case.memory(uid).fill(|| random.real(low, high));
}
