//! Kernels with reductions: the threads of a workgroup pass over rows.

use super::axes::Axes;
use super::elements::{lanes, needs_indices};
use super::{Access, Join, Origin, Passed, Place, Program, Scope, Written, declare, group, groups};
use crate::builder::Builder;
use crate::form::{Index, Kernel, Local, Memory, Shared, Value};
use crate::scalar::Scalar;
use crate::target::Target;

/// Threads of a workgroup.
const THREADS: usize = 256;
/// Vectors of a row that a thread takes at least, where rows are many.
const READS: usize = 4;
/// Elements that a thread holds from pass to pass at most, of one tensor and of all.
const HELD: [usize; 2] = [32, 64];

/// How threads share rows.
struct Walk {
    rows: Axes,
    elements: Axes,
    /// Threads of a row.
    threads: usize,
    /// Rows of a workgroup.
    at_once: usize,
    /// Whether neighbouring threads take neighbouring elements of a row, rather than neighbouring rows.
    along: bool,
    /// Neighbouring elements that a thread takes at once.
    lanes: usize,
    /// How often each thread takes elements if it holds them from pass to pass, so that they are read once; else 0.
    held: usize,
}

impl Walk {
    fn new(program: &Program, target: &Target) -> Self {
        let accesses: Vec<&Access> = program.accesses().collect();
        let reduced = |axis: usize| {
            program.reduced.as_ref().and_then(|reduced| reduced.get(axis)).copied().unwrap_or(false)
        };
        let (inner, outer): (Vec<usize>, Vec<usize>) =
            (0..program.dims.len()).partition(|axis| reduced(*axis));
        let is_invariant = program.is_invariant;
        let covers = |access: &Access| -> usize {
            let dims = program.dims.iter().zip(&access.strides).enumerate();
            // The order of a row's elements must not follow from how many rows there are.
            let counted =
                dims.filter(|(axis, (_, stride))| **stride > 0 && (reduced(*axis) || !is_invariant));
            counted.map(|(_, (dim, _))| dim).product()
        };
        let guide =
            accesses.iter().rev().max_by_key(|access| covers(access)).map(|access| access.strides.clone());
        let guide = guide.unwrap_or_default();
        let nearest = |axes: &[usize]| {
            let strides = axes.iter().filter(|axis| program.dims.get(**axis).is_some_and(|dim| *dim > 1));
            let strides = strides.filter_map(|axis| guide.get(*axis)).filter(|stride| **stride > 0);
            strides.min().copied().unwrap_or(usize::MAX)
        };
        let along = nearest(&inner) <= nearest(&outer);
        let keeps = needs_indices(program);
        let rows = Axes::new(&program.dims, &outer, &guide, &accesses, keeps);
        let elements = Axes::new(&program.dims, &inner, &guide, &accesses, keeps);
        let block = THREADS.min(target.threads as usize).max(1);
        let block = 1 << block.ilog2();
        // Which elements a thread adds first must not follow from how many rows there are, either.
        let single = keeps || !along || is_invariant;
        let lanes = if single { 1 } else { lanes(&elements, Some(&rows), &accesses) };
        let wanted = (elements.count() / lanes).div_ceil(READS).next_power_of_two();
        // Few rows are shared by more threads; neighbouring rows by fewer, so that reads are side by side.
        let least =
            if along || is_invariant { 1 } else { block / rows.count().next_power_of_two().min(block) };
        let most = if along { block } else { (block / 8).max(least) };
        let threads = wanted.clamp(least.max(1), most.max(1));
        // Few rows occupy all compute units, unless a subgroup has several.
        let of_unit = (rows.count() / target.units_or_usual()).next_power_of_two();
        let few = if along { of_unit.max(target.subgroup as usize / threads) } else { block };
        let at_once = (block / threads).min(few).min(rows.count().next_power_of_two()).max(1);
        let own = |axes: &Axes, access: &Access| axes.strides(access).iter().any(|stride| *stride > 0);
        let loads = accesses.iter().filter(|access| own(&rows, access) && own(&elements, access)).count();
        let turns = elements.count() / (threads * lanes);
        let [of_one, of_all] = HELD;
        let holds = elements.count().is_multiple_of(threads * lanes)
            && turns * lanes <= of_one
            && turns * lanes * loads <= of_all
            && !program.gathers();
        Self { rows, elements, threads, at_once, along, lanes, held: if holds { turns } else { 0 } }
    }
}

pub(super) fn write(program: &Program, name: &str, target: &Target) -> Option<Written> {
    let walk = Walk::new(program, target);
    let groups = groups(walk.rows.count().div_ceil(walk.at_once))?;
    let block = walk.threads * walk.at_once;
    let mut b = Builder::new(name, block as u32, target);
    let pointers = declare(&mut b, program);
    let own = group(&mut b, groups);
    let thread = b.index(Index::Thread);
    let (row, lane) = if walk.along {
        b.div_rem(thread, walk.threads)
    } else {
        let (lane, row) = b.div_rem(thread, walk.at_once);
        (row, lane)
    };
    let first = b.mul(own, walk.at_once);
    let wanted = b.add(first, row);
    let is_inside = b.less(wanted, walk.rows.count());
    // Threads without a row read the last one, so that all reach every barrier.
    let number = b.min(wanted, walk.rows.count() - 1);
    let rows = walk.rows.split(&mut b, number);
    let mut writer = Writer {
        program,
        walk: &walk,
        pointers,
        rows,
        thread,
        row,
        lane,
        known: vec![None; program.nodes.len()],
        held: vec![vec![None; program.nodes.len()]; walk.held],
        shared: Vec::new(),
    };
    writer.of_rows(&mut b, 0);
    let passes = program.nodes.iter().map(|node| node.pass).max().unwrap_or(0);
    for pass in 1..=passes {
        writer.pass(&mut b, pass);
        writer.of_rows(&mut b, pass);
    }
    writer.stores(&mut b, is_inside);
    Some(Written { kernel: Kernel { parts: walk.threads as u32, ..b.finish() }, groups })
}

/// The values of each node.
type Known = Vec<Option<Vec<Value>>>;

/// What is known while a kernel is written.
struct Writer<'a> {
    program: &'a Program,
    walk: &'a Walk,
    pointers: Vec<Passed>,
    rows: Vec<Value>,
    thread: Value,
    row: Value,
    lane: Value,
    /// The values of rows so far.
    known: Known,
    /// The values of elements so far, each time that the thread takes some.
    held: Vec<Known>,
    /// Shared memory of each type, which reductions use one after the other.
    shared: Vec<(Scalar, Shared)>,
}

impl Writer<'_> {
    /// Calls a function with the scope of so many elements of the row from one on, and returns what is known then.
    fn at(
        &self,
        b: &mut Builder,
        (element, lanes): (Value, usize),
        known: Known,
        f: impl FnOnce(&mut Builder, &mut Scope<'_>),
    ) -> Known {
        let walk = self.walk;
        let elements = walk.elements.split(b, element);
        let zero = b.number(0);
        let index = |axis| {
            let own = walk.elements.index(axis, &elements);
            own.or_else(|| walk.rows.index(axis, &self.rows)).unwrap_or(zero)
        };
        let mut scope = Scope {
            program: self.program,
            pointers: &self.pointers,
            known,
            lanes,
            place: Place {
                indices: &|_, axis| index(axis),
                offset: &|b, access| {
                    let before = walk.rows.offset(b, access, &self.rows);
                    let own = walk.elements.offset(b, access, &elements);
                    b.add(before, own)
                },
                apart: &|access| walk.elements.strides(access).last().copied().unwrap_or(0),
                together: &|_| lanes,
            },
        };
        f(b, &mut scope);
        scope.known
    }

    /// Calls a function with the scopes of all elements that the thread takes.
    fn each(&mut self, b: &mut Builder, mut f: impl FnMut(&mut Builder, &mut Scope<'_>)) {
        let Walk { lanes, threads, .. } = *self.walk;
        let first = b.mul(self.lane, lanes);
        if self.held.is_empty() {
            let count = self.walk.elements.count();
            b.for_range(first, count, threads * lanes, |b, element| {
                self.at(b, (element, lanes), self.known.clone(), &mut f);
            });
            return;
        }
        for turn in 0..self.held.len() {
            let mut known = self.held.get_mut(turn).map(std::mem::take).unwrap_or_default();
            for (known, of_row) in known.iter_mut().zip(&self.known) {
                if known.is_none() {
                    known.clone_from(of_row);
                }
            }
            let element = b.add(first, turn * threads * lanes);
            let known = self.at(b, (element, lanes), known, &mut f);
            if let Some(held) = self.held.get_mut(turn) {
                *held = known;
            }
        }
    }

    /// Computes the values of rows that this many passes allow.
    fn of_rows(&mut self, b: &mut Builder, pass: usize) {
        let zero = b.number(0);
        for (place, node) in self.program.nodes.iter().enumerate() {
            let is_new = matches!(self.known.get(place), Some(None));
            if node.is_of_row && node.pass == pass && is_new && !matches!(node.origin, Origin::Reduce(..)) {
                self.known = self.at(b, (zero, 1), self.known.clone(), |b, scope| {
                    scope.of(b, place);
                });
            }
        }
    }

    /// Passes over the row for the reductions that end this pass.
    fn pass(&mut self, b: &mut Builder, pass: usize) {
        let mut sums: Vec<(usize, Join, usize, Local, Scalar)> = Vec::new();
        for (place, node) in self.program.nodes.iter().enumerate() {
            if let Origin::Reduce(join, input) = node.origin
                && node.pass == pass
            {
                let start = match join {
                    Join::Sum => 0.0,
                    Join::Product => 1.0,
                    Join::Least => f64::INFINITY,
                    Join::Greatest => f64::NEG_INFINITY,
                };
                let local = b.local(node.scalar, start);
                sums.push((place, join, input, local, node.scalar));
            }
        }
        self.each(b, |b, scope| {
            for (_, join, input, local, scalar) in &sums {
                let values = scope.of(b, *input);
                let Some(first) = values.first() else { continue };
                let mut own = b.convert(*first, *scalar);
                for lane in 1..scope.lanes {
                    // A value of the row counts for each of its elements.
                    let other = b.convert(*values.get(lane).unwrap_or(first), *scalar);
                    own = joined(b, *join, own, other);
                }
                let so_far = b.get(*local);
                let next = joined(b, *join, so_far, own);
                b.set(*local, next);
            }
        });
        for (place, join, _, local, scalar) in sums {
            let own = b.get(local);
            let all = self.across(b, join, own, scalar);
            if let Some(known) = self.known.get_mut(place) {
                *known = Some(vec![all]);
            }
        }
    }

    /// Combines the values of a row's threads.
    fn across(&mut self, b: &mut Builder, join: Join, own: Value, scalar: Scalar) -> Value {
        let threads = self.walk.threads;
        if threads == 1 {
            return own;
        }
        let block = threads * self.walk.at_once;
        let shared = match self.shared.iter().find(|(known, _)| *known == scalar) {
            Some((_, shared)) => *shared,
            None => {
                let shared = b.shared(scalar, block);
                self.shared.push((scalar, shared));
                shared
            }
        };
        let memory = Memory::Shared(shared);
        // What the reduction before left there has been read.
        b.barrier();
        b.store(memory, self.thread, own);
        let apart = if self.walk.along { 1 } else { self.walk.at_once };
        let mut step = threads / 2;
        while step > 0 {
            b.barrier();
            let takes = b.less(self.lane, step);
            let thread = self.thread;
            b.when(takes, |b| {
                let low = b.load(memory, thread);
                let other = b.add(thread, step * apart);
                let high = b.load(memory, other);
                let sum = joined(b, join, low, high);
                b.store(memory, thread, sum);
            });
            step /= 2;
        }
        b.barrier();
        let first = if self.walk.along { b.mul(self.row, threads) } else { self.row };
        b.load(memory, first)
    }

    /// Stores values of rows, and of elements in a last pass.
    fn stores(&mut self, b: &mut Builder, is_inside: Value) {
        // What has one place for a row is written once: vectors of it would reach into those of the next rows.
        let (rows, elements): (Vec<_>, Vec<_>) =
            self.program.stores.iter().partition(|store| {
                self.walk.elements.strides(&store.access).iter().all(|stride| *stride == 0)
            });
        b.when(is_inside, |b| {
            if !rows.is_empty() {
                let is_first = b.equal(self.lane, 0);
                b.when(is_first, |b| {
                    let zero = b.number(0);
                    self.at(b, (zero, 1), self.known.clone(), |b, scope| {
                        rows.iter().for_each(|store| scope.store(b, store));
                    });
                });
            }
            if !elements.is_empty() {
                self.each(b, |b, scope| elements.iter().for_each(|store| scope.store(b, store)));
            }
        });
    }
}

fn joined(b: &mut Builder, join: Join, x: Value, y: Value) -> Value {
    match join {
        Join::Sum => b.add(x, y),
        Join::Product => b.mul(x, y),
        Join::Least => b.min(x, y),
        Join::Greatest => b.max(x, y),
    }
}
