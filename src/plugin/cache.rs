//! The plan cache: plugins' answers for graphs (applicable engines, details, workspace sizes, plans), reused for equal graphs.
//!
//! Each handle has its own cache, to avoid contention. On a miss it looks in the cache shared by all handles and copies the
//! answer, so that a hit touches no shared memory. A context belongs to the plugin handle that made it, unless its plugin says
//! otherwise. Only successful answers are kept, and plans of configurations with knobs only if the plugin allows it: a knob may
//! tie a plan to one caller's memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::ask::Engines;
use super::made::{Compiled, Made, SharedContext, Sharing};
use super::raw_context::Raw;
use super::{EngineDetails, EngineRef, Session};
use crate::cache_limit::limit;
use crate::device::{self, Place};
use crate::graph::{FrozenGraph, VerifiedGraph};
use crate::lock::{Mutex, OnceLock};
use crate::status::Result;
use crate::sync::{AtomicUsize, Ordering};
use crate::{log, trace};

/// The bytes that a graph in a handle's cache counts for besides its own, for its plugin's unknown memory.
const OVERHEAD: usize = 16 << 10;

/// The same in the shared cache, for answers.
const OVERHEAD_IN_COMMON: usize = 1 << 10;

/// The most knob settings kept for an engine and a graph.
const MOST_SETTINGS: usize = 4;

/// The cache shared by all handles, in separately locked parts.
pub static COMMON: [Cache; 16] = [const { Cache::new() }; 16];

/// The bytes in all caches.
static TOTAL: AtomicUsize = AtomicUsize::new(0);

/// A cache, of one handle or a part of the shared one.
pub struct Cache {
    /// Locked only briefly.
    pub state: Mutex<State>,
    /// How often the cache was invalidated.
    clears: AtomicUsize,
}

/// The entries, and statistics.
#[derive(Default)]
pub struct State {
    /// By the hash of the graph and the scope.
    entries: BTreeMap<u64, Used>,
    /// The number of look-ups.
    clock: u64,
    /// The number of hits.
    hits: u64,
    bytes: usize,
}

struct Used {
    entry: Arc<Entry>,
    /// When it was last looked up.
    last: u64,
    bytes: usize,
}

/// Where an answer is valid: on a device, and in the shared cache with a set of plugins.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Scope {
    place: Place,
    plugins: u64,
}

/// The answers for a graph.
pub struct Entry {
    graph: Arc<VerifiedGraph>,
    scope: Scope,
    /// The cache's `clears` when this was made.
    clears: usize,
    /// The engines that apply.
    engines: OnceLock<Engines>,
    /// Once looked for, what was measured, if anything, and how many rankings this process had stored.
    pub ranking: Mutex<Option<(usize, Option<Arc<crate::selection::Record>>)>>,
    /// The answers for engines, a list that only grows.
    first: OnceLock<Arc<Known>>,
    /// The shared entry.
    common: Option<Arc<Self>>,
}

/// The answers for an engine and a graph.
pub struct Known {
    engine: EngineRef,
    /// The configuration, if it sets knobs.
    settings: Option<Box<[u8]>>,
    /// Where and since when this is valid.
    scope: Scope,
    clears: usize,
    /// The plugin's details of the engine.
    details: OnceLock<Option<Arc<EngineDetails>>>,
    /// The workspace that it expects to need, in bytes.
    workspace_size: OnceLock<i64>,
    /// Its plan for this handle.
    plan: OnceLock<Arc<SharedContext>>,
    /// Its plan for all handles, as long as one uses it.
    made: Mutex<Weak<Made>>,
    /// The same engine with settings of its knobs, a list that only grows.
    with_settings: OnceLock<Arc<Self>>,
    next: OnceLock<Arc<Self>>,
    /// The shared answers.
    common: Option<Arc<Self>>,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    const fn new() -> Self {
        Self { state: Mutex::new(State::new()), clears: AtomicUsize::new(0) }
    }

    /// A handle's entry for a graph, filled in by later answers; none if it is not cached. `plugins` returns a number of the
    /// handle's plugins if handles with the same number may share answers; it is called on a miss.
    pub fn entry(&self, graph: &FrozenGraph, plugins: impl FnOnce() -> Option<u64>) -> Option<Arc<Entry>> {
        if limit() == 0 || !graph.is_cached() {
            return None;
        }
        let (graph, place) = (graph.verified(), device::place());
        let number = graph.hash()? ^ place.hash();
        let common = || {
            let scope = Scope { place, plugins: plugins()? };
            let number = number ^ scope.plugins.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
            let part = COMMON.get((number >> 60) as usize)?;
            part.find(graph, number, scope, "another handle knows the graph", OVERHEAD_IN_COMMON, || None)
        };
        self.find(
            graph,
            number,
            Scope { place, plugins: 0 },
            "the plan cache knows the graph",
            OVERHEAD,
            common,
        )
    }

    /// The entry of a graph, or a new one on top of the shared entry `common`.
    #[inline]
    fn find(
        &self,
        graph: &Arc<VerifiedGraph>,
        number: u64,
        scope: Scope,
        found: &'static str,
        overhead: usize,
        common: impl FnOnce() -> Option<Arc<Entry>>,
    ) -> Option<Arc<Entry>> {
        let mut state = self.state.lock();
        state.clock += 1;
        if let Some(entry) = state.get(number, graph, scope) {
            state.hits += 1;
            let (hits, last) = (state.hits, state.clock);
            drop(state);
            drop(trace::phase(found, || format!("{hits} of {last} graphs")));
            return Some(entry);
        }
        drop(state);
        self.make(graph, number, scope, overhead, common)
    }

    /// A new entry for a graph, on top of the shared entry `common`.
    #[cold]
    #[inline(never)]
    fn make(
        &self,
        graph: &Arc<VerifiedGraph>,
        number: u64,
        scope: Scope,
        overhead: usize,
        common: impl FnOnce() -> Option<Arc<Entry>>,
    ) -> Option<Arc<Entry>> {
        let new = Entry::new(graph, scope, self.clears.load(Ordering::SeqCst), common());
        let mut state = self.state.lock();
        // Another thread may have been faster.
        let (entry, evicted) = match state.get(number, graph, scope) {
            None => state.add(number, new, overhead),
            entry => (entry, Vec::new()),
        };
        drop(state);
        // After unlocking: dropping calls plugins.
        drop(evicted);
        entry
    }

    /// Invalidates the cache: known answers are not used any more, and answers still on their way are not shared.
    pub fn suspect(&self) {
        self.clears.fetch_add(1, Ordering::SeqCst);
    }

    /// Clears the cache, and destroys the contexts that no plan uses.
    pub fn clear(&self) {
        self.suspect();
        drop(self.take());
    }

    /// Clears the cache when `session` ends, after all its plans.
    pub fn end(&self, session: &Session) {
        let state = self.take();
        for used in state.entries.values() {
            for known in used.entry.engines().flat_map(|known| known.settings_too()) {
                if let Some(plan) = known.plan.get() {
                    plan.let_go(session);
                }
            }
        }
    }

    fn take(&self) -> State {
        let state = std::mem::take(&mut *self.state.lock());
        TOTAL.fetch_sub(state.bytes, Ordering::Relaxed);
        state
    }

    /// Whether the cache has not been invalidated since then.
    fn is_as_before(&self, clears: usize) -> bool {
        self.clears.load(Ordering::SeqCst) == clears
    }
}

/// A copy with its own reference count.
fn copy_of(details: &Option<Arc<EngineDetails>>) -> Option<Arc<EngineDetails>> {
    details.as_deref().cloned().map(Arc::new)
}

/// The own answer, else a copy of the shared one.
#[inline]
fn known_or_copy<'a, T>(
    own: &'a OnceLock<T>,
    common: Option<&OnceLock<T>>,
    copy: impl FnOnce(&T) -> T,
) -> Option<&'a T> {
    if let Some(known) = own.get() {
        return Some(known);
    }
    let known = common?.get()?;
    Some(own.get_or_init(|| copy(known)))
}

impl Entry {
    fn new(graph: &Arc<VerifiedGraph>, scope: Scope, clears: usize, common: Option<Arc<Self>>) -> Arc<Self> {
        let (engines, ranking, first) = (OnceLock::new(), Mutex::new(None), OnceLock::new());
        Arc::new(Self { graph: Arc::clone(graph), scope, clears, engines, ranking, first, common })
    }

    /// The engines that apply, if known.
    pub fn known_engines(&self) -> Option<&Engines> {
        known_or_copy(&self.engines, self.common.as_ref().map(|common| &common.engines), Clone::clone)
    }

    /// Stores the engines that apply.
    pub fn learn_engines(&self, engines: &Engines, cache: &Cache) {
        let _ = self.engines.set(engines.clone());
        if let Some(common) = &self.common
            && cache.is_as_before(self.clears)
        {
            let _ = common.engines.set(engines.clone());
        }
    }

    fn engines(&self) -> impl Iterator<Item = &Arc<Known>> {
        std::iter::successors(self.first.get(), |known| known.next.get())
    }

    /// The answers for an engine without knob settings, filled in by later answers.
    pub fn engine(&self, engine: EngineRef) -> Arc<Known> {
        let new = || {
            let common = self.common.as_ref().map(|common| common.engine(engine));
            Known::new(engine, None, self.scope, self.clears, common)
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

    /// Whether an engine is known to apply.
    pub fn has(&self, engine: EngineRef) -> bool {
        self.known_engines().is_some_and(|engines| engines.contains(&engine))
    }
}

impl Known {
    fn new(
        engine: EngineRef,
        settings: Option<Box<[u8]>>,
        scope: Scope,
        clears: usize,
        common: Option<Arc<Self>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            engine,
            settings,
            scope,
            clears,
            details: OnceLock::new(),
            workspace_size: OnceLock::new(),
            plan: OnceLock::new(),
            made: Mutex::new(Weak::new()),
            with_settings: OnceLock::new(),
            next: OnceLock::new(),
            common,
        })
    }

    /// These answers, and those for the engine with knob settings.
    fn settings_too(&self) -> impl Iterator<Item = &Self> {
        let first = self.with_settings.get().map(Arc::as_ref);
        std::iter::once(self).chain(std::iter::successors(first, |known| known.next.get().map(Arc::as_ref)))
    }

    /// The answers for the engine with this configuration, which sets knobs; none if there are too many.
    pub fn with_settings(&self, config: &[u8]) -> Option<Arc<Self>> {
        let new = || {
            let common = self.common.as_ref().and_then(|common| common.with_settings(config));
            Self::new(self.engine, Some(config.into()), self.scope, self.clears, common)
        };
        let mut at = &self.with_settings;
        for _ in 0..MOST_SETTINGS {
            let known = at.get_or_init(new);
            if known.settings.as_deref() == Some(config) {
                return Some(Arc::clone(known));
            }
            at = &known.next;
        }
        None
    }

    /// Whether this is valid for the thread's device and the handle's stream.
    pub fn is_current(&self, cache: &Cache) -> bool {
        self.clears == cache.clears.load(Ordering::Relaxed) && self.scope.place == device::place()
    }

    /// The plugin's details of the engine, if known.
    pub fn details(&self) -> Option<&Option<Arc<EngineDetails>>> {
        known_or_copy(&self.details, self.common.as_ref().map(|common| &common.details), copy_of)
    }

    /// Stores the details.
    pub fn learn_details(&self, details: &Option<Arc<EngineDetails>>, cache: &Cache) {
        self.details.get_or_init(|| details.clone());
        if let Some(common) = self.common_to_teach(cache) {
            common.details.get_or_init(|| copy_of(details));
        }
    }

    /// The workspace that the engine expects to need in bytes, if known.
    pub fn workspace_size(&self) -> Option<i64> {
        known_or_copy(
            &self.workspace_size,
            self.common.as_ref().map(|common| &common.workspace_size),
            |size| *size,
        )
        .copied()
    }

    /// Stores the expected workspace size.
    pub fn learn_workspace_size(&self, size: i64, cache: &Cache) {
        self.workspace_size.get_or_init(|| size);
        if let Some(common) = self.common_to_teach(cache) {
            common.workspace_size.get_or_init(|| size);
        }
    }

    /// The shared answers to fill in, unless this handle's current answers may be valid for it alone.
    fn common_to_teach(&self, cache: &Cache) -> Option<&Self> {
        self.common.as_deref().filter(|_| cache.is_as_before(self.clears))
    }

    /// The plan that this or another handle made, or else the one that `compile` makes. `sharing` asks the plugin who may use a
    /// context; `uids` are the uids of the graph that it is made for.
    #[inline]
    pub fn plan(
        &self,
        session: &Arc<Session>,
        compile: impl FnOnce() -> Result<Made>,
        sharing: impl Fn(Raw) -> Sharing,
        uids: impl FnOnce() -> Box<[i64]>,
    ) -> Result<Compiled> {
        if let Some(plan) = self.plan.get() {
            log::info(|| "the plan cache has the plan".into());
            drop(trace::phase("found in the plan cache", String::new));
            return Ok(Compiled::Shared(Arc::clone(plan)));
        }
        self.make(session, compile, sharing, uids)
    }

    /// The plan that another handle made, or else the one that `compile` makes.
    #[inline(never)]
    fn make(
        &self,
        session: &Arc<Session>,
        compile: impl FnOnce() -> Result<Made>,
        sharing: impl Fn(Raw) -> Sharing,
        uids: impl FnOnce() -> Box<[i64]>,
    ) -> Result<Compiled> {
        let common = self.common.as_deref();
        if let Some(made) = common.and_then(|common| common.made.lock().upgrade()) {
            let context = made.context;
            let plan = SharedContext::new(made, self.engine, session);
            if sharing(context) == Sharing::AnyHandle {
                log::info(|| "the plan cache has the plan, which another handle made".into());
                drop(trace::phase("found in the plan cache, made by another handle", String::new));
                return Ok(self.keep(plan));
            }
        }
        let mut made = compile()?;
        let sharing = sharing(made.context);
        if sharing == Sharing::Plan {
            return Ok(Compiled::Own(made));
        }
        made.uids.get_or_insert_with(uids);
        let made = Arc::new(made);
        if sharing == Sharing::AnyHandle
            && let Some(common) = self.common_to_teach(session.cache())
        {
            *common.made.lock() = Arc::downgrade(&made);
        }
        Ok(self.keep(SharedContext::new(made, self.engine, session)))
    }

    fn keep(&self, plan: Arc<SharedContext>) -> Compiled {
        // If another thread was faster, this plan is not shared.
        let _ = self.plan.set(Arc::clone(&plan));
        Compiled::Shared(plan)
    }
}
impl State {
    const fn new() -> Self {
        Self { entries: BTreeMap::new(), clock: 0, hits: 0, bytes: 0 }
    }

    /// Looks up the entry of a graph and marks it as used.
    fn get(&mut self, number: u64, graph: &Arc<VerifiedGraph>, scope: Scope) -> Option<Arc<Entry>> {
        let used = self.entries.get_mut(&number)?;
        let is_it = used.entry.scope == scope && used.entry.graph.is_equal(graph);
        is_it.then(|| {
            used.last = self.clock;
            Arc::clone(&used.entry)
        })
    }

    /// Adds an entry, evicting the least recently used ones if necessary.
    fn add(&mut self, number: u64, entry: Arc<Entry>, overhead: usize) -> (Option<Arc<Entry>>, Vec<Used>) {
        let bytes = entry.graph.size() + overhead;
        // An entry takes at most half of the limit, so that others always find room.
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

    /// Removes the older half, so that eviction is rare.
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
