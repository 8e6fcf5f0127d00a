//! `hipdnn policies`

use serde::Serialize;

use super::{Outcome, json};
use crate::cli::List;
use crate::computation::hexadecimal;
use crate::failure::Result;
use crate::table::Table;
use hipdnn::{Backend, Handle, PolicyInfo};

#[derive(Serialize)]
struct Answer<'a> {
    backend: &'a str,
    version: Option<String>,
    policies: Vec<PolicyInfo>,
}

/// Lists the heuristic policies.
pub fn policies(backend: &Backend, arguments: &List) -> Result<Outcome> {
    let policies = Handle::new(backend)?.policies()?;
    if arguments.json {
        return json(&Answer { backend: backend.path(), version: backend.version(), policies });
    }
    let mut table = Table::new(&["NAME", "ID", "PLUGIN", "VERSION", "API"]);
    for policy in policies {
        table.row([policy.name, hexadecimal(policy.id), policy.plugin, policy.version, policy.api_version]);
    }
    Ok(Outcome::from(table.text()))
}
