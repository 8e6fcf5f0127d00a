use std::ffi::c_void;
use std::sync::Arc;

use hipdnn_plugin_planner::shapes::KEPT;
use hipdnn_plugin_sdk::graph::operation::Pointwise;
use hipdnn_plugin_sdk::graph::{DataType, Graph, Node, PointwiseMode, Tensor};
use hipdnn_plugin_sdk::wire::{EngineConfig, KnobSetting, KnobValue};

use super::*;
use crate::plan::planner::Planner;
use crate::prepare::prepare;

/// y = max(2 x, 0) in two steps over tensors 1, 2 (virtual) and 3; tensor 4 holds the 2.
fn graph(dims: &[i64], strides: &[i64]) -> Graph {
    let float = DataType::Float;
    let mut tensors: Vec<Tensor> = (1..=3).map(|uid| Tensor::new(uid, float, dims, strides)).collect();
    tensors[1].is_virtual = true;
    tensors.push(Tensor::new(4, float, &vec![1; dims.len()], &vec![1; dims.len()]));
    let node = |operation, in_0, in_1, out_0| Node {
        name: String::new(),
        compute_type: float,
        operation: Pointwise::new(operation, in_0, in_1, out_0).into(),
    };
    let nodes = vec![node(PointwiseMode::Mul, 1, Some(4), 2), node(PointwiseMode::ReluFwd, 2, None, 3)];
    Graph { tensors, nodes, is_override_shape_enabled: true, ..Graph::default() }
}

fn compiled(engine: usize, dims: &[i64], strides: &[i64]) -> Compiled {
    planned(Request { graph: graph(dims, strides), config: EngineConfig::default() }, engine)
}

fn planned(request: Request, engine: usize) -> Compiled {
    let prepared = prepare(&request.graph).unwrap();
    Compiled::new(request, &prepared, Planner::new(engine, &[]).unwrap()).unwrap()
}

/// Runs with this shape for every tensor but the scalar, and checks the result.
fn check(compiled: &Compiled, uids: &[i64], dims: &[i64], strides: &[i64]) -> Result<(), PluginError> {
    let extent = dims.iter().zip(strides).map(|(dim, stride)| (dim - 1) * stride).sum::<i64>() + 1;
    let mut x: Vec<f32> = (0..extent).map(|i| (i % 7 - 3) as f32).collect();
    let (mut two, mut y) = (2.0_f32, vec![-1.0_f32; extent as usize]);
    let pointer = |pointer: *mut f32| pointer.cast::<c_void>();
    let buffers = [(1, pointer(x.as_mut_ptr())), (4, pointer(&raw mut two)), (3, pointer(y.as_mut_ptr()))]
        .map(|(uid, ptr)| hipdnnPluginDeviceBuffer_t { uid, ptr });
    let mut workspace = vec![0_u8; compiled.workspace_size()];
    let lengths = vec![dims.len() as u32; uids.len()];
    let (all_dims, all_strides) = (vec![dims.as_ptr(); uids.len()], vec![strides.as_ptr(); uids.len()]);
    // SAFETY: every array has an element per uid, every tensor its extent, and the workspace its size.
    unsafe {
        let overrides = Overrides::from_raw(
            uids.len() as u32,
            uids.as_ptr(),
            lengths.as_ptr(),
            all_dims.as_ptr(),
            all_strides.as_ptr(),
        );
        compiled.execute_with(&buffers, workspace.as_mut_ptr(), overrides.unwrap(), null_mut())?;
    }
    for (x, y) in x.iter().zip(&y) {
        assert_eq!(*y, (2.0 * x).max(0.0));
    }
    Ok(())
}

#[test]
fn other_shapes_are_planned_and_kept() {
    for engine in 0..2 {
        let compiled = compiled(engine, &[2, 3], &[3, 1]);
        for _ in 0..2 {
            for rows in 1..=KEPT as i64 + 3 {
                check(&compiled, &[1, 2, 3], &[rows, 100], &[100, 1]).unwrap();
                let before = compiled.others.kept();
                check(&compiled, &[1, 2, 3], &[rows, 100], &[100, 1]).unwrap();
                let others = compiled.others.kept();
                assert!(Arc::ptr_eq(&before[0], &others[0]), "{rows}");
                assert!(others.len() <= KEPT);
            }
        }
    }
}

#[test]
fn the_last_shape_is_found_first() {
    let compiled = compiled(1, &[2, 3], &[3, 1]);
    let run = |rows| check(&compiled, &[1, 2, 3], &[rows, 3], &[3, 1]).unwrap();
    (4..7).for_each(run);
    let before = compiled.others.kept();
    run(4);
    let after = compiled.others.kept();
    assert_eq!(after.len(), 3);
    assert!(after.iter().zip([2, 0, 1]).all(|(plan, place)| Arc::ptr_eq(plan, &before[place])));
}

#[test]
fn overrides_differ_by_order_and_strides() {
    let compiled = compiled(1, &[2, 3], &[3, 1]);
    check(&compiled, &[1, 2, 3], &[4, 3], &[3, 1]).unwrap();
    check(&compiled, &[3, 2, 1], &[4, 3], &[3, 1]).unwrap();
    check(&compiled, &[1, 2, 3], &[4, 3], &[1, 4]).unwrap();
    assert_eq!(compiled.others.kept().len(), 3);
}

#[test]
fn invalid_shapes_are_refused_and_not_kept() {
    let compiled = compiled(0, &[2, 3], &[3, 1]);
    let error = check(&compiled, &[1, 2, 9], &[4, 3], &[3, 1]).unwrap_err();
    assert!(error.message().contains("tensor 9 has another shape"), "{error}");
    // The tensor between the two steps keeps its old shape.
    let error = check(&compiled, &[1, 3], &[4, 3], &[3, 1]).unwrap_err();
    assert!(error.message().contains("node 0"), "{error}");
    assert!(compiled.others.kept().is_empty());
}

#[test]
fn a_saved_plan_is_the_graph_and_its_configuration() {
    let knobs = vec![KnobSetting { knob_id: "knob".to_owned(), value: KnobValue::Int(3) }];
    let config = EngineConfig { engine_id: -5, knobs };
    let request = Request { graph: graph(&[2, 3], &[3, 1]), config };
    let bytes = planned(request.clone(), 1).save().unwrap();
    assert_eq!(Compiled::read(&bytes).unwrap(), request);
}

#[test]
fn damaged_plans_are_refused() {
    for parts in [&[b"".as_slice(), b""], &[&[0; 4], &[1; 9]], &[&[255; 40], b""]] {
        assert!(Compiled::read(&PAYLOAD.write(parts).unwrap()).is_err(), "{parts:?}");
    }
    let bytes = compiled(1, &[2, 3], &[3, 1]).save().unwrap();
    assert!(Compiled::read(&bytes[..bytes.len() - 1]).is_err());
    assert!(Compiled::read(&bytes).is_ok());
}

#[test]
fn a_loaded_plan_has_the_engine_and_the_settings_of_the_saved_one() {
    use hipdnn_plugin_sdk::EnginePlugin;

    use crate::plugin::CpuPlugin;

    let graph = graph(&[2, 3], &[3, 1]);
    let threads = [KnobSetting { knob_id: "threads".to_owned(), value: KnobValue::Int(1) }];
    for (engine, knobs) in [(0, &threads[..]), (0, &[]), (1, &[])] {
        let bytes = CpuPlugin::plan(&Default::default(), engine, &graph, knobs).unwrap().save().unwrap();
        let loaded = CpuPlugin::deserialize(&Default::default(), &bytes).unwrap();
        assert_eq!(loaded.request.config.knobs, knobs);
        assert_eq!(loaded.save().unwrap(), bytes);
        check(&loaded, &[1, 2, 3], &[4, 3], &[3, 1]).unwrap();
    }
    // Saved plans that no engine of this plugin made.
    let other = |engine_id, knobs: &[KnobSetting]| {
        let config = EngineConfig { engine_id, knobs: knobs.to_vec() };
        let bytes = planned(Request { graph: graph.clone(), config }, 1).save().unwrap();
        CpuPlugin::deserialize(&Default::default(), &bytes).map(|_| ()).unwrap_err()
    };
    assert!(other(12, &[]).message().contains("of engine 12"));
    let wrong = [KnobSetting { knob_id: "threads".to_owned(), value: KnobValue::Int(-1) }];
    let fast = hipdnn_plugin_sdk::engine_id(CpuPlugin::ENGINES[0]);
    assert!(other(fast, &wrong).message().contains("threads"));
}
