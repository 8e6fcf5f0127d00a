//! Plugins' answers, and a host's inputs besides graphs.

use hipdnn_plugin_sdk::wire::{
    self, EngineConfig, EngineDetails, Knob, KnobSetting, KnobValue, read_bare_engine_details,
    read_device_properties, read_engine_config, read_engine_details, read_knob, read_knob_setting,
};

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let knobs = vec![
        Knob::int("threads", "How many.", 0, 0, 64),
        Knob::flag("deterministic", "Whether.", false),
        Knob::one_of_ints("form", "Which.", 1, &[0, 1, 5]),
        Knob::float("fraction", "How much.", 0.5, 0.0, 1.0),
        Knob::one_of_texts("words", "Which.", "a", &["a", "b"]),
        Knob::text("text", "Any.", "it", 9).deprecated(),
    ];
    let settings = vec![
        KnobSetting { knob_id: "threads".to_owned(), value: KnobValue::Int(3) },
        KnobSetting { knob_id: "fraction".to_owned(), value: KnobValue::Float(0.25) },
        KnobSetting { knob_id: "words".to_owned(), value: KnobValue::Text("b".to_owned()) },
    ];
    let mut seeds: Vec<Vec<u8>> = knobs.iter().map(wire::write_knob).collect();
    seeds.extend(settings.iter().map(wire::write_knob_setting));
    let details = EngineDetails { engine_id: 7, knobs, behavior_notes: vec![1, 2], name: "it".to_owned() };
    seeds.push(wire::write_engine_details(&details));
    seeds.push(wire::write_engine_config(&EngineConfig { engine_id: 7, knobs: settings }));
    let prediction =
        wire::Prediction { engine_id: 7, kind: 1, value: Some(1.0), metric: "time", ..Default::default() };
    seeds.push(wire::write_prediction(&prediction));
    seeds.push(crate::read("c_tests/golden/device_1.bin"));
    seeds
}

pub(crate) fn run(data: &[u8]) {
    if let Ok(details) = read_engine_details(data) {
        let again = wire::write_engine_details(&details);
        let read = read_engine_details(&again).expect("what was written can be read");
        assert_eq!(wire::write_engine_details(&read), again);
    }
    if let Ok(config) = read_engine_config(data) {
        let again = wire::write_engine_config(&config);
        read_engine_config(&again).expect("what was written can be read");
    }
    if let (Ok(knob), Ok(setting)) = (read_knob(data), read_knob_setting(data)) {
        let _ = knob.check(&setting.value);
    }
    let _ = (read_bare_engine_details(data), read_device_properties(data));
}
