//! Every kernel compiled for AMD's GPUs by Mesa, without one: of 32 and of 64 threads in a subgroup, with matrix units and without.

use std::fs;
use std::path::Path;

use super::checked;
use crate::cache;
use crate::install::GPU_PROGRAM;
use crate::process::{command, run};
use crate::steps::Steps;
use crate::userland::{Contents, Userland};
use crate::workspace::Workspace;

/// The last suite of Debian whose Mesa makes devices of families that are not there, and the first with matrices of gfx11.
const CONTENTS: Contents =
    Contents { suite: "trixie", packages: &["mesa-vulkan-drivers", "libvulkan1"], foreign: None };

/// The families, by Mesa's names: gfx1100 and gfx906.
const FAMILIES: [&str; 2] = ["navi31", "vega20"];

/// Random graphs, beside the cases, and the program that compiles their kernels.
const COMPILED: &str = "--random=1000";
const COMPILER: &str = "vulkan_compile";

/// The folder in the userland.
const INSIDE: &str = "vulkan";

/// Runs it for each family.
pub fn run_all(workspace: &Workspace, words: &[String], steps: &mut Steps) {
    let what = "every kernel compiled for AMD's GPUs by Mesa";
    let userland = cache::folder("HIPDNN_MESA_USERLAND", "mesa-userland")
        .and_then(|folder| Userland::ready(folder, &CONTENTS, "vulkan-test"));
    let userland = match userland {
        Ok(Some(userland)) => userland,
        Ok(None) => return steps.leave_out(what, "Mesa cannot be had"),
        Err(failure) => return steps.leave_out(what, &failure.to_string()),
    };
    let inside = userland.path(INSIDE);
    let written = steps.run("every graph as a file, and the program that compiles them", || {
        let graphs = inside.join("graphs");
        let _ = fs::remove_dir_all(&graphs);
        let mut write = command(workspace.release_dir().join(GPU_PROGRAM), ["--vulkan-graphs"]);
        run(write.arg(&graphs).arg(COMPILED).args(words))?;
        run(&mut workspace.release(["build", "-p", "hipdnn-vulkan-plugin", "--example", COMPILER]))?;
        fs::copy(workspace.release_dir().join("examples").join(COMPILER), inside.join(COMPILER))?;
        Ok(String::new())
    });
    for family in FAMILIES.into_iter().filter(|_| written) {
        steps.run(&format!("every kernel compiled for {family} by Mesa, without the device"), || {
            let inside = Path::new("/").join(INSIDE);
            let [program, graphs] = [COMPILER, "graphs"].map(|name| inside.join(name).display().to_string());
            let mut compiled = userland.command(&[&program, &graphs]);
            let file = "/usr/share/vulkan/icd.d/radeon_icd.json";
            compiled.env("RADV_FORCE_FAMILY", family);
            compiled.env("VK_DRIVER_FILES", file).env_remove("VK_ICD_FILENAMES");
            checked(&mut compiled).map(|text| rows(&text))
        });
    }
}

/// What the program says of each kind of kernels.
fn rows(text: &str) -> String {
    text.lines().skip_while(|line| !line.starts_with("device,")).collect::<Vec<_>>().join("\n")
}
