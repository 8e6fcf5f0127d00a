//! `hipdnn compile`

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use hipdnn::ahead::{self, Entry};
use hipdnn::{Backend, EngineInfo, Handle};
use hipdnn_plugin_sdk::os::files;
use serde::{Deserialize, Serialize};

use super::{Outcome, chosen, json, read_graph, write};
use crate::cli::{Choice, Compile};
use crate::computation::{Loaded, find_engine, settings};
use crate::failure::{Failure, Result};
use crate::table::Table;

/// The result of a graph for a device.
#[derive(Serialize, Deserialize)]
struct Row {
    graph: String,
    device: String,
    /// Empty without a plan.
    engine: String,
    bytes: usize,
    /// Engines without a plan, each with the reason.
    reasons: Vec<String>,
}

/// Compiles plans for devices that may be absent, and writes them into one file.
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
    if let Some(name) = devices.iter().find(|name| !ahead::is_device(name)) {
        return Err(Failure::input(format!(
            "--device {name}: expected names such as sm_90, gfx942, vulkan, cpu or cpu:avx512"
        )));
    }
    let (mut rows, mut entries) = (Vec::new(), Vec::new());
    for device in devices {
        let (more, plans) = for_device(cli, arguments, &arguments.graphs, device)?;
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

/// The results of graphs, and their plans.
type Made = (Vec<Row>, Vec<Entry>);

/// Compiles the plans for a device in a separate process. If a vendor's library ends it, each graph gets its own process.
fn for_device(cli: &crate::cli::Cli, arguments: &Compile, graphs: &[PathBuf], device: &str) -> Result<Made> {
    match (in_process(cli, arguments, graphs, device)?, graphs) {
        (Ok(made), _) => Ok(made),
        (Err(end), [path]) => {
            let row = Row {
                graph: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
                device: device.to_owned(),
                engine: String::new(),
                bytes: 0,
                reasons: vec![format!("the process that planned it ended: {end}")],
            };
            Ok((vec![row], Vec::new()))
        }
        (Err(_), graphs) => {
            let (mut rows, mut entries) = Made::default();
            for graph in graphs.chunks(1) {
                let (more, plans) = for_device(cli, arguments, graph, device)?;
                rows.extend(more);
                entries.extend(plans);
            }
            Ok((rows, entries))
        }
    }
}

/// Compiles plans in a process; the inner error tells how it ended abnormally.
fn in_process(
    cli: &crate::cli::Cli,
    arguments: &Compile,
    graphs: &[PathBuf],
    device: &str,
) -> Result<std::result::Result<Made, ExitStatus>> {
    // If the system does not tell, use the name that it was called by.
    let program = std::env::current_exe().ok().or_else(|| std::env::args_os().next().map(PathBuf::from));
    let program = program.ok_or_else(|| Failure::work("the program does not find itself"))?;
    let part = Part::new()?;
    let mut command = Command::new(program);
    if let Some(backend) = &cli.backend {
        command.arg("--backend").arg(backend);
    }
    for plugin in &cli.plugins {
        command.arg("--plugin").arg(plugin);
    }
    command.arg("compile").args(graphs).args(["--part", "--device", device]);
    command.arg("--output").arg(&part.0).env(ahead::TARGET, device);
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
        return match output.status.code() {
            Some(2) => Err(Failure::input(words)),
            Some(_) => Err(Failure::work(format!("{device}: {words} ({})", output.status))),
            None => Ok(Err(output.status)),
        };
    }
    let rows = serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::work(format!("the process for {device} answered nonsense: {error}")))?;
    let bytes =
        std::fs::read(&part.0).map_err(|error| Failure::work(format!("{}: {error}", part.0.display())))?;
    Ok(Ok((rows, ahead::read(&bytes)?)))
}

/// A file that is removed when it is dropped.
struct Part(PathBuf);

impl Part {
    fn new() -> Result<Self> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("hipdnn-compile-{}-{count}", std::process::id()));
        // Other users may write into the folder for temporary files, but not into this one.
        files::make_own_folder(&folder)
            .map_err(|error| Failure::work(format!("{}: {error}", folder.display())))?;
        Ok(Self(folder.join("part.hdpk")))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(folder) = self.0.parent() {
            // Ignore failures: the system cleans up.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Compiles the plans of all graphs for the target device of this process.
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
    let mut candidates: Vec<&EngineInfo> = if named.is_empty() {
        let ids = offer.engines.iter();
        ids.filter_map(|id| all.iter().find(|engine| engine.id == *id)).collect()
    } else {
        named.iter().collect()
    };
    candidates.sort_by_key(|engine| Some(&engine.name) != tuned.as_ref());
    let with_knobs = |engine: &EngineInfo| match Some(&engine.name) == tuned.as_ref() {
        true => Ok((engine.clone(), settings(&loaded.operations, engine, &knobs)?)),
        false => Ok((engine.clone(), Vec::new())),
    };
    let candidates: Vec<_> = candidates.into_iter().map(with_knobs).collect::<Result<_>>()?;
    let made = ahead::make(handle, &loaded.operations, &candidates, device)?;
    let (graph, device) = (loaded.graph.name, device.to_owned());
    Ok(match made {
        Ok(mut entry) => {
            entry.about.graph.clone_from(&graph);
            let (engine, bytes) = (entry.about.engine.clone(), entry.container.len());
            (Row { graph, device, engine, bytes, reasons: Vec::new() }, Some(entry))
        }
        Err(reasons) => (Row { graph, device, engine: String::new(), bytes: 0, reasons }, None),
    })
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
