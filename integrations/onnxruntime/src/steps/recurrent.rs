//! LSTM, GRU and RNN: the steps of a sequence, of which hipDNN has multiplied the inputs with their weights.

use std::ops::Range;

use super::bytes::{Bytes, packed_size_of_bytes};
use super::cells::{Bias, Cell, Group, Weights};
use super::gates::UNITS;
use crate::lowering::{OnHost, Slab};
use crate::threads::Parallel;

/// The tensors read after the products of the directions and the weights, in this order, if they are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Biases of inputs and of the state, `[directions, 2 · gates · size]`.
    pub bias: bool,
    /// The length of each sequence.
    pub lengths: bool,
    /// The first state, `[directions, batch, size]`.
    pub state: bool,
    /// The first cell, likewise.
    pub cell: bool,
    /// The weights of the cell in the gates input, output and forget, `[directions, 3 · size]`.
    pub peepholes: bool,
}

/// The steps of sequences. Reads the products of the inputs, `[length · batch, gates · size]` for each direction, the recurrent weights
/// `[directions, gates · size, size]`, and what is given. Writes all states `[length, directions, batch, size]`, the last ones, and for
/// LSTM the last cells.
#[derive(Debug)]
pub struct Recurrent {
    /// The step.
    pub cell: Cell,
    /// The size of a state.
    pub size: usize,
    /// The steps of the longest sequence.
    pub length: usize,
    /// The number of sequences.
    pub batch: usize,
    /// For each direction, whether it begins at the end.
    pub reversed: Vec<bool>,
    /// What is given.
    pub given: Given,
    /// Whether the recurrent weights are packed for each direction, as [`pack`] does.
    pub is_packed: bool,
    /// Whether the recurrent weights are bytes, packed, and states are quantized before each step.
    pub is_quantized: bool,
}

/// The most sequences of a task: some groups of those that are multiplied at once.
const SEQUENCES: usize = 12;

/// The products of a step for which its units are divided among threads, and those of each part.
const PRODUCTS: usize = 1 << 18;
const PRODUCTS_OF_A_PART: usize = 1 << 16;

/// The numbers of a run.
struct Numbers<'a> {
    of: &'a Recurrent,
    /// For each direction.
    directions: Vec<Direction<'a>>,
    lengths: Option<Vec<i64>>,
    state: Option<&'a [f32]>,
    cell: Option<&'a [f32]>,
    states: *mut f32,
    last: *mut f32,
    last_cell: Option<*mut f32>,
}

struct Direction<'a> {
    /// The products of the inputs.
    inputs: &'a [f32],
    weights: Weights<'a>,
}

// SAFETY: each thread writes the results of its own sequences.
unsafe impl Sync for Numbers<'_> {}

/// A part of a tensor with one of these parts for each index.
fn part(of: &[f32], at: usize, size: usize) -> &[f32] {
    of.get(at * size..(at + 1) * size).unwrap_or(&[])
}

/// The recurrent weights of a direction, `[gates · size, size]`, packed.
pub fn pack(cell: Cell, rows: &[f32], size: usize) -> Vec<f32> {
    match cell {
        Cell::Gru { after: false } => {
            // The last gate's state follows from the others.
            let (gates, hidden) = rows.split_at((2 * size * size).min(rows.len()));
            let mut packed = super::gates::pack(gates, 2, size);
            packed.extend(super::gates::pack(hidden, 1, size));
            packed
        }
        _ => super::gates::pack(rows, cell.gates(), size),
    }
}

/// The packed weights of a direction.
pub fn packed_size(cell: Cell, size: usize) -> usize {
    size.next_multiple_of(UNITS) * size * cell.gates()
}

impl<'a> Numbers<'a> {
    /// Computes sequences of a direction, `M` at a time.
    ///
    /// # Safety
    /// The results have room for all states, and only this thread computes these sequences.
    unsafe fn sequences<const M: usize>(
        &self,
        direction: usize,
        sequences: Range<usize>,
        parallel: Option<Parallel<'_>>,
    ) -> Result<(), String> {
        let (size, batch) = (self.of.size, self.of.batch);
        let Some(Direction { inputs, weights }) = self.directions.get(direction) else { return Ok(()) };
        let blocks = size.div_ceil(UNITS);
        let products = self.of.cell.gates() * size * size;
        let count = match parallel {
            Some(_) if products >= PRODUCTS => (products / PRODUCTS_OF_A_PART).clamp(1, blocks.min(16)),
            _ => 1,
        };
        // What is beyond the last sequence is computed as the last one, and used nowhere.
        let of =
            |first: usize| -> [usize; M] { std::array::from_fn(|at| (first + at).min(sequences.end - 1)) };
        let begun = |all: Option<&'a [f32]>, sequence: usize| {
            all.map_or(&[][..], |all| part(all, direction * batch + sequence, size))
        };
        let firsts: Vec<usize> = sequences.clone().step_by(M).collect();
        let group = |first: &usize| {
            let (states, cells) =
                (of(*first).map(|at| begun(self.state, at)), of(*first).map(|at| begun(self.cell, at)));
            Group::new(states, cells, size, count)
        };
        let mut groups: Vec<Group<'_, M>> = firsts.iter().map(group).collect();
        let length_of = |sequence: usize| {
            let length = self.lengths.as_ref().and_then(|of| of.get(sequence)).copied();
            length.map_or(self.of.length, |of| usize::try_from(of).unwrap_or(0).min(self.of.length))
        };
        let is_reversed = self.of.reversed.get(direction) == Some(&true);
        let all = self.of.cell.gates() * size;
        let mut line = vec![0.0; size];
        let time_of = |step: usize, sequence: usize| {
            let length = length_of(sequence);
            if is_reversed && step < length { length - 1 - step } else { step }
        };
        for step in 0..self.of.length {
            for (first, group) in firsts.iter().zip(&mut groups) {
                group.is_on = of(*first).map(|sequence| step < length_of(sequence));
                group.inputs =
                    of(*first).map(|sequence| part(inputs, time_of(step, sequence) * batch + sequence, all));
            }
            weights.step(&mut groups, parallel)?;
            for (at, sequence) in sequences.clone().enumerate() {
                let to = ((time_of(step, sequence) * self.of.reversed.len() + direction) * batch + sequence)
                    * size;
                state_of(&groups, at, &mut line);
                if step >= length_of(sequence) {
                    line.fill(0.0);
                }
                // SAFETY: the place is that of this state.
                unsafe { put(self.states, to, &line) };
            }
        }
        for (at, sequence) in sequences.enumerate() {
            let place = (direction * batch + sequence) * size;
            state_of(&groups, at, &mut line);
            // SAFETY: the place is that of this sequence.
            unsafe { put(self.last, place, &line) };
            if let (Some(to), Some(group)) = (self.last_cell, groups.get(at / M)) {
                // SAFETY: the place is that of this sequence.
                unsafe { put(to, place, &group.cell(at % M)) };
            }
        }
        Ok(())
    }
}

/// Copies the state of a sequence.
fn state_of<const M: usize>(groups: &[Group<'_, M>], at: usize, to: &mut [f32]) {
    let states = groups.get(at / M).map_or(&[][..], |group| &group.state);
    for (to, states) in to.iter_mut().zip(states) {
        *to = states.get(at % M).copied().unwrap_or(0.0);
    }
}

/// # Safety
/// The memory has room for the numbers at the place.
unsafe fn put(to: *mut f32, place: usize, numbers: &[f32]) {
    let to = to.wrapping_add(place).cast::<u8>();
    // SAFETY: the memory has room for the numbers at the place, as this function requires; the numbers are elsewhere.
    unsafe { to.copy_from_nonoverlapping(numbers.as_ptr().cast(), size_of_val(numbers)) };
}

impl OnHost for Recurrent {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let count = self.reversed.len();
        let is_integer = |at: usize| {
            let before = count + 1 + usize::from(self.given.bias);
            self.given.lengths && at == before
        };
        let (of_bytes, others): (Vec<_>, Vec<_>) =
            reads.iter().enumerate().partition(|(at, _)| self.is_quantized && *at == count);
        let (integers, floats): (Vec<_>, Vec<_>) = others.into_iter().partition(|(at, _)| is_integer(*at));
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        let all = floats.iter().map(|(_, of)| unsafe { of.items::<f32>() });
        let all = all.collect::<Result<Vec<_>, String>>()?;
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        let lengths = integers.first().map(|(_, of)| unsafe { of.integers() }).transpose()?;
        // SAFETY: tensors are readable and results writable, as their layouts say and this function requires; results overlap nothing
        // else.
        let bytes = of_bytes.first().map(|(_, of)| unsafe { of.items::<u8>() }).transpose()?;
        let mut floats = all.iter().map(|of| of.as_ref());
        let inputs: Vec<&[f32]> = floats.by_ref().take(count).collect();
        let weights = if bytes.is_some() { &[][..] } else { floats.next().unwrap_or(&[]) };
        let given = self.given;
        let mut next = |is_given: bool| if is_given { floats.next() } else { None };
        let [bias, state, cell, peepholes] =
            [given.bias, given.state, given.cell, given.peepholes].map(&mut next);
        let [states, last, ..] = writes else { return Err("a sequence without results".to_owned()) };
        let rows = self.cell.gates() * self.size;
        let packed = packed_size(self.cell, self.size);
        let of_bytes = packed_size_of_bytes(self.size);
        let fits = match &bytes {
            Some(bytes) => bytes.len() == count * of_bytes,
            None => weights.len() == count * if self.is_packed { packed } else { rows * self.size },
        };
        if inputs.iter().any(|of| of.len() != self.length * self.batch * rows) || !fits {
            return Err("the weights have another size".to_owned());
        }
        let packing =
            |direction: usize| pack(self.cell, part(weights, direction, rows * self.size), self.size);
        let own: Vec<Vec<f32>> =
            if self.is_packed || bytes.is_some() { Vec::new() } else { (0..count).map(packing).collect() };
        let directions = inputs.into_iter().enumerate().map(|(at, inputs)| {
            let packed = own.get(at).map_or_else(|| part(weights, at, packed), Vec::as_slice);
            let bias = Bias::new(self.cell, self.size, bias.map(|all| part(all, at, 2 * rows)));
            let peepholes = peepholes.map(|all| part(all, at, 3 * self.size));
            let weights = Weights::new(self.cell, self.size, packed, bias, peepholes);
            let bytes = bytes.as_ref().and_then(|all| all.get(at * of_bytes..(at + 1) * of_bytes));
            let weights = match bytes {
                Some(bytes) => weights.with_bytes(Bytes::new(self.size, bytes)),
                None => weights,
            };
            Direction { inputs, weights }
        });
        let numbers = Numbers {
            of: self,
            directions: directions.collect(),
            lengths,
            state,
            cell,
            states: states.start.cast(),
            last: last.start.cast(),
            last_cell: writes.get(2).map(|of| of.start.cast()),
        };
        let parts = self.batch.div_ceil(SEQUENCES);
        let work = |task: usize, parallel: Option<Parallel<'_>>| {
            let (direction, part) = (task / parts, task % parts);
            let sequences = self.batch * part / parts..self.batch * (part + 1) / parts;
            // SAFETY: the results have room, as operators see to; each task has its own sequences.
            unsafe {
                // As many as there are registers for the sums of all gates.
                match (sequences.len(), self.cell) {
                    (0, _) => Ok(()),
                    (1, _) => numbers.sequences::<1>(direction, sequences, parallel),
                    (2, _) | (_, Cell::Lstm) => numbers.sequences::<2>(direction, sequences, parallel),
                    _ => numbers.sequences::<3>(direction, sequences, parallel),
                }
            }
        };
        match count * parts {
            0 => Ok(()),
            1 => work(0, Some(parallel)),
            // Without threads of their own, tasks do not fail.
            tasks => parallel(tasks, &|task| drop(work(task, None))),
        }
    }
}
