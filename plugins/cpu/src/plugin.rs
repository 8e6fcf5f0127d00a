//! The engine plugin: two engines that share plans and differ in how they choose kernels.

use std::borrow::Cow;
use std::ffi::c_void;

use hipdnn_plugin_sdk::engine_plugin::SUPPORTS_SERIALIZATION;
use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::fork::List;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::payload::Request;
use hipdnn_plugin_sdk::wire::{self, EngineDetails, Knob, KnobSetting};
use hipdnn_plugin_sdk::{EngineNumerics, EnginePlugin, Overrides, PluginError, Refusal, Step};

use crate::memory;
use crate::plan::compiled::Compiled;
use crate::plan::description;
use crate::plan::handle::Handle;
use crate::plan::planner::{Planner, fast_knobs};
use crate::threading::openmp;

/// The engines of this library.
///
/// Both compute in the caller's host memory and are finished when an execution returns. They accept a
/// handle's stream but neither wait for work queued on it nor order executions with it: if a stream fills
/// tensors, synchronize it first. Do not bind memory that only a device can reach. If the process had loaded
/// HIP or CUDA when the plan was made, executions refuse such memory, or copy it if `HIPDNN_CPU_FALLBACK` was
/// 1.
pub struct CpuPlugin;

/// The name of the engine that uses fast kernels where they exist, and the reference elsewhere.
pub const CPU_ENGINE: &str = "CPU_ENGINE";
/// The name of the engine that computes the plain formulas.
pub const CPU_REFERENCE_ENGINE: &str = "CPU_REFERENCE_ENGINE";

impl EnginePlugin for CpuPlugin {
    const NAME: &'static str = "CPU";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const ENGINES: &'static [&'static str] = &[CPU_ENGINE, CPU_REFERENCE_ENGINE];
    /// Its id would put it before the fast engine, but it is hundreds of times slower.
    const KEPT_BACK: &'static [&'static str] = &[CPU_REFERENCE_ENGINE];
    /// Any alignment is accepted, scalars passed at execution are ordinary memory, and new shapes are planned
    /// when they first occur.
    const API_VERSION: &'static str = "1.3.0";
    type Handle = Handle;
    type Plan = Compiled;

    const LOCKS: &'static List = &List { locks: &[&description::TOLD], in_child: &[openmp::in_child] };

    fn create_handle() -> Result<Handle, PluginError> {
        memory::look_for_devices();
        Ok(Handle::default())
    }

    fn set_stream(handle: &Handle, stream: hipStream_t) -> Result<(), PluginError> {
        handle.set_stream(stream);
        if !stream.is_null() {
            memory::look_for_devices_of_programs();
        }
        Ok(())
    }

    fn supports(handle: &Handle, _: usize, graph: &Graph) -> Result<(), Refusal> {
        // The reference computes everything that either engine does.
        handle.checked(graph)?;
        Ok(())
    }

    fn details(handle: &Handle, engine: usize, graph: &Graph) -> Result<EngineDetails, PluginError> {
        let knobs = Self::knobs(handle, engine, graph)?.into_owned();
        // Nothing is compiled at run time, captured in a graph, or delegated to another library.
        Ok(EngineDetails { knobs, behavior_notes: vec![SUPPORTS_SERIALIZATION], ..EngineDetails::default() })
    }

    fn knobs(_: &Handle, engine: usize, _: &Graph) -> Result<Cow<'static, [Knob]>, PluginError> {
        Ok(Cow::Borrowed(if engine == 0 { fast_knobs() } else { &[] }))
    }

    fn plan(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Compiled, PluginError> {
        memory::look_for_devices_of_plugins();
        let planner = Planner::new(engine, knobs)?;
        if let Some(plan) = handle.take(graph, knobs, planner) {
            return Ok(plan);
        }
        let checked = handle.checked(graph).map_err(Refusal::new)?;
        Ok(Compiled::new(Self::request(engine, graph, knobs), &checked.prepared, planner)?)
    }

    fn workspace_size(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<usize, PluginError> {
        let plan = Self::plan(handle, engine, graph, knobs)?;
        let size = plan.workspace_size();
        handle.keep(plan);
        Ok(size)
    }

    fn plan_workspace_size(plan: &Compiled) -> usize {
        plan.workspace_size()
    }

    unsafe fn execute(
        handle: &Handle,
        plan: &Compiled,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        // SAFETY: the SDK passes on the C ABI's contract: buffers and workspace are valid for the sizes of the plan.
        unsafe { plan.execute(buffers, workspace.cast(), handle.stream()) }
    }

    unsafe fn execute_with_overrides(
        handle: &Handle,
        plan: &Compiled,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        overrides: Overrides<'_>,
    ) -> Result<(), PluginError> {
        // SAFETY: buffers and workspace are valid for the overridden shapes, by the contract of the C ABI.
        unsafe { plan.execute_with(buffers, workspace.cast(), overrides, handle.stream()) }
    }

    fn is_shareable(_: &Handle, plan: &Compiled) -> bool {
        plan.is_shareable()
    }

    fn describe(plan: &Compiled) -> Option<Vec<Step>> {
        plan.steps()
    }

    fn numerics(
        handle: &Handle,
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Option<EngineNumerics>, PluginError> {
        Ok(Self::plan(handle, engine, graph, knobs)?.numerics())
    }

    fn serialize(_: &Handle, plan: &Compiled) -> Result<Vec<u8>, PluginError> {
        plan.save()
    }

    fn deserialize(handle: &Handle, bytes: &[u8]) -> Result<Compiled, PluginError> {
        let Request { graph, config } = Compiled::read(bytes)?;
        let engine = Self::engine_of_saved_plan(config.engine_id)?;
        wire::check_settings(&Self::knobs(handle, engine, &graph)?, &config.knobs)?;
        Self::plan(handle, engine, &graph, &config.knobs)
    }
}

hipdnn_plugin_sdk::export_engine_plugin!(
    CpuPlugin,
    overrides,
    serialization,
    description,
    numerics,
    sharing,
    steps,
    kept_back
);

#[cfg(test)]
mod numerics_tests;

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use crate::settings::Algorithm;
    use crate::settings::Settings;
    use hipdnn_plugin_sdk::engine_id;
    use hipdnn_plugin_sdk::graph::operation::{CustomOp, Pointwise};
    use hipdnn_plugin_sdk::graph::{DataType, Node, Operation, PointwiseMode, Tensor, TensorValue};

    use super::*;
    use crate::threading::partition::Threads;

    fn graph(operation: impl Into<Operation>) -> Graph {
        Graph {
            tensors: (1..=3).map(|uid| Tensor::new(uid, DataType::Float, &[2, 2], &[2, 1])).collect(),
            nodes: vec![Node {
                name: "sum".to_owned(),
                compute_type: DataType::Float,
                operation: operation.into(),
            }],
            ..Graph::default()
        }
    }

    fn sum() -> Graph {
        graph(Pointwise::new(PointwiseMode::Add, 1, Some(2), 3))
    }

    #[test]
    fn engine_ids_stay_as_they_are() {
        let ids: Vec<i64> = CpuPlugin::ENGINES.iter().map(|name| engine_id(name)).collect();
        assert_eq!(ids, [0xfa94_19aa_f175_7ef8_u64.cast_signed(), 0xf059_11d5_fac0_1f5a_u64.cast_signed()]);
    }

    #[test]
    fn both_engines_compute_a_sum() {
        CpuPlugin::create_handle().unwrap();
        CpuPlugin::set_stream(&Handle::default(), std::ptr::null_mut()).unwrap();
        for engine in 0..CpuPlugin::ENGINES.len() {
            CpuPlugin::supports(&Handle::default(), engine, &sum()).unwrap();
            let plan = CpuPlugin::plan(&Handle::default(), engine, &sum(), &[]).unwrap();
            assert_eq!(
                CpuPlugin::workspace_size(&Handle::default(), engine, &sum(), &[]),
                Ok(CpuPlugin::plan_workspace_size(&plan))
            );
            let (mut a, mut b, mut c) = ([1.0_f32, 2.0, 3.0, 4.0], [10.0_f32; 4], [0.0_f32; 4]);
            let buffers = [(1, &mut a), (2, &mut b), (3, &mut c)]
                .map(|(uid, values)| hipdnnPluginDeviceBuffer_t { uid, ptr: values.as_mut_ptr().cast() });
            let mut workspace = vec![0_u8; CpuPlugin::plan_workspace_size(&plan)];
            // SAFETY: every tensor has its four elements.
            unsafe { CpuPlugin::execute(&Handle::default(), &plan, workspace.as_mut_ptr().cast(), &buffers) }
                .unwrap();
            assert_eq!(c, [11.0, 12.0, 13.0, 14.0]);
            // SAFETY: nothing is bound, so nothing is accessed.
            let error =
                unsafe { CpuPlugin::execute(&Handle::default(), &plan, workspace.as_mut_ptr().cast(), &[]) }
                    .unwrap_err();
            assert!(error.message().contains("tensor 1"), "{error}");
        }
    }

    #[test]
    fn a_graph_is_checked_once_for_all_questions_and_plans() {
        let handle = Handle::default();
        let checks = || handle.checks.load(Ordering::Relaxed);
        let ask = |graph: &Graph| {
            for engine in 0..CpuPlugin::ENGINES.len() {
                CpuPlugin::supports(&handle, engine, graph).unwrap();
                CpuPlugin::details(&handle, engine, graph).unwrap();
                CpuPlugin::workspace_size(&handle, engine, graph, &[]).unwrap();
                CpuPlugin::plan(&handle, engine, graph, &[]).unwrap();
            }
        };
        ask(&sum());
        assert_eq!(checks(), 1);
        // Another value, type or shape makes a different graph.
        let mut other = sum();
        other.tensors[1].value = Some(TensorValue::Float32(2.0));
        other.tensors[1].dims = vec![1, 1];
        ask(&other);
        assert_eq!(checks(), 2);
        other.tensors[1].value = Some(TensorValue::Float32(3.0));
        ask(&other);
        assert_eq!(checks(), 3);
        // A refused graph is checked again, with the same answer.
        other.tensors[0].data_type = DataType::Unset;
        let refusal = CpuPlugin::supports(&handle, 0, &other).unwrap_err();
        assert_eq!(CpuPlugin::supports(&handle, 1, &other), Err(refusal));
        assert_eq!(checks(), 5);
    }

    #[test]
    fn the_plan_of_which_a_host_asked_the_workspace_is_kept_for_it() {
        let (handle, graph) = (Handle::default(), sum());
        let asked = |threads: i64| {
            let knobs = [KnobSetting { knob_id: "threads".to_owned(), value: threads.into() }];
            CpuPlugin::workspace_size(&handle, 0, &graph, &knobs).unwrap();
        };
        let taken = |threads: i64| {
            let knobs = [KnobSetting { knob_id: "threads".to_owned(), value: threads.into() }];
            handle.take(&graph, &knobs, Planner::new(0, &knobs).unwrap()).is_some()
        };
        asked(1);
        assert_eq!([taken(1), taken(1)], [true, false]);
        asked(1);
        assert!(!taken(2));
        asked(1);
        asked(2);
        assert!(taken(2));
    }

    #[test]
    fn the_check_refuses_unsupported_graphs() {
        // Two virtual tensors, each of which alone would fit.
        let mut large = sum();
        for uid in [4, 5] {
            let operation = Pointwise::new(PointwiseMode::Neg, uid - 1, None, uid).into();
            large.nodes.push(Node { operation, ..large.nodes[0].clone() });
            large.tensors.push(Tensor::new(uid, DataType::Float, &[2, 2], &[2, 1]));
        }
        for tensor in &mut large.tensors {
            tensor.dims = vec![1 << 59, 2];
            tensor.is_virtual = [3, 4].contains(&tensor.uid);
        }
        let mut integers = sum();
        integers.nodes[0].compute_type = DataType::Int8;
        for (graph, expected) in [(large, "address space"), (integers, "compute type is int8")] {
            let refusal = CpuPlugin::supports(&Handle::default(), 0, &graph).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
            for engine in 0..CpuPlugin::ENGINES.len() {
                assert!(CpuPlugin::plan(&Handle::default(), engine, &graph, &[]).is_err(), "{expected}");
            }
        }
    }

    #[test]
    fn unsupported_operations_are_named() {
        let custom = CustomOp {
            input_tensor_uids: vec![1],
            output_tensor_uids: vec![3],
            custom_op_id: "sum".to_owned(),
            data: vec![],
        };
        let refusal = CpuPlugin::supports(&Handle::default(), 0, &graph(custom)).unwrap_err();
        assert!(refusal.to_string().contains("node 0 \"sum\" (CustomOp)"), "{refusal}");
    }

    #[test]
    fn only_the_fast_engine_has_knobs() {
        let knobs = CpuPlugin::details(&Handle::default(), 0, &sum()).unwrap().knobs;
        let ids: Vec<&str> = knobs.iter().map(|knob| knob.knob_id.as_str()).collect();
        let flags = ["deterministic", "constant_weights", "batch_invariant", "flush_subnormals"];
        assert_eq!(ids, [&["threads"], &flags[..], &["convolution", "winograd"]].concat());
        knobs.iter().for_each(|knob| knob.verify().unwrap());
        assert!(CpuPlugin::details(&Handle::default(), 1, &sum()).unwrap().knobs.is_empty());

        let set = |id: &str, value: i64| KnobSetting { knob_id: id.to_owned(), value: value.into() };
        let mut all = vec![set("threads", 3), set("convolution", 2)];
        all.extend(flags.map(|flag| set(flag, 1)));
        wire::check_settings(&knobs, &all).unwrap();
        let threads = Threads { most: 3, deterministic: true, batch_invariant: true, flush_subnormals: true };
        let convolution = Algorithm::Unrolled;
        let settings = Settings { threads, constant_weights: true, convolution, ..Settings::default() };
        assert_eq!(Planner::new(0, &all), Ok(Planner::Fast(settings)));
        assert_eq!(Planner::new(0, &[]), Ok(Planner::Fast(Settings::default())));
        assert_eq!(Planner::new(1, &[]), Ok(Planner::Reference));
        let without = Settings { avoids_winograd: true, ..Settings::default() };
        assert_eq!(Planner::new(0, &[set("winograd", 0)]), Ok(Planner::Fast(without)));
        assert_eq!(Planner::new(0, &[set("winograd", 1)]), Ok(Planner::Fast(Settings::default())));
        for wrong in [
            set("threads", 257),
            set("threads", -1),
            set("deterministic", 2),
            set("constant_weights", 2),
            set("batch_invariant", 2),
            set("flush_subnormals", 2),
            set("convolution", 16),
            set("speed", 1),
        ] {
            assert!(wire::check_settings(&knobs, &[wrong]).is_err());
        }
    }
}
