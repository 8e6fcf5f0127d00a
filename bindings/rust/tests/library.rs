//! Tests with a real library and its CPU engines, in the folder `HIPDNN_BACKEND_LIBRARY_PATH`: `cargo xtask build` makes `target/stage/lib`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failure of the test")]

use std::path::Path;

use hipdnn::graph::operation::{Matmul, Pointwise};
use hipdnn::graph::{DataType, PointwiseMode};
use hipdnn::{
    Backend, Contents, Engine, EngineConfig, Error, ExecutionPlan, GraphBuilder, Handle, KnobSetting,
    KnobValue, OperationGraph, Status, VariantPack,
};

/// Memory with the alignment of tensors.
#[repr(align(16))]
struct Array([f32; 4]);

fn backend() -> Backend {
    // By name, because cargo puts a library without engines beside this program.
    let folder =
        std::env::var_os("HIPDNN_BACKEND_LIBRARY_PATH").expect("HIPDNN_BACKEND_LIBRARY_PATH is not set");
    Backend::open(Some(Path::new(&folder))).unwrap()
}

/// y = relu(a · b) of 2 × 2 matrices, and the uids of its tensors.
fn matmul_relu(handle: &Handle) -> (OperationGraph, [i64; 3]) {
    let mut graph = GraphBuilder::new("matmul_relu", DataType::Float);
    let (a, b) = (graph.tensor(&[1, 2, 2]), graph.tensor(&[1, 2, 2]));
    let (c, y) = (graph.virtual_tensor(&[1, 2, 2]), graph.tensor(&[1, 2, 2]));
    graph.node("product", Matmul { a, b, c });
    graph.node("relu", Pointwise::new(PointwiseMode::ReluFwd, c, None, y));
    (graph.build(handle).unwrap(), [a, b, y])
}

fn run(handle: &Handle, plan: &ExecutionPlan, uids: [i64; 3], factor: f32) -> [f32; 4] {
    let mut arrays = [Array([factor, 0.0, 0.0, -factor]), Array([1.0, 2.0, 3.0, 4.0]), Array([f32::NAN; 4])];
    let memory: Vec<_> =
        uids.iter().zip(&mut arrays).map(|(uid, array)| (*uid, array.0.as_mut_ptr().cast())).collect();
    let mut workspace = vec![0_u8; plan.workspace_size().unwrap()];
    let pack = VariantPack::new(handle.backend(), &memory, workspace.as_mut_ptr().cast()).unwrap();
    // SAFETY: each array has the four elements of its tensor.
    unsafe { plan.execute(handle, &pack) }.unwrap();
    let [_, _, result] = arrays;
    result.0
}

fn cpu_engine(handle: &Handle) -> i64 {
    handle.engines().unwrap().into_iter().find(|engine| engine.name == "CPU_ENGINE").unwrap().id
}

#[test]
fn threads_share_a_plan_with_a_handle_each() {
    let backend = backend();
    let handle = Handle::new(&backend).unwrap();
    let (graph, uids) = matmul_relu(&handle);
    let engine = Engine::new(&graph, cpu_engine(&handle)).unwrap();
    let knobs = [KnobSetting { id: "threads".to_owned(), value: KnobValue::Int(1) }];
    let plan = ExecutionPlan::new(&EngineConfig::new(&engine, &knobs).unwrap()).unwrap();
    // The plan's sources may be dropped before it.
    drop((engine, graph, handle));
    std::thread::scope(|scope| {
        for factor in [1.0, 2.0, 3.0, 4.0] {
            let (plan, backend) = (&plan, backend.clone());
            scope.spawn(move || {
                let handle = Handle::new(&backend).unwrap();
                for _ in 0..50 {
                    assert_eq!(run(&handle, plan, uids, factor), [factor, 2.0 * factor, 0.0, 0.0]);
                }
            });
        }
    });
}

#[test]
fn a_saved_plan_is_loaded_with_its_graph() {
    let backend = backend();
    let handle = Handle::new(&backend).unwrap();
    let (graph, uids) = matmul_relu(&handle);
    let engine = Engine::new(&graph, cpu_engine(&handle)).unwrap();
    let plan = ExecutionPlan::new(&EngineConfig::new(&engine, &[]).unwrap()).unwrap();
    let bytes = plan.bytes_with(&graph).unwrap();
    assert_eq!(Contents::of(&backend, &bytes), Ok(Contents { graph: true, plan: true }));
    let loaded = ExecutionPlan::from_bytes(&handle, &bytes).unwrap();
    assert_eq!(loaded.engine_id(), plan.engine_id());
    assert_eq!(run(&handle, &loaded, uids, 1.0), [1.0, 2.0, 0.0, 0.0]);
    let cut = ExecutionPlan::from_bytes(&handle, bytes.get(..bytes.len() / 2).unwrap()).err().unwrap();
    assert!(matches!(cut, Error::Status { .. }), "{cut}");
}

#[test]
fn every_engine_has_a_rank_or_a_reason() {
    let handle = Handle::new(&backend()).unwrap();
    let (graph, _) = matmul_relu(&handle);
    let verdicts = graph.explain(&handle).unwrap();
    assert_eq!(verdicts.len(), handle.engines().unwrap().len());
    assert_eq!(verdicts.first().unwrap().rank, Some(1));
    for verdict in &verdicts {
        let reason = verdict.reason.as_deref();
        assert_eq!(verdict.rank.is_none(), reason.is_some_and(|reason| !reason.is_empty()), "{verdict:?}");
    }
}

#[test]
fn what_the_library_refuses_is_a_status_with_words() {
    let handle = Handle::new(&backend()).unwrap();
    let (graph, _) = matmul_relu(&handle);
    match Engine::new(&graph, 77).err().unwrap() {
        Error::Status { during, status, text } => {
            assert_eq!((during.as_str(), status), ("choosing the engine 77", Status::BadParam));
            // The library's message, and the available ids.
            assert!(text.contains("ngine id"), "{text}");
            let known = format!(": the graph can be run by CPU_ENGINE ({})", cpu_engine(&handle));
            assert!(text.contains(&known) && text.contains("CPU_REFERENCE_ENGINE ("), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn where_no_engine_can_run_a_graph_the_error_says_so() {
    let handle = Handle::new(&backend()).unwrap();
    let mut graph = GraphBuilder::new("refused", DataType::Float);
    let (a, b, c) = (graph.tensor(&[1, 2, 3]), graph.tensor(&[1, 2, 3]), graph.tensor(&[1, 2, 3]));
    graph.node("product", Matmul { a, b, c });
    let graph = graph.build(&handle).unwrap();
    assert!(graph.offer().unwrap().engines.is_empty());
    let error = Engine::new(&graph, cpu_engine(&handle)).err().unwrap().to_string();
    assert!(error.starts_with(&format!("choosing the engine {} failed: ", cpu_engine(&handle))), "{error}");
    assert!(error.contains(": no engine can run the graph ("), "{error}");
}

#[test]
fn a_plan_is_of_the_first_engine_that_can_make_one() {
    let backend = backend();
    let handle = Handle::new(&backend).unwrap();
    let (graph, uids) = matmul_relu(&handle);
    let cpu = cpu_engine(&handle);
    let (plan, failed) = ExecutionPlan::of_first(&graph, &[12345, cpu]).unwrap();
    assert_eq!(run(&handle, &plan, uids, 1.0), [1.0, 2.0, 0.0, 0.0]);
    assert!(matches!(&failed[..], [(12345, Error::Status { .. })]), "{failed:?}");
    let (_, failed) = ExecutionPlan::of_first(&graph, &[cpu]).unwrap();
    assert!(failed.is_empty());
    assert!(matches!(ExecutionPlan::of_first(&graph, &[12345, 6]), Err(Error::Status { .. })));
    assert!(matches!(ExecutionPlan::of_first(&graph, &[]), Err(Error::Argument(_))));
}
