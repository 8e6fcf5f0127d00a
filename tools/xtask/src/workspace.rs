//! The project's folder and version.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::command;

/// Names symbols shared between codegen units after the unit, not after a hash, so that builds are reproducible.
const PROMOTED: &str = "-Cllvm-args=-use-source-filename-for-promoted-locals";

/// The project this tool was built in.
pub struct Workspace {
    root: PathBuf,
    /// `MAJOR.MINOR.PATCH` of every package.
    pub version: String,
    /// Whether cargo shows all its output while it builds.
    pub verbose: bool,
}

impl Workspace {
    /// The workspace where `cargo run` started this tool, else the one where it was built. They differ if a clone was copied
    /// together with its build.
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

    /// The compiler that cargo runs, in the project's folder, where rustup selects it.
    pub fn rustc(&self) -> Command {
        let mut rustc = command("rustc", [""; 0]);
        rustc.current_dir(&self.root);
        rustc
    }

    /// cargo for release builds, without paths of this machine, so that builds in two folders are equal.
    pub fn release<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut cargo = self.cargo(arguments);
        cargo.args(["--release", "--locked", "--config"]).arg(self.reproducible_flags());
        cargo
    }

    /// The cargo setting that remaps paths, also in symbol names. cargo adds these flags to those of .cargo/config.toml.
    /// CMakeLists.txt has the same ones; different flags would rebuild everything.
    pub fn reproducible_flags(&self) -> String {
        let remap = self.remapped().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
        let flags: Vec<String> = remap.into_iter().chain([PROMOTED.to_owned()]).collect();
        format!("build.rustflags={flags:?}")
    }

    /// The folders to remap, each with its replacement; if several match, the last one counts.
    pub fn remapped(&self) -> [(PathBuf, &'static str); 3] {
        [
            (cargo_home(), "/cargo"),
            (self.root.clone(), "/hipdnn-backend"),
            (self.target_dir(), "/hipdnn-backend/target"),
        ]
    }

    /// cargo's target folder.
    pub fn target_dir(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.path("target"), |dir| self.root.join(dir))
    }

    /// The folder of release builds.
    pub fn release_dir(&self) -> PathBuf {
        self.target_dir().join("release")
    }

    /// The tree that programs of this project are built against.
    pub fn stage_dir(&self) -> PathBuf {
        self.target_dir().join("stage")
    }

    /// A folder for the output of a step of this tool.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.target_dir().join("xtask").join(name)
    }
}

/// The folder where cargo keeps the sources of other crates.
fn cargo_home() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}
