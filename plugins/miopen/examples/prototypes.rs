//! Prints a C++ program that compiles where `miopen/miopen.h` has the functions, numbers and layouts that this plugin
//! counts on. (The header is C++, although it says it is C.)

use std::mem::offset_of;

use hipdnn_miopen_plugin::miopen::{CONSTANTS, Miopen, miopenTensorArgument_t};

const PROLOGUE: &str = r#"#define __HIP_PLATFORM_AMD__ 1
#define MIOPEN_BETA_API 1
#include <cstddef>
#include <hip/hip_runtime_api.h>
#include <miopen/miopen.h>
#include <type_traits>

// How a type is passed: p pointer, i 32-bit integer or enumeration, l 64-bit integer, f float, d double, b bool, v nothing.
template <class T> constexpr char passed()
{
    if constexpr(std::is_void_v<T>) return 'v';
    else if constexpr(std::is_pointer_v<T>) return 'p';
    else if constexpr(std::is_same_v<T, float>) return 'f';
    else if constexpr(std::is_same_v<T, double>) return 'd';
    else if constexpr(std::is_same_v<T, bool>) return 'b';
    else if constexpr((std::is_integral_v<T> || std::is_enum_v<T>) && sizeof(T) == 4) return 'i';
    else if constexpr(std::is_integral_v<T> && sizeof(T) == 8) return 'l';
    else return '?';
}
template <std::size_t N, class R, class... A> constexpr bool same(R (*)(A...), const char (&expected)[N])
{
    const char actual[] = {passed<R>(), passed<A>()..., 0};
    if(sizeof(actual) != N) return false;
    for(std::size_t i = 0; i < N; i++)
        if(actual[i] != expected[i]) return false;
    return true;
}
"#;

/// How a type is passed, by the letters above.
fn passed(rust: &str) -> char {
    match rust {
        "" => 'v',
        "c_int" | "c_uint" | "i32" | "miopenStatus_t" => 'i',
        "usize" => 'l',
        "f64" => 'd',
        "f32" => 'f',
        "bool" => 'b',
        pointer if pointer.starts_with('*') || pointer.ends_with("_t") => 'p',
        _ => '?',
    }
}

fn main() {
    print!("{PROLOGUE}");
    for signature in Miopen::SIGNATURES {
        let arguments = signature.arguments.iter().copied();
        let letters: String = std::iter::once(signature.result).chain(arguments).map(passed).collect();
        println!("static_assert(same(&{0}, \"{letters}\"), \"{0}\");", signature.name);
    }
    for (name, value) in CONSTANTS {
        println!("static_assert(static_cast<long long>({name}) == {value}, \"{name}\");");
    }
    type Argument = miopenTensorArgument_t;
    println!("static_assert(sizeof(miopenTensorArgument_t) == {});", size_of::<Argument>());
    for (field, offset) in [
        ("id", offset_of!(Argument, id)),
        ("descriptor", offset_of!(Argument, descriptor)),
        ("buffer", offset_of!(Argument, buffer)),
    ] {
        println!("static_assert(offsetof(miopenTensorArgument_t, {field}) == {offset});");
    }
    println!("int main() {{}}");
}
