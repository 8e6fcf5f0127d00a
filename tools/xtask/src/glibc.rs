//! Builds for systems with an older glibc: zig's linker provides that version's symbols.
//!
//! Only linking differs. The Rust standard library looks up functions of later versions at run time.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::Failure;
use crate::cache;
use crate::process::{command, run};
use crate::venv;
use crate::workspace::Workspace;

/// The linker that cargo runs. rustc derives the linker flavor from its name.
const LINKER: &str = include_str!("glibc/cc.sh");

/// The package with zig.
const PACKAGES: &[&str] = &["ziglang>=0.14"];

/// Parses a version from the command line.
pub fn parse(text: &str) -> Result<String, String> {
    let minor = text.strip_prefix("2.").and_then(|minor| minor.parse::<u32>().ok());
    let known = minor.filter(|minor| (17..100).contains(minor));
    known
        .map(|minor| format!("2.{minor}"))
        .ok_or_else(|| format!("{text} is unknown, expected 2.17 or later"))
}

/// Runs a command of this tool in a process that links for a version of glibc, with its own target folder.
pub fn again(workspace: &Workspace, version: &str, words: &[&str]) -> Result<(), Failure> {
    let python = venv::ready(&folder()?, PACKAGES, "a build for an older glibc")?.join("bin/python");
    let target = workspace.target_dir().join(format!("glibc-{version}"));
    let linker = target.join("cc.sh");
    fs::create_dir_all(&target)?;
    fs::write(&linker, LINKER)?;
    fs::set_permissions(&linker, fs::Permissions::from_mode(0o755))?;
    // zig has its own unwinder, but exceptions of other libraries pass through ours only with the shared one.
    let unwinder = run(&mut command("cc", ["-print-file-name=libgcc_s.so.1"]))?;
    let arch = env::consts::ARCH;
    let variable = format!("CARGO_TARGET_{}_UNKNOWN_LINUX_GNU_LINKER", arch.to_uppercase());
    let mut command = command(env::current_exe()?, words);
    command
        .env(variable, &linker)
        .env("CARGO_TARGET_DIR", &target)
        .env("HIPDNN_LINK_PYTHON", python)
        .env("HIPDNN_LINK_TARGET", format!("{arch}-linux-gnu.{version}"))
        .env("HIPDNN_LINK_UNWINDER", unwinder.trim());
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{} failed", words.join(" ")))) }
}

fn folder() -> Result<PathBuf, Failure> {
    cache::folder("HIPDNN_ZIG_ENV", "zig-env")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(parse("2.28").as_deref(), Ok("2.28"));
        for text in ["2.5", "2.x", "3.1", "28", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
