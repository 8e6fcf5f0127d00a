//! The plugins in the host in C: on the emulated device, and, under valgrind, where there is none.

use super::{INSIDE, LIMIT, inside};
use crate::install::ENGINES;
use crate::plugin_host::{self, VALGRIND};
use crate::process::run_within;
use crate::steps::Steps;
use crate::userland::Userland;

/// Each plugin, with how many of its engines compute each of the host's graphs on a device.
const PLUGINS: &[(&str, [&str; 2])] = &[
    ("libhipdnn_miopen_plugin.so", ["convolution=2", "pointwise=2"]),
    ("libhipdnn_rtc_plugin.so", ["convolution=1", "pointwise=1"]),
    ("libhipdnn_hipblaslt_plugin.so", ["convolution=0", "pointwise=0"]),
];

/// The words that start the host in the userland with a plugin.
fn host(before: &[&str], plugin: &str, options: &[&str]) -> Vec<String> {
    let program = format!("/{INSIDE}/plugin_host");
    let plugin = format!("/{INSIDE}/lib/{ENGINES}/{plugin}");
    let words = before.iter().copied().chain([program.as_str()]).chain(options.iter().copied());
    words.chain([plugin.as_str()]).map(str::to_owned).collect()
}

/// Loads the plugins with a device.
pub fn with_device(userland: &Userland, steps: &mut Steps) {
    for (plugin, graphs) in PLUGINS {
        steps.run(&format!("a host in C with {plugin}"), || {
            let words = host(&[], plugin, &["--device"]);
            let out = run_within(inside(userland, &[]).args(words).args(graphs), LIMIT)?;
            let engines = out.lines().filter_map(|line| line.trim().strip_prefix("computed by "));
            Ok(engines.collect::<Vec<_>>().join(", "))
        });
    }
}

/// Loads the plugins with the same libraries and no device.
pub fn without_device(userland: &Userland, steps: &mut Steps) {
    for (plugin, _) in PLUGINS {
        steps.run(&format!("{plugin} without a device, under valgrind"), || {
            let words = host(VALGRIND, plugin, &[]);
            let mut command = userland.command_with_proc();
            let out = run_within(command.args(words).args(["convolution=0", "pointwise=0"]), LIMIT)?;
            Ok(plugin_host::reason(&out))
        });
    }
}
