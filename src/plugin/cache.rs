//! What plugins made of graphs, found again when an equal graph comes: which engines apply, what they tell, and finished plans.
//!
//! A handle has a cache of its own, because what all threads write to would make them wait for each other. Where that does not know
//! something it looks into the cache that all handles have in common, and takes a copy: a handle that finds a graph again touches
//! nothing that others have. A context belongs to the plugin handle that made it, unless its plugin says otherwise. Only what succeeded
//! is kept, and plans of configurations that set knobs only where the plugin says that this may be: a knob may tie a plan to the memory
//! of one caller.

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

/// What a graph counts for besides its own bytes where a handle keeps it, for the unknown memory of its plugin.
const OVERHEAD: usize = 16 << 10;

/// The same in what handles have in common: answers.
const OVERHEAD_IN_COMMON: usize = 1 << 10;

/// Settings of knobs that are kept of an engine for a graph.
const MOST_SETTINGS: usize = 4;

/// What all handles have in common, in parts that are locked each by itself.
pub static COMMON: [Cache; 16] = [const { Cache::new() }; 16];

/// What all caches have.
static TOTAL: AtomicUsize = AtomicUsize::new(0);

/// Graphs that were seen, by one handle or by any.
pub struct Cache {
    /// Held for moments only.
    pub state: Mutex<State>,
    /// How often everything was forgotten.
    clears: AtomicUsize,
}

/// What is known of graphs, and how often.
#[derive(Default)]
pub struct State {
    /// By the number of the graph and of where it is known.
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

/// Where something is known: on a device, and with which plugins where handles have it in common.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Scope {
    place: Place,
    plugins: u64,
}

/// What is known of a graph.
pub struct Entry {
    graph: Arc<VerifiedGraph>,
    scope: Scope,
    /// How often everything had been forgotten when it was made.
    clears: usize,
    /// The engines that apply.
    engines: OnceLock<Engines>,
    /// What is known of engines, a list that only grows.
    first: OnceLock<Arc<Known>>,
    /// What any handle knows.
    common: Option<Arc<Self>>,
}

/// What is known of an engine for a graph.
pub struct Known {
    engine: EngineRef,
    /// The configuration, where it sets knobs.
    settings: Option<Box<[u8]>>,
    /// Where and when this began to be known.
    scope: Scope,
    clears: usize,
    /// What its plugin tells of it.
    details: OnceLock<Option<Arc<EngineDetails>>>,
    /// Bytes of workspace that it expects to need.
    workspace_size: OnceLock<i64>,
    /// What it made of the graph for this handle.
    plan: OnceLock<Arc<SharedContext>>,
    /// What it made of the graph for any handle, as long as one has it.
    made: Mutex<Weak<Made>>,
    /// The same engine with settings of its knobs, a list that only grows.
    with_settings: OnceLock<Arc<Self>>,
    next: OnceLock<Arc<Self>>,
    /// What any handle knows.
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

    /// What a handle knows of a graph, to be added to by whoever learns more; none where that is not kept. `plugins` answers a number
    /// for the handle's plugins if it may share what they answer with handles of the same number, and is asked where the graph is new
    /// here.
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

    /// What is known of a graph; where that is nothing, a new entry, above what `common` knows.
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

    /// A new entry for a graph, above what `common` knows.
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
        // After the lock is gone: what is dropped calls plugins.
        drop(evicted);
        entry
    }

    /// What is asked from now on is not what is known, nor does any handle learn it from those who ask just now.
    pub fn suspect(&self) {
        self.clears.fetch_add(1, Ordering::SeqCst);
    }

    /// Forgets everything, and gives back the contexts that no plan has.
    pub fn clear(&self) {
        self.suspect();
        drop(self.take());
    }

    /// Forgets everything when the session ends, after all plans. `session` is the one that ends.
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

    /// Whether nothing was forgotten since then.
    fn is_as_before(&self, clears: usize) -> bool {
        self.clears.load(Ordering::SeqCst) == clears
    }
}

/// A copy that has a reference count of its own.
fn copy_of(details: &Option<Arc<EngineDetails>>) -> Option<Arc<EngineDetails>> {
    details.as_deref().cloned().map(Arc::new)
}

/// What is known, else a copy of what any handle knows.
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
        let (engines, first) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self { graph: Arc::clone(graph), scope, clears, engines, first, common })
    }

    /// The engines that apply, where that is known.
    pub fn known_engines(&self) -> Option<&Engines> {
        known_or_copy(&self.engines, self.common.as_ref().map(|common| &common.engines), Clone::clone)
    }

    /// That these engines apply.
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

    /// What is known of an engine where no knob is set, to be added to.
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

    /// Whether an engine was found to apply before.
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

    /// This, and what is known of the engine with settings of its knobs.
    fn settings_too(&self) -> impl Iterator<Item = &Self> {
        let first = self.with_settings.get().map(Arc::as_ref);
        std::iter::once(self).chain(std::iter::successors(first, |known| known.next.get().map(Arc::as_ref)))
    }

    /// What is known of the engine with this configuration, which sets knobs; none where that are too many.
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

    /// Whether the thread's device and the handle's stream are still those for which this is known.
    pub fn is_current(&self, cache: &Cache) -> bool {
        self.clears == cache.clears.load(Ordering::Relaxed) && self.scope.place == device::place()
    }

    /// What the plugin tells of the engine, where that is known.
    pub fn details(&self) -> Option<&Option<Arc<EngineDetails>>> {
        known_or_copy(&self.details, self.common.as_ref().map(|common| &common.details), copy_of)
    }

    /// That the plugin tells this.
    pub fn learn_details(&self, details: &Option<Arc<EngineDetails>>, cache: &Cache) {
        self.details.get_or_init(|| details.clone());
        if let Some(common) = self.common_to_teach(cache) {
            common.details.get_or_init(|| copy_of(details));
        }
    }

    /// Bytes of workspace that the engine expects to need, where that is known.
    pub fn workspace_size(&self) -> Option<i64> {
        known_or_copy(
            &self.workspace_size,
            self.common.as_ref().map(|common| &common.workspace_size),
            |size| *size,
        )
        .copied()
    }

    /// That the engine expects to need so many bytes.
    pub fn learn_workspace_size(&self, size: i64, cache: &Cache) {
        self.workspace_size.get_or_init(|| size);
        if let Some(common) = self.common_to_teach(cache) {
            common.workspace_size.get_or_init(|| size);
        }
    }

    /// What any handle knows, unless what this one asks just now may be true for it alone.
    fn common_to_teach(&self, cache: &Cache) -> Option<&Self> {
        self.common.as_deref().filter(|_| cache.is_as_before(self.clears))
    }

    /// The plan that was made before, by this handle or by another, or else the one that `compile` makes. `sharing` asks the plugin who
    /// may use a context; `uids` are those of the tensors of the graph that it is made for.
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
        // Where another thread was faster this plan is its caller's alone.
        let _ = self.plan.set(Arc::clone(&plan));
        Compiled::Shared(plan)
    }
}
impl State {
    const fn new() -> Self {
        Self { entries: BTreeMap::new(), clock: 0, hits: 0, bytes: 0 }
    }

    /// What is known of the graph, which is looked for now.
    fn get(&mut self, number: u64, graph: &Arc<VerifiedGraph>, scope: Scope) -> Option<Arc<Entry>> {
        let used = self.entries.get_mut(&number)?;
        let is_it = used.entry.scope == scope && used.entry.graph.is_equal(graph);
        is_it.then(|| {
            used.last = self.clock;
            Arc::clone(&used.entry)
        })
    }

    /// A new entry, in place of those that were not looked for for the longest time where there is no room.
    fn add(&mut self, number: u64, entry: Arc<Entry>, overhead: usize) -> (Option<Arc<Entry>>, Vec<Used>) {
        let bytes = entry.graph.size() + overhead;
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
