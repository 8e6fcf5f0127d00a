//! Programs that use an installed copy like a user's, through find_package and pkg-config.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Context, without_settings};
use crate::Failure;
use crate::c_program::{Language, STRICT};
use crate::install::{files, install, install_frontend_package, remove};
use crate::process::{command, run as run_program};
use crate::steps::Steps;

/// The consumers that are linked with the library.
pub const LINKED: [&str; 4] = ["consumer_c", "consumer_cxx", "consumer_graph", "consumer_frontend"];

/// The languages and sources of the consumer program.
const SOURCES: &[(Language, &str)] = &[(Language::C, "main.c"), (Language::Cxx, "main.cpp")];

pub fn run(context: &Context, steps: &mut Steps) {
    let scratch = context.workspace.scratch("install");
    let (first, moved) = (scratch.join("first prefix"), scratch.join("moved prefix"));
    let laid_out = steps.run("install lays out the staged tree", || {
        remove(&scratch)?;
        install(context.workspace, &first, "lib")?;
        install_frontend_package(context.workspace, &first, "lib")?;
        let (staged, installed) = (files(context.stage)?, files(&first)?);
        if staged != installed {
            return Err(Failure::new(format!("staged: {staged:#?}\ninstalled: {installed:#?}")));
        }
        // The tree must be relocatable.
        fs::rename(&first, &moved)?;
        Ok(format!("{} files, then moved", installed.len()))
    });
    if !laid_out {
        return;
    }
    steps.run("find_package(hipdnn_backend CONFIG), C and C++", || find_package(context, &moved, &scratch));
    steps.run("find_package(hipdnn_frontend CONFIG), by AMD's names and paths", || {
        frontend_package(context, &moved, &scratch)
    });
    steps.run("a program that finds no library says which one it looked for", || without_library(&scratch));
    steps.run("HIP is linked where its package works, and only there", || hip(context, &moved, &scratch));
    steps.run("find_package takes a version of the same major only", || versions(context, &moved, &scratch));
    steps.run("pkg-config, C and C++", || pkg_config(context, &moved, "lib", &scratch));
    steps.run("pkg-config from a deeper library directory", || {
        let libdir = "lib/x86_64-linux-gnu";
        let prefix = scratch.join("deep");
        install(context.workspace, &prefix, libdir)?;
        pkg_config(context, &prefix, libdir, &scratch)
    });
}

fn consumer(context: &Context) -> PathBuf {
    context.workspace.path("c_tests/consumer")
}

/// Builds and runs consumers of an installed tree through CMake.
pub fn find_package(context: &Context, prefix: &Path, scratch: &Path) -> Result<String, Failure> {
    let build = scratch.join("find_package");
    run_program(&mut configure(&consumer(context), &build, &[prefix_argument(prefix)]))?;
    run_program(command("cmake", ["--build"]).arg(&build))?;
    for program in LINKED {
        run_consumer(&build.join(program))?;
    }
    let mut dynamic = command(build.join("consumer_dynamic"), [""; 0]);
    without_settings(&mut dynamic);
    run_program(dynamic.env("HIPDNN_BACKEND_LIBRARY_PATH", prefix.join("lib")))?;
    Ok(String::new())
}

/// Builds and runs a project written for AMD's frontend.
fn frontend_package(context: &Context, prefix: &Path, scratch: &Path) -> Result<String, Failure> {
    let build = scratch.join("frontend_package");
    let source = consumer(context).join("frontend_package");
    run_program(&mut configure(&source, &build, &[prefix_argument(prefix)]))?;
    run_program(command("cmake", ["--build"]).arg(&build))?;
    run_consumer(&build.join("frontend_linked"))?;
    let mut dynamic = command(build.join("frontend_dynamic"), [""; 0]);
    without_settings(&mut dynamic);
    run_program(dynamic.env("HIPDNN_BACKEND_LIBRARY_PATH", prefix.join("lib")))
}

/// The program that was built to find its library, where there is none.
fn without_library(scratch: &Path) -> Result<String, Failure> {
    let mut dynamic = command(scratch.join("find_package/consumer_dynamic"), [""; 0]);
    without_settings(&mut dynamic);
    match run_program(
        dynamic.env("HIPDNN_BACKEND_LIBRARY_PATH", "/nonexistent").env_remove("LD_LIBRARY_PATH"),
    ) {
        Ok(_) => Err(Failure::new("it computed without a library")),
        Err(failure) => {
            let text = failure.to_string();
            let told =
                ["VERSION_MISMATCH: no library libhipdnn_backend.so", "/nonexistent/libhipdnn_backend.so"];
            told.iter().all(|words| text.contains(words)).then(String::new).ok_or(failure)
        }
    }
}

/// A CMake configuration of a project.
pub fn configure(source: &Path, build: &Path, arguments: &[String]) -> std::process::Command {
    let mut cmake = command("cmake", ["-S"]);
    cmake.arg(source).arg("-B").arg(build).arg("-G").arg("Unix Makefiles").args(arguments);
    cmake
}

fn prefix_argument(prefix: &Path) -> String {
    format!("-DCMAKE_PREFIX_PATH={}", prefix.display())
}

fn hip(context: &Context, prefix: &Path, scratch: &Path) -> Result<String, Failure> {
    for (kind, usable) in [("whole", "TRUE"), ("broken", "FALSE")] {
        let package = context.workspace.path("c_tests/hip_package").join(kind);
        let arguments = [
            format!("-DCMAKE_PREFIX_PATH={};{}", prefix.display(), package.display()),
            format!("-DEXPECT_HIP={usable}"),
        ];
        run_program(&mut configure(&consumer(context), &scratch.join(format!("hip-{kind}")), &arguments))?;
    }
    let arguments = [
        prefix_argument(prefix),
        "-DHIPDNN_BACKEND_WITHOUT_HIP=ON".to_owned(),
        "-DEXPECT_HIP=FALSE".to_owned(),
    ];
    run_program(&mut configure(&consumer(context), &scratch.join("hip-unwanted"), &arguments))?;
    Ok(String::new())
}

fn versions(context: &Context, prefix: &Path, scratch: &Path) -> Result<String, Failure> {
    let (major, minor) = context
        .workspace
        .version
        .split_once('.')
        .and_then(|(major, rest)| Some((major, rest.split_once('.')?.0.parse::<u32>().ok()?)))
        .ok_or_else(|| Failure::new(format!("{} is not a version", context.workspace.version)))?;
    let same = format!("{major}.{minor}");
    let newer = format!("{major}.{}", minor + 1);
    let range = format!("{major}.0...<99");
    let past = format!("{major}.0.0...{major}.0.1");
    for (version, accepted) in [
        (context.workspace.version.as_str(), true),
        (&same, true),
        (&range, true),
        (&newer, false),
        (&past, false),
        ("99.0", false),
    ] {
        let build = scratch.join(format!("version-{}", version.replace('<', "below-")));
        let arguments = [prefix_argument(prefix), format!("-DWANTED_VERSION={version}")];
        let result = run_program(&mut configure(&consumer(context), &build, &arguments));
        match (result, accepted) {
            (Err(failure), true) => return Err(failure),
            (Ok(out), false) => return Err(Failure::new(format!("version {version} was accepted\n{out}"))),
            (Err(failure), false) if !failure.to_string().contains("compatible with requested version") => {
                return Err(failure);
            }
            _ => {}
        }
    }
    Ok(String::new())
}

/// The same through pkg-config.
pub fn pkg_config(context: &Context, prefix: &Path, libdir: &str, scratch: &Path) -> Result<String, Failure> {
    let lib = prefix.join(libdir);
    let ask = |what: &[&str]| {
        run_program(
            command("pkg-config", what).arg("hipdnn_backend").env("PKG_CONFIG_PATH", lib.join("pkgconfig")),
        )
    };
    let version = ask(&["--modversion"])?;
    if version.trim() != context.workspace.version {
        return Err(Failure::new(format!("pkg-config says version {version}")));
    }
    let schema = words(&ask(&["--variable=schema"])?).concat();
    if fs::read(&schema).ok() != fs::read(context.workspace.path("plugins/sdk/schema/hipdnn.fbs")).ok() {
        return Err(Failure::new(format!("pkg-config says that the schema is {schema}")));
    }
    let flags = words(&ask(&["--cflags", "--libs"])?);
    for (language, source) in SOURCES {
        let program = scratch.join(format!("pkg-config-{}", source.replace('.', "-")));
        let mut compiler = language.compiler();
        compiler.args(STRICT).arg(consumer(context).join(source)).arg("-o").arg(&program);
        compiler.args(&flags).arg(format!("-Wl,-rpath,{}", lib.display()));
        run_program(&mut compiler)?;
        run_consumer(&program)?;
    }
    // The C++ classes through their own package, and under AMD's names.
    let ask = |what: &[&str]| {
        let mut tool = command("pkg-config", what);
        run_program(tool.arg("hipdnn").env("PKG_CONFIG_PATH", lib.join("pkgconfig")))
    };
    let flags = words(&ask(&["--cflags", "--libs"])?);
    let compat = words(&ask(&["--variable=compat_includedir"])?).concat();
    for source in ["graph.cpp", "frontend.cpp"] {
        let program = scratch.join(format!("pkg-config-hipdnn-{}", source.replace('.', "-")));
        let mut compiler = Language::Cxx.compiler();
        compiler.args(STRICT).arg(consumer(context).join(source)).arg("-o").arg(&program);
        compiler.arg(format!("-I{compat}")).args(&flags).arg(format!("-Wl,-rpath,{}", lib.display()));
        run_program(&mut compiler)?;
        run_consumer(&program)?;
    }
    Ok(String::new())
}

/// Splits the output of pkg-config, which escapes spaces in paths with a backslash.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = text.trim().chars();
    while let Some(c) = characters.next() {
        let c = match c {
            '\\' => characters.next(),
            c if c.is_whitespace() => {
                words.push(String::new());
                None
            }
            c => Some(c),
        };
        if let Some(word) = words.last_mut() {
            word.extend(c);
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Runs a consumer, which checks the library's answers.
pub fn run_consumer(program: &Path) -> Result<String, Failure> {
    let mut command = command(program, [""; 0]);
    without_settings(&mut command);
    run_program(&mut command)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_path_with_a_space_stays_whole() {
        assert_eq!(words("-I/a\\ b/c  -lx\n"), ["-I/a b/c", "-lx"]);
        assert!(words("").is_empty());
    }
}
