//! Workspace, contexts and executions.

use std::sync::atomic::Ordering;

use super::*;

/// A context that is destroyed at the end of the test.
pub struct Context<'a>(pub &'a Handle, pub hipdnnEnginePluginExecutionContext_t);

impl<'a> Context<'a> {
    pub fn new(handle: &'a Handle, graph_name: &str, config: &[u8]) -> Self {
        let mut context = null_mut();
        let graph = graph(graph_name);
        // SAFETY: the handle is alive, graph and configuration live during the call, and the function writes only to the local `context`.
        let status = unsafe {
            hipdnnEnginePluginCreateExecutionContext(handle.0, &data(config), &data(&graph), &mut context)
        };
        assert_eq!((status, context.is_null()), (OK, false));
        Self(handle, context)
    }

    pub fn workspace(&self) -> (hipdnnPluginStatus_t, usize) {
        let mut size = 11;
        // SAFETY: handle and context are alive, and the function writes only to the local `size`.
        let status =
            unsafe { hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(self.0.0, self.1, &mut size) };
        (status, size)
    }

    fn execute(&self, buffers: &[hipdnnPluginDeviceBuffer_t]) -> hipdnnPluginStatus_t {
        // SAFETY: handle and context are alive, and each test keeps the memory that its buffers point to.
        unsafe {
            let count = buffers.len() as u32;
            hipdnnEnginePluginExecuteOpGraph(self.0.0, self.1, null_mut(), buffers.as_ptr(), count)
        }
    }
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        // SAFETY: it was created and is not destroyed yet.
        unsafe { hipdnnEnginePluginDestroyExecutionContext(self.0.0, self.1) };
    }
}

#[test]
fn the_workspace_follows_the_knob() {
    let handle = Handle::new();
    let bytes = graph("");
    for (setting, expected) in [(None, 256), (Some(0), 0), (Some(4096), 4096)] {
        let config = config("FIRST_ENGINE", setting);
        let mut size = 11;
        // SAFETY: the handle is alive, graph and configuration live during the call, and the function writes only to the local `size`.
        let status =
            unsafe { hipdnnEnginePluginGetWorkspaceSize(handle.0, &data(&config), &data(&bytes), &mut size) };
        assert_eq!((status, size), (OK, expected));
        assert_eq!(Context::new(&handle, "", &config).workspace(), (OK, expected));
    }
}

#[test]
fn workspace_and_context_refuse_invalid_arguments() {
    let handle = Handle::new();
    let (graph_bytes, config_bytes) = (graph(""), config("FIRST_ENGINE", None));
    let (graph_data, config_data) = (data(&graph_bytes), data(&config_bytes));
    let (mut size, mut context) = (11, null_mut());
    let (size_of, make) = (hipdnnEnginePluginGetWorkspaceSize, hipdnnEnginePluginCreateExecutionContext);
    // SAFETY: the functions must refuse null outputs; the rest is valid.
    unsafe {
        assert_eq!(size_of(handle.0, &config_data, &graph_data, null_mut()), BAD_PARAM);
        assert_eq!(text(), "workspace_size is null");
        assert_eq!(make(handle.0, &config_data, &graph_data, null_mut()), BAD_PARAM);
        assert_eq!(text(), "execution_context is null");
    }
    let mut both = |handle, config, graph, status, reason: &str| {
        // SAFETY: the functions must refuse null and damaged bytes; the functions write only to the locals `size` and `context`.
        unsafe {
            assert_eq!(size_of(handle, config, graph, &mut size), status, "{reason}");
            assert!(text().contains(reason), "{}", text());
            assert_eq!(make(handle, config, graph, &mut context), status, "{reason}");
            assert!(text().contains(reason), "{}", text());
        }
    };
    both(null_mut(), &config_data, &graph_data, BAD_PARAM, "handle is null");
    both(handle.0, null(), &graph_data, BAD_PARAM, "engine_config is null");
    both(handle.0, &config_data, null(), BAD_PARAM, "op_graph is null");
    for (wrong, reason) in wrong_buffers() {
        both(handle.0, &wrong, &graph_data, INVALID_VALUE, reason);
        both(handle.0, &config_data, &wrong, INVALID_VALUE, reason);
    }
    let unknown = config("NO_ENGINE", None);
    both(handle.0, &data(&unknown), &graph_data, BAD_PARAM, "Probe has no engine with id");
    let declined = graph("none");
    both(handle.0, &config_data, &data(&declined), NOT_APPLICABLE, "engine 0 declines");
    let panics = graph("panic in plan");
    both(handle.0, &config_data, &data(&panics), INTERNAL_ERROR, "a panic without a text");
    assert_eq!((size, context), (11, null_mut()));
}

#[test]
fn invalid_knob_settings_are_refused_when_planning() {
    let handle = Handle::new();
    let graph = graph("");
    let setting = |value: KnobValue| KnobSetting { knob_id: "workspace".into(), value };
    for (knobs, fault) in [
        (vec![setting(4097.into())], "knob \"workspace\" is 4097, expected an integer from 0 to 4096"),
        (
            vec![setting(1.5.into())],
            "knob \"workspace\" is 1.5, which is a double precision number, expected",
        ),
        (vec![setting(1.into()), setting(1.into())], "knob \"workspace\" is set twice, expected once"),
    ] {
        let engine_id = hipdnn_plugin_sdk::engine_id("FIRST_ENGINE");
        let config = wire::write_engine_config(&EngineConfig { engine_id, knobs });
        let (mut size, mut context) = (11, null_mut());
        // SAFETY: the handle is alive, graph and configuration live during the calls, and the functions write only to the locals `size`
        // and `context`.
        unsafe {
            let (config, graph) = (data(&config), data(&graph));
            assert_eq!(
                hipdnnEnginePluginGetWorkspaceSize(handle.0, &config, &graph, &mut size),
                OK,
                "{fault}"
            );
            assert_eq!(
                hipdnnEnginePluginCreateExecutionContext(handle.0, &config, &graph, &mut context),
                INVALID_VALUE
            );
        }
        // As if the knob were not set.
        assert_eq!((size, context), (256, null_mut()));
        assert!(text().starts_with(&format!("engine FIRST_ENGINE: {fault}")), "{}", text());
    }
}

#[test]
fn a_knob_that_the_engine_does_not_have_is_ignored() {
    let handle = Handle::new();
    let context = Context::new(&handle, "", &config("SECOND_ENGINE", Some(-1)));
    let mut size = 0;
    // SAFETY: handle and context are alive, and the function writes only to the local `size`.
    let status =
        unsafe { hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(handle.0, context.1, &mut size) };
    assert_eq!((status, size), (OK, 256));
}

#[test]
fn an_execution_reaches_the_engine_of_its_context_with_any_handle() {
    let (handle, other) = (Handle::new(), Handle::new());
    let mut result = 0_f32;
    let buffers = [hipdnnPluginDeviceBuffer_t { uid: 2, ptr: (&raw mut result).cast() }];
    for (engine, expected) in [("FIRST_ENGINE", 0.5), ("SECOND_ENGINE", 1.5)] {
        let context = Context::new(&handle, "", &config(engine, None));
        assert_eq!(context.execute(&buffers), OK);
        // SAFETY: `result` is a local that only the finished execution wrote.
        assert_eq!(unsafe { (&raw const result).read() }, expected);
        // SAFETY: handle and context are alive, and the one buffer is the local `result`.
        let status =
            unsafe { hipdnnEnginePluginExecuteOpGraph(other.0, context.1, null_mut(), buffers.as_ptr(), 1) };
        assert_eq!(status, OK);
    }
}

#[test]
fn executions_with_invalid_arguments_are_refused() {
    let handle = Handle::new();
    let context = Context::new(&handle, "", &config("FIRST_ENGINE", None));
    let counting = Context::new(&handle, "count", &config("FIRST_ENGINE", None));
    let buffers = [hipdnnPluginDeviceBuffer_t { uid: 2, ptr: null_mut() }; 2];
    // SAFETY: the function must refuse null, misaligned pointers and other kinds.
    unsafe {
        let execute = hipdnnEnginePluginExecuteOpGraph;
        assert_eq!(execute(null_mut(), context.1, null_mut(), buffers.as_ptr(), 2), BAD_PARAM);
        assert_eq!(text(), "handle is null");
        assert_eq!(execute(handle.0, null_mut(), null_mut(), buffers.as_ptr(), 2), BAD_PARAM);
        assert_eq!(text(), "execution_context is null");
        assert_eq!(execute(context.1.cast(), context.1, null_mut(), buffers.as_ptr(), 2), BAD_PARAM);
        assert!(text().starts_with("handle is 0x") && text().ends_with("did not make"), "{}", text());
        assert_eq!(execute(handle.0, handle.0.cast(), null_mut(), buffers.as_ptr(), 2), BAD_PARAM);
        assert!(text().starts_with("execution_context is 0x"), "{}", text());
        assert_eq!(execute(handle.0, context.1, null_mut(), null(), 2), BAD_PARAM);
        assert_eq!(text(), "device_buffers is 0x0 with num_device_buffers 2, expected an array");
        let misaligned = buffers.as_ptr().byte_add(1);
        assert_eq!(execute(handle.0, context.1, null_mut(), misaligned, 1), BAD_PARAM);
        let workspace = std::ptr::without_provenance_mut(64);
        assert_eq!(execute(handle.0, counting.1, workspace, null(), 0), INTERNAL_ERROR);
        assert_eq!(text(), "0 buffers at 0x40");
    }
    assert_eq!(counting.execute(&buffers), INTERNAL_ERROR);
    assert_eq!(text(), "2 buffers at 0x0");
    assert_eq!(context.execute(&buffers), INVALID_VALUE);
    assert_eq!(text(), "the buffer of tensor 2 is null");
    assert_eq!(context.execute(&[]), INVALID_VALUE);
    assert_eq!(text(), "tensor 2 has no buffer among the 0 given");
}

#[test]
fn a_panic_is_a_status_and_a_text() {
    let handle = Handle::new();
    let executing = Context::new(&handle, "panic in execute", &config("FIRST_ENGINE", None));
    assert_eq!(executing.execute(&[]), INTERNAL_ERROR);
    assert_eq!(text(), "the plugin panicked: out of luck");
    let measuring = Context::new(&handle, "panic in size", &config("FIRST_ENGINE", None));
    assert_eq!(measuring.workspace(), (INTERNAL_ERROR, 11));
    assert_eq!(text(), "the plugin panicked: no size");
}

#[test]
fn contexts_refuse_invalid_arguments_and_survive_a_panic_in_drop() {
    let handle = Handle::new();
    let context = Context::new(&handle, "", &config("FIRST_ENGINE", None));
    let mut size = 11;
    // SAFETY: the functions must refuse null and other kinds.
    unsafe {
        let size_of = hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext;
        assert_eq!(size_of(null_mut(), context.1, &mut size), BAD_PARAM);
        assert_eq!(size_of(handle.0, null_mut(), &mut size), BAD_PARAM);
        assert_eq!(size_of(handle.0, context.1, null_mut()), BAD_PARAM);
        assert_eq!(text(), "workspace_size is null");
        let destroy = hipdnnEnginePluginDestroyExecutionContext;
        assert_eq!(destroy(null_mut(), context.1), BAD_PARAM);
        assert_eq!(destroy(handle.0, null_mut()), BAD_PARAM);
        assert_eq!(destroy(handle.0, handle.0.cast()), BAD_PARAM);
        let dropped = plugin::PLANS_DROPPED.load(Ordering::Relaxed);
        let doomed = std::mem::ManuallyDrop::new(Context::new(
            &handle,
            "panic in drop",
            &config("FIRST_ENGINE", None),
        ));
        assert_eq!(destroy(handle.0, doomed.1), INTERNAL_ERROR);
        assert!(plugin::PLANS_DROPPED.load(Ordering::Relaxed) > dropped);
    }
    assert_eq!(text(), "the plugin panicked: a drop that panics");
}

#[test]
fn hostile_bytes_are_a_status() {
    let handle = Handle::new();
    let (graph_bytes, config_bytes) = (graph(""), config("FIRST_ENGINE", Some(64)));
    let plan = |config: &[u8], graph: &[u8]| {
        let (mut size, mut count) = (0, 0);
        // SAFETY: the handle is alive and the functions write only to locals; the bytes have their stated length, whatever they say.
        let statuses = unsafe {
            [
                hipdnnEnginePluginGetWorkspaceSize(handle.0, &data(config), &data(graph), &mut size),
                hipdnnEnginePluginGetApplicableEngineIds(handle.0, &data(graph), null_mut(), 0, &mut count),
            ]
        };
        for status in statuses {
            assert!([OK, BAD_PARAM, INVALID_VALUE].contains(&status), "{status}: {}", text());
        }
        statuses[0]
    };
    assert_eq!(plan(&config_bytes, &graph_bytes), OK);
    let mut refused = 0;
    for (bytes, is_graph) in [(&graph_bytes, true), (&config_bytes, false)] {
        for position in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut hostile = bytes.clone();
                hostile[position] ^= flip;
                let status =
                    if is_graph { plan(&config_bytes, &hostile) } else { plan(&hostile, &graph_bytes) };
                refused += usize::from(status != OK);
            }
            let cut = &bytes[..position];
            refused += usize::from(
                (if is_graph { plan(&config_bytes, cut) } else { plan(cut, &graph_bytes) }) != OK,
            );
        }
    }
    assert!(refused > graph_bytes.len() / 2, "only {refused} were refused");
}
