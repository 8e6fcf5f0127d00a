//! C and C++ programs of the project and their plugins, compiled by mingw-w64 and run under wine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::wine::{self, Wine};
use super::{CC, CXX, stage_dir};
use crate::Failure;
use crate::c_program::{Language, STRICT, build_plugins};
use crate::process::{command, run, run_within, without_settings};
use crate::workspace::Workspace;

/// Folders of programs, one source file each. Those of c_tests/windows take arguments and have separate steps.
const FOLDERS: [&str; 4] = ["c_tests", "c_tests/api", "c_tests/host", "c_tests/cpp"];

/// Functions that Windows lacks: programs that use them are skipped, unless they check for Windows themselves.
const OF_UNIX: [(&str, &str); 9] = [
    ("fork(", "it forks"),
    ("mmap(", "it guards memory with mmap"),
    ("sigaction(", "it waits for a signal"),
    ("setrlimit(", "it sets a limit of the process"),
    ("symlink(", "it makes symbolic links"),
    ("/proc/", "it reads /proc"),
    ("sched_getaffinity(", "it counts processors as Linux does"),
    ("truncate(", "it cuts files that are open"),
    ("libthreaded", "it unloads a library that waits for its threads"),
];

/// wine starts slowly on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The programs, in order.
pub fn sources(workspace: &Workspace) -> Result<Vec<PathBuf>, Failure> {
    let mut sources = Vec::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(workspace.path(folder))? {
            let path = entry?.path();
            if path.is_file() && Language::of(&path).is_ok() {
                sources.push(path);
            }
        }
    }
    sources.sort();
    Ok(sources)
}

/// Why a program does not apply to Windows, if so.
pub fn left_out(source: &Path) -> Result<Option<&'static str>, Failure> {
    let text = std::fs::read_to_string(source)?;
    let found = OF_UNIX.iter().find(|(word, _)| text.contains(word));
    Ok(found.filter(|_| !text.contains("_WIN32")).map(|(_, reason)| *reason))
}

/// Compiles a program against a tree and puts it beside the library so that it finds it.
pub fn compile(
    workspace: &Workspace,
    stage: &Path,
    source: &Path,
    optimize: bool,
) -> Result<PathBuf, Failure> {
    let language = Language::of(source)?;
    let (compiler, standard) = match language {
        Language::C => (CC, "-std=gnu11"),
        Language::Cxx => (CXX, "-std=gnu++17"),
    };
    let name = workspace.relative(source).replace(['/', '.'], "_");
    let target = stage.join("bin").join(format!("{name}.exe"));
    let mut compiler = command(compiler, [standard, if optimize { "-O2" } else { "-g" }]);
    compiler.args(STRICT).args(["-D__USE_MINGW_ANSI_STDIO=1", "-include"]);
    compiler.arg(workspace.path("c_tests/windows/posix.h"));
    for include in ["hipdnn/backend", "hipdnn/plugin", ""] {
        compiler.arg("-I").arg(stage.join("include").join(include));
    }
    compiler.arg(source).arg("-o").arg(&target);
    compiler.arg(stage.join("lib/hipdnn_backend.lib")).args(["-lpthread", "-lm"]);
    run(&mut compiler).map(|_| target)
}

/// Compiles a program, and runs it with these arguments after `prepare`.
pub fn compile_and_run(
    workspace: &Workspace,
    stage: &Path,
    wine: &Wine,
    source: &Path,
    prepare: impl FnOnce(&mut Command),
) -> Result<String, Failure> {
    let program = compile(workspace, stage, source, false)?;
    let mut test = wine.command(&program, [""; 0]);
    without_settings(&mut test);
    prepare(&mut test);
    let ran = run_within(&mut test, LIMIT);
    std::fs::remove_file(&program)?;
    ran
}

/// Runs a test in its own empty folder, with plugins to load.
pub fn test(
    workspace: &Workspace,
    stage: &Path,
    wine: &Wine,
    source: &Path,
    plugins: &Path,
) -> Result<String, Failure> {
    let name = workspace.relative(source).replace(['/', '.'], "_");
    let folder = workspace.scratch("windows").join("c").join(&name);
    crate::install::remove(&folder)?;
    std::fs::create_dir_all(&folder)?;
    let out = compile_and_run(workspace, stage, wine, source, |test| {
        test.current_dir(&folder).env("HIPDNN_TEST_PLUGINS", wine::path(plugins).replace('\\', "/"));
    })?;
    Ok(out.lines().find(|line| line.starts_with("left out: ")).unwrap_or_default().to_owned())
}

/// Runs the command line tool for Windows.
pub fn tool(workspace: &Workspace, wine: &Wine, arguments: &[&str]) -> Result<String, Failure> {
    let mut tool = wine.command(stage_dir(workspace).join("bin/hipdnn.exe"), arguments);
    without_settings(&mut tool);
    run_within(tool.current_dir(workspace.path("")), LIMIT)
}

/// Builds every plugin that C tests may load. Returns their folder.
pub fn plugins(workspace: &Workspace) -> Result<PathBuf, Failure> {
    // Unloading their DLLs would wait for threads that cannot end then.
    let is_built = |name: &str| !name.contains("threaded");
    build_plugins(&|name| {
        if is_built(name) { plugin(workspace, name).map(|_| ()) } else { Ok(()) }
    })?;
    let null = plugin(workspace, stub_plugins::NULL)?;
    Ok(null.parent().map_or_else(|| workspace.path("target"), Path::to_owned))
}

/// Builds a plugin that tests load.
pub fn plugin(workspace: &Workspace, name: &str) -> Result<PathBuf, Failure> {
    let headers = workspace.path("c_tests/windows");
    let windows = stub_plugins::System {
        compiler: |language| Command::new(if language == stub_plugins::Language::C { CC } else { CXX }),
        strip: "x86_64-w64-mingw32-strip",
        folder: "windows",
        prefix: "",
        ending: ".dll",
        headers: Some(&headers),
    };
    stub_plugins::library_for(&windows, name).map_err(Failure::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_unix_are_left_out_with_a_reason() {
        let workspace = Workspace::new();
        let of = |path: &str| left_out(&workspace.path(path)).unwrap();
        assert_eq!(of("c_tests/api/fork.c"), Some("it forks"));
        assert_eq!(of("c_tests/api/handle.c"), None);
        assert!(sources(&workspace).unwrap().len() > 80);
    }
}
