//! Every public header compiles alone and strictly: as C and C++, without HIP, with HIP, and with HIP but no platform
//! macro; by clang; and with a frontend's own copy of the callback types. With HIP's headers, also checks our declarations of HIP.
//!
//! For a change, each header is alone only without HIP by the machine's compiler, which is where a missing include shows. With HIP and
//! by clang, the headers that programs include are compiled together, which still shows every error in a line of theirs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Check, Context, hip, run_all};
use crate::Failure;
use crate::c_program::{CLANGS, Language, STRICT};
use crate::extent::{Extent, turn};
use crate::install::{HEADERS, files};
use crate::process::{line as line_of, run as run_program};
use crate::steps::Steps;

/// The include path and macros.
struct Setting {
    name: &'static str,
    arguments: Vec<String>,
    classes: Classes,
}

/// For a change, of the headers of the C++ classes one in so many is compiled alone, others with each commit.
const ONE_IN: usize = 3;

/// Which headers of the C++ classes are compiled.
enum Classes {
    /// Each of them, or for a change those whose turn it is.
    Each,
    /// Those that programs include.
    Included,
    /// Those that programs include, in one program.
    Together,
    LeftOut,
}

impl Classes {
    /// What is compiled instead for a change.
    fn at_extent(self, extent: Extent) -> Self {
        if extent.is_whole() { self } else { Self::Together }
    }
}

/// Whether programs include the header of the C++ classes; others are parts of those.
fn is_included(header: &Path) -> bool {
    ["hipdnn", "hipdnn/compat", "hipdnn/plugin"]
        .iter()
        .any(|folder| header.parent() == Some(Path::new(folder)))
}

pub fn run(context: &Context, steps: &mut Steps) {
    let real = hip::headers(context.workspace);
    let settings = settings(context, real.as_deref());
    let without = &without_hip(Classes::Each.at_extent(context.extent));
    let mut checks: Vec<Check> = Vec::new();
    for setting in &settings {
        for language in [Language::C, Language::Cxx] {
            let name = format!("headers in {}, {}", language.name(), setting.name);
            checks.push((name, Box::new(move || each_alone(context, language, setting))));
        }
    }
    let usual = || amd_paths(context, &|| Language::Cxx.compiler());
    checks.push(("AMD's include paths".to_owned(), Box::new(usual)));
    for clang in &CLANGS {
        let name = format!("headers by {}", clang.name);
        if let Some(reason) = clang.missing() {
            steps.leave_out(&name, &reason);
            continue;
        }
        checks.push((name, Box::new(|| each_by(context, &|| clang.compiler(), Language::Cxx, without))));
        if context.extent.is_whole() {
            let name = format!("AMD's include paths, {}", clang.name);
            checks.push((name, Box::new(|| amd_paths(context, &|| clang.compiler()))));
        }
    }
    for (copy, folder) in [
        ("guarded", "c_tests/sdk_standin/guarded"),
        ("unguarded", "c_tests/sdk_standin/unguarded"),
        ("the plugin headers'", "include/hipdnn/plugin"),
    ] {
        for language in [Language::C, Language::Cxx] {
            for sdk_first in [true, false] {
                let order = if sdk_first { "before" } else { "after" };
                let name = format!("{copy} callback types {order} ours, {}", language.name());
                checks.push((
                    name,
                    Box::new(move || beside_callback_types(context, language, folder, sdk_first)),
                ));
            }
        }
    }
    run_all(steps, &checks);
    match real.as_deref().and_then(Path::parent) {
        Some(prefix) => {
            steps.run("HIP's functions are declared as HIP declares them", || hip_table(context, prefix));
        }
        None => steps.leave_out("HIP's own headers", "not here; the stand-in was used alone"),
    }
}

/// The feature compares our table of HIP's functions with bindings made from its headers, and does not compile if they differ.
fn hip_table(context: &Context, prefix: &Path) -> Result<String, Failure> {
    let mut cargo = context.workspace.cargo([
        "check",
        "--locked",
        "--quiet",
        "-p",
        "hipdnn-plugin-sdk",
        "--features",
        "hip-sys",
    ]);
    run_program(cargo.env("HIP_PATH", prefix)).map(|_| String::new())
}

fn without_hip(classes: Classes) -> Setting {
    let arguments =
        if hip::in_default_path() { vec!["-DHIPDNN_BACKEND_NO_HIP_HEADERS".to_owned()] } else { Vec::new() };
    Setting { name: "without HIP", arguments, classes }
}

fn settings(context: &Context, real: Option<&Path>) -> Vec<Setting> {
    let platform = || "-D__HIP_PLATFORM_AMD__".to_owned();
    let stand_in = context.workspace.path("c_tests/hip_standin");
    let include = |folder: &Path| format!("-I{}", folder.display());
    let mut settings = vec![
        without_hip(Classes::Each),
        Setting {
            name: "HIP stand-in",
            arguments: vec![include(&stand_in), platform()],
            classes: Classes::Included.at_extent(context.extent),
        },
        Setting {
            name: "HIP stand-in, no platform macro",
            arguments: vec![include(&stand_in)],
            classes: Classes::LeftOut,
        },
    ];
    if let Some(real) = real {
        settings.push(Setting {
            name: "HIP",
            arguments: vec![include(real), platform()],
            classes: Classes::Included.at_extent(context.extent),
        });
        settings.push(Setting {
            name: "HIP, no platform macro",
            arguments: vec![include(real)],
            classes: Classes::LeftOut,
        });
    }
    settings
}

fn each_alone(context: &Context, language: Language, setting: &Setting) -> Result<String, Failure> {
    each_by(context, &|| language.compiler(), language, setting)
}

fn each_by(
    context: &Context,
    compiler: &dyn Fn() -> Command,
    language: Language,
    setting: &Setting,
) -> Result<String, Failure> {
    let include = |header: &Path| format!("#include <{}>\n", header.display());
    let (mut headers, mut together): (Vec<PathBuf>, usize) = (Vec::new(), 0);
    let [c_headers, classes] = HEADERS;
    let is_header = |file: &PathBuf| file.extension().is_some_and(|e| e == "h" || e == "hpp");
    headers.extend(files(&context.workspace.path(c_headers))?.into_iter().filter(is_header));
    if language == Language::Cxx {
        let classes = files(&context.workspace.path(classes))?.into_iter().filter(is_header);
        // These take most of the time. With HIP, compile only the headers that programs include.
        match setting.classes {
            Classes::Each if context.extent.is_whole() => headers.extend(classes),
            Classes::Each => headers.extend(classes.skip(turn(context.workspace) % ONE_IN).step_by(ONE_IN)),
            Classes::Included => headers.extend(classes.filter(|header| is_included(header))),
            Classes::Together => {
                let included: Vec<PathBuf> = classes.filter(|header| is_included(header)).collect();
                together = included.len();
                let text: String = included.iter().map(|header| include(header)).collect();
                compile(context, compiler(), language, &setting.arguments, &text)?;
            }
            Classes::LeftOut => {}
        }
    }
    for header in &headers {
        // A header that only includes another compiled one compiles as that one does.
        if language == Language::Cxx && forwards(context, header)? {
            continue;
        }
        // Twice, to test include guards.
        compile(context, compiler(), language, &setting.arguments, &include(header).repeat(2))?;
    }
    let alone = format!("{} headers", headers.len());
    Ok(if together == 0 { alone } else { format!("{alone}, {together} of the C++ classes together") })
}

/// Whether a header of the C++ classes does nothing but include another one of them.
fn forwards(context: &Context, header: &Path) -> Result<bool, Failure> {
    let header = context.workspace.path("bindings/cpp/include").join(header);
    let Ok(text) = std::fs::read_to_string(&header) else { return Ok(false) };
    let lines =
        text.lines().filter(|line| !(line.is_empty() || line.starts_with("/*") || line.starts_with(" *")));
    let [once, include] = lines.collect::<Vec<_>>()[..] else { return Ok(false) };
    let target = include.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
    match (once, target) {
        ("#pragma once", Some(target)) if header.with_file_name("").join(target).is_file() => Ok(true),
        ("#pragma once", Some(target)) => {
            Err(Failure::new(format!("{} includes {target}, which is not there", header.display())))
        }
        _ => Ok(false),
    }
}

/// The include paths of AMD's headers: each is there, and all together compile.
fn amd_paths(context: &Context, compiler: &dyn Fn() -> Command) -> Result<String, Failure> {
    let list = std::fs::read_to_string(context.workspace.path("c_tests/amd_include_paths.txt"))?;
    let paths: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let folders = ["bindings/cpp/include/hipdnn/compat", "include/hipdnn/plugin"];
    let folders = folders.map(|folder| context.workspace.path(folder));
    for path in &paths {
        if !folders.iter().any(|folder| folder.join(path).is_file()) {
            return Err(Failure::new(format!("AMD's <{path}> is not here")));
        }
    }
    let arguments = folders.map(|folder| format!("-I{}", folder.display()));
    let text: String = paths.iter().map(|path| format!("#include <{path}>\n")).collect();
    compile(context, compiler(), Language::Cxx, &arguments, &text)?;
    Ok(format!("{} paths", paths.len()))
}

fn beside_callback_types(
    context: &Context,
    language: Language,
    folder: &str,
    sdk_first: bool,
) -> Result<String, Failure> {
    let arguments = [format!("-I{}", context.workspace.path(folder).display())];
    let mut lines = ["#include <hipdnn_sdk/logging/CallbackTypes.h>\n", "#include <hipdnn_backend.h>\n"];
    if !sdk_first {
        lines.reverse();
    }
    let uses = "void log_line(hipdnnSeverity_t severity, const char* message);
void log_line(hipdnnSeverity_t severity, const char* message) { (void)severity; (void)message; }
extern hipdnnCallback_t sink;
hipdnnCallback_t sink = log_line;
extern hipdnnUserLogCallback_t user;
hipdnnUserLogCallback_t user = 0;
";
    compile(context, language.compiler(), language, &arguments, &format!("{}{uses}", lines.concat()))?;
    Ok(String::new())
}

fn compile(
    context: &Context,
    mut compiler: Command,
    language: Language,
    arguments: &[String],
    text: &str,
) -> Result<(), Failure> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut name = DefaultHasher::new();
    (language.name(), arguments, text).hash(&mut name);
    line_of(&compiler).hash(&mut name);
    let extension = if language == Language::C { "c" } else { "cpp" };
    let folder = context.workspace.scratch("headers");
    std::fs::create_dir_all(&folder)?;
    let source = folder.join(format!("{:016x}.{extension}", name.finish()));
    std::fs::write(&source, text)?;

    let include = context.workspace.path("include");
    compiler.args(STRICT).arg("-fsyntax-only");
    compiler.arg(format!("-I{}", include.join("hipdnn/backend").display()));
    for folder in HEADERS {
        compiler.arg(format!("-I{}", context.workspace.path(folder).display()));
    }
    compiler.args(arguments).arg(&source);
    run_program(&mut compiler)
        .map(|_| ())
        .map_err(|failure| Failure::new(format!("{failure}\nthe source was:\n{text}")))
}
