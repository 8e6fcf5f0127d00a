//! Which engines can run a graph, and why the others cannot.

use crate::error::{Result, one_line};
use crate::{Engine, EngineInfo, Handle, Offer, OperationGraph, listen};

/// The library's verdict on an engine and a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The engine.
    pub engine: EngineInfo,
    /// Its rank among the engines that can run the graph; the best has 1.
    pub rank: Option<usize>,
    /// Why it cannot run the graph.
    pub reason: Option<String>,
}

impl OperationGraph {
    /// Says of each engine whether it can run the graph, or why not: first those that can, best first.
    pub fn explain(&self, handle: &Handle) -> Result<Vec<Verdict>> {
        self.explain_offer(handle, &self.offer()?)
    }

    /// The same for an existing offer.
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

    /// Why an engine cannot run the graph, in its plugin's words or else the library's. `told` is the offer's message.
    pub fn reason(&self, engine: &EngineInfo, told: &str) -> String {
        // If no engine can run it, the library has listed all reasons, a line with the name of each.
        let heading = format!("{} ({}):", engine.name, engine.plugin);
        if let Some(reason) = told.lines().find_map(|line| line.trim().strip_prefix(&heading)) {
            return one_line(reason.trim());
        }
        // Otherwise request the engine: its plugin logs why it is refused.
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
