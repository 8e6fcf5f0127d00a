//! C and C++ programs against the staged library: each in its own process, with a limit; exit status 0 is a pass.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use super::{Check, Context, run_all, without_settings};
use crate::Failure;
use crate::c_program::{Language, Program};
use crate::process::{command, run_within};
use crate::steps::Steps;

/// Folders of programs, one source file each.
const FOLDERS: &[&str] = &["c_tests", "c_tests/api", "c_tests/host"];

const LIMIT: Duration = Duration::from_secs(120);

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
    let checks: Vec<Check> = sources
        .iter()
        .map(|source| -> Check {
            (context.workspace.relative(source), Box::new(|| compile_and_run(context, source)))
        })
        .collect();
    run_all(steps, &checks);
}

/// Builds every plugin that C tests may load. They lie in one folder.
fn plugins() -> Result<String, Failure> {
    let variants = stub_plugins::variants().map_err(Failure::new)?;
    let names = variants.iter().map(|variant| variant.name.as_str()).chain([stub_plugins::NULL]);
    let names = Mutex::new(names.collect::<Vec<_>>().into_iter());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let build = || {
        while let Some(name) = names.lock().ok().and_then(|mut names| names.next()) {
            stub_plugins::library(name)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let builders: Vec<_> = (0..threads).map(|_| scope.spawn(build)).collect();
        builders.into_iter().try_for_each(|builder| {
            builder.join().unwrap_or_else(|_| Err("a build stopped".to_owned())).map_err(Failure::new)
        })
    })?;
    Ok(format!("{} plugins", variants.len() + 1))
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

fn compile_and_run(context: &Context, source: &PathBuf) -> Result<String, Failure> {
    let language = Language::of(source)?;
    let name = context.workspace.relative(source).replace(['/', '.'], "_");
    let folder = context.workspace.scratch("c").join(&name);
    crate::install::remove(&folder)?;
    std::fs::create_dir_all(&folder)?;
    let program = folder.join("program");
    Program { language, source, optimize: false, strict: true, libraries: &["-lm"] }
        .build(context.stage, &program)?;
    let mut test = command(&program, [""; 0]);
    without_settings(&mut test);
    // A folder of its own to write in, and where the plugins are that it may load.
    let plugins = stub_plugins::library(stub_plugins::NULL).map_err(Failure::new)?;
    let plugins = plugins.parent().unwrap_or(Path::new("."));
    test.current_dir(&folder).env("HIPDNN_TEST_PLUGINS", plugins);
    run_within(&mut test, LIMIT).map(|_| language.name().to_owned())
}
