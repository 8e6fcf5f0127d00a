use flatbuffers::FlatBufferBuilder;

use super::*;

fn origin() -> Origin {
    Origin {
        plugin_name: "A plugin".to_owned(),
        plugin_version: "1.2.3".to_owned(),
        device: "a device".to_owned(),
        tensor_alignments: vec![16, 1, 64],
    }
}

fn plan(origin: Option<Origin>) -> SavedPlan<'static> {
    SavedPlan {
        version: SAVED_PLAN_VERSION,
        engine_id: -77,
        workspace_size: 1 << 40,
        tensor_uids: vec![3, -1, 0],
        payload: b"what the plugin saved",
        graph: b"a graph",
        is_override_shape_enabled: true,
        origin,
    }
}

/// Every truncation and every single-bit change of these bytes.
fn damages(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let cut = (0..bytes.len()).map(|size| bytes[..size].to_vec());
    let flipped = (0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    });
    cut.chain(flipped)
}

#[test]
fn plans_round_trip() {
    for origin in [None, Some(origin())] {
        let plan = plan(origin);
        assert_eq!(read_plan(&write_plan(&plan).unwrap()).unwrap(), plan);
    }
}

#[test]
fn containers_round_trip() {
    for plan in [&b""[..], b"a plan"] {
        let container = Container { graph: b"a graph", plan };
        let bytes = write_container(container).unwrap();
        assert!(is_container(&bytes).unwrap());
        assert_eq!(read_container(&bytes).unwrap(), container);
    }
}

#[test]
fn damage_to_a_sealed_plan_is_detected() {
    let bytes = write_plan(&plan(Some(origin()))).unwrap();
    assert_eq!(bytes[MARK_AT..MARK_AT + 8], MARK);
    for damaged in damages(&bytes) {
        assert!(read_plan(&damaged).is_err(), "{damaged:x?}");
    }
    assert!(read_plan(&[&bytes[..], &[0]].concat()).unwrap_err().0.contains("checksum"));
}

#[test]
fn damage_to_a_container_is_detected() {
    let inner = write_plan(&plan(None)).unwrap();
    for plan in [&b""[..], &inner] {
        let bytes = write_container(Container { graph: b"a graph", plan }).unwrap();
        for damaged in damages(&bytes) {
            // If this says no, the caller takes the bytes for a graph or a plan; only bytes that are too
            // short may get a no.
            match is_container(&damaged) {
                Err(_) => {}
                Ok(false) => assert!(damaged.len() < 8, "{damaged:x?}"),
                Ok(true) => assert!(read_container(&damaged).is_err(), "{damaged:x?}"),
            }
        }
    }
}

#[test]
fn damage_to_an_unsealed_plan_never_panics() {
    let bytes = write_plan(&plan(None)).unwrap();
    let refused = damages(&bytes).filter(|damaged| read_plan(damaged).is_err()).count();
    assert!(refused > bytes.len(), "{refused} of {} bytes", bytes.len());
}

#[test]
fn half_a_seal_is_damage() {
    let bytes = write_plan(&plan(Some(origin()))).unwrap();
    let mut unmarked = bytes.clone();
    unmarked[MARK_AT] = b'h';
    assert!(read_plan(&unmarked).unwrap_err().0.contains("not marked as sealed"));
    let mut marked = vec![0; 8];
    marked.extend(MARK);
    marked.extend([4, 0, 4, 0, 4, 0, 0, 0]);
    marked[0] = 20;
    assert!(read_plan(&marked).unwrap_err().0.contains("have no checksum"));
}

#[test]
fn as_many_alignments_as_tensors() {
    let mut origin = origin();
    origin.tensor_alignments.pop();
    let bytes = write_plan(&plan(Some(origin))).unwrap();
    assert!(read_plan(&bytes).unwrap_err().0.contains("3 tensors and 2 alignments"));
}

/// Ignores whatever other libraries append in their six fields.
#[test]
fn fields_of_other_libraries_are_ignored() {
    let mut b = FlatBufferBuilder::new();
    let uids = b.create_vector(&[7_i64]);
    let payload = b.create_vector(&[1_u8, 2]);
    let appended = b.create_vector(&[16_i64]);
    let table = b.start_table();
    b.push_slot_always(slot(plan_field::VERSION), 1_u32);
    b.push_slot_always(slot(plan_field::ENGINE_ID), 5_i64);
    b.push_slot_always(slot(plan_field::TENSOR_UIDS), uids);
    b.push_slot_always(slot(plan_field::PAYLOAD), payload);
    for index in plan_field::IS_OVERRIDE_SHAPE_ENABLED + 1..plan_field::PLUGIN_NAME {
        b.push_slot_always(slot(index), appended);
    }
    let root = b.end_table(table);
    b.finish_minimal(root);
    let plan = read_plan(b.finished_data()).unwrap();
    assert_eq!((plan.version, plan.engine_id, plan.workspace_size), (1, 5, 0));
    assert_eq!((plan.tensor_uids, plan.payload, plan.origin), (vec![7], &[1_u8, 2][..], None));
}

#[test]
fn only_one_bit_from_a_container_is_refused() {
    for (bytes, expected) in [
        (&b"0000HDGP"[..], Ok(true)),
        (b"0000HDGPxxxx", Ok(true)),
        (b"0000HDG", Ok(false)),
        (b"", Ok(false)),
        (b"0000\0\0\0\0", Ok(false)),
        (b"0000HDGW", Ok(false)),
        (b"0000HDGQ", Err(())),
        (b"0000IDGP", Err(())),
    ] {
        assert_eq!(is_container(bytes).map_err(drop), expected, "{bytes:?}");
    }
}

#[test]
fn oversized_plans_are_refused() {
    // Never touched, so it uses no physical memory.
    let large = vec![0; MAX_SIZE + 1];
    let mut plan = plan(None);
    plan.payload = &large;
    assert!(write_plan(&plan).unwrap_err().0.contains("at most 1073741824"));
    assert!(write_container(Container { graph: &large, plan: &large }).is_err());
}
