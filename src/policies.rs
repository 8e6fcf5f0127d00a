//! Asks the policies ([`selection`](crate::selection)) which engine is best for a graph.

use std::fmt::Write;
use std::sync::Arc;

use hipdnn_plugin_sdk::cancel;
use hipdnn_plugin_sdk::engine_kind::EngineKind;
use hipdnn_plugin_sdk::graph::Graph;
use hipdnn_plugin_sdk::wire::{self, KnobSetting, Layout};
use smallvec::SmallVec;

use crate::graph::{FrozenGraph, with_compute_types};
use crate::plugin::ask::Engines;
use crate::plugin::cache::Entry;
use crate::plugin::{EngineRef, Order, Session};
use crate::selection::{
    BUILT_IN, CONFIG, DEFAULT_ORDER, Key, MODE_A, MODE_B, Metric, Predictor, Record, Rules, Settings, Stored,
    ranking, static_order,
};
use crate::status::{Error, Result};
use crate::{device, log, trace};

/// A policy's answer: an order, or why it leaves the choice to the next policy.
type Answer = std::result::Result<Order, String>;

/// The answer of a policy of the library's own, which leaves knobs alone.
type Ids = std::result::Result<Vec<i64>, String>;

/// The policies of a session: those of the environment, else the caller's, else the default.
pub fn policy_order<'a>(session: &'a Session, callers: Option<&'a [i64]>) -> &'a [i64] {
    session.set().settings.policy_order.as_deref().or(callers).unwrap_or(&DEFAULT_ORDER)
}

/// The metric that predictions rank engines by: the environment's, else the caller's, else the default.
pub fn ranking_metric(session: &Session, callers: Option<Metric>) -> Metric {
    session.set().settings.ranking_metric.or(callers).unwrap_or_default()
}

/// Knobs by engine.
pub type EngineKnobs = Box<[(EngineRef, Vec<KnobSetting>)]>;

/// What the policies chose.
pub struct Choice {
    /// The engines, best first.
    pub engines: Engines,
    /// The knobs that the deciding policy wants, by engine; none without any.
    pub settings: Option<EngineKnobs>,
}

impl From<Engines> for Choice {
    fn from(engines: Engines) -> Self {
        Self { engines, settings: None }
    }
}

/// Lets the policies order the engines that can run a graph; the first that applies decides. `callers` are the policies that
/// the caller wants, and the metric of predictions; `entry` is the graph's, if it knows these engines.
///
/// # Errors
/// INTERNAL_ERROR when no policy has an order, with each policy's reason.
#[inline]
pub fn order(
    session: &Session,
    graph: &FrozenGraph,
    entry: Option<&Entry>,
    engines: Engines,
    callers: Option<&[i64]>,
    metric: Option<Metric>,
) -> Result<Choice> {
    // The default policies cannot reorder a single engine.
    if engines.is_empty()
        || (engines.len() == 1 && callers.is_none() && !session.set().settings.may_leave_out_engines())
    {
        return Ok(engines.into());
    }
    ask_policies(session, graph, entry, &engines, callers, metric)
}

#[inline(never)]
fn ask_policies(
    session: &Session,
    graph: &FrozenGraph,
    entry: Option<&Entry>,
    engines: &[EngineRef],
    callers: Option<&[i64]>,
    metric: Option<Metric>,
) -> Result<Choice> {
    // Once for all policies, which may read files.
    let _off = cancel::disable();
    let _phase = trace::phase("ask policies for the order", String::new);
    let mut candidates = SmallVec::<[i64; 4]>::new();
    let mut kinds = SmallVec::<[(i64, EngineKind); 4]>::new();
    for engine in engines {
        let engine = session.engine(*engine)?;
        candidates.push(engine.id);
        kinds.push((engine.id, engine.kind));
    }
    let find = || measured(session, graph, entry);
    let predictor = Predictor::new(ranking_metric(session, metric), &kinds, &find);
    let mut said = String::new();
    for policy in policy_order(session, callers) {
        let reason = match ask(session, graph, entry, *policy, &candidates, &predictor) {
            (name, Ok(order)) => {
                let engine = |id: i64| {
                    let place = candidates.iter().position(|candidate| *candidate == id)?;
                    engines.get(place).copied()
                };
                log_traces(session, &name, &order, engine);
                let settings = order.settings.into_iter();
                let settings: Box<[_]> =
                    settings.filter_map(|(id, settings)| Some((engine(id)?, settings))).collect();
                let engines = order.engines.into_iter().filter_map(engine).collect();
                return Ok(Choice { engines, settings: (!settings.is_empty()).then_some(settings) });
            }
            (name, Err(reason)) => format!("{name}: {reason}"),
        };
        log::info(|| format!("policy {reason}"));
        let _ = write!(said, "\n  {reason}");
    }
    if said.is_empty() {
        said.push_str(" the list of policies is empty");
    }
    let origin = match session.set().settings.policy_order {
        Some(_) => " (HIPDNN_HEUR_POLICY_ORDER names the policies)",
        None => "",
    };
    Err(Error::internal(format!(
        "No policy chose among the {} engines for the graph{origin}:{said}",
        candidates.len()
    )))
}

/// Logs what a policy says of engines; `hipdnn explain` reads these lines.
fn log_traces(session: &Session, policy: &str, order: &Order, engine: impl Fn(i64) -> Option<EngineRef>) {
    for (id, trace) in &order.traces {
        let name =
            engine(*id).and_then(|engine| session.engine(engine).ok()).map(|engine| engine.display_name());
        log::info(|| format!("policy {policy} of {}: {trace}", name.unwrap_or_else(|| id.to_string())));
    }
}

/// Asks one policy. Returns its name and its answer.
fn ask(
    session: &Session,
    graph: &FrozenGraph,
    entry: Option<&Entry>,
    policy: i64,
    candidates: &[i64],
    predictor: &Predictor,
) -> (String, Answer) {
    let settings = &session.set().settings;
    if let Some((_, name)) = BUILT_IN.iter().find(|(id, _)| *id == policy) {
        let answer = match policy {
            CONFIG => config(settings, graph, entry, candidates),
            MODE_A | MODE_B => read(graph).and_then(|graph| predictor.rank(&graph, candidates)),
            _ => static_ordering(settings, graph, predictor.kinds),
        };
        return ((*name).to_owned(), answer.map(Order::from));
    }
    let asked = session.heuristics().and_then(|handles| handles.ask(policy, graph, candidates, predictor));
    match asked {
        None => {
            let name = settings.name_of(policy).map_or_else(|| policy.to_string(), str::to_owned);
            (name, Err("no such policy is loaded".to_owned()))
        }
        Some((name, Ok(Some(chosen)))) => (name.to_owned(), Ok(chosen)),
        Some((name, Ok(None))) => (name.to_owned(), Err("it leaves the choice to others".to_owned())),
        Some((name, Err(reason))) => {
            log::warn(|| format!("policy {name} is passed over: {reason}"));
            (name.to_owned(), Err(reason))
        }
    }
}

fn static_ordering(settings: &Settings, graph: &FrozenGraph, candidates: &[(i64, EngineKind)]) -> Ids {
    let ids = |engines: &[(i64, EngineKind)]| engines.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    if let Some(preferred) = &settings.fallback_order {
        let chosen = static_order::preferred(&ids(candidates), preferred);
        if chosen.is_empty() {
            return Err("none of the engines in HIPDNN_HEUR_FALLBACK_ENGINE_ORDER is among them".to_owned());
        }
        return Ok(chosen);
    }
    let mut engines = SmallVec::<[_; 4]>::from_slice(candidates);
    let is_suited = || read(graph).is_ok_and(|graph| graph.suits_generated_kernels());
    static_order::order(&mut engines, is_suited);
    Ok(ids(&engines))
}

fn config(settings: &Settings, graph: &FrozenGraph, entry: Option<&Entry>, candidates: &[i64]) -> Ids {
    let mut content = None;
    let mut reasons = Vec::new();
    let found = record(settings, graph, entry, &mut content);
    match found.map(|record| record.and_then(|record| record.rank(candidates))) {
        Ok(Some(ranking)) => return Ok(ranking),
        Ok(None) => reasons.push("there is no ranking of this graph with all of these engines".to_owned()),
        Err(reason) => {
            log::warn(|| format!("rankings: {reason}"));
            reasons.push(reason);
        }
    }
    match settings.config_path.as_deref() {
        None => reasons.push("HIPDNN_HEUR_CONFIG_PATH is not set".to_owned()),
        Some(path) => {
            let graph = content.map_or_else(|| read(graph), Ok);
            match graph.and_then(|graph| Ok(Rules::read(path)?.engine(&graph, candidates))) {
                Ok(Some(engine)) => {
                    let others = candidates.iter().filter(|other| **other != engine);
                    return Ok(std::iter::once(&engine).chain(others).copied().collect());
                }
                Ok(None) => reasons.push(format!("no rule of {} fits", path.display())),
                Err(reason) => {
                    log::warn(|| format!("HIPDNN_HEUR_CONFIG_PATH: {reason}"));
                    reasons.push(reason);
                }
            }
        }
    }
    Err(reasons.join("; "))
}

/// What was measured of a graph; none if nothing was. Fills in `content` if it had to be read.
fn record(
    settings: &Settings,
    graph: &FrozenGraph,
    entry: Option<&Entry>,
    content: &mut Option<Graph>,
) -> std::result::Result<Option<Arc<Record>>, String> {
    let stored = ranking::stored();
    // Nothing is asked of the file system for a graph that is known.
    let known = entry.and_then(|entry| entry.ranking.lock().clone()).filter(|(then, _)| *then == stored);
    if let Some((_, record)) = known {
        return Ok(record);
    }
    let record = match settings.rankings.as_ref().filter(|cache| cache.exists()) {
        Some(cache) => cache.find(&Key::new(content.insert(read(graph)?), device::current()))?,
        None => None,
    };
    if let Some(entry) = entry {
        *entry.ranking.lock() = Some((stored, record.clone()));
    }
    Ok(record)
}

/// What was measured of a graph, for predictions, which do without it if it cannot be read.
fn measured(session: &Session, graph: &FrozenGraph, entry: Option<&Entry>) -> Option<Arc<Record>> {
    record(&session.set().settings, graph, entry, &mut None).unwrap_or_else(|reason| {
        log::warn(|| format!("rankings: {reason}"));
        None
    })
}

/// The prediction of an engine for a graph, as bytes; of its default configuration where `kind` is 1.
pub fn predict(
    session: &Session,
    graph: &FrozenGraph,
    engine: EngineRef,
    kind: u8,
    metric: Metric,
) -> Result<Vec<u8>> {
    let engine = session.engine(engine)?;
    let content = read(graph).map_err(Error::internal)?;
    let find = || measured(session, graph, None);
    Ok(Predictor::new(metric, &[(engine.id, engine.kind)], &find).bytes(&content, engine.id, kind))
}

fn read(graph: &FrozenGraph) -> std::result::Result<Graph, String> {
    let bytes = graph.bytes(Layout::G2).map_err(|error| error.message.to_string())?;
    wire::read(bytes).map(with_compute_types).map_err(|error| error.0)
}

/// Stores which engines are best for a graph on this thread's device; none if rankings are switched off.
///
/// # Errors
/// The reason why it was not stored.
pub fn store_ranking(
    session: &Session,
    graph: &FrozenGraph,
    measured: &Record,
) -> Option<std::result::Result<Stored, String>> {
    let cache = session.set().settings.rankings.as_ref()?;
    Some(read(graph).and_then(|graph| cache.store(&Key::new(&graph, device::current()), measured)))
}
