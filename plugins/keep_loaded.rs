//! The build script of all plugins: keeps a plugin loaded for the life of the process, binds its symbols to itself, and makes it open soon.
//!
//! A plugin's thread pool, the libraries it has opened and its caches live as long as the process. If a host
//! unloaded the plugin, running threads would lose their code, and the rest would leak and be created anew.

mod linking;

fn main() {
    let own = if std::path::Path::new("../keep_loaded.rs").exists() { ".." } else { "../../plugins" };
    println!("cargo::rerun-if-changed={own}/keep_loaded.rs");
    println!("cargo::rerun-if-changed={own}/linking.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-cdylib=-Wl,-z,nodelete");
        // All plugins export functions with the same names. Calls within a plugin must stay within it.
        println!("cargo::rustc-link-arg-cdylib=-Wl,-Bsymbolic");
        for option in linking::options() {
            println!("cargo::rustc-link-arg-cdylib={option}");
        }
    }
}
