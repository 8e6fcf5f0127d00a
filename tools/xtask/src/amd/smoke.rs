//! `cargo xtask amd-smoke` on the emulated device, and without a device.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{INSIDE, inside};
use crate::Failure;
use crate::install::{LIBRARY, TOOL};
use crate::smoke::{self, GRAPHS, Place, Report};
use crate::userland::Userland;
use crate::workspace::Workspace;

/// All graphs but the last, which is slow on the emulated device.
fn names() -> &'static [&'static str] {
    GRAPHS.split_last().map_or(&[], |(_, rest)| rest)
}

/// Carries the tool and the graphs into the userland.
pub fn carry(workspace: &Workspace, userland: &Userland) -> Result<(), Failure> {
    let to = userland.path(INSIDE);
    fs::copy(workspace.release_dir().join(TOOL), to.join(TOOL))?;
    let graphs = to.join("graphs");
    fs::create_dir_all(&graphs)?;
    for name in names() {
        let file = format!("{name}.json");
        fs::copy(workspace.path("examples_graphs").join(&file), graphs.join(file))?;
    }
    Ok(())
}

/// With the device everything passes.
pub fn with_device(userland: &Userland, rig: &str) -> Result<String, Failure> {
    let report = report(&|words| inside(userland, rig, words));
    match (&report.no_device, report.failed.as_slice()) {
        (None, []) => Ok(format!("{} graphs", names().len())),
        _ => Err(Failure::new(report.text)),
    }
}

/// Without a device the report says so.
pub fn without_device(userland: &Userland) -> Result<String, Failure> {
    let report = report(&|words| userland.command(words));
    match report.no_device {
        Some(why) if why.contains("finds no device") => Ok(why),
        _ => Err(Failure::new(report.text)),
    }
}

fn report(start: &dyn Fn(&[&str]) -> Command) -> Report {
    let program = format!("/{INSIDE}/{TOOL}");
    let library = format!("/{INSIDE}/lib/{LIBRARY}");
    let graphs: PathBuf = Path::new("/").join(INSIDE).join("graphs");
    let tool = |words: &[&str]| start(&[&[program.as_str(), "--backend", &library], words].concat());
    let place = Place { tool: &tool, training: None, graphs: &graphs, names: names(), runs: "1" };
    smoke::run(&place, &mut |_| {})
}
