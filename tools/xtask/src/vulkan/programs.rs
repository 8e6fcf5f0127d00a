//! C programs with `VULKAN_ENGINE`: memory, a program's own device, a driver that fails, and the examples.

use std::path::{Path, PathBuf};

use super::{chosen, watched};
use crate::Failure;
use crate::c_program::{Language, Program};
use crate::install::{ENGINES, GPU_PROGRAM};
use crate::process::{command, run};
use crate::steps::Steps;
use crate::workspace::Workspace;

/// Ways in which a driver fails, and calls in which a device is lost.
const WAYS: [&str; 5] = ["old", "none", "memory", "vkQueueSubmit", "vkWaitSemaphores"];

/// Examples, the words that each is given, and what it says. That of frontends asks for CPU engines.
const EXAMPLES: [(&str, &[&str], &str); 3] = [
    ("conv_bias_relu.c", &["VULKAN"], "Engine         VULKAN_ENGINE"),
    ("save_plan.c", &["VULKAN"], "Engine         VULKAN_ENGINE"),
    ("train_digits.c", &["examples_c/data/digits.csv", "VULKAN"], "Engine         VULKAN_ENGINE"),
];

/// Runs all of them against the library and the plugins in a folder.
pub fn run_all(workspace: &Workspace, folder: &Path, settings: &Path, steps: &mut Steps) {
    let plugin = folder.join(ENGINES).join("libhipdnn_vulkan_plugin.so");
    for (name, about) in [("memory", "hipdnn_vulkan.h, in C"), ("adopt", "a program's own device, in C")] {
        steps.run(&format!("{about}, watched by the validation layer"), || {
            let program = folder.join(name);
            let mut compile = command("gcc", ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"]);
            compile.arg(&program).arg(workspace.path(format!("c_tests/vulkan/{name}.c")));
            for include in ["include", "include/hipdnn/backend", "include/hipdnn/plugin"] {
                compile.arg("-I").arg(workspace.path(include));
            }
            compile.arg("-L").arg(folder).arg(format!("-Wl,-rpath,{}", folder.display()));
            run(compile.args(["-lhipdnn_backend", "-ldl"]))?;
            let mut own = command(&program, [""; 0]);
            watched::watch(own.arg(&plugin), settings);
            let said = run(&mut own)?;
            watched::check(&said)?;
            Ok(said.trim().lines().last().unwrap_or_default().to_owned())
        });
    }
    let standin = folder.join("standin");
    let built = steps.run("a loader that fails, in C", || build_standin(workspace, &standin));
    for way in WAYS.into_iter().filter(|_| built) {
        steps.run(&format!("what happens if it fails: {way}"), || {
            let mut program = command(workspace.release_dir().join(GPU_PROGRAM), ["--vulkan-failing"]);
            program.arg(folder.join(crate::install::LIBRARY)).arg(way);
            chosen(&mut program).env("LD_LIBRARY_PATH", &standin).env("STANDIN_VULKAN", way);
            program.env("STANDIN_VULKAN_LOADER", loader()?);
            run(&mut program).map(|said| said.lines().next().unwrap_or_default().to_owned())
        });
    }
    for (source, words, expected) in EXAMPLES {
        steps.run(&format!("examples_c/{source}"), || {
            let path = workspace.path(format!("examples_c/{source}"));
            let program = folder.join(Path::new(source).with_extension(""));
            let example = Program {
                language: Language::of(&path)?,
                source: &path,
                optimize: true,
                strict: true,
                libraries: &["-lm"],
            };
            let runtime = folder.display().to_string();
            example.build_with(&workspace.path("include"), folder, &runtime, &program)?;
            let mut own = command(&program, words.iter().copied());
            let said = run(chosen(&mut own).current_dir(workspace.path("")))?;
            if !said.contains(expected) {
                return Err(Failure::new(format!("expected {expected:?}\n{said}")));
            }
            Ok(said.trim().lines().last().unwrap_or_default().to_owned())
        });
    }
}

/// The stand-in in a folder where it is found first.
fn build_standin(workspace: &Workspace, folder: &Path) -> Result<String, Failure> {
    std::fs::create_dir_all(folder)?;
    let mut compile = command("gcc", ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]);
    compile.args(["-shared", "-fPIC", "-o"]).arg(folder.join("libvulkan.so.1"));
    run(compile.arg(workspace.path("c_tests/vulkan/standin.c")).arg("-ldl")).map(|_| String::new())
}

/// The system's loader, which the stand-in passes calls to.
fn loader() -> Result<PathBuf, Failure> {
    let known =
        run(&mut command("ldconfig", ["-p"])).or_else(|_| run(&mut command("/sbin/ldconfig", ["-p"])))?;
    let is_loader = |line: &&str| line.trim_start().starts_with("libvulkan.so.1 ") && line.contains("x86-64");
    let path = known.lines().find(is_loader).and_then(|line| line.rsplit(" => ").next());
    path.map(PathBuf::from).ok_or_else(|| Failure::new("ldconfig knows no libvulkan.so.1"))
}
