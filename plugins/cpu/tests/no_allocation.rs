//! Executions allocate nothing on any thread, however much work they have.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use hipdnn_cpu_plugin::plan::compiled::Compiled;
use hipdnn_cpu_plugin::plan::planner::{Planner, planner};
use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::Overrides;
use hipdnn_plugin_sdk::ffi::hipdnnPluginDeviceBuffer_t;
use hipdnn_plugin_sdk::graph::operation::{
    Batchnorm, BlockScaleDequantize, BlockScaleQuantize, ConvolutionForward, FieldKind, Layernorm, Matmul,
    MoeGroupedMatmul, MoeGroupedMatmulBackward, Pointwise, Reduction, ResampleForward, Value,
};
use hipdnn_plugin_sdk::graph::{
    DataType, Graph, MoeGroupedMatmulMode, Node, NormFwdPhase, Operation, PaddingMode, PointwiseMode,
    ReductionMode, ResampleMode, Tensor, TensorValue,
};
use hipdnn_plugin_sdk::payload::Request;
use hipdnn_plugin_sdk::wire::EngineConfig;

struct Counting;

/// Of all threads together.
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the layout satisfies `GlobalAlloc::alloc`, whose contract this function has.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: `at` is from `alloc` with this layout, which is `System`'s.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The count covers all threads, so these tests run one after the other in a separate process.
#[test]
fn executions_allocate_nothing() {
    let program = std::env::current_exe().unwrap();
    let options = ["--ignored", "--test-threads=1", "no_allocation::"];
    let output = Command::new(program).args(options).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("5 passed"), "{text}");
}

/// y = relu(batchnorm(convolution(x, w))) with images of the given size and x and w of this dtype.
fn graph(size: i64, of: DataType) -> Graph {
    let image = [2, 8, size, size];
    let packed = [8 * size * size, size * size, size, 1];
    let float = DataType::Float;
    let mut tensors = vec![
        Tensor::new(1, of, &image, &packed),
        Tensor::new(2, of, &[8, 8, 3, 3], &[72, 9, 3, 1]),
        Tensor::new(3, float, &image, &packed),
        Tensor::new(4, float, &[1, 8, 1, 1], &[8, 1, 1, 1]),
        Tensor::new(5, float, &[1], &[1]),
        Tensor::new(6, float, &image, &packed),
        Tensor::new(7, float, &image, &packed),
    ];
    tensors[4].value = Some(TensorValue::Float32(1e-5));
    tensors[2].is_virtual = true;
    tensors[5].is_virtual = true;
    let node = |operation: Operation| Node { name: String::new(), compute_type: float, operation };
    let nodes = vec![
        node(
            ConvolutionForward {
                pre_padding: vec![1, 1],
                post_padding: vec![1, 1],
                ..ConvolutionForward::new(1, 2, 3, 2)
            }
            .into(),
        ),
        node(Batchnorm::new(3, 4, 4, 5, 6).into()),
        node(Pointwise::new(PointwiseMode::ReluFwd, 6, None, 7).into()),
    ];
    Graph { tensors, nodes, ..Graph::default() }
}

#[test]
#[ignore = "run in a process of its own by `executions_allocate_nothing`"]
fn an_execution_allocates_nothing() {
    for engine in 0..2 {
        let types = [DataType::Float, DataType::Fp8E4m3, DataType::Int8];
        for (size, of) in [3, 5, 64].into_iter().flat_map(|size| types.map(|of| (size, of))) {
            let plan = planner(engine).plan(&graph(size, of)).unwrap();
            let mut memory = vec![vec![0.5_f32; (16 * size * size) as usize]; 2];
            let (mut w, mut scale) = (vec![0.5_f32; 576], vec![0.5_f32; 8]);
            let mut workspace = vec![0_u8; plan.workspace_size()];
            let places = [workspace.as_mut_ptr(), std::ptr::null_mut()];
            let [x, y] = memory.get_disjoint_mut([0, 1]).unwrap();
            let buffers = [(1, x), (2, &mut w), (4, &mut scale), (7, y)]
                .map(|(uid, values)| hipdnnPluginDeviceBuffer_t { uid, ptr: values.as_mut_ptr().cast() });
            let allocations = |workspace: *mut u8| {
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                for _ in 0..if size > 8 { 5 } else { 100 } {
                    // SAFETY: every tensor has memory for its extent, and the workspace is null or has the size that the plan
                    // asks for.
                    unsafe { plan.execute(&buffers, workspace) }.unwrap();
                }
                ALLOCATIONS.load(Ordering::Relaxed) - before
            };
            // The test harness, new threads, and the first execution with a null workspace sometimes
            // allocate; a faulty execution would every time.
            for place in places {
                let is_null = place.is_null();
                assert!(
                    (0..10).any(|_| allocations(place) == 0),
                    "engine {engine}, size {size} of {of:?}, null workspace: {is_null}"
                );
            }
        }
    }
}

/// Products whose operands are read in place, copied, and converted, of sizes for one thread and for several.
#[test]
#[ignore = "run in a process of its own by `executions_allocate_nothing`"]
fn products_of_matrices_allocate_nothing() {
    for (data_type, bytes) in [(DataType::Float, 4), (DataType::Half, 2), (DataType::Int8, 1)] {
        for size in [7, 300] {
            let packed = [size, 1];
            let tensors = [(1, packed), (2, [1, size]), (3, packed)]
                .map(|(uid, strides)| Tensor::new(uid, data_type, &[size, size], &strides));
            let operation = Matmul { a: 1, b: 2, c: 3 }.into();
            let node = Node { name: String::new(), compute_type: DataType::Float, operation };
            let graph = Graph { tensors: tensors.into(), nodes: vec![node], ..Graph::default() };
            let plan = planner(0).plan(&graph).unwrap();
            let mut memory = [(); 3].map(|()| vec![0_u8; (size * size * bytes) as usize]);
            let mut workspace = vec![0_u8; plan.workspace_size()];
            let mut uids = 1..;
            let buffers = memory.each_mut().map(|bytes| hipdnnPluginDeviceBuffer_t {
                uid: uids.next().unwrap(),
                ptr: bytes.as_mut_ptr().cast(),
            });
            let mut allocations = || {
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                for _ in 0..5 {
                    // SAFETY: every tensor has memory for its extent, and the workspace has the size that the plan asks for.
                    unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
                }
                ALLOCATIONS.load(Ordering::Relaxed) - before
            };
            assert!((0..10).any(|_| allocations() == 0), "{data_type:?}, size {size}");
        }
    }
}

/// Attention with a mask, and with 8-bit factors, of sizes for one thread and for several.
#[test]
#[ignore = "run in a process of its own by `executions_allocate_nothing`"]
fn attention_allocates_nothing() {
    let types = [DataType::Float, DataType::Fp8E4m3];
    for (queries, of) in [3, 400].into_iter().flat_map(|queries| types.map(|of| (queries, of))) {
        let rows = |uid| Tensor::new(uid, of, &[1, 3, queries, 8], &[24 * queries, 8, 24, 1]);
        let mut tensors: Vec<Tensor> = (1..5).map(rows).collect();
        tensors.push(Tensor::new(5, DataType::Float, &[queries, queries], &[queries, 1]));
        tensors.extend((6..8).map(|uid| Tensor::new(uid, DataType::Float, &[1], &[1])));
        let small = |uid| Value::Uid((of != DataType::Float).then_some(uid));
        let spec = Operation::SPECS.iter().find(|spec| spec.name == "Sdpa").unwrap();
        let values = spec.fields.iter().map(|field| match (field.name, field.kind) {
            ("q", _) => Value::Uid(Some(1)),
            ("k", _) => Value::Uid(Some(2)),
            ("v", _) => Value::Uid(Some(3)),
            ("o", _) => Value::Uid(Some(4)),
            ("attn_mask", _) => Value::Uid(Some(5)),
            ("scale_s", _) => small(6),
            ("amax_s", _) => small(7),
            (_, FieldKind::Input { .. } | FieldKind::Output { .. }) => Value::Uid(None),
            (_, FieldKind::Float) => Value::Float(None),
            (_, FieldKind::Flag { required }) => Value::Flag(required.then_some(false)),
            (_, FieldKind::Int { .. }) => Value::Int(None),
            (_, FieldKind::Int32 { .. }) => Value::Int32(None),
            (_, FieldKind::Enum(_)) => Value::Enum(0),
            (name, kind) => panic!("{name} is of kind {kind:?}, which no attention has"),
        });
        let operation = (spec.from_values)(values.collect()).unwrap();
        let node = Node { name: String::new(), compute_type: DataType::Float, operation };
        let graph = Graph { tensors, nodes: vec![node], ..Graph::default() };
        let plan = planner(0).plan(&graph).unwrap();
        let mut memory: Vec<Vec<u8>> = graph
            .tensors
            .iter()
            .map(|tensor| vec![0_u8; 4 * tensor.dims.iter().product::<i64>() as usize])
            .collect();
        let mut workspace = vec![0_u8; plan.workspace_size()];
        let buffers: Vec<hipdnnPluginDeviceBuffer_t> = (1..)
            .zip(&mut memory)
            .map(|(uid, bytes)| hipdnnPluginDeviceBuffer_t { uid, ptr: bytes.as_mut_ptr().cast() })
            .collect();
        let mut allocations = || {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for _ in 0..5 {
                // SAFETY: every tensor has memory for its extent, and the workspace has the size that the plan asks for.
                unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
            }
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        assert!((0..10).any(|_| allocations() == 0), "{queries} queries of {of:?}");
    }
}

/// A product with 4-bit integers, a layer normalization, a round trip to a small type, pooling and a sum, one
/// after the other; and a mixture of two experts with its gradient.
fn chain() -> Graph {
    let float = DataType::Float;
    let whole: &[i64] = &[2, 3, 4, 4];
    let shapes: [(DataType, &[i64]); 16] = [
        (float, whole),
        (DataType::Int4, &[1, 1, 4, 4]),
        (float, whole),
        (float, &[4, 4]),
        (float, &[1]),
        (float, whole),
        (DataType::Fp4E2m1, whole),
        (DataType::Fp8E8m0, &[2, 3, 4, 2]),
        (float, whole),
        (float, &[2, 3, 2, 2]),
        (float, &[2, 1, 2, 2]),
        (float, &[1, 4, 4]),
        (float, &[2, 4, 4]),
        (DataType::Int32, &[2, 1, 1]),
        (float, &[1, 4, 4]),
        (float, &[2, 4, 4]),
    ];
    let tensor = |(uid, (data_type, dims)): (i64, (DataType, &[i64]))| {
        let mut strides = vec![1; dims.len()];
        for axis in (1..dims.len()).rev() {
            strides[axis - 1] = strides[axis] * dims[axis];
        }
        let mut tensor = Tensor::new(uid, data_type, dims, &strides);
        tensor.is_virtual = [3, 6, 7, 8, 9, 10, 15, 16].contains(&uid);
        tensor.value = (uid == 5).then_some(TensorValue::Float32(1e-3));
        tensor
    };
    let tensors = (1..).zip(shapes).map(tensor).collect();
    let operations: [Operation; 8] = [
        Matmul { a: 1, b: 2, c: 3 }.into(),
        Layernorm {
            x: 3,
            scale: 4,
            bias: 4,
            epsilon: 5,
            y: 6,
            mean: None,
            inv_variance: None,
            forward_phase: NormFwdPhase::Inference,
            normalized_dim_count: 2,
        }
        .into(),
        BlockScaleQuantize { x: 6, y: 7, scale: 8, block_size: 2, axis: None, transpose: false }.into(),
        BlockScaleDequantize { x: 7, scale: 8, y: 9, block_size: vec![2], is_negative_scale: false }.into(),
        ResampleForward {
            x: 9,
            y: 10,
            index: None,
            pre_padding: vec![0, 0],
            post_padding: vec![0, 0],
            stride: vec![2, 2],
            window: vec![2, 2],
            resample_mode: ResampleMode::Maxpool,
            padding_mode: PaddingMode::NegInfPad,
            generate_index: None,
        }
        .into(),
        Reduction { in_: 10, out: 11, mode: ReductionMode::Norm2, is_deterministic: false }.into(),
        MoeGroupedMatmul {
            token: 12,
            weight: 13,
            first_token_offset: 14,
            token_index: None,
            token_ks: None,
            output: 15,
            mode: MoeGroupedMatmulMode::None,
            top_k: 0,
        }
        .into(),
        MoeGroupedMatmulBackward { doutput: 12, token: 12, first_token_offset: 14, dweight: 16 }.into(),
    ];
    let node = |operation| Node { name: String::new(), compute_type: float, operation };
    Graph { tensors, nodes: operations.map(node).into(), ..Graph::default() }
}

#[test]
#[ignore = "run in a process of its own by `executions_allocate_nothing`"]
fn kernels_of_a_chain_allocate_nothing() {
    for engine in 0..2 {
        let plan = planner(engine).plan(&chain()).unwrap();
        let (mut x, mut w, mut scale, mut sums) =
            ([0.5_f32; 96], [0.5_f32; 16], [0.5_f32; 16], [f32::NAN; 8]);
        x[7] = 3.0;
        let mut workspace = vec![0_u8; plan.workspace_size()];
        let mut first = [0.0_f32, f32::from_bits(3)];
        let [x, w, scale] = [&mut x[..], &mut w, &mut scale].map(<[f32]>::as_mut_ptr);
        let arrays =
            [(1, x), (2, w), (4, scale), (11, sums.as_mut_ptr()), (12, x), (13, x), (14, first.as_mut_ptr())];
        let buffers = arrays.map(|(uid, values)| hipdnnPluginDeviceBuffer_t { uid, ptr: values.cast() });
        let mut allocations = || {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for _ in 0..100 {
                // SAFETY: every tensor has memory for its extent, and the workspace has the size that the plan asks for.
                unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
            }
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        assert!((0..10).any(|_| allocations() == 0));
        assert!(sums.iter().all(|sum| sum.is_finite()));
    }
}

/// The first execution with new shapes plans them; later ones only find the plan, and its memory if the
/// workspace is too small.
#[test]
#[ignore = "run in a process of its own by `executions_allocate_nothing`"]
fn an_execution_with_shapes_seen_before_allocates_nothing() {
    for (engine, size) in [(0, 5), (1, 5), (0, 70), (1, 70)] {
        let graph = graph(9, DataType::Float);
        let prepared = prepare(&graph).unwrap();
        let request = Request { graph, config: EngineConfig::default() };
        let planned = Compiled::new(request, &prepared, Planner::new(engine, &[]).unwrap()).unwrap();
        let dims = [2, 8, size, size];
        let strides = [8 * size * size, size * size, size, 1];
        let uids = [1_i64, 3, 6, 7];
        let (all_dims, all_strides) = ([dims.as_ptr(); 4], [strides.as_ptr(); 4]);
        let mut memory = vec![vec![0.5_f32; (16 * size * size) as usize]; 2];
        let (mut w, mut scale) = (vec![0.5_f32; 576], vec![0.5_f32; 8]);
        let mut workspace = vec![0_u8; planned.workspace_size()];
        let [x, y] = memory.get_disjoint_mut([0, 1]).unwrap();
        let buffers = [(1, x), (2, &mut w), (4, &mut scale), (7, y)]
            .map(|(uid, values)| hipdnnPluginDeviceBuffer_t { uid, ptr: values.as_mut_ptr().cast() });
        // SAFETY: the arrays have four elements each, and what they point to too.
        let overrides = unsafe {
            Overrides::from_raw(4, uids.as_ptr(), [4; 4].as_ptr(), all_dims.as_ptr(), all_strides.as_ptr())
        }
        .unwrap();
        let mut allocations = || {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for _ in 0..if size > 8 { 2 } else { 100 } {
                // SAFETY: every tensor has memory for its extent, and the workspace has the size that the plan asks for.
                unsafe { planned.execute_with(&buffers, workspace.as_mut_ptr(), overrides, null_mut()) }
                    .unwrap();
            }
            ALLOCATIONS.load(Ordering::Relaxed) - before
        };
        assert!((0..10).any(|_| allocations() == 0), "engine {engine}, size {size}");
    }
}
