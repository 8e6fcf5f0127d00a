//! The build script of every plugin: keeps it in memory once it is loaded, and its functions together.
//!
//! The threads of a pool, the libraries that a plugin has opened and what it knows of them live as long as the process. If a
//! host unloaded the plugin, the threads' code would go away under them, and the rest would be lost and opened again.

fn main() {
    println!("cargo::rerun-if-changed=../keep_loaded.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
        // Every plugin has functions of the same names. What one calls of its own is its own.
        println!("cargo::rustc-link-arg-cdylib=-Wl,-Bsymbolic");
    }
}
