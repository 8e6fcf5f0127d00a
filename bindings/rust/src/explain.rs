//! Which engines can run a graph, and why the others cannot.

use crate::error::{Result, one_line};
use crate::{Engine, EngineInfo, Handle, Offer, OperationGraph, listen};

/// What the library says of an engine and a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The engine.
    pub engine: EngineInfo,
    /// Its place among those that apply, the best at 1.
    pub rank: Option<usize>,
    /// Why it does not apply.
    pub reason: Option<String>,
}

impl OperationGraph {
    /// Says of each engine whether it can run the graph, or why not: first those that apply, best first.
    pub fn explain(&self, handle: &Handle) -> Result<Vec<Verdict>> {
        self.explain_offer(handle, &self.offer()?)
    }

    /// The same, of an offer that is there already.
    pub fn explain_offer(&self, handle: &Handle, offer: &Offer) -> Result<Vec<Verdict>> {
        let verdict = |engine: EngineInfo| {
            let rank = offer.engines.iter().position(|id| *id == engine.id).map(|rank| rank + 1);
            let reason = rank.is_none().then(|| self.reason(&engine, &offer.reasons));
            Verdict { engine, rank, reason }
        };
        let mut verdicts: Vec<_> = handle.engines()?.into_iter().map(verdict).collect();
        verdicts.sort_by_key(|verdict| verdict.rank.unwrap_or(usize::MAX));
        Ok(verdicts)
    }

    /// Why an engine cannot run the graph, in the words of its plugin or else of the library. `told` is what an offer said.
    pub fn reason(&self, engine: &EngineInfo, told: &str) -> String {
        // Where no engine applies the library has told everything: a line with the name of each.
        let heading = format!("{} ({}):", engine.name, engine.plugin);
        if let Some(reason) = told.lines().find_map(|line| line.trim().strip_prefix(&heading)) {
            return one_line(reason.trim());
        }
        // Else the engine is asked for, and its plugin logs why that is refused.
        let (asked, lines) = listen(self.descriptor().backend(), || Engine::find(self, engine.id));
        let own = format!("{}:", engine.name);
        let logged =
            lines.iter().flat_map(|text| text.lines()).find_map(|line| line.trim().strip_prefix(&own));
        match (logged, asked) {
            (Some(reason), _) => one_line(reason.trim()),
            (None, Err(error)) => one_line(&error.to_string()),
            (None, Ok(_)) => "the heuristic left it out".to_owned(),
        }
    }
}
