//! Gives the library its SONAME, keeps it in memory and its functions together, and sets the version it reports.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The plain file name: programs linked against any release of the library find this one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhipdnn_backend.so");

    // A program may close the library while threads live that have used it, and plugins keep pointers to its functions: once
    // loaded it stays, as its tables do.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");

    // What the library calls of its own is its own, also where another library of the process has functions of the same names.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");

    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    // Frontends compare the major number with their own: a distribution may ship this library for those of another one.
    println!("cargo::rerun-if-env-changed=HIPDNN_REPORTED_VERSION");
    let reported = std::env::var("HIPDNN_REPORTED_VERSION").ok().filter(|text| !text.is_empty());
    let reported = reported.unwrap_or(version);
    let is_version =
        reported.split('.').count() == 3 && reported.split('.').all(|part| part.parse::<u16>().is_ok());
    assert!(is_version, "HIPDNN_REPORTED_VERSION is {reported:?}, expected MAJOR.MINOR.PATCH");
    println!("cargo::rustc-env=HIPDNN_BACKEND_VERSION_STRING={reported}.{commit}");
    println!("cargo::rustc-env=HIPDNN_BACKEND_COMMIT={commit}");
}

/// The short hash of the commit a release is built from. Other profiles do without it, so that a commit does not
/// rebuild what is being worked on.
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
    // Every move of HEAD adds a line to its log. A path that does not exist would rebuild each time.
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
