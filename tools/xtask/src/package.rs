//! `cargo xtask package`: what is installed as an archive and as a package for Debian, and what debuggers read in an archive of
//! its own. Two builds of one commit are meant to give the same bytes: `cargo xtask reproducible` compares
//! them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::install::{self, DOCUMENTS, LIBRARY, PLUGINS, PROGRAMS, files, remove};
use crate::process::{command, run};
use crate::steps::Steps;
use crate::tools::{self, DPKG_DEB, XZ};
use crate::wheel::newest_glibc;
use crate::workspace::Workspace;

/// What is packed.
pub struct Packages {
    /// What is installed, in a folder with the archive's name.
    pub archive: PathBuf,
    /// The files for debuggers, in a folder of the same name.
    pub debug: PathBuf,
    /// The same files as in the archive, below /usr.
    pub debian: PathBuf,
}

/// Packs what was built into target/package.
pub fn run_steps(workspace: &Workspace, steps: &mut Steps) {
    let folder = workspace.target_dir().join("package");
    steps.run("packed", || {
        let packages = pack(workspace, &folder, 9)?;
        let note = |path: &PathBuf| {
            Ok(format!("{}, {:.1} MiB", workspace.relative(path), size(path)? as f64 / f64::from(1 << 20)))
        };
        let notes: Result<Vec<String>, Failure> =
            [&packages.archive, &packages.debug, &packages.debian].map(note).into_iter().collect();
        Ok(notes?.join("; "))
    });
}

fn size(path: &Path) -> Result<u64, Failure> {
    Ok(fs::metadata(path)?.len())
}

/// Packs what was built into a folder, made anew. The level is that of the compression, 0 to 9.
pub fn pack(workspace: &Workspace, folder: &Path, level: u8) -> Result<Packages, Failure> {
    tools::require(&[&DPKG_DEB, &XZ])?;
    remove(folder)?;
    let name = format!("hipdnn-backend-{}-{}-linux", workspace.version, std::env::consts::ARCH);
    let (tree, debug_tree, debian_tree) = (folder.join("tree"), folder.join("debug"), folder.join("debian"));
    install::install(workspace, &tree.join(&name), "lib")?;
    install::install_debug_files(workspace, &debug_tree.join(&name), "lib")?;
    install::install(workspace, &debian_tree.join("usr"), "lib")?;
    let packages = Packages {
        archive: folder.join(format!("{name}.tar.xz")),
        debug: folder.join(format!("{name}-debug.tar.xz")),
        debian: folder.join(format!("hipdnn-backend_{}_{}.deb", workspace.version, architecture()?)),
    };
    let time = commit_time(workspace);
    for (archive, tree) in [(&packages.archive, &tree), (&packages.debug, &debug_tree)] {
        let mut tar = command(
            "tar",
            ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go-w", "--format=gnu"],
        );
        tar.arg(format!("--mtime=@{time}")).arg("-C").arg(tree).arg("-cJf").arg(archive).arg(&name);
        run(tar.env("XZ_OPT", format!("-{level}")))?;
    }
    control(workspace, &debian_tree, &time)?;
    let mut build = command("dpkg-deb", ["--root-owner-group", "-Zxz", &format!("-z{level}"), "--build"]);
    run(build.arg(&debian_tree).arg(&packages.debian).env("SOURCE_DATE_EPOCH", time))?;
    Ok(packages)
}

/// Debian's name of this machine's architecture.
fn architecture() -> Result<String, Failure> {
    Ok(run(&mut command("dpkg", ["--print-architecture"]))?.trim().to_owned())
}

/// When what is built was committed, in seconds since 1970, or 0.
fn commit_time(workspace: &Workspace) -> String {
    let mut git = command("git", ["log", "-1", "--format=%ct"]);
    let time = run(git.current_dir(workspace.path(""))).unwrap_or_default();
    if time.trim().is_empty() { "0".to_owned() } else { time.trim().to_owned() }
}

/// Who stands for a package, `NAME <ADDRESS>`, where the builder says so.
const MAINTAINER: &str = "HIPDNN_MAINTAINER";

/// Rules of Debian's that the package breaks on purpose.
const OVERRIDES: &str = "\
# Programs of hipDNN look for this name.
hipdnn-backend: package-name-doesnt-match-sonames *
hipdnn-backend: shared-library-lacks-version *
# The tree may be moved: its files are found from these.
hipdnn-backend: pkg-config-unavailable-for-cross-compilation *
# The programs explain themselves with --help.
hipdnn-backend: no-manual-page *
";

/// What dpkg wants to know of the package, and what Debian expects in it.
fn control(workspace: &Workspace, tree: &Path, time: &str) -> Result<(), Failure> {
    let usr = tree.join("usr");
    let maintainer = std::env::var(MAINTAINER).unwrap_or_else(|_| "hipdnn-backend <>".to_owned());
    // Debian's name for the file.
    install::copy(&workspace.path("LICENSE"), &usr.join(DOCUMENTS).join("copyright"))?;
    let date = run(&mut command("date", ["-u", "-R", "-d", &format!("@{time}")]))?;
    let changes = format!(
        "hipdnn-backend ({}) unstable; urgency=medium\n\n  * Upstream release; its file CHANGELOG.md says what changed.\n\n \
         -- {maintainer}  {date}",
        workspace.version
    );
    let log = usr.join(DOCUMENTS).join("changelog");
    install::write(&log, &changes)?;
    run(command("gzip", ["-9n"]).arg(&log))?;
    install::write(&usr.join("share/lintian/overrides/hipdnn-backend"), OVERRIDES)?;
    let (mut bytes, mut glibc) = (0, 0);
    for file in files(&usr)? {
        let path = usr.join(&file);
        bytes += size(&path)?;
        if file.extension().is_some_and(|end| end == "so") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        }
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name == LIBRARY || PROGRAMS.contains(&name) || PLUGINS.iter().any(|plugin| plugin.file == name) {
            glibc = newest_glibc(&path)?.max(glibc);
        }
    }
    let text = format!(
        "Package: hipdnn-backend\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: {maintainer}\n\
         Section: libs\n\
         Priority: optional\n\
         Installed-Size: {}\n\
         Depends: libc6 (>= 2.{glibc}), libgcc-s1\n\
         Description: backend library of hipDNN, with engines for CPUs and GPUs\n \
         Programs hand it graphs of tensor operations, and engine plugins compute them.\n \
         Headers, CMake package and command line tool are included.\n",
        workspace.version,
        architecture()?,
        bytes.div_ceil(1024)
    );
    let folder = tree.join("DEBIAN");
    install::write(&folder.join("control"), &text)?;
    install::write(&folder.join("triggers"), "activate-noawait ldconfig\n")
}
