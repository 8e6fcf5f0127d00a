//! Where the rows of sequences lie, and the numbers in memory that say so.

use hipdnn_plugin_planner::problem::attention::shape::{Integers, Sequences, Shape, Start};
use hipdnn_plugin_sdk::graph::DataType;

use crate::kernel::Refusal;
use crate::reference::memory::{Memory, View};

/// An integer in memory.
///
/// # Safety
/// `tensors` are the pointers of the operation, and `row` and `column` are inside the integers' dimensions.
pub(crate) unsafe fn integer(integers: &Integers, tensors: &[*mut u8], row: usize, column: usize) -> i64 {
    let at = row * integers.strides[0] + column * integers.strides[1];
    // SAFETY: the pointers, and a place inside the tensor are valid, as this function requires.
    unsafe {
        let base = *tensors.get_unchecked(integers.slot);
        match integers.data_type {
            DataType::Int64 => base.cast::<i64>().add(at).read_unaligned(),
            _ => i64::from(base.cast::<i32>().add(at).read_unaligned()),
        }
    }
}

/// One sequence of a batch at execution.
#[derive(Clone, Copy)]
pub(crate) struct Sequence {
    /// Its place in the batch.
    pub(crate) place: usize,
    /// How many queries it has.
    pub(crate) queries: usize,
    /// How many keys it has.
    pub(crate) keys: usize,
    /// Its first query, where the queries of all are packed.
    pub(crate) first: usize,
}

/// The lengths of the sequences.
pub(crate) struct Lengths {
    pub(crate) shape: Shape,
    pub(crate) lengths: Option<[Integers; 2]>,
}

impl Lengths {
    /// The sequence at a place of the batch.
    ///
    /// # Safety
    /// `tensors` are the pointers of the operation; the lengths were checked, and the place is in the batch.
    pub(crate) unsafe fn sequence(&self, tensors: &[*mut u8], place: usize) -> Sequence {
        let Shape { queries, keys, packed, .. } = self.shape;
        let Some([of_queries, of_keys]) = &self.lengths else {
            return Sequence { place, queries, keys, first: 0 };
        };
        // SAFETY: passed on; lengths that were checked are not negative.
        unsafe {
            let length = |integers, place| integer(integers, tensors, place, 0) as usize;
            let first = if packed { (0..place).map(|place| length(of_queries, place)).sum() } else { 0 };
            Sequence { place, queries: length(of_queries, place), keys: length(of_keys, place), first }
        }
    }

    /// Whether every length is one that the tensors have room for.
    ///
    /// # Safety
    /// `tensors` are the pointers of the operation.
    pub(crate) unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        let Some([of_queries, of_keys]) = &self.lengths else { return Ok(()) };
        let (mut queries_left, packed) = (self.shape.queries, self.shape.packed);
        for place in 0..self.shape.batch {
            for (name, integers, most) in
                [("seq_len_q", of_queries, queries_left), ("seq_len_kv", of_keys, self.shape.keys)]
            {
                // SAFETY: passed on; there is a length for every place.
                let length = unsafe { integer(integers, tensors, place, 0) };
                match usize::try_from(length) {
                    Ok(length) if length <= most => {
                        if packed && name == "seq_len_q" {
                            queries_left -= length;
                        }
                    }
                    _ => return Err(format!("{name}[{place}] is {length}, expected 0 to {most}")),
                }
            }
        }
        Ok(())
    }
}

/// A tensor [B, heads, S, numbers] of sequences.
pub(crate) struct Rows {
    name: &'static str,
    pub(crate) memory: Memory<f64>,
    pub(crate) strides: [usize; 4],
    dims: [usize; 4],
    extent: usize,
    start: Start,
}

impl Rows {
    pub(crate) fn of(name: &'static str, sequences: &Sequences) -> Result<Self, Refusal> {
        Ok(Self {
            name,
            memory: Memory::of(name, &sequences.operand)?,
            strides: sequences.strides(),
            dims: sequences.dims(),
            extent: sequences.operand.layout.extent(),
            start: sequences.start,
        })
    }

    pub(crate) fn heads(&self) -> usize {
        self.dims[1]
    }

    /// Whether there is room for rows beyond the lengths of the sequences.
    pub(crate) fn has_padding(&self) -> bool {
        !matches!(self.start, Start::Ragged { .. })
    }

    /// # Safety
    /// As for [`Memory::bind`].
    pub(crate) unsafe fn bind<'a>(&'a self, tensors: &'a [*mut u8]) -> Bound<'a> {
        // SAFETY: the function called requires what this one requires.
        Bound { rows: self, view: unsafe { self.memory.bind(tensors) }, tensors }
    }

    /// Whether every row of every sequence lies in the tensor. Lengths were checked; `length` tells those of this tensor.
    ///
    /// # Safety
    /// `tensors` are the pointers of the operation.
    pub(crate) unsafe fn check(
        &self,
        tensors: &[*mut u8],
        batch: usize,
        length: impl Fn(usize) -> usize,
    ) -> Result<(), Refusal> {
        let name = self.name;
        match &self.start {
            Start::Even | Start::Packed => Ok(()),
            Start::Paged(table) => {
                let blocks = self.dims[0];
                for place in 0..batch {
                    for block in 0..length(place).div_ceil(self.dims[2]) {
                        // SAFETY: the table has a row for every sequence, and columns for as many keys as there may be.
                        let entry = unsafe { integer(table, tensors, place, block) };
                        if !usize::try_from(entry).is_ok_and(|entry| entry < blocks) {
                            return Err(format!(
                                "page_table_{name}[{place}, {block}] is {entry}, expected 0 to {}",
                                blocks - 1
                            ));
                        }
                    }
                }
                Ok(())
            }
            Start::Ragged { offsets, multiplier } => {
                for place in 0..batch {
                    // SAFETY: there is one offset more than there are sequences.
                    let [begin, end] = unsafe {
                        [integer(offsets, tensors, place, 0), integer(offsets, tensors, place + 1, 0)]
                    };
                    let in_elements = |offset: i64| i128::from(offset) * *multiplier as i128;
                    let reach = match length(place) {
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
                            "ragged offsets of {name}: sequence {place} goes from {begin} to {end}, times {multiplier}, and needs \
                             {reach} of the {} elements that the tensor has",
                            self.extent
                        ));
                    }
                }
                Ok(())
            }
        }
    }
}

/// The same during a run.
pub(crate) struct Bound<'a> {
    rows: &'a Rows,
    view: View<f64>,
    tensors: &'a [*mut u8],
}

impl Bound<'_> {
    /// Where the numbers of a row begin.
    ///
    /// # Safety
    /// The head is one of the tensor, and the position one of the sequence, or one of its padding.
    unsafe fn offset(&self, sequence: &Sequence, head: usize, position: usize) -> usize {
        let [s0, s1, s2, _] = self.rows.strides;
        let place = sequence.place;
        // SAFETY: the place is valid, as this function requires; the tables were checked up to it.
        unsafe {
            match &self.rows.start {
                Start::Even => place * s0 + head * s1 + position * s2,
                Start::Packed => head * s1 + (sequence.first + position) * s2,
                Start::Paged(table) => {
                    let block = self.rows.dims[2];
                    let page = integer(table, self.tensors, place, position / block) as usize;
                    page * s0 + head * s1 + position % block * s2
                }
                Start::Ragged { offsets, multiplier } => {
                    let begin = integer(offsets, self.tensors, place, 0) as usize;
                    begin * multiplier + head * s1 + position * s2
                }
            }
        }
    }

    /// A row of the tensor.
    ///
    /// # Safety
    /// The head is one of the tensor, and the position one of the sequence, or one of its padding.
    pub(crate) unsafe fn row(&self, sequence: &Sequence, head: usize, position: usize) -> Row<'_> {
        // SAFETY: the function called requires what this one requires.
        let offset = unsafe { self.offset(sequence, head, position) };
        Row { view: &self.view, offset, stride: self.rows.strides[3], length: self.rows.dims[3] }
    }

    /// The row of the head that these heads of the queries share.
    ///
    /// # Safety
    /// As for [`Bound::row`].
    pub(crate) unsafe fn shared(
        &self,
        sequence: &Sequence,
        head: usize,
        heads: usize,
        key: usize,
    ) -> Row<'_> {
        // SAFETY: passed on; the heads are a divisor of `heads`.
        unsafe { self.row(sequence, head / (heads / self.rows.heads()), key) }
    }
}

/// The numbers of one query, key, value or result.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    view: &'a View<f64>,
    offset: usize,
    stride: usize,
    length: usize,
}

impl Row<'_> {
    /// # Safety
    /// `place` is below the row's length.
    pub(crate) unsafe fn get(&self, place: usize) -> f64 {
        // SAFETY: the row lies in the tensor.
        unsafe { self.view.get(self.offset + place * self.stride) }
    }

    /// # Safety
    /// `place` is below the row's length, and the kernel writes the tensor.
    pub(crate) unsafe fn set(&self, place: usize, value: f64) {
        // SAFETY: the row lies in the tensor.
        unsafe { self.view.set(self.offset + place * self.stride, value) }
    }

    /// # Safety
    /// The kernel writes the tensor.
    pub(crate) unsafe fn fill(&self, value: f64) {
        for place in 0..self.length {
            // SAFETY: the function called requires what this one requires.
            unsafe { self.set(place, value) }
        }
    }

    /// Σ aᵢ bᵢ over two rows of one length.
    ///
    /// # Safety
    /// The rows are as long as each other.
    pub(crate) unsafe fn dot(&self, other: &Row<'_>) -> f64 {
        let mut sum = 0.0;
        for place in 0..self.length {
            // SAFETY: both rows have the place.
            sum += unsafe { self.get(place) * other.get(place) };
        }
        sum
    }
}
