//! `hipdnn engines`

use serde::Serialize;

use super::{Outcome, hexadecimal, json};
use crate::cli::List;
use crate::failure::Result;
use crate::table::Table;
use hipdnn::{Backend, EngineInfo, Handle, listen};

#[derive(Serialize)]
struct Answer<'a> {
    backend: &'a str,
    version: Option<String>,
    engines: Vec<EngineInfo>,
    plugins: Vec<Plugin<'a>>,
}

/// What the library's log says of a plugin that it has loaded.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Plugin<'a> {
    name: &'a str,
    version: &'a str,
    file: &'a str,
    /// The year of the graph bytes that it is given.
    generation: &'a str,
    /// How the library knows the generation.
    reason: &'a str,
}

impl<'a> Plugin<'a> {
    /// Reads `loaded plugin NAME VERSION from FILE, generation YEAR: REASON`, with anything before it. No other function of
    /// the library tells generations; the lines of other libraries give nothing.
    fn read(line: &'a str) -> Option<Self> {
        let (_, line) = line.split_once("[hipdnn_backend] loaded plugin ")?;
        let (line, said) = line.rsplit_once(", generation ")?;
        let (generation, reason) = said.split_once(": ")?;
        // The file is an absolute path.
        let at = line.find(" from /")?;
        let (plugin, file) = (line.get(..at)?, line.get(at + " from ".len()..)?);
        let (name, version) = plugin.rsplit_once(' ')?;
        Some(Self { name, version, file, generation, reason })
    }
}

/// Lists the engines that are loaded, and what is known of their plugins.
pub fn engines(backend: &Backend, arguments: &List) -> Result<Outcome> {
    let (handle, lines) = listen(backend, || Handle::new(backend));
    let engines = handle?.engines()?;
    let plugins: Vec<Plugin> = lines.iter().filter_map(|line| Plugin::read(line)).collect();
    if arguments.json {
        return json(&Answer { backend: backend.path(), version: backend.version(), engines, plugins });
    }
    let mut text = if engines.is_empty() {
        format!("{} has loaded no engine\n", backend.path())
    } else {
        let mut table = Table::new(&["NAME", "ID", "PLUGIN", "VERSION", "TYPE"]);
        for engine in engines {
            table.row([engine.name, hexadecimal(engine.id), engine.plugin, engine.version, engine.kind]);
        }
        table.text()
    };
    if !plugins.is_empty() {
        let mut table = Table::new(&["PLUGIN", "GENERATION", "BECAUSE", "FILE"]);
        for plugin in plugins {
            table.row([plugin.name, plugin.generation, plugin.reason, plugin.file].map(str::to_owned));
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    Ok(Outcome::from(text))
}

#[cfg(test)]
mod tests {
    use super::Plugin;

    #[test]
    fn the_line_of_a_plugin_is_taken_apart() {
        let line = "[2026-11-22 22:00:00.000] [tid 7] [info] [hipdnn_backend] loaded plugin My Plugin 1.0 from \
            /opt/from here, generation 2025/libz.so, generation 2026: it exports hipdnnPluginSetLogLevel";
        let expected = Plugin {
            name: "My Plugin",
            version: "1.0",
            file: "/opt/from here, generation 2025/libz.so",
            generation: "2026",
            reason: "it exports hipdnnPluginSetLogLevel",
        };
        assert_eq!(Plugin::read(line), Some(expected));
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "loaded plugin P 1.0 from /libz.so, generation 2026: it says so",
            "[hipdnn_backend] loaded plugin P 1.0 from /libz.so",
            "[hipdnn_backend] loaded heuristic plugin P 1.0 from /libz.so, generation 2026: no",
            "[hipdnn_backend] loaded plugin P from somewhere, generation 2026: no",
        ] {
            assert_eq!(Plugin::read(line), None, "{line}");
        }
    }
}
