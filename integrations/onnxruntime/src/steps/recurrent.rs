//! LSTM and GRU: the steps of a sequence, of which hipDNN has multiplied the inputs with their weights.

use std::ops::Range;

use super::dots::{Dots, dots};
use crate::lowering::{OnHost, Slab};
use crate::threads::Parallel;

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Gates input, output, forget, cell.
    Lstm,
    /// Gates update, reset, hidden.
    Gru {
        /// Whether the reset gate is multiplied after the product with the recurrent weights.
        after: bool,
    },
}

impl Cell {
    /// The number of gates.
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru { .. } => 3,
        }
    }
}

/// The tensors read after the products of the directions, in this order, if they are there.
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
}

/// The numbers of a run.
struct Numbers<'a> {
    of: &'a Recurrent,
    /// For each direction.
    products: Vec<&'a [f32]>,
    weights: &'a [f32],
    bias: Option<&'a [f32]>,
    lengths: Option<Vec<i64>>,
    state: Option<&'a [f32]>,
    cell: Option<&'a [f32]>,
    peepholes: Option<&'a [f32]>,
    states: *mut f32,
    last: *mut f32,
    last_cell: Option<*mut f32>,
    dots: Dots,
}

// SAFETY: each thread writes the results of its own sequences.
unsafe impl Sync for Numbers<'_> {}

/// A part of a tensor with one of these parts for each index.
fn part(of: &[f32], at: usize, size: usize) -> &[f32] {
    of.get(at * size..(at + 1) * size).unwrap_or(&[])
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// The memory of a sequence in work.
struct Work {
    gates: Vec<f32>,
    other: Vec<f32>,
    state: Vec<f32>,
    cell: Vec<f32>,
}

impl Numbers<'_> {
    /// Computes sequences of a direction.
    ///
    /// # Safety
    /// The results have room for all states, and only this thread computes these sequences.
    unsafe fn sequences(&self, direction: usize, sequences: Range<usize>) {
        let (size, batch) = (self.of.size, self.of.batch);
        let mut work = Work {
            gates: vec![0.0; self.of.cell.gates() * size],
            other: vec![0.0; size],
            state: vec![0.0; size],
            cell: vec![0.0; size],
        };
        for sequence in sequences {
            let place = direction * batch + sequence;
            for (to, first) in [(&mut work.state, self.state), (&mut work.cell, self.cell)] {
                match first {
                    Some(first) => to.copy_from_slice(part(first, place, size)),
                    None => to.fill(0.0),
                }
            }
            let length = self.lengths.as_ref().and_then(|of| of.get(sequence)).copied();
            let length =
                length.map_or(self.of.length, |of| usize::try_from(of).unwrap_or(0).min(self.of.length));
            let is_reversed = self.of.reversed.get(direction) == Some(&true);
            for step in 0..self.of.length {
                let time = if is_reversed && step < length { length - 1 - step } else { step };
                let to = ((time * self.of.reversed.len() + direction) * batch + sequence) * size;
                if step < length {
                    self.step(direction, time * batch + sequence, &mut work);
                    // SAFETY: the place is that of this state.
                    unsafe { put(self.states, to, &work.state) };
                } else {
                    // SAFETY: the place is that of this state, which the sequence does not have.
                    unsafe { self.states.wrapping_add(to).write_bytes(0, size) };
                }
            }
            // SAFETY: the places are those of this sequence.
            unsafe {
                put(self.last, place * size, &work.state);
                if let Some(last) = self.last_cell {
                    put(last, place * size, &work.cell);
                }
            }
        }
    }

    fn step(&self, direction: usize, row: usize, work: &mut Work) {
        let (size, gates) = (self.of.size, self.of.cell.gates());
        let all = gates * size;
        let inputs = part(self.products.get(direction).copied().unwrap_or(&[]), row, all);
        let weights = part(self.weights, direction, all * size);
        let bias = self.bias.map(|bias| part(bias, direction, 2 * all).split_at(all));
        work.gates.copy_from_slice(inputs);
        if let Some((of_input, of_state)) = bias {
            // The last gate of a GRU has its biases apart.
            let both = if self.of.cell == Cell::Lstm { all } else { 2 * size };
            for ((gate, a), b) in work.gates.iter_mut().zip(of_input).zip(of_state).take(both) {
                *gate += a + b;
            }
            work.gates.iter_mut().zip(of_input).skip(both).for_each(|(gate, a)| *gate += a);
        }
        match self.of.cell {
            Cell::Lstm => {
                (self.dots)(weights, &work.state, &mut work.gates);
                let peepholes = self.peepholes.map(|of| part(of, direction, 3 * size));
                lstm(work, peepholes, size);
            }
            Cell::Gru { after } => {
                let of_hidden = bias.map_or(&[][..], |(_, of_state)| part(of_state, 2, size));
                self.gru(work, weights, of_hidden, after);
            }
        }
    }

    fn gru(&self, work: &mut Work, weights: &[f32], bias: &[f32], after: bool) {
        let size = self.of.size;
        let Work { gates, other, state, .. } = work;
        let (of_gates, of_hidden) = weights.split_at(2 * size * size);
        let (gates, hidden) = gates.split_at_mut(2 * size);
        (self.dots)(of_gates, state, gates);
        gates.iter_mut().for_each(|gate| *gate = sigmoid(*gate));
        let (update, reset) = gates.split_at(size);
        if after {
            other.fill(0.0);
            other.iter_mut().zip(bias).for_each(|(to, bias)| *to = *bias);
            (self.dots)(of_hidden, state, other);
            hidden.iter_mut().zip(reset).zip(other).for_each(|((to, reset), of)| *to += reset * *of);
        } else {
            other.iter_mut().zip(reset).zip(&*state).for_each(|((to, reset), of)| *to = reset * of);
            hidden.iter_mut().zip(bias).for_each(|(to, bias)| *to += bias);
            (self.dots)(of_hidden, other, hidden);
        }
        for ((state, update), hidden) in state.iter_mut().zip(update).zip(hidden) {
            *state = (1.0 - update) * hidden.tanh() + update * *state;
        }
    }
}

fn lstm(work: &mut Work, peepholes: Option<&[f32]>, size: usize) {
    let Work { gates, state, cell, .. } = work;
    let (first, second) = gates.split_at(2 * size);
    let ((input, output), (forget, candidate)) = (first.split_at(size), second.split_at(size));
    let empty: &[f32] = &[];
    let peephole = |at: usize| peepholes.map_or(empty, |of| part(of, at, size));
    let (of_input, of_output, of_forget) = (peephole(0), peephole(1), peephole(2));
    let weight = |of: &[f32], at: usize| of.get(at).copied().unwrap_or(0.0);
    for (at, (state, cell)) in state.iter_mut().zip(cell).enumerate() {
        let gate = |of: &[f32]| of.get(at).copied().unwrap_or(0.0);
        let i = sigmoid(gate(input) + weight(of_input, at) * *cell);
        let f = sigmoid(gate(forget) + weight(of_forget, at) * *cell);
        *cell = f * *cell + i * gate(candidate).tanh();
        *state = sigmoid(gate(output) + weight(of_output, at) * *cell) * cell.tanh();
    }
}

/// # Safety
/// The memory has room for the numbers at the place.
unsafe fn put(to: *mut f32, place: usize, numbers: &[f32]) {
    let to = to.wrapping_add(place).cast::<u8>();
    // SAFETY: the caller vouches for the room; the numbers are elsewhere.
    unsafe { to.copy_from_nonoverlapping(numbers.as_ptr().cast(), size_of_val(numbers)) };
}

impl OnHost for Recurrent {
    unsafe fn run(
        &self,
        reads: &[Slab<'_>],
        writes: &[Slab<'_>],
        parallel: Parallel<'_>,
    ) -> Result<(), String> {
        let directions = self.reversed.len();
        let is_integer = |at: usize| {
            let before = directions + 1 + usize::from(self.given.bias);
            self.given.lengths && at == before
        };
        // SAFETY: the caller vouches for the tensors.
        let all = reads
            .iter()
            .enumerate()
            .filter(|(at, _)| !is_integer(*at))
            .map(|(_, of)| unsafe { of.items::<f32>() });
        let all = all.collect::<Result<Vec<_>, String>>()?;
        let lengths = reads.iter().enumerate().find(|(at, _)| is_integer(*at));
        // SAFETY: the caller vouches for the tensors.
        let lengths = lengths.map(|(_, of)| unsafe { of.integers() }).transpose()?;
        let mut floats = all.iter().map(|of| of.as_ref());
        let products: Vec<&[f32]> = floats.by_ref().take(directions).collect();
        let weights = floats.next().unwrap_or(&[]);
        let mut next = |is_given: bool| if is_given { floats.next() } else { None };
        let given = self.given;
        let [bias, state, cell, peepholes] =
            [given.bias, given.state, given.cell, given.peepholes].map(&mut next);
        let [states, last, ..] = writes else { return Err("a sequence without results".to_owned()) };
        let rows = self.cell.gates() * self.size;
        let wanted = self.length * self.batch * rows;
        if products.iter().any(|of| of.len() != wanted) || weights.len() != directions * rows * self.size {
            return Err("the weights have another size".to_owned());
        }
        let numbers = Numbers {
            of: self,
            products,
            weights,
            bias,
            lengths,
            state,
            cell,
            peepholes,
            states: states.start.cast(),
            last: last.start.cast(),
            last_cell: writes.get(2).map(|of| of.start.cast()),
            dots: dots(),
        };
        let tasks = directions * self.batch;
        let work = |task: usize| {
            let (direction, sequence) = (task / self.batch, task % self.batch);
            // SAFETY: the results have room, as operators see to; each task has its own sequence.
            unsafe { numbers.sequences(direction, sequence..sequence + 1) };
        };
        if tasks < 2 {
            (0..tasks).for_each(work);
            return Ok(());
        }
        parallel(tasks, &work)
    }
}
