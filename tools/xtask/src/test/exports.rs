//! The dynamic symbols of the library and its plugins: exactly those on the lists, their SONAMEs, and no GPU library among
//! their dependencies.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Context, accumulators, frames};
use crate::Failure;
use crate::install::{ENGINES, LIBRARY, PLUGINS, PROGRAMS};
use crate::process::{command, run as run_program};
use crate::steps::Steps;

/// Libraries that are opened at run time if present, and never linked.
const NEVER_NEEDED: &[&str] = &["amdhip", "hiprtc", "MIOpen", "blas", "cuda", "cudnn", "nvrtc", "libhipdnn"];

pub fn run(context: &Context, steps: &mut Steps) {
    let library = context.stage.join("lib").join(LIBRARY);
    let list = |name: &str| context.workspace.path("c_tests").join(name);
    steps.run(&format!("symbols of {LIBRARY}"), || symbols(&library, &list("exports.txt")));
    steps.run("functions of hipdnn_backend.h", || {
        declared(&context.stage.join("include/hipdnn/backend/hipdnn_backend.h"), &list("exports.txt"))
    });
    steps.run(&format!("SONAME of {LIBRARY}"), || soname(&library));
    steps.run(&format!("functions of {LIBRARY} are bound to it"), || bound(&library, &list("exports.txt")));
    steps.run(&format!("libraries that {LIBRARY} needs"), || needed(&library));
    for program in PROGRAMS {
        steps.run(&format!("libraries that {program} needs"), || {
            needed(&context.stage.join("bin").join(program))
        });
    }
    let built = |file: &str| context.workspace.target_dir().join("release").join(file);
    steps.run(&format!("stack frames of {LIBRARY}"), || frames::check(&built(LIBRARY)));
    for plugin in PLUGINS.iter() {
        let path = context.stage.join("lib").join(ENGINES).join(plugin.file);
        steps.run(&format!("symbols of {}", plugin.file), || symbols(&path, &list(plugin.exports)));
        steps.run(&format!("functions of {} are bound to it", plugin.file), || {
            bound(&path, &list(plugin.exports))
        });
        steps.run(&format!("libraries that {} needs", plugin.file), || needed(&path));
        steps.run(&format!("stack frames of {}", plugin.file), || frames::check(&built(plugin.file)));
        steps.run(&format!("SIMD instructions of {} are no calls", plugin.file), || {
            in_line(&built(plugin.file))
        });
    }
    let kernels = "libhipdnn_cpu_plugin.so";
    steps.run(&format!("accumulators of {kernels} stay in registers"), || {
        accumulators::check(&built(kernels))
    });
}

/// The functions that a header declares are those on the list.
fn declared(header: &Path, list: &Path) -> Result<String, Failure> {
    let (listed, text) = (read(list)?, read(header)?);
    let found: BTreeSet<&str> = functions(&text).collect();
    compare(&names(&listed, on_list), &found)?;
    Ok(format!("{} functions", found.len()))
}

/// The names of exported functions: the last word before the parenthesis.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("_EXPORT").skip(1).filter_map(|declaration| {
        declaration.split('(').next()?.split(|c: char| c.is_whitespace() || c == '*').next_back()
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|e| Failure::new(format!("{}: {e}", path.display())))
}

fn on_list(line: &str) -> Option<&str> {
    (!line.starts_with('#')).then_some(line)
}

fn symbols(library: &Path, list: &Path) -> Result<String, Failure> {
    let listed = read(list)?;
    let wanted = names(&listed, on_list);
    let out = run_program(command("nm", ["-D", "--defined-only"]).arg(library))?;
    let found = names(&out, |line| line.split_whitespace().nth(2));
    compare(&wanted, &found)?;
    Ok(format!("{} symbols", found.len()))
}

fn names<'a>(text: &'a str, pick: impl Fn(&'a str) -> Option<&'a str>) -> BTreeSet<&'a str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).filter_map(pick).collect()
}

fn compare(wanted: &BTreeSet<&str>, found: &BTreeSet<&str>) -> Result<(), Failure> {
    if wanted == found {
        return Ok(());
    }
    let list = |names: Vec<&&str>| names.iter().map(|name| format!("\n  {name}")).collect::<String>();
    Err(Failure::new(format!(
        "missing:{}\nnot on the list:{}",
        list(wanted.difference(found).collect()),
        list(found.difference(wanted).collect())
    )))
}

fn dynamic(library: &Path) -> Result<String, Failure> {
    run_program(command("readelf", ["-d", "-W"]).arg(library).env("LC_ALL", "C"))
}

/// The names in brackets of the entries of one kind.
fn entries<'a>(dynamic: &'a str, kind: &'a str) -> impl Iterator<Item = &'a str> {
    dynamic
        .lines()
        .filter(move |line| line.contains(kind))
        .filter_map(|line| line.split_once('[')?.1.split_once(']').map(|(name, _)| name))
}

fn soname(library: &Path) -> Result<String, Failure> {
    let dynamic = dynamic(library)?;
    let names: Vec<&str> = entries(&dynamic, "(SONAME)").collect();
    if names == [LIBRARY] {
        Ok(LIBRARY.to_owned())
    } else {
        Err(Failure::new(format!("the SONAME is {names:?}, [\"{LIBRARY}\"] was expected")))
    }
}

/// The loader must not resolve the library's own functions: it might bind to a function of the same name in another library.
fn bound(library: &Path, list: &Path) -> Result<String, Failure> {
    if !dynamic(library)?.contains("SYMBOLIC") {
        return Err(Failure::new("DT_SYMBOLIC is missing; the library was not linked with -Bsymbolic"));
    }
    let relocations = run_program(command("readelf", ["-r", "-W"]).arg(library).env("LC_ALL", "C"))?;
    let listed = read(list)?;
    let own = names(&listed, on_list);
    match relocations.split_whitespace().find(|word| own.contains(word.split('@').next().unwrap_or_default()))
    {
        Some(name) => Err(Failure::new(format!("{name} is looked for when the library is loaded"))),
        None => Ok(String::new()),
    }
}

/// Code that is inlined into a kernel has the kernel's instruction set. An intrinsic that is a function was left in code that is
/// not inlined, often a closure or an iterator: it runs many times slower, with registers in memory.
fn in_line(file: &Path) -> Result<String, Failure> {
    let out = run_program(command("nm", ["--demangle"]).arg(file))?;
    match intrinsics(&out).as_slice() {
        [] => Ok(String::new()),
        names => Err(Failure::new(format!("find the callers by objdump: {}", names.join(", ")))),
    }
}

/// The names of intrinsics among the symbols, but those for detecting instruction sets.
fn intrinsics(symbols: &str) -> Vec<&str> {
    let detect = |name: &&str| name.contains("cpuid") || name.contains("xgetbv");
    let names = symbols.lines().filter_map(|line| line.split_once("core_arch::").map(|(_, name)| name));
    names.filter(|name| !detect(name)).collect()
}

fn needed(library: &Path) -> Result<String, Failure> {
    let dynamic = dynamic(library)?;
    let names: Vec<&str> = entries(&dynamic, "(NEEDED)").collect();
    match names.iter().find(|name| NEVER_NEEDED.iter().any(|gpu| name.contains(gpu))) {
        Some(name) => Err(Failure::new(format!("{name} is linked; it must be opened at run time"))),
        None => Ok(names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_too_few_or_too_many_is_named() {
        let wanted = BTreeSet::from(["a", "b"]);
        let failure = compare(&wanted, &BTreeSet::from(["b", "c"])).unwrap_err().to_string();
        assert_eq!(failure, "missing:\n  a\nnot on the list:\n  c");
        assert!(compare(&wanted, &wanted).is_ok());
    }

    #[test]
    fn declared_functions_are_found() {
        let text = "A_EXPORT int a(void);\nA_DEPRECATED_EXPORT\nconst char *b_ext(void);\n";
        assert_eq!(functions(text).collect::<Vec<_>>(), ["a", "b_ext"]);
    }

    #[test]
    fn intrinsics_that_are_functions_are_found() {
        let text = "0010 t core::core_arch::x86::avx::_mm256_loadu_ps\n0020 t core::core_arch::x86::xsave::_xgetbv\n0030 t f\n";
        assert_eq!(intrinsics(text), ["x86::avx::_mm256_loadu_ps"]);
    }

    #[test]
    fn dynamic_entries_are_read() {
        let text = " 0x1 (NEEDED)  Shared library: [libc.so.6]\n 0xe (SONAME)  Library soname: [libx.so]\n";
        assert_eq!(entries(text, "(NEEDED)").collect::<Vec<_>>(), ["libc.so.6"]);
        assert_eq!(entries(text, "(SONAME)").collect::<Vec<_>>(), ["libx.so"]);
    }
}
