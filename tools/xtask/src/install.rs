//! The installed tree, the same as of `cmake --install`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::Failure;
use crate::progress;
use crate::split::{debug_place, split};
use crate::workspace::Workspace;

/// The folder of engine plugins, below the library directory.
pub const ENGINES: &str = "hipdnn_plugins/engines";

/// The library's file, which is also its SONAME.
pub const LIBRARY: &str = "libhipdnn_backend.so";

/// The command line tool: its program, and its file.
pub const TOOL: &str = "hipdnn";

/// The file with the licences of linked code, which `cargo xtask generate` writes.
pub const NOTICES: &str = "THIRD_PARTY_LICENSES";

/// The bill of materials of linked code.
pub const BILL: &str = "hipdnn-backend.cdx.json";

/// The program that compares the GPU engines with the reference: its package and file.
pub const GPU_PROGRAM: &str = "gpu-test";

/// The package of the tool.
pub const TOOL_PACKAGE: &str = "hipdnn-tool";

/// The programs of that package: the tool, and the one that lists engines as AMD's does.
pub const PROGRAMS: [&str; 2] = [TOOL, "hipdnn_list_engines"];

/// A plugin of this workspace.
pub struct Plugin {
    /// Its package.
    pub package: &'static str,
    /// The file cargo builds of it.
    pub file: &'static str,
    /// The list of its exported symbols, in c_tests.
    pub exports: &'static str,
    /// The devices of its engines: `cpu`, `amd`, `nvidia`, `vulkan`.
    pub devices: Vec<&'static str>,
}

/// The plugins that are installed. CMakeLists.txt reads the same list.
pub static PLUGINS: LazyLock<Vec<Plugin>> =
    LazyLock::new(|| listed(include_str!("../../../plugins/shipped.txt")));

fn listed(text: &'static str) -> Vec<Plugin> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let plugin = |line: &'static str| {
        let mut words = line.split_whitespace();
        let package = words.next()?;
        let name = package.replace('-', "_");
        let short = name.strip_prefix("hipdnn_").unwrap_or(&name);
        // Leaked: the list is read once and lives as long as the program.
        let (file, exports) = (format!("lib{name}.so").leak(), format!("exports_{short}.txt").leak());
        Some(Plugin { package, file, exports, devices: words.collect() })
    };
    lines.filter_map(plugin).collect()
}

/// The graph schema, the licences and the bill of materials in the project, and where they are installed.
const SHARED: [(&str, &str); 4] = [
    ("plugins/sdk/schema/hipdnn.fbs", "share/hipdnn/hipdnn.fbs"),
    ("LICENSE", "share/doc/hipdnn-backend/LICENSE"),
    (NOTICES, "share/doc/hipdnn-backend/THIRD_PARTY_LICENSES"),
    (BILL, "share/doc/hipdnn-backend/hipdnn-backend.cdx.json"),
];

/// The folders of public headers of the C interface and the C++ classes, which are merged.
pub const HEADERS: [&str; 2] = ["include", "bindings/cpp/include"];

/// The folder of licences, below the prefix.
pub const DOCUMENTS: &str = "share/doc/hipdnn-backend";

/// Builds the library, its plugins and the programs for release. Returns a note.
pub fn build(workspace: &Workspace) -> Result<String, Failure> {
    build_with(workspace, &[])
}

/// The same with more packages.
pub fn build_with(workspace: &Workspace, packages: &[&str]) -> Result<String, Failure> {
    progress::build(workspace, &mut cargo(workspace, "build", packages))
}

/// A command of cargo for the release build and more packages. Always for all together: for other packages cargo would select
/// other features of shared crates and recompile them.
pub fn cargo(workspace: &Workspace, word: &str, packages: &[&str]) -> Command {
    let plugins = PLUGINS.iter().map(|plugin| plugin.package);
    let all = ["hipdnn-backend", TOOL_PACKAGE].into_iter().chain(plugins).chain(packages.iter().copied());
    let mut cargo = workspace.release([word]);
    cargo.args(all.flat_map(|package| ["-p", package]));
    cargo
}

/// The built files, each with its path below the prefix.
fn built(libdir: &str) -> impl Iterator<Item = (&'static str, PathBuf)> {
    let lib = PathBuf::from(libdir);
    let plugins = PLUGINS.iter().map(|plugin| plugin.file);
    let plugins = plugins.map({
        let engines = lib.join(ENGINES);
        move |file| (file, engines.join(file))
    });
    let programs = PROGRAMS.iter().map(|program| (*program, Path::new("bin").join(program)));
    std::iter::once((LIBRARY, lib.join(LIBRARY))).chain(plugins).chain(programs)
}

/// Lays out the debug files of an installed tree.
pub fn install_debug_files(workspace: &Workspace, prefix: &Path, libdir: &str) -> Result<(), Failure> {
    for (file, place) in built(libdir) {
        copy(&split(workspace, file)?.debug, &prefix.join(debug_place(&place)))?;
    }
    Ok(())
}

/// Lays out the package under the name of AMD's frontend, which is installed on request: AMD's may be beside ours.
pub fn install_frontend_package(workspace: &Workspace, prefix: &Path, libdir: &str) -> Result<(), Failure> {
    depth(libdir)?;
    let major = workspace.version.split('.').next().unwrap_or("0");
    let pointer = size_of::<usize>().to_string();
    let values = [
        ("HIPDNN_BACKEND_VERSION_MAJOR", major),
        ("HIPDNN_BACKEND_VERSION", &workspace.version),
        ("HIPDNN_BACKEND_POINTER_BYTES", &pointer),
    ];
    for (file, template) in [
        ("hipdnn_frontendConfig.cmake", "hipdnn_frontendConfig.cmake.in"),
        ("hipdnn_frontendConfigVersion.cmake", "hipdnn_backendConfigVersion.cmake.in"),
    ] {
        let template = fs::read_to_string(workspace.path("cmake").join(template))?;
        let place = prefix.join(libdir).join("cmake/hipdnn_frontend").join(file);
        write(&place, &fill_in(&template, &values)?)?;
    }
    Ok(())
}

/// A system's layout below the prefix, and the text files installed there.
pub struct System<'a> {
    /// The folder of engine plugins.
    pub engines: &'a str,
    /// The path from the library directory to the parent of the plugins' folder, with a trailing slash; empty if they are the same.
    pub from_libdir: &'a str,
    /// The template of the imported targets.
    pub targets: &'a str,
    /// Whether there are files for pkg-config.
    pub has_pkgconfig: bool,
}

/// Lays out the tree under `prefix`. `libdir` is relative to it.
pub fn install(workspace: &Workspace, prefix: &Path, libdir: &str) -> Result<(), Failure> {
    depth(libdir)?;
    for (file, place) in built(libdir) {
        copy(&split(workspace, file)?.stripped, &prefix.join(place))?;
    }
    let system = System {
        engines: &format!("{libdir}/{ENGINES}"),
        from_libdir: "",
        targets: "hipdnn_backendTargets.cmake.in",
        has_pkgconfig: true,
    };
    install_texts(workspace, prefix, libdir, &system)
}

/// The depth of the library directory below the prefix.
fn depth(libdir: &str) -> Result<usize, Failure> {
    let depth = libdir.split('/').filter(|part| !part.is_empty() && *part != ".").count();
    if depth == 0 || Path::new(libdir).is_absolute() || libdir.split('/').any(|part| part == "..") {
        return Err(Failure::new(format!("--libdir {libdir}: a folder below the prefix was expected")));
    }
    Ok(depth)
}

/// Lays out headers, package files and documents, which do not depend on the build.
pub fn install_texts(
    workspace: &Workspace,
    prefix: &Path,
    libdir: &str,
    system: &System,
) -> Result<(), Failure> {
    let lib = prefix.join(libdir);
    for folder in HEADERS {
        let folder = workspace.path(folder);
        for file in files(&folder)? {
            copy(&folder.join(&file), &prefix.join("include").join(&file))?;
        }
    }
    for (file, place) in SHARED {
        copy(&workspace.path(file), &prefix.join(place))?;
    }
    let up = "../".repeat(depth(libdir)?);
    let (to_include, to_data) = (format!("{up}include"), format!("{up}share"));
    let pointer = size_of::<usize>().to_string();
    let major = workspace.version.split('.').next().unwrap_or("0");
    let values = [
        ("HIPDNN_PLUGIN_ENGINE_SUBDIR", ENGINES),
        ("HIPDNN_RELATIVE_INSTALL_PLUGIN_ENGINE_DIR", system.engines),
        ("HIPDNN_BACKEND_LIBDIR_TO_INCLUDEDIR", &to_include),
        ("HIPDNN_BACKEND_LIBDIR_TO_DATADIR", &to_data),
        ("HIPDNN_BACKEND_LIBDIR_TO_PLUGINDIR", system.from_libdir),
        ("HIPDNN_BACKEND_VERSION_MAJOR", major),
        ("HIPDNN_BACKEND_VERSION", &workspace.version),
        ("HIPDNN_BACKEND_POINTER_BYTES", &pointer),
    ];
    // Both packages have the same version and version rule.
    for (folder, file, template) in [
        ("cmake/hipdnn_backend", "hipdnn_backendConfig.cmake", "hipdnn_backendConfig.cmake.in"),
        ("cmake/hipdnn_backend", "hipdnn_backendConfigVersion.cmake", "hipdnn_backendConfigVersion.cmake.in"),
        ("cmake/hipdnn_backend", "hipdnn_backendHip.cmake", "hipdnn_backendHip.cmake.in"),
        ("cmake/hipdnn_backend", "hipdnn_backendTargets.cmake", system.targets),
        ("cmake/hipdnn", "hipdnnConfig.cmake", "hipdnnConfig.cmake.in"),
        ("cmake/hipdnn", "hipdnnConfigVersion.cmake", "hipdnn_backendConfigVersion.cmake.in"),
        ("pkgconfig", "hipdnn_backend.pc", "hipdnn_backend.pc.in"),
        ("pkgconfig", "hipdnn.pc", "hipdnn.pc.in"),
    ] {
        if folder == "pkgconfig" && !system.has_pkgconfig {
            continue;
        }
        let template = fs::read_to_string(workspace.path("cmake").join(template))?;
        write(&lib.join(folder).join(file), &fill_in(&template, &values)?)?;
    }
    Ok(())
}

/// Builds, and recreates `target/stage`.
pub fn stage(workspace: &Workspace) -> Result<PathBuf, Failure> {
    build(workspace)?;
    lay_out(workspace)
}

/// Recreates `target/stage` from the build.
pub fn lay_out(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let stage = workspace.stage_dir();
    remove(&stage)?;
    install(workspace, &stage, "lib")?;
    install_frontend_package(workspace, &stage, "lib")?;
    Ok(stage)
}

/// Every file below a folder, relative to it, in order.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        for entry in fs::read_dir(folder.join(&relative))
            .map_err(|e| Failure::new(format!("{}: {e}", folder.join(&relative).display())))?
        {
            let entry = entry?;
            let path = relative.join(entry.file_name());
            if entry.file_type()?.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}

/// Removes a folder if it exists.
pub fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("cannot remove {}: {error}", folder.display())))
        }
        _ => Ok(()),
    }
}

/// Copies a file, creating its folder.
pub fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let copied = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
        // Remove, don't overwrite: a program may have the old file mapped.
        let _ = fs::remove_file(to);
        fs::copy(from, to)
    });
    copied
        .map(|_| ())
        .map_err(|e| Failure::new(format!("cannot copy {} to {}: {e}", from.display(), to.display())))
}

/// Writes a file, creating its folder.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, text))
        .map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))
}

/// Replaces `@NAME@` by values, like CMake's configure_file(@ONLY).
fn fill_in(template: &str, values: &[(&str, &str)]) -> Result<String, Failure> {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("@{name}@"), value);
    }
    match text.split_once("@HIPDNN") {
        Some((_, rest)) => {
            Err(Failure::new(format!("no value for @HIPDNN{}", rest.lines().next().unwrap_or(""))))
        }
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_between_at_signs_are_filled_in() {
        assert_eq!(
            fill_in("a @HIPDNN_X@ ${b}pub const TOOL_PACKAGE", &[("HIPDNN_X", "1")]).unwrap(),
            "a 1 ${b}pub const TOOL_PACKAGE"
        );
        assert!(fill_in("@HIPDNN_Y@", &[("HIPDNN_X", "1")]).is_err());
    }

    #[test]
    fn plugins_are_read_with_their_devices() {
        let [one] = &listed("# comment\nhipdnn-rtc-plugin amd nvidia\n\n")[..] else {
            panic!("one was expected")
        };
        assert_eq!((one.package, one.file), ("hipdnn-rtc-plugin", "libhipdnn_rtc_plugin.so"));
        assert_eq!((one.exports, &one.devices[..]), ("exports_rtc_plugin.txt", &["amd", "nvidia"][..]));
        assert!(PLUGINS.len() >= 5 && PLUGINS.iter().all(|plugin| !plugin.devices.is_empty()));
    }

    #[test]
    fn a_libdir_outside_the_prefix_is_refused() {
        let workspace = Workspace::new();
        for libdir in ["", "/usr/lib", "../lib", "."] {
            assert!(install(&workspace, Path::new("/nonexistent"), libdir).is_err(), "{libdir}");
        }
    }
}
