//! Keeps the plugin in memory once it is loaded.
//!
//! The threads of its pool live as long as the process. If a host unloaded the library, their code would go away under them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
    }
}
