//! Every variant compiles, and lacks exactly the functions that it should lack.

use libloading::Library;

const SYMBOLS: &[(&str, &str)] = &[
    ("NO_GET_NAME", "hipdnnPluginGetName"),
    ("NO_GET_VERSION", "hipdnnPluginGetVersion"),
    ("NO_GET_API_VERSION", "hipdnnPluginGetApiVersion"),
    ("NO_GET_TYPE", "hipdnnPluginGetType"),
    ("NO_GET_LAST_ERROR_STRING", "hipdnnPluginGetLastErrorString"),
    ("NO_SET_LOGGING_CALLBACK", "hipdnnPluginSetLoggingCallback"),
    ("NO_SET_LOG_LEVEL", "hipdnnPluginSetLogLevel"),
    ("NO_GET_ALL_ENGINE_IDS", "hipdnnEnginePluginGetAllEngineIds"),
    ("NO_GET_ENGINE_NAME", "hipdnnEnginePluginGetEngineName"),
    ("NO_CREATE", "hipdnnEnginePluginCreate"),
    ("NO_DESTROY", "hipdnnEnginePluginDestroy"),
    ("NO_SET_STREAM", "hipdnnEnginePluginSetStream"),
    ("NO_GET_APPLICABLE_ENGINE_IDS", "hipdnnEnginePluginGetApplicableEngineIds"),
    ("NO_GET_ENGINE_DETAILS", "hipdnnEnginePluginGetEngineDetails"),
    ("NO_DESTROY_ENGINE_DETAILS", "hipdnnEnginePluginDestroyEngineDetails"),
    ("NO_GET_WORKSPACE_SIZE", "hipdnnEnginePluginGetWorkspaceSize"),
    ("NO_CREATE_EXECUTION_CONTEXT", "hipdnnEnginePluginCreateExecutionContext"),
    ("NO_DESTROY_EXECUTION_CONTEXT", "hipdnnEnginePluginDestroyExecutionContext"),
    (
        "NO_GET_WORKSPACE_SIZE_FROM_EXECUTION_CONTEXT",
        "hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext",
    ),
    ("NO_EXECUTE_OP_GRAPH", "hipdnnEnginePluginExecuteOpGraph"),
];

fn has(library: &Library, symbol: &str) -> bool {
    // SAFETY: the address is not used.
    unsafe { library.get::<*const ()>(symbol) }.is_ok()
}

#[test]
fn every_variant_lacks_what_it_should_lack() {
    let variants = stub_plugins::variants().unwrap();
    // What heuristic plugins lack is found out by c_tests/host/policies.c, and tuning plugins by the tests of the crate hipdnn.
    let is_engine = |word: &String| !["HEURISTIC", "TUNING", "UPSTREAM"].contains(&word.as_str());
    for variant in variants.iter().filter(|variant| variant.defines.iter().all(is_engine)) {
        let path = stub_plugins::library(&variant.name).unwrap();
        // SAFETY: the stub does nothing when it is loaded.
        let library = unsafe { Library::new(&path) }.unwrap();
        for define in variant.defines.iter().filter(|define| define.starts_with("NO_")) {
            assert!(
                SYMBOLS.iter().any(|(name, _)| name == define),
                "{}: {define} is not known",
                variant.name
            );
        }
        for (define, symbol) in SYMBOLS {
            let lacking = variant.defines.iter().any(|word| word == define);
            assert_eq!(has(&library, symbol), !lacking, "{}: {symbol}", variant.name);
        }
    }
}

#[test]
fn stripped_variants_have_only_the_symbols_of_the_interface() {
    let names_internals = |name: &str| {
        let bytes = std::fs::read(stub_plugins::library(name).unwrap()).unwrap();
        let internal = b"serial_of_handle";
        bytes.windows(internal.len()).any(|window| window == internal)
    };
    assert!(names_internals("newer_named"));
    assert!(!names_internals("newer_named_stripped"));
}

#[test]
fn the_null_plugin_is_complete() {
    let path = stub_plugins::library(stub_plugins::NULL).unwrap();
    // SAFETY: the plugin does nothing when it is loaded.
    let library = unsafe { Library::new(&path) }.unwrap();
    let missing: Vec<_> =
        SYMBOLS.iter().map(|(_, symbol)| *symbol).filter(|symbol| !has(&library, symbol)).collect();
    assert_eq!(missing, ["hipdnnPluginSetLoggingCallback", "hipdnnPluginSetLogLevel"]);
}
