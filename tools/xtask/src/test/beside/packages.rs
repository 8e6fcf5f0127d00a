//! AMD's five other packages of hipDNN in our prefix: installed before or after ours, their files stay unchanged, and CMake finds
//! them together in any order. Uses stand-ins of the same shape, since AMD's packages are not available here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::install::{files, install, remove};
use crate::process::{command, run as run_program};
use crate::steps::Steps;
use crate::test::Context;
use crate::test::install::{configure, run_consumer};

/// AMD's packages, dependencies first.
const AMDS: &[&str] =
    &["hipdnn_data_sdk", "hipdnn_flatbuffers_sdk", "hipdnn_plugin_sdk", "hipdnn_frontend", "hipdnn_test_sdk"];
const OURS: &str = "hipdnn_backend";

pub fn run(context: &Context, steps: &mut Steps) {
    let scratch = context.workspace.scratch("beside_packages");
    let (over, under) = (scratch.join("over"), scratch.join("under"));
    let mut installed = true;
    for (name, prefix, ours_first) in
        [("installed over AMD's packages", &over, false), ("installed before AMD's packages", &under, true)]
    {
        installed &= steps.run(name, || together(context, &scratch, prefix, ours_first));
    }
    if !installed {
        return;
    }
    for (name, prefix) in [("over", &over), ("before", &under)] {
        steps.run(&format!("found together, installed {name} theirs"), || {
            find_together(context, prefix, &scratch.join(format!("found-{name}")))
        });
    }
    // AMD's backend finds two of the SDKs, so programs use their targets after finding only a backend.
    let sdks = ["hipdnn_backend", "hipdnn_data_sdk", "hipdnn_flatbuffers_sdk", "hipdnn_plugin_sdk"];
    let frontend = ["hipdnn_frontend", "hipdnn_data_sdk", "hipdnn_flatbuffers_sdk", "hipdnn_plugin_sdk"];
    for (package, brings) in [(OURS, sdks), ("hipdnn_frontend", frontend)] {
        steps.run(&format!("find_package({package}) alone brings the SDKs"), || {
            consume(context, &over, &scratch.join("alone").join(package), &[package], &brings)?;
            Ok(String::new())
        });
    }
}

/// The text of each file below a folder.
fn texts(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, Failure> {
    files(folder)?.into_iter().map(|file| Ok((file.clone(), std::fs::read(folder.join(file))?))).collect()
}

/// Installs both into one prefix, and compares AMD's files with those in a separate prefix.
fn together(context: &Context, scratch: &Path, prefix: &Path, ours_first: bool) -> Result<String, Failure> {
    let build = scratch.join("build");
    remove(prefix)?;
    remove(&build)?;
    let source = context.workspace.path("c_tests/beside/packages");
    run_program(&mut configure(
        &source,
        &build,
        &[format!("-DCMAKE_INSTALL_PREFIX={}", prefix.display()), "-DCMAKE_INSTALL_LIBDIR=lib".to_owned()],
    ))?;
    let theirs = || run_program(command("cmake", ["--install"]).arg(&build)).map(drop);
    let alone = if ours_first {
        install(context.workspace, prefix, "lib")?;
        let ours = texts(prefix)?;
        theirs()?;
        let both = texts(prefix)?;
        if let Some((file, _)) = ours.iter().find(|(file, text)| both.get(*file) != Some(text)) {
            return Err(Failure::new(format!("AMD's packages and ours have {}", file.display())));
        }
        both.into_iter().filter(|(file, _)| !ours.contains_key(file)).collect()
    } else {
        theirs()?;
        texts(prefix)?
    };
    if !ours_first {
        install(context.workspace, prefix, "lib")?;
    }
    let both = texts(prefix)?;
    match alone.iter().find(|(file, text)| both.get(*file) != Some(text)) {
        Some((file, _)) => Err(Failure::new(format!("{} is not as AMD's package has it", file.display()))),
        None => Ok(format!("{} files of theirs, {} of ours", alone.len(), both.len() - alone.len())),
    }
}

/// Finds all of them, and links with all and with our plugin headers in front: in AMD's order with ours last and first, in the opposite order, and with ours in the middle.
fn find_together(context: &Context, prefix: &Path, build: &Path) -> Result<String, Failure> {
    let last: Vec<&str> = AMDS.iter().copied().chain([OURS]).collect();
    let first: Vec<&str> = [OURS].into_iter().chain(AMDS.iter().copied()).collect();
    let backwards: Vec<&str> = last.iter().rev().copied().collect();
    let (before, behind) = AMDS.split_at(2);
    let middle: Vec<&str> = [before, &[OURS], behind].concat();
    for (name, order) in
        [("last", last), ("first", first.clone()), ("backwards", backwards), ("middle", middle)]
    {
        let linked: Vec<&str> = ["hipdnn_plugin_headers"].into_iter().chain(first.iter().copied()).collect();
        consume(context, prefix, &build.join(name), &order, &linked)?;
    }
    Ok("ours last, first, in the middle, and all backwards".to_owned())
}

/// Configures, builds and runs the consumer.
fn consume(
    context: &Context,
    prefix: &Path,
    build: &Path,
    order: &[&str],
    found: &[&str],
) -> Result<(), Failure> {
    remove(build)?;
    let hip = context.workspace.path("c_tests/hip_package/whole");
    let arguments = [
        format!("-DCMAKE_PREFIX_PATH={};{}", prefix.display(), hip.display()),
        format!("-DPREFIX={}", prefix.display()),
        format!("-DORDER={}", order.join(";")),
        format!("-DFOUND={}", found.join(";")),
    ];
    run_program(&mut configure(&context.workspace.path("c_tests/beside/consumer"), build, &arguments))?;
    run_program(command("cmake", ["--build"]).arg(build))?;
    run_consumer(&build.join("beside")).map(drop)
}
