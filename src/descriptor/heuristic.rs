//! ENGINEHEUR: which engines can run a graph, best first.

use std::ffi::c_int;
use std::sync::Arc;

use super::attribute::{Incoming, Outgoing, unknown};
use super::engine::{FrozenEngine, metric, session_of};
use super::{Descriptor, Draft, take_checked};
use crate::ffi::{
    hipdnnBackendAttributeName_t as Name, hipdnnBackendAttributeType_t as Type, hipdnnBackendHeurMode_t,
};
use crate::graph::FrozenGraph;
use crate::last_error;
use crate::plugin::cache::Entry;
use crate::plugin::{EngineRef, Session, ask};
use crate::policies::{self, Choice, EngineKnobs};
use crate::selection::Metric;
use crate::status::{Error, Result};

const KIND: &str = "engine heuristic";

const MODE: c_int = Name::HIPDNN_ATTR_ENGINEHEUR_MODE as c_int;
const OPERATION_GRAPH: c_int = Name::HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH as c_int;
const FIND_FIRST: c_int = Name::HIPDNN_ATTR_ENGINEHEUR_FIND_FIRST_EXT as c_int;
const POLICY_ORDER: c_int = Name::HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT as c_int;
const RANKING_METRIC: c_int = Name::HIPDNN_ATTR_ENGINEHEUR_RANKING_METRIC_EXT as c_int;
const RESULTS: c_int = Name::HIPDNN_ATTR_ENGINEHEUR_RESULTS as c_int;
const FALLBACK: i32 = hipdnnBackendHeurMode_t::HIPDNN_HEUR_MODE_FALLBACK as i32;

/// An open heuristic.
#[derive(Default)]
pub struct HeuristicDraft {
    graph: Option<FrozenGraph>,
    mode: Option<i32>,
    find_first: bool,
    /// The caller's policies; none for the library's.
    policies: Option<Box<[i64]>>,
    /// The caller's metric of predictions; none for the library's.
    metric: Option<Metric>,
}

/// A heuristic with its results.
pub struct FrozenHeuristic {
    graph: FrozenGraph,
    mode: i32,
    /// The graph's cache entry, if cached. Dropped before the session.
    entry: Option<Arc<Entry>>,
    session: Arc<Session>,
    engines: ask::Engines,
    /// The knobs that a policy wants, by engine.
    settings: Option<EngineKnobs>,
    /// The metric that the program or a policy asked for, which each result has.
    metric: Option<Metric>,
}

impl Draft for HeuristicDraft {
    type Frozen = FrozenHeuristic;

    const ASKS_PLUGINS: bool = true;

    fn name(&self) -> &'static str {
        KIND
    }

    fn set(&mut self, incoming: &Incoming) -> Result<()> {
        match incoming.name() {
            MODE => {
                let mode = incoming.one::<i32>(Type::HIPDNN_TYPE_HEUR_MODE)?;
                if mode != FALLBACK {
                    return Err(Error::not_supported(format!(
                        "HIPDNN_ATTR_ENGINEHEUR_MODE is {mode}, expected HIPDNN_HEUR_MODE_FALLBACK ({FALLBACK})"
                    )));
                }
                self.mode = Some(mode);
            }
            OPERATION_GRAPH => self.graph = Some(incoming.descriptor(Descriptor::graph)?),
            FIND_FIRST => self.find_first = incoming.flag()?,
            POLICY_ORDER => self.policies = Some(incoming.array(Type::HIPDNN_TYPE_INT64)?.collect()),
            RANKING_METRIC => self.metric = Some(metric(incoming)?),
            other => return Err(unknown(KIND, other, "set")),
        }
        Ok(())
    }

    fn get_open(&mut self, _: &Outgoing) -> Result<()> {
        // Only this kind returns NOT_FINALIZED; the others return NOT_INITIALIZED.
        Err(Error::not_finalized(
            "the engine heuristic is not finalized, and its attributes can be read only then",
        ))
    }

    // Inlined, so that the frozen form is built in place.
    #[inline(always)]
    fn finalize(&mut self) -> Result<Self::Frozen> {
        let missing =
            || Error::bad_param("HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH of the engine heuristic is not set");
        let mode = self.mode;
        let find_first = self.find_first;
        let policies = self.policies.as_deref();
        let metric = self.metric;
        let (graph, (mode, session, entry, choice)) = take_checked(&mut self.graph, missing, |graph| {
            let mode = mode.ok_or_else(|| {
                Error::bad_param("HIPDNN_ATTR_ENGINEHEUR_MODE of the engine heuristic is not set")
            })?;
            let session = session_of(graph)?;
            let entry = session.entry(graph);
            let choice = engines_for(&session, graph, entry.as_deref(), find_first, policies, metric)?;
            Ok((mode, session, entry, choice))
        })?;
        let Choice { engines, settings } = choice;
        let asked = session.set().settings.ranking_metric.or(metric);
        let metric = asked.or_else(|| settings.is_some().then(Metric::default));
        Ok(FrozenHeuristic { graph, mode, entry, session, engines, settings, metric })
    }

    fn get(&self, frozen: &Self::Frozen, outgoing: &Outgoing) -> Result<()> {
        match outgoing.name() {
            MODE => outgoing.exactly_one(Type::HIPDNN_TYPE_HEUR_MODE, frozen.mode),
            OPERATION_GRAPH => outgoing.exactly_one_descriptor(|| Descriptor::of_graph(frozen.graph.clone())),
            FIND_FIRST => outgoing.one(Type::HIPDNN_TYPE_BOOLEAN, u8::from(self.find_first)),
            POLICY_ORDER => {
                let order = policies::policy_order(&frozen.session, self.policies.as_deref());
                outgoing.many(Type::HIPDNN_TYPE_INT64, order)
            }
            RANKING_METRIC => outgoing.text(policies::ranking_metric(&frozen.session, self.metric).name()),
            RESULTS => results(frozen, outgoing),
            other => Err(unknown(KIND, other, "read")),
        }
    }
}

/// The engines that can run a graph, best first.
#[inline]
fn engines_for(
    session: &Session,
    graph: &FrozenGraph,
    entry: Option<&Entry>,
    find_first: bool,
    policies: Option<&[i64]>,
    metric: Option<Metric>,
) -> Result<Choice> {
    let known = entry.filter(|_| !find_first).and_then(Entry::known_engines);
    if let Some(engines) = known {
        return policies::order(session, graph, entry, engines.clone(), policies, metric);
    }
    let answer = ask::applicable(session, graph, find_first);
    if answer.engines.is_empty() {
        if let Some(failure) = answer.failure {
            return Err(failure);
        }
        // The call succeeds, but the last error tells why there are no results.
        last_error::set(&answer.refusals);
        crate::log::warn(|| answer.refusals);
    }
    // FIND_FIRST keeps the plugin's own order.
    if find_first {
        return Ok(answer.engines.into());
    }
    let entry = entry.filter(|_| answer.is_whole && !answer.engines.is_empty());
    if let Some(entry) = entry {
        entry.learn_engines(&answer.engines, session.cache());
    }
    policies::order(session, graph, entry, answer.engines, policies, metric)
}

/// Fills the caller's engine configurations, all of them or none.
fn results(frozen: &FrozenHeuristic, outgoing: &Outgoing) -> Result<()> {
    outgoing.require_type(Type::HIPDNN_TYPE_BACKEND_DESCRIPTOR)?;
    if outgoing.requested() == 0 {
        outgoing.require_count()?;
        outgoing.write_count(frozen.engines.len() as i64);
        return Ok(());
    }
    let room = usize::try_from(outgoing.requested()).map_err(|_| outgoing.wrong_count("0 or more"))?;
    outgoing.require_array()?;
    outgoing.require_count()?;
    let engines = frozen.engines.get(..room).unwrap_or(&frozen.engines);
    let entry = frozen.entry.as_deref();
    let make = |engine| FrozenEngine::new(Arc::clone(&frozen.session), frozen.graph.clone(), engine, entry);
    let metric = frozen.metric;
    let settings = |engine: EngineRef| {
        let settings = frozen.settings.as_deref()?.iter().find(|(of, _)| *of == engine);
        settings.map(|(_, settings)| settings.clone())
    };
    if let [one] = engines {
        // Checks and fills in one look-up; only errors of the check name the attribute.
        let filled = Descriptor::with_access(outgoing.descriptor_at(0), |config, access| {
            config.check_open_engine_config()?;
            Ok(make(*one).and_then(|engine| config.set_engine(access, engine, settings(*one), metric)))
        });
        filled.map_err(|error| outgoing.about(error))??;
    } else {
        for i in 0..engines.len() {
            Descriptor::with(outgoing.descriptor_at(i), Descriptor::check_open_engine_config)
                .map_err(|error| outgoing.about(error))?;
        }
        let made = engines.iter().copied().map(make).collect::<Result<Vec<_>>>()?;
        for (i, engine) in made.into_iter().enumerate() {
            Descriptor::with_access(outgoing.descriptor_at(i), |config, access| {
                let settings = settings(engine.engine);
                config.set_engine(access, engine, settings, metric)
            })?;
        }
    }
    outgoing.write_count(engines.len() as i64);
    Ok(())
}
