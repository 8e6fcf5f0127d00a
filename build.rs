//! Sets the version that the library reports, and the linker options of each system.

#[path = "plugins/linking.rs"]
mod linking;

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    // Frontends compare the major number with their own, so a distribution may build for frontends of another version.
    println!("cargo::rerun-if-env-changed=HIPDNN_REPORTED_VERSION");
    let reported = std::env::var("HIPDNN_REPORTED_VERSION").ok().filter(|text| !text.is_empty());
    let reported = reported.unwrap_or(version);
    let is_version =
        reported.split('.').count() == 3 && reported.split('.').all(|part| part.parse::<u16>().is_ok());
    assert!(is_version, "HIPDNN_REPORTED_VERSION is {reported:?}, expected MAJOR.MINOR.PATCH");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("linux") => mark_for_linux(),
        Ok("windows") => mark_for_windows(&reported, &commit),
        _ => {}
    }
    println!("cargo::rustc-env=HIPDNN_BACKEND_VERSION_STRING={reported}.{commit}");
    println!("cargo::rustc-env=HIPDNN_BACKEND_COMMIT={commit}");
}

fn mark_for_linux() {
    // The soname has no version, so programs linked against any release find this one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhipdnn_backend.so");

    // Never unload: a program may close the library while its threads still run, and plugins keep pointers to its functions.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");

    // Bind calls inside the library to its own functions, even if another library in the process has the same names.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");

    println!("cargo::rerun-if-changed=plugins/linking.rs");
    for option in linking::options() {
        println!("cargo::rustc-cdylib-link-arg={option}");
    }
}

/// Adds the version that the Explorer and installers show, with the resource compiler that comes with the linker. Microsoft's
/// is not always on the path, so builds with that linker have no version resource.
fn mark_for_windows(version: &str, commit: &str) {
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        return;
    }
    let folder = std::env::var("OUT_DIR").unwrap_or_default();
    let (script, object) = (format!("{folder}/version.rc"), format!("{folder}/version.o"));
    let numbers = version.replace('.', ",");
    let text = format!(
        "1 VERSIONINFO\nFILEVERSION {numbers},0\nPRODUCTVERSION {numbers},0\nFILEOS 0x40004\nFILETYPE 2\nBEGIN\n\
         BLOCK \"StringFileInfo\"\nBEGIN\nBLOCK \"040904b0\"\nBEGIN\n\
         VALUE \"FileDescription\", \"hipDNN backend\"\n\
         VALUE \"FileVersion\", \"{version}\"\n\
         VALUE \"InternalName\", \"hipdnn_backend\"\n\
         VALUE \"OriginalFilename\", \"hipdnn_backend.dll\"\n\
         VALUE \"ProductName\", \"hipDNN\"\n\
         VALUE \"ProductVersion\", \"{version}.{commit}\"\n\
         END\nEND\nBLOCK \"VarFileInfo\"\nBEGIN\nVALUE \"Translation\", 0x409, 1200\nEND\nEND\n"
    );
    assert!(std::fs::write(&script, text).is_ok(), "{script} cannot be written");
    let compilers = ["x86_64-w64-mingw32-windres", "windres"];
    let compiles = |compiler: &&str| {
        let mut command = Command::new(compiler);
        command
            .args(["-O", "coff", "-i", &script, "-o", &object])
            .status()
            .is_ok_and(|status| status.success())
    };
    assert!(compilers.iter().any(compiles), "{script} was compiled by none of {}", compilers.join(", "));
    println!("cargo::rustc-cdylib-link-arg={object}");
}

/// The short hash of the commit a release is built from. Other profiles omit it, so that a commit does not trigger a
/// rebuild during development.
fn commit() -> Option<String> {
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return None;
    }
    let folder = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    // A copy of the sources inside someone else's repository is not at that repository's commit.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != Path::new(&folder).canonicalize().ok()? {
        return None;
    }
    // Every move of HEAD adds a line to its log. A path that does not exist would trigger a rebuild each time.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
