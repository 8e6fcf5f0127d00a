//! The analysis of a graph with an engine, for people and programs.

use super::analysis::{Analysis, LOSES, Outcome, Row, analyse};
use super::chain::Chain;
use super::reasons::{SATURATION, short};
use crate::computation::{Arrays, Loaded};
use crate::failure::{Failure, Result};
use crate::graph::Graph;
use crate::picture::{self, Shares};
use crate::table::Table;
use crate::tensor::{Place, steps};
use hipdnn::{EngineInfo, Handle};

/// A plan whose error is that much less than its nodes' does not store what they store.
const MUCH_LESS: f64 = 4.0;

/// Several nodes lose digits together where none has this share of the error.
const ALONE: f64 = 0.95;

/// What an engine's plan loses of a graph.
pub struct Report {
    /// The engine.
    pub engine: String,
    /// The errors.
    pub analysis: Analysis,
}

impl Report {
    /// Measures each node, for inputs and the results of an engine's plan.
    pub fn new(
        handle: &Handle,
        loaded: &Loaded,
        (engine, knobs): (&EngineInfo, &[String]),
        (inputs, results): (&Arrays, &Arrays),
        memory: Option<Place>,
    ) -> Result<Self> {
        let chain = Chain::new(handle, loaded, (engine, knobs), memory)?;
        Ok(Self { engine: engine.name.clone(), analysis: analyse(&chain, inputs, results)? })
    }

    /// The errors as indented JSON, with a line end.
    pub fn json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(&self.analysis)
            .map_err(|error| Failure::work(format!("the answer cannot be written as JSON: {error}")))?;
        Ok(text + "\n")
    }

    /// The graph as SVG, its nodes coloured by their share of the error.
    pub fn svg(&self, graph: &Graph) -> Result<String> {
        let of_row = |row: &Row| (row.share, picture_line(row));
        let of_nodes = self.analysis.rows.iter().map(of_row).collect();
        picture::svg_of_shares(graph, &Shares { engine: self.engine.clone(), of_nodes })
    }

    /// A table of the nodes, with the reasons, the results, and the node that loses most.
    pub fn text(&self, graph: &Graph) -> String {
        text(graph, &self.engine, &self.analysis)
    }
}

/// The line of a node in the picture.
fn picture_line(row: &Row) -> String {
    format!("{} of the error, {} ulp", percent(row.share), short(row.ulps.0))
}

fn percent(share: f64) -> String {
    match share {
        0.0 => "0 %".to_owned(),
        share if share < 0.001 => "<0.1 %".to_owned(),
        share if share < 0.1 => format!("{:.1} %", share * 100.0),
        share => format!("{:.0} %", share * 100.0),
    }
}

/// A node's index, with its name if it has one.
fn label(row: &Row) -> String {
    if row.name.is_empty() { row.node.to_string() } else { format!("{} {:?}", row.node, row.name) }
}

/// The rows of all nodes, the results, and the node that loses most.
fn text(graph: &Graph, engine: &str, found: &Analysis) -> String {
    let mut table = Table::new(&[
        "NODE",
        "OPERATION",
        "TYPE",
        "ULP",
        "ADDED",
        "SO FAR",
        "BOUND",
        "CONDITION",
        "SHARE",
        "LOST",
    ]);
    let optional = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), short);
    for row in &found.rows {
        table.row([
            label(row),
            row.operation.clone(),
            row.data_type.to_owned(),
            short(row.ulps.0),
            short(row.added.0),
            short(row.so_far.0),
            optional(row.bound.map(|number| number.0)),
            optional(row.condition.map(|number| number.0)),
            percent(row.share),
            format!("{:.1}", row.lost),
        ]);
    }
    let mut text = format!("{engine}; results hold {:.1} digits\n\n{}", found.digits, table.text());
    for row in &found.rows {
        for reason in &row.reasons {
            text.push_str(&format!("  node {}: {reason}\n", label(row)));
        }
    }
    let first = |is_there: fn(&Row) -> bool| found.rows.iter().find(|row| is_there(row));
    for (what, row) in [("infinity", first(|row| row.infinities > 0)), ("NaN", first(|row| row.nans > 0))] {
        if let Some(row) = row {
            let count = if what == "NaN" { row.nans } else { row.infinities };
            text.push_str(&format!("the first {what}: node {}, {count} elements\n", label(row)));
        }
    }
    text.push('\n');
    for result in &found.results {
        let name = graph.tensor(result.uid).map(|tensor| tensor.label()).unwrap_or_default();
        let (plan, nodes) = (result.relative.0, result.node_by_node.0);
        let beside = match () {
            () if plan < nodes / MUCH_LESS => ", so the plan's steps keep more digits than its nodes",
            () if nodes < plan / MUCH_LESS => ", so the plan's steps keep fewer digits than its nodes",
            () => "",
        };
        text.push_str(&format!(
            "{name}: largest error {} ulp, relative {}; node by node {}{beside}\n",
            short(result.ulps.0),
            short(plan),
            short(nodes)
        ));
    }
    text.push_str(&verdict(graph, found));
    text
}

/// The node that loses most, or what several lose together, or why there is no loss to tell.
fn verdict(graph: &Graph, found: &Analysis) -> String {
    let why = |row: &Row| row.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default();
    let name = |row: &Row| format!("node {} ({})", label(row), row.operation);
    if let Some(row) = found.culprit.and_then(|place| found.rows.get(place)) {
        return format!("{} loses {:.1} of {:.1} digits{}\n", name(row), row.lost, found.digits, why(row));
    }
    let first = |is_there: &dyn Fn(&Row) -> bool| found.rows.iter().find(|row| is_there(row));
    // Infinities inside of the graph may be wanted, as those of a mask.
    let is_finite = found.results.iter().all(|result| result.is_finite);
    if let Some(row) = first(&|row| !is_finite && row.reads_finite && row.infinities + row.nans > 0) {
        return format!("no node loses digits, {} is the first that is not finite{}\n", name(row), why(row));
    }
    if let Some(row) = first(&|row| row.reasons.iter().any(|reason| reason.starts_with(SATURATION))) {
        return format!("no node loses digits by more than its type rounds, {}{}\n", name(row), why(row));
    }
    // Each result beside its own type; integers have no digits to lose.
    let of_result = |result: &Outcome| {
        let data_type = graph.tensor(result.uid)?.data_type;
        let least = steps(data_type).0;
        let lost = (result.node_by_node.0.clamp(least, 1.0) / least).log10();
        (!data_type.is_integer()).then_some((lost, -least.log10()))
    };
    let worst = found.results.iter().filter_map(of_result).max_by(|a, b| a.0.total_cmp(&b.0));
    let (lost, digits) = worst.unwrap_or_default();
    let most = found.rows.iter().rev().max_by(|a, b| a.share.total_cmp(&b.share));
    match most.filter(|row| lost > LOSES && row.share < ALONE) {
        Some(row) => format!(
            "no node alone loses digits, all together lose {lost:.1} of {digits:.1}, {} of that by {}{}\n",
            percent(row.share),
            name(row),
            why(row)
        ),
        None => "no node loses digits\n".to_owned(),
    }
}
