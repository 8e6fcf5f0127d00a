//! Options for linkers that know them, by which a library is opened sooner: part of build scripts, not a crate of its own.
//!
//! A process pays for each page that it touches first. The loader writes to every page with addresses, so equal constants of a crate's
//! many units are folded into one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folds equal functions and constants. Nothing here compares the addresses of either; a second pair of `call_frames!` in one library
/// would need `--keep-unique`.
const FOLD: [&str; 2] = ["-Wl,--icf=all", "-Wl,--ignore-data-address-equality"];

/// A library without anything to link with.
const PROBE: &str =
    "#![no_std]\n#[panic_handler]\nfn end(_: &core::panic::PanicInfo) -> ! {\n    loop {}\n}\n";

/// The options that the linker of this build knows, in a release of a library for Linux.
pub fn options() -> Vec<String> {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // Sanitizers put what they must tell apart between constants.
    if !is_release || flags.contains("sanitize") {
        return Vec::new();
    }
    let options = FOLD.map(str::to_owned).to_vec();
    if is_known(&options, &flags) { options } else { Vec::new() }
}

/// Whether the linker makes a library with these options.
fn is_known(options: &[String], flags: &str) -> bool {
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let source = folder.join("probe.rs");
    let library = folder.join("libprobe.so");
    std::fs::write(&source, PROBE).is_ok() && links(&source, &library, options, flags)
}

fn links(source: &Path, library: &Path, options: &[String], flags: &str) -> bool {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort", "--target"]);
    rustc.arg(env::var_os("TARGET").unwrap_or_default());
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.args(options.iter().map(|option| format!("-Clink-arg={option}")));
    rustc.arg("-o").arg(library).arg(source).output().is_ok_and(|made| made.status.success())
}
