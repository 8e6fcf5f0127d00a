//! Judges whole steps on CPUs: what is faster call by call must be so in the network, beside the neighbours' threads and caches.
//!
//! Once every kind of call of a step is decided, steps alternate between the decisions and PyTorch alone. If the decisions gain too
//! little, those that gain least are dropped, then all. A thread whose steps gain nothing does not come here any more.
//!
//! A step is found by the calls: they recur, so one of the rarest kinds begins it. Programs need not say anything.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::choices;
use super::events::Choice;
use super::functions::Functions;
use super::keys;
use super::table::Entry;

/// How often each kind must recur before steps are judged.
const RECURS: u32 = 3;
/// How often one kind recurs before kinds that did not are left out: the last batch may be smaller, or a shape was tried once.
const RECURS_OFTEN: u32 = 1024;
/// The most kinds of a step.
const MOST_KINDS: usize = 4096;
/// The most steps with other calls between them before steps are looked for again.
const MOST_SPOILED: u32 = 64;
/// The calls of a thread without a gain after which it is quiet again.
const QUIET_CALLS: u32 = 256;
/// The steps of each side that are compared, after one that is not.
const STEPS: usize = 6;
/// The same if one side is clearly faster.
const FEW_STEPS: usize = 3;

/// What a call costs that comes here only to be left to PyTorch. A quiet thread does not pay it.
const COST: Duration = Duration::from_nanos(800);

/// Incremented when a kind of call is decided for hipDNN, so that threads judge again.
static DECIDED: AtomicU64 = AtomicU64::new(0);
/// Incremented to forget all verdicts.
static AGE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static JUDGE: RefCell<Judge> = RefCell::default();
    /// Whether this thread's calls belong to steps: a compiled graph is timed as a whole elsewhere.
    static IS_STEP: Cell<bool> = const { Cell::new(true) };
}

/// The times of steps with and without hipDNN.
#[derive(Default)]
struct Laps {
    ours: Vec<Duration>,
    theirs: Vec<Duration>,
    /// Whether the current step has calls of its own.
    is_spoiled: bool,
    spoiled: u32,
    /// The calls of the current step.
    calls: u32,
}

#[derive(Default)]
enum Phase {
    /// Looking for the calls that recur.
    #[default]
    Counting,
    /// Comparing steps that begin with the kind at this address.
    Judging { first: usize, leaves: bool, laps: Laps },
    /// Nothing to do until another kind is decided; `calls` more without a gain, and the thread is quiet.
    Resting { decided: u64, calls: u32 },
}

#[derive(Default)]
struct Judge {
    age: u64,
    phase: Phase,
    seen: HashMap<usize, (Arc<Entry>, u32)>,
    /// The time of the step while the thread was enabled, without what came since then.
    before: Duration,
    since: Option<Instant>,
}

/// What follows from a call.
#[derive(Default)]
struct Verdict {
    /// PyTorch computes the call, whatever was decided.
    leaves: bool,
    /// No call of the thread gains anything.
    is_quiet: bool,
    /// Decisions that changed.
    dropped: Vec<Arc<Entry>>,
}

/// Another kind of call is computed by hipDNN from now on.
pub fn decided() {
    DECIDED.fetch_add(1, Ordering::Relaxed);
}

/// Forgets all verdicts.
pub fn reset() {
    AGE.fetch_add(1, Ordering::Relaxed);
}

/// The thread was enabled or disabled; `is_step`: its calls belong to steps.
pub fn switched(is_on: bool, is_step: bool) {
    IS_STEP.set(is_step);
    JUDGE.with_borrow_mut(|judge| {
        if let Some(since) = judge.since.take() {
            judge.before += since.elapsed();
        }
        judge.since = is_on.then(Instant::now);
    });
}

/// Notes a call on a CPU. Whether PyTorch computes it, whatever was decided.
pub fn note(f: &Functions, entry: &Arc<Entry>) -> bool {
    if !IS_STEP.get() {
        return false;
    }
    let verdict = JUDGE.with_borrow_mut(|judge| judge.note(entry));
    for entry in &verdict.dropped {
        let (words, device) = entry.arguments();
        choices::store(f, entry.name, words, device, entry.times().as_theirs());
    }
    if verdict.is_quiet {
        keys::hush(f);
    }
    verdict.leaves
}

impl Judge {
    fn note(&mut self, entry: &Arc<Entry>) -> Verdict {
        let age = AGE.load(Ordering::Relaxed);
        if self.age != age {
            *self = Self { age, since: self.since, ..Self::default() };
        }
        let key = Arc::as_ptr(entry).addr();
        let is_timed = entry.is_timed();
        match &mut self.phase {
            Phase::Resting { decided, .. } if is_timed || *decided != DECIDED.load(Ordering::Relaxed) => {
                self.count_again();
            }
            Phase::Resting { calls, .. } => {
                *calls = if entry.is_left() { calls.saturating_sub(1) } else { QUIET_CALLS };
                return if *calls == 0 { self.rest() } else { Verdict::default() };
            }
            Phase::Judging { first, .. } if *first == key => return self.lap(),
            Phase::Judging { laps, leaves, .. } => {
                laps.calls += 1;
                laps.is_spoiled |= !self.seen.contains_key(&key);
                return Verdict { leaves: *leaves && !is_timed, ..Verdict::default() };
            }
            // While both are timed in turns, steps differ.
            Phase::Counting if is_timed => {
                self.count_again();
                return Verdict::default();
            }
            Phase::Counting => {}
        }
        self.count(entry, key)
    }

    fn count_again(&mut self) {
        self.phase = Phase::Counting;
        self.seen.clear();
    }

    fn count(&mut self, entry: &Arc<Entry>, key: usize) -> Verdict {
        if self.seen.len() > MOST_KINDS {
            self.count_again();
        }
        let (_, count) = self.seen.entry(key).or_insert_with(|| (Arc::clone(entry), 0));
        *count += 1;
        let count = *count;
        if count == RECURS_OFTEN {
            self.seen.retain(|_, (_, count)| *count >= RECURS);
        }
        let is_checked = count == RECURS || count == RECURS_OFTEN;
        if !is_checked || self.seen.values().any(|(_, count)| *count < RECURS) {
            return Verdict::default();
        }
        if self.seen.values().all(|(entry, _)| entry.choice() != Choice::Ours) {
            return self.rest();
        }
        let rarest = self.seen.iter().min_by_key(|(key_of, (_, count))| (*count, **key_of != key));
        let first = rarest.map_or(key, |(key, _)| *key);
        self.phase = Phase::Judging { first, leaves: false, laps: Laps::default() };
        self.time();
        Verdict::default()
    }

    /// The time since the last call of this function, while the thread was enabled.
    fn time(&mut self) -> Duration {
        let now = Instant::now();
        let time = std::mem::take(&mut self.before) + self.since.map_or(Duration::ZERO, |since| now - since);
        self.since = Some(now);
        time
    }

    /// A step begins: the one before counts, and the other side has its turn.
    fn lap(&mut self) -> Verdict {
        let time = self.time();
        let Phase::Judging { leaves, laps, .. } = &mut self.phase else { return Verdict::default() };
        let cost = COST * (std::mem::take(&mut laps.calls) + 1);
        if std::mem::take(&mut laps.is_spoiled) {
            laps.spoiled += 1;
            let leaves = *leaves;
            if laps.spoiled > MOST_SPOILED {
                self.count_again();
            }
            return Verdict { leaves, ..Verdict::default() };
        }
        if *leaves {
            laps.theirs.push(time.saturating_sub(cost));
        } else {
            laps.ours.push(time);
        }
        *leaves = !*leaves;
        let leaves = *leaves;
        let Some(is_gain) = laps.verdict() else { return Verdict { leaves, ..Verdict::default() } };
        if is_gain {
            return self.rest();
        }
        let ours = self.seen.values().map(|(entry, _)| entry).filter(|entry| entry.choice() == Choice::Ours);
        let (much, little): (Vec<_>, Vec<_>) =
            ours.cloned().partition(|entry| entry.times().is_ours_much_faster());
        let is_last = much.is_empty() || little.is_empty();
        let dropped: Vec<_> = if is_last { much.into_iter().chain(little).collect() } else { little };
        dropped.iter().for_each(|entry| entry.drop_for_steps());
        if is_last {
            return Verdict { leaves: true, dropped, ..self.rest() };
        }
        self.count_again();
        Verdict { leaves: true, dropped, ..Verdict::default() }
    }

    fn rest(&mut self) -> Verdict {
        // After a verdict of calls, not of kinds, the map is empty, and the thread is quiet.
        let is_quiet = self.seen.values().all(|(entry, _)| entry.is_left());
        self.phase = Phase::Resting { decided: DECIDED.load(Ordering::Relaxed), calls: QUIET_CALLS };
        self.seen.clear();
        Verdict { is_quiet, ..Verdict::default() }
    }
}

impl Laps {
    /// Whether hipDNN gains enough; none while there are too few steps.
    fn verdict(&self) -> Option<bool> {
        let steps = self.ours.len().min(self.theirs.len()).saturating_sub(1);
        let (ours, theirs) = (median(&self.ours)?, median(&self.theirs)?);
        let is_clear = ours.max(theirs) > ours.min(theirs) + ours.min(theirs) / 4;
        let needed = if is_clear { FEW_STEPS } else { STEPS };
        // Less than a fiftieth is within the noise of so few steps.
        (steps >= needed).then_some(ours + ours / 50 < theirs)
    }
}

/// The median of all but the first.
fn median(times: &[Duration]) -> Option<Duration> {
    let mut times: Vec<_> = times.iter().skip(1).copied().collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}
