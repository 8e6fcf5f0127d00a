//! Programs of the system that the project needs: installed when they are missing and that is possible.

use crate::Failure;
use crate::process::{command, exists, run};

/// A program, by its name or the path of a file, and the Debian package it comes in.
pub struct Tool {
    program: &'static str,
    package: &'static str,
}

impl Tool {
    /// A program that comes in this package.
    pub const fn new(program: &'static str, package: &'static str) -> Self {
        Self { program, package }
    }
}

/// The C compiler.
pub const CC: Tool = Tool { program: "gcc", package: "gcc" };
/// The C++ compiler.
pub const CXX: Tool = Tool { program: "g++", package: "g++" };
/// CMake.
pub const CMAKE: Tool = Tool { program: "cmake", package: "cmake" };
/// What CMake builds with.
pub const MAKE: Tool = Tool { program: "make", package: "make" };
/// pkg-config.
pub const PKG_CONFIG: Tool = Tool { program: "pkg-config", package: "pkg-config" };

/// valgrind, which finds what is lost, and accesses outside of memory.
pub const VALGRIND: Tool = Tool { program: "valgrind", package: "valgrind" };

/// The FlatBuffers compiler.
pub const FLATC: Tool = Tool { program: "flatc", package: "flatbuffers-compiler" };
/// The FlatBuffers library, which is a header.
pub const FLATBUFFERS: Tool =
    Tool { program: "/usr/include/flatbuffers/flatbuffers.h", package: "libflatbuffers-dev" };

/// Makes sure that the programs are there.
pub fn require(tools: &[&Tool]) -> Result<(), Failure> {
    let missing: Vec<&Tool> = tools.iter().copied().filter(|tool| !exists(tool.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs = missing.iter().map(|tool| tool.program).collect::<Vec<_>>().join(", ");
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    let by_hand =
        format!("needed and not installed: {programs} (Debian: apt-get install {})", packages.join(" "));
    let Some(mut words) = installer() else {
        return Err(Failure::new(format!("{by_hand}; this user can run neither apt-get nor sudo")));
    };
    print!("(installing {}) ", packages.join(", "));
    words.extend(["install", "-y", "-q", "--no-install-recommends"]);
    words.extend(&packages);
    if apt(&words).is_err() {
        // A fresh machine has no package lists yet.
        let update: Vec<&str> =
            words.iter().copied().take_while(|word| *word != "install").chain(["update", "-q"]).collect();
        apt(&update).and_then(|()| apt(&words)).map_err(|e| Failure::new(format!("{by_hand}\n{e}")))?;
    }
    let still: Vec<&str> =
        missing.iter().map(|tool| tool.program).filter(|program| !exists(program)).collect();
    if still.is_empty() { Ok(()) } else { Err(Failure::new(by_hand)) }
}

/// The words that start an apt-get with the right to install.
fn installer() -> Option<Vec<&'static str>> {
    if !exists("apt-get") {
        return None;
    }
    let root = command("id", ["-u"]).output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    if root {
        return Some(vec!["apt-get"]);
    }
    // -n: a question for a password would wait for ever where nobody sits.
    let sudo = exists("sudo") && command("sudo", ["-n", "true"]).output().is_ok_and(|o| o.status.success());
    sudo.then(|| vec!["sudo", "-n", "apt-get"])
}

fn apt(words: &[&str]) -> Result<(), Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::new("no command"))?;
    run(command(program, arguments).env("DEBIAN_FRONTEND", "noninteractive")).map(|_| ())
}
