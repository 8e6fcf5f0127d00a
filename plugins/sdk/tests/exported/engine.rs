//! Engines: their ids and names, which of them apply, and their details.

use super::*;
use hipdnn_plugin_sdk::engine_id;

const FIRST: i64 = engine_id("FIRST_ENGINE");
const SECOND: i64 = engine_id("SECOND_ENGINE");

/// Queries the applicable engines with space for `room` ids: the status, the ids (0 if not written), and the
/// count.
fn applicable(
    handle: hipdnnEnginePluginHandle_t,
    graph: &[u8],
    room: usize,
) -> (hipdnnPluginStatus_t, Vec<i64>, u32) {
    let (mut ids, mut count) = (vec![0; room], 99);
    let graph = data(graph);
    // SAFETY: handle and graph live during the call, `ids` has the stated room, and the function else writes only to the local `count`.
    let status = unsafe {
        hipdnnEnginePluginGetApplicableEngineIds(handle, &graph, ids.as_mut_ptr(), room as u32, &mut count)
    };
    (status, ids, count)
}

#[test]
fn ids_are_counted_and_cut_to_the_room() {
    let (mut ids, mut count) = ([0; 3], 99);
    // SAFETY: `ids` has at least the stated room, the functions else write only to the local `count`, and they must refuse null.
    unsafe {
        assert_eq!(hipdnnEnginePluginGetAllEngineIds(null_mut(), 0, &mut count), OK);
        assert_eq!(count, 2);
        assert_eq!(hipdnnEnginePluginGetAllEngineIds(ids.as_mut_ptr(), 0, &mut count), OK);
        assert_eq!((ids, count), ([0; 3], 2));
        assert_eq!(hipdnnEnginePluginGetAllEngineIds(ids.as_mut_ptr(), 1, &mut count), OK);
        assert_eq!((ids, count), ([FIRST, 0, 0], 1));
        assert_eq!(hipdnnEnginePluginGetAllEngineIds(ids.as_mut_ptr(), 3, &mut count), OK);
        assert_eq!((ids, count), ([FIRST, SECOND, 0], 2));
        assert_eq!(hipdnnEnginePluginGetAllEngineIds(ids.as_mut_ptr(), 3, null_mut()), BAD_PARAM);
    }
    assert_eq!(text(), "num_engines is null");
}

#[test]
fn names_are_those_that_hash_to_the_ids() {
    for (id, expected) in [(FIRST, "FIRST_ENGINE"), (SECOND, "SECOND_ENGINE")] {
        let mut name = null();
        // SAFETY: the function writes only to the local `name`, and the name is NUL terminated.
        unsafe {
            assert_eq!(hipdnnEnginePluginGetEngineName(id, &mut name), OK);
            assert_eq!(CStr::from_ptr(name).to_str().unwrap(), expected);
            assert_eq!(hipdnnEnginePluginGetEngineName(id, null_mut()), BAD_PARAM);
        }
    }
    let mut name = c"untouched".as_ptr();
    let before = name;
    // SAFETY: the function writes only to the local `name`.
    assert_eq!(unsafe { hipdnnEnginePluginGetEngineName(5, &mut name) }, NOT_APPLICABLE);
    assert_eq!(name, before);
    assert_eq!(text(), "Probe has no engine with id 5");
}

#[test]
fn applicable_engines_come_in_order_for_both_layouts() {
    let handle = Handle::new();
    for layout in [Layout::G1, Layout::G2] {
        let graph = graph_of("", layout);
        assert_eq!(applicable(handle.0, &graph, 3), (OK, vec![FIRST, SECOND, 0], 2));
        assert_eq!(applicable(handle.0, &graph, 1), (OK, vec![FIRST], 2));
        assert_eq!(applicable(handle.0, &graph, 0), (OK, vec![], 2));
    }
    assert_eq!(applicable(handle.0, &graph("only the second"), 2), (OK, vec![SECOND, 0], 1));
    assert_eq!(applicable(handle.0, &graph("none"), 2), (OK, vec![0, 0], 0));
}

#[test]
fn applicable_engines_refuse_invalid_arguments() {
    let handle = Handle::new();
    let bytes = graph("");
    let good = data(&bytes);
    let (mut id, mut count) = (0, 99);
    // SAFETY: the function must refuse null; the rest is valid.
    unsafe {
        let ask = hipdnnEnginePluginGetApplicableEngineIds;
        assert_eq!(ask(null_mut(), &good, &mut id, 1, &mut count), BAD_PARAM);
        assert_eq!(text(), "handle is null");
        assert_eq!(ask(handle.0, null(), &mut id, 1, &mut count), BAD_PARAM);
        assert_eq!(text(), "op_graph is null");
        assert_eq!(ask(handle.0, &good, &mut id, 1, null_mut()), BAD_PARAM);
        assert_eq!(text(), "num_engines is null");
        for (wrong, reason) in wrong_buffers() {
            assert_eq!(ask(handle.0, &wrong, &mut id, 1, &mut count), INVALID_VALUE);
            assert!(text().starts_with("op_graph") && text().contains(reason), "{}", text());
        }
    }
    assert_eq!(applicable(handle.0, &graph("panic in supports"), 1), (INTERNAL_ERROR, vec![0], 99));
    assert_eq!(text(), "the plugin panicked: engine 0 lost its way");
    assert_eq!((id, count), (0, 99));
}

#[test]
fn details_carry_the_id_and_the_name_and_are_given_back_once() {
    let handle = Handle::new();
    let bytes = graph("");
    let good = data(&bytes);
    for (id, name, knobs) in [(FIRST, "FIRST_ENGINE", 1), (SECOND, "for people", 0)] {
        let mut details = hipdnnPluginConstData_t { ptr: null(), size: 0 };
        // SAFETY: handle and graph live during the call, and the bytes are those that the plugin returned and has not released.
        let read = unsafe {
            assert_eq!(hipdnnEnginePluginGetEngineDetails(handle.0, id, &good, &mut details), OK);
            assert!(details.ptr.addr().is_multiple_of(16));
            wire::read_engine_details(std::slice::from_raw_parts(details.ptr.cast(), details.size)).unwrap()
        };
        assert_eq!((read.engine_id, read.name.as_str(), read.knobs.len()), (id, name, knobs));
        // The host's changes to its copy of the size do not matter.
        details.size = 1;
        // SAFETY: the bytes are the plugin's; the second time there are none.
        unsafe {
            assert_eq!(hipdnnEnginePluginDestroyEngineDetails(handle.0, &mut details), OK);
            assert_eq!((details.ptr, details.size), (null(), 0));
            assert_eq!(hipdnnEnginePluginDestroyEngineDetails(handle.0, &mut details), OK);
        }
    }
}

#[test]
fn details_refuse_invalid_arguments() {
    let handle = Handle::new();
    let bytes = graph("");
    let good = data(&bytes);
    let mut details = hipdnnPluginConstData_t { ptr: null(), size: 77 };
    // SAFETY: the functions must refuse null; the rest is valid.
    unsafe {
        let ask = hipdnnEnginePluginGetEngineDetails;
        assert_eq!(ask(null_mut(), FIRST, &good, &mut details), BAD_PARAM);
        assert_eq!(ask(handle.0, FIRST, null(), &mut details), BAD_PARAM);
        assert_eq!(ask(handle.0, FIRST, &good, null_mut()), BAD_PARAM);
        assert_eq!(text(), "engine_details is null");
        assert_eq!(ask(handle.0, 3, &good, &mut details), BAD_PARAM);
        assert_eq!(text(), "Probe has no engine with id 3");
        for (wrong, reason) in wrong_buffers() {
            assert_eq!(ask(handle.0, FIRST, &wrong, &mut details), INVALID_VALUE);
            assert!(text().contains(reason), "{}", text());
        }
    }
    // SAFETY: the graphs live during the calls, and the functions write only to the local `details`; they must refuse null.
    unsafe {
        let ask = hipdnnEnginePluginGetEngineDetails;
        let none = graph("none");
        assert_eq!(ask(handle.0, SECOND, &data(&none), &mut details), NOT_APPLICABLE);
        assert_eq!(text(), "engine 1 declines");
        let silent = graph("no details");
        assert_eq!(ask(handle.0, SECOND, &data(&silent), &mut details), INTERNAL_ERROR);
        assert_eq!(text(), "nothing to say");
        let bad = graph("bad knob");
        assert_eq!(ask(handle.0, FIRST, &data(&bad), &mut details), INTERNAL_ERROR);
        let fault = "knob \"workspace\": the default value is -1, expected an integer from 0 to 4096";
        assert_eq!(text(), fault);
        assert_eq!(details.size, 77);
        assert_eq!(hipdnnEnginePluginDestroyEngineDetails(null_mut(), &mut details), BAD_PARAM);
        assert_eq!(hipdnnEnginePluginDestroyEngineDetails(handle.0, null_mut()), BAD_PARAM);
    }
}
