//! `cargo xtask wheel`: the Python package, with the library and its plugins inside.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::glibc;
use crate::install::{self, BILL, ENGINES, LIBRARY, PLUGINS};
use crate::process::{command, run};
use crate::python::Environment;
use crate::workspace::Workspace;

/// The package, below the project's folder.
pub const PACKAGE: &str = "bindings/python";

/// The variable with the address of the project's repository.
const REPOSITORY: &str = "HIPDNN_REPOSITORY";

/// The program that adds an address to a wheel.
const ADD_ADDRESS: &str = include_str!("wheel/address.py");

/// The maximum size of the wheel.
const LARGEST: u64 = 25 << 20;

/// Builds the wheel of an installed tree. Returns its path and a note.
pub fn build(workspace: &Workspace, python: &Environment, tree: &Path) -> Result<(PathBuf, String), Failure> {
    let files = std::iter::once(PathBuf::from(LIBRARY))
        .chain(PLUGINS.iter().map(|plugin| Path::new(ENGINES).join(plugin.file)));
    let mut newest = 0;
    let lib = pack(workspace, &tree.join("lib"), files, "strip", "--strip-unneeded")?;
    for file in install::files(&lib)? {
        newest = newest.max(glibc::needed(&lib.join(file))?);
    }
    // The required glibc is determined here, since maturin only checks the module.
    let made = maturin(workspace, python, &["--compatibility", &format!("manylinux_2_{newest}")])?;
    let module = glibc::needed(&workspace.release_dir().join("libhipdnn_python.so"))?;
    if module > newest {
        return Err(Failure::new(format!("the module needs glibc 2.{module}, the library 2.{newest}")));
    }
    Ok(made)
}

/// Copies a library and its plugins into the package's folder, without debug information.
pub fn pack(
    workspace: &Workspace,
    from: &Path,
    files: impl Iterator<Item = PathBuf>,
    strip: &str,
    how: &str,
) -> Result<PathBuf, Failure> {
    let lib = workspace.path(PACKAGE).join("python/hipdnn/lib");
    install::remove(&lib)?;
    for file in files {
        let to = lib.join(&file);
        fs::create_dir_all(to.parent().unwrap_or(&lib))?;
        run(command(strip, [how, "-o"]).arg(&to).arg(from.join(&file)))?;
    }
    // maturin only packs files of the package's folder.
    install::copy(&workspace.path(BILL), &workspace.path(PACKAGE).join(BILL))?;
    Ok(lib)
}

/// Has the module compiled and packed. Returns the wheel's path and a note.
pub fn maturin(
    workspace: &Workspace,
    python: &Environment,
    options: &[&str],
) -> Result<(PathBuf, String), Failure> {
    let out = workspace.scratch("wheel");
    install::remove(&out)?;
    let mut maturin = command(python.program("maturin"), ["build", "--release", "--strip", "--locked"]);
    maturin.args(["--auditwheel", "skip", "--out"]).arg(&out).args(options);
    maturin
        .arg("--config")
        .arg(workspace.reproducible_flags())
        .arg("--manifest-path")
        .arg(workspace.path(PACKAGE).join("Cargo.toml"));
    run(maturin.env("CARGO_TARGET_DIR", workspace.target_dir()))?;
    let wheel = fs::read_dir(&out)?.flatten().map(|entry| entry.path()).find(|path| is_wheel(path));
    let wheel = wheel.ok_or_else(|| Failure::new(format!("maturin left no wheel in {}", out.display())))?;
    let size = fs::metadata(&wheel)?.len();
    let note = format!("{}, {:.1} MiB", workspace.relative(&wheel), size as f64 / f64::from(1 << 20));
    if size > LARGEST {
        return Err(Failure::new(format!("{note}, expected at most {} MiB", LARGEST >> 20)));
    }
    name_repository(&wheel)?;
    Ok((wheel, note))
}

/// Adds the address of the project's repository to a wheel, if its variable is set.
pub fn name_repository(wheel: &Path) -> Result<(), Failure> {
    match std::env::var(REPOSITORY) {
        Ok(address) if !address.is_empty() => add_address(wheel, &address),
        _ => Ok(()),
    }
}

fn add_address(wheel: &Path, address: &str) -> Result<(), Failure> {
    run(command("python3", ["-c", ADD_ADDRESS]).arg(wheel).arg(address))?;
    Ok(())
}

fn is_wheel(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "whl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_names_the_repository() {
        let wheel = std::env::temp_dir().join(format!("hipdnn-address-{}.whl", std::process::id()));
        let make = "import sys, zipfile\n\
            with zipfile.ZipFile(sys.argv[1], 'w') as z:\n \
            z.writestr('a/b.py', 'x = 1')\n \
            z.writestr('a-1.dist-info/METADATA', 'Metadata-Version: 2.4\\nName: a\\nVersion: 1\\n\\nText: more\\n')\n \
            z.writestr('a-1.dist-info/RECORD', 'a/b.py,,\\na-1.dist-info/METADATA,sha256=old,1\\na-1.dist-info/RECORD,,\\n')\n";
        run(command("python3", ["-c", make]).arg(&wheel)).unwrap();
        add_address(&wheel, "https://example.org/it").unwrap();
        let read = "import sys, zipfile\n\
            with zipfile.ZipFile(sys.argv[1]) as z:\n \
            print(z.read('a-1.dist-info/METADATA').decode() + z.read('a-1.dist-info/RECORD').decode(), z.namelist())";
        let text = run(command("python3", ["-c", read]).arg(&wheel)).unwrap();
        fs::remove_file(&wheel).unwrap();
        let expected = "Version: 1\nProject-URL: Repository, https://example.org/it\n\
            Project-URL: Issues, https://example.org/it/issues\n\nText: more\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("a-1.dist-info/METADATA,sha256=") && !text.contains("sha256=old"), "{text}");
        assert!(
            text.trim_end().ends_with("['a/b.py', 'a-1.dist-info/METADATA', 'a-1.dist-info/RECORD']"),
            "{text}"
        );
    }
}
