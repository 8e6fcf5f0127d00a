//! `cargo xtask vulkan-test`: tests the engine for any GPU on the device that is there, a software one if there is no other.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::install::{self, ENGINES, GPU_PROGRAM, LIBRARY, copy};
use crate::process::{command, run, run_within};
use crate::rust_tests;
use crate::steps::Steps;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;

const TOOLS: [&Tool; 4] = [
    &Tool::new("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json", "mesa-vulkan-drivers"),
    &Tool::new(
        "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json",
        "vulkan-validationlayers",
    ),
    &Tool::new("spirv-val", "spirv-tools"),
    &Tool::new("vulkaninfo", "vulkan-tools"),
];

/// The packages of the engine and of what it is made of.
const PACKAGES: [&str; 3] = ["hipdnn-kernels", "hipdnn-plugin-lowering", "hipdnn-vulkan-plugin"];

/// Random graphs, and how many of them the validation layer watches.
const RANDOM: &str = "--random=2000";
const WATCHED: &str = "--random=100";

/// Random graphs whose kernels are compiled for AMD's GPUs, beside those of the cases, and the program that does it.
const COMPILED: &str = "--random=1000";
const COMPILER: &str = "vulkan_compile";

/// AMD's GPUs whose code Mesa writes without one: of 32 and of 64 threads in a subgroup.
const FAMILIES: [&str; 2] = ["GFX1100", "VEGA20"];

const LIMIT: Duration = Duration::from_secs(3000);

/// Runs the tests. The words select cases.
pub fn test(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    let mut steps = Steps::new();
    steps.group("vulkan");
    if let Err(missing) = tools::require(&TOOLS) {
        steps.leave_out("the engine on Vulkan", &missing.to_string());
        return steps.summary();
    }
    steps.run("Rust tests, with spirv-val over every instruction", || {
        let mut parts = vec!["--features", "hipdnn-kernels/spirv"];
        parts.extend(PACKAGES.iter().flat_map(|package| ["-p", package]));
        run(&mut rust_tests::packages(workspace, &parts)).map(|_| String::new())
    });
    let folder = workspace.target_dir().join("vulkan");
    let built = steps.run("the library, the plugins and the program", || {
        let said = install::build_with(workspace, &[GPU_PROGRAM])?;
        for file in [LIBRARY, "libhipdnn_cpu_plugin.so", "libhipdnn_vulkan_plugin.so"] {
            let place = if file == LIBRARY { folder.clone() } else { folder.join(ENGINES) };
            copy(&workspace.release_dir().join(file), &place.join(file))?;
        }
        Ok(said)
    });
    if built {
        steps.run("hipdnn_vulkan.h, in C", || {
            let program = folder.join("memory");
            let mut compile = command("gcc", ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"]);
            compile.arg(&program).arg(workspace.path("c_tests/vulkan/memory.c"));
            run(compile.arg("-I").arg(workspace.path("include")).arg("-ldl"))?;
            let plugin = folder.join(ENGINES).join("libhipdnn_vulkan_plugin.so");
            run(command(&program, [""; 0]).arg(plugin)).map(|text| text.trim().to_owned())
        });
        steps.run("memory by the crate `hipdnn`", || {
            let mut tests = rust_tests::packages(workspace, &["-p", "hipdnn", "--test", "vulkan"]);
            tests.args(["--", "--nocapture"]).env("HIPDNN_BACKEND_LIBRARY_PATH", &folder);
            let said = run(&mut tests)?;
            match said.lines().find(|line| line.contains("skipped: ")) {
                Some(line) => Err(Failure::new(line)),
                None => Ok(said.lines().filter(|line| line.contains(" passed")).collect()),
            }
        });
        let program = workspace.release_dir().join(GPU_PROGRAM);
        steps.run("cases and random graphs against the reference", || {
            checked(&mut cases(&program, &folder, RANDOM, words)).map(|text| last(&text))
        });
        steps.run("the same, watched by the validation layer", || {
            let mut watched = cases(&program, &folder, WATCHED, words);
            watched.env("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation");
            let text = checked(&mut watched)?;
            match text.lines().find(|line| line.contains("VUID") || line.contains("Validation Error")) {
                Some(line) => Err(Failure::new(line)),
                None => Ok(last(&text)),
            }
        });
        let graphs = folder.join("graphs");
        let written = steps.run("every graph as a file, and the program that compiles them", || {
            let _ = std::fs::remove_dir_all(&graphs);
            let mut write = command(&program, ["--vulkan-graphs"]);
            run(write.arg(&graphs).arg(COMPILED).args(words))?;
            let parts = ["build", "-p", "hipdnn-vulkan-plugin", "--example", COMPILER];
            run(&mut workspace.release(parts)).map(|_| String::new())
        });
        for family in FAMILIES.into_iter().filter(|_| written) {
            steps.run(&format!("every kernel compiled for {family} by Mesa, without the device"), || {
                let mut compiled = command(workspace.release_dir().join("examples").join(COMPILER), [""; 0]);
                compiled.arg(&graphs).env("RADV_FORCE_FAMILY", family);
                let file = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json";
                if !Path::new(file).exists() {
                    return Ok(format!("left out: no {file}"));
                }
                compiled.env("VK_DRIVER_FILES", file).env("VK_ICD_FILENAMES", file);
                checked(&mut compiled).map(|text| rows(&text))
            });
        }
    }
    steps.summary()
}

/// The program, to run cases on the device that is there.
fn cases(program: &Path, folder: &Path, random: &str, words: &[String]) -> Command {
    let mut cases = command(program, ["--vulkan"]);
    cases.arg(folder.join(LIBRARY)).arg(random).args(words);
    if std::env::var_os("HIPDNN_VULKAN_DEVICE").is_none() {
        cases.env("HIPDNN_VULKAN_DEVICE", "0");
    }
    cases
}

fn checked(program: &mut Command) -> Result<String, Failure> {
    run_within(program, LIMIT)
}

/// What the program says of each kind of kernels.
fn rows(text: &str) -> String {
    text.lines().skip_while(|line| !line.starts_with("device,")).collect::<Vec<_>>().join("\n")
}

fn last(text: &str) -> String {
    text.lines().find(|line| line.ends_with("passed")).unwrap_or_default().to_owned()
}
