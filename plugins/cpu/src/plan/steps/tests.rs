use std::sync::atomic::{AtomicU32, Ordering};

use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode};

use super::*;
use crate::kernel::Facts;
use crate::plan::planner::Planner;
use crate::prepare::prepare;
use crate::threading::stop::hipdnnCpuPluginStopOn_ext;

fn pointwise(operation: PointwiseMode, in_0: i64, in_1: Option<i64>, out_0: i64) -> Node {
    Node {
        name: "it".to_owned(),
        compute_type: DataType::Unset,
        operation: Pointwise::new(operation, in_0, in_1, out_0).into(),
    }
}

/// Tensors of floats; those in `virtuals` have no memory.
fn tensors(lengths: &[(i64, i64)], virtuals: &[i64]) -> Vec<Tensor> {
    let of = |&(uid, length): &(i64, i64)| {
        let mut tensor = Tensor::new(uid, DataType::Float, &[length], &[1]);
        tensor.is_virtual = virtuals.contains(&uid);
        tensor
    };
    lengths.iter().map(of).collect()
}

/// 5 = -(-(-(-(1)))), over three virtual tensors of 100 floats.
fn chain() -> Graph {
    Graph {
        tensors: tensors(&[(1, 100), (2, 100), (3, 100), (4, 100), (5, 100)], &[2, 3, 4]),
        nodes: (1..5).map(|uid| pointwise(PointwiseMode::Neg, uid, None, uid + 1)).collect(),
        ..Graph::default()
    }
}

fn buffer(uid: i64, values: &mut [f32]) -> hipdnnPluginDeviceBuffer_t {
    hipdnnPluginDeviceBuffer_t { uid, ptr: values.as_mut_ptr().cast() }
}

fn reference(graph: &Graph) -> Result<Plan, Refusal> {
    Planner::Reference.plan(graph)
}

#[test]
fn memory_of_dead_tensors_is_reused() {
    let plan = reference(&chain()).unwrap();
    // 400 bytes are 448 with alignment; only neighbours live at the same time.
    assert_eq!(plan.workspace_size(), 2 * 448 + 63);
    assert_eq!(plan.bound(), [1, 5]);
    let mut x: Vec<f32> = (0..100).map(|i| i as f32).collect();
    let mut y = vec![0.0; 100];
    let mut workspace = vec![0_u8; plan.workspace_size() + 1];
    let buffers = [buffer(5, &mut y), buffer(7, &mut []), buffer(1, &mut x)];
    // SAFETY: the tensors have 100 elements, the workspace its size from an odd address.
    unsafe { plan.execute(&buffers, workspace[1..].as_mut_ptr()) }.unwrap();
    assert_eq!(x, y);
}

#[test]
fn without_a_workspace_the_plan_allocates_one() {
    let plan = reference(&chain()).unwrap();
    for round in 0..3 {
        let mut x: Vec<f32> = (0..100).map(|i| (i * round) as f32).collect();
        let mut y = vec![f32::NAN; 100];
        let buffers = [buffer(1, &mut x), buffer(5, &mut y)];
        // SAFETY: the tensors have 100 elements.
        unsafe { plan.execute(&buffers, std::ptr::null_mut()) }.unwrap();
        assert_eq!(x, y);
    }
    let mut large = chain();
    large.tensors.iter_mut().for_each(|tensor| tensor.dims = vec![1 << 58]);
    let plan = reference(&large).unwrap();
    let (mut x, mut y) = ([0.0], [0.0]);
    // SAFETY: a workspace of this size cannot be allocated, so nothing is read or written.
    let error = unsafe { plan.execute(&[buffer(1, &mut x), buffer(5, &mut y)], std::ptr::null_mut()) };
    let error = error.unwrap_err();
    assert_eq!(error, ExecuteError::NoMemory(plan.workspace_size()));
    assert!(error.to_string().contains(&format!("{} bytes", plan.workspace_size())), "{error}");
}

/// 2 = -(1), virtual but read by no node, 3 = |1|, and 5 = 4 - 1 with 4 = max(1, 0), which is read.
fn unmarked() -> Graph {
    Graph {
        tensors: tensors(&[(1, 100), (2, 100), (3, 100), (4, 100), (5, 100)], &[2, 4, 5]),
        nodes: vec![
            pointwise(PointwiseMode::Neg, 1, None, 2),
            pointwise(PointwiseMode::Abs, 1, None, 3),
            pointwise(PointwiseMode::ReluFwd, 1, None, 4),
            pointwise(PointwiseMode::Sub, 4, Some(1), 5),
        ],
        ..Graph::default()
    }
}

/// Runs [`unmarked`] with some tensors bound, and checks that the others are untouched.
fn check_unmarked(plan: &Plan, bound: &[i64]) {
    let mut x: Vec<f32> = (-50..50).map(|i| i as f32).collect();
    let mut memory = [(); 4].map(|()| vec![7.0_f32; 100]);
    let null = |uid| hipdnnPluginDeviceBuffer_t { uid, ptr: std::ptr::null_mut() };
    let mut buffers: Vec<_> = (2..).zip(&mut memory).map(|(uid, values)| buffer(uid, values)).collect();
    // Every other unbound tensor is listed with a null pointer.
    buffers.retain(|buffer| bound.contains(&buffer.uid));
    buffers.extend([2, 4].into_iter().filter(|uid| !bound.contains(uid)).map(null));
    buffers.push(buffer(1, &mut x));
    // SAFETY: every tensor has 100 elements.
    unsafe { plan.execute(&buffers, std::ptr::null_mut()) }.unwrap();
    let functions: [fn(f32) -> f32; 4] = [|x| -x, f32::abs, |_| 7.0, |x| x.max(0.0) - x];
    for (uid, (values, of)) in (2..).zip(memory.iter().zip(functions)) {
        let expected: Vec<f32> = x.iter().map(|x| if bound.contains(&uid) { of(*x) } else { 7.0 }).collect();
        assert_eq!(*values, expected, "tensor {uid} of {bound:?}");
    }
}

#[test]
fn unread_virtual_tensors_are_written_if_bound() {
    for engine in 0..2 {
        let plan = crate::plan::planner::planner(engine).plan(&unmarked()).unwrap();
        assert_eq!(plan.bound(), [1, 3]);
        assert_eq!(plan.bindable().len(), 4);
        // Tensor 4 is read and stays virtual, even if bound.
        for bound in [&[3][..], &[2, 3], &[3, 5], &[2, 3, 4, 5], &[3]] {
            check_unmarked(&plan, bound);
        }
    }
}

#[test]
fn live_tensors_do_not_overlap() {
    // Each node reads two virtual tensors of different lifetimes, whose sizes leave gaps of all kinds.
    let lengths: Vec<(i64, i64)> = (0..40).map(|uid| (uid, 1)).collect();
    for seed in 0..50_u64 {
        let mut state = seed;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let mut graph =
            Graph { tensors: tensors(&lengths, &(1..39).collect::<Vec<_>>()), ..Graph::default() };
        for tensor in &mut graph.tensors {
            // A stride in one of two dimensions enlarges the extent without adding elements.
            tensor.dims = vec![2];
            tensor.strides = vec![1 + random(300) as i64];
        }
        for uid in 1..40 {
            let earlier = [0; 2].map(|_| random(uid) as i64);
            graph.nodes.push(pointwise(PointwiseMode::Add, earlier[0], Some(earlier[1]), uid as i64));
        }
        let Prepared { graph, unmarked, .. } = prepare(&graph).unwrap();
        let steps: Vec<Vec<i64>> = graph.nodes.iter().map(|node| node.operation.tensors()).collect();
        let virtuals = place_in_steps(&graph, &unmarked, steps.iter().map(Vec::as_slice), ALIGNMENT).unwrap();
        assert_eq!(virtuals.places.len(), 38);
        for (i, a) in virtuals.places.iter().enumerate() {
            assert_eq!(a.offset % ALIGNMENT, 0);
            assert!(a.offset + a.size <= virtuals.size);
            for b in &virtuals.places[i + 1..] {
                let alive_together = a.first <= b.last && b.first <= a.last;
                let overlap = a.offset < b.offset + b.size && b.offset < a.offset + a.size;
                assert!(!(alive_together && overlap), "tensors {} and {} overlap", a.uid, b.uid);
            }
        }
    }
}

#[test]
fn values_of_the_graph_have_the_type_of_their_tensor() {
    for (data_type, value, expected) in [
        (DataType::Float, TensorValue::Float32(2.5), 2.5),
        (DataType::Half, TensorValue::Float64(2.5), 2.5),
        (DataType::Double, TensorValue::Float16(2.5), 2.5),
        (DataType::Bfloat16, TensorValue::BFloat16(2.5), 2.5),
        (DataType::Int32, TensorValue::Float32(2.5), 2.0),
        (DataType::Int64, TensorValue::Int64(-7), -7.0),
        (DataType::Int8, TensorValue::Int32(-7), -7.0),
        (DataType::Boolean, TensorValue::Bool(true), 1.0),
        (DataType::Unset, TensorValue::Int32(9), 9.0),
    ] {
        let mut graph = Graph {
            tensors: tensors(&[(1, 1), (2, 3), (3, 3)], &[]),
            nodes: vec![pointwise(PointwiseMode::Add, 2, Some(1), 3)],
            ..Graph::default()
        };
        graph.tensors[0].data_type = data_type;
        graph.tensors[0].value = Some(value);
        let plan = reference(&graph).unwrap();
        assert_eq!(plan.workspace_size(), 0);
        let (mut x, mut y) = ([1.0_f32, 2.0, 3.0], [0.0_f32; 3]);
        let buffers = [buffer(2, &mut x), buffer(3, &mut y)];
        // SAFETY: both tensors have 3 elements, and no workspace is needed.
        unsafe { plan.execute(&buffers, std::ptr::null_mut()) }.unwrap();
        assert_eq!(y.map(f64::from), x.map(|x| f64::from(x) + expected), "{value:?} as {data_type:?}");
    }
}

#[test]
fn a_long_integer_is_kept_exactly() {
    let mut tensor = Tensor::new(1, DataType::Int64, &[1], &[1]);
    let value = TensorValue::Int64(i64::MAX - 1);
    assert_eq!(word(&tensor, &value).map(u64::cast_signed), Ok(i64::MAX - 1));
    tensor.data_type = DataType::Unset;
    assert!(word(&tensor, &value).unwrap_err().contains("tensor 1"));
}

#[test]
fn a_long_graph_is_planned_quickly() {
    let length = 5_000;
    let mut graph = Graph {
        tensors: tensors(
            &(0..=length).map(|uid| (uid, 3)).collect::<Vec<_>>(),
            &(1..length).collect::<Vec<_>>(),
        ),
        nodes: (0..length).map(|uid| pointwise(PointwiseMode::Neg, uid, None, uid + 1)).collect(),
        ..Graph::default()
    };
    let plan = reference(&graph).unwrap();
    assert_eq!(plan.workspace_size(), 2 * 64 + 63);
    let (mut x, mut y) = ([1.0_f32, -2.0, 3.0], [0.0_f32; 3]);
    let mut workspace = vec![0_u8; plan.workspace_size()];
    let buffers = [buffer(0, &mut x), buffer(length, &mut y)];
    // SAFETY: both tensors have 3 elements, and the workspace its size.
    unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
    assert_eq!(x, y);
    graph.nodes = vec![graph.nodes.remove(0); 10_001];
    assert!(reference(&graph).err().unwrap().contains("10001 nodes, expected at most 10000"));
}

#[test]
fn unbound_tensors_are_named() {
    let plan = reference(&chain()).unwrap();
    let (mut x, mut y) = (vec![1.0; 100], vec![7.0; 100]);
    let null = hipdnnPluginDeviceBuffer_t { uid: 5, ptr: std::ptr::null_mut() };
    for (buffers, parts) in [
        (vec![buffer(1, &mut x)], ["tensor 5", "none of the 1"]),
        (vec![buffer(5, &mut y)], ["tensor 1", "none of the 1"]),
        (vec![], ["tensor 1", "none of the 0"]),
        (vec![buffer(1, &mut x), null], ["tensor 5", "null"]),
    ] {
        // SAFETY: the buffers are those of the arrays above, which have as many elements as their tensors.
        let error = unsafe { plan.execute(&buffers, std::ptr::null_mut()) }.unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(y, [7.0; 100]);
    }
}

#[test]
fn refusals_of_a_kernel_name_the_node() {
    let mut graph = chain();
    graph.nodes[2].compute_type = DataType::Int8;
    let refusal = reference(&graph).err().unwrap();
    assert!(refusal.starts_with("node 2 \"it\" (Pointwise): compute type is int8"), "{refusal}");
}

#[test]
fn a_workspace_beyond_the_address_space_is_refused() {
    let mut graph = chain();
    for tensor in &mut graph.tensors {
        tensor.dims = vec![1 << 60];
    }
    // Each tensor alone would fit.
    let refusal = reference(&graph).err().unwrap();
    assert!(refusal.contains("workspace"), "{refusal}");
}

/// Tokens 1 (2 × 3) times the matrices 2 of 2 experts: 4 = 1 · 2, where 3 has the first row of each group.
fn mixture() -> Graph {
    use hipdnn_plugin_sdk::graph::MoeGroupedMatmulMode;
    use hipdnn_plugin_sdk::graph::operation::MoeGroupedMatmul;
    let tensor =
        |uid, data_type, dims: [i64; 3]| Tensor::new(uid, data_type, &dims, &[dims[1] * dims[2], dims[2], 1]);
    let node = MoeGroupedMatmul {
        token: 1,
        weight: 2,
        first_token_offset: 3,
        token_index: None,
        token_ks: None,
        output: 4,
        mode: MoeGroupedMatmulMode::None,
        top_k: 1,
    };
    Graph {
        tensors: vec![
            tensor(1, DataType::Float, [1, 2, 3]),
            tensor(2, DataType::Float, [2, 3, 4]),
            tensor(3, DataType::Int32, [2, 1, 1]),
            tensor(4, DataType::Float, [1, 2, 4]),
        ],
        nodes: vec![Node { name: String::new(), compute_type: DataType::Float, operation: node.into() }],
        ..Graph::default()
    }
}

#[test]
fn indices_may_not_overlap_outputs() {
    for engine in 0..2 {
        let plan = crate::plan::planner::planner(engine).plan(&mixture()).unwrap();
        let (mut token, mut weight) = ([1.0; 6], [1.0; 24]);
        // The groups' offsets are the last two words of the result, straddle its end, or lie just after it.
        for (place, overlaps) in [(6, true), (7, true), (8, false)] {
            let mut result = [0.0_f32; 10];
            let (mut workspace, first) = (vec![0_u8; plan.workspace_size()], result.as_mut_ptr());
            let buffers = [
                buffer(1, &mut token),
                buffer(2, &mut weight),
                hipdnnPluginDeviceBuffer_t { uid: 3, ptr: first.wrapping_add(place).cast() },
                hipdnnPluginDeviceBuffer_t { uid: 4, ptr: first.cast() },
            ];
            // SAFETY: the tensors have their elements, and the workspace its size.
            let done = unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) };
            let Err(error) = done else {
                assert!(!overlaps);
                assert_eq!(result[..8], [3.0; 8]);
                continue;
            };
            let text = error.to_string();
            assert!(text.contains("tensor 3 of 8 bytes overlaps tensor 4, which is written"), "{text}");
            assert!(overlaps && result == [0.0; 10]);
        }
    }
}

#[test]
fn indices_may_not_overlap_the_workspace() {
    let mut graph = mixture();
    // A virtual tensor follows, so that there is a workspace.
    graph.tensors[3].is_virtual = true;
    let result = &graph.tensors[3];
    let mut negative = Tensor::new(5, DataType::Float, &result.dims, &result.strides);
    negative.is_virtual = false;
    graph.tensors.push(negative);
    graph.nodes.push(pointwise(PointwiseMode::Neg, 4, None, 5));
    let plan = reference(&graph).unwrap();
    let (mut token, mut weight, mut result) = ([1.0; 6], [1.0; 24], [0.0; 8]);
    let mut workspace = vec![0_u64; plan.workspace_size().div_ceil(8)];
    let inside = workspace.as_mut_ptr().wrapping_add(7);
    let buffers = [
        buffer(1, &mut token),
        buffer(2, &mut weight),
        hipdnnPluginDeviceBuffer_t { uid: 3, ptr: inside.cast() },
        buffer(5, &mut result),
    ];
    // SAFETY: the tensors have their elements, and the workspace its size.
    let error = unsafe { plan.execute(&buffers, workspace.as_mut_ptr().cast()) }.unwrap_err().to_string();
    assert!(error.contains("tensor 3 of 8 bytes overlaps the workspace"), "{error}");
    assert_eq!(result, [0.0; 8]);
}

#[test]
fn plans_are_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let plan = reference(&chain()).unwrap();
    shared(&plan);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let plan = &plan;
            scope.spawn(move || {
                for round in 0..200 {
                    let mut x = vec![(thread * 1000 + round) as f32; 100];
                    let mut y = vec![0.0; 100];
                    let mut workspace = vec![0_u8; plan.workspace_size()];
                    let own = if round % 2 == 0 { std::ptr::null_mut() } else { workspace.as_mut_ptr() };
                    let buffers = [buffer(1, &mut x), buffer(5, &mut y)];
                    // SAFETY: every thread has its own tensors, and its own workspace or none.
                    unsafe { plan.execute(&buffers, own) }.unwrap();
                    assert_eq!(x, y);
                }
            });
        }
    });
}

/// Attention of one sequence of at most 4 rows of 2: 4 = 1, 2, 3, all ragged by 5; 6 and 7 are its lengths.
fn ragged_attention() -> Graph {
    use hipdnn_plugin_sdk::graph::operation::Sdpa;
    let rows = |uid| Tensor {
        ragged_offset_uid: Some(5),
        ..Tensor::new(uid, DataType::Float, &[1, 1, 4, 2], &[8, 8, 2, 1])
    };
    let integers = |uid, count| Tensor::new(uid, DataType::Int32, &[count, 1, 1, 1], &[1; 4]);
    let node = Sdpa { padding_mask: true, seq_len_q: Some(6), seq_len_kv: Some(7), ..Sdpa::new(1, 2, 3, 4) };
    Graph {
        tensors: (1..5).map(rows).chain([integers(5, 2), integers(6, 1), integers(7, 1)]).collect(),
        nodes: vec![Node { name: String::new(), compute_type: DataType::Float, operation: node.into() }],
        ..Graph::default()
    }
}

#[test]
fn indices_may_directly_follow_the_sequences_of_a_ragged_output() {
    let plan = reference(&ragged_attention()).unwrap();
    let mut workspace = vec![0_u8; plan.workspace_size()];
    // Two rows are four words. The query length is the last of these, just after them, or at the extent's
    // end.
    for (place, overlaps) in [(3, true), (4, false), (7, false)] {
        let (mut rows, mut offsets, mut length) = ([1.0_f32; 8], [0_i32, 4], [2_i32]);
        let mut result = [0_u32; 8];
        result[place] = 2;
        let first = result.as_mut_ptr();
        let of = |uid, ptr: *mut i32| hipdnnPluginDeviceBuffer_t { uid, ptr: ptr.cast() };
        let buffers = [
            buffer(1, &mut rows),
            of(2, rows.as_mut_ptr().cast()),
            of(3, rows.as_mut_ptr().cast()),
            of(4, first.cast()),
            of(5, offsets.as_mut_ptr()),
            of(6, first.wrapping_add(place).cast()),
            of(7, length.as_mut_ptr()),
        ];
        // SAFETY: the sequences lie in their tensors, and the workspace has its size.
        let done = unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) };
        match done {
            Ok(()) => assert!(!overlaps && result[..4] == [1.0_f32.to_bits(); 4] && result[place] == 2),
            Err(error) => {
                assert!(overlaps, "{error}");
                assert!(error.to_string().contains("tensor 6 of 4 bytes overlaps tensor 4"), "{error}");
            }
        }
    }
}

/// A kernel that computes nothing, and stops the execution that it is in.
struct Stopping(std::sync::Arc<AtomicU32>);

impl Kernel for Stopping {
    unsafe fn run(&self, _: &[*mut u8], _: *mut u8) {
        // More than one run would be seen.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn facts(&self) -> Facts {
        Facts::reference()
    }
}

#[test]
fn an_execution_stops_before_its_next_step() {
    let word = std::sync::Arc::new(AtomicU32::new(0));
    let graph = chain();
    let plan = Plan::new(&prepare(&graph).unwrap(), |_| Ok(Box::new(Stopping(word.clone())))).unwrap();
    let mut values = vec![vec![0.0; 100]; 2];
    let buffers: Vec<_> =
        plan.bound().iter().zip(&mut values).map(|(uid, values)| buffer(*uid, values)).collect();
    // SAFETY: the tensors are as long as the graph says, and the word outlives its use.
    let results = unsafe {
        hipdnnCpuPluginStopOn_ext(&raw const *word);
        let stopped = [(); 2].map(|()| plan.execute(&buffers, std::ptr::null_mut()));
        hipdnnCpuPluginStopOn_ext(std::ptr::null());
        (stopped, plan.execute(&buffers, std::ptr::null_mut()))
    };
    let [first, second] = [1, 0].map(|node| Err(ExecuteError::Stopped(node)));
    assert_eq!(results, ([first, second], Ok(())));
    assert_eq!(word.load(Ordering::Relaxed) as usize, 1 + graph.nodes.len());
}
