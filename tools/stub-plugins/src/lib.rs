//! The engine plugins that tests load: `c_tests/plugins/stub_plugin.c` with various defects, and the plugin that does nothing.
//!
//! [`library`] builds one on demand and returns its path. `c_tests/plugins/variants.txt` lists the variants, and their macros in
//! the source show what they do.

mod compiler;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;
use std::{fs, process};

pub use compiler::{Language, compiler};

/// The environment variable with the file to which stub plugins append a line for each call.
pub const LOG: &str = "HIPDNN_STUB_LOG";

/// The plugin that does nothing, made for measuring.
pub const NULL: &str = "null";

const NULL_FILES: &[&str] = &["null_plugin.c"];
const STUB_FILES: &[&str] =
    &["stub_plugin.c", "stub_details.c", "stub_identity.c", "stub_log.c", "stub_saving.c"];
/// The sources of heuristic plugins: the variants with this macro.
const HEURISTIC_FILES: &[&str] = &["stub_heuristic.c", "stub_identity.c", "stub_log.c"];
const HEURISTIC: &str = "HEURISTIC";
/// The sources of tuning plugins: the variants with this macro.
const TUNING_FILES: &[&str] = &["stub_tuning.c", "stub_identity.c", "stub_log.c"];
const TUNING: &str = "TUNING";
/// Marks variants that are made of the file of their name alone.
const UPSTREAM: &str = "UPSTREAM";
/// Marks variants that are stripped.
const STRIPPED: &str = "STRIPPED";
/// The additional C++ source of variants that throw.
const THROWING_FILE: &str = "stub_throw.cpp";
/// The additional C++ source of variants with threads.
const THREAD_FILE: &str = "stub_thread.cpp";

/// A library built from `stub_plugin.c` and the files beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name in the table.
    pub name: String,
    /// The macros it is built with, each `NAME` or `NAME=VALUE`.
    pub defines: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."))
}

fn sources() -> PathBuf {
    root().join("c_tests/plugins")
}

/// Every variant, in the order of the table.
///
/// # Errors
/// When the table cannot be read.
pub fn variants() -> Result<Vec<Variant>, String> {
    let path = sources().join("variants.txt");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Variant> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            Some(Variant { name: words.next()?, defines: words.collect() })
        })
        .collect()
}

/// The target system of plugins, its tools and folders.
pub struct System<'a> {
    /// Its compiler for a language.
    pub compiler: fn(Language) -> Command,
    /// Its strip program.
    pub strip: &'a str,
    /// The subfolder of the plugins' folder; empty for the folder itself.
    pub folder: &'a str,
    /// The prefix of library names.
    pub prefix: &'a str,
    /// The suffix of library names.
    pub ending: &'a str,
    /// A folder with headers that the system lacks.
    pub headers: Option<&'a Path>,
}

/// Builds the library with this name unless it is up to date. Returns its path.
///
/// # Errors
/// The variant does not exist, or the C [`compiler()`], the C++ one (for variants that throw or have threads) or `strip` fails.
pub fn library(name: &str) -> Result<PathBuf, String> {
    let own = System { compiler, strip: "strip", folder: "", prefix: "lib", ending: ".so", headers: None };
    library_for(&own, name)
}

/// The same for another system.
///
/// # Errors
/// The variant does not exist, or one of the programs fails.
pub fn library_for(system: &System, name: &str) -> Result<PathBuf, String> {
    let (files, defines, optimize) = if name == NULL {
        (NULL_FILES, Vec::new(), "-O2")
    } else {
        let variant = variants()?.into_iter().find(|variant| variant.name == name);
        let variant = variant.ok_or_else(|| format!("variants.txt has no stub plugin {name:?}"))?;
        let is = |macro_name: &str| variant.defines.iter().any(|define| define == macro_name);
        let files = match (is(HEURISTIC), is(TUNING)) {
            (true, _) => HEURISTIC_FILES,
            (_, true) => TUNING_FILES,
            _ => STUB_FILES,
        };
        (files, variant.defines, "-O0")
    };
    let own = format!("{name}.c");
    let own = [own.as_str()];
    let files = if defines.iter().any(|define| define == UPSTREAM) { &own[..] } else { files };
    let files: Vec<PathBuf> = files.iter().map(|file| sources().join(file)).collect();
    let folder = root().join("target/stub_plugins").join(system.folder);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let target = folder.join(format!("{}{name}{}", system.prefix, system.ending));
    let headers = root().join("include/hipdnn/plugin");
    let mut inputs = files.clone();
    inputs.extend(
        ["stub.h", "upstream_policy.h", THROWING_FILE, THREAD_FILE, "variants.txt"]
            .map(|file| sources().join(file)),
    );
    inputs.push(root().join("tools/stub-plugins/src/lib.rs"));
    inputs.push(root().join("c_tests/flatbuffer_writer.h"));
    inputs.push(headers.join("hipdnn_plugin_sdk/EnginePluginApi.h"));
    inputs.push(headers.join("hipdnn_plugin_sdk/HeuristicPluginApi.h"));
    inputs.push(headers.join("hipdnn_plugin_sdk/TuningPluginApi.h"));
    let newest = inputs.iter().map(|input| changed(input)).max().flatten();
    if newest.is_some() && changed(&target) > newest {
        return Ok(target);
    }
    // Tests run in parallel: each writes its own file, and the last one renames it.
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let build = BUILDS.fetch_add(1, Ordering::Relaxed);
    let unfinished = folder.join(format!("{name}.{}.{build}", process::id()));
    let cxx = [
        (THROWING_FILE, defines.iter().any(|define| define.starts_with("THROWS="))),
        (THREAD_FILE, defines.iter().any(|define| define == "THREAD")),
    ];
    let cxx: Vec<&str> = cxx.into_iter().filter_map(|(file, is_needed)| is_needed.then_some(file)).collect();
    // HIP is not called, and its headers would take most of the time.
    let mut includes =
        vec![OsStr::new("-DHIPDNN_BACKEND_NO_HIP_HEADERS"), OsStr::new("-I"), headers.as_os_str()];
    if let Some(folder) = system.headers {
        includes.extend([OsStr::new("-I"), folder.as_os_str()]);
    }
    let mut objects = Vec::new();
    for file in &cxx {
        let object = folder.join(format!("{name}.{}.{build}.{file}.o", process::id()));
        let mut compiler = (system.compiler)(Language::Cxx);
        compiler.args(["-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fPIC", "-c"]);
        compiler.arg("-fvisibility=hidden").args(&includes);
        run(compiler.arg(sources().join(file)).arg("-o").arg(&object))?;
        objects.push(object);
    }
    let mut compiler = (system.compiler)(Language::C);
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fPIC", "-shared"]);
    compiler.args(["-fvisibility=hidden", optimize]).args(&includes);
    compiler.args(defines.iter().map(|define| format!("-D{define}")));
    compiler.args(&files).arg("-o").arg(&unfinished);
    if !objects.is_empty() {
        compiler.arg("-fexceptions").args(&objects).args(["-lstdc++", "-pthread"]);
        if system.ending == ".so" {
            compiler.arg("-ldl");
        }
    }
    run(&mut compiler)?;
    if defines.iter().any(|define| define == STRIPPED) {
        run(Command::new(system.strip).arg(&unfinished))?;
    }
    for object in objects {
        fs::remove_file(&object).map_err(|error| format!("{}: {error}", object.display()))?;
    }
    fs::rename(&unfinished, &target).map_err(|error| format!("{}: {error}", target.display()))?;
    Ok(target)
}

fn run(compiler: &mut Command) -> Result<(), String> {
    let output = compiler.output().map_err(|error| format!("{compiler:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{compiler:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_names_and_macros() {
        let all = parse("# comment\n\ngood\nbad   A=1  B=\"x\",\"y\"\n");
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], Variant { name: "good".into(), defines: vec![] });
        assert_eq!(all[1].defines, ["A=1", "B=\"x\",\"y\""]);
    }

    #[test]
    fn no_two_variants_have_one_name() {
        let mut names: Vec<_> = variants().unwrap().into_iter().map(|variant| variant.name).collect();
        assert!(!names.contains(&NULL.to_owned()));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        assert_eq!(library("no such").unwrap_err(), "variants.txt has no stub plugin \"no such\"");
    }
}
