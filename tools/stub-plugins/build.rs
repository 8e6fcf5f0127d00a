//! Records the target system, for which the crate `cc` looks for compilers.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=TARGET={}", std::env::var("TARGET").unwrap_or_default());
}
