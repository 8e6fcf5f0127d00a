//! Says for which system the crate is built: the crate `cc` looks for that system's compilers.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=TARGET={}", std::env::var("TARGET").unwrap_or_default());
}
