//! Graphs, as bytes and as JSON.

use std::ptr::null_mut;

use hipdnn_abi::hipdnnBackendDescriptor_t;
use hipdnn_backend::c_api;
use hipdnn_plugin_planner::prepare::prepare;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::json;
use hipdnn_plugin_sdk::wire::{self, Layout};

/// Larger graphs are not planned here, since the time grows with the square of the nodes.
const MOST_NODES: usize = 200;

pub(crate) fn byte_seeds() -> Vec<Vec<u8>> {
    let graphs = crate::examples().into_iter().map(|text| json::read_bytes(&text).expect("an example"));
    graphs
        .flat_map(|graph| {
            [Layout::G1, Layout::G2].map(|layout| wire::write(&graph, layout).ok()).into_iter().flatten()
        })
        .collect()
}

pub(crate) fn json_seeds() -> Vec<Vec<u8>> {
    crate::examples()
}

pub(crate) fn bytes(data: &[u8]) {
    let verified = wire::verify(data);
    let _ = wire::graph_name(data);
    if let Ok(graph) = wire::read(data) {
        // Written graphs are read back unchanged.
        for layout in [Layout::G1, Layout::G2] {
            let Ok(written) = wire::write(&graph, layout) else { continue };
            wire::verify(&written).expect("what was written is a graph");
            let again = wire::read(&written).expect("what was written can be read");
            assert_eq!(wire::write(&again, layout).expect("as before"), written);
        }
        check(&graph);
    }
    let mut descriptor = null_mut();
    // SAFETY: the bytes live during the call, and the function writes only to the local `descriptor`.
    let status = unsafe {
        c_api::hipdnnBackendCreateAndDeserializeGraph_ext(&raw mut descriptor, data.as_ptr(), data.len())
    };
    if status == 0 {
        assert!(verified.is_ok() || wire::is_container(data) == Ok(true));
        use_graph(descriptor);
    }
}

pub(crate) fn json(data: &[u8]) {
    if let Ok((graph, _)) = json::read_with_remarks(data) {
        // JSON has no infinity and NaN; everything else round-trips.
        let text = json::write(&graph);
        if let Ok(again) = json::read(&text) {
            assert_eq!(json::write(&again), text);
        }
        check(&graph);
    }
    let mut descriptor = null_mut();
    // SAFETY: the text lives during the call, and the function writes only to the local `descriptor`.
    let status = unsafe {
        c_api::hipdnnBackendCreateAndDeserializeJsonGraph_ext(
            &raw mut descriptor,
            data.as_ptr().cast(),
            data.len(),
        )
    };
    if status == 0 {
        use_graph(descriptor);
    }
}

/// The first checks of every plugin.
pub(crate) fn check(graph: &Graph) {
    if graph.nodes.len() <= MOST_NODES {
        let _ = prepare(graph);
    }
}

/// Writes a graph in both forms, and destroys it.
fn use_graph(descriptor: hipdnnBackendDescriptor_t) {
    let mut size = 0;
    // SAFETY: the size is writable, and the buffer is null.
    unsafe {
        if c_api::hipdnnBackendGetSerializedJsonGraph_ext(descriptor, 0, &raw mut size, null_mut()) == 0 {
            let mut text = vec![0_u8; size];
            let to = text.as_mut_ptr().cast();
            let status = c_api::hipdnnBackendGetSerializedJsonGraph_ext(descriptor, size, &raw mut size, to);
            assert!(status == 0 && text.last() == Some(&0));
        }
        if c_api::hipdnnBackendGetSerializedBinaryGraph_ext(descriptor, 0, &raw mut size, null_mut()) == 0 {
            let mut bytes = vec![0_u8; size];
            let to = bytes.as_mut_ptr();
            let status =
                c_api::hipdnnBackendGetSerializedBinaryGraph_ext(descriptor, size, &raw mut size, to);
            assert_eq!(status, 0);
        }
    }
    assert_eq!(c_api::hipdnnBackendDestroyDescriptor(descriptor), 0);
}
