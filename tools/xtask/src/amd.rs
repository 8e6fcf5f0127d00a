//! `cargo xtask amd-test`: the engines for AMD GPUs on AMD's own libraries, with an emulated device below them.
//!
//! The libraries come from Debian, in a folder outside of the clone; the emulated device is softhip, a stand-in for only the HIP
//! runtime (`tools/gpu-test/amd/softhip`). If Debian's packages are not available, the tests are skipped with a reason.

mod ahead;
mod host;
mod networks;
mod onnx;
mod smoke;
mod training;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::cache;
use crate::extent::turn;
use crate::install::{self, ENGINES, GPU_PROGRAM as PROGRAM, LIBRARY, PLUGINS, copy, files, remove};
use crate::plugin_host;
use crate::process::{run, run_within};
use crate::rust_tests;
use crate::steps::{Check, Steps, Took};
use crate::userland::{Contents, NEWEST, Userland};
use crate::workspace::Workspace;

/// The userland's packages.
const CONTENTS: Contents = Contents {
    suite: NEWEST,
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

/// A lane's cases take seconds once MIOpen has its kernels, and some minutes the first time; several times longer on a busy
/// machine.
const LIMIT: Duration = Duration::from_secs(3600);

/// The userland's folder for the build's files.
const INSIDE: &str = "hipdnn";

/// The emulated device.
const SOFTHIP: &str = "tools/gpu-test/amd/softhip";

/// Its folders with the emulated device and MIOpen's caches, one for each lane of tests.
const RIGS: [&str; 2] = ["rig", "other-rig"];

/// Which cases run, and the order in which the emulated device runs a kernel's workgroups.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cases {
    /// Half of the cases, a quarter of the failing calls, an eighth of the kernels, these for one other device, no training of
    /// `train_digits` and no tests of ONNX: another choice with each commit.
    Sample,
    /// All of them.
    All,
    /// All of them, and every case once more with the last workgroup first, to detect kernels whose workgroups wrongly depend on
    /// each other.
    BothOrders,
}

impl Cases {
    /// The one of so many parts of a list whose turn it is, or all of it.
    fn part(self, parts: usize, turn: usize) -> String {
        match self {
            Self::All | Self::BothOrders => "1/1".to_owned(),
            Self::Sample => format!("{}/{parts}", turn % parts + 1),
        }
    }
}

/// Of so many parts of the failing calls and of the kernels one is a sample. Compiling a kernel takes longer than a call.
const PARTS_OF_CALLS: usize = 4;
const PARTS_OF_KERNELS: usize = 8;

/// Architectures of other devices that every compiler here knows. The cases compile kernels for the emulated one.
const OTHERS: [&str; 2] = ["gfx90a", "gfx942"];

/// Runs the tests, or those whose names contain one of the words, and the checks that need no device.
pub fn test(workspace: &Workspace, words: &[String], cases: Cases) -> Result<(), Failure> {
    let mut steps = Steps::new();
    run_steps(workspace, words, cases, &mut steps);
    check_kernels(workspace, cases, &mut steps);
    steps.summary()
}

/// The steps of [`test()`] on the emulated device.
pub fn run_steps(workspace: &Workspace, words: &[String], cases: Cases, steps: &mut Steps) {
    if let Err(failure) = on_emulated_device(workspace, words, cases, steps) {
        steps.report("engines for AMD GPUs on an emulated device", Took::default(), Err(failure));
    }
}

/// The steps of [`test()`] that need no device: generated kernels by NVIDIA's compiler.
pub fn check_kernels(workspace: &Workspace, cases: Cases, steps: &mut Steps) {
    crate::nvidia::check_kernels(workspace, &cases.part(PARTS_OF_KERNELS, turn(workspace)), steps);
}

fn on_emulated_device(
    workspace: &Workspace,
    words: &[String],
    cases: Cases,
    steps: &mut Steps,
) -> Result<(), Failure> {
    let folder = cache::folder("HIPDNN_AMD_USERLAND", "amd-userland")?;
    let Some(userland) = Userland::ready(folder, &CONTENTS, "amd-test")? else {
        steps.leave_out("engines for AMD GPUs on an emulated device", "AMD's libraries cannot be had");
        return Ok(());
    };
    steps.group("set-up");
    let ready = steps.run("the plugins and their test", || build(workspace, &userland))
        && steps.run("the emulated device", || {
            carry(&workspace.path(SOFTHIP), &userland.path(INSIDE).join("softhip"))?;
            let [first, second] = RIGS;
            run(&mut inside(&userland, first, &["true"]))?;
            for library in ["libamdhip64.so.6", "libamdhip64.so"] {
                renew(
                    &userland.path(INSIDE).join(first).join(library),
                    &userland.path(INSIDE).join(second).join(library),
                )?;
            }
            Ok(String::new())
        });
    if ready {
        let has_onnx = cases != Cases::Sample && onnx::ready(workspace, &userland, steps);
        steps.group("amd: MIOpen, hipRTC, hipBLASLt and rocBLAS on an emulated gfx1100");
        steps.run_lanes(&lanes(workspace, &userland, words, cases, has_onnx));
    }
    Ok(())
}

/// All checks, in two lanes of about equal duration. Each lane has its own cache of MIOpen's kernels, so the lanes are
/// independent.
fn lanes<'a>(
    workspace: &'a Workspace,
    userland: &'a Userland,
    words: &'a [String],
    cases: Cases,
    has_onnx: bool,
) -> Vec<Vec<Check<'a>>> {
    let [first, second] = &RIGS;
    let (turn, sample) = (turn(workspace), cases == Cases::Sample);
    // A half of each lane, in turn.
    let [of_first, of_second] = match (sample, turn % 2) {
        (false, _) => ["1/2", "2/2"],
        (true, 0) => ["1/4", "2/4"],
        (true, _) => ["3/4", "4/4"],
    };
    let (of_calls, of_kernels) = (cases.part(PARTS_OF_CALLS, turn), cases.part(PARTS_OF_KERNELS, turn));
    let part = move |rig, part: &'static str, reverse: &'static str| -> Check<'a> {
        let order = if reverse == "1" { ", last workgroup first" } else { "" };
        let name = format!("engines against the reference, part {part}{order}");
        (
            name,
            Box::new(move || {
                let mut command = program(userland, rig, &[]);
                let part = format!("--part={part}");
                last_line(command.arg(part).args(words).env("SOFTHIP_REVERSE", reverse))
            }),
        )
    };
    let declared = |header: &str, example: &'static str| -> Check<'a> {
        (format!("declarations as in {header}"), Box::new(move || prototypes(workspace, userland, example)))
    };
    // Recompile the kernels, so that the compiler's calls are among those that fail.
    let calls = move || {
        let part = format!("--part={of_calls}");
        let mut command = program(userland, first, &["--calls"]);
        last_line(command.arg(part).args(words).env("HIPDNN_DISABLE_CACHE", "1"))
    };
    let mut lane: Vec<Check<'a>> = vec![
        part(first, of_first, "0"),
        ("calls made to fail, and which there are".to_owned(), Box::new(calls)),
    ];
    lane.extend(host::with_device(userland, first));
    let train = move || training::train(workspace, userland, second);
    let architecture =
        if sample { OTHERS.get(turn / PARTS_OF_KERNELS % OTHERS.len()).copied() } else { None };
    // Other digits of the commit choose the device, so that each device has every part.
    let name_of_kernels = format!("generated kernels, part {of_kernels}, for other devices");
    let kernels = move || architectures(userland, second, &of_kernels, architecture);
    let registers = move || registers(userland, second, architecture);
    let mut other: Vec<Check<'a>> = vec![
        part(second, of_second, "0"),
        ("amd-smoke".to_owned(), Box::new(move || smoke::with_device(userland, second))),
        (name_of_kernels, Box::new(kernels)),
        ("registers of generated kernels".to_owned(), Box::new(registers)),
        (
            "a GPT and a U-Net trained by generated kernels".to_owned(),
            Box::new(move || networks::train(userland, second)),
        ),
        ("plans made ahead of time".to_owned(), Box::new(move || ahead::plans(userland, second))),
        declared("miopen.h", "prototypes"),
        declared("hip_runtime_api.h and hiprtc.h", "hiprtc_prototypes"),
        declared("hipblaslt.h and rocblas.h", "blas_prototypes"),
        ("the same libraries without a device".to_owned(), Box::new(move || without_device(userland))),
        ("amd-smoke without a device".to_owned(), Box::new(move || smoke::without_device(userland))),
    ];
    if !sample {
        other.push(("examples_c/train_digits on the device".to_owned(), Box::new(train)));
    }
    other.extend(host::without_device(userland));
    let onnx = |rig, part: &'static str| -> Check<'a> {
        (format!("ONNX's tests, part {part}"), Box::new(move || onnx::test(userland, rig, part)))
    };
    if has_onnx {
        lane.push(onnx(first, "1/2"));
        other.push(onnx(second, "2/2"));
    }
    if cases == Cases::BothOrders {
        lane.push(part(first, of_first, "1"));
        other.push(part(second, of_second, "1"));
    }
    vec![lane, other]
}

/// The test program with an option and the library.
fn program(userland: &Userland, rig: &str, options: &[&str]) -> Command {
    let program = format!("/{INSIDE}/{PROGRAM}");
    let mut command = inside(userland, rig, &[&program]);
    command.args(options).arg(format!("/{INSIDE}/lib/{LIBRARY}"));
    command
}

/// The last line of what a program prints.
fn last_line(command: &mut Command) -> Result<String, Failure> {
    let out = run_within(command, LIMIT)?;
    Ok(out.lines().last().unwrap_or_default().to_owned())
}

/// Compiles a part of the generated kernels for absent devices, or for one of them.
fn architectures(userland: &Userland, rig: &str, part: &str, only: Option<&str>) -> Result<String, Failure> {
    let (program, part) = (format!("/{INSIDE}/{PROGRAM}"), format!("--part={part}"));
    last_line(inside(userland, rig, &[&program, "--architectures", &part]).args(only))
}

/// Compiles kernels of large problems for all architectures, or for one of them, and leaves what they take in the userland's folder.
fn registers(userland: &Userland, rig: &str, only: Option<&str>) -> Result<String, Failure> {
    let (program, file) = (format!("/{INSIDE}/{PROGRAM}"), format!("/{INSIDE}/generated_registers.csv"));
    last_line(inside(userland, rig, &[&program, "--registers", &file]).args(only))
}

fn build(workspace: &Workspace, userland: &Userland) -> Result<String, Failure> {
    install::build_with(workspace, &[PROGRAM])?;
    let built = workspace.release_dir();
    let to = userland.path(INSIDE);
    let engines = to.join("lib").join(ENGINES);
    // Another clone may have left its plugins.
    remove(&to.join("lib"))?;
    fs::create_dir_all(&engines)?;
    fs::copy(built.join(LIBRARY), to.join("lib").join(LIBRARY))?;
    fs::copy(built.join(PROGRAM), to.join(PROGRAM))?;
    fs::copy(plugin_host::build(workspace)?, to.join("plugin_host"))?;
    smoke::carry(workspace, userland)?;
    for plugin in PLUGINS.iter() {
        fs::copy(built.join(plugin.file), engines.join(plugin.file))?;
    }
    Ok(String::new())
}

/// Mirrors a folder's files.
fn carry(from: &Path, to: &Path) -> Result<(), Failure> {
    let wanted = files(from)?;
    if to.is_dir() {
        for file in files(to)?.iter().filter(|file| !wanted.contains(file)) {
            fs::remove_file(to.join(file))?;
        }
    }
    wanted.iter().try_for_each(|file| renew(&from.join(file), &to.join(file)))
}

/// Copies a file only if it differs, since the rig rebuilds when its files are newer than its output.
fn renew(from: &Path, to: &Path) -> Result<(), Failure> {
    let bytes = fs::read(from)?;
    if fs::read(to).is_ok_and(|had| had == bytes) { Ok(()) } else { copy(from, to) }
}

/// A command in the userland with the emulated device in front of AMD's runtime.
fn inside(userland: &Userland, rig: &str, words: &[&str]) -> Command {
    let script = format!("/{INSIDE}/softhip/check.sh");
    let mut command = userland.command(&["sh", &script, &format!("/{INSIDE}/{rig}")]);
    command.args(words);
    // rocBLAS otherwise takes 32 MiB for each handle, of which MIOpen also has one. The emulated device protects all memory after
    // each call, which then takes most of the time.
    command.env("ROCBLAS_DEVICE_MEMORY_SIZE", (1 << 20).to_string());
    command
}

/// Compiles the declarations that an example of a plugin prints.
fn prototypes(workspace: &Workspace, userland: &Userland, example: &str) -> Result<String, Failure> {
    let program = rust_tests::printed_by(workspace, example)?;
    fs::write(userland.path(INSIDE).join("prototypes.cpp"), &program)?;
    let file = format!("/{INSIDE}/prototypes.cpp");
    run(&mut userland.command(&["g++", "-std=c++17", "-w", "-fsyntax-only", &file]))?;
    Ok(format!("{} declarations", program.matches("static_assert").count()))
}

/// AMD's own runtime finds no device here: the test program reports that.
fn without_device(userland: &Userland) -> Result<String, Failure> {
    let program = format!("/{INSIDE}/{PROGRAM}");
    let library = format!("/{INSIDE}/lib/{LIBRARY}");
    let output = userland.command(&[&program, &library]).output()?;
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(2) => Ok(words),
        _ => Err(Failure::new(format!("{}, expected exit status 2\n{words}", output.status))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_turns_as_parts_are_everything() {
        assert_eq!([4, 5, 6, 7].map(|turn| Cases::Sample.part(4, turn)), ["1/4", "2/4", "3/4", "4/4"]);
        assert_eq!([7, 8].map(|turn| Cases::Sample.part(PARTS_OF_KERNELS, turn)), ["8/8", "1/8"]);
        assert_eq!([Cases::All, Cases::BothOrders].map(|cases| cases.part(8, 3)), ["1/1", "1/1"]);
    }
}
