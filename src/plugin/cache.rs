//! What plugins made of graphs, found again when an equal graph comes: which engines apply, what they tell, and finished plans.
//!
//! A handle has a cache of its own, because a context belongs to the plugin handle that made it, and because what all threads write to
//! would make them wait for each other. In common is only the number of bytes, which changes when a graph is new. Only what succeeded is
//! kept, and plans only of configurations that set no knob: a knob may tie a plan to the memory of one caller.

use std::collections::BTreeMap;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock, Weak};

use hipdnn_plugin_sdk::ffi::HipdnnEnginePluginExecutionContext;

use super::ask::Engines;
use super::context::{self, Raw};
use super::{EngineDetails, EngineRef, Session};
use crate::device::{self, Place};
use crate::graph::{FrozenGraph, VerifiedGraph};
use crate::lock::Mutex;
use crate::status::Result;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::{log, trace};

/// The variable with the most bytes that all caches have together, 0 for no caches.
const VARIABLE: &str = "HIPDNN_PLAN_CACHE_BYTES";

const DEFAULT_LIMIT: usize = 16 << 20;

/// What a graph counts for besides its own bytes: nobody knows how much its plugin keeps.
const OVERHEAD: usize = 16 << 10;

/// What all caches have.
static TOTAL: AtomicUsize = AtomicUsize::new(0);

/// The most that all caches may have.
pub fn limit() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    if let Some(limit) = LIMIT.get() {
        return *limit;
    }
    let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let number = value.as_ref().map(|value| value.to_str().and_then(|text| text.trim().parse().ok()));
    let limit = number.flatten().unwrap_or(DEFAULT_LIMIT);
    // Complained of once it is set: a callback of the log may come here again.
    if LIMIT.set(limit).is_ok() && number == Some(None) {
        log::warn(|| {
            let value = value.unwrap_or_default();
            format!("{VARIABLE} is {value:?}, expected a number of bytes; it is {DEFAULT_LIMIT}")
        });
    }
    limit
}

/// The graphs that a session has seen.
#[derive(Default)]
pub struct Cache {
    state: Mutex<State>,
    /// How often everything was forgotten.
    clears: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// By the number of the graph and of the device.
    entries: BTreeMap<u64, Used>,
    /// How often a graph was looked for.
    clock: u64,
    /// How often it was known.
    hits: u64,
    bytes: usize,
}

struct Used {
    entry: Arc<Entry>,
    /// When it was looked for last.
    last: u64,
    bytes: usize,
}

/// What is known of a graph on a device.
pub struct Entry {
    graph: Arc<VerifiedGraph>,
    place: Place,
    /// How often everything had been forgotten when it was made.
    clears: usize,
    /// The engines that apply.
    pub engines: OnceLock<Engines>,
    /// What is known of engines, a list that only grows.
    first: OnceLock<Arc<Known>>,
}

/// What is known of an engine for a graph.
pub struct Known {
    engine: EngineRef,
    /// Where and when this began to be known.
    place: Place,
    clears: usize,
    /// What its plugin tells of it.
    pub details: OnceLock<Option<Arc<EngineDetails>>>,
    /// Bytes of workspace that it expects to need where no knob is set.
    pub workspace_size: OnceLock<i64>,
    /// What it made of the graph where no knob is set.
    plan: OnceLock<Arc<SharedContext>>,
    next: OnceLock<Arc<Self>>,
}

/// A context that plans share. Who has it has the session, too, and lets go of that later.
pub struct SharedContext {
    /// Null once it was given back.
    context: AtomicPtr<HipdnnEnginePluginExecutionContext>,
    engine: EngineRef,
    workspace_size: i64,
    session: Weak<Session>,
}

impl Cache {
    /// What is known of a graph, to be added to by whoever learns more; none where that is not kept.
    pub fn entry(&self, graph: &FrozenGraph) -> Option<Arc<Entry>> {
        if limit() == 0 {
            return None;
        }
        let (graph, place) = (graph.verified(), device::place());
        let number = graph.hash()? ^ place.hash();
        let mut state = self.state.lock();
        state.clock += 1;
        let last = state.clock;
        if let Some(used) = state.entries.get_mut(&number)
            && used.entry.place == place
            && used.entry.graph.is_equal(graph)
        {
            used.last = last;
            let entry = Arc::clone(&used.entry);
            state.hits += 1;
            let hits = state.hits;
            drop(state);
            // For the trace.
            drop(trace::phase("the plan cache knows the graph", || format!("{hits} of {last} graphs")));
            return Some(entry);
        }
        let clears = self.clears.load(Ordering::Relaxed);
        let (entry, evicted) = state.add(number, Entry::new(graph, place, clears));
        // After the lock is gone: what is dropped calls plugins.
        drop(state);
        drop(evicted);
        entry
    }

    /// Forgets everything, and gives back the contexts that no plan has.
    pub fn clear(&self) {
        self.clears.fetch_add(1, Ordering::Relaxed);
        let state = std::mem::take(&mut *self.state.lock());
        TOTAL.fetch_sub(state.bytes, Ordering::Relaxed);
    }

    /// Forgets everything when the session ends, after all plans. `session` is the one that ends.
    pub fn end(&self, session: &Session) {
        let state = std::mem::take(&mut *self.state.lock());
        TOTAL.fetch_sub(state.bytes, Ordering::Relaxed);
        for used in state.entries.values() {
            used.entry
                .engines()
                .filter_map(|known| known.plan.get())
                .for_each(|plan| plan.give_back(session));
        }
    }
}

impl Entry {
    fn new(graph: &Arc<VerifiedGraph>, place: Place, clears: usize) -> Arc<Self> {
        let graph = Arc::clone(graph);
        Arc::new(Self { graph, place, clears, engines: OnceLock::new(), first: OnceLock::new() })
    }

    fn engines(&self) -> impl Iterator<Item = &Arc<Known>> {
        std::iter::successors(self.first.get(), |known| known.next.get())
    }

    /// What is known of an engine, to be added to.
    pub fn engine(&self, engine: EngineRef) -> Arc<Known> {
        let new = || {
            let (details, workspace_size, plan) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
            let Self { place, clears, .. } = *self;
            Arc::new(Known { engine, place, clears, details, workspace_size, plan, next: OnceLock::new() })
        };
        let mut at = &self.first;
        loop {
            let known = at.get_or_init(new);
            if known.engine == engine {
                return Arc::clone(known);
            }
            at = &known.next;
        }
    }

    /// Whether an engine was found to apply before.
    pub fn has(&self, engine: EngineRef) -> bool {
        self.engines.get().is_some_and(|engines| engines.contains(&engine))
    }
}

impl Known {
    /// Whether the thread's device and the handle's stream are still those for which this is known.
    pub fn is_current(&self, cache: &Cache) -> bool {
        self.clears == cache.clears.load(Ordering::Relaxed) && self.place == device::place()
    }

    /// The plan that was made before, or else the one that `compile` makes.
    pub fn plan(
        &self,
        session: &Arc<Session>,
        compile: impl FnOnce() -> Result<(Raw, i64)>,
    ) -> Result<Arc<SharedContext>> {
        if let Some(plan) = self.plan.get() {
            log::info(|| "the plan cache has the plan".into());
            drop(trace::phase("found in the plan cache", String::new));
            return Ok(Arc::clone(plan));
        }
        let (context, workspace_size) = compile()?;
        let plan = Arc::new(SharedContext {
            context: AtomicPtr::new(context.as_ptr()),
            engine: self.engine,
            workspace_size,
            session: Arc::downgrade(session),
        });
        // Where another thread was faster this plan is its caller's alone.
        let _ = self.plan.set(Arc::clone(&plan));
        Ok(plan)
    }
}

impl SharedContext {
    /// The context, as long as nobody gives it back.
    pub fn context(&self) -> Option<Raw> {
        NonNull::new(self.context.load(Ordering::Acquire))
    }

    /// Bytes of workspace that it needs.
    pub fn workspace_size(&self) -> i64 {
        self.workspace_size
    }

    fn give_back(&self, session: &Session) {
        if let Some(context) = NonNull::new(self.context.swap(ptr::null_mut(), Ordering::AcqRel)) {
            context::give_back(session, self.engine, context);
        }
    }
}

impl Drop for SharedContext {
    fn drop(&mut self) {
        // Without a session it was given back when that ended.
        if let Some(session) = self.session.upgrade() {
            self.give_back(&session);
        }
    }
}

impl State {
    /// A new entry, in place of those that were not looked for for the longest time where there is no room.
    fn add(&mut self, number: u64, entry: Arc<Entry>) -> (Option<Arc<Entry>>, Vec<Used>) {
        let bytes = entry.graph.size() + OVERHEAD;
        // No handle takes more than it leaves to others, so that a new one always finds room.
        if bytes > limit() / 2 {
            return (None, Vec::new());
        }
        let mut evicted: Vec<Used> = self.entries.remove(&number).into_iter().collect();
        self.forget(&evicted);
        if !self.has_room(bytes) {
            evicted.append(&mut self.oldest());
            if !self.has_room(bytes) {
                return (None, evicted);
            }
        }
        self.bytes += bytes;
        TOTAL.fetch_add(bytes, Ordering::Relaxed);
        self.entries.insert(number, Used { entry: Arc::clone(&entry), last: self.clock, bytes });
        (Some(entry), evicted)
    }

    fn has_room(&self, bytes: usize) -> bool {
        let total = TOTAL.load(Ordering::Relaxed).saturating_add(bytes);
        (self.bytes + bytes).saturating_add(total) <= limit()
    }

    fn forget(&mut self, evicted: &[Used]) {
        let bytes = evicted.iter().map(|used| used.bytes).sum();
        self.bytes -= bytes;
        TOTAL.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes out the older half, so that this is seldom necessary.
    fn oldest(&mut self) -> Vec<Used> {
        let mut times: Vec<u64> = self.entries.values().map(|used| used.last).collect();
        let middle = times.len() / 2;
        if times.is_empty() {
            return Vec::new();
        }
        let (_, &mut middle, _) = times.select_nth_unstable(middle);
        let evicted: Vec<Used> =
            self.entries.extract_if(.., |_, used| used.last <= middle).map(|(_, used)| used).collect();
        self.forget(&evicted);
        evicted
    }
}
