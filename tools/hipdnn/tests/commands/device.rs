//! `hipdnn device`

use crate::hipdnn;

const LIBRARIES: [&str; 9] =
    ["HIP runtime", "MIOpen", "hipRTC", "hipBLASLt", "rocBLAS", "CUDA driver", "cuDNN", "cuBLASLt", "NVRTC"];

#[test]
fn libraries_are_listed_and_a_missing_device_is_a_failure() {
    let answer = hipdnn(&["device"]);
    for library in LIBRARIES {
        assert!(answer.out.lines().any(|line| line.starts_with(library)), "{library}: {}", answer.out);
    }
    if answer.out.contains("DEVICE") {
        assert_eq!((answer.status, answer.err.as_str()), (0, ""));
    } else {
        assert_eq!(answer.status, 1);
        assert!(answer.err.starts_with("hipdnn: no device: "), "{}", answer.err);
        let looked_for = answer.err.contains("libamdhip64.so.7") || answer.err.contains("finds no device");
        assert!(looked_for || answer.err.contains("hipGetDeviceCount"), "{}", answer.err);
    }
}

#[test]
fn programs_read_it_as_json() {
    let answer = hipdnn(&["device", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    let libraries = value["libraries"].as_array().unwrap();
    let names: Vec<_> = libraries.iter().map(|library| library["library"].as_str().unwrap()).collect();
    assert_eq!(names, LIBRARIES);
    for library in libraries {
        // Either its path, or the names searched.
        assert_ne!(library["name"].is_null(), library["missing"].is_null(), "{library}");
    }
    assert_eq!(value["devices"].as_array().unwrap().is_empty(), answer.status == 1);
}
