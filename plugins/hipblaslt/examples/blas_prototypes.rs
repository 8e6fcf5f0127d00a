//! Prints a C++ program that compiles where `hipblaslt/hipblaslt.h` and `rocblas/rocblas.h` have the functions, numbers and
//! layouts that this plugin counts on.

use std::mem::offset_of;

use hipdnn_hipblaslt_plugin::hipblaslt::{
    self, HipblasLt, hipblasLtMatmulAlgo_t, hipblasLtMatmulHeuristicResult_t,
};
use hipdnn_hipblaslt_plugin::rocblas::{self, Rocblas};
use hipdnn_plugin_sdk::dynlib::Signature;

const PROLOGUE: &str = r#"#define __HIP_PLATFORM_AMD__ 1
#include <cstddef>
#include <hip/hip_runtime_api.h>
#include <hipblaslt/hipblaslt.h>
#include <rocblas/rocblas.h>
#include <type_traits>

// The macros of this header that have the names of functions stand before them.
#undef rocblas_gemm_strided_batched_ex

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
        "c_int" | "c_uint" | "i32" | "hipblasStatus_t" | "rocblas_status" => "14",
        "i64" | "u64" | "usize" => "18",
        pointer if pointer.starts_with('*') || pointer.ends_with("_t") || pointer == "rocblas_handle" => "1",
        _ => "-1",
    }
}

fn functions(signatures: &[Signature]) {
    for signature in signatures {
        let types = std::iter::once(signature.result).chain(signature.arguments.iter().copied());
        let numbers: Vec<&str> = types.map(passed).collect();
        println!("static_assert(same<{}>(&{1}), \"{1}\");", numbers.join(", "), signature.name);
    }
}

fn constants(constants: &[(&str, i64)]) {
    for (name, value) in constants {
        println!("static_assert(static_cast<long long>({name}) == {value}, \"{name}\");");
    }
}

fn layout(name: &str, size: usize, fields: &[(&str, usize)]) {
    println!("static_assert(sizeof({name}) == {size});");
    for (field, offset) in fields {
        println!("static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");");
    }
}

fn main() {
    print!("{PROLOGUE}");
    functions(HipblasLt::SIGNATURES);
    functions(Rocblas::SIGNATURES);
    constants(hipblaslt::CONSTANTS);
    constants(rocblas::CONSTANTS);
    type Algo = hipblasLtMatmulAlgo_t;
    layout(
        "hipblasLtMatmulAlgo_t",
        size_of::<Algo>(),
        &[("data", offset_of!(Algo, data)), ("max_workspace_bytes", offset_of!(Algo, max_workspace_bytes))],
    );
    type Result = hipblasLtMatmulHeuristicResult_t;
    layout(
        "hipblasLtMatmulHeuristicResult_t",
        size_of::<Result>(),
        &[
            ("algo", offset_of!(Result, algo)),
            ("workspaceSize", offset_of!(Result, workspace_size)),
            ("state", offset_of!(Result, state)),
            ("wavesCount", offset_of!(Result, waves_count)),
            ("reserved", offset_of!(Result, reserved)),
        ],
    );
    println!("int main() {{}}");
}
