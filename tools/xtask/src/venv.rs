//! A Python environment with packages, created once.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::cache;
use crate::process::{command, run};

/// The file that lists what an environment has, once it is complete.
const MARK: &str = "installed";

/// Whether an environment is complete.
pub fn is_ready(folder: &Path) -> bool {
    folder.join(MARK).exists()
}

/// The environment in `folder`; packages that it lacks are installed in their newest versions. Failures name `wanted_by`.
pub fn ready(folder: &Path, packages: &[&str], wanted_by: &str) -> Result<PathBuf, Failure> {
    // Other clones may use the same folder.
    let _lock = cache::lock(folder, wanted_by)?;
    let mark = folder.join(MARK);
    if fs::read_to_string(&mark).is_ok_and(|text| text == packages.join(" ")) {
        return Ok(folder.to_owned());
    }
    println!("installing {} in {}", packages.join(", "), folder.display());
    let cannot = |failure: Failure| {
        let text = failure.to_string();
        let last = text.lines().rev().map(str::trim).find(|line| line.starts_with("ERROR")).unwrap_or("");
        let packages = packages.join(", ");
        let lacks = format!(
            "{wanted_by} needs Python 3 with venv (Debian: apt-get install python3-venv) and its packages {packages}, which cannot be \
             installed here. {last}"
        );
        Failure::new(lacks.trim_end().to_owned())
    };
    run(command("python3", ["-m", "venv"]).arg(folder)).map_err(cannot)?;
    let mut pip =
        command(folder.join("bin/python"), ["-m", "pip", "install", "-q", "--disable-pip-version-check"]);
    run(pip.args(packages)).map_err(cannot)?;
    fs::write(mark, packages.join(" "))?;
    Ok(folder.to_owned())
}
