//! Saved plans: the envelope of the library, the container with a graph, and what an engine keeps inside.

use hipdnn_plugin_sdk::payload::Payload;
use hipdnn_plugin_sdk::wire::{self, Container, EngineConfig, Layout};

use crate::bytes::Bytes;
use crate::graphs;

const PAYLOAD: Payload = Payload { mark: *b"FUZZ", version: 1, owner: "fuzz" };

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> =
        ["container_1.bin", "plan_1_sealed.bin", "plan_1_unsealed.bin", "device_1.bin"]
            .map(|name| [vec![0], crate::read(&format!("c_tests/golden/{name}"))].concat())
            .into();
    let config = wire::write_engine_config(&EngineConfig { engine_id: 1, knobs: Vec::new() });
    for graph in graphs::byte_seeds() {
        let size = u8::try_from(config.len()).expect("a short configuration");
        seeds.push([&[1, size], config.as_slice(), &graph].concat());
        seeds.push([vec![2], graph].concat());
    }
    seeds
}

pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    match bytes.byte() % 3 {
        0 => {
            let _ = (wire::read_plan(bytes.0), wire::is_container(bytes.0), wire::read_container(bytes.0));
            let mut flags = 0;
            // SAFETY: the bytes live during the call, and the flags are writable.
            unsafe {
                hipdnn_backend::c_api::hipdnnBackendGetSerializedBinaryContents_ext(
                    bytes.0.as_ptr(),
                    bytes.0.len(),
                    &raw mut flags,
                );
            }
            let _ = PAYLOAD.read::<3>(bytes.0);
        }
        // With a valid checksum, which random bytes would not pass.
        1 => {
            let size = usize::from(bytes.byte());
            let (config, graph) = (bytes.take(size), bytes.0);
            let payload = PAYLOAD.write(&[config, b"found", graph]).expect("small parts");
            if let Ok((request, found)) = PAYLOAD.read_plan(&payload) {
                assert_eq!(found, b"found");
                graphs::check(&request.graph);
                let _ = wire::write(&request.graph, Layout::G2);
            }
        }
        _ => {
            let container =
                wire::write_container(Container { graph: bytes.0, plan: bytes.0 }).expect("small");
            let read = wire::read_container(&container).expect("what was written can be read");
            assert_eq!((read.graph, read.plan), (bytes.0, bytes.0));
            graphs::bytes(&container);
        }
    }
}
