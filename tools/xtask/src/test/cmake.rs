//! The CMake build: installs the same files as `cargo xtask install`, and works inside another project.

use std::fs;
use std::path::{Path, PathBuf};

use super::Context;
use super::install::{LINKED, configure, run_consumer};
use crate::Failure;
use crate::install::{
    DOCUMENTS, PROGRAMS, files, install, install_debug_files, install_frontend_package, remove,
};
use crate::process::{command, run as run_program};
use crate::steps::Steps;
use crate::workspace::Workspace;

const LIBDIR: &str = "lib64/deep";

pub fn run(context: &Context, steps: &mut Steps) {
    let scratch = context.workspace.scratch("cmake");
    let (build, prefix) = (scratch.join("build"), scratch.join("prefix"));
    // Reuse what cargo has already built.
    let target = format!("-DHIPDNN_CARGO_TARGET_DIR={}", context.workspace.target_dir().display());
    let built = steps.run("cmake configures, builds and installs", || {
        remove(&scratch)?;
        let arguments = [
            target.clone(),
            format!("-DCMAKE_INSTALL_PREFIX={}", prefix.display()),
            format!("-DCMAKE_INSTALL_LIBDIR={LIBDIR}"),
            "-DHIPDNN_INSTALL_FRONTEND_PACKAGE=ON".to_owned(),
        ];
        run_program(&mut configure(&context.workspace.path(""), &build, &arguments))?;
        run_program(command("cmake", ["--build"]).arg(&build))?;
        run_program(command("cmake", ["--install"]).arg(&build))?;
        Ok(String::new())
    });
    if !built {
        return;
    }
    steps.run("it installs what `cargo xtask install` does", || {
        let other = scratch.join("xtask-prefix");
        install(context.workspace, &other, LIBDIR)?;
        install_frontend_package(context.workspace, &other, LIBDIR)?;
        same_tree(&prefix, &other)
    });
    steps.run("the components Runtime, Development and Debug are apart", || {
        components(context.workspace, &build, &scratch)
    });
    steps.run("ctest knows the tests", || {
        let out = run_program(command("ctest", ["-N"]).current_dir(&build))?;
        for group in [
            "rust", "headers", "exports", "c", "plugins", "client", "examples", "tool", "install", "package",
            "beside",
        ] {
            if !out.contains(&format!("hipdnn_backend.{group}")) {
                return Err(Failure::new(format!("no test hipdnn_backend.{group} in\n{out}")));
            }
        }
        run_program(
            command("ctest", ["-R", "hipdnn_backend.exports", "--output-on-failure"]).current_dir(&build),
        )?;
        Ok("and runs one".to_owned())
    });
    steps.run("add_subdirectory inside another project", || {
        let build = scratch.join("subproject");
        let source = context.workspace.path("c_tests/subproject");
        run_program(&mut configure(&source, &build, std::slice::from_ref(&target)))?;
        run_program(command("cmake", ["--build"]).arg(&build))?;
        for program in LINKED {
            run_consumer(&build.join(program))?;
        }
        Ok(String::new())
    });
}

fn same_tree(one: &Path, other: &Path) -> Result<String, Failure> {
    let (names, others) = (files(one)?, files(other)?);
    if names != others {
        return Err(Failure::new(format!("cmake: {names:#?}\nxtask: {others:#?}")));
    }
    for name in &names {
        let (a, b) = (one.join(name), other.join(name));
        if fs::read(&a)? != fs::read(&b)? {
            return Err(Failure::new(format!("{} differs from {}", a.display(), b.display())));
        }
    }
    Ok(format!("{} files, byte by byte", names.len()))
}

fn components(workspace: &Workspace, build: &Path, scratch: &Path) -> Result<String, Failure> {
    let installed = |component: &str| {
        let prefix = scratch.join(component);
        let mut cmake = command("cmake", ["--install"]);
        cmake.arg(build).arg("--prefix").arg(&prefix).args(["--component", component]);
        run_program(&mut cmake)?;
        files(&prefix)
    };
    let (runtime, development) = (installed("Runtime")?, installed("Development")?);
    let is_binary = |file: &PathBuf| {
        file.extension().is_some_and(|e| e == "so")
            || PROGRAMS.iter().any(|program| *file == Path::new("bin").join(program))
    };
    let is_document = |file: &PathBuf| file.starts_with(DOCUMENTS);
    let has = |kind: &dyn Fn(&PathBuf) -> bool| runtime.iter().any(kind);
    if !has(&is_binary)
        || !has(&is_document)
        || !runtime.iter().all(|file| is_binary(file) || is_document(file))
    {
        return Err(Failure::new(format!(
            "Runtime has {runtime:#?}; expected: libraries, programs, licences"
        )));
    }
    if development.is_empty() || development.iter().any(is_binary) {
        return Err(Failure::new(format!(
            "Development has {development:#?}; headers and packages were expected"
        )));
    }
    installed("Debug")?;
    let other = scratch.join("xtask-debug-files");
    install_debug_files(workspace, &other, LIBDIR)?;
    let debug = same_tree(&scratch.join("Debug"), &other)?;
    Ok(format!("{} and {} files; for debuggers {debug}", runtime.len(), development.len()))
}
