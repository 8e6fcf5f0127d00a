//! `hipdnn compile`

use std::path::{Path, PathBuf};
use std::process::Command;

use hipdnn::ahead::{self, About, Entry};
use hipdnn::{Backend, EngineInfo, Handle, hardware, one_line};
use serde::{Deserialize, Serialize};

use super::{Outcome, chosen, json, read_graph, write};
use crate::cli::{Choice, Compile};
use crate::computation::{Loaded, find_engine, plan};
use crate::failure::{Failure, Result};
use crate::table::Table;

/// The variable that says which device plans are made for. It is read when a process plans first, so each device has a process of its own.
const TARGET: &str = "HIPDNN_TARGET_DEVICE";

/// What became of a graph for a device.
#[derive(Serialize, Deserialize)]
struct Row {
    graph: String,
    device: String,
    /// Empty where there is no plan.
    engine: String,
    bytes: usize,
    /// Engines that have no plan, each with the reason.
    reasons: Vec<String>,
}

/// Makes plans of graphs for devices that need not be here, and writes them into one file.
pub fn compile(
    open: impl FnOnce() -> Result<Backend>,
    cli: &crate::cli::Cli,
    arguments: &Compile,
) -> Result<Outcome> {
    if arguments.part {
        return part(&open()?, arguments);
    }
    let mut devices: Vec<&String> = arguments.devices.iter().collect();
    devices.sort();
    devices.dedup();
    if let Some(name) = devices.iter().find(|name| !is_name(name)) {
        return Err(Failure::input(format!(
            "--device {name}: expected names such as sm_90, gfx942, cpu or cpu:avx512"
        )));
    }
    let (mut rows, mut entries) = (Vec::new(), Vec::new());
    for device in devices {
        let (more, plans) = for_device(cli, arguments, device)?;
        rows.extend(more);
        entries.extend(plans);
    }
    let bytes = ahead::write(&entries)?;
    if !entries.is_empty() {
        write(&arguments.output, &bytes)?;
    }
    let failed = rows.iter().filter(|row| row.engine.is_empty()).count();
    let failure = (failed > 0).then(|| {
        Failure::work(format!(
            "{failed} of {} plans could not be made; the others are in the file",
            rows.len()
        ))
    });
    let failure = if entries.is_empty() { Some(Failure::work("no plan could be made")) } else { failure };
    let text = if arguments.json {
        json(&rows)?.text
    } else {
        let size = if entries.is_empty() { 0 } else { bytes.len() };
        text(&rows) + &format!("\n{} plans in {}, {size} bytes\n", entries.len(), arguments.output.display())
    };
    Ok(Outcome { text, failure })
}

/// Whether a device has such a name.
fn is_name(name: &str) -> bool {
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match name.split_once(':') {
        None => {
            name == "cpu" || ["sm_", "gfx"].iter().any(|start| name.strip_prefix(start).is_some_and(is_plain))
        }
        Some(("cpu", isa)) => ["sse2", "avx2", "avx512", "neon"].contains(&isa),
        Some((gpu, _)) => gpu.strip_prefix("gfx").is_some_and(is_plain),
    }
}

/// Has a process of its own make the plans for a device.
fn for_device(cli: &crate::cli::Cli, arguments: &Compile, device: &str) -> Result<(Vec<Row>, Vec<Entry>)> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::work(format!("the program does not find itself: {error}")))?;
    let part = Part::new()?;
    let mut command = Command::new(program);
    if let Some(backend) = &cli.backend {
        command.arg("--backend").arg(backend);
    }
    for plugin in &cli.plugins {
        command.arg("--plugin").arg(plugin);
    }
    command.arg("compile").args(&arguments.graphs).args(["--part", "--device", device]);
    command.arg("--output").arg(&part.0).env(TARGET, device);
    for engine in &arguments.engines {
        command.args(["--engine", engine]);
    }
    if arguments.tuned {
        command.arg("--tuned");
    }
    let output =
        command.output().map_err(|error| Failure::work(format!("no process for {device}: {error}")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.trim().strip_prefix("hipdnn: ").unwrap_or(words.trim()).to_owned();
        return Err(match output.status.code() {
            Some(2) => Failure::input(words),
            _ => Failure::work(format!("{device}: {words} ({})", output.status)),
        });
    }
    let rows = serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::work(format!("the process for {device} answered nonsense: {error}")))?;
    let bytes =
        std::fs::read(&part.0).map_err(|error| Failure::work(format!("{}: {error}", part.0.display())))?;
    Ok((rows, ahead::read(&bytes)?))
}

/// A file that is removed when it is dropped.
struct Part(PathBuf);

impl Part {
    fn new() -> Result<Self> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("hipdnn-compile-{}-{count}", std::process::id()));
        // Whoever else may write into the folder for temporary files, not into this one.
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&folder)
            .map_err(|error| Failure::work(format!("{}: {error}", folder.display())))?;
        Ok(Self(folder.join("part.hdpk")))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(folder) = self.0.parent() {
            // What cannot be removed is the system's to clean up.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// The plans of all graphs for one device, in the process that has it as its target.
fn part(backend: &Backend, arguments: &Compile) -> Result<Outcome> {
    let [device] = arguments.devices.as_slice() else {
        return Err(Failure::input("--part has one --device"));
    };
    let handle = Handle::new(backend)?;
    let (mut rows, mut entries) = (Vec::new(), Vec::new());
    for path in &arguments.graphs {
        let (row, entry) = one(&handle, path, device, arguments)?;
        rows.push(row);
        entries.extend(entry);
    }
    write(&arguments.output, &ahead::write(&entries)?)?;
    json(&rows)
}

fn one(handle: &Handle, path: &Path, device: &str, arguments: &Compile) -> Result<(Row, Option<Entry>)> {
    let loaded = Loaded::new(handle, read_graph(handle.backend(), path)?, path)?;
    let all = handle.engines()?;
    let named: Vec<EngineInfo> =
        arguments.engines.iter().map(|name| find_engine(&all, name).cloned()).collect::<Result<_>>()?;
    let choice = Choice { engine: None, knobs: Vec::new(), tuned: arguments.tuned };
    let (tuned, knobs) = chosen(handle, &loaded, &choice)?;
    let offer = loaded.operations.offer()?;
    let is_here = has(device);
    let mut row = Row {
        graph: loaded.graph.name.clone(),
        device: device.to_owned(),
        engine: String::new(),
        bytes: 0,
        reasons: Vec::new(),
    };
    let mut candidates: Vec<&EngineInfo> = if named.is_empty() {
        let ids = offer.engines.iter();
        ids.filter_map(|id| all.iter().find(|engine| engine.id == *id)).collect()
    } else {
        named.iter().collect()
    };
    candidates.sort_by_key(|engine| Some(&engine.name) != tuned.as_ref());
    for engine in candidates {
        if let Err(why) = makes_plans_for(engine, device, is_here) {
            row.reasons.push(format!("{}: {why}", engine.name));
            continue;
        }
        let knobs: &[String] = if Some(&engine.name) == tuned.as_ref() { &knobs } else { &[] };
        let bytes =
            plan(&loaded.operations, engine, knobs).and_then(|plan| Ok(plan.bytes_with(&loaded.operations)?));
        match bytes {
            Ok(container) => {
                (row.engine, row.bytes) = (engine.name.clone(), container.len());
                let about = About {
                    device: device.to_owned(),
                    graph: row.graph.clone(),
                    engine: engine.name.clone(),
                    plugin: engine.plugin.clone(),
                    plugin_version: engine.version.clone(),
                    knobs: knobs.to_vec(),
                };
                return Ok((row, Some(Entry { about, container })));
            }
            Err(failure) => row.reasons.push(format!("{}: {failure}", engine.name)),
        }
    }
    if row.reasons.is_empty() || !device.starts_with("cpu") {
        for verdict in loaded.operations.explain_offer(handle, &offer)? {
            if let Some(reason) = verdict.reason {
                row.reasons.push(format!("{}: {}", verdict.engine.name, one_line(&reason)));
            }
        }
    }
    Ok((row, None))
}

/// Whether a GPU of this architecture is here.
fn has(device: &str) -> bool {
    let is_it = |of: &hardware::Device| of.architecture.split([' ', ':']).next() == Some(device);
    !device.starts_with("cpu") && hardware::devices().is_ok_and(|devices| devices.iter().any(is_it))
}

/// Whether an engine makes plans for a device that need not be here, or why not.
fn makes_plans_for(
    engine: &EngineInfo,
    device: &str,
    is_here: bool,
) -> std::result::Result<(), &'static str> {
    match (device.starts_with("cpu"), engine.plugin.as_str()) {
        (true, "CPU") | (false, "RTC") => Ok(()),
        (true, _) => Err("does not compute on processors"),
        (false, "CPU") => Err("does not compute on GPUs"),
        (false, _) if is_here => Ok(()),
        (false, _) => Err("its library makes plans on a device of the architecture only"),
    }
}

fn text(rows: &[Row]) -> String {
    let mut table = Table::new(&["GRAPH", "DEVICE", "ENGINE", "BYTES"]);
    for row in rows {
        let engine = if row.engine.is_empty() { "none".to_owned() } else { row.engine.clone() };
        table.row([row.graph.clone(), row.device.clone(), engine, row.bytes.to_string()]);
    }
    let mut text = table.text();
    for row in rows.iter().filter(|row| row.engine.is_empty()) {
        text.push_str(&format!("\n{} for {}: no plan\n", row.graph, row.device));
        for reason in &row.reasons {
            text.push_str(&format!("  {reason}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_told_from_others() {
        for name in ["cpu", "cpu:avx512", "sm_90", "sm_100a", "gfx942", "gfx90a", "gfx942:sramecc+:xnack-"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "gpu", "cpu:", "cpu:fast", "sm_", "gfx", "sm_90:x", "sm 90", "gfx9/4"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
