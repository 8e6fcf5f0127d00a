//! The plugins in the C host: on the emulated device, and without a device under valgrind.

use super::{INSIDE, LIMIT, inside};
use crate::install::ENGINES;
use crate::plugin_host::{self, VALGRIND};
use crate::process::run_within;
use crate::steps::Check;
use crate::userland::Userland;

/// Each plugin, with how many of its engines compute each of the host's graphs on a device.
const PLUGINS: &[(&str, [&str; 3])] = &[
    ("libhipdnn_miopen_plugin.so", ["convolution=2", "pointwise=2", "unmarked=2"]),
    ("libhipdnn_rtc_plugin.so", ["convolution=1", "pointwise=1", "unmarked=1"]),
    ("libhipdnn_hipblaslt_plugin.so", ["convolution=0", "pointwise=0", "unmarked=0"]),
];

/// The command that starts the host in the userland with a plugin.
fn host(before: &[&str], plugin: &str, options: &[&str]) -> Vec<String> {
    let program = format!("/{INSIDE}/plugin_host");
    let plugin = format!("/{INSIDE}/lib/{ENGINES}/{plugin}");
    let words = before.iter().copied().chain([program.as_str()]).chain(options.iter().copied());
    words.chain([plugin.as_str()]).map(str::to_owned).collect()
}

/// Loads the plugins with a device.
pub fn with_device<'a>(userland: &'a Userland, rig: &'a str) -> impl Iterator<Item = Check<'a>> {
    PLUGINS.iter().map(move |(plugin, graphs)| -> Check<'a> {
        let compute = move || {
            let words = host(&[], plugin, &["--device"]);
            let out = run_within(inside(userland, rig, &[]).args(words).args(graphs), LIMIT)?;
            let engines = out.lines().filter_map(|line| line.trim().strip_prefix("computed by "));
            Ok(engines.collect::<Vec<_>>().join(", "))
        };
        (format!("a host in C with {plugin}"), Box::new(compute))
    })
}

/// Loads the plugins with the same libraries and no device.
pub fn without_device(userland: &Userland) -> impl Iterator<Item = Check<'_>> {
    PLUGINS.iter().map(move |(plugin, _)| -> Check<'_> {
        let refuse = move || {
            let words = host(VALGRIND, plugin, &[]);
            let mut command = userland.command_with_proc();
            let out =
                run_within(command.args(words).args(["convolution=0", "pointwise=0", "unmarked=0"]), LIMIT)?;
            Ok(plugin_host::reason(&out))
        };
        (format!("{plugin} without a device, under valgrind"), Box::new(refuse))
    })
}
