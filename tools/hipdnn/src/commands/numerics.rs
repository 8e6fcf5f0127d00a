//! `hipdnn numerics`

use super::{Outcome, chosen, read_graph, write};
use crate::cli;
use crate::computation::{Loaded, choose_engines, first_that_works, inputs};
use crate::failure::Result;
use crate::numerics::{Report, results};
use hipdnn::{Backend, Handle};

/// Shows which node of a graph loses digits.
pub fn numerics(backend: &Backend, arguments: &cli::Numerics) -> Result<Outcome> {
    let operations = read_graph(backend, &arguments.graph)?;
    let handle = Handle::new(backend)?;
    let loaded = Loaded::new(&handle, operations, &arguments.graph)?;
    let graph = &loaded.graph;
    let (engine, knobs) = chosen(&handle, &loaded, &arguments.choice)?;
    let engines = choose_engines(&handle, &loaded, engine.as_deref(), None)?;
    let inputs = inputs(graph, &arguments.inputs, arguments.seed)?;
    let ((engine, results), told) = first_that_works(&engines, |engine| {
        Ok((engine.clone(), results(&handle, &loaded, (engine, &knobs), &inputs, arguments.memory)?))
    })?;
    let report = Report::new(&handle, &loaded, (&engine, &knobs), (&inputs, &results), arguments.memory)?;
    if let Some(path) = &arguments.svg {
        write(path, report.svg(graph)?.as_bytes())?;
    }
    Ok(Outcome::from(if arguments.json { report.json()? } else { told + &report.text(graph) }))
}
