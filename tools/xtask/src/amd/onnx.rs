//! ONNX's own tests of operators in ONNX Runtime's sessions on the emulated device.

use std::fs;
use std::time::Duration;

use super::{INSIDE, carry, inside};
use crate::Failure;
use crate::install::{self, remove};
use crate::ort::{self, FILE, FOLDER};
use crate::process::{command, run, run_within};
use crate::steps::{LEFT_OUT, Steps};
use crate::userland::Userland;
use crate::workspace::Workspace;

/// The packages, for the userland's Python.
const PACKAGES: [&str; 3] = ["onnxruntime", "onnx", "numpy"];

/// The platforms that their files may name.
const PLATFORMS: [&str; 4] =
    ["manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64"];

/// The folders of the packages and of the tests in the userland.
const SITE: &str = "site";
const TESTS: &str = "ort-tests";

/// hipBLASLt's kernels for this device have 64 lanes, which the emulated one lacks.
const LEFT_ALONE: &str = "HIPBLASLT_ENGINE";

/// Half of the tests take up to an hour on a busy machine, more before MIOpen has its kernels.
const LIMIT: Duration = Duration::from_secs(3 * 3600);

/// Builds the provider and installs ONNX Runtime in the userland. Whether the tests can run.
pub fn ready(workspace: &Workspace, userland: &Userland, steps: &mut Steps) -> bool {
    let mut can_run = false;
    let done = steps.run("ONNX Runtime in the userland", || {
        // A missing Python or network is not a failure of this project.
        if let Err(missing) = packages(userland) {
            return Ok(format!("{LEFT_OUT}{missing}"));
        }
        ort::build(workspace)?;
        let to = userland.path(INSIDE);
        install::copy(&workspace.release_dir().join(FILE), &to.join("lib").join(FILE))?;
        carry(&workspace.path(FOLDER).join("tests"), &to.join(TESTS))?;
        can_run = true;
        Ok(String::new())
    });
    done && can_run
}

/// Installs the packages for the userland's Python by that of the host, since the userland's has no pip.
fn packages(userland: &Userland) -> Result<(), Failure> {
    let folder = userland.path(INSIDE).join(SITE);
    let mark = folder.join("installed");
    let version =
        run(&mut userland.command(&["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]))?;
    let wanted = format!("{} {}", version.trim(), PACKAGES.join(" "));
    if fs::read_to_string(&mark).is_ok_and(|had| had == wanted) {
        return Ok(());
    }
    remove(&folder)?;
    let mut pip = command("python3", ["-m", "pip", "install", "-q", "--disable-pip-version-check"]);
    pip.args(["--only-binary=:all:", "--implementation", "cp", "--python-version", version.trim()]);
    pip.args(PLATFORMS.iter().flat_map(|platform| ["--platform", platform]));
    run(pip.arg("--target").arg(&folder).args(PACKAGES))?;
    fs::write(mark, wanted)?;
    Ok(())
}

/// Runs a part of the tests, as in 1/2, without networks.
pub fn test(userland: &Userland, rig: &str, part: &str) -> Result<String, Failure> {
    let script = format!("/{INSIDE}/{TESTS}/node_tests.py");
    let mut python = inside(userland, rig, &["python3", &script, "--short", "--part", part]);
    python
        .env("PYTHONPATH", format!("/{INSIDE}/{SITE}"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("HIPDNN_ORT_LIBRARY", format!("/{INSIDE}/lib/{FILE}"))
        .env("HIPDNN_BACKEND_LIBRARY_PATH", format!("/{INSIDE}/lib"))
        .env("HIPDNN_ORT_DEVICE", "gpu")
        .env("HIPDNN_DISABLE_ENGINES", LEFT_ALONE);
    let out = run_within(&mut python, LIMIT)?;
    let counts = out.lines().filter(|line| line.ends_with(" passed") || line.contains('%'));
    Ok(counts.map(str::trim).collect::<Vec<_>>().join(", "))
}
