//! The plugin under test. The name of a graph controls what it does.

use std::ffi::c_void;
use std::ptr::without_provenance_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use hipdnn_plugin_sdk::ffi::{hipStream_t, hipdnnPluginDeviceBuffer_t};
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::numerics::{NoteKnob, note};
use hipdnn_plugin_sdk::wire::{self, EngineDetails, Knob, KnobSetting};
use hipdnn_plugin_sdk::{
    EngineNumerics, EnginePlugin, Numerics, Overrides, PluginError, Refusal, Step, buffer,
};

/// A stream that the plugin rejects.
pub const BAD_STREAM: hipStream_t = without_provenance_mut(0xbad);

/// Number of plans dropped.
pub static PLANS_DROPPED: AtomicUsize = AtomicUsize::new(0);

pub struct Probe;

pub struct Plan {
    engine: usize,
    graph: String,
    workspace: usize,
}

impl Drop for Plan {
    fn drop(&mut self) {
        PLANS_DROPPED.fetch_add(1, Ordering::Relaxed);
        assert!(self.graph != "panic in drop", "a drop that panics");
    }
}

impl EnginePlugin for Probe {
    const NAME: &'static str = "Probe";
    const VERSION: &'static str = "4.5.6";
    const ENGINES: &'static [&'static str] = &["FIRST_ENGINE", "SECOND_ENGINE"];
    type Handle = ();
    type Plan = Plan;

    fn create_handle() -> Result<(), PluginError> {
        Ok(())
    }

    fn set_stream(_: &(), stream: hipStream_t) -> Result<(), PluginError> {
        if stream == BAD_STREAM { Err(PluginError::internal("no such stream")) } else { Ok(()) }
    }

    fn supports(_: &(), engine: usize, graph: &Graph) -> Result<(), Refusal> {
        match graph.name.as_str() {
            "only the second" if engine == 0 => Err("too slow\0for this".into()),
            "none" => Err(format!("engine {engine} declines").into()),
            "panic in supports" => panic!("engine {engine} lost its way"),
            _ => Ok(()),
        }
    }

    fn details(_: &(), engine: usize, graph: &Graph) -> Result<EngineDetails, PluginError> {
        let default = if graph.name == "bad knob" { -1 } else { 256 };
        let knobs = vec![Knob::int("workspace", "bytes", default, 0, 4096)];
        match (graph.name.as_str(), engine) {
            ("no details", _) => Err(PluginError::internal("nothing to say")),
            (_, 0) => Ok(EngineDetails { knobs, behavior_notes: vec![1], ..EngineDetails::default() }),
            _ => Ok(EngineDetails { engine_id: 7, name: "for people".into(), ..EngineDetails::default() }),
        }
    }

    fn plan(_: &(), engine: usize, graph: &Graph, knobs: &[KnobSetting]) -> Result<Plan, PluginError> {
        // Arguments that arrive here are valid.
        let workspace = wire::int_setting(knobs, "workspace").map_or(256, |size| size.try_into().unwrap());
        if graph.name == "panic in plan" {
            std::panic::panic_any(17_u8);
        }
        Ok(Plan { engine, graph: graph.name.clone(), workspace })
    }

    fn plan_workspace_size(plan: &Plan) -> usize {
        assert!(plan.graph != "panic in size", "no size");
        plan.workspace
    }

    unsafe fn execute(
        _: &(),
        plan: &Plan,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
    ) -> Result<(), PluginError> {
        match plan.graph.as_str() {
            "panic in execute" => panic!("out of {}", "luck"),
            "count" => {
                return Err(PluginError::internal(format!("{} buffers at {workspace:p}", buffers.len())));
            }
            _ => {}
        }
        let out = buffer(buffers, 2)?.cast::<f32>();
        // SAFETY: the tests pass memory for one float.
        unsafe { *out = plan.engine as f32 + 0.5 };
        Ok(())
    }

    unsafe fn execute_with_overrides(
        _: &(),
        plan: &Plan,
        workspace: *mut c_void,
        buffers: &[hipdnnPluginDeviceBuffer_t],
        overrides: Overrides<'_>,
    ) -> Result<(), PluginError> {
        let overrides: Vec<_> = overrides.iter().collect();
        Err(PluginError::not_initialized(format!(
            "engine {}, {} buffers, {workspace:p}, {overrides:?}",
            plan.engine,
            buffers.len()
        )))
    }

    fn describe(plan: &Plan) -> Option<Vec<Step>> {
        match plan.graph.as_str() {
            "not told" => None,
            "panic in describe" => panic!("no words"),
            name => {
                Some(vec![Step { nodes: vec![plan.engine], algorithm: name.to_owned(), ..Step::default() }])
            }
        }
    }

    fn numerics(
        _: &(),
        engine: usize,
        graph: &Graph,
        knobs: &[KnobSetting],
    ) -> Result<Option<EngineNumerics>, PluginError> {
        if graph.name == "not told" {
            return Ok(None);
        }
        let with_knob = wire::int_setting(knobs, "workspace").is_some();
        let numerics = Numerics::default().note(note::FFT).note_if(with_knob, note::SPLIT_SUMS);
        let knobs =
            if engine == 0 { vec![NoteKnob::adds(note::SPLIT_SUMS, "workspace", 8)] } else { Vec::new() };
        Ok(Some(EngineNumerics { numerics, knobs }))
    }

    fn is_shareable(_: &(), plan: &Plan) -> bool {
        plan.graph != "its own"
    }

    fn serialize(_: &(), plan: &Plan) -> Result<Vec<u8>, PluginError> {
        match plan.graph.as_str() {
            "not saved" => Err(PluginError::not_applicable("this one stays here")),
            "nothing saved" => Ok(Vec::new()),
            "panic in serialize" => panic!("no pen"),
            name => Ok(format!("{} {} {name}", plan.engine, plan.workspace).into_bytes()),
        }
    }

    fn deserialize(_: &(), bytes: &[u8]) -> Result<Plan, PluginError> {
        let wrong = || PluginError::invalid_value(format!("{} bytes of something else", bytes.len()));
        let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
        let mut parts = text.splitn(3, ' ');
        let mut next = || parts.next().ok_or_else(wrong);
        let (engine, workspace, graph) = (next()?, next()?, next()?.to_owned());
        let number = |text: &str| text.parse().map_err(|_| wrong());
        Ok(Plan { engine: number(engine)?, workspace: number(workspace)?, graph })
    }
}

hipdnn_plugin_sdk::export_engine_plugin!(
    Probe,
    overrides,
    serialization,
    description,
    numerics,
    sharing,
    steps
);
