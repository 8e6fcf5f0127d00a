//! Stand-ins for NVIDIA's libraries.

pub mod device;

use std::path::{Path, PathBuf};

use hipdnn_plugin_sdk::dynlib::Library;

/// Compiles and opens stand-ins: sources below the plugin's folder with the names that the libraries are looked for by. What is opened first is
/// what is found by its name later, and what those behind it are linked with.
pub fn open(libraries: &[(&str, &str)]) {
    let mut made: Vec<PathBuf> = Vec::new();
    for (source, name) in libraries {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}_{name}", std::process::id()));
        let status = stub_plugins::compiler(stub_plugins::Language::C)
            .args(["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            // The stand-ins that the tests in C have, too.
            .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../c_tests/beside"))
            .args(&made)
            .args([&format!("-Wl,-soname,{name}"), "-lm", "-ldl", "-lpthread"])
            .status();
        assert!(status.is_ok_and(|status| status.success()), "the compiler refuses {}", source.display());
        let opened = Library::open(&library);
        std::mem::forget(opened.unwrap());
        made.push(library);
    }
    for library in made {
        std::fs::remove_file(library).unwrap();
    }
}
