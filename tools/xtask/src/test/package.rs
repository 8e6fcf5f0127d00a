//! Installed and packed files: no paths of this machine, stripped, with licences; and packages that work once unpacked.

use std::fs;
use std::path::{Path, PathBuf};

use super::install::{find_package, pkg_config};
use super::{Context, without_settings};
use crate::Failure;
use crate::install::{DOCUMENTS, TOOL, files, install_debug_files, remove};
use crate::package::{Packages, pack};
use crate::process::{command, exists, run as run_program};
use crate::split::debug_place;
use crate::steps::Steps;

/// lintian's tags for a package without a maintainer's name.
const OF_BUILDERS: &str = "malformed-contact,bogus-mail-host-in-debian-changelog";

/// The maximum size of the installed files.
const LARGEST: u64 = 32 << 20;

pub fn run(context: &Context, steps: &mut Steps) {
    let scratch = context.workspace.scratch("package");
    let debug = scratch.join("debug files");
    steps.run("files for debuggers belong to what is installed", || {
        remove(&scratch)?;
        install_debug_files(context.workspace, &debug, "lib")?;
        stripped(context, &debug)
    });
    steps.run("no path of this machine is installed", || no_paths(context, &debug));
    steps.run("size of what is installed", || size(context.stage));
    // The packages have the files that the group `install` uses.
    if context.extent.is_whole() {
        packages(context, &scratch, &debug, steps);
    }
}

/// The packages, unpacked and used.
fn packages(context: &Context, scratch: &Path, debug: &Path, steps: &mut Steps) {
    let mut packed = None;
    steps.run("packages", || {
        packed = Some(pack(context.workspace, &scratch.join("packed"), 0)?);
        Ok(String::new())
    });
    let Some(packages) = packed else { return };
    steps.run("the archives, unpacked", || archives(context, &packages, &scratch.join("archive"), debug));
    let root = scratch.join("root");
    let unpacked = steps.run("the packages for Debian, unpacked", || debian(context, &packages, &root));
    if exists("lintian") {
        steps.run("lintian", || {
            let words = ["--fail-on", "error,warning", "--allow-root", "--suppress-tags", OF_BUILDERS];
            run_program(command("lintian", words).args(&packages.debian)).map(|_| String::new())
        });
    } else {
        steps.leave_out("lintian", "it is not installed (Debian: sudo apt-get install lintian)");
    }
    if unpacked {
        let usr = root.join("usr");
        let build = scratch.join("consumers");
        steps.run("find_package in it, C and C++", || find_package(context, &usr, &build));
        steps.run("pkg-config in it, C and C++", || pkg_config(context, &usr, "lib", &build));
        steps.run("its command line tool", || tool(&usr));
    }
}

/// The binaries in a tree, by their first bytes.
fn binaries(tree: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = files(tree)?;
    found.retain(|file| fs::read(tree.join(file)).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")));
    Ok(found)
}

/// Each binary has only exported symbols, names its debug file, and has the same build-id as that.
fn stripped(context: &Context, debug: &Path) -> Result<String, Failure> {
    let binaries = binaries(context.stage)?;
    let places: Vec<PathBuf> = binaries.iter().map(|file| debug_place(file)).collect();
    let mut had = files(debug)?;
    had.sort();
    let mut expected = places.clone();
    expected.sort();
    if had != expected || had.is_empty() {
        return Err(Failure::new(format!("{had:#?}, expected {expected:#?}")));
    }
    let read = |option: &str, file: &Path| {
        run_program(command("readelf", [option, "-W"]).arg(file).env("LC_ALL", "C"))
    };
    for (file, place) in binaries.iter().zip(&places) {
        let (installed, other) = (context.stage.join(file), debug.join(place));
        let (sections, others) = (read("-S", &installed)?, read("-S", &other)?);
        let named = read("-p.gnu_debuglink", &installed)?;
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let (id, other_id) = (build_id(&read("-n", &installed)?), build_id(&read("-n", &other)?));
        let is_good = !sections.contains(".symtab")
            && !sections.contains(".debug_info")
            && others.contains(".symtab")
            && others.contains(".debug_info")
            && named.contains(&*name)
            && id.is_some()
            && id == other_id;
        if !is_good {
            return Err(Failure::new(format!(
                "{}\n{sections}{named}{id:?}\n{others}{other_id:?}",
                file.display()
            )));
        }
    }
    Ok(format!("{} files", binaries.len()))
}

fn build_id(notes: &str) -> Option<String> {
    notes.lines().find_map(|line| Some(line.split_once("Build ID: ")?.1.trim().to_owned()))
}

/// No file contains the path of a folder that the build remaps.
fn no_paths(context: &Context, debug: &Path) -> Result<String, Failure> {
    // Debug sections are compressed.
    let plain = context.workspace.scratch("package").join("plain");
    fs::create_dir_all(&plain)?;
    for file in files(debug)? {
        let to = plain.join(file.file_name().unwrap_or_default());
        run_program(command("objcopy", ["--decompress-debug-sections"]).arg(debug.join(&file)).arg(to))?;
    }
    let mut grep = command("grep", ["-r", "-l", "-a", "-F"]);
    for (folder, _) in context.workspace.remapped() {
        grep.arg("-e").arg(folder);
    }
    let output = grep.arg(context.stage).arg(&plain).output()?;
    // 1: no match.
    match output.status.code() {
        Some(1) => Ok(format!("{} files", files(context.stage)?.len() + files(debug)?.len())),
        _ => Err(Failure::new(format!(
            "{}{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            output.status
        ))),
    }
}

fn size(tree: &Path) -> Result<String, Failure> {
    let sizes = files(tree)?.into_iter().map(|file| Ok(fs::metadata(tree.join(file))?.len()));
    let bytes = sizes.sum::<Result<u64, Failure>>()?;
    let note = format!("{:.1} MB", bytes as f64 / 1e6);
    if bytes > LARGEST {
        Err(Failure::new(format!("{note}, at most {LARGEST} bytes were expected")))
    } else {
        Ok(note)
    }
}

/// An unpacked tree has the staged one's files with the same bytes, except the package that is installed on request.
fn same(one: &Path, other: &Path) -> Result<usize, Failure> {
    let names = files(one)?;
    let mut others = files(other)?;
    others.retain(|file| !file.starts_with("lib/cmake/hipdnn_frontend"));
    if names != others {
        return Err(Failure::new(format!("{names:#?}\nother: {others:#?}")));
    }
    match names.iter().find(|name| fs::read(one.join(name)).ok() != fs::read(other.join(name)).ok()) {
        Some(name) => {
            Err(Failure::new(format!("{} differs from {}", one.join(name).display(), other.display())))
        }
        None => Ok(names.len()),
    }
}

fn archives(context: &Context, packages: &Packages, folder: &Path, debug: &Path) -> Result<String, Failure> {
    let mut counts = Vec::new();
    for (archive, tree) in [(&packages.archive, context.stage), (&packages.debug, debug)] {
        remove(folder)?;
        fs::create_dir_all(folder)?;
        run_program(command("tar", ["-xJf"]).arg(archive).arg("-C").arg(folder))?;
        let name = archive.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = name.trim_end_matches(".tar.xz").trim_end_matches("-debug");
        counts.push(same(&folder.join(name), tree)?.to_string());
    }
    Ok(format!("{} files", counts.join(" and ")))
}

fn debian(context: &Context, packages: &Packages, root: &Path) -> Result<String, Failure> {
    let mut counts = Vec::new();
    for package in &packages.debian {
        let before = if root.exists() { files(root)?.len() } else { 0 };
        run_program(command("dpkg", ["-x"]).arg(package).arg(root))?;
        counts.push((files(root)?.len() - before).to_string());
        let field = |name| run_program(command("dpkg-deb", ["-f"]).arg(package).arg(name));
        let (name, version, depends) = (field("Package")?, field("Version")?, field("Depends")?);
        let name = name.trim();
        // Files that only Debian's packages have.
        let documents = root.join("usr").join(Path::new(DOCUMENTS).with_file_name(name));
        for file in ["copyright", "changelog.gz"] {
            fs::remove_file(documents.join(file))?;
        }
        let expected = match name {
            "hipdnn-backend" => "libc6 (>= 2.".to_owned(),
            _ => format!("hipdnn-backend (= {})", context.workspace.version),
        };
        if version.trim() != context.workspace.version || !depends.starts_with(&expected) {
            return Err(Failure::new(format!("{name} has the version {version} and depends on {depends}")));
        }
    }
    fs::remove_dir_all(root.join("usr/share/lintian"))?;
    same(&root.join("usr"), context.stage)?;
    Ok(format!("{} files", counts.join(", ")))
}

fn tool(usr: &Path) -> Result<String, Failure> {
    let mut tool = command(usr.join("bin").join(TOOL), ["engines"]);
    without_settings(&mut tool);
    let out = run_program(tool.env_remove("LD_LIBRARY_PATH"))?;
    if !out.contains("CPU_ENGINE") || !out.contains(&usr.join("lib").display().to_string()) {
        return Err(Failure::new(out));
    }
    Ok(String::new())
}
