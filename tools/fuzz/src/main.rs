//! The program of libFuzzer for one target, which `HIPDNN_FUZZ_TARGET` names: `cargo xtask fuzz` builds and runs it.

#![no_main]
#![expect(clippy::expect_used, reason = "a fuzzer that cannot begin stops")]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static CHOSEN: OnceLock<&fuzz::Target> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("HIPDNN_FUZZ_TARGET").unwrap_or_default();
        let Some(target) = fuzz::TARGETS.iter().find(|target| target.name == name) else {
            fuzz::TARGETS.iter().for_each(|target| println!("{}", target.name));
            std::process::exit(0);
        };
        // Write libFuzzer's initial corpus into the folder that it reads next.
        if let Some(folder) = std::env::var_os("HIPDNN_FUZZ_SEEDS") {
            for (number, seed) in (target.seeds)().iter().enumerate() {
                let path = std::path::Path::new(&folder).join(format!("seed-{number}"));
                std::fs::write(path, seed).expect("a folder for the seeds");
            }
        }
        let _ = CHOSEN.set(target);
    },
    |data: &[u8]| {
        if let Some(target) = CHOSEN.get() {
            (target.run)(data);
        }
    }
);
