//! Prints a C++ program that compiles where `hip/hiprtc.h` and `hip/hip_runtime_api.h` have the functions and numbers that this
//! plugin counts on.

use hipdnn_plugin_sdk::dynlib::Signature;
use hipdnn_rtc_plugin::hiprtc::{self, Hiprtc};
use hipdnn_rtc_plugin::module::Modules;

const PROLOGUE: &str = r#"#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#include <type_traits>

// How a type is passed: its size and whether it is an address, an integer or an enumeration.
template <class T> constexpr int passed()
{
    return std::is_pointer_v<T> ? 1 : std::is_integral_v<T> || std::is_enum_v<T> ? 10 + int(sizeof(T)) : 0;
}
template <int... EXPECTED, class R, class... A> constexpr bool same(R (*)(A...))
{
    constexpr int expected[] = {EXPECTED...}, actual[] = {passed<R>(), passed<A>()...};
    if(sizeof(expected) != sizeof(actual)) return false;
    for(unsigned i = 0; i < sizeof(expected) / sizeof(int); i++)
        if(expected[i] != actual[i]) return false;
    return true;
}
"#;

/// How a type is passed, by the numbers above.
fn passed(rust: &str) -> &'static str {
    match rust {
        "c_int" | "c_uint" | "hipError_t" | "hiprtcResult" => "14",
        pointer if pointer.starts_with('*') || pointer.ends_with("_t") || pointer == "hiprtcProgram" => "1",
        _ => "-1",
    }
}

fn compare(signatures: &[Signature]) {
    for signature in signatures {
        let types = std::iter::once(signature.result).chain(signature.arguments.iter().copied());
        let numbers: Vec<&str> = types.map(passed).collect();
        println!("static_assert(same<{}>(&{1}), \"{1}\");", numbers.join(", "), signature.name);
    }
}

fn main() {
    print!("{PROLOGUE}");
    compare(Hiprtc::SIGNATURES);
    compare(Modules::SIGNATURES);
    println!("static_assert(HIPRTC_SUCCESS == {}, \"HIPRTC_SUCCESS\");", hiprtc::HIPRTC_SUCCESS);
    println!("int main() {{}}");
}
