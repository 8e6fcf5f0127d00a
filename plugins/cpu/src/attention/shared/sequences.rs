//! Locates the rows of sequences, which integers in memory describe.

use hipdnn_plugin_planner::problem::attention::shape::{Integers, Sequences, Shape, Start};

use crate::kernel::Refusal;
use crate::simd::array::Each;
use crate::tensor::view::{Memory, Pointers, View, sum};

/// One sequence of a batch at execution.
#[derive(Clone, Copy)]
pub(crate) struct Sequence {
    /// Its index in the batch.
    pub(crate) index: usize,
    /// How many queries it has.
    pub(crate) queries: usize,
    /// How many keys it has.
    pub(crate) keys: usize,
    /// Its first query, if the queries of all sequences are packed.
    pub(crate) first: usize,
}

/// The lengths of the sequences.
pub(crate) struct Lengths {
    pub(crate) shape: Shape,
    lengths: Option<[Integers; 2]>,
    /// Rows of queries that a length counts as one.
    rows_of_query: usize,
}

impl Lengths {
    pub(crate) fn new(shape: Shape, lengths: Option<[Integers; 2]>, rows_of_query: usize) -> Self {
        Self { shape, lengths, rows_of_query }
    }

    /// The sequence with an index in the batch, whose length was checked.
    pub(crate) fn sequence(&self, tensors: Pointers<'_>, index: usize) -> Sequence {
        let Shape { queries, keys, packed, .. } = self.shape;
        let Some([of_queries, of_keys]) = &self.lengths else {
            return Sequence { index, queries, keys, first: 0 };
        };
        let length = |integers, index| tensors.integer(integers, [index, 0]) as usize;
        let first = if packed { (0..index).map(|index| length(of_queries, index)).sum() } else { 0 };
        let queries = self.rows_of_query * length(of_queries, index);
        Sequence { index, queries, keys: length(of_keys, index), first }
    }

    /// Whether the tensors have room for every length.
    pub(crate) fn check(&self, tensors: Pointers<'_>) -> Result<(), Refusal> {
        let Some([of_queries, of_keys]) = &self.lengths else { return Ok(()) };
        let (mut queries_left, packed) = (self.shape.queries / self.rows_of_query, self.shape.packed);
        for index in 0..self.shape.batch {
            for (name, integers, most) in
                [("seq_len_q", of_queries, queries_left), ("seq_len_kv", of_keys, self.shape.keys)]
            {
                let length = tensors.integer(integers, [index, 0]);
                match usize::try_from(length) {
                    Ok(length) if length <= most => {
                        if packed && name == "seq_len_q" {
                            queries_left -= length;
                        }
                    }
                    _ => return Err(format!("{name}[{index}] is {length}, expected 0 to {most}")),
                }
            }
        }
        Ok(())
    }
}

/// How the rows of a tensor [B, heads, S, depth] of sequences are placed.
pub(crate) struct Placement {
    name: &'static str,
    strides: [usize; 4],
    dims: [usize; 4],
    extent: usize,
    start: Start,
}

impl Placement {
    pub(crate) fn of(name: &'static str, sequences: &Sequences) -> Self {
        Self {
            name,
            strides: sequences.strides(),
            dims: sequences.dims(),
            extent: sequences.operand.layout.extent(),
            start: sequences.start,
        }
    }

    pub(crate) fn dims(&self) -> [usize; 4] {
        self.dims
    }

    /// Whether the tensor has rows after the ends of sequences.
    pub(crate) fn has_padding(&self) -> bool {
        !matches!(self.start, Start::Ragged { .. })
    }

    /// How many rows from this one on have a constant stride: the rest of a page, if paged.
    pub(crate) fn rows_together(&self, position: usize) -> usize {
        match self.start {
            Start::Paged(_) => self.dims[2] - position % self.dims[2],
            _ => usize::MAX,
        }
    }

    /// The first element of the row of a head and of a position in the sequence or its padding. The tensors
    /// read were checked.
    #[inline]
    pub(crate) fn row(
        &self,
        tensors: Pointers<'_>,
        sequence: &Sequence,
        head: usize,
        position: usize,
    ) -> usize {
        let [s0, s1, s2, _] = self.strides;
        let index = sequence.index;
        head * s1
            + match &self.start {
                Start::Even => index * s0 + position * s2,
                Start::Packed => (sequence.first + position) * s2,
                Start::Paged(table) => {
                    let block = self.dims[2];
                    tensors.integer(table, [index, position / block]) as usize * s0 + position % block * s2
                }
                Start::Ragged { offsets, multiplier } => {
                    tensors.integer(offsets, [index, 0]) as usize * multiplier + position * s2
                }
            }
    }

    /// Checks that every row of every sequence lies in the tensor; `length` gives the sequences' lengths,
    /// which were checked.
    pub(crate) fn check(
        &self,
        tensors: Pointers<'_>,
        batch: usize,
        length: impl Fn(usize) -> usize,
    ) -> Result<(), Refusal> {
        let name = self.name;
        match &self.start {
            Start::Even | Start::Packed => {}
            Start::Paged(table) => {
                let blocks = self.dims[0];
                for index in 0..batch {
                    for block in 0..length(index).div_ceil(self.dims[2]) {
                        let entry = tensors.integer(table, [index, block]);
                        if !usize::try_from(entry).is_ok_and(|entry| entry < blocks) {
                            return Err(format!(
                                "page_table_{name}[{index}, {block}] is {entry}, expected 0 to {}",
                                blocks - 1
                            ));
                        }
                    }
                }
            }
            Start::Ragged { offsets, multiplier } => {
                for index in 0..batch {
                    let [begin, end] = [index, index + 1].each(|index| tensors.integer(offsets, [index, 0]));
                    let in_elements = |offset: i64| i128::from(offset) * *multiplier as i128;
                    let reach = match length(index) {
                        0 => 0,
                        length => {
                            1 + (self.dims[1] - 1) * self.strides[1]
                                + (length - 1) * self.strides[2]
                                + (self.dims[3] - 1) * self.strides[3]
                        }
                    };
                    let last = in_elements(end).min(self.extent as i128);
                    if begin < 0 || end < begin || in_elements(begin) + reach as i128 > last {
                        return Err(format!(
                            "ragged offsets of {name}: sequence {index} goes from {begin} to {end}, times {multiplier}, and needs \
                             {reach} of the {} elements that the tensor has",
                            self.extent
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A tensor [B, heads, S, depth] of sequences.
pub(crate) struct Rows {
    memory: Memory<f64>,
    placement: Placement,
}

impl Rows {
    #[inline(never)]
    pub(crate) fn of(name: &'static str, sequences: &Sequences) -> Result<Self, Refusal> {
        Ok(Self { memory: Memory::of(name, &sequences.operand)?, placement: Placement::of(name, sequences) })
    }

    pub(crate) fn heads(&self) -> usize {
        self.placement.dims[1]
    }

    pub(crate) fn has_padding(&self) -> bool {
        self.placement.has_padding()
    }

    /// See [`Placement::check`].
    pub(crate) fn check(
        &self,
        tensors: Pointers<'_>,
        batch: usize,
        length: impl Fn(usize) -> usize,
    ) -> Result<(), Refusal> {
        self.placement.check(tensors, batch, length)
    }

    pub(crate) fn bind<'a>(&'a self, tensors: Pointers<'a>) -> Bound<'a> {
        Bound { rows: self, view: self.memory.bind(tensors), tensors }
    }
}

/// [`Rows`] during a run.
pub(crate) struct Bound<'a> {
    rows: &'a Rows,
    view: View<'a, f64>,
    tensors: Pointers<'a>,
}

impl Bound<'_> {
    /// The row of a head and of a position in the sequence or its padding.
    pub(crate) fn row(&self, sequence: &Sequence, head: usize, position: usize) -> Row<'_> {
        let placement = &self.rows.placement;
        let offset = placement.row(self.tensors, sequence, head, position);
        Row { view: &self.view, offset, stride: placement.strides[3], length: placement.dims[3] }
    }

    /// The row for one of `heads` query heads, several of which may share a head of this tensor.
    pub(crate) fn shared(&self, sequence: &Sequence, head: usize, heads: usize, key: usize) -> Row<'_> {
        self.row(sequence, head / (heads / self.rows.heads()), key)
    }
}

/// The elements of one query, key, value or result.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    view: &'a View<'a, f64>,
    offset: usize,
    stride: usize,
    length: usize,
}

impl Row<'_> {
    pub(crate) fn get(&self, index: usize) -> f64 {
        self.view.get(self.offset + index * self.stride)
    }

    pub(crate) fn set(&self, index: usize, value: f64) {
        self.view.set(self.offset + index * self.stride, value);
    }

    pub(crate) fn fill(&self, value: f64) {
        (0..self.length).for_each(|index| self.set(index, value));
    }

    /// Adds multiples of the row's elements.
    pub(crate) fn add_to(&self, sums: &mut [f64], factor: f64) {
        for (index, sum) in sums.iter_mut().enumerate() {
            *sum += factor * self.get(index);
        }
    }

    /// Σ aᵢ bᵢ over two rows of the same length.
    pub(crate) fn dot(&self, other: &Row<'_>) -> f64 {
        sum((0..self.length).map(|index| self.get(index) * other.get(index)))
    }
}
