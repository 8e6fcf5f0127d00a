//! `hipdnn engines`

use std::path::PathBuf;

use serde::Serialize;

use super::{Outcome, json};
use crate::cli::List;
use crate::computation::hexadecimal;
use crate::failure::{Failure, Result};
use crate::loading::Loading;
use crate::table::Table;
use hipdnn::{Backend, EngineInfo};

#[derive(Serialize)]
struct Answer<'a> {
    backend: &'a str,
    version: Option<String>,
    engines: Vec<EngineInfo>,
    #[serde(flatten)]
    loading: Loading,
}

/// Lists the loaded engines and their plugins. `added` are the files of `--plugin`.
pub fn engines(backend: &Backend, added: &[PathBuf], arguments: &List) -> Result<Outcome> {
    let (handle, loading) = Loading::watch(backend);
    let engines = handle?.engines()?;
    let nothing = || engines.is_empty().then(|| Failure::work("no engine is loaded"));
    let failure = loading.failure_of(added).or_else(nothing);
    if arguments.json {
        let answer = Answer { backend: backend.path(), version: backend.version(), engines, loading };
        return Ok(Outcome { failure, ..json(&answer)? });
    }
    let mut text = if engines.is_empty() {
        format!("{} has loaded no engine\n", backend.path())
    } else {
        let mut table = Table::new(&["NAME", "ID", "PLUGIN", "VERSION", "TYPE"]);
        for engine in engines {
            // HIPDNN_PLUGIN_TYPE_ENGINE
            let kind = engine.kind.rsplit('_').next().unwrap_or_default().to_lowercase();
            table.row([engine.name, hexadecimal(engine.id), engine.plugin, engine.version, kind]);
        }
        table.text()
    };
    if !loading.plugins.is_empty() {
        let mut table = Table::new(&["PLUGIN", "GENERATION", "BECAUSE", "FILE"]);
        for plugin in &loading.plugins {
            table.row([&plugin.name, &plugin.generation, &plugin.reason, &plugin.file].map(Clone::clone));
        }
        text.push('\n');
        text.push_str(&table.text());
    }
    let remarks = loading.remarks();
    if !remarks.is_empty() {
        text.push('\n');
        text.push_str(&remarks);
    }
    Ok(Outcome { text, failure })
}
