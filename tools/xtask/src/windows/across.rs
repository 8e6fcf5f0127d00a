//! Files written on one system, read on the other and compared: graphs as bytes and as JSON, plans, results.

use std::fs;
use std::path::{Path, PathBuf};

use super::programs::{self, tool};
use super::stage_dir;
use super::wine::{self, Wine};
use crate::Failure;
use crate::c_program::{Language, Program};
use crate::process::{command, run, without_settings};
use crate::workspace::Workspace;

/// The folder of graphs.
const GRAPHS: &str = "examples_graphs";

/// The program that rewrites them.
const WRITES: &str = "c_tests/windows/graphs.c";

/// Processors to compile plans for.
const DEVICES: [&str; 3] = ["cpu", "cpu:avx2", "cpu:avx512"];

/// A comparison, with its name.
type Step = (&'static str, fn(&Workspace, &Wine, &Linux) -> Result<String, Failure>);

/// All comparisons.
pub const STEPS: [Step; 4] = [
    ("graphs have the same bytes and JSON as on Linux", same_graphs),
    ("plans have the same bytes as on Linux, and run on either", same_plans),
    ("plans ahead of time have the same bytes as on Linux", same_packages),
    ("results have the same bits as on Linux", same_results),
];

/// The tree for Linux.
pub struct Linux(PathBuf);

impl Linux {
    /// The tree, if it is laid out.
    pub fn ready(workspace: &Workspace) -> Option<Self> {
        let stage = workspace.stage_dir();
        stage.join("bin").join(crate::install::TOOL).is_file().then_some(Self(stage))
    }

    /// Runs the command line tool.
    fn tool(&self, workspace: &Workspace, arguments: &[&str]) -> Result<String, Failure> {
        let mut tool = command(self.0.join("bin").join(crate::install::TOOL), arguments);
        without_settings(&mut tool);
        run(tool.current_dir(workspace.path("")))
    }

    /// Compiles a program, and runs it in the project's folder.
    pub fn run(
        &self,
        workspace: &Workspace,
        source: &Path,
        optimize: bool,
        arguments: &[String],
    ) -> Result<String, Failure> {
        let target = workspace.scratch("windows").join("of_linux");
        let language = Language::of(source)?;
        Program { language, source, optimize, strict: true, libraries: &["-lm"] }.build(&self.0, &target)?;
        let mut program = command(&target, arguments);
        without_settings(&mut program);
        run(program.current_dir(workspace.path("")))
    }
}

/// A graph: its path for both systems, and its name.
type Graph = (String, String);

/// The graphs, as paths for both systems, with their names.
fn graphs(workspace: &Workspace) -> Result<Vec<Graph>, Failure> {
    let mut graphs = Vec::new();
    for file in crate::install::files(&workspace.path(GRAPHS))? {
        if let (Some(name), Some("json")) = (file.file_stem(), file.extension().and_then(|e| e.to_str())) {
            graphs.push((format!("{GRAPHS}/{}", file.display()), name.to_string_lossy().into_owned()));
        }
    }
    Ok(graphs)
}

/// The int8 graph, which uses AMX on Linux; wine has no function to enable it.
const OF_BYTES: &str = "conv_int8";

/// The graphs whose plans use the same instructions on both systems, and a note on the others.
fn graphs_of_both(workspace: &Workspace) -> Result<(Vec<Graph>, &'static str), Failure> {
    let mut graphs = graphs(workspace)?;
    if !fs::read_to_string("/proc/cpuinfo")?.contains("amx_int8") {
        return Ok((graphs, ""));
    }
    graphs.retain(|(_, name)| name != OF_BYTES);
    Ok((graphs, ", without conv_int8, which is planned with AMX on Linux alone"))
}

fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// An empty folder for each system.
fn folders(workspace: &Workspace, name: &str) -> Result<[PathBuf; 2], Failure> {
    let folder = workspace.scratch("windows").join(name);
    crate::install::remove(&folder)?;
    let both = ["linux", "windows"].map(|system| folder.join(system));
    both.iter().try_for_each(fs::create_dir_all)?;
    Ok(both)
}

/// Fails if two folders differ. Returns the number of files.
fn compare([one, other]: &[PathBuf; 2]) -> Result<usize, Failure> {
    let files = crate::install::files(one)?;
    if files != crate::install::files(other)? || files.is_empty() {
        return Err(Failure::new(format!("{} and {} have other files", one.display(), other.display())));
    }
    let differs = |file: &&PathBuf| !same(&one.join(file), &other.join(file));
    let differing: Vec<String> =
        files.iter().filter(differs).map(|file| file.display().to_string()).collect();
    if differing.is_empty() {
        return Ok(files.len());
    }
    Err(Failure::new(format!(
        "{} of {} files differ: {}",
        differing.len(),
        files.len(),
        differing.join(", ")
    )))
}

fn same(one: &Path, other: &Path) -> bool {
    fs::read(one).ok().is_some_and(|bytes| fs::read(other).is_ok_and(|others| others == bytes))
}

/// Each system writes all graphs, from JSON and then from the other's bytes.
fn same_graphs(workspace: &Workspace, wine: &Wine, linux: &Linux) -> Result<String, Failure> {
    let source = workspace.path(WRITES);
    let write = |folders: &[PathBuf; 2], files: [&[String]; 2]| -> Result<usize, Failure> {
        let [to_linux, to_windows] = folders;
        let arguments = [&[to_linux.display().to_string()], files[0]].concat();
        linux.run(workspace, &source, false, &arguments)?;
        programs::compile_and_run(workspace, &stage_dir(workspace), wine, &source, |program| {
            program.arg(wine::path(to_windows)).args(files[1]).current_dir(workspace.path(""));
        })?;
        compare(folders)
    };
    let graphs = graphs(workspace)?;
    let json: Vec<String> = graphs.iter().map(|(path, _)| path.clone()).collect();
    let first = folders(workspace, "graphs")?;
    let count = write(&first, [&json, &json])?;
    let bytes = |folder: &Path| -> Vec<String> {
        let path = |(_, name): &Graph| folder.join(format!("{name}.bin"));
        graphs.iter().map(|graph| workspace.relative(&path(graph))).collect()
    };
    let [of_linux, of_windows] = first.each_ref().map(|folder| bytes(folder));
    let second = folders(workspace, "graphs_again")?;
    write(&second, [&of_windows, &of_linux])?;
    compare(&[first[0].clone(), second[0].clone()])?;
    Ok(format!("{count} files"))
}

/// Each system saves a plan of each graph, and runs the other's.
fn same_plans(workspace: &Workspace, wine: &Wine, linux: &Linux) -> Result<String, Failure> {
    let folders = folders(workspace, "plans")?;
    let (graphs, note) = graphs_of_both(workspace)?;
    let paths = |name: &str| {
        folders.each_ref().map(|folder| workspace.relative(&folder.join(format!("{name}.plan"))))
    };
    for (json, name) in &graphs {
        let [of_linux, of_windows] = paths(name);
        let engine = ["--engine", "CPU_ENGINE"];
        linux.tool(workspace, &[&["plan", "save", json, &of_linux], &engine[..]].concat())?;
        tool(workspace, wine, &[&["plan", "save", json, &of_windows], &engine[..]].concat())?;
    }
    let count = compare(&folders)?;
    for (_, name) in &graphs {
        let [of_linux, of_windows] = paths(name);
        linux.tool(workspace, &["plan", "load", &of_windows, "--check"])?;
        tool(workspace, wine, &["plan", "load", &of_linux, "--check"])?;
    }
    Ok(format!("{count} plans{note}"))
}

/// Each system compiles a file of plans for processors that may be absent.
fn same_packages(workspace: &Workspace, wine: &Wine, linux: &Linux) -> Result<String, Failure> {
    let folders = folders(workspace, "packages")?;
    let (graphs, note) = graphs_of_both(workspace)?;
    for device in DEVICES {
        let words = |folder: &PathBuf| -> Vec<String> {
            let file = workspace.relative(&folder.join(format!("{}.hdpk", device.replace(':', "_"))));
            let options = ["compile", "--device", device, "--engine", "CPU_ENGINE", "--output", &file];
            let paths = graphs.iter().map(|(path, _)| path.as_str());
            options.into_iter().chain(paths).map(str::to_owned).collect()
        };
        let [of_linux, of_windows] = folders.each_ref().map(words);
        linux.tool(workspace, &strs(&of_linux))?;
        tool(workspace, wine, &strs(&of_windows))?;
    }
    compare(&folders).map(|count| format!("{count} files, {} plans each{note}", graphs.len()))
}

/// Each system computes all graphs with the same inputs.
fn same_results(workspace: &Workspace, wine: &Wine, linux: &Linux) -> Result<String, Failure> {
    let folders = folders(workspace, "results")?;
    let mut outputs = 0;
    for (json, name) in graphs(workspace)? {
        let shown = linux.tool(workspace, &["graph", &json])?;
        let uids: Vec<&str> = shown
            .lines()
            .filter(|line| line.trim_end().ends_with(" output"))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        outputs += uids.len();
        for engine in ["CPU_ENGINE", "CPU_REFERENCE_ENGINE"] {
            let words = |folder: &Path| -> Vec<String> {
                let file = |uid: &str| workspace.relative(&folder.join(format!("{name}.{engine}.{uid}.npy")));
                let out = uids.iter().flat_map(|uid| ["--out".to_owned(), format!("{uid}={}", file(uid))]);
                ["run", &json, "--engine", engine].map(str::to_owned).into_iter().chain(out).collect()
            };
            let [of_linux, of_windows] = folders.each_ref().map(|folder| words(folder));
            linux.tool(workspace, &strs(&of_linux))?;
            tool(workspace, wine, &strs(&of_windows))?;
        }
    }
    let count = compare(&folders)?;
    Ok(format!("{count} tensors of {outputs} outputs"))
}
