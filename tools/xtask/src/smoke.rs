//! `cargo xtask amd-smoke`: for the first run on an AMD GPU. Runs some graphs on each engine, checked against the reference and
//! timed, and the training example; the user sends the report back.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Failure;
use crate::demo;
use crate::install;
use crate::process::command;
use crate::tools;
use crate::workspace::Workspace;

/// The graphs, in `examples_graphs`, small ones first. At least one engine for AMD GPUs computes each.
pub const GRAPHS: [&str; 7] =
    ["conv_half", "conv_bias_relu", "batchnorm", "layernorm", "matmul", "matmul_bfloat16", "residual_block"];

/// The engines, each of which must compute one of the graphs.
const ENGINES: [&str; 4] =
    ["MIOPEN_ENGINE", "MIOPEN_ENGINE_DETERMINISTIC", "HIPRTC_ENGINE", "HIPBLASLT_ENGINE"];

/// The exit status without a device.
const NO_DEVICE: u8 = 2;

/// Where the smoke test runs: how to start the tool and the example, and how long to measure.
pub struct Place<'a> {
    /// The command line tool with these arguments.
    pub tool: &'a dyn Fn(&[&str]) -> Command,
    /// The training example, if it is to run.
    pub training: Option<&'a dyn Fn() -> Command>,
    /// The folder of the graphs, as the tool sees it.
    pub graphs: &'a Path,
    /// The names of the graphs to compute.
    pub names: &'a [&'a str],
    /// The executions to measure for each engine.
    pub runs: &'a str,
}

/// The result.
pub struct Report {
    /// The text to send.
    pub text: String,
    /// Why there was no device.
    pub no_device: Option<String>,
    /// The failures.
    pub failed: Vec<String>,
}

/// Builds everything, runs the test on this machine, and writes the report.
pub fn smoke(workspace: &Workspace) -> Result<(), Failure> {
    tools::require(&[&tools::CC])?;
    println!("building the library and its engines");
    let stage = install::stage(workspace)?;
    let program = demo::example(workspace, &stage, "examples_c/train_digits.c", false)?;
    let tool = stage.join("bin").join(install::TOOL);
    let place = Place {
        tool: &|words| command(&tool, words),
        training: Some(&|| {
            let mut training = command(&program, ["--device"]);
            training.current_dir(workspace.path(""));
            training
        }),
        graphs: &workspace.path("examples_graphs"),
        names: &GRAPHS,
        runs: "100",
    };
    let report = run(&place, &mut |part| print!("{part}"));
    let file = workspace.target_dir().join("amd-smoke").join("report.txt");
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&file, &report.text)?;
    println!("\nthe report is in {}", workspace.relative(&file));
    match (report.no_device, report.failed.as_slice()) {
        (Some(why), _) => Err(Failure::new(why).with_status(NO_DEVICE)),
        (None, []) => Ok(()),
        (None, failed) => Err(Failure::new(format!("failed: {}", failed.join(", ")))),
    }
}

/// Runs the test, and shows each part of the report as it is finished.
pub fn run(place: &Place, show: &mut dyn FnMut(&str)) -> Report {
    let mut report = Report { text: String::new(), no_device: None, failed: Vec::new() };
    let mut add = |report: &mut Report, title: &str, words: &str| {
        let part = without_home(&format!("\n== {title}\n{}\n", words.trim_end()));
        show(&part);
        report.text.push_str(&part);
    };
    add(&mut report, "hipDNN backend: amd-smoke", &machine());
    let device = answer((place.tool)(&["device"]));
    add(&mut report, "libraries and devices", &device.words());
    let engines = answer((place.tool)(&["engines"]));
    add(&mut report, "engines", &engines.words());
    if !device.good {
        let why = device.err.trim().to_owned();
        report.no_device = Some(if why.is_empty() { "no device".to_owned() } else { why });
        return report;
    }
    let mut computed = String::new();
    for &name in place.names {
        let path = place.graphs.join(format!("{name}.json"));
        let path = path.to_string_lossy();
        let options = ["--runs", place.runs, "--warmup", "1", "--values", "1", "--no-ranking"];
        let bench = answer((place.tool)(&[&["bench", &*path], &options[..]].concat()));
        add(&mut report, name, &bench.words());
        if !bench.good {
            report.failed.push(name.to_owned());
            // Tells why engines are missing in the table.
            let reasons = answer((place.tool)(&["explain", &path]));
            add(&mut report, &format!("{name}: engines"), &reasons.words());
        }
        computed.push_str(&bench.out);
    }
    for engine in ENGINES {
        let names = computed.lines().filter_map(|line| line.split_whitespace().next());
        if names.filter(|name| *name == engine).count() == 0 {
            report.failed.push(format!("{engine}, which computes none of the graphs"));
        }
    }
    if let Some(training) = place.training {
        let trained = answer(training());
        add(&mut report, "train_digits --device", &trained.words());
        if !trained.good {
            report.failed.push("train_digits".to_owned());
        }
    }
    let summary = match report.failed.as_slice() {
        [] => "all passed".to_owned(),
        failed => format!("failed: {}", failed.join(", ")),
    };
    add(&mut report, "summary", &summary);
    report
}

/// A program's output, and whether it succeeded.
struct Answer {
    out: String,
    err: String,
    good: bool,
}

impl Answer {
    fn words(&self) -> String {
        let [out, err] = [&self.out, &self.err].map(|words| words.trim_end());
        if err.is_empty() { out.to_owned() } else { format!("{out}\n{err}") }
    }
}

fn answer(mut command: Command) -> Answer {
    match command.stdin(Stdio::null()).output() {
        Ok(output) => Answer {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            good: output.status.success(),
        },
        Err(error) => Answer {
            out: String::new(),
            err: format!("cannot run {}: {error}", command.get_program().to_string_lossy()),
            good: false,
        },
    }
}

/// What the measurements depend on, without the names of machine and user.
fn machine() -> String {
    let mut text = format!("version {}\n", env!("CARGO_PKG_VERSION"));
    let mut line = |name: &str, value: Option<String>| {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{name}: {}", value.as_deref().unwrap_or("not known"));
    };
    let read = |path: &str| fs::read_to_string(path).ok();
    let field = |text: Option<String>, name: &str, separator: char| {
        let text = text?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(separator)?.1.trim().trim_matches('"').to_owned())
    };
    line("system", field(read("/etc/os-release"), "PRETTY_NAME", '='));
    line("kernel", read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()));
    line("processor", field(read("/proc/cpuinfo"), "model name", ':'));
    let driver = match read("/sys/module/amdgpu/version") {
        Some(version) => Some(version.trim().to_owned()),
        None if Path::new("/sys/module/amdgpu").exists() => Some("that of the kernel".to_owned()),
        None => Some("not loaded".to_owned()),
    };
    line("amdgpu driver", driver);
    line("/dev/kfd", Some(if Path::new("/dev/kfd").exists() { "there" } else { "not there" }.to_owned()));
    for (name, value) in std::env::vars() {
        if ["HIP_", "ROCR_", "HSA_", "MIOPEN_", "HIPDNN_", "ROCBLAS_", "HIPBLASLT_", "AMD_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            line(&name, Some(value));
        }
    }
    text
}

/// The text without the path of the user's folder, which has the user's name.
fn without_home(text: &str) -> String {
    match std::env::var_os("HOME").map(PathBuf::from) {
        Some(home) if home.components().count() > 1 => text.replace(&*home.to_string_lossy(), "~"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool that prints what a script answers to its first word and its second.
    fn report(script: &str) -> Report {
        let tool = |words: &[&str]| {
            let mut tool = command("sh", ["-c", script, "sh"]);
            tool.args(words);
            tool
        };
        let graphs = Path::new("graphs");
        run(&Place { tool: &tool, training: None, graphs, names: &GRAPHS, runs: "1" }, &mut |_| {})
    }

    #[test]
    fn without_a_device_the_report_ends_with_the_reason() {
        let report = report("echo \"$1\"; test \"$1\" != device || { echo none there >&2; exit 1; }");
        assert_eq!(report.no_device.as_deref(), Some("none there"));
        assert!(report.failed.is_empty() && report.text.contains("== engines\nengines"), "{}", report.text);
        assert!(!report.text.contains("bench"), "{}", report.text);
    }

    #[test]
    fn an_engine_that_computes_nothing_and_a_graph_that_fails_are_failures() {
        let all = ENGINES.join("\\n");
        let good = report(&format!("printf '{all}\\n'"));
        assert!(good.no_device.is_none() && good.failed.is_empty(), "{:?}", good.failed);
        assert!(good.text.contains("== summary\nall passed"), "{}", good.text);
        let none = report("echo MIOPEN_ENGINE; case \"$2\" in *matmul_bfloat16*) exit 1;; esac");
        assert_eq!(none.failed.len(), 4, "{:?}", none.failed);
        assert_eq!(none.failed[0], "matmul_bfloat16");
        assert!(none.text.contains("== matmul_bfloat16: engines"), "{}", none.text);
    }

    #[test]
    fn the_users_folder_is_not_in_the_report() {
        let home = std::env::var("HOME").unwrap();
        let text = format!("{home}/x");
        if home.len() > 1 {
            assert_eq!(without_home(&text), "~/x");
        }
    }
}
