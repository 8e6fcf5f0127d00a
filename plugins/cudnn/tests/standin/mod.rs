//! Stand-ins for NVIDIA's libraries, which compute in the processor's memory.

use std::path::Path;
use std::process::Command;

use hipdnn_plugin_sdk::dynlib::Library;

/// Compiles and opens stand-ins: sources with the names that the libraries are looked for by. What is opened first is what is found by its
/// name later, and what later ones may call.
pub fn open(libraries: &[(&str, &str)]) {
    let mut files = Vec::new();
    for (source, name) in libraries {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin").join(source);
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}_{name}", std::process::id()));
        let status = Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .args([&format!("-Wl,-soname,{name}"), "-lm"])
            .args(&files)
            .status();
        assert!(status.is_ok_and(|status| status.success()), "cc does not compile {}", source.display());
        let opened = Library::open(&library);
        std::mem::forget(opened.unwrap());
        files.push(library);
    }
    for file in files {
        std::fs::remove_file(file).unwrap();
    }
}
