//! Lets the plugins find the `dlsym` of this program before the C library's.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=dlsym");
}
