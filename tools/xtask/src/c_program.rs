//! C and C++ programs, compiled strictly against the staged library.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use crate::Failure;
use crate::extent::Extent;
use crate::process::{command, run};

/// Warnings as errors, as a careful user of the headers enables them.
pub const STRICT: &[&str] = &["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// The language of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C11.
    C,
    /// C++17.
    Cxx,
}

impl Language {
    /// By the file's extension.
    pub fn of(source: &Path) -> Result<Self, Failure> {
        match source.extension().and_then(|e| e.to_str()) {
            Some("c") => Ok(Self::C),
            Some("cpp") => Ok(Self::Cxx),
            _ => Err(Failure::new(format!("{}: .c or .cpp was expected", source.display()))),
        }
    }

    /// The compiler with the language's version.
    pub fn compiler(self) -> Command {
        match self {
            Self::C => found(stub_plugins::Language::C, "-std=c11"),
            Self::Cxx => found(stub_plugins::Language::Cxx, "-std=c++17"),
        }
    }

    /// The language in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "C11",
            Self::Cxx => "C++17",
        }
    }
}

/// A C++ compiler that tests use besides the machine's. ROCm's compilers are clang.
pub struct OtherCompiler {
    /// Its name in the tests.
    pub name: &'static str,
    words: &'static [&'static str],
}

/// clang with each standard library.
pub const CLANGS: [OtherCompiler; 2] = [
    OtherCompiler { name: "clang, libstdc++", words: &["-stdlib=libstdc++"] },
    OtherCompiler { name: "clang, libc++", words: &["-stdlib=libc++"] },
];

impl OtherCompiler {
    /// The compiler for C++17.
    pub fn compiler(&self) -> Command {
        command("clang++", self.words.iter().copied().chain(["-std=c++17"]))
    }

    /// Why it cannot be used here; none if it can.
    pub fn missing(&self) -> Option<String> {
        let mut compiler = self.compiler();
        compiler.args(["-fsyntax-only", "-include", "vector", "-x", "c++", "/dev/null"]);
        let packages = "sudo apt-get install clang libc++-dev libc++abi-dev";
        run(&mut compiler).err().map(|_| format!("it is not installed (Debian: {packages})"))
    }
}

/// Sanitizers that end a program on memory errors and undefined behaviour.
const SANITIZERS: &[&str] =
    &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

/// Without the words of what is undefined, programs compile in three quarters of the time. The types of objects with virtual
/// functions cannot be checked so.
const WITHOUT_WORDS: &str = "-fsanitize-undefined-trap-on-error";

/// The options of a compiler with sanitizers; for a change, undefined behaviour ends a program by a signal (SIGILL).
pub fn sanitizers(extent: Extent) -> Vec<&'static str> {
    let short = (!extent.is_whole()).then_some(WITHOUT_WORDS);
    SANITIZERS.iter().copied().chain(short).collect()
}

/// Why the machine's C++ compiler cannot instrument programs; none if it can.
pub fn no_sanitizers() -> Result<Option<&'static str>, Failure> {
    let library = run(Language::Cxx.compiler().arg("-print-file-name=libasan.so"))?;
    // A compiler without the file prints its bare name.
    Ok((!Path::new(library.trim()).is_absolute()).then_some("the compiler has no libasan"))
}

/// The machine's compiler with a language version.
fn found(language: stub_plugins::Language, version: &str) -> Command {
    let found = stub_plugins::compiler(language);
    command(found.get_program(), found.get_args().chain([OsStr::new(version)]))
}

/// A program to compile.
pub struct Program<'a> {
    /// Its language.
    pub language: Language,
    /// Its one source file.
    pub source: &'a Path,
    /// Whether it is compiled for speed.
    pub optimize: bool,
    /// Whether warnings are errors. Tests require it; a user's newer compiler may have more warnings.
    pub strict: bool,
    /// The libraries to link besides ours.
    pub libraries: &'a [&'a str],
}

impl Program<'_> {
    /// Compiles it against an installed tree and links it so that it finds the library there.
    pub fn build(&self, prefix: &Path, target: &Path) -> Result<(), Failure> {
        let lib = prefix.join("lib");
        self.build_with(&prefix.join("include"), &lib, &lib.display().to_string(), target)
    }

    /// Compiles it with headers and a library in any folders, and links it so that it finds the library in `runtime`.
    pub fn build_with(
        &self,
        headers: &Path,
        lib: &Path,
        runtime: &str,
        target: &Path,
    ) -> Result<(), Failure> {
        self.build_by(self.language.compiler(), headers, lib, runtime, target)
    }

    /// The same by another compiler, or with more options.
    pub fn build_by(
        &self,
        mut compiler: Command,
        headers: &Path,
        lib: &Path,
        runtime: &str,
        target: &Path,
    ) -> Result<(), Failure> {
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder)?;
        }
        compiler.args(STRICT.iter().filter(|&&flag| self.strict || flag != "-Werror"));
        // Only lines, for backtraces of sanitizers: types take a tenth of the compilation.
        compiler.arg(if self.optimize { "-O2" } else { "-g1" });
        // Every supported machine has POSIX, which plain C11 hides.
        compiler.arg("-D_POSIX_C_SOURCE=200809L");
        // The last one is for programs with the include paths of other frontends.
        let compat = (self.language == Language::Cxx).then_some("hipdnn/compat");
        for include in ["hipdnn/backend", "hipdnn/plugin", ""].into_iter().chain(compat) {
            compiler.arg("-I").arg(headers.join(include));
        }
        compiler.arg(self.source).arg("-o").arg(target);
        compiler.arg("-L").arg(lib).arg(format!("-Wl,-rpath,{runtime}"));
        compiler.args(["-lhipdnn_backend", "-lpthread", "-ldl"]).args(self.libraries);
        run(&mut compiler).map(|_| ())
    }
}

/// Builds every plugin with `build`, in parallel.
pub fn build_plugins(build: &(dyn Fn(&str) -> Result<(), Failure> + Sync)) -> Result<String, Failure> {
    let variants = stub_plugins::variants().map_err(Failure::new)?;
    let names = variants.iter().map(|variant| variant.name.as_str()).chain([stub_plugins::NULL]);
    let names = Mutex::new(names.collect::<Vec<_>>().into_iter());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let build = || {
        while let Some(name) = names.lock().ok().and_then(|mut names| names.next()) {
            build(name)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let builders: Vec<_> = (0..threads).map(|_| scope.spawn(build)).collect();
        builders
            .into_iter()
            .try_for_each(|builder| builder.join().unwrap_or_else(|_| Err(Failure::new("a build stopped"))))
    })?;
    Ok(format!("{} plugins", variants.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_behaviour_and_wrong_accesses_end_a_program_at_any_extent() {
        if no_sanitizers().unwrap().is_some() {
            return;
        }
        let folder = std::env::temp_dir().join(format!("hipdnn-sanitizers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let source = folder.join("main.cpp");
        let text = "int main(int count, char** words)\n{\n    int* values = new int[2]();\n    values[0] = 2147483647;\n    \
            const int sum = words[1][0] == 'o' ? values[0] + count : words[1][0] == 'a' ? values[count] : 0;\n    \
            delete[] values;\n    return sum != 0 ? 0 : count - 2;\n}\n";
        std::fs::write(&source, text).unwrap();
        for extent in [Extent::Change, Extent::Whole] {
            let program = folder.join("program");
            let mut compiler = Language::Cxx.compiler();
            run(compiler.args(sanitizers(extent)).arg(&source).arg("-o").arg(&program)).unwrap();
            for (word, is_right) in [("nothing", true), ("overflow", false), ("access", false)] {
                assert_eq!(run(&mut command(&program, [word])).is_ok(), is_right, "{extent:?} {word}");
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
