//! C and C++ programs against the staged library: each in its own process with a time limit; exit status 0 passes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Check, Context, run_all, without_settings};
use crate::Failure;
use crate::c_program::{CLANGS, Language, Program, build_plugins, no_sanitizers, sanitizers};
use crate::extent::Extent;
use crate::install::PLUGINS;
use crate::process::{command, run_within};
use crate::steps::Steps;
use crate::tools::{self, VALGRIND};

/// Folders of programs, one source file each.
const FOLDERS: &[&str] = &["c_tests", "c_tests/api", "c_tests/host", "c_tests/cpp"];

const LIMIT: Duration = Duration::from_secs(300);

/// Sanitizers make programs up to twenty times slower.
const LIMIT_OF_SANITIZER: Duration = Duration::from_secs(600);

/// The program that measures, which compilers without optimization and sanitizers make slow.
const TIMED: &str = "c_tests/cpp/execute_time.cpp";

/// The program that is also run under valgrind.
const AT_EXIT: &str = "c_tests/host/exit_alive.c";

/// On a busy machine.
const LIMIT_OF_VALGRIND: Duration = Duration::from_secs(600);

pub fn run(context: &Context, steps: &mut Steps) {
    let sources = match sources(context) {
        Ok(sources) => sources,
        Err(failure) => {
            steps.run("programs in c_tests", || Err(failure));
            return;
        }
    };
    if !steps.run("plugins with and without defects", plugins) {
        return;
    }
    let sanitized = no_sanitizers().is_ok_and(|reason| reason.is_none());
    let checks: Vec<Check> = sources
        .iter()
        .filter(|source| {
            let path = context.workspace.relative(source);
            !context.left_out.contains(&path.as_str()) && is_plain(context.extent, sanitized, &path)
        })
        .map(|source| -> Check {
            (context.workspace.relative(source), Box::new(|| compile_and_run(context, source)))
        })
        .collect();
    run_all(steps, &checks);
    if !context.words.is_empty() {
        return;
    }
    classes_otherwise(context, &sources, steps);
    steps.run(&format!("{AT_EXIT} under valgrind"), || match tools::require(&[&VALGRIND]) {
        Ok(()) => under_valgrind(context),
        Err(missing) => Ok(format!("left out: {missing}")),
    });
}

/// Whether a program is also run without sanitizers: they make the same checks of the C++ classes and more, so for a change once is
/// enough.
fn is_plain(extent: Extent, sanitized: bool, path: &str) -> bool {
    extent.is_whole() || !sanitized || !is_of_classes(path)
}

/// Whether a program is run by all compilers and with sanitizers.
fn is_of_classes(path: &str) -> bool {
    path.starts_with("c_tests/cpp") && path != TIMED
}

/// A compiler's name, why it is missing, and the command.
type Other<'a> = (&'a str, Option<String>, &'a (dyn Fn() -> Command + Sync));

/// Runs the programs of the C++ classes as other compilers build them, and with sanitizers: what one compiler calls, another
/// may call otherwise.
fn classes_otherwise(context: &Context, sources: &[PathBuf], steps: &mut Steps) {
    let [_, clang] = &CLANGS;
    let sanitized = || {
        let mut compiler = Language::Cxx.compiler();
        compiler.args(sanitizers(context.extent));
        compiler
    };
    let by_clang = || clang.compiler();
    let no_sanitizers = no_sanitizers().map_or_else(|e| Some(e.to_string()), |no| no.map(str::to_owned));
    let mut others: Vec<Other> = vec![("sanitizers", no_sanitizers, &sanitized)];
    if context.extent.is_whole() {
        others.push((clang.name, clang.missing(), &by_clang));
    }
    for (name, missing, compiler) in others {
        if let Some(reason) = missing {
            steps.leave_out(&format!("programs of the C++ classes, {name}"), &reason);
            continue;
        }
        let classes = sources.iter().filter(|source| is_of_classes(&context.workspace.relative(source)));
        let checks: Vec<Check> = classes
            .map(|source| -> Check {
                let path = context.workspace.relative(source);
                let folder = context
                    .workspace
                    .scratch("c")
                    .join(format!("{path} {name}").replace(['/', '.', ' '], "_"));
                let built = move |source: &Path, program: &Path| {
                    let (headers, lib) = (context.stage.join("include"), context.stage.join("lib"));
                    Program {
                        language: Language::Cxx,
                        source,
                        optimize: false,
                        strict: true,
                        libraries: &["-lm"],
                    }
                    .build_by(
                        compiler(),
                        &headers,
                        &lib,
                        &lib.display().to_string(),
                        program,
                    )
                };
                (format!("{path}, {name}"), Box::new(move || run_in(context, source, &folder, &built, LIMIT)))
            })
            .collect();
        run_all(steps, &checks);
    }
}

/// The program whose children exit with live objects. Leaks do not count here, invalid accesses do.
fn under_valgrind(context: &Context) -> Result<String, Failure> {
    let folder = folder(context, &context.workspace.path(AT_EXIT));
    // Without fair scheduling, busy threads can delay the thread that ends the process for a minute.
    let options = ["-q", "--fair-sched=yes", "--trace-children=yes", "--error-exitcode=99"];
    let mut test = command("valgrind", options);
    prepare(test.arg(folder.join("program")).arg("once"), &folder)?;
    run_within(&mut test, LIMIT_OF_VALGRIND).map(|_| String::new())
}

/// Builds every plugin that C tests may load, in one folder.
fn plugins() -> Result<String, Failure> {
    build_plugins(&|name| stub_plugins::library(name).map(|_| ()).map_err(Failure::new))
}

fn sources(context: &Context) -> Result<Vec<PathBuf>, Failure> {
    let mut sources = Vec::new();
    for folder in FOLDERS {
        let folder = context.workspace.path(folder);
        if !folder.exists() {
            continue;
        }
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_file() && Language::of(&path).is_ok() {
                sources.push(path);
            }
        }
    }
    sources.sort();
    if sources.is_empty() { Err(Failure::new("no C test was found")) } else { Ok(sources) }
}

/// The folder of a program and its output.
fn folder(context: &Context, source: &Path) -> PathBuf {
    context.workspace.scratch("c").join(context.workspace.relative(source).replace(['/', '.'], "_"))
}

fn compile_and_run(context: &Context, source: &Path) -> Result<String, Failure> {
    let language = Language::of(source)?;
    let build = |source: &Path, program: &Path| {
        let libraries = &[&["-lm"], context.words].concat();
        Program { language, source, optimize: false, strict: true, libraries }.build(context.stage, program)
    };
    let limit = if context.words.is_empty() { LIMIT } else { LIMIT_OF_SANITIZER };
    run_in(context, source, &folder(context, source), &build, limit)
}

/// Builds a program in a folder of its own and runs it there.
fn run_in(
    context: &Context,
    source: &Path,
    folder: &Path,
    build: &dyn Fn(&Path, &Path) -> Result<(), Failure>,
    limit: Duration,
) -> Result<String, Failure> {
    crate::install::remove(folder)?;
    std::fs::create_dir_all(folder)?;
    let program = folder.join("program");
    build(source, &program)?;
    let mut test = command(&program, [""; 0]);
    prepare(&mut test, folder)?;
    let path = context.workspace.relative(source);
    let own = context.variables.iter().filter(|(programs, ..)| path.starts_with(programs));
    test.envs(own.map(|(_, name, value)| (name, value)));
    let out = run_within(&mut test, limit)?;
    // A program may skip what the machine does not allow.
    let left_out = out.lines().find(|line| line.starts_with("left out: "));
    Ok(left_out.unwrap_or(Language::of(source)?.name()).to_owned())
}

/// Gives a program its own folder for output, and the folder of the plugins.
fn prepare(test: &mut Command, folder: &Path) -> Result<(), Failure> {
    without_settings(test);
    let plugins = stub_plugins::library(stub_plugins::NULL).map_err(Failure::new)?;
    let plugins = plugins.parent().unwrap_or(Path::new("."));
    let mut shipped: Vec<String> = PLUGINS.iter().map(|plugin| plugin.package.replace('-', "_")).collect();
    shipped.sort_unstable();
    test.current_dir(folder)
        .env("HIPDNN_TEST_PLUGINS", plugins)
        .env("HIPDNN_TEST_SHIPPED", shipped.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_a_change_classes_run_once() {
        let classes = "c_tests/cpp/tuning.cpp";
        assert!(!is_plain(Extent::Change, true, classes));
        assert!(is_plain(Extent::Change, false, classes) && is_plain(Extent::Whole, true, classes));
        // Those that sanitizers do not run.
        assert!(
            is_plain(Extent::Change, true, TIMED) && is_plain(Extent::Change, true, "c_tests/api/engines.c")
        );
    }
}
