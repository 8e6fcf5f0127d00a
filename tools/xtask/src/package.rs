//! `cargo xtask package`: the installed files as an archive and as Debian packages, and the debug files as another archive. Two
//! builds of one commit give the same bytes, which `cargo xtask reproducible` checks.

mod debian;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::install::{self, remove};
use crate::process::{command, run};
use crate::steps::Steps;
use crate::tools::{self, DPKG_DEB, XZ};
use crate::workspace::Workspace;

/// The packed files.
pub struct Packages {
    /// The archive of installed files, in a folder with the archive's name.
    pub archive: PathBuf,
    /// The files for debuggers, in a folder of the same name.
    pub debug: PathBuf,
    /// The same files as in the archive, below /usr, each in one of the packages.
    pub debian: Vec<PathBuf>,
}

impl Packages {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.archive, &self.debug].into_iter().chain(&self.debian)
    }
}

/// Packs the build into target/package.
pub fn run_steps(workspace: &Workspace, steps: &mut Steps) {
    let folder = workspace.target_dir().join("package");
    steps.run("packed", || {
        let packages = pack(workspace, &folder, 9)?;
        let note = |path: &PathBuf| {
            Ok(format!("{}, {:.1} MiB", workspace.relative(path), size(path)? as f64 / f64::from(1 << 20)))
        };
        let notes: Result<Vec<String>, Failure> = packages.all().map(note).collect();
        Ok(notes?.join("; "))
    });
}

fn size(path: &Path) -> Result<u64, Failure> {
    Ok(fs::metadata(path)?.len())
}

/// Packs the build into a new folder. `level` is the compression level, 0 to 9.
pub fn pack(workspace: &Workspace, folder: &Path, level: u8) -> Result<Packages, Failure> {
    tools::require(&[&DPKG_DEB, &XZ])?;
    remove(folder)?;
    let name = format!("hipdnn-backend-{}-{}-linux", workspace.version, std::env::consts::ARCH);
    let (tree, debug_tree, debian_tree) = (folder.join("tree"), folder.join("debug"), folder.join("debian"));
    install::install(workspace, &tree.join(&name), "lib")?;
    install::install_debug_files(workspace, &debug_tree.join(&name), "lib")?;
    install::install(workspace, &debian_tree.join("usr"), "lib")?;
    let archive = folder.join(format!("{name}.tar.xz"));
    let debug = folder.join(format!("{name}-debug.tar.xz"));
    let time = commit_time(workspace);
    for (archive, tree) in [(&archive, &tree), (&debug, &debug_tree)] {
        let mut tar = command(
            "tar",
            ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=go-w", "--format=gnu"],
        );
        tar.arg(format!("--mtime=@{time}")).arg("-C").arg(tree).arg("-cJf").arg(archive).arg(&name);
        run(tar.env("XZ_OPT", format!("-{level}")))?;
    }
    let debian = debian::pack(workspace, &debian_tree.join("usr"), folder, (&time, level))?;
    Ok(Packages { archive, debug, debian })
}

/// The time of the commit in seconds since 1970, or 0.
fn commit_time(workspace: &Workspace) -> String {
    let mut git = command("git", ["log", "-1", "--format=%ct"]);
    let time = run(git.current_dir(workspace.path(""))).unwrap_or_default();
    if time.trim().is_empty() { "0".to_owned() } else { time.trim().to_owned() }
}
