//! Builds for systems with an older glibc: zig's linker provides that version's symbols.
//!
//! Only linking differs. The Rust standard library looks up functions of later versions at run time.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::cache;
use crate::install;
use crate::process::{command, run};
use crate::venv;
use crate::workspace::Workspace;

/// The linker that cargo runs. rustc derives the linker flavor from its name.
const LINKER: &str = include_str!("glibc/cc.sh");

/// The package with zig.
const PACKAGES: &[&str] = &["ziglang>=0.14"];

/// This machine's own glibc, as the command line names it.
const OWN: &str = "own";

/// The version that wheels are for where zig is installed: that of the oldest systems that are still maintained.
const OF_WHEELS: &str = "2.28";

/// Set in the process that links for another version.
const TARGET: &str = "HIPDNN_LINK_TARGET";

/// Parses the version that wheels are for.
pub fn parse_of_wheels(text: &str) -> Result<String, String> {
    if text == OWN { Ok(OWN.to_owned()) } else { parse(text) }
}

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
        .env(TARGET, format!("{arch}-linux-gnu.{version}"))
        .env("HIPDNN_LINK_UNWINDER", unwinder.trim());
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{} failed", words.join(" ")))) }
}

/// Builds the wheels of another version, by default of [`OF_WHEELS`], in this folder. False if this process is to build them for its
/// machine's own: that is asked for, or zig is not installed.
pub fn wheels(workspace: &Workspace, asked: Option<&str>) -> Result<bool, Failure> {
    let is_child = env::var_os(TARGET).is_some();
    let has_zig = folder().is_ok_and(|folder| venv::is_ready(&folder));
    let Some(version) = version_of_wheels(asked, is_child, has_zig) else { return Ok(false) };
    again(workspace, version, &["wheel"])?;
    let (made, out) =
        (workspace.target_dir().join(format!("glibc-{version}/xtask/wheel")), workspace.scratch("wheel"));
    install::remove(&out)?;
    for entry in fs::read_dir(made)? {
        let file = entry?.path();
        install::copy(&file, &out.join(file.file_name().unwrap_or_default()))?;
    }
    println!("the wheels are in {}", workspace.relative(&out));
    Ok(true)
}

fn version_of_wheels(asked: Option<&str>, is_child: bool, has_zig: bool) -> Option<&str> {
    match asked {
        _ if is_child => None,
        Some(OWN) => None,
        Some(version) => Some(version),
        None => has_zig.then_some(OF_WHEELS),
    }
}

/// The newest version 2.N of glibc whose symbols a library uses. A library that needs a newer one than this process links for is refused.
pub fn needed(library: &Path) -> Result<u32, Failure> {
    let bytes = fs::read(library)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", library.display())))?;
    let target = env::var(TARGET).ok();
    let wanted = target.as_deref().and_then(|target| target.rsplit_once(".2.")).map(|(_, minor)| minor);
    within(newest_in(&bytes), wanted.and_then(|minor| minor.parse().ok()))
        .map_err(|words| Failure::new(format!("{}: {words}", library.display())))
}

fn within(newest: u32, wanted: Option<u32>) -> Result<u32, String> {
    match wanted {
        Some(wanted) if newest > wanted => {
            Err(format!("it has symbols of glibc 2.{newest}, expected at most 2.{wanted}"))
        }
        _ => Ok(newest),
    }
}

fn newest_in(bytes: &[u8]) -> u32 {
    const NAME: &[u8] = b"\0GLIBC_2.";
    let minor = |rest: &[u8]| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0_u32, |number, digit| number.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
    };
    let found = bytes.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    found.filter_map(|(at, _)| bytes.get(at + NAME.len()..)).map(minor).max().unwrap_or(0)
}

fn folder() -> Result<PathBuf, Failure> {
    cache::folder("HIPDNN_ZIG_ENV", "zig-env")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_are_for_older_systems_where_zig_is() {
        assert_eq!(version_of_wheels(None, false, true), Some("2.28"));
        assert_eq!(version_of_wheels(None, false, false), None);
        assert_eq!(version_of_wheels(Some("2.31"), false, false), Some("2.31"));
        assert_eq!(version_of_wheels(Some("own"), false, true), None);
        assert_eq!(version_of_wheels(None, true, true), None);
        assert_eq!(parse_of_wheels("own").as_deref(), Ok("own"));
        assert!(parse_of_wheels("1").is_err());
    }

    #[test]
    fn versions() {
        assert_eq!(parse("2.28").as_deref(), Ok("2.28"));
        for text in ["2.5", "2.x", "3.1", "28", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_newest_symbol_counts() {
        assert_eq!(newest_in(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.17\0GLIBCXX_3.4.99\0"), 34);
        assert_eq!(newest_in(b"nothing"), 0);
    }

    #[test]
    fn a_library_for_newer_systems_is_refused() {
        let own = newest_in(&fs::read(env::current_exe().unwrap()).unwrap());
        assert!(own > 17, "2.{own}");
        assert_eq!(within(own, None), Ok(own));
        assert_eq!(within(own, Some(own)), Ok(own));
        let expected = format!("it has symbols of glibc 2.{own}, expected at most 2.17");
        assert_eq!(within(own, Some(17)), Err(expected));
    }
}
