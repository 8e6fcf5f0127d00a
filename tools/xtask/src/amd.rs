//! `cargo xtask amd-test`: the engines for AMD GPUs on AMD's own libraries, with an emulated device below them.
//!
//! The libraries come from Debian, into a folder of the build; the emulated device is softhip, a stand-in for the HIP
//! runtime alone. Where one of them cannot be had, the tests are left out with a word on why.

mod host;
mod smoke;
mod training;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::install::{ENGINES, LIBRARY, PLUGINS, TOOL};
use crate::plugin_host;
use crate::process::{run, run_within};
use crate::steps::Steps;
use crate::userland::{Contents, Userland};
use crate::workspace::Workspace;

/// What is installed in the userland.
const CONTENTS: Contents = Contents {
    packages: &[
        "libmiopen1",
        "libmiopen-dev",
        "libhipblaslt-dev",
        "libhipblas-common-dev",
        "librocblas-dev",
        "libamdhip64-dev",
        "libhiprtc6",
        "hipcc",
        "clang-21",
        "lld-21",
        "rocm-device-libs-21",
        "g++",
        "binutils",
        "valgrind",
    ],
    foreign: None,
};

/// Running all cases takes seconds once MIOpen has its kernels, and under a minute the first time.
const LIMIT: Duration = Duration::from_secs(900);

/// The folder of the userland that the build's files go to.
const INSIDE: &str = "hipdnn";

/// Runs the tests, or those whose names contain one of the words.
pub fn test(workspace: &Workspace, words: &[&str]) -> Result<(), Failure> {
    let softhip = match std::env::var_os("SOFTHIP_DIR") {
        Some(path) => PathBuf::from(path),
        None => workspace.path("../shared/softhip"),
    };
    if !softhip.join("check.sh").is_file() {
        let folder = softhip.display();
        println!("amd-test is left out: no softhip in {folder} (SOFTHIP_DIR says where it is)");
        return Ok(());
    }
    let folder = workspace.path("target/amd/userland");
    let Some(userland) = Userland::ready(folder, &CONTENTS, "amd-test")? else { return Ok(()) };
    let mut steps = Steps::new();
    steps.group("set-up");
    let ready = steps.run("the plugins and their test", || build(workspace, &userland))
        && steps.run("the emulated device", || {
            carry(&softhip, &userland.path(INSIDE).join("softhip"))?;
            run(&mut inside(&userland, &["true"])).map(|_| String::new())
        });
    if ready {
        steps.group("amd: MIOpen, hipRTC, hipBLASLt and rocBLAS on an emulated gfx1100");
        steps.run("declarations as in miopen.h", || {
            prototypes(workspace, &userland, "hipdnn-miopen-plugin", "prototypes")
        });
        steps.run("declarations as in hiprtc.h", || {
            prototypes(workspace, &userland, "hipdnn-rtc-plugin", "hiprtc_prototypes")
        });
        steps.run("declarations as in hipblaslt.h and rocblas.h", || {
            prototypes(workspace, &userland, "hipdnn-hipblaslt-plugin", "blas_prototypes")
        });
        steps.run("generated kernels for other devices", || {
            let program = format!("/{INSIDE}/amd-test");
            let out = run_within(&mut inside(&userland, &[&program, "--architectures"]), LIMIT)?;
            Ok(out.lines().last().unwrap_or_default().to_owned())
        });
        for (name, reverse) in
            [("engines against the reference", "0"), ("the same, last workgroup first", "1")]
        {
            steps.run(name, || {
                let program = format!("/{INSIDE}/amd-test");
                let library = format!("/{INSIDE}/lib/{LIBRARY}");
                let arguments = [&[program.as_str(), library.as_str()], words].concat();
                let out = run_within(inside(&userland, &arguments).env("SOFTHIP_REVERSE", reverse), LIMIT)?;
                Ok(out.lines().last().unwrap_or_default().to_owned())
            });
        }
        steps.run("calls made to fail, and which there are", || {
            let program = format!("/{INSIDE}/amd-test");
            let library = format!("/{INSIDE}/lib/{LIBRARY}");
            let arguments = [&[program.as_str(), "--calls", library.as_str()], words].concat();
            // Kernels are compiled anew, so that the compiler's calls are among those that fail.
            let out = run_within(inside(&userland, &arguments).env("HIPDNN_DISABLE_CACHE", "1"), LIMIT)?;
            Ok(out.lines().last().unwrap_or_default().to_owned())
        });
        host::with_device(&userland, &mut steps);
        steps.run("amd-smoke", || smoke::with_device(&userland));
        steps.run("examples_c/train_digits on the device", || training::train(workspace, &userland));
        steps.run("the same libraries without a device", || without_device(&userland));
        host::without_device(&userland, &mut steps);
        steps.run("amd-smoke without a device", || smoke::without_device(&userland));
    }
    steps.summary()
}

fn build(workspace: &Workspace, userland: &Userland) -> Result<String, Failure> {
    let mut cargo =
        workspace.cargo(["build", "--release", "--locked", "-p", "hipdnn-backend", "-p", "amd-test"]);
    for plugin in PLUGINS {
        cargo.args(["-p", plugin.package]);
    }
    cargo.args(["-p", TOOL]);
    run(&mut cargo)?;
    let built = workspace.release_dir();
    let to = userland.path(INSIDE);
    let engines = to.join("lib").join(ENGINES);
    fs::create_dir_all(&engines)?;
    fs::copy(built.join(LIBRARY), to.join("lib").join(LIBRARY))?;
    fs::copy(built.join("amd-test"), to.join("amd-test"))?;
    fs::copy(plugin_host::build(workspace)?, to.join("plugin_host"))?;
    smoke::carry(workspace, userland)?;
    for plugin in PLUGINS {
        fs::copy(built.join(plugin.file), engines.join(plugin.file))?;
    }
    Ok(String::new())
}

/// Copies what is new in a folder of files.
fn carry(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let (Some(name), true) = (path.file_name(), path.is_file()) else { continue };
        let bytes = fs::read(&path)?;
        // The rig builds itself anew when its files are younger than what it built.
        if !fs::read(to.join(name)).is_ok_and(|had| had == bytes) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// A command in the userland with the emulated device in front of AMD's runtime.
fn inside(userland: &Userland, words: &[&str]) -> Command {
    let mut command =
        userland.command(&["sh", &format!("/{INSIDE}/softhip/check.sh"), &format!("/{INSIDE}/rig")]);
    command.args(words);
    // rocBLAS, which MIOpen has a handle of, too, otherwise takes 32 MiB for each handle. The emulated device locks all memory
    // after each call, which then takes most of the time.
    command.env("ROCBLAS_DEVICE_MEMORY_SIZE", (1 << 20).to_string());
    command
}

/// Compiles the declarations that an example of a plugin prints.
fn prototypes(
    workspace: &Workspace,
    userland: &Userland,
    package: &str,
    example: &str,
) -> Result<String, Failure> {
    let program = run(&mut workspace.cargo([
        "run",
        "-q",
        "--release",
        "--locked",
        "-p",
        package,
        "--example",
        example,
    ]))?;
    fs::write(userland.path(INSIDE).join("prototypes.cpp"), &program)?;
    let file = format!("/{INSIDE}/prototypes.cpp");
    run(&mut userland.command(&["g++", "-std=c++17", "-w", "-fsyntax-only", &file]))?;
    Ok(format!("{} declarations", program.matches("static_assert").count()))
}

/// AMD's own runtime finds no device here: the test program says so and ends.
fn without_device(userland: &Userland) -> Result<String, Failure> {
    let program = format!("/{INSIDE}/amd-test");
    let library = format!("/{INSIDE}/lib/{LIBRARY}");
    let output = userland.command(&[&program, &library]).output()?;
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(2) => Ok(words),
        _ => Err(Failure::new(format!("{}, expected exit status 2\n{words}", output.status))),
    }
}
