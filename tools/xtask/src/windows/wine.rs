//! Wine, which runs Windows programs: its prefix folder, and a function that older versions lack.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::LINKER;
use crate::Failure;
use crate::process::{command, run, run_within};
use crate::tools::{self, Tool};
use crate::workspace::Workspace;

/// On Debian the program is not in the search path.
const WINE: Tool = Tool::new("/usr/lib/wine/wine64", "wine64");
const ZLIB: Tool = Tool::new("/usr/x86_64-w64-mingw32/lib/zlib1.dll", "libz-mingw-w64");
/// The tools needed to run programs.
pub const TOOLS: [&Tool; 2] = [&WINE, &ZLIB];

const PROGRAM: &str = "/usr/lib/wine/wine64";

/// Rust programs need a random number function of Windows 10, which wine has since version 9.
const RANDOM: &str = "#include <windows.h>\n\
    BOOLEAN NTAPI SystemFunction036(PVOID to, ULONG length);\n\
    __declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T length)\n\
    { return SystemFunction036(to, (ULONG)length); }\n";

/// How long wine may take to create a prefix.
const LIMIT: Duration = Duration::from_secs(600);

/// A wine prefix.
pub struct Wine {
    prefix: PathBuf,
    /// Where programs find the libraries of GCC.
    libraries: String,
}

impl Wine {
    /// Creates the prefix if necessary.
    pub fn ready(workspace: &Workspace) -> Result<Self, Failure> {
        tools::require(&[TOOLS[0], TOOLS[1], &LINKER])?;
        let folder = workspace.scratch("windows");
        let wine = Self { prefix: folder.join("prefix"), libraries: libraries()? };
        let system = wine.prefix.join("drive_c/windows/system32");
        if !system.join("kernel32.dll").is_file() {
            fs::create_dir_all(&wine.prefix)?;
            run_within(&mut wine.command("wineboot", [""; 0]), LIMIT)?;
        }
        fs::copy("/usr/x86_64-w64-mingw32/lib/zlib1.dll", system.join("zlib1.dll"))?;
        let random = system.join("bcryptprimitives.dll");
        if !random.is_file() {
            let source = folder.join("bcryptprimitives.c");
            fs::write(&source, RANDOM)?;
            let mut compiler = command("x86_64-w64-mingw32-gcc", ["-shared", "-O1", "-o"]);
            run(compiler.arg(&random).arg(&source).arg("-ladvapi32"))?;
        }
        Ok(wine)
    }

    /// A Windows program.
    pub fn command<S: AsRef<std::ffi::OsStr>>(
        &self,
        program: impl AsRef<std::ffi::OsStr>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut wine = command(PROGRAM, [program]);
        wine.args(arguments);
        self.prepare(&mut wine);
        wine
    }

    /// Sets the prefix for a command that may start wine.
    pub fn prepare(&self, command: &mut Command) {
        command.env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all").env("WINEPATH", &self.libraries);
        command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", PROGRAM);
    }
}

/// A path in Windows form.
pub fn path(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

/// The folders of the mingw-w64 libraries that tests link.
fn libraries() -> Result<String, Failure> {
    let of = |name: &str| {
        let found = run(&mut command(super::CC, [format!("-print-file-name={name}")]))?;
        let folder = fs::canonicalize(found.trim()).ok().and_then(|file| Some(file.parent()?.to_owned()));
        folder.ok_or_else(|| Failure::new(format!("mingw-w64 has no {name}")))
    };
    let folders = [of("libstdc++-6.dll")?, of("libwinpthread-1.dll")?];
    Ok(folders.map(|folder| path(&folder)).join(";"))
}
