//! `cargo xtask build-time`: how long the CPU plugin takes to compile, which everything else waits for.

use std::path::Path;

use crate::Failure;
use crate::install::remove;
use crate::processor;
use crate::progress;
use crate::steps::Steps;
use crate::workspace::Workspace;

const PACKAGE: &str = "hipdnn-cpu-plugin";

/// A crate that the plugin depends on, with nearly all others that it depends on.
const BEFORE: &str = "hipdnn-plugin-planner";

/// Processor seconds of the plugin alone: a third more than on two EPYC cores that others used, too.
const MOST_SECONDS: f64 = 220.0;

/// The largest codegen unit's share of all. A processor compiles it alone.
const MOST_OF_UNIT: f64 = 0.15;

/// The beginning and the header's length of an archive, as in ar(5).
const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;

/// Compiles the plugin for release in a folder of its own; fails if that takes too long.
pub fn check(workspace: &Workspace) -> Result<(), Failure> {
    let mut steps = Steps::new();
    steps.group("build time");
    let folder = workspace.scratch("build-time");
    let compile = |package: &str| {
        let mut cargo = workspace.release(["build", "-p", package]);
        progress::build(workspace, cargo.arg("--target-dir").arg(&folder))
    };
    let is_ready = steps.run("what the CPU plugin depends on", || {
        remove(&folder)?;
        compile(BEFORE)
    });
    if is_ready {
        steps.run("the CPU plugin", || {
            let spent = processor::of_this_thread();
            compile(PACKAGE)?;
            let spent = processor::of_this_thread() - spent;
            let units = units(&std::fs::read(archive(&folder))?)?;
            judge(spent, &units)
        });
    }
    steps.summary()
}

/// The plugin as cargo's archive of one object for each unit.
fn archive(folder: &Path) -> std::path::PathBuf {
    folder.join("release").join(format!("lib{}.rlib", PACKAGE.replace('-', "_")))
}

/// A note with the figures, or a failure if one is above its bound.
fn judge(spent: f64, units: &[usize]) -> Result<String, Failure> {
    let all: usize = units.iter().sum();
    let share = units.iter().max().map_or(1.0, |most| *most as f64 / all as f64);
    let note = format!(
        "{spent:.0} s of processor time (at most {MOST_SECONDS:.0}), the largest of {} units {:.0} % of the code (at most {:.0} %)",
        units.len(),
        share * 100.0,
        MOST_OF_UNIT * 100.0
    );
    if spent > MOST_SECONDS || share > MOST_OF_UNIT { Err(Failure::new(note)) } else { Ok(note) }
}

/// The bytes of the objects in an archive.
fn units(archive: &[u8]) -> Result<Vec<usize>, Failure> {
    let broken = || Failure::new("the archive of the CPU plugin is not one");
    let mut rest = archive.strip_prefix(MAGIC).ok_or_else(broken)?;
    let (mut sizes, mut names) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (header, after) = rest.split_at_checked(HEADER).ok_or_else(broken)?;
        let text = String::from_utf8_lossy(header);
        let name = text.get(..16).ok_or_else(broken)?.trim();
        let size: usize = text.get(48..58).and_then(|size| size.trim().parse().ok()).ok_or_else(broken)?;
        let (content, after) = after.split_at_checked(size).ok_or_else(broken)?;
        if name == "//" {
            names = content.to_vec();
        } else if is_object(name, &names) {
            sizes.push(size);
        }
        // Members begin at even offsets.
        rest = after.get(size % 2..).unwrap_or_default();
    }
    if sizes.is_empty() { Err(broken()) } else { Ok(sizes) }
}

/// Whether a member is an object of the compiler: by its name, or by its place in the list of long names.
fn is_object(name: &str, names: &[u8]) -> bool {
    let place = name.strip_prefix('/').and_then(|place| place.parse::<usize>().ok());
    let long = place.and_then(|place| names.get(place..)).unwrap_or_default();
    let long = long.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let name = if place.is_some() { String::from_utf8_lossy(long) } else { name.into() };
    name.trim_end_matches('/').ends_with(".rcgu.o")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_an_archive_are_found_by_short_and_long_names() {
        let member = |name: &str, content: &str| {
            let pad = if content.len() % 2 == 1 { "\n" } else { "" };
            format!("{name:<16}{:<32}{:<10}`\n{content}{pad}", 0, content.len())
        };
        let names = "a.long.name-cgu.00.rcgu.o/\nlib.rmeta/\n";
        let archive = [
            "!<arch>\n".to_owned(),
            member("//", names),
            member("/0", "12345"),
            member("/27", "123456789"),
            member("b.rcgu.o/", "123"),
        ];
        assert_eq!(units(archive.concat().as_bytes()).unwrap(), [5, 3]);
        assert!(units(b"else").is_err() && units(b"!<arch>\nshort").is_err());
    }

    #[test]
    fn a_build_above_a_bound_fails() {
        assert!(judge(MOST_SECONDS - 1.0, &[10; 10]).is_ok());
        assert!(judge(MOST_SECONDS + 1.0, &[10; 10]).is_err());
        assert!(judge(1.0, &[10, 10, 10]).is_err());
    }
}
