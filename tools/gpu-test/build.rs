//! Exports this program's `dlsym` and HIP functions, so that plugins and AMD's libraries find them first.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=dlsym");
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=hip*");
}
