//! `hipdnn engines`

use serde::Serialize;

use super::{Outcome, hexadecimal, json};
use crate::backend::{Backend, EngineInfo, Handle};
use crate::cli::List;
use crate::failure::Result;
use crate::table::Table;

#[derive(Serialize)]
struct Answer<'a> {
    backend: &'a str,
    version: Option<String>,
    engines: Vec<EngineInfo>,
}

/// Lists the engines that are loaded.
pub fn engines(backend: &Backend, arguments: &List) -> Result<Outcome> {
    let engines = Handle::new(backend)?.engines()?;
    if arguments.json {
        return json(&Answer { backend: backend.path(), version: backend.version(), engines });
    }
    if engines.is_empty() {
        return Ok(Outcome::from(format!("{} has loaded no engine\n", backend.path())));
    }
    let mut table = Table::new(&["NAME", "ID", "PLUGIN", "VERSION", "TYPE"]);
    for engine in engines {
        table.row([engine.name, hexadecimal(engine.id), engine.plugin, engine.version, engine.kind]);
    }
    Ok(Outcome::from(table.text()))
}
