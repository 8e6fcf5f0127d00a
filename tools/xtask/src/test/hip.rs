//! HIP's headers, for the tests that compile with them.

use std::path::{Path, PathBuf};

use crate::process::{command, exists, run};
use crate::workspace::Workspace;

/// Debian's package of them.
const PACKAGE: &str = "libamdhip64-dev";

/// A folder that has `hip/hip_runtime_api.h`: where ROCm or the system installs it, else unpacked from the system's
/// package without installing it. `None` if neither works; the stand-in is tested in any case.
pub fn headers(workspace: &Workspace) -> Option<PathBuf> {
    let home = std::env::var_os("HIP_PATH").or_else(|| std::env::var_os("ROCM_PATH")).map(PathBuf::from);
    let installed = [home, Some("/opt/rocm".into()), Some("/usr".into())];
    installed
        .into_iter()
        .flatten()
        .map(|prefix| prefix.join("include"))
        .find(|dir| has_hip(dir))
        .or_else(|| unpack(workspace))
}

/// Whether the compilers find HIP's headers by default.
pub fn in_default_path() -> bool {
    has_hip(Path::new("/usr/include")) || has_hip(Path::new("/usr/local/include"))
}

fn has_hip(folder: &Path) -> bool {
    folder.join("hip/hip_runtime_api.h").is_file()
}

fn unpack(workspace: &Workspace) -> Option<PathBuf> {
    let folder = workspace.scratch("hip");
    let include = folder.join("root/usr/include");
    if has_hip(&include) {
        return Some(include);
    }
    if !exists("apt-get") || !exists("dpkg") {
        return None;
    }
    std::fs::create_dir_all(&folder).ok()?;
    run(command("apt-get", ["download", "-q", PACKAGE]).current_dir(&folder)).ok()?;
    let package = std::fs::read_dir(&folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|e| e == "deb"))?;
    run(command("dpkg", ["-x"]).arg(package).arg(folder.join("root"))).ok()?;
    has_hip(&include).then_some(include)
}
