//! Where the project lies, and its version.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::command;

/// Functions that other units of a crate get are named by their unit, and not by a hash of all that the unit had before it was optimized.
const PROMOTED: &str = "-Cllvm-args=-use-source-filename-for-promoted-locals";

/// The project this tool was built in.
pub struct Workspace {
    root: PathBuf,
    /// `MAJOR.MINOR.PATCH` of every package.
    pub version: String,
    /// Whether cargo says all that it has to say while it builds.
    pub verbose: bool,
}

impl Workspace {
    /// The workspace that `cargo run` started this tool in, else the one that it was built in. They differ where a clone was copied
    /// together with what it had built.
    pub fn new() -> Self {
        let manifest =
            std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&manifest).ancestors().nth(2).unwrap_or(Path::new("."));
        Self { root: root.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned(), verbose: false }
    }

    /// A path inside it.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// A path as seen from the folder, for messages.
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }

    /// cargo, in the project's folder.
    pub fn cargo<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut cargo = command(program, arguments);
        cargo.current_dir(&self.root);
        cargo
    }

    /// The compiler that cargo runs, in the project's folder, where rustup finds which.
    pub fn rustc(&self) -> Command {
        let mut rustc = command("rustc", [""; 0]);
        rustc.current_dir(&self.root);
        rustc
    }

    /// cargo, to build for release what others are given. No path of this machine is in it, so that builds in two folders are equal.
    pub fn release<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut cargo = self.cargo(arguments);
        cargo.args(["--release", "--locked", "--config"]).arg(self.reproducible_flags());
        cargo
    }

    /// The setting of cargo's that replaces the folders' names, and keeps them out of the names of symbols. cargo adds its flags to those
    /// of .cargo/config.toml. CMakeLists.txt has the same: with others, each would build all anew.
    pub fn reproducible_flags(&self) -> String {
        let remap = self.remapped().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
        let flags: Vec<String> = remap.into_iter().chain([PROMOTED.to_owned()]).collect();
        format!("build.rustflags={flags:?}")
    }

    /// The folders whose names are replaced in what is built, each with its replacement; of several that fit, the last counts.
    pub fn remapped(&self) -> [(PathBuf, &'static str); 3] {
        [
            (cargo_home(), "/cargo"),
            (self.root.clone(), "/hipdnn-backend"),
            (self.target_dir(), "/hipdnn-backend/target"),
        ]
    }

    /// What cargo builds into.
    pub fn target_dir(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.path("target"), |dir| self.root.join(dir))
    }

    /// What a release build writes into.
    pub fn release_dir(&self) -> PathBuf {
        self.target_dir().join("release")
    }

    /// The tree that programs of this project are built against.
    pub fn stage_dir(&self) -> PathBuf {
        self.target_dir().join("stage")
    }

    /// A folder for what a step of this tool writes.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.target_dir().join("xtask").join(name)
    }
}

/// Where cargo keeps the sources of other crates.
fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}
