//! A step of LSTM and GRU: the gates of some sequences, block by block.

#![expect(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "arrays are indexed below their length, and blocks are those of the part; iterators over them are not inlined"
)]

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::bytes::{Bytes, ProductOfBytes, States};
use super::gates::{Block, Product, Step, UNITS, each, sigmoid, tanh, with_product};
use crate::threads::Parallel;

/// The function of the state of an RNN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Hyperbolic tangent.
    Tanh,
    /// The larger one of the number and 0.
    Relu,
    /// The logistic function.
    Sigmoid,
}

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
    /// One gate, which is the state.
    Rnn(Activation),
}

impl Cell {
    /// The number of gates.
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru { .. } => 3,
            Self::Rnn(_) => 1,
        }
    }
}

/// Zeros, or none.
const NONE: Block = [0.0; UNITS];

/// The numbers of a block, with zeros beyond the last one.
#[inline(always)]
fn block(of: &[f32], at: usize) -> Block {
    let rest = of.get(at * UNITS..).unwrap_or(&[]);
    if let Some(whole) = rest.first_chunk() {
        return *whole;
    }
    let mut to = NONE;
    to[..rest.len()].copy_from_slice(rest);
    to
}

/// Biases, for each gate: added to the inputs, and of the hidden gate of a GRU that of the state, which is apart from its input.
pub struct Bias {
    gates: Vec<f32>,
    of_state: Vec<f32>,
}

impl Bias {
    /// The biases of the inputs, then those of the state; zeros if there are none.
    pub fn new(cell: Cell, size: usize, given: Option<&[f32]>) -> Self {
        let all = cell.gates() * size;
        let (of_input, of_state) =
            given.map_or((&[][..], &[][..]), |given| given.split_at(all.min(given.len())));
        let mut gates = vec![0.0; all];
        gates.iter_mut().zip(of_input).for_each(|(to, bias)| *to = *bias);
        let is_apart = cell == Cell::Gru { after: true };
        let joined = if is_apart { 2 * size } else { all };
        gates.iter_mut().zip(of_state).take(joined).for_each(|(to, bias)| *to += bias);
        Self { gates, of_state: of_state.get(2 * size..3 * size).unwrap_or(&[]).to_vec() }
    }
}

/// The weights of a direction.
pub struct Weights<'a> {
    cell: Cell,
    size: usize,
    packed: &'a [f32],
    bias: Bias,
    peepholes: Option<&'a [f32]>,
    /// Weights that are bytes: states are quantized before they are multiplied.
    bytes: Option<Bytes<'a>>,
}

/// `M` sequences that are multiplied at once.
pub struct Group<'a, const M: usize> {
    /// The products of the inputs of this step.
    pub inputs: [&'a [f32]; M],
    /// Whether they have this step.
    pub is_on: [bool; M],
    /// Their states.
    pub state: Vec<[f32; M]>,
    /// The states that the last gate of a GRU reads.
    reset: Vec<[f32; M]>,
    /// The states of an LSTM whose weights are bytes.
    quantized: States<M>,
    parts: Vec<Mutex<Work<M>>>,
}

/// The numbers of some blocks.
struct Work<const M: usize> {
    blocks: Range<usize>,
    next: Vec<[Block; M]>,
    cell: Vec<[Block; M]>,
    update: Vec<[Block; M]>,
}

impl<const M: usize> Work<M> {
    fn new(blocks: Range<usize>, cells: &[&[f32]; M]) -> Self {
        let cell = blocks.clone().map(|at| cells.map(|cell| block(cell, at))).collect();
        let zeros = vec![[NONE; M]; blocks.len()];
        Self { blocks, next: zeros.clone(), cell, update: zeros }
    }

    /// Replaces the numbers of sequences by the next ones.
    fn take(&self, is_on: [bool; M], to: &mut [[f32; M]]) {
        let own = to.get_mut(self.blocks.start * UNITS..).unwrap_or(&mut []);
        for (to, next) in own.chunks_mut(UNITS).zip(&self.next) {
            for unit in 0..to.len() {
                for m in 0..M {
                    to[unit][m] = if is_on[m] { next[m][unit] } else { to[unit][m] };
                }
            }
        }
    }
}

impl<const M: usize> Group<'_, M> {
    /// Sequences with their first states and cells, of `size` numbers, whose blocks are divided in `count` parts.
    pub fn new(states: [&[f32]; M], cells: [&[f32]; M], size: usize, count: usize) -> Self {
        let blocks = size.div_ceil(UNITS);
        let parts = (0..count).map(|part| blocks * part / count..blocks * (part + 1) / count);
        let row = |at: usize| states.map(|state| state.get(at).copied().unwrap_or(0.0));
        let state: Vec<[f32; M]> = (0..size).map(row).collect();
        Self {
            inputs: [&[]; M],
            is_on: [false; M],
            reset: state.clone(),
            quantized: States::new(size),
            state,
            parts: parts.map(|blocks| Mutex::new(Work::new(blocks, &cells))).collect(),
        }
    }

    /// The cell of a sequence.
    pub fn cell(&self, at: usize) -> Vec<f32> {
        let of_part = |part: &Mutex<Work<M>>| -> Vec<f32> {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.cell.iter().filter_map(|cells| cells.get(at)).flatten().copied().collect()
        };
        self.parts.iter().flat_map(of_part).take(self.state.len()).collect()
    }

    fn is_any_on(&self) -> bool {
        self.is_on.contains(&true)
    }
}

/// A step of `M` sequences for a range of blocks.
struct Own<'a, const M: usize> {
    of: &'a Weights<'a>,
    inputs: &'a [&'a [f32]; M],
    is_on: [bool; M],
    state: &'a [[f32; M]],
    work: &'a mut Work<M>,
}

impl<const M: usize> Own<'_, M> {
    /// The inputs of a gate with its bias.
    #[inline(always)]
    fn input(&self, gate: usize, at: usize, sequence: usize) -> Block {
        let gate = gate * self.of.size..(gate + 1) * self.of.size;
        let own = block(self.inputs[sequence].get(gate.clone()).unwrap_or(&[]), at);
        with_product(&own, &[1.0; UNITS], &block(self.of.bias.gates.get(gate).unwrap_or(&[]), at))
    }

    /// The state of a sequence.
    #[inline(always)]
    fn state(&self, at: usize, sequence: usize) -> Block {
        let mut to = NONE;
        let rest = self.state.get(at * UNITS..).unwrap_or(&[]);
        for unit in 0..UNITS.min(rest.len()) {
            to[unit] = rest[unit][sequence];
        }
        to
    }

    /// The index of a block among those of the part.
    #[inline(always)]
    fn index(&self, at: usize) -> usize {
        at - self.work.blocks.start
    }
}

/// LSTM.
impl<const M: usize> Step<M, 4> for Own<'_, M> {
    #[inline(always)]
    fn start(&self, at: usize) -> [[Block; 4]; M] {
        let mut to = [[NONE; 4]; M];
        for m in 0..M {
            for gate in 0..4 {
                to[m][gate] = self.input(gate, at, m);
            }
        }
        to
    }

    #[inline(always)]
    fn finish(&mut self, at: usize, sums: &[[Block; 4]; M]) {
        let (index, size) = (self.index(at), self.of.size);
        let mut peepholes = [NONE; 3];
        if let Some(all) = self.of.peepholes {
            for gate in 0..3 {
                peepholes[gate] = block(all.get(gate * size..(gate + 1) * size).unwrap_or(&[]), at);
            }
        }
        let [of_input, of_output, of_forget] = peepholes;
        for m in 0..M {
            let [input, output, forget, candidate] = &sums[m];
            let cell = self.work.cell[index][m];
            let input = each(&with_product(&of_input, &cell, input), sigmoid);
            let forget = each(&with_product(&of_forget, &cell, forget), sigmoid);
            let kept = with_product(&forget, &cell, &NONE);
            let own = with_product(&input, &each(candidate, tanh), &kept);
            let output = each(&with_product(&of_output, &own, output), sigmoid);
            self.work.next[index][m] = with_product(&output, &each(&own, tanh), &NONE);
            self.work.cell[index][m] = if self.is_on[m] { own } else { cell };
        }
    }
}

/// (1 - update) · tanh(hidden) + update · state.
#[inline(always)]
fn blend(update: &Block, hidden: &Block, state: &Block) -> Block {
    let kept = with_product(update, state, &NONE);
    with_product(&each(update, |update| 1.0 - update), &each(hidden, tanh), &kept)
}

/// GRU whose reset gate follows the product.
impl<const M: usize> Step<M, 3> for Own<'_, M> {
    #[inline(always)]
    fn start(&self, at: usize) -> [[Block; 3]; M] {
        let mut to = [[block(&self.of.bias.of_state, at); 3]; M];
        for m in 0..M {
            for gate in 0..2 {
                to[m][gate] = self.input(gate, at, m);
            }
        }
        to
    }

    #[inline(always)]
    fn finish(&mut self, at: usize, sums: &[[Block; 3]; M]) {
        let index = self.index(at);
        for m in 0..M {
            let [update, reset, of_state] = &sums[m];
            let hidden = with_product(&each(reset, sigmoid), of_state, &self.input(2, at, m));
            self.work.next[index][m] = blend(&each(update, sigmoid), &hidden, &self.state(at, m));
        }
    }
}

/// The first two gates of a GRU whose reset gate precedes the product: next is the state that the last gate reads.
impl<const M: usize> Step<M, 2> for Own<'_, M> {
    #[inline(always)]
    fn start(&self, at: usize) -> [[Block; 2]; M] {
        let mut to = [[NONE; 2]; M];
        for m in 0..M {
            for gate in 0..2 {
                to[m][gate] = self.input(gate, at, m);
            }
        }
        to
    }

    #[inline(always)]
    fn finish(&mut self, at: usize, sums: &[[Block; 2]; M]) {
        let index = self.index(at);
        for m in 0..M {
            let [update, reset] = &sums[m];
            self.work.update[index][m] = each(update, sigmoid);
            self.work.next[index][m] = with_product(&each(reset, sigmoid), &self.state(at, m), &NONE);
        }
    }
}

/// The last gate of such a GRU, or the only one of an RNN.
impl<const M: usize> Step<M, 1> for Own<'_, M> {
    #[inline(always)]
    fn start(&self, at: usize) -> [[Block; 1]; M] {
        let mut to = [[NONE; 1]; M];
        for m in 0..M {
            to[m][0] = self.input(self.of.cell.gates() - 1, at, m);
        }
        to
    }

    #[inline(always)]
    fn finish(&mut self, at: usize, sums: &[[Block; 1]; M]) {
        let index = self.index(at);
        if let Cell::Rnn(activation) = self.of.cell {
            for m in 0..M {
                self.work.next[index][m] = match activation {
                    Activation::Tanh => each(&sums[m][0], tanh),
                    Activation::Relu => each(&sums[m][0], |x| x.max(0.0)),
                    Activation::Sigmoid => each(&sums[m][0], sigmoid),
                };
            }
            return;
        }
        for m in 0..M {
            let update = self.work.update[index][m];
            self.work.next[index][m] = blend(&update, &sums[m][0], &self.state(at, m));
        }
    }
}

/// Blocks that each group computes before the next ones, whose weights then are in the cache.
const TOGETHER: usize = 2;

impl<'a> Weights<'a> {
    /// Packed weights of a direction.
    pub fn new(cell: Cell, size: usize, packed: &'a [f32], bias: Bias, peepholes: Option<&'a [f32]>) -> Self {
        Self { cell, size, packed, bias, peepholes, bytes: None }
    }

    /// The same with weights that are bytes.
    pub fn with_bytes(self, bytes: Bytes<'a>) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    /// Computes a step, and replaces the states of sequences that have it.
    pub fn step<const M: usize>(
        &self,
        groups: &mut [Group<'_, M>],
        parallel: Option<Parallel<'_>>,
    ) -> Result<(), String> {
        let whole = self.packed.as_chunks::<UNITS>().0;
        if self.bytes.is_some() {
            quantize(groups);
        }
        let all: &[Group<'_, M>] = groups;
        match (self.cell, &self.bytes) {
            (Cell::Lstm, Some(bytes)) => each_part(all, parallel, &|part| {
                self.part(all, part, |group, blocks, own| {
                    ProductOfBytes { bytes, states: &group.quantized }.compute(blocks, own);
                });
            })?,
            (Cell::Lstm, None) => {
                let panels = whole.as_chunks::<4>().0;
                each_part(all, parallel, &|part| {
                    self.part(all, part, |group, blocks, own| {
                        Product { panels, states: &group.state }.compute(blocks, own);
                    });
                })?;
            }
            (Cell::Gru { after: true }, _) => {
                let panels = whole.as_chunks::<3>().0;
                each_part(all, parallel, &|part| {
                    self.part(all, part, |group, blocks, own| {
                        Product { panels, states: &group.state }.compute(blocks, own);
                    });
                })?;
            }
            (Cell::Rnn(_), _) => {
                let panels = whole.as_chunks::<1>().0;
                each_part(all, parallel, &|part| {
                    self.part(all, part, |group, blocks, own| {
                        Product { panels, states: &group.state }.compute(blocks, own);
                    });
                })?;
            }
            (Cell::Gru { after: false }, _) => {
                let (gates, hidden) = whole.split_at(whole.len() / 3 * 2);
                let (gates, hidden) = (gates.as_chunks::<2>().0, hidden.as_chunks::<1>().0);
                each_part(all, parallel, &|part| {
                    self.part(all, part, |group, blocks, own| {
                        Product { panels: gates, states: &group.state }.compute(blocks, own);
                    });
                })?;
                for Group { parts, is_on, reset, .. } in groups.iter_mut() {
                    take(parts, *is_on, reset);
                }
                let all: &[Group<'_, M>] = groups;
                each_part(all, parallel, &|part| {
                    self.part(all, part, |group, blocks, own| {
                        Product { panels: hidden, states: &group.reset }.compute(blocks, own);
                    });
                })?;
            }
        }
        for Group { parts, is_on, state, .. } in groups.iter_mut().filter(|group| group.is_any_on()) {
            take(parts, *is_on, state);
        }
        Ok(())
    }

    /// Computes the blocks of a part, by a function of a group, some of the blocks, and the step.
    fn part<const M: usize>(
        &self,
        groups: &[Group<'_, M>],
        part: usize,
        compute: impl Fn(&Group<'_, M>, Range<usize>, &mut Own<'_, M>),
    ) {
        let on = groups.iter().filter(|group| group.is_any_on());
        let works = on.filter_map(|group| Some((group, group.parts.get(part)?)));
        let mut works: Vec<_> =
            works.map(|(group, work)| (group, work.lock().unwrap_or_else(PoisonError::into_inner))).collect();
        let Some(blocks) = works.first().map(|(_, work)| work.blocks.clone()) else { return };
        for first in blocks.clone().step_by(TOGETHER) {
            let own_blocks = first..(first + TOGETHER).min(blocks.end);
            for (group, work) in &mut works {
                let Group { inputs, is_on, state, .. } = *group;
                let mut own = Own { of: self, inputs, is_on: *is_on, state, work };
                compute(group, own_blocks.clone(), &mut own);
            }
        }
    }
}

/// Quantizes the states of all groups to bytes, with one scale and zero point.
fn quantize<const M: usize>(groups: &mut [Group<'_, M>]) {
    let all = || groups.iter().flat_map(|group| &group.state).flatten();
    let (least, most) = all().fold((0.0_f32, 0.0_f32), |(least, most), x| (least.min(*x), most.max(*x)));
    let scale = if most > least { (most - least) / 255.0 } else { 1.0 };
    let zero = (-least / scale).round_ties_even().clamp(0.0, 255.0);
    let byte = |x: f32| ((x / scale).round_ties_even() + zero).clamp(0.0, 255.0) as u8;
    for Group { state, quantized, .. } in groups {
        quantized.set(state, (scale, zero as u8), byte);
    }
}

fn take<const M: usize>(parts: &[Mutex<Work<M>>], is_on: [bool; M], to: &mut [[f32; M]]) {
    for part in parts {
        part.lock().unwrap_or_else(PoisonError::into_inner).take(is_on, to);
    }
}

/// Calls `work` for each part of the groups, on several threads if there are several.
fn each_part<const M: usize>(
    groups: &[Group<'_, M>],
    parallel: Option<Parallel<'_>>,
    work: &(dyn Fn(usize) + Sync),
) -> Result<(), String> {
    let count = groups.first().map_or(0, |group| group.parts.len());
    match parallel.filter(|_| count > 1) {
        Some(parallel) => parallel(count, work),
        None => {
            (0..count).for_each(work);
            Ok(())
        }
    }
}
