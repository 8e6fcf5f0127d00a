//! A table of calls, keyed by tensors and settings: lock-free once a thread has seen a call.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use hipdnn_plugin_sdk::hash::Mixer;

use super::arguments::CPU;
use super::choices::Times;
use super::events::{Choice, Pending};
use super::holes;
use super::plan::CallPlan;
use crate::forks::Lock;

/// The bytes charged per entry: a plan, its graph and its descriptors. Those of convolutions take 29 KiB, gradients have more nodes.
const ENTRY: usize = 64 << 10;

/// The most bytes of all entries. With the kept workspaces it stays below 256 MiB.
const MOST: usize = 128 << 20;

/// The result of planning.
pub struct Planned {
    /// The plan, or why PyTorch computes.
    pub plan: Result<CallPlan, String>,
    /// How long planning took.
    pub time: Duration,
    /// Whether calls went on meanwhile.
    pub is_aside: bool,
}

/// One kind of call.
pub struct Entry {
    /// The operation.
    pub name: &'static CStr,
    /// Tensors and settings, then the address of the operation's name and the device.
    pub words: Box<[i64]>,
    planned: OnceLock<Planned>,
    /// Whether a thread has claimed it for planning.
    is_taken: AtomicBool,
    choice: AtomicU8,
    tries: AtomicU32,
    ours: Shortest,
    theirs: Shortest,
    /// The shortest host times to queue calls for a GPU.
    queued: [AtomicU64; 2],
    /// The number of calls that the GPU waited for, minus those that waited for the GPU.
    waits: AtomicI64,
    /// Whether an earlier process has chosen.
    pub is_stored: bool,
    /// Whether steps were no faster with it.
    is_dropped: AtomicBool,
    /// Whether a call was seen before.
    is_seen: AtomicBool,
    /// Timed GPU calls that are not done.
    pub pending: Lock<Vec<Pending>>,
    pub routed: AtomicU64,
    pub passed_on: AtomicU64,
    used: AtomicU64,
    /// Its position in the order of first calls.
    at: AtomicU64,
}

/// The two shortest times in nanoseconds.
#[derive(Debug)]
struct Shortest([AtomicU64; 2]);

impl Shortest {
    fn new(time: u64) -> Self {
        Self([AtomicU64::new(time), AtomicU64::new(u64::MAX)])
    }

    fn note(&self, time: u64) {
        let [first, second] = &self.0;
        let before = first.fetch_min(time, Ordering::Relaxed);
        second.fetch_min(before.max(time), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        let [first, _] = &self.0;
        first.load(Ordering::Relaxed)
    }

    /// Whether the shortest time was seen about twice, so that it is not an outlier.
    fn is_steady(&self) -> bool {
        let [first, second] = self.0.each_ref().map(|of| of.load(Ordering::Relaxed));
        second <= first.saturating_add(first / 8)
    }
}

/// Calls before both times are compared, not counting the first of each, which allocate memory and compile kernels.
const TRIES: u32 = 8;
/// The same if the times are close: other load on the machine must not decide.
const MOST_TRIES: u32 = 16;
/// The same on a machine so busy that no time repeats.
const BUSY_TRIES: u32 = 48;

impl Entry {
    /// An entry; times of an earlier process decide its choice.
    pub fn new(name: &'static CStr, words: &[i64], known: Option<Times>) -> Self {
        let choice = match known {
            None => Choice::Open,
            Some(times) if times.is_ours_faster() => Choice::Ours,
            Some(_) => Choice::Theirs,
        };
        let times = known.unwrap_or(Times { ours: u64::MAX, theirs: u64::MAX });
        Self {
            name,
            words: words.into(),
            planned: OnceLock::new(),
            is_taken: AtomicBool::new(false),
            choice: AtomicU8::new(choice as u8),
            tries: AtomicU32::new(0),
            ours: Shortest::new(times.ours),
            theirs: Shortest::new(times.theirs),
            queued: [const { AtomicU64::new(u64::MAX) }; 2],
            waits: AtomicI64::new(0),
            is_stored: known.is_some(),
            is_dropped: AtomicBool::new(false),
            is_seen: AtomicBool::new(false),
            pending: Lock::default(),
            routed: AtomicU64::new(0),
            passed_on: AtomicU64::new(0),
            used: AtomicU64::new(0),
            at: AtomicU64::new(0),
        }
    }

    /// The words of tensors and settings, and the device.
    pub fn arguments(&self) -> (&[i64], (i32, i32)) {
        match self.words.as_ref() {
            [words @ .., _, device] => (words, ((device >> 32) as i32, *device as i32)),
            words => (words, (CPU, 0)),
        }
    }

    /// The result of planning, if done.
    pub fn planned(&self) -> Option<&Planned> {
        self.planned.get()
    }

    /// Claims it for planning; true for the first caller.
    pub fn take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::Relaxed)
    }

    /// Plans it unless that is done, or waits for the thread that is planning. `make` returns the plan and the choice.
    pub fn plan(
        &self,
        is_aside: bool,
        make: impl FnOnce() -> (Result<CallPlan, String>, Choice),
    ) -> &Planned {
        self.planned.get_or_init(|| {
            let start = Instant::now();
            let (plan, choice) = make();
            match plan {
                Err(_) => self.choose(Choice::Theirs),
                Ok(_) if self.choice() == Choice::Open => self.choose(choice),
                Ok(_) => {}
            }
            Planned { plan, time: start.elapsed(), is_aside }
        })
    }

    pub fn choice(&self) -> Choice {
        match self.choice.load(Ordering::Relaxed) {
            0 => Choice::Open,
            1 => Choice::Ours,
            _ => Choice::Theirs,
        }
    }

    pub fn choose(&self, choice: Choice) {
        self.choice.store(choice as u8, Ordering::Relaxed);
    }

    /// Whether a call was seen before; from now on one was.
    pub fn recurs(&self) -> bool {
        self.is_seen.swap(true, Ordering::Relaxed)
    }

    /// Whether both are being timed.
    pub fn is_timed(&self) -> bool {
        self.choice() == Choice::Open && self.planned().is_some_and(|of| of.plan.is_ok())
    }

    /// Whether PyTorch computes it for good.
    pub fn is_left(&self) -> bool {
        self.choice() == Choice::Theirs
    }

    /// Leaves it to PyTorch, as steps are no faster with it.
    pub fn drop_for_steps(&self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        self.choose(Choice::Theirs);
    }

    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Relaxed)
    }

    /// Whose turn it is while undecided, and whether the time counts.
    pub fn turn(&self) -> (Choice, bool) {
        let at = self.tries.fetch_add(1, Ordering::Relaxed);
        (if at.is_multiple_of(2) { Choice::Ours } else { Choice::Theirs }, at >= 2)
    }

    /// Records how long a call took, and chooses once enough is known: then returns the times.
    pub fn took(&self, by: Choice, time: Duration) -> Option<Times> {
        let of = if by == Choice::Ours { &self.ours } else { &self.theirs };
        of.note(nanoseconds(time));
        let times = self.times();
        let Times { ours, theirs } = times;
        let tries = self.tries.load(Ordering::Relaxed);
        let is_known = ours != u64::MAX && theirs != u64::MAX;
        let differ = |share: u64| ours.abs_diff(theirs) > ours.min(theirs) / 100 * share;
        let is_steady = self.ours.is_steady() && self.theirs.is_steady();
        let needed = match () {
            () if !is_steady => BUSY_TRIES,
            () if differ(300) => TRIES - 2,
            () if differ(25) => TRIES,
            () => MOST_TRIES,
        };
        let is_decided = is_known && tries >= needed && self.choice() == Choice::Open;
        if is_decided {
            self.choose(if times.is_ours_faster() { Choice::Ours } else { Choice::Theirs });
        }
        is_decided.then_some(times)
    }

    /// Records the host's time to queue a GPU call, and whether the GPU waited for it.
    pub fn queued(&self, by: Choice, time: Duration, is_awaited: bool) {
        let [ours, theirs] = &self.queued;
        let of = if by == Choice::Ours { ours } else { theirs };
        of.fetch_min(nanoseconds(time), Ordering::Relaxed);
        self.waits.fetch_add(if is_awaited { 1 } else { -1 }, Ordering::Relaxed);
    }

    /// The shortest times so far, in nanoseconds. If the host needs longer for ours, the difference counts twice: a step may wait for it.
    /// If the GPU waits for the host, only the host's times count.
    pub fn times(&self) -> Times {
        let [ours, theirs] = [self.ours.get(), self.theirs.get()];
        let [of_ours, of_theirs] = self.queued.each_ref().map(|of| of.load(Ordering::Relaxed));
        let is_known = of_ours != u64::MAX && of_theirs != u64::MAX;
        if is_known && self.waits.load(Ordering::Relaxed) > 0 {
            return Times { ours: of_ours, theirs: of_theirs };
        }
        let more = if of_ours == u64::MAX { 0 } else { of_ours.saturating_sub(of_theirs) };
        Times { ours: ours.saturating_add(more.saturating_mul(2)), theirs }
    }

    /// The nanoseconds that a call gains here; none while undecided.
    pub fn gain(&self) -> Option<i64> {
        let is_refused = self.planned().is_some_and(|of| of.plan.is_err());
        match self.choice() {
            Choice::Theirs => Some(0),
            _ if is_refused => Some(0),
            Choice::Open => None,
            Choice::Ours => {
                let Times { ours, theirs } = self.times();
                let gain = i64::try_from(theirs.saturating_sub(ours)).unwrap_or(i64::MAX);
                (ours != u64::MAX && theirs != u64::MAX).then_some(gain)
            }
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

type Known = HashMap<Box<[i64]>, Arc<Entry>, BuildHasherDefault<Mixer>>;

static ENTRIES: LazyLock<Lock<Known>> = LazyLock::new(Lock::default);
/// Incremented when entries are dropped, so that threads drop theirs, too.
static AGE: AtomicU64 = AtomicU64::new(0);
/// Incremented with each new entry.
static CLOCK: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OF_THREAD: RefCell<(u64, Known)> = RefCell::default();
}

/// The entry of a call; `make` makes it for a new call, without a lock held. None if `make` returns none.
pub fn find(words: &[i64], make: impl FnOnce() -> Option<Entry>) -> Option<Arc<Entry>> {
    let age = AGE.load(Ordering::Acquire);
    let known = OF_THREAD.with_borrow_mut(|(of, known)| {
        if *of != age {
            *of = age;
            return Err(std::mem::take(known));
        }
        Ok(known.get(words).map(Arc::clone))
    });
    // Plans dropped meanwhile are freed here, with nothing borrowed.
    let found = known.unwrap_or_default();
    let entry = match found {
        Some(entry) => entry,
        None => {
            let entry = of_process(words, make)?;
            OF_THREAD.with_borrow_mut(|(_, known)| known.insert(words.into(), Arc::clone(&entry)));
            entry
        }
    };
    entry.used.store(CLOCK.load(Ordering::Relaxed), Ordering::Relaxed);
    Some(entry)
}

fn of_process(words: &[i64], make: impl FnOnce() -> Option<Entry>) -> Option<Arc<Entry>> {
    let known = ENTRIES.lock().get(words).map(Arc::clone);
    if known.is_some() {
        return known;
    }
    let made = Arc::new(make()?);
    let now = CLOCK.fetch_add(1, Ordering::Relaxed) + 1;
    made.at.store(now, Ordering::Relaxed);
    made.used.store(now, Ordering::Relaxed);
    let mut dropped = Vec::new();
    let mut entries = ENTRIES.lock();
    let entry = Arc::clone(entries.entry(words.into()).or_insert(made));
    if entries.len() * ENTRY > MOST {
        // Half of them, so that this is rare: the least recently used, then the oldest.
        let age = |of: &Entry| (of.used.load(Ordering::Relaxed), of.at.load(Ordering::Relaxed));
        let mut by_use: Vec<_> = entries.iter().map(|(words, of)| (age(of), words.clone())).collect();
        by_use.sort_unstable();
        by_use.truncate(by_use.len() / 2);
        dropped.extend(by_use.iter().filter_map(|(_, words)| entries.remove(words)));
        AGE.fetch_add(1, Ordering::Release);
    }
    drop(entries);
    holes::close(now);
    Some(entry)
}

/// Every entry, in the order of their first calls.
pub fn entries() -> Vec<Arc<Entry>> {
    let mut entries: Vec<_> = ENTRIES.lock().values().map(Arc::clone).collect();
    entries.sort_by_key(|entry| entry.at.load(Ordering::Relaxed));
    entries
}

/// Drops every entry; other threads drop theirs at their next call.
pub fn clear() {
    let all = std::mem::take(&mut *ENTRIES.lock());
    AGE.fetch_add(1, Ordering::Release);
    let of_thread = OF_THREAD.with_borrow_mut(|(_, known)| std::mem::take(known));
    drop((all, of_thread));
}
