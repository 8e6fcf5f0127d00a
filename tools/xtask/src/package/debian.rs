//! Debian packages: the library, the development files and the programs, split as in distributions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::size;
use crate::Failure;
use crate::glibc;
use crate::install::{self, DOCUMENTS, files};
use crate::process::{command, run};
use crate::workspace::Workspace;

/// The variable with the packages' maintainer, `NAME <ADDRESS>`.
const MAINTAINER: &str = "HIPDNN_MAINTAINER";

/// The library's package, and the prefix of all others.
const NAME: &str = "hipdnn-backend";

/// One of the packages.
struct Component {
    /// Its name's suffix after [`NAME`].
    suffix: &'static str,
    section: &'static str,
    /// Its files, as path prefixes below /usr. The library's package has all files that belong to no other.
    begins: &'static [&'static str],
    /// The first line is a summary; the others begin with a space.
    description: &'static str,
    /// Debian's rules that it breaks on purpose, each preceded by the reason.
    overrides: &'static [&'static str],
}

const COMPONENTS: [Component; 3] = [
    Component {
        suffix: "",
        section: "libs",
        begins: &[],
        description: "backend library of hipDNN, with engines for CPUs and GPUs\n \
                      Programs hand it graphs of tensor operations, and engine plugins compute them.",
        overrides: &[
            "# Programs of hipDNN look for this name.",
            "package-name-doesnt-match-sonames *",
            "shared-library-lacks-version *",
            "lacks-unversioned-link-to-shared-library *",
        ],
    },
    Component {
        suffix: "-dev",
        section: "libdevel",
        begins: &["include", "lib/cmake", "lib/pkgconfig", "share/hipdnn"],
        description: "headers and CMake packages of hipDNN\n \
                      Programs and engine plugins in C and C++ are built with them.",
        overrides: &[
            "# The tree may be moved: its files are found from these.",
            "pkg-config-unavailable-for-cross-compilation *",
        ],
    },
    Component {
        suffix: "-tools",
        section: "utils",
        begins: &["bin"],
        description: "programs of hipDNN\n \
                      They run, explain, tune and draw graphs, and say which engines a system has.",
        overrides: &["# The programs explain themselves with --help.", "no-manual-page *"],
    },
];

/// Packs the installed tree in `from`. Returns the packages' paths. The last arguments are the commit's time in seconds since 1970
/// and the compression level.
pub fn pack(
    workspace: &Workspace,
    from: &Path,
    folder: &Path,
    (time, level): (&str, u8),
) -> Result<Vec<PathBuf>, Failure> {
    let architecture = run(&mut command("dpkg", ["--print-architecture"]))?.trim().to_owned();
    let installed = files(from)?;
    let mut packages = Vec::new();
    for component in &COMPONENTS {
        let package = Package { workspace, component, architecture: &architecture, time };
        let tree = folder.join(package.name());
        for file in installed.iter().filter(|file| component.has(file)) {
            install::copy(&from.join(file), &tree.join("usr").join(file))?;
        }
        package.complete(&tree)?;
        let to = folder.join(format!("{}_{}_{architecture}.deb", package.name(), workspace.version));
        let mut build = command("dpkg-deb", ["--root-owner-group", "-Zxz", &format!("-z{level}"), "--build"]);
        run(build.arg(&tree).arg(&to).env("SOURCE_DATE_EPOCH", time))?;
        packages.push(to);
    }
    Ok(packages)
}

impl Component {
    /// Whether it is the library's package, which the others need.
    fn is_library(&self) -> bool {
        self.begins.is_empty()
    }

    fn has(&self, file: &Path) -> bool {
        let begins = |component: &Self| component.begins.iter().any(|begin| file.starts_with(begin));
        begins(self) || (self.is_library() && !COMPONENTS.iter().any(begins))
    }
}

/// A package being built.
struct Package<'a> {
    workspace: &'a Workspace,
    component: &'a Component,
    architecture: &'a str,
    time: &'a str,
}

impl Package<'_> {
    fn name(&self) -> String {
        format!("{NAME}{}", self.component.suffix)
    }

    /// Adds the control files and the files that Debian requires.
    fn complete(&self, tree: &Path) -> Result<(), Failure> {
        let (usr, name, version) = (tree.join("usr"), self.name(), &self.workspace.version);
        let maintainer = std::env::var(MAINTAINER).unwrap_or_else(|_| format!("{NAME} <>"));
        let documents = usr.join(Path::new(DOCUMENTS).with_file_name(&name));
        // Debian's name for the file.
        install::copy(&self.workspace.path("LICENSE"), &documents.join("copyright"))?;
        let date = run(&mut command("date", ["-u", "-R", "-d", &format!("@{}", self.time)]))?;
        let changes = format!(
            "{NAME} ({version}) unstable; urgency=medium\n\n  * Upstream release; its file CHANGELOG.md says what changed.\n\n \
             -- {maintainer}  {date}"
        );
        let log = documents.join("changelog");
        install::write(&log, &changes)?;
        run(command("gzip", ["-9n"]).arg(&log))?;
        let rule = |line: &&str| match line.starts_with('#') {
            true => format!("{line}\n"),
            false => format!("{name}: {line}\n"),
        };
        let overrides: String = self.component.overrides.iter().map(rule).collect();
        install::write(&usr.join("share/lintian/overrides").join(&name), &overrides)?;
        let (mut bytes, mut glibc) = (0, 0);
        for file in files(&usr)? {
            let path = usr.join(&file);
            bytes += size(&path)?;
            if file.extension().is_some_and(|end| end == "so") {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
            }
            if fs::read(&path)?.starts_with(b"\x7fELF") {
                glibc = glibc::needed(&path)?.max(glibc);
            }
        }
        let mut depends = Vec::new();
        let mut relations = String::new();
        if !self.component.is_library() {
            depends.push(format!("{NAME} (= {version})"));
            // Before 0.6.0, one package had all files.
            relations += &format!("Breaks: {NAME} (<< 0.6.0)\nReplaces: {NAME} (<< 0.6.0)\n");
        }
        if glibc > 0 {
            depends.push(format!("libc6 (>= 2.{glibc}), libgcc-s1"));
        }
        relations += &format!("Depends: {}\n", depends.join(", "));
        let text = format!(
            "Package: {name}\n\
             Source: {NAME}\n\
             Version: {version}\n\
             Architecture: {}\n\
             Maintainer: {maintainer}\n\
             Section: {}\n\
             Priority: optional\n\
             Installed-Size: {}\n\
             {relations}\
             Description: {}\n",
            self.architecture,
            self.component.section,
            bytes.div_ceil(1024),
            self.component.description,
        );
        let folder = tree.join("DEBIAN");
        install::write(&folder.join("control"), &text)?;
        if self.component.is_library() {
            install::write(&folder.join("triggers"), "activate-noawait ldconfig\n")?;
        }
        Ok(())
    }
}
