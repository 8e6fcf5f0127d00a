//! Generates a C++ program that compiles if a library's headers agree with a plugin's declarations.
//!
//! A [`function_table!`](crate::function_table) declares a library's functions in Rust. Plugins are built
//! without the library's headers, so the build cannot compare them. Where the headers are installed, a C++
//! compiler checks what [`Prototypes`] writes.

use std::fmt::Write;

use crate::dynlib::Signature;

/// How types are passed: v nothing, p pointer, i 32-bit integer or enumeration, l 64-bit integer, f float, d double, b bool.
const PASSED: &str = r"#include <cstddef>
#include <type_traits>

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
";

/// Declares enumeration constants with their values, and `CONSTANTS`, a list of them with the header's names.
#[macro_export]
macro_rules! header_constants {
    ($($(#[$doc:meta])* $name:ident: $type:ident = $spelling:ident $value:literal;)+) => {
        $(
            $(#[$doc])*
            pub const $name: $type = $value;
        )+

        /// The header's name for each constant, and its value here.
        pub const CONSTANTS: &[(&str, i64)] = &[$((stringify!($spelling), $name as i64)),+];
    };
}

/// A plugin's declarations, as the text of a program.
pub struct Prototypes {
    text: String,
    integers: &'static [&'static str],
    pointers: &'static [&'static str],
}

impl Prototypes {
    /// A program that begins with `head`, the lines that include the headers. In signatures, `integers` are
    /// the names of 32-bit integers, `pointers` those of pointers. Other names that end in `_t` are pointers
    /// too.
    #[must_use]
    pub fn new(head: &str, integers: &'static [&'static str], pointers: &'static [&'static str]) -> Self {
        Self { text: format!("{head}{PASSED}"), integers, pointers }
    }

    /// Asserts that the functions have these signatures.
    #[must_use]
    pub fn functions(mut self, signatures: &[Signature]) -> Self {
        for signature in signatures {
            let types = std::iter::once(signature.result).chain(signature.arguments.iter().copied());
            let letters: String = types.map(|name| self.passed(name)).collect();
            self.line(format_args!("static_assert(same(&{0}, \"{letters}\"), \"{0}\");", signature.name));
        }
        self
    }

    /// Asserts that the constants have these values.
    #[must_use]
    pub fn constants(mut self, constants: &[(&str, i64)]) -> Self {
        for (name, value) in constants {
            self.line(format_args!("static_assert(static_cast<long long>({name}) == {value}, \"{name}\");"));
        }
        self
    }

    /// Asserts that the struct has this size in bytes and its fields these offsets.
    #[must_use]
    pub fn layout(mut self, name: &str, size: usize, fields: &[(&str, usize)]) -> Self {
        self.line(format_args!("static_assert(sizeof({name}) == {size}, \"{name}\");"));
        for (field, offset) in fields {
            self.line(format_args!(
                "static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");"
            ));
        }
        self
    }

    /// The program.
    #[must_use]
    pub fn program(mut self) -> String {
        self.line(format_args!("int main() {{}}"));
        self.text
    }

    fn passed(&self, name: &str) -> char {
        match name {
            "" => 'v',
            "c_int" | "c_uint" | "i32" => 'i',
            "usize" | "i64" | "u64" => 'l',
            "f64" => 'd',
            "f32" => 'f',
            "bool" => 'b',
            integer if self.integers.contains(&integer) => 'i',
            pointer if pointer.starts_with('*') || pointer.ends_with("_t") => 'p',
            pointer if self.pointers.contains(&pointer) => 'p',
            _ => '?',
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_become_letters() {
        let signatures = [Signature {
            name: "it",
            result: "status_t",
            arguments: &["*const c_void", "handle", "usize", "f32", "it_t", "Something"],
            required: true,
        }];
        let program = Prototypes::new("#include <it.h>\n", &["status_t"], &["handle"])
            .functions(&signatures)
            .constants(&[("ONE", 1)])
            .layout("pair", 8, &[("second", 4)])
            .program();
        assert!(program.starts_with("#include <it.h>\n#include <cstddef>"));
        for line in [
            "static_assert(same(&it, \"ipplfp?\"), \"it\");",
            "static_assert(static_cast<long long>(ONE) == 1, \"ONE\");",
            "static_assert(sizeof(pair) == 8, \"pair\");",
            "static_assert(offsetof(pair, second) == 4, \"pair.second\");",
            "int main() {}",
        ] {
            assert!(program.contains(line), "{line}\n{program}");
        }
    }
}
