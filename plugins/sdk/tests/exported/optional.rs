//! Saving and loading contexts, and executions with other shapes.

use super::execution::Context;
use super::*;
use hipdnn_plugin_sdk::engine_id;

const NOT_INITIALIZED: hipdnnPluginStatus_t = HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED;
const FIRST: i64 = engine_id("FIRST_ENGINE");

type Saved = (hipdnnPluginStatus_t, Vec<u8>);

/// Saves a context, copies the bytes and releases them.
fn save(handle: &Handle, context: &Context<'_>, engine: Option<i64>) -> Saved {
    let mut out = hipdnnPluginConstData_t { ptr: null(), size: 0 };
    // SAFETY: handle and context are alive, and the functions write only to the local `out`, whose bytes are copied before they are
    // released.
    unsafe {
        let status = match engine {
            Some(id) => {
                hipdnnEnginePluginSerializeExecutionContextWithEngineId(handle.0, id, context.1, &mut out)
            }
            None => hipdnnEnginePluginSerializeExecutionContext(handle.0, context.1, &mut out),
        };
        if status != OK {
            assert_eq!((out.ptr, out.size), (null(), 0));
            return (status, Vec::new());
        }
        assert_eq!(out.ptr.align_offset(16), 0);
        let bytes = std::slice::from_raw_parts(out.ptr.cast::<u8>(), out.size).to_vec();
        assert_eq!(hipdnnEnginePluginDestroySerializedExecutionContext(handle.0, &mut out), OK);
        assert_eq!((out.ptr, out.size), (null(), 0));
        (status, bytes)
    }
}

#[test]
fn a_context_is_saved_and_loaded() {
    let handle = Handle::new();
    let context = Context::new(&handle, "a graph", &config("FIRST_ENGINE", Some(7)));
    let (status, bytes) = save(&handle, &context, None);
    assert_eq!((status, bytes.as_slice()), (OK, &b"0 7 a graph"[..]));
    assert_eq!(save(&handle, &context, Some(FIRST)), (OK, bytes.clone()));
    let mut loaded = null_mut();
    // SAFETY: the handle is alive, the bytes live during the call, and the function writes only to the local `loaded`.
    let status = unsafe {
        hipdnnEnginePluginCreateExecutionContextFromSerialized(handle.0, &data(&bytes), &mut loaded)
    };
    assert_eq!(status, OK);
    let loaded = Context(&handle, loaded);
    assert_eq!(loaded.workspace(), (OK, 7));
    assert_eq!(save(&handle, &loaded, None), (OK, bytes));
}

#[test]
fn a_context_that_cannot_be_saved_is_a_status_and_a_text() {
    let handle = Handle::new();
    for (graph, status, reason) in [
        ("not saved", NOT_APPLICABLE, "this one stays here"),
        ("nothing saved", INTERNAL_ERROR, "a saved plan is empty"),
        ("panic in serialize", INTERNAL_ERROR, "the plugin panicked: no pen"),
    ] {
        let context = Context::new(&handle, graph, &config("FIRST_ENGINE", None));
        assert_eq!(save(&handle, &context, None).0, status);
        assert_eq!(text(), reason);
    }
    let context = Context::new(&handle, "", &config("FIRST_ENGINE", None));
    assert_eq!(save(&handle, &context, Some(12)).0, BAD_PARAM);
    assert_eq!(text(), "Probe has no engine with id 12");
}

#[test]
fn saving_and_loading_refuse_invalid_arguments() {
    let handle = Handle::new();
    let context = Context::new(&handle, "", &config("FIRST_ENGINE", None));
    let mut out = hipdnnPluginConstData_t { ptr: null(), size: 0 };
    let mut made = null_mut();
    // SAFETY: the functions must refuse null and other kinds.
    unsafe {
        let save = hipdnnEnginePluginSerializeExecutionContext;
        assert_eq!(save(null_mut(), context.1, &mut out), BAD_PARAM);
        assert_eq!(save(handle.0, null_mut(), &mut out), BAD_PARAM);
        assert_eq!(save(handle.0, handle.0.cast(), &mut out), BAD_PARAM);
        assert_eq!(save(handle.0, context.1, null_mut()), BAD_PARAM);
        assert_eq!(text(), "serialized_context is null");
        let give_back = hipdnnEnginePluginDestroySerializedExecutionContext;
        assert_eq!(give_back(null_mut(), &mut out), BAD_PARAM);
        assert_eq!(give_back(handle.0, null_mut()), BAD_PARAM);
        assert_eq!(give_back(handle.0, &mut out), OK);
    }
    // SAFETY: the function must refuse null and damaged bytes.
    unsafe {
        let load = hipdnnEnginePluginCreateExecutionContextFromSerialized;
        let bytes = data(b"1 7 name");
        assert_eq!(load(null_mut(), &bytes, &mut made), BAD_PARAM);
        assert_eq!(load(handle.0, null(), &mut made), BAD_PARAM);
        assert_eq!(load(handle.0, &bytes, null_mut()), BAD_PARAM);
        assert_eq!(text(), "execution_context is null");
        for (wrong, _) in wrong_buffers() {
            assert_eq!(load(handle.0, &wrong, &mut made), INVALID_VALUE);
        }
        assert_eq!(load(handle.0, &data(b"one two"), &mut made), INVALID_VALUE);
        assert_eq!(text(), "7 bytes of something else");
    }
    assert!(made.is_null());
}

#[test]
fn overrides_reach_the_engine() {
    let handle = Handle::new();
    let context = Context::new(&handle, "", &config("SECOND_ENGINE", None));
    let mut result = 0_f32;
    let buffers = [hipdnnPluginDeviceBuffer_t { uid: 2, ptr: (&raw mut result).cast() }];
    let (dims, strides) = ([2_i64, 3], [3_i64, 1]);
    let (uids, lengths) = ([2_i64], [2_u32]);
    let (all_dims, all_strides) = ([dims.as_ptr()], [strides.as_ptr()]);
    let execute = |count, uids, lengths, dims, strides| {
        let workspace = std::ptr::without_provenance_mut(64);
        // SAFETY: the arrays have the stated number of elements, or are null, which is refused.
        unsafe {
            hipdnnEnginePluginExecuteOpGraphWithOverrides(
                handle.0,
                context.1,
                workspace,
                buffers.as_ptr(),
                1,
                count,
                uids,
                lengths,
                dims,
                strides,
            )
        }
    };
    let (u, l, d, s) = (uids.as_ptr(), lengths.as_ptr(), all_dims.as_ptr(), all_strides.as_ptr());
    assert_eq!(execute(1, u, l, d, s), NOT_INITIALIZED);
    assert_eq!(text(), "engine 1, 1 buffers, 0x40, [Override { uid: 2, dims: [2, 3], strides: [3, 1] }]");
    for (u, l, d, s) in [(null(), l, d, s), (u, null(), d, s), (u, l, null(), s), (u, l, d, null())] {
        assert_eq!(execute(1, u, l, d, s), BAD_PARAM);
        assert!(text().starts_with("an array of the 1 overrides"), "{}", text());
    }
    // Without overrides it is an ordinary execution.
    assert_eq!(execute(0, null(), null(), null(), null()), OK);
    // SAFETY: `result` is a local that only the finished execution wrote.
    assert_eq!(unsafe { (&raw const result).read() }, 1.5);
}

/// Queries the description of a context with this much space. Bytes after the text keep their values.
fn describe(handle: &Handle, context: &Context<'_>, room: usize) -> (hipdnnPluginStatus_t, usize, Vec<u8>) {
    let (mut size, mut text) = (4711, vec![b'?'; room]);
    let pointer = if room == 0 { null_mut() } else { text.as_mut_ptr().cast() };
    // SAFETY: handle and context are alive, and the function writes only to the local `size` and to the `room` bytes of `text`.
    let status = unsafe {
        hipdnnEnginePluginDescribeExecutionContext_ext(handle.0, context.1, room, &mut size, pointer)
    };
    (status, size, text)
}

#[test]
fn a_context_is_described_in_two_calls() {
    let handle = Handle::new();
    let context = Context::new(&handle, "a \0 graph", &config("SECOND_ENGINE", None));
    let expected = b"{\"steps\":[{\"algorithm\":\"a \\u0000 graph\",\"nodes\":[1]}]}\0";
    assert_eq!(describe(&handle, &context, 0), (OK, expected.len(), Vec::new()));
    assert_eq!(describe(&handle, &context, expected.len()), (OK, expected.len(), expected.to_vec()));
    let mut longer = expected.to_vec();
    longer.extend(b"??");
    assert_eq!(describe(&handle, &context, longer.len()), (OK, expected.len(), longer));
    assert_eq!(describe(&handle, &context, 3), (BAD_PARAM, 4711, b"???".to_vec()));
    assert_eq!(text(), format!("requested_size is 3, expected 0 or at least {}", expected.len()));
}

#[test]
fn a_context_that_is_not_described_is_a_status_and_a_text() {
    let handle = Handle::new();
    for (graph, status, reason) in [
        ("not told", NOT_APPLICABLE, "Probe cannot describe this plan"),
        ("panic in describe", INTERNAL_ERROR, "the plugin panicked: no words"),
    ] {
        let context = Context::new(&handle, graph, &config("FIRST_ENGINE", None));
        assert_eq!(describe(&handle, &context, 0), (status, 4711, Vec::new()));
        assert_eq!(text(), reason);
    }
    let context = Context::new(&handle, "", &config("FIRST_ENGINE", None));
    let ask = hipdnnEnginePluginDescribeExecutionContext_ext;
    let mut size = 0;
    // SAFETY: the function must refuse null.
    unsafe {
        assert_eq!(ask(null_mut(), context.1, 0, &mut size, null_mut()), BAD_PARAM);
        assert_eq!(ask(handle.0, null_mut(), 0, &mut size, null_mut()), BAD_PARAM);
        assert_eq!(ask(handle.0, context.1, 0, null_mut(), null_mut()), BAD_PARAM);
        assert_eq!(ask(handle.0, context.1, 9, &mut size, null_mut()), BAD_PARAM);
    }
}

/// Queries what an engine does to the numbers of a graph, with this much space.
fn numerics(handle: &Handle, graph_name: &str, config: &[u8], room: usize) -> (hipdnnPluginStatus_t, String) {
    let (mut size, mut text) = (0, vec![0_u8; room]);
    let (graph, pointer) = (graph(graph_name), if room == 0 { null_mut() } else { text.as_mut_ptr().cast() });
    // SAFETY: the handle is alive, the bytes are those of locals, and the function writes only to the locals.
    let status = unsafe {
        let (config, graph) = (data(config), data(&graph));
        hipdnnEnginePluginDescribeNumerics_ext(handle.0, &config, &graph, room, &mut size, pointer)
    };
    text.truncate(size.saturating_sub(1));
    (status, String::from_utf8(text).unwrap())
}

#[test]
fn what_an_engine_does_to_numbers_depends_on_its_knobs() {
    let handle = Handle::new();
    let ask = |engine, knob| numerics(&handle, "a graph", &config(engine, knob), 500);
    let first = r#"{"knobs":[{"adds":true,"knob":"workspace","note":"SPLIT_SUMS","value":8}],"numerics":{"notes":["FFT"]}}"#;
    assert_eq!(ask("FIRST_ENGINE", None), (OK, first.to_owned()));
    let with_knob = first.replace(r#"["FFT"]"#, r#"["FFT","SPLIT_SUMS"]"#);
    assert_eq!(ask("FIRST_ENGINE", Some(8)), (OK, with_knob));
    assert_eq!(ask("SECOND_ENGINE", None), (OK, r#"{"knobs":[],"numerics":{"notes":["FFT"]}}"#.to_owned()));
    let own = config("FIRST_ENGINE", None);
    assert_eq!(numerics(&handle, "a graph", &own, 0).0, OK);
    assert_eq!(numerics(&handle, "a graph", &own, 3).0, BAD_PARAM);
    assert_eq!(text(), format!("requested_size is 3, expected 0 or at least {}", first.len() + 1));
    assert_eq!(numerics(&handle, "not told", &own, 0).0, NOT_APPLICABLE);
    assert_eq!(text(), "Probe does not say what it does to numbers");
    let (graph, mut size) = (graph("a graph"), 0);
    let ask = hipdnnEnginePluginDescribeNumerics_ext;
    let (config, graph) = (data(&own), data(&graph));
    // SAFETY: the function must refuse null.
    unsafe {
        assert_eq!(ask(null_mut(), &config, &graph, 0, &mut size, null_mut()), BAD_PARAM);
        assert_eq!(ask(handle.0, null(), &graph, 0, &mut size, null_mut()), BAD_PARAM);
        assert_eq!(ask(handle.0, &config, null(), 0, &mut size, null_mut()), BAD_PARAM);
        assert_eq!(ask(handle.0, &config, &graph, 0, null_mut(), null_mut()), BAD_PARAM);
        assert_eq!(ask(handle.0, &config, &graph, 9, &mut size, null_mut()), BAD_PARAM);
    }
}

#[test]
fn whether_a_context_is_shareable_is_one_number() {
    let handle = Handle::new();
    let ask = hipdnnEnginePluginIsExecutionContextShareable_ext;
    for (graph, expected) in [("a graph", 1), ("its own", 0)] {
        let context = Context::new(&handle, graph, &config("FIRST_ENGINE", None));
        let mut is_shareable = 4711;
        // SAFETY: the handle, the context and the number live during the call, and the function checks for null.
        unsafe {
            assert_eq!(ask(handle.0, context.1, &mut is_shareable), OK);
            assert_eq!(is_shareable, expected);
            assert_eq!(ask(null_mut(), context.1, &mut is_shareable), BAD_PARAM);
            assert_eq!(ask(handle.0, null_mut(), &mut is_shareable), BAD_PARAM);
            assert_eq!(ask(handle.0, context.1, null_mut()), BAD_PARAM);
        }
        assert_eq!(is_shareable, expected);
    }
}
