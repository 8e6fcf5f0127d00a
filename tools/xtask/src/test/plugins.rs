//! Each plugin in a small C host that links nothing of this project, with and without valgrind.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::{Context, without_settings};
use crate::Failure;
use crate::install::{ENGINES, PLUGINS};
use crate::plugin_host;
use crate::process::{command, run_within};
use crate::steps::Steps;
use crate::tools::{self, VALGRIND};

/// Under valgrind, on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// The graphs; devices that are not there compute none of them.
const GRAPHS: [&str; 10] = [
    "convolution",
    "earlier",
    "pointwise",
    "unmarked",
    "gradients-half-2025",
    "gradients-bfloat-2025",
    "gradients-half-2026",
    "statistics-half-2025",
    "statistics-bfloat-2025",
    "statistics-half-2026",
];

pub fn run(context: &Context, steps: &mut Steps) {
    let mut host = None;
    steps.run("a host in C", || {
        host = Some(plugin_host::build(context.workspace)?);
        Ok(String::new())
    });
    let Some(host) = host else { return };
    for plugin in PLUGINS.iter() {
        let path = context.stage.join("lib").join(ENGINES).join(plugin.file);
        // The processor is always present; other plugins need a device, and say so.
        let on_cpu = plugin.devices == ["cpu"];
        let expected = if on_cpu { "1" } else { "0" };
        steps.run(plugin.file, || load(&[], &host, &path, expected, false));
        // The reference engine is offered only on request.
        if on_cpu {
            steps.run("all of its engines", || load(&[], &host, &path, "2", true));
        }
        steps.run(&format!("{} under valgrind", plugin.file), || match tools::require(&[&VALGRIND]) {
            Ok(()) => load(plugin_host::VALGRIND, &host, &path, if on_cpu { "2" } else { "0" }, true),
            Err(missing) => Ok(format!("left out: {missing}")),
        });
    }
}

/// Runs the host, prefixed by these words, with a plugin and the expected number of engines for each graph.
fn load(
    before: &[&str],
    host: &Path,
    plugin: &Path,
    expected: &str,
    all_engines: bool,
) -> Result<String, Failure> {
    let graphs = GRAPHS.map(|graph| format!("{graph}={expected}"));
    let paths = [host.as_os_str(), plugin.as_os_str()];
    let mut words = before.iter().map(OsStr::new).chain(paths).chain(graphs.iter().map(OsStr::new));
    let program = words.next().unwrap_or_default();
    let mut command = command(program, words);
    without_settings(&mut command);
    // Hide GPUs: this host's tensors are in the processor's memory.
    command.env("HIP_VISIBLE_DEVICES", "-1");
    if all_engines {
        command.env("HIPDNN_ALL_ENGINES", "1");
    }
    Ok(plugin_host::reason(&run_within(&mut command, LIMIT)?))
}
