//! Divided graphs, planned and run with stand-ins for the CUDA driver and cuDNN.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is how a test fails")]

#[path = "standin/driver.rs"]
mod driver;
mod standin;

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use hipdnn_cudnn_plugin::knob::CUDNN_TF32;
use hipdnn_cudnn_plugin::plugin::CudnnPlugin;
use hipdnn_plugin_planner::shapes::{AnyShape, Shaped};
use hipdnn_plugin_sdk::engine_plugin::RUNTIME_COMPILATION;
use hipdnn_plugin_sdk::ffi::{HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE};
use hipdnn_plugin_sdk::graph::operation::{Matmul, Pointwise};
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, Operation, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::wire::{KnobSetting, KnobValue};
use hipdnn_plugin_sdk::{EnginePlugin, Overrides, PluginError, function_table};

use driver::Driver;
use standin::device::{Bound, bytes};

const CUDNN: usize = 0;
const SIZE: usize = 24;

function_table! {
    /// The counters and switches of the stand-in for cuDNN.
    struct Standin: "the stand-in", ["libcudnn.so.9"] {
        required {
            /// Number of searches for engines.
            fn standin_cudnn_searches() -> c_int;
            /// Number of saved plans loaded.
            fn standin_cudnn_loads() -> c_int;
            /// Number of handles created.
            fn standin_cudnn_handles() -> c_int;
            /// Makes each search take this many milliseconds.
            fn standin_cudnn_slow_down(milliseconds: c_int);
            /// Makes it return this status for the next graph, once, as late as a search.
            fn standin_cudnn_fail_graph(status: c_int);
            /// Makes it find no engine for graphs with more operations.
            fn standin_cudnn_limit_operations(most: c_int);
        }
        optional {}
    }
}

static STANDIN: OnceLock<Standin> = OnceLock::new();

/// The counters belong to one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    STANDIN.get_or_init(|| {
        standin::open(&[
            ("tests/standin/cuda.c", "libcuda.so.1"),
            ("../../c_tests/beside/standin_cudnn.c", "libcudnn.so.9"),
        ]);
        let standin = Standin::load_from(Standin::LIBRARIES).unwrap();
        // SAFETY: the function takes any number.
        unsafe { (standin.standin_cudnn_limit_operations)(2) };
        standin
    });
    one
}

/// The number of searches for engines, and of saved plans loaded.
fn counts() -> [c_int; 2] {
    let standin = STANDIN.get().unwrap();
    // SAFETY: the functions take nothing.
    unsafe { [(standin.standin_cudnn_searches)(), (standin.standin_cudnn_loads)()] }
}

/// out = sigmoid(tanh(x) · w) · v; the stand-in accepts two operations at a time.
fn graph() -> Graph {
    let tensor = |uid| Tensor::new(uid, DataType::Float, &[SIZE as i64; 2], &[SIZE as i64, 1]);
    let between = |uid| Tensor { is_virtual: true, ..tensor(uid) };
    let operations: [Operation; 4] = [
        Pointwise::new(PointwiseMode::TanhFwd, 1, None, 4).into(),
        Matmul { a: 4, b: 2, c: 5 }.into(),
        Pointwise::new(PointwiseMode::SigmoidFwd, 5, None, 6).into(),
        Matmul { a: 6, b: 3, c: 7 }.into(),
    ];
    let nodes = operations.into_iter().map(Node::single);
    Graph {
        tensors: vec![tensor(1), tensor(2), tensor(3), between(4), between(5), between(6), tensor(7)],
        nodes: nodes.collect(),
        ..Graph::default()
    }
}

/// With padding at the end.
type Matrix = Vec<f32>;

fn matrix(seed: usize) -> Matrix {
    (0..SIZE * SIZE + 4).map(|place| ((place * 37 + seed * 101) % 113) as f32 / 113.0 - 0.5).collect()
}

fn product(a: &[f32], b: &[f32]) -> Matrix {
    let mut c = matrix(0);
    for row in 0..SIZE {
        for column in 0..SIZE {
            let terms = (0..SIZE).map(|k| f64::from(a[row * SIZE + k]) * f64::from(b[k * SIZE + column]));
            c[row * SIZE + column] = terms.sum::<f64>() as f32;
        }
    }
    c
}

fn each(mut matrix: Matrix, function: impl Fn(f32) -> f32) -> Matrix {
    matrix.iter_mut().for_each(|element| *element = function(*element));
    matrix
}

fn expected() -> Matrix {
    let hidden = product(&each(matrix(1), f32::tanh), &matrix(2));
    product(&each(hidden, |x| 1.0 / (1.0 + (-x).exp())), &matrix(3))
}

type Plan = <CudnnPlugin as EnginePlugin>::Plan;
type Handle = <CudnnPlugin as EnginePlugin>::Handle;

/// A plan that may round floats to TF32, as cuDNN's matmuls do.
fn planned(handle: &Handle, graph: &Graph) -> Result<Plan, PluginError> {
    let allowed = KnobSetting { knob_id: CUDNN_TF32.to_owned(), value: KnobValue::Int(1) };
    CudnnPlugin::plan(handle, CUDNN, graph, &[allowed])
}

/// Memory for these tensors, the last of which is the result.
fn bound(uids: &[i64], shift: usize) -> Bound {
    let tensors: Vec<_> = uids.iter().map(|uid| (*uid, bytes(&matrix(*uid as usize)))).collect();
    Bound::new(&tensors, shift)
}

/// Runs a plan with these tensors bound, and returns the result.
fn run(handle: &Handle, plan: &Plan, uids: &[i64], shift: usize) -> Result<Matrix, PluginError> {
    let bound = bound(uids, shift);
    execute(handle, plan, &bound)?;
    Ok(bound.result())
}

fn execute(handle: &Handle, plan: &Plan, bound: &Bound) -> Result<(), PluginError> {
    // SAFETY: each tensor has its memory, which lives until the device is done.
    unsafe { CudnnPlugin::execute(handle, plan, null_mut(), &bound.buffers) }
}

fn assert_right(got: &[f32]) {
    for (place, (got, expected)) in got.iter().zip(&expected()).take(SIZE * SIZE).enumerate() {
        assert!((got - expected).abs() < 1e-5, "element {place}: {got}, expected {expected}");
    }
}

#[test]
fn parts_compute_what_the_graph_says_and_come_back_from_saved_plans() {
    let _one = alone();
    let handle = CudnnPlugin::create_handle().unwrap();
    let plan = planned(&handle, &graph()).unwrap();
    let nodes = |plan: &Plan| -> Vec<Vec<usize>> {
        CudnnPlugin::describe(plan).unwrap().into_iter().map(|step| step.nodes).collect()
    };
    assert_eq!(nodes(&plan), [[0, 1], [2, 3]]);
    assert_right(&run(&handle, &plan, &[1, 2, 3, 7], 0).unwrap());

    // Results are reused, whatever the handle.
    let [searches, loads] = counts();
    let other = CudnnPlugin::create_handle().unwrap();
    let again = planned(&other, &graph()).unwrap();
    assert_right(&run(&other, &again, &[1, 2, 3, 7], 0).unwrap());
    assert_eq!(counts(), [searches, loads]);

    let bytes = CudnnPlugin::serialize(&handle, &plan).unwrap();
    let loaded = CudnnPlugin::deserialize(&other, &bytes).unwrap();
    assert_eq!(counts(), [searches, loads + 2]);
    assert_eq!(nodes(&loaded), nodes(&plan));
    assert_right(&run(&other, &loaded, &[1, 2, 3, 7], 0).unwrap());
}

#[test]
fn a_plan_is_executed_with_other_shapes() {
    let _one = alone();
    let handle = CudnnPlugin::create_handle().unwrap();
    let plan = Shaped::from(planned(&handle, &graph()).unwrap());
    // All matrices column-major: the transposed product of the transposed matrices, in reverse order.
    let (uids, size) = ([1, 2, 3, 7], SIZE as i64);
    let shapes = [[size, size], [1, size]];
    let run_with = |uids: &[i64], shapes: &[[i64; 2]; 2]| {
        let bound = bound(uids, 0);
        let [dims, strides] = [0, 1].map(|of| vec![shapes[of].as_ptr(); uids.len()]);
        let lengths = vec![2; uids.len()];
        // SAFETY: each tensor has its memory, each array as many elements as there are uids.
        unsafe {
            let overrides = Overrides::from_raw(
                uids.len() as u32,
                uids.as_ptr(),
                lengths.as_ptr(),
                dims.as_ptr(),
                strides.as_ptr(),
            );
            AnyShape::<CudnnPlugin>::execute_with_overrides(
                &handle,
                &plan,
                null_mut(),
                &bound.buffers,
                overrides.unwrap(),
            )?;
        }
        Ok::<_, PluginError>(bound.result())
    };
    let hidden = each(product(&matrix(2), &each(matrix(1), f32::tanh)), |x| 1.0 / (1.0 + (-x).exp()));
    let expected = product(&matrix(3), &hidden);
    for _ in 0..2 {
        let got = run_with(&uids, &shapes).unwrap();
        for (got, expected) in got.iter().zip(&expected).take(SIZE * SIZE) {
            assert!((got - expected).abs() < 1e-5, "{got}, expected {expected}");
        }
    }
    // The plan for the graph's own shapes is still cached.
    let [searches, _] = counts();
    run_with(&uids, &shapes).unwrap();
    assert_eq!(counts()[0], searches);

    let error = run_with(&[1, 2, 99], &shapes).err().unwrap().to_string();
    assert!(error.contains("tensor 99 has another shape and is not in the graph"), "{error}");
    let error = run_with(&uids, &[[size, 0], [1, size]]).err().unwrap().to_string();
    assert!(error.contains("node 0"), "{error}");
}

#[test]
fn an_unmarked_result_is_written_where_it_is_bound() {
    let _one = alone();
    let handle = CudnnPlugin::create_handle().unwrap();
    let mut unmarked = graph();
    unmarked.tensors[6].is_virtual = true;
    let plan = planned(&handle, &unmarked).unwrap();
    assert_right(&run(&handle, &plan, &[1, 2, 3, 7], 0).unwrap());
    // And not visibly if it is not bound.
    run(&handle, &plan, &[1, 2, 3], 0).unwrap();
}

#[test]
fn failed_executions_name_what_is_missing() {
    let _one = alone();
    let handle = CudnnPlugin::create_handle().unwrap();
    let plan = planned(&handle, &graph()).unwrap();
    let error = |uids: &[i64], shift| run(&handle, &plan, uids, shift).err().unwrap().to_string();
    assert_eq!(error(&[1, 2, 7], 0), "tensor 3 has no buffer among the 3 given");
    let shifted = error(&[1, 2, 3, 7], 4);
    assert!(shifted.starts_with("the buffer of tensor 1 is at 0x"), "{shifted}");
    assert!(shifted.ends_with("expected a multiple of 16"), "{shifted}");
}

#[test]
fn a_node_in_no_part_is_refused_with_the_reason() {
    let _one = alone();
    let handle = CudnnPlugin::create_handle().unwrap();
    // Without permission to round.
    let refusal = CudnnPlugin::supports(&handle, CUDNN, &graph()).unwrap_err().to_string();
    assert!(refusal.starts_with("node 1 \"\" (Matmul): cuDNN has no engine for it: "), "{refusal}");
    assert!(refusal.contains("rounds floats to TF32, which cudnn.tf32 does not allow"), "{refusal}");
    // Inference with a variance takes six operations.
    let mut graph = graph();
    let channels = |uid| Tensor::new(uid, DataType::Float, &[1, SIZE as i64], &[SIZE as i64, 1]);
    graph.tensors.extend((10..15).map(channels));
    graph.tensors[11] =
        Tensor { is_runtime_pass_by_value: true, ..Tensor::new(14, DataType::Float, &[1], &[1]) };
    graph.tensors[6].is_virtual = true;
    graph.tensors.push(Tensor::new(8, DataType::Float, &[SIZE as i64; 2], &[SIZE as i64, 1]));
    let normalize = hipdnn_plugin_sdk::graph::operation::BatchnormInferenceVariance {
        x: 7,
        mean: 10,
        variance: 11,
        scale: 12,
        bias: 13,
        epsilon: 14,
        y: 8,
    };
    graph.nodes.push(Node {
        name: "norm".to_owned(),
        compute_type: DataType::Float,
        operation: normalize.into(),
    });
    let refusal = planned(&handle, &graph).err().unwrap().to_string();
    assert_eq!(
        refusal,
        "node 4 \"norm\" (BatchnormInferenceVariance): cuDNN has no engine for it: too many operations"
    );
}

#[test]
fn handles_created_during_a_capture_share_an_existing_one() {
    let _one = alone();
    let (standin, driver) = (STANDIN.get().unwrap(), Driver::load_from(Driver::LIBRARIES).unwrap());
    let stream = driver.stream();
    // SAFETY: the function is the stand-in's.
    let handles = || unsafe { (standin.standin_cudnn_handles)() };
    let handle = CudnnPlugin::create_handle().unwrap();
    let plan = planned(&handle, &graph()).unwrap();
    let made = handles();
    {
        let other = CudnnPlugin::create_handle().unwrap();
        CudnnPlugin::set_stream(&other, stream).unwrap();
        let bound = bound(&[1, 2, 3, 7], 0);
        let (graph, result) = driver.captured(stream, || execute(&other, &plan, &bound));
        result.unwrap();
        driver.launch(graph, stream);
        assert_right(&bound.result());
        assert_eq!(handles(), made);
        assert_right(&run(&other, &plan, &[1, 2, 3, 7], 0).unwrap());
    }
    // Otherwise each has its own, possibly one left by another test, which is released at the end.
    let made_by = [(); 2].map(|()| {
        let other = CudnnPlugin::create_handle().unwrap();
        assert_right(&run(&other, &plan, &[1, 2, 3, 7], 0).unwrap());
        handles()
    });
    assert!((made..=made + 1).contains(&made_by[0]), "{made_by:?}");
    assert_eq!(made_by[1], made_by[0]);
    // Planning during a capture is up to the program, but must not need more than the relaxed capture mode.
    let [other, another] = [0; 2].map(|_| CudnnPlugin::create_handle().unwrap());
    planned(&other, &graph()).unwrap();
    let (_, planned) = driver.captured(stream, || planned(&another, &graph()));
    assert!(planned.is_ok());
}

/// out = mode(x · w), where the result has this many columns.
fn layer(mode: PointwiseMode, columns: i64) -> Graph {
    let tensor = |uid, dims: [i64; 2]| Tensor::new(uid, DataType::Float, &dims, &[dims[1], 1]);
    let operations: [Operation; 2] =
        [Matmul { a: 1, b: 2, c: 3 }.into(), Pointwise::new(mode, 3, None, 4).into()];
    let between = Tensor { is_virtual: true, ..tensor(3, [8, columns]) };
    Graph {
        tensors: vec![tensor(1, [8, 16]), tensor(2, [16, columns]), between, tensor(4, [8, columns])],
        nodes: operations.map(Node::single).into(),
        ..Graph::default()
    }
}

#[test]
fn concurrent_planners_wait_for_the_first() {
    let _one = alone();
    let standin = STANDIN.get().unwrap();
    // SAFETY: the function takes any number.
    let slow_down = |milliseconds| unsafe { (standin.standin_cudnn_slow_down)(milliseconds) };
    let searches = |graph: &Graph, threads: usize| {
        let [before, _] = counts();
        let plan = || planned(&CudnnPlugin::create_handle().unwrap(), graph).map(drop);
        let results: Vec<_> = thread::scope(|scope| {
            let planning: Vec<_> = (0..threads).map(|_| scope.spawn(plan)).collect();
            planning.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        (counts()[0] - before, results)
    };
    slow_down(100);
    let (alone, _) = searches(&layer(PointwiseMode::TanhFwd, 16), 1);
    let (together, results) = searches(&layer(PointwiseMode::TanhFwd, 32), 4);
    slow_down(0);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(together, alone);
}

/// How often cuDNN is asked for engines to plan a graph.
fn searches_of(graph: &Graph) -> c_int {
    let [before, _] = counts();
    planned(&CudnnPlugin::create_handle().unwrap(), graph).unwrap();
    counts()[0] - before
}

#[test]
fn only_successful_plans_evict_cached_ones() {
    let _one = alone();
    let handle = CudnnPlugin::create_handle().unwrap();
    let kept = layer(PointwiseMode::TanhFwd, 1000);
    assert!(searches_of(&kept) > 0);
    (0..127).for_each(|more| assert!(searches_of(&layer(PointwiseMode::TanhFwd, 1001 + more)) > 0));
    // The cache is full. Without permission to round nothing is found for others.
    for columns in 1..4 {
        let refused = layer(PointwiseMode::TanhFwd, columns);
        assert!(CudnnPlugin::supports(&handle, CUDNN, &refused).is_err());
    }
    assert_eq!(searches_of(&kept), 0);
    // The least recently used one is evicted first.
    assert!(searches_of(&layer(PointwiseMode::TanhFwd, 2000)) > 0);
    assert_eq!(searches_of(&kept), 0);
    assert!(searches_of(&layer(PointwiseMode::TanhFwd, 1001)) > 0);
}

#[test]
fn only_faults_of_the_graph_are_refusals() {
    let _one = alone();
    let handle = CudnnPlugin::create_handle().unwrap();
    let standin = STANDIN.get().unwrap();
    // A single node is not divided.
    let mut graph = layer(PointwiseMode::TanhFwd, 24);
    graph.nodes.truncate(1);
    graph.tensors.truncate(3);
    graph.tensors[2].is_virtual = false;
    // An invalid parameter, an unsupported operation, a failed allocation.
    for (status, expected) in [
        (2000, HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE),
        (3001, HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE),
        (4004, HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR),
    ] {
        // SAFETY: the function takes any number.
        unsafe { (standin.standin_cudnn_fail_graph)(status) };
        let error = planned(&handle, &graph).err().unwrap();
        assert!(error.message().contains(&format!("failed with status {status}: ")), "{error}");
        assert_eq!(error.status(), expected, "{error}");
    }
    assert!(planned(&handle, &graph).is_ok());
}

#[test]
fn a_plan_found_after_another_threads_failure_is_cached() {
    let _one = alone();
    let standin = STANDIN.get().unwrap();
    let graph = layer(PointwiseMode::TanhFwd, 40);
    let plan = || planned(&CudnnPlugin::create_handle().unwrap(), &graph).is_ok();
    // SAFETY: the functions take any number.
    unsafe {
        (standin.standin_cudnn_slow_down)(100);
        (standin.standin_cudnn_fail_graph)(4000);
    }
    let made = thread::scope(|scope| {
        let planning: Vec<_> = (0..4).map(|_| scope.spawn(plan)).collect();
        planning.into_iter().map(|thread| thread.join().unwrap()).filter(|made| *made).count()
    });
    // SAFETY: the function is the stand-in's.
    unsafe { (standin.standin_cudnn_slow_down)(0) };
    assert_eq!(made, 3);
    assert_eq!(searches_of(&graph), 0);
}

#[test]
fn engines_report_whether_a_graph_needs_runtime_compilation() {
    let _one = alone();
    let handle = CudnnPlugin::create_handle().unwrap();
    let compiles = |graph: &Graph| {
        let details = CudnnPlugin::details(&handle, CUDNN, graph).unwrap();
        details.behavior_notes.contains(&RUNTIME_COMPILATION)
    };
    let mut single = graph();
    single.nodes.truncate(1);
    single.tensors[3].is_virtual = false;
    single.tensors.retain(|tensor| [1, 4].contains(&tensor.uid));
    let mut two = single.clone();
    two.tensors.push(Tensor { uid: 5, ..single.tensors[0].clone() });
    two.nodes.push(Node {
        operation: Pointwise::new(PointwiseMode::SigmoidFwd, 4, None, 5).into(),
        ..single.nodes[0].clone()
    });
    assert_eq!([compiles(&single), compiles(&two)], [false, true]);
}

#[test]
fn streams_with_their_own_buffer_need_no_events() {
    let _one = alone();
    let driver = Driver::load_from(Driver::LIBRARIES).unwrap();
    // SAFETY: the function is the stand-in's.
    let orders = || unsafe { (driver.standin_orders)() };
    let handle = CudnnPlugin::create_handle().unwrap();
    let plan = planned(&handle, &graph()).unwrap();
    assert_eq!(CudnnPlugin::plan_workspace_size(&plan), 0);
    let mut seen = Vec::new();
    let streams: [*mut c_void; 5] = std::array::from_fn(|_| driver.stream());
    for place in [0, 0, 1, 0, 2, 3, 3, 4, 4] {
        CudnnPlugin::set_stream(&handle, streams[place]).unwrap();
        let before = orders();
        assert_right(&run(&handle, &plan, &[1, 2, 3, 7], 0).unwrap());
        seen.push(orders() - before);
    }
    // The fifth stream shares the remaining buffers with later ones.
    assert_eq!(seen, [0, 0, 0, 0, 0, 0, 0, 1, 2]);
}
