//! The short form of `cargo xtask windows-test`, for `cargo xtask test`: the library without its plugins, and only if everything
//! it needs is already installed.

use std::fs;
use std::path::{Path, PathBuf};

use super::wine::{self, Wine};
use super::{DLLTOOL, LIBRARY, LINKER, MINGW_CC, MINGW_CXX, TARGET, dll, import_library, programs};
use crate::Failure;
use crate::install::{HEADERS, copy, files, remove};
use crate::process::run;
use crate::steps::Steps;
use crate::tools;
use crate::workspace::Workspace;

/// The package of the library.
const PACKAGE: &str = "hipdnn-backend";

/// The C programs to run, which need no engine.
const PROGRAMS: [&str; 4] =
    ["c_tests/functions.c", "c_tests/api/handle.c", "c_tests/api/tensor.c", "c_tests/api/log_level.c"];

/// A subset of `windows-test`.
pub fn run_steps(workspace: &Workspace, steps: &mut Steps) {
    if let Some(missing) = missing(workspace) {
        steps.leave_out(
            "the library for Windows",
            &format!("{missing}; cargo xtask windows-test installs it"),
        );
        return;
    }
    let mut stage = None;
    steps.run("the library for Windows", || {
        stage = Some(lay_out(workspace)?);
        Ok(String::new())
    });
    let Some(stage) = stage else { return };
    let (library, list) = (stage.join("bin").join(LIBRARY), workspace.path("c_tests/exports.txt"));
    steps.run(&format!("functions of {LIBRARY}"), || dll::exports(&library, &list));
    steps.run(&format!("version of {LIBRARY}"), || dll::version(&library, &workspace.version));
    steps.run(&format!("libraries that {LIBRARY} needs"), || dll::imports(&library));
    let mut wine = None;
    steps.run("wine", || {
        wine = Some(Wine::ready(workspace)?);
        Ok(String::new())
    });
    let Some(wine) = wine else { return };
    for program in PROGRAMS {
        steps.run(program, || {
            let source = workspace.path(program);
            let plugins = programs::plugin(workspace, stub_plugins::NULL)?;
            let plugins = plugins.parent().map_or_else(|| workspace.path(""), Path::to_owned);
            programs::test(workspace, &stage, &wine, &source, &plugins)
        });
    }
    steps.run("c_tests/windows/finds.cpp", || {
        let source = workspace.path("c_tests/windows/finds.cpp");
        programs::compile_and_run(workspace, &stage, &wine, &source, |test| {
            test.arg(wine::path(&stage.join("bin")));
        })
        .map(|_| String::new())
    });
}

/// The missing requirements.
fn missing(workspace: &Workspace) -> Option<String> {
    let tools = [&[&LINKER, &DLLTOOL, &MINGW_CC, &MINGW_CXX], &wine::TOOLS[..]].concat();
    let sysroot = run(workspace.rustc().args(["--print", "sysroot"])).unwrap_or_default();
    let has_target = Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir();
    let target = (!has_target).then(|| format!("not installed: Rust's standard library for {TARGET}"));
    tools::lacking(&tools).or(target)
}

/// Builds the library in the test profile, and lays it out with its headers.
fn lay_out(workspace: &Workspace) -> Result<PathBuf, Failure> {
    // Unoptimized, which compiles in half the time.
    run(&mut workspace.cargo(["build", "--locked", "--quiet", "--lib", "--target", TARGET, "-p", PACKAGE]))?;
    let stage = workspace.scratch("windows").join("stage");
    remove(&stage)?;
    let built = workspace.target_dir().join(TARGET).join("debug").join(LIBRARY);
    copy(&built, &stage.join("bin").join(LIBRARY))?;
    for folder in HEADERS.map(|folder| workspace.path(folder)) {
        for file in files(&folder)? {
            copy(&folder.join(&file), &stage.join("include").join(&file))?;
        }
    }
    fs::create_dir_all(stage.join("lib"))?;
    import_library(workspace, &stage.join("lib"))?;
    Ok(stage)
}
