//! Programs of the system that the project needs, installed if missing and possible.

use crate::Failure;
use crate::process::{command, exists, run};

/// A program, by its name or a file's path, and its Debian package.
pub struct Tool {
    program: &'static str,
    package: &'static str,
}

impl Tool {
    /// A program of a package.
    pub const fn new(program: &'static str, package: &'static str) -> Self {
        Self { program, package }
    }
}

/// The C compiler.
pub const CC: Tool = Tool { program: "gcc", package: "gcc" };
/// The C++ compiler.
pub const CXX: Tool = Tool { program: "g++", package: "g++" };
/// clang, which ROCm's compilers are.
pub const CLANG: Tool = Tool { program: "clang++", package: "clang" };
/// CMake.
pub const CMAKE: Tool = Tool { program: "cmake", package: "cmake" };
/// CMake's build program.
pub const MAKE: Tool = Tool { program: "make", package: "make" };
/// pkg-config.
pub const PKG_CONFIG: Tool = Tool { program: "pkg-config", package: "pkg-config" };

/// Splits off debug information; nm, readelf and strip come with it.
pub const OBJCOPY: Tool = Tool { program: "objcopy", package: "binutils" };

/// valgrind, which finds leaks and invalid memory accesses.
pub const VALGRIND: Tool = Tool { program: "valgrind", package: "valgrind" };

/// Python, with virtual environments.
pub const PYTHON: Tool = Tool { program: "python3", package: "python3-venv" };

/// Builds Debian packages.
pub const DPKG_DEB: Tool = Tool { program: "dpkg-deb", package: "dpkg" };
/// Compresses archives.
pub const XZ: Tool = Tool { program: "xz", package: "xz-utils" };

/// The FlatBuffers compiler.
pub const FLATC: Tool = Tool { program: "flatc", package: "flatbuffers-compiler" };
/// The FlatBuffers library, which is a header.
pub const FLATBUFFERS: Tool =
    Tool { program: "/usr/include/flatbuffers/flatbuffers.h", package: "libflatbuffers-dev" };

/// Makes sure that the programs are installed.
pub fn require(tools: &[&Tool]) -> Result<(), Failure> {
    prepare(tools, &[]).map(|_| ())
}

/// Installs all missing tools at once. Required tools that cannot be installed are a failure, optional ones are named in the
/// result, in either case with one command that installs them all.
pub fn prepare(required: &[&Tool], optional: &[&Tool]) -> Result<String, Failure> {
    let mut missing = missing([required, optional].concat());
    let mut why = String::new();
    if !missing.is_empty() {
        why = install(&missing).err().map(|failure| format!("\n{failure}")).unwrap_or_default();
        missing.retain(|tool| !exists(tool.program));
    }
    if missing.is_empty() {
        return Ok(String::new());
    }
    let message = by_hand(&missing);
    if required.iter().any(|tool| !exists(tool.program)) {
        return Err(Failure::new(format!("{message}{why}")));
    }
    Ok(format!("{message}; what takes them is left out"))
}

/// The missing ones of some tools, with the command that installs them; none if all are installed.
pub fn lacking(tools: &[&Tool]) -> Option<String> {
    let missing = missing(tools.to_vec());
    (!missing.is_empty()).then(|| by_hand(&missing))
}

/// Each missing tool, once.
fn missing(mut tools: Vec<&Tool>) -> Vec<&Tool> {
    tools.sort_by_key(|tool| tool.program);
    tools.dedup_by_key(|tool| tool.program);
    tools.retain(|tool| !exists(tool.program));
    tools
}

fn packages(tools: &[&Tool]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = tools.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn by_hand(tools: &[&Tool]) -> String {
    let programs: Vec<&str> = tools.iter().map(|tool| tool.program).collect();
    let packages = packages(tools).join(" ");
    format!("not installed: {} (Debian: sudo apt-get install {packages})", programs.join(", "))
}

fn install(tools: &[&Tool]) -> Result<(), Failure> {
    let mut words = installer().ok_or_else(|| Failure::new("this user can run neither apt-get nor sudo"))?;
    let packages = packages(tools);
    print!("(installing {}) ", packages.join(", "));
    words.extend(["install", "-y", "-q", "--no-install-recommends"]);
    words.extend(&packages);
    if apt(&words).is_err() {
        // A fresh machine has no package lists yet.
        let update: Vec<&str> =
            words.iter().copied().take_while(|word| *word != "install").chain(["update", "-q"]).collect();
        apt(&update).and_then(|()| apt(&words))?;
    }
    Ok(())
}

/// The command for an apt-get that may install.
fn installer() -> Option<Vec<&'static str>> {
    if !exists("apt-get") {
        return None;
    }
    let root = command("id", ["-u"]).output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    if root {
        return Some(vec!["apt-get"]);
    }
    // -n: asking for a password would wait forever in a job without a terminal.
    let sudo = exists("sudo") && command("sudo", ["-n", "true"]).output().is_ok_and(|o| o.status.success());
    sudo.then(|| vec!["sudo", "-n", "apt-get"])
}

fn apt(words: &[&str]) -> Result<(), Failure> {
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::new("no command"))?;
    run(command(program, arguments).env("DEBIAN_FRONTEND", "noninteractive")).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_listed_once_with_one_command() {
        let (one, other) = (Tool::new("no-such-b", "second"), Tool::new("no-such-a", "first"));
        let (same, here) = (Tool::new("no-such-c", "first"), Tool::new("sh", "dash"));
        assert_eq!(lacking(&[&here]), None);
        assert_eq!(lacking(&[&here, &one]), Some(by_hand(&[&one])));
        let missing = missing(vec![&one, &other, &here, &same, &one]);
        let wanted =
            "not installed: no-such-a, no-such-b, no-such-c (Debian: sudo apt-get install first second)";
        assert_eq!(by_hand(&missing), wanted);
    }
}
