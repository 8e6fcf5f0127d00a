//! Stores of packed weights that plans for several shapes share.

use std::collections::HashSet;
use std::ptr;
use std::sync::Barrier;

use hipdnn_cpu_plugin::plan::compiled::Compiled;
use hipdnn_cpu_plugin::plugin::CpuPlugin;
use hipdnn_cpu_plugin::settings::Algorithm;
use hipdnn_plugin_sdk::EnginePlugin;
use hipdnn_plugin_sdk::graph::operation::{ConvolutionBackwardData, ConvolutionForward, Matmul};
use hipdnn_plugin_sdk::graph::{ConvMode, DataType, Tensor, TensorValue};
use hipdnn_plugin_sdk::wire::KnobSetting;

use super::common::{Case, Memory, Random, Strides, channels_last, packed};

/// The plugin's store, as programs see it.
#[repr(C)]
struct Opaque(u8);

unsafe extern "C" {
    fn hipdnnCpuPluginCreateWeights_ext() -> *mut Opaque;
    fn hipdnnCpuPluginShareWeights_ext(store: *const Opaque) -> *const Opaque;
    fn hipdnnCpuPluginCountWeights_ext(store: *const Opaque, numbers: *mut usize);
    fn hipdnnCpuPluginDestroyWeights_ext(store: *mut Opaque);
}

struct Store(*mut Opaque);

// SAFETY: threads may use a store at once.
unsafe impl Sync for Store {}

impl Store {
    fn new() -> Self {
        // SAFETY: it needs nothing.
        Self(unsafe { hipdnnCpuPluginCreateWeights_ext() })
    }

    /// Runs `f` while plans of this thread share weights.
    fn sharing<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the store outlives the call, which resets it.
        let before = unsafe { hipdnnCpuPluginShareWeights_ext(self.0) };
        let result = f();
        // SAFETY: the former store is null, or was set by an outer call.
        assert_eq!(unsafe { hipdnnCpuPluginShareWeights_ext(before) }, self.0.cast_const());
        result
    }

    fn plan(&self, case: &Case, knobs: &[(&str, i64)]) -> Compiled {
        self.sharing(|| plan(case, knobs))
    }

    /// Packed weights, and their bytes.
    fn count(&self) -> [usize; 2] {
        let mut numbers = [0; 2];
        // SAFETY: the store lives until this is dropped, and the function writes two numbers.
        unsafe { hipdnnCpuPluginCountWeights_ext(self.0, numbers.as_mut_ptr()) };
        numbers
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: it exists, and no thread has set it.
        unsafe { hipdnnCpuPluginDestroyWeights_ext(self.0) };
    }
}

fn plan(case: &Case, knobs: &[(&str, i64)]) -> Compiled {
    let all = [&[("constant_weights", 1)], knobs].concat();
    let all: Vec<_> = all
        .iter()
        .map(|(id, value)| KnobSetting { knob_id: (*id).to_owned(), value: (*value).into() })
        .collect();
    CpuPlugin::plan(&Default::default(), 0, &case.graph, &all).unwrap()
}

/// Weights are the second tensor of each graph, results the third.
const WEIGHTS: i64 = 2;
const RESULT: i64 = 3;

fn weights(of: DataType, dims: &[i64], strides: &[i64], seed: u64) -> Memory {
    let mut memory = Memory::new(&Tensor::new(WEIGHTS, of, dims, strides), 0);
    let mut random = Random(seed);
    let is_integer = matches!(of, DataType::Int8 | DataType::Uint8);
    memory.fill(|| if is_integer { random.int(0, 9) as f64 } else { random.real(-1.0, 1.0) });
    memory
}

fn filled(case: &mut Case, of: DataType, dims: &[i64], strides: &[i64]) -> i64 {
    let uid = case.tensor_with(of, dims, strides);
    let mut random = Random(5);
    case.memory(uid).fill(|| random.int(-8, 8) as f64 / if of == DataType::Int8 { 1.0 } else { 8.0 });
    uid
}

/// The product of this many rows with weights of [terms, columns].
fn product(of: DataType, rows: i64, weights: &Tensor) -> Case {
    let (mut case, [terms, columns]) = (Case::new(), [weights.dims[0], weights.dims[1]]);
    let is_byte = of == DataType::Int8;
    let a = filled(&mut case, of, &[rows, terms], &[terms, 1]);
    let b = case.tensor_with(of, &weights.dims, &weights.strides);
    let c = case.tensor(if is_byte { DataType::Int32 } else { of }, &[rows, columns]);
    case.node(Matmul { a, b, c });
    case
}

/// A convolution forward, or the data gradient, of images of a size.
fn convolution(
    of: DataType,
    (batch, size): (i64, [i64; 2]),
    stride: i64,
    order: Strides,
    is_gradient: bool,
    weights: &Tensor,
) -> Case {
    let mut case = Case::new();
    let [outputs, inputs, window, _] = weights.dims[..] else { panic!("{:?}", weights.dims) };
    let padding = vec![window / 2; 2];
    let (pre_padding, post_padding) = (padding.clone(), padding);
    let (stride, dilation) = (vec![stride; 2], vec![1; 2]);
    let conv_mode = ConvMode::CrossCorrelation;
    let small = [batch, outputs, (size[0] - 1) / stride[0] + 1, (size[1] - 1) / stride[0] + 1];
    let large = [batch, inputs, size[0], size[1]];
    let [from, to] = if is_gradient { [small, large] } else { [large, small] };
    let x = filled(&mut case, of, &from, &order(&from));
    let w = case.tensor_with(of, &weights.dims, &weights.strides);
    let y = case.tensor_with(if of == DataType::Int8 { DataType::Int32 } else { of }, &to, &order(&to));
    if is_gradient {
        case.node(ConvolutionBackwardData {
            dy: x,
            w,
            dx: y,
            pre_padding,
            post_padding,
            stride,
            dilation,
            conv_mode,
        });
    } else {
        case.node(ConvolutionForward { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode });
    }
    case
}

/// The bits of the result with these weights, which stay at their address.
fn run(plan: &Compiled, case: &mut Case, weights: &mut Memory) -> Vec<u64> {
    std::mem::swap(case.memory(WEIGHTS), weights);
    case.memory(RESULT).fill(|| 77.0);
    case.execute(plan.plan());
    std::mem::swap(case.memory(WEIGHTS), weights);
    case.values(RESULT).iter().map(|value| value.to_bits()).collect()
}

/// Each case gives the bits of a plan that shares nothing, whatever the plans before have packed. Returns the number of packed weights.
fn check(store: &Store, cases: &mut [(Case, Vec<(&str, i64)>)], weights: &mut Memory) -> usize {
    let mut shared = Vec::new();
    for (case, knobs) in cases.iter_mut() {
        let (own, sharing) = (plan(case, knobs), store.plan(case, knobs));
        let want = run(&own, case, weights);
        for _ in 0..2 {
            let is_same = run(&sharing, case, weights) == want;
            assert!(is_same, "{knobs:?}: {:?}", case.graph.tensors);
        }
        shared.push((sharing, want));
    }
    // All again, in the other order.
    for ((case, knobs), (sharing, want)) in cases.iter_mut().zip(&shared).rev() {
        assert!(run(sharing, case, weights) == *want, "{knobs:?}, again");
    }
    store.count()[0]
}

#[test]
fn products_of_any_number_of_rows_share_their_weights() {
    for of in [DataType::Float, DataType::Double, DataType::Half, DataType::Bfloat16, DataType::Int8] {
        for (dims, strides) in [([70, 530], [530, 1]), ([1100, 130], [1, 1100]), ([64, 48], [48, 1])] {
            let (store, mut weights) = (Store::new(), weights(of, &dims, &strides, 3));
            let rows = [300, 1, 2, 4, 6, 8, 13, 16, 33, 64];
            let settings = [vec![("threads", 1)], vec![("threads", 5), ("deterministic", 1)]];
            let mut cases: Vec<_> = rows
                .iter()
                .flat_map(|rows| {
                    settings.iter().map(|knobs| (product(of, *rows, &weights.tensor), knobs.clone()))
                })
                .collect();
            let packed = check(&store, &mut cases, &mut weights);
            assert!((1..=8).contains(&packed), "{of:?} {dims:?}: {packed} packed");
        }
    }
}

#[test]
fn convolutions_of_any_image_share_their_weights() {
    let sizes = [(1, [5, 6]), (2, [16, 30]), (1, [7, 7]), (3, [12, 12])];
    for of in [DataType::Float, DataType::Bfloat16, DataType::Int8] {
        for dims in [[24, 16, 3, 3], [16, 24, 1, 1]] {
            let filters = [packed(&dims), channels_last(&dims)];
            for filter in filters {
                let (store, mut weights) = (Store::new(), weights(of, &dims, &filter, 4));
                let mut cases = Vec::new();
                for (at, size) in sizes.into_iter().enumerate() {
                    for stride in [1, 2] {
                        for is_gradient in [false, true] {
                            if of == DataType::Int8 && (is_gradient || stride == 2) {
                                continue;
                            }
                            for algorithm in 0..Algorithm::VALUES.len() as i64 {
                                let order: Strides = if at % 2 == 0 { packed } else { channels_last };
                                let case = convolution(of, size, stride, order, is_gradient, &weights.tensor);
                                cases.push((case, vec![("convolution", algorithm)]));
                            }
                        }
                    }
                }
                let packed = check(&store, &mut cases, &mut weights);
                assert!(
                    packed > 0 && packed * 4 < cases.len(),
                    "{of:?} {dims:?}: {packed} of {}",
                    cases.len()
                );
            }
        }
    }
}

#[test]
fn memory_does_not_grow_with_the_number_of_plans() {
    let (store, mut weights) = (Store::new(), weights(DataType::Float, &[256, 320], &[320, 1], 3));
    assert_eq!(store.count(), [0; 2]);
    let mut plans = Vec::new();
    for rows in 20..60 {
        let mut case = product(DataType::Float, rows, &weights.tensor);
        let plan = store.plan(&case, &[]);
        run(&plan, &mut case, &mut weights);
        plans.push(plan);
    }
    let [packed, bytes] = store.count();
    assert!(packed == 1 && (256 * 320 * 4..256 * 320 * 8).contains(&bytes), "{packed} of {bytes} bytes");
    // Other weights of the same form have their own.
    let mut other = self::weights(DataType::Float, &[256, 320], &[320, 1], 9);
    let mut case = product(DataType::Float, 40, &weights.tensor);
    let plan = store.plan(&case, &[]);
    run(&plan, &mut case, &mut other);
    assert_eq!(store.count(), [2, 2 * bytes]);
    drop(plan);
    assert_eq!(store.count(), [1, bytes]);
    drop(plans);
    assert_eq!(store.count(), [0; 2]);
}

#[test]
fn other_weights_at_the_address_of_dead_ones_are_packed() {
    let mut weights = weights(DataType::Float, &[64, 48], &[48, 1], 3);
    let mut case = product(DataType::Float, 20, &weights.tensor);
    let (mut results, mut alive) = (HashSet::new(), Vec::new());
    for turn in 0..4 {
        let mut random = Random(turn);
        weights.fill(|| random.real(-1.0, 1.0));
        let store = Store::new();
        let sharing = store.plan(&case, &[]);
        let want = run(&plan(&case, &[]), &mut case, &mut weights);
        // Also after the store's end.
        drop(store);
        for _ in 0..2 {
            assert!(run(&sharing, &mut case, &mut weights) == want, "{turn}");
        }
        results.insert(want);
        if turn % 2 == 0 {
            alive.push(sharing);
        }
    }
    assert_eq!(results.len(), 4);
}

#[test]
fn a_store_is_only_for_the_plans_made_for_it() {
    let (store, mut weights) = (Store::new(), weights(DataType::Float, &[64, 48], &[48, 1], 3));
    let mut case = product(DataType::Float, 20, &weights.tensor);
    let outside = plan(&case, &[]);
    let variable = store.sharing(|| CpuPlugin::plan(&Default::default(), 0, &case.graph, &[]).unwrap());
    let reference = store.sharing(|| CpuPlugin::plan(&Default::default(), 1, &case.graph, &[]).unwrap());
    let inside = store.plan(&case, &[]);
    for plan in [&outside, &variable, &reference] {
        run(plan, &mut case, &mut weights);
        assert_eq!(store.count(), [0; 2]);
    }
    run(&inside, &mut case, &mut weights);
    assert_eq!(store.count()[0], 1);
    // A plan serves layers with weights of the same shape.
    let mut elsewhere = self::weights(DataType::Float, &[64, 48], &[48, 1], 8);
    let want = run(&outside, &mut case, &mut elsewhere);
    for _ in 0..2 {
        assert!(run(&inside, &mut case, &mut elsewhere) == want);
    }
    assert_eq!(store.count()[0], 2);
    // Weights that the graph has by value are in the plan's own memory.
    case.graph.tensors[1] = Tensor::new(WEIGHTS, DataType::Float, &[1, 1], &[1, 1]);
    case.graph.tensors[1].value = Some(TensorValue::Float32(3.0));
    case.graph.tensors[0] = Tensor::new(1, DataType::Float, &[20, 1], &[1, 1]);
    case.graph.tensors[2] = Tensor::new(RESULT, DataType::Float, &[20, 1], &[1, 1]);
    let before = store.count();
    let by_value = store.plan(&case, &[]);
    case.execute(by_value.plan());
    assert_eq!(store.count(), before);
    // SAFETY: no store is set on this thread.
    assert!(unsafe { hipdnnCpuPluginShareWeights_ext(ptr::null()) }.is_null());
}

#[test]
fn threads_share_a_store() {
    const THREADS: usize = 6;
    for turn in 0..20 {
        let (store, start) = (Store::new(), Barrier::new(THREADS));
        let mut memory = weights(DataType::Float, &[96, 80], &[80, 1], turn);
        let address = memory.first();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (store, start, mut own) = (&store, &start, memory.clone());
                let (tensor, shared) = (memory.tensor.clone(), Shared(address));
                scope.spawn(move || {
                    let mut cases: Vec<Case> = (0..3)
                        .map(|at| product(DataType::Float, 10 + thread as i64 + 5 * at, &tensor))
                        .collect();
                    let wanted: Vec<_> = cases
                        .iter_mut()
                        .map(|case| run(&plan(case, &[("threads", 1)]), case, &mut own))
                        .collect();
                    start.wait();
                    for (case, want) in cases.iter_mut().zip(wanted) {
                        let plan = store.plan(case, &[("threads", 1)]);
                        for _ in 0..3 {
                            let mut buffers = case.buffers();
                            buffers[1].ptr = shared.address().cast();
                            let mut workspace = vec![0_u8; plan.workspace_size()];
                            // SAFETY: the tensors have memory, the weights that of all threads, and the workspace its size.
                            unsafe { plan.execute(&buffers, workspace.as_mut_ptr(), ptr::null_mut()) }
                                .unwrap();
                            let have =
                                case.values(RESULT).iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                            assert!(have == want);
                        }
                    }
                });
            }
        });
    }
}

/// The address of weights that all threads read.
struct Shared(*const u8);

// SAFETY: the threads of the test only read the weights.
unsafe impl Send for Shared {}

impl Shared {
    fn address(&self) -> *mut u8 {
        self.0.cast_mut()
    }
}
