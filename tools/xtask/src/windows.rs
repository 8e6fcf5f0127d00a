//! `cargo xtask build --target x86_64-pc-windows-gnu`: the library, its plugins and the programs for Windows, compiled by mingw-w64 and
//! laid out like AMD's package for Windows.

mod across;
mod dll;
mod programs;
pub mod short;
pub mod test;
pub mod wheel;
mod wine;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::install::{self, ENGINES, PLUGINS, PROGRAMS, System, TOOL_PACKAGE, copy, remove, write};
use crate::process::{command, run};
use crate::progress;
use crate::steps::Steps;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;

/// Rust's name of the target.
pub const TARGET: &str = "x86_64-pc-windows-gnu";

/// The compilers of mingw-w64, with C11 and C++11 threads.
const CC: &str = "x86_64-w64-mingw32-gcc-posix";
const CXX: &str = "x86_64-w64-mingw32-g++-posix";

const LINKER: Tool = Tool::new("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64");
const MINGW_CC: Tool = Tool::new(CC, "gcc-mingw-w64-x86-64-posix");
const MINGW_CXX: Tool = Tool::new(CXX, "g++-mingw-w64-x86-64-posix");
/// Builds import libraries that Microsoft's linker also reads.
const DLLTOOL: Tool = Tool::new("llvm-dlltool", "llvm");
const ZIP: Tool = Tool::new("zip", "zip");

/// The library's file.
const LIBRARY: &str = "hipdnn_backend.dll";

/// The layout below the prefix.
const SYSTEM: System = System {
    engines: "bin/hipdnn_plugins/engines",
    from_libdir: "../bin/",
    targets: "hipdnn_backendTargets.windows.cmake.in",
    has_pkgconfig: false,
};

/// Parses a target: only this one is valid.
pub fn parse_target(word: &str) -> Result<String, String> {
    if word == TARGET { Ok(word.to_owned()) } else { Err(format!("expected {TARGET}")) }
}

/// Builds for release, and recreates `target/stage-windows`.
pub fn stage(workspace: &Workspace, steps: &mut Steps) -> Option<PathBuf> {
    let built = steps.run("mingw-w64 and Rust's standard library for it", || ready(workspace))
        && steps.run("release build for Windows", || build(workspace));
    let laid_out = built && steps.run("laid out", || lay_out(workspace).map(|at| workspace.relative(&at)));
    laid_out.then(|| stage_dir(workspace))
}

/// The tree for Windows.
pub fn stage_dir(workspace: &Workspace) -> PathBuf {
    workspace.target_dir().join("stage-windows")
}

fn ready(workspace: &Workspace) -> Result<String, Failure> {
    tools::require(&[&LINKER, &DLLTOOL])?;
    standard_library(workspace, TARGET).map(|()| String::new())
}

/// Makes sure that Rust's standard library for a target is installed.
pub fn standard_library(workspace: &Workspace, target: &str) -> Result<(), Failure> {
    let sysroot = run(workspace.rustc().args(["--print", "sysroot"]))?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(target).is_dir() {
        return Ok(());
    }
    run(command("rustup", ["target", "add", target]).current_dir(workspace.path("")))
        .map(|_| ())
        .map_err(|failure| Failure::new(format!("rustup target add {target}: {failure}")))
}

fn build(workspace: &Workspace) -> Result<String, Failure> {
    let mut cargo = workspace.release(["build", "--target", TARGET, "--lib", "-p", "hipdnn-backend"]);
    for plugin in PLUGINS.iter() {
        cargo.args(["-p", plugin.package]);
    }
    cargo.args(["-p", TOOL_PACKAGE]);
    for program in PROGRAMS {
        cargo.args(["--bin", program]);
    }
    progress::build(workspace, &mut cargo)
}

/// The file of a plugin on Windows.
fn plugin_file(linux: &str) -> String {
    let stem = linux.strip_prefix("lib").unwrap_or(linux);
    format!("{}.dll", stem.strip_suffix(".so").unwrap_or(stem))
}

/// The built files, each with its path below the prefix.
fn built() -> Vec<(String, PathBuf)> {
    let library = (LIBRARY.to_owned(), Path::new("bin").join(LIBRARY));
    let plugins = PLUGINS.iter().map(|plugin| plugin_file(plugin.file));
    let plugins = plugins.map(|file| (file.clone(), Path::new("bin").join(ENGINES).join(file)));
    let programs = PROGRAMS.iter().map(|program| format!("{program}.exe"));
    let programs = programs.map(|file| (file.clone(), Path::new("bin").join(file)));
    [library].into_iter().chain(plugins).chain(programs).collect()
}

fn lay_out(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let stage = stage_dir(workspace);
    remove(&stage)?;
    install_tree(workspace, &stage)?;
    Ok(stage)
}

fn install_tree(workspace: &Workspace, prefix: &Path) -> Result<(), Failure> {
    let release = workspace.target_dir().join(TARGET).join("release");
    for (file, place) in built() {
        let target = prefix.join(place);
        copy(&release.join(file), &target)?;
        run(command("x86_64-w64-mingw32-strip", ["--strip-debug"]).arg(&target))?;
    }
    import_library(workspace, &prefix.join("lib"))?;
    install::install_texts(workspace, prefix, "lib", &SYSTEM)
}

/// Writes the import library: the exported functions and the DLL's name.
fn import_library(workspace: &Workspace, lib: &Path) -> Result<(), Failure> {
    let listed = fs::read_to_string(workspace.path("c_tests/exports.txt"))?;
    let functions: Vec<&str> =
        listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let definition = workspace.scratch("windows").join("hipdnn_backend.def");
    write(&definition, &format!("LIBRARY {LIBRARY}\nEXPORTS\n{}\n", functions.join("\n")))?;
    fs::create_dir_all(lib)?;
    let mut tool = command("llvm-dlltool", ["-m", "i386:x86-64", "-D", LIBRARY, "-d"]);
    run(tool.arg(&definition).arg("-l").arg(lib.join("hipdnn_backend.lib"))).map(|_| ())
}

/// Packs the build into a zip archive in target/package.
pub fn package(workspace: &Workspace, steps: &mut Steps) {
    steps.run("packed", || {
        tools::require(&[&ZIP])?;
        let name = format!("hipdnn-backend-{}-x86_64-windows", workspace.version);
        let folder = workspace.target_dir().join("package-windows");
        remove(&folder)?;
        install_tree(workspace, &folder.join(&name))?;
        let archive = workspace.target_dir().join("package").join(format!("{name}.zip"));
        fs::create_dir_all(workspace.target_dir().join("package"))?;
        let _ = fs::remove_file(&archive);
        run(command("zip", ["-q", "-r", "-X"]).arg(&archive).arg(&name).current_dir(&folder))?;
        let size = fs::metadata(&archive)?.len() as f64 / f64::from(1 << 20);
        Ok(format!("{}, {size:.1} MiB", workspace.relative(&archive)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_names_of_windows() {
        assert_eq!(plugin_file("libhipdnn_cpu_plugin.so"), "hipdnn_cpu_plugin.dll");
        let places: Vec<_> = built().into_iter().map(|(_, place)| place.display().to_string()).collect();
        assert!(places.contains(&"bin/hipdnn_backend.dll".to_owned()), "{places:?}");
        assert!(
            places.contains(&"bin/hipdnn_plugins/engines/hipdnn_cpu_plugin.dll".to_owned()),
            "{places:?}"
        );
        assert!(places.contains(&"bin/hipdnn_list_engines.exe".to_owned()), "{places:?}");
        assert_eq!(parse_target(TARGET).as_deref(), Ok(TARGET));
        assert!(parse_target("x86_64-pc-windows-msvc").is_err());
    }
}
