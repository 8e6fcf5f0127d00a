//! Which files are accepted as tuning plugins, and why others are not.

use hipdnn::tuning::plugin::{Found, Plugin, strategies};

/// The name of a defective plugin, and words of the reason.
const REFUSED: &[(&str, &str)] = &[
    ("tuning_engine_type", "its type is 1, expected that of a tuning plugin, 3"),
    ("tuning_type_fails", "its type: status 3, \"the stub fails in hipdnnPluginGetType\""),
    ("tuning_name_empty", "its name is empty"),
    ("tuning_name_null", "its name is null"),
    ("tuning_api_1", "its API version is \"1.0.0\", expected 0.MINOR.PATCH"),
    ("tuning_api_unparsable", "its API version is \"zero\""),
    ("tuning_api_fails", "its API version: status 3"),
    ("tuning_api_beyond", "its API version is \"0.99999999999.0\", expected 0.MINOR.PATCH"),
    ("tuning_name_not_utf8", "its name is \"St\\xffb\", expected UTF-8"),
    ("tuning_strategy_not_utf8", " is \"st\\xffb\", expected UTF-8"),
    ("tuning_no_get_name", "it lacks hipdnnPluginGetName"),
    ("tuning_no_get_version", "it lacks hipdnnPluginGetVersion"),
    ("tuning_no_get_api_version", "it lacks hipdnnPluginGetApiVersion"),
    ("tuning_no_get_type", "it lacks hipdnnPluginGetType"),
    ("tuning_no_callback", "it lacks hipdnnPluginSetLoggingCallback"),
    ("tuning_no_last_error", "it lacks hipdnnPluginGetLastErrorString"),
    ("tuning_no_ids", "it lacks hipdnnTuningPluginGetAllStrategyIds"),
    ("tuning_no_strategy_name", "it lacks hipdnnTuningPluginGetStrategyName"),
    ("tuning_no_search", "it lacks hipdnnTuningPluginSearch"),
    ("tuning_no_strategies", "it has 0 strategies, expected 1 to 4096"),
    ("tuning_count_grows", "it has 3 strategies, after it said 1"),
    ("tuning_count_huge", "it has 4294967295 strategies"),
    ("tuning_ids_fail", "the number of its strategies: status 3"),
    ("tuning_duplicate", "twice"),
    ("tuning_strategy_name_empty", "the name of strategy"),
    ("tuning_strategy_name_null", "is null"),
    ("tuning_strategy_name_fails", "status 3"),
    ("tuning_id_not_the_hash", "expected the hash of its name"),
    ("tuning_ids_throw", "threw a C++ exception"),
    (
        "good",
        "it lacks hipdnnTuningPluginGetAllStrategyIds, hipdnnTuningPluginGetStrategyName, hipdnnTuningPluginSearch",
    ),
    ("heuristic_good", "it lacks hipdnnTuningPluginGetAllStrategyIds"),
];

#[test]
fn defective_plugins_are_refused_with_the_reason() {
    for (name, words) in REFUSED {
        let path = stub_plugins::library(name).unwrap();
        match Plugin::load(&path) {
            Ok(_) => panic!("{name} was taken"),
            Err(reason) => assert!(reason.contains(words), "{name}: {reason}"),
        }
    }
    let missing = Plugin::load(std::path::Path::new("/no/such/plugin.so")).err().unwrap();
    assert!(missing.contains("No such file"), "{missing}");
}

#[test]
fn correct_plugins_are_taken_once_and_their_strategies_stand_behind_those_that_are_built_in() {
    let load = |name: &str| Plugin::load(&stub_plugins::library(name).unwrap()).unwrap();
    let plugins = ["tuning_two", "tuning_api_0_9", "tuning_without_log_level"].map(load).to_vec();
    assert_eq!(plugins[0].describe().0, "Stub");
    assert!(std::ptr::eq(plugins[0], load("tuning_two")));
    let names: Vec<String> =
        strategies(&Found { plugins, refused: Vec::new() }).into_iter().map(|(name, _)| name).collect();
    // The duplicate name of the second and third plugin is skipped.
    assert_eq!(names, ["halving", "exhaustive", "stub", "other"]);
}
