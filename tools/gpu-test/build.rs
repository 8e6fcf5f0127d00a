//! Lets the plugins find the `dlsym` of this program before the C library's, and AMD's libraries its functions of HIP before the
//! runtime's.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=dlsym");
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=hip*");
}
