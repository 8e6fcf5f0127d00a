//! `cargo xtask vulkan-test`: tests the engine for any GPU on the device that is there, a software one if there is no other.

mod families;
mod programs;
mod watched;

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::Failure;
use crate::install::{self, ENGINES, GPU_PROGRAM, LIBRARY, copy};
use crate::process::{command, run, run_within};
use crate::rust_tests;
use crate::steps::Steps;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;

const TOOLS: [&Tool; 5] = [
    &Tool::new("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json", "mesa-vulkan-drivers"),
    &Tool::new(
        "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json",
        "vulkan-validationlayers",
    ),
    &Tool::new("spirv-val", "spirv-tools"),
    &Tool::new("vulkaninfo", "vulkan-tools"),
    &Tool::new("/usr/include/vulkan/vulkan.h", "libvulkan-dev"),
];

/// The packages of the engine and of what it is made of.
const PACKAGES: [&str; 3] = ["hipdnn-kernels", "hipdnn-plugin-lowering", "hipdnn-vulkan-plugin"];

/// Random graphs, and how many of them the validation layer watches.
const RANDOM: &str = "--random=2000";
const WATCHED: &str = "--random=300";

/// Random graphs whose tensors are between pages that end the process if a kernel touches them.
const GUARDED: &str = "--guarded";
const GUARDED_RANDOM: &str = "--random=1000";

/// The most processes that run cases.
const MOST: usize = 16;

/// The variable that names the device.
const DEVICE: &str = "HIPDNN_VULKAN_DEVICE";

/// Of one process. A driver in software compiles for two seconds for each case.
const LIMIT: Duration = Duration::from_secs(3 * 3600);

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
    let settings = folder.join("vk_layer_settings.txt");
    let built = steps.run("the library, the plugins and the program", || {
        let said = install::build_with(workspace, &[GPU_PROGRAM])?;
        for file in [LIBRARY, "libhipdnn_cpu_plugin.so", "libhipdnn_vulkan_plugin.so"] {
            let place = if file == LIBRARY { folder.clone() } else { folder.join(ENGINES) };
            copy(&workspace.release_dir().join(file), &place.join(file))?;
        }
        watched::write_settings(&settings)?;
        Ok(said)
    });
    if built {
        programs::run_all(workspace, &folder, &settings, &mut steps);
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
            let parts = cases(&program, &folder, &[RANDOM], words, |_| {})?;
            Ok(passed(&parts))
        });
        steps.run("the same, watched by the validation layer", || {
            let watch = |own: &mut Command| watched::watch(own, &settings);
            let parts = cases(&program, &folder, &[WATCHED], words, watch)?;
            parts.iter().try_for_each(|text| watched::check(text))?;
            Ok(passed(&parts))
        });
        if is_software() {
            steps.run("the same, between pages that nothing may touch", || {
                let parts = cases(&program, &folder, &[GUARDED_RANDOM, GUARDED], words, |_| {})?;
                Ok(passed(&parts))
            });
        }
        families::run_all(workspace, words, &mut steps);
    }
    steps.summary()
}

/// Runs cases on the device that is there, in as many processes as there are processors. Returns what each said.
fn cases(
    program: &Path,
    folder: &Path,
    options: &[&str],
    words: &[String],
    prepare: impl Fn(&mut Command),
) -> Result<Vec<String>, Failure> {
    let parts = thread::available_parallelism().map_or(1, usize::from).min(MOST);
    let own = |part: usize| {
        let mut cases = command(program, ["--vulkan"]);
        cases.arg(folder.join(LIBRARY)).arg(format!("--part={part}/{parts}")).args(options).args(words);
        prepare(chosen(&mut cases));
        cases
    };
    let commands: Vec<Command> = (1..=parts).map(own).collect();
    thread::scope(|scope| {
        let start = |mut own: Command| scope.spawn(move || checked(&mut own));
        let started: Vec<_> = commands.into_iter().map(start).collect();
        let ended = |part: thread::ScopedJoinHandle<'_, Result<String, Failure>>| {
            part.join().map_err(|_| Failure::new("a part panicked"))?
        };
        // All end before one that failed is told.
        let all: Vec<_> = started.into_iter().map(ended).collect();
        all.into_iter().collect()
    })
}

/// Lets a program choose the device that the environment names, or the first.
fn chosen(program: &mut Command) -> &mut Command {
    if std::env::var_os(DEVICE).is_none() {
        program.env(DEVICE, "0");
    }
    program
}

/// Whether the device computes on the host's processor, in the addresses of the process.
fn is_software() -> bool {
    let summary = run(&mut command("vulkaninfo", ["--summary"])).unwrap_or_default();
    let first = summary.lines().find(|line| line.contains("deviceType"));
    std::env::var_os(DEVICE).is_none() && first.is_some_and(|line| line.contains("_CPU"))
}

fn checked(program: &mut Command) -> Result<String, Failure> {
    run_within(program, LIMIT)
}

/// How many cases all parts passed.
fn passed(parts: &[String]) -> String {
    let count = |text: &String| {
        let line = text.lines().find_map(|line| line.strip_suffix(" passed"));
        line.and_then(|count| count.parse::<usize>().ok()).unwrap_or(0)
    };
    format!("{} passed", parts.iter().map(count).sum::<usize>())
}

#[cfg(test)]
mod tests {
    use super::passed;

    #[test]
    fn passed_cases_of_all_parts_are_added() {
        let parts = ["12 passed\n0 failed, in 3 s\n", "stopped\n30 passed\n"].map(str::to_owned);
        assert_eq!(passed(&parts), "42 passed");
    }
}
