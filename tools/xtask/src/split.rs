//! Splits a built file in two: one to install, and one with debug information.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::process::{command, run};
use crate::tools::{self, OBJCOPY};
use crate::workspace::Workspace;

/// The two files.
pub struct Split {
    /// The code, without symbols of functions that are not exported. It names the other file.
    pub stripped: PathBuf,
    /// Symbols and lines.
    pub debug: PathBuf,
}

/// Splits a file of a release build, unless done since it was built. cmake/split.cmake does the same.
pub fn split(workspace: &Workspace, file: &str) -> Result<Split, Failure> {
    let built = workspace.release_dir().join(file);
    let folder = workspace.scratch("split");
    let parts = Split { stripped: folder.join(file), debug: folder.join(debug_name(file)) };
    let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let built_at = changed(&built).map_err(|e| Failure::new(format!("{}: {e}", built.display())))?;
    if changed(&parts.stripped).is_ok_and(|at| at > built_at) {
        return Ok(parts);
    }
    tools::require(&[&OBJCOPY])?;
    fs::create_dir_all(&folder)?;
    let objcopy = |options: &[&str], to: &Path| {
        // objcopy overwrites an existing file in place, which a program may have mapped.
        let _ = fs::remove_file(to);
        // The link has the debug file's name, without its folder.
        let mut objcopy = command("objcopy", options);
        run(objcopy.arg(&built).arg(to).current_dir(&folder)).map(|_| ())
    };
    objcopy(&["--only-keep-debug", "--compress-debug-sections"], &parts.debug)?;
    let link = format!("--add-gnu-debuglink={}", debug_name(file));
    objcopy(&["--strip-unneeded", &link], &parts.stripped)?;
    Ok(parts)
}

/// Where debuggers look for the symbols of an installed file.
pub fn debug_place(installed: &Path) -> PathBuf {
    let name = installed.file_name().unwrap_or_default().to_string_lossy();
    installed.with_file_name(".debug").join(debug_name(&name))
}

fn debug_name(file: &str) -> String {
    format!("{file}.debug")
}
