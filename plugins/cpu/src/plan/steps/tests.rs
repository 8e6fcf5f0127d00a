use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use super::*;
use crate::reference::plan_node;
use crate::workspace::place_virtuals;

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

#[test]
fn dead_tensors_give_their_memory_back() {
    let plan = Plan::new(&chain(), plan_node).unwrap();
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
fn places_of_live_tensors_do_not_overlap() {
    // Each node reads two virtual tensors of different lives, of sizes that leave gaps of all kinds.
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
            // A stride in one dimension of two makes an extent without more elements.
            tensor.dims = vec![2];
            tensor.strides = vec![1 + random(300) as i64];
        }
        for uid in 1..40 {
            let earlier = [0; 2].map(|_| random(uid) as i64);
            graph.nodes.push(pointwise(PointwiseMode::Add, earlier[0], Some(earlier[1]), uid as i64));
        }
        let virtuals = place_virtuals(&prepare(&graph).unwrap(), ALIGNMENT).unwrap();
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
        let plan = Plan::new(&graph, plan_node).unwrap();
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
fn a_long_graph_is_planned_at_once() {
    let length = 5_000;
    let mut graph = Graph {
        tensors: tensors(
            &(0..=length).map(|uid| (uid, 3)).collect::<Vec<_>>(),
            &(1..length).collect::<Vec<_>>(),
        ),
        nodes: (0..length).map(|uid| pointwise(PointwiseMode::Neg, uid, None, uid + 1)).collect(),
        ..Graph::default()
    };
    let plan = Plan::new(&graph, plan_node).unwrap();
    assert_eq!(plan.workspace_size(), 2 * 64 + 63);
    let (mut x, mut y) = ([1.0_f32, -2.0, 3.0], [0.0_f32; 3]);
    let mut workspace = vec![0_u8; plan.workspace_size()];
    let buffers = [buffer(0, &mut x), buffer(length, &mut y)];
    // SAFETY: both tensors have 3 elements, and the workspace its size.
    unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
    assert_eq!(x, y);
    graph.nodes = vec![graph.nodes.remove(0); 10_001];
    assert!(Plan::new(&graph, plan_node).err().unwrap().contains("10001 nodes, expected at most 10000"));
}

#[test]
fn what_is_not_bound_is_named() {
    let plan = Plan::new(&chain(), plan_node).unwrap();
    let (mut x, mut y) = (vec![1.0; 100], vec![7.0; 100]);
    let mut workspace = vec![0_u8; plan.workspace_size()];
    let null = hipdnnPluginDeviceBuffer_t { uid: 5, ptr: std::ptr::null_mut() };
    for (buffers, workspace, parts) in [
        (vec![buffer(1, &mut x)], workspace.as_mut_ptr(), ["tensor 5", "none of the 1"]),
        (vec![buffer(5, &mut y)], workspace.as_mut_ptr(), ["tensor 1", "none of the 1"]),
        (vec![], workspace.as_mut_ptr(), ["tensor 1", "none of the 0"]),
        (vec![buffer(1, &mut x), null], workspace.as_mut_ptr(), ["tensor 5", "null"]),
        (vec![buffer(1, &mut x), buffer(5, &mut y)], std::ptr::null_mut(), ["workspace is null", "959"]),
    ] {
        // SAFETY: what is bound is valid.
        let error = unsafe { plan.execute(&buffers, workspace) }.unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(y, [7.0; 100]);
    }
}

#[test]
fn refusals_of_a_kernel_name_the_node() {
    let mut graph = chain();
    graph.nodes[2].compute_type = DataType::Int32;
    let refusal = Plan::new(&graph, plan_node).err().unwrap();
    assert!(refusal.starts_with("node 2 \"it\" (Pointwise): compute type is int32"), "{refusal}");
}

#[test]
fn a_workspace_beyond_the_address_space_is_refused() {
    let mut graph = chain();
    for tensor in &mut graph.tensors {
        tensor.dims = vec![1 << 60];
    }
    // Each tensor alone would fit.
    let refusal = Plan::new(&graph, plan_node).err().unwrap();
    assert!(refusal.contains("workspace"), "{refusal}");
}

#[test]
fn plans_are_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let plan = Plan::new(&chain(), plan_node).unwrap();
    shared(&plan);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let plan = &plan;
            scope.spawn(move || {
                for round in 0..200 {
                    let mut x = vec![(thread * 1000 + round) as f32; 100];
                    let mut y = vec![0.0; 100];
                    let mut workspace = vec![0_u8; plan.workspace_size()];
                    let buffers = [buffer(1, &mut x), buffer(5, &mut y)];
                    // SAFETY: every thread has its own tensors and workspace.
                    unsafe { plan.execute(&buffers, workspace.as_mut_ptr()) }.unwrap();
                    assert_eq!(x, y);
                }
            });
        }
    });
}
