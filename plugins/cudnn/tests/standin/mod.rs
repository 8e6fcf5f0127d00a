//! Stand-ins for NVIDIA's libraries.

pub mod device;

use std::path::{Path, PathBuf};

use hipdnn_cudnn_plugin::names;
use hipdnn_plugin_sdk::dynlib::Library;

/// What NVIDIA's header has besides the plugin's constants, as needed by the stand-in for cuDNN.
const TYPES: &str = "\
typedef int cudnnStatus_t, cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t;
typedef struct cudnnContext* cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t, *cudaStream_t;
enum { CUDNN_VERSION = 91400, CUDNN_STATUS_INTERNAL_ERROR = 4000, CUDNN_ATTR_ENGINE_OPERATION_GRAPH = 1300 };
";

/// A folder with a `cudnn.h` of the plugin's constants, which an NVIDIA test compares with the real header.
fn header() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}_cudnn", std::process::id()));
    let numbers = names::CONSTANTS.iter().map(|(name, value)| format!("enum {{ {name} = {value} }};\n"));
    let text: String = std::iter::once(TYPES.to_owned()).chain(numbers).collect();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("cudnn.h"), text).unwrap();
    folder
}

/// Compiles and opens stand-ins: sources below the plugin's folder, with the names of the real libraries.
/// Libraries opened first are found by name later, and those behind them are linked with them.
pub fn open(libraries: &[(&str, &str)]) {
    let (header, mut made) = (header(), Vec::<PathBuf>::new());
    for (source, name) in libraries {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}_{name}", std::process::id()));
        let status = stub_plugins::compiler(stub_plugins::Language::C)
            .args(["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            // The stand-ins that the tests in C use, too.
            .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../c_tests/beside"))
            .arg("-I")
            .arg(&header)
            .args(&made)
            .args([&format!("-Wl,-soname,{name}"), "-lm", "-ldl", "-lpthread"])
            .status();
        assert!(status.is_ok_and(|status| status.success()), "the compiler refuses {}", source.display());
        let opened = Library::open(&library);
        std::mem::forget(opened.unwrap());
        made.push(library);
    }
    std::fs::remove_dir_all(header).unwrap();
    for library in made {
        std::fs::remove_file(library).unwrap();
    }
}
