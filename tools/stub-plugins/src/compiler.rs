//! The compilers for C and C++ of the machine that tests run on.

use std::process::Command;
use std::sync::OnceLock;

/// A language that tests compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C; its compiler is `CC`, or else the system's.
    C,
    /// C++; its compiler is `CXX`, or else the system's.
    Cxx,
}

/// The compiler for a language, without options. If none is found, the usual name, so that starting it fails with that name.
pub fn compiler(language: Language) -> Command {
    static FOUND: [OnceLock<Option<cc::Tool>>; 2] = [const { OnceLock::new() }; 2];
    let [c, cxx] = &FOUND;
    let (found, usual) = match language {
        Language::C => (c, "cc"),
        Language::Cxx => (cxx, "c++"),
    };
    let found = found.get_or_init(|| find(language == Language::Cxx).ok());
    found.as_ref().map_or_else(|| Command::new(usual), cc::Tool::to_command)
}

fn find(is_cxx: bool) -> Result<cc::Tool, cc::Error> {
    let mut build = cc::Build::new();
    build.target(env!("TARGET")).host(env!("TARGET")).opt_level(0).debug(false).cpp(is_cxx);
    // Tests choose their options, and no build script reads what is printed.
    build.no_default_flags(true).warnings(false).cargo_metadata(false).cargo_warnings(false);
    build.try_get_compiler()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compilers_compile_their_language() {
        for (language, name, text) in [
            (Language::C, "c", "int f(void) { return 0; }"),
            (Language::Cxx, "c++", "int f() { return []{ return 0; }(); }"),
        ] {
            let file = std::env::temp_dir().join(format!("compiler-{name}-{}", std::process::id()));
            std::fs::write(&file, text).unwrap();
            let status = compiler(language).args(["-fsyntax-only", "-x", name]).arg(&file).status();
            std::fs::remove_file(&file).unwrap();
            assert!(status.unwrap().success(), "{language:?}");
        }
    }
}
