//! The headers for plugin authors, under the names that plugins of both generations include.

use std::path::Path;

use super::{Output, file, fragment, module_doc};
use crate::Failure;
use crate::workspace::Workspace;

/// Where the headers lie: one folder for the include path.
const FOLDER: &str = "include/hipdnn/plugin";

/// A header that only includes another one, under a name that plugins of November 2025 use, or those for AMD's newest heuristic
/// interface.
const FORWARDED: &[(&str, &str)] = &[
    ("hipdnn_plugin_sdk/HeuristicsPluginApi.h", "HeuristicPluginApi.h"),
    ("hipdnn_sdk/logging/CallbackTypes.h", "../../hipdnn_data_sdk/logging/CallbackTypes.h"),
    ("hipdnn_sdk/plugin/EnginePluginApi.h", "../../hipdnn_plugin_sdk/EnginePluginApi.h"),
    ("hipdnn_sdk/plugin/PluginApi.h", "../../hipdnn_plugin_sdk/PluginApi.h"),
    ("hipdnn_sdk/plugin/PluginApiDataTypes.h", "../../hipdnn_plugin_sdk/PluginApiDataTypes.h"),
];

/// How functions are declared. A plugin that declares its own functions some other way may define these before.
const MACROS: &str = "\
#ifndef HIPDNN_PLUGIN_EXPORT
#if defined(HIPDNN_PLUGIN_STATIC_DEFINE)
#define HIPDNN_PLUGIN_EXPORT
#elif defined(_WIN32)
#define HIPDNN_PLUGIN_EXPORT __declspec(dllexport)
#else
#define HIPDNN_PLUGIN_EXPORT __attribute__((visibility(\"default\")))
#endif
#endif

#ifndef HIPDNN_PLUGIN_NODISCARD
#ifdef __cplusplus
#define HIPDNN_PLUGIN_NODISCARD [[nodiscard]]
#else
#define HIPDNN_PLUGIN_NODISCARD
#endif
#endif
";

/// How functions are declared in AMD's header for heuristic plugins.
const HEURISTIC: &str = "\
#ifndef HIPDNN_HEURISTIC_PLUGIN_EXPORT
#define HIPDNN_HEURISTIC_PLUGIN_EXPORT HIPDNN_PLUGIN_EXPORT
#endif
";

/// The guard of notes, which the library's header and AMD's have too.
const NOTES: &str = "HIPDNN_BEHAVIOR_NOTE_TYPES_DEFINED";

/// `hipStream_t` without the rest of HIP.
const STREAM: &str = "\
#if !defined(HIPDNN_BACKEND_NO_HIP_HEADERS) && defined(__has_include)
#if __has_include(<hip/hip_runtime_api.h>)
#define HIPDNN_PLUGIN_USES_HIP_HEADERS
#endif
#endif

#ifdef HIPDNN_PLUGIN_USES_HIP_HEADERS
/* HIP's header stops a compiler that was not told the platform; a plain C compiler seldom is. */
#if !defined(__HIP_PLATFORM_AMD__) && !defined(__HIP_PLATFORM_NVIDIA__)
#define __HIP_PLATFORM_AMD__ 1
#endif
/* HIP's headers warn under -Wextra; a strict program that names them with -I is not to stop for that. */
#if defined(__INCLUDE_LEVEL__) && __INCLUDE_LEVEL__ > 0
#pragma GCC system_header
#endif
#include <hip/hip_runtime_api.h>
#else
#ifdef __cplusplus
extern \"C\" {
#endif
/** A HIP stream; null is the default stream. */
typedef struct ihipStream_t *hipStream_t;
#ifdef __cplusplus
}
#endif
#endif
";

pub fn outputs(workspace: &Workspace) -> Result<Vec<Output>, Failure> {
    let ffi = workspace.path("plugins/sdk/src/ffi");
    let callbacks = workspace.path("src/ffi/callback_types.rs");
    let types = fragment::types(
        &ffi.join("data_types.rs"),
        &[
            "hipdnnPluginStatus_t",
            "hipdnnPluginType_t",
            "hipdnnPluginConstData_t",
            "hipdnnPluginDeviceBuffer_t",
            "hipdnnEnginePredictionKind_t",
        ],
    )?;
    let opaque = fragment::opaque(
        &ffi.join("data_types.rs"),
        &[
            "hipdnnEnginePluginHandle_t",
            "hipdnnEnginePluginExecutionContext_t",
            "hipdnnHeuristicHandle_t",
            "hipdnnHeuristicPolicyDescriptor_t",
        ],
    )?;
    let callback = fragment::types(&callbacks, &["hipdnnSeverity_t", "hipdnnCallback_t"])?;
    let guard = "HIPDNN_CALLBACK_TYPES_DEFINED";
    let notes = workspace.path("src/ffi/behavior_note.rs");
    let note = "hipdnnBackendBehaviorNote_t";
    let note = fragment::open_enum(&fragment::types(&notes, &[note])?, note)?;
    let parts = [
        (
            "hipdnn_data_sdk/logging/CallbackTypes.h",
            callbacks,
            "#include <stddef.h>\n".to_owned(),
            format!("#ifndef {guard}\n#define {guard}\n\n{}\n\n#endif", callback.trim()),
        ),
        (
            "hipdnn_plugin_sdk/PluginApiDataTypes.h",
            ffi.join("data_types.rs"),
            "#include <stddef.h>\n#include <stdint.h>\n".to_owned(),
            format!("{}\n\n{}", types.trim(), opaque.trim()),
        ),
        (
            "hipdnn_plugin_sdk/PluginApi.h",
            ffi.join("plugin_api.rs"),
            format!(
                "#include \"../hipdnn_data_sdk/logging/CallbackTypes.h\"\n#include \"PluginApiDataTypes.h\"\n\n{MACROS}"
            ),
            functions(&ffi.join("plugin_api.rs"))?,
        ),
        (
            "hipdnn_plugin_sdk/EnginePluginApi.h",
            ffi.join("engine_plugin_api.rs"),
            format!("#include \"PluginApi.h\"\n\n{STREAM}"),
            functions(&ffi.join("engine_plugin_api.rs"))?,
        ),
        (
            "hipdnn_plugin_sdk/engine_api_version.h",
            ffi.join("engine_api_version.rs"),
            "#include <stddef.h>\n".to_owned(),
            version(&ffi.join("engine_api_version.rs"), "HIPDNN_ENGINE_API_VERSION")?,
        ),
        (
            "hipdnn_plugin_sdk/HeuristicPluginApi.h",
            ffi.join("heuristic_plugin_api.rs"),
            format!("#include \"PluginApi.h\"\n\n{HEURISTIC}"),
            format!(
                "{}\n\n{}",
                fragment::types(&ffi.join("heuristic_host.rs"), &["hipdnnHeuristicHostCallbacks_t"])?.trim(),
                functions(&ffi.join("heuristic_plugin_api.rs"))?
            ),
        ),
        (
            "hipdnn_plugin_sdk/BehaviorNote.h",
            notes.clone(),
            "#include <stdint.h>\n".to_owned(),
            format!("#ifndef {NOTES}\n#define {NOTES}\n\n{}\n\n#endif", note.trim()),
        ),
        (
            "hipdnn_plugin_sdk/heuristic_api_version.h",
            ffi.join("heuristic_api_version.rs"),
            "#include <stddef.h>\n".to_owned(),
            version(&ffi.join("heuristic_api_version.rs"), "HIPDNN_HEURISTIC_API_VERSION")?,
        ),
    ];
    let tuning = workspace.path("bindings/rust/src/tuning/ffi");
    let structs = ["hipdnnTuningProblem_t", "hipdnnTuningMeasurement_t", "hipdnnTuningHost_t"];
    let parts = parts.into_iter().chain([
        (
            "hipdnn_plugin_sdk/TuningPluginApi.h",
            tuning.join("functions.rs"),
            "#include \"PluginApi.h\"\n".to_owned(),
            format!(
                "{}\n\n{}",
                fragment::types(&tuning.join("types.rs"), &structs)?.trim(),
                functions(&tuning.join("functions.rs"))?
            ),
        ),
        (
            "hipdnn_plugin_sdk/tuning_api_version.h",
            tuning.join("version.rs"),
            "#include <stddef.h>\n".to_owned(),
            version(&tuning.join("version.rs"), "HIPDNN_TUNING_API_VERSION")?,
        ),
    ]);
    let folder = workspace.path(FOLDER);
    let mut outputs = Vec::new();
    for (name, source, preamble, body) in parts {
        let doc = module_doc(&source)?;
        let text = file(&guard_name(name), &doc, &workspace.relative(&source), &preamble, &body);
        outputs.push(Output { path: folder.join(name), text });
    }
    for (name, target) in FORWARDED {
        let doc = match name.starts_with("hipdnn_sdk") {
            true => ["The name that plugins of November 2025 include.".to_owned()],
            false => ["The name that plugins for AMD's newest interface include.".to_owned()],
        };
        let text = file(
            &guard_name(name),
            &doc,
            "tools/xtask/src/generate/plugin_headers.rs",
            "",
            &format!("#include \"{target}\""),
        );
        outputs.push(Output { path: folder.join(name), text });
    }
    Ok(outputs)
}

/// Declarations with the macros of a plugin's functions, which cbindgen does not put before what other files define.
fn functions(source: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    for line in fragment::plugin_functions(source)?.trim().lines() {
        let line = match line.strip_prefix("extern ") {
            // A function without a result has nothing to discard.
            Some(declaration) if declaration.starts_with("void ") => {
                format!("HIPDNN_PLUGIN_EXPORT {declaration}")
            }
            Some(declaration) => format!("HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT {declaration}"),
            // An argument on a line of its own.
            None if line.starts_with(' ') => format!("    {}", line.trim_start()),
            None => line.to_owned(),
        };
        match line.split_once('(') {
            Some((head, first)) if line.starts_with("HIPDNN_") && line.ends_with(',') => {
                text.push_str(&format!("{head}(\n    {first}\n"));
            }
            _ => text.push_str(&format!("{line}\n")),
        }
    }
    Ok(text.trim().to_owned())
}

/// The numbers of the version, and the text that they make.
fn version(source: &Path, name: &str) -> Result<String, Failure> {
    let text = fragment::types(source, &[])?.trim().to_owned();
    let parts: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("#define"))
        .filter_map(|line| line.rsplit(' ').next())
        .filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    match parts.as_slice() {
        [major, minor, patch] => Ok(format!(
            "{text}\n\n/// What `hipdnnPluginGetApiVersion` answers.\n\
             #define {name} \"{major}.{minor}.{patch}\""
        )),
        _ => Err(Failure::new(format!("{} has not the three numbers of a version", source.display()))),
    }
}

/// A name for the include guard, which no other project's header has.
fn guard_name(name: &str) -> String {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let folder = folder.replace('/', "_");
    let separator = if file.starts_with(char::is_uppercase) { "" } else { "_" };
    format!("{folder}{separator}{file}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_the_macros_and_an_argument_a_line() {
        let source = Workspace::new().path("plugins/sdk/src/ffi/plugin_api.rs");
        let text = functions(&source).unwrap();
        assert!(!text.contains("extern"), "{text}");
        assert!(text.contains("\nHIPDNN_PLUGIN_EXPORT void hipdnnPluginGetLastErrorString("), "{text}");
        let engine = functions(&source.with_file_name("engine_plugin_api.rs")).unwrap();
        let create =
            "HIPDNN_PLUGIN_NODISCARD HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreate(";
        assert!(engine.contains(create), "{engine}");
        assert!(engine.contains("(\n    int64_t *engine_ids,\n    uint32_t max_engines,\n"), "{engine}");
    }

    #[test]
    fn the_version_is_the_text_that_plugins_of_the_sdk_answer() {
        for file in [
            "plugins/sdk/src/ffi/engine_api_version.rs",
            "plugins/sdk/src/ffi/heuristic_api_version.rs",
            "bindings/rust/src/tuning/ffi/version.rs",
        ] {
            let source = Workspace::new().path(file);
            let rust = std::fs::read_to_string(&source).unwrap();
            let text = version(&source, "VERSION").unwrap();
            let answer = text.rsplit(' ').next().unwrap();
            assert!(rust.contains(&format!("c{answer}")), "{answer} is not in {}", source.display());
        }
    }
}
