//! Packs weights in the order in which tiles read them, and sums each column.

use std::ops::Range;

use crate::gemm::byte_tile::GROUP;
use crate::int8::problem::Problem;
use crate::int8::rows::copy;
use crate::simd::array;
use crate::simd::isa::{Isa, IsaTask};

/// The layout of a group's packed weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panels {
    /// Groups of columns, and panels of them.
    pub(crate) groups: usize,
    pub(crate) panels: usize,
    /// Words of terms in a column.
    pub(crate) words: usize,
}

impl Panels {
    /// Panels of at most `most` groups of columns, with terms rounded up to a multiple of `round`.
    pub(crate) fn of(problem: &Problem, most: usize, round: usize) -> Self {
        let groups = problem.columns.div_ceil(GROUP);
        let words = problem.terms().next_multiple_of(round) / 4;
        Self { groups, panels: groups.div_ceil(most), words }
    }

    /// The groups of columns of a panel.
    pub(crate) fn groups_of(&self, panel: usize) -> Range<usize> {
        crate::threading::partition::part(self.groups, self.panels, panel)
    }

    /// Words of all panels.
    pub(crate) fn panel_words(&self) -> usize {
        self.groups * GROUP * self.words
    }

    /// Words of all panels and sums.
    pub(crate) fn all_words(&self) -> usize {
        self.panel_words() + self.groups * GROUP
    }

    /// The offset of a panel in words.
    pub(crate) fn place(&self, panel: usize) -> usize {
        self.groups_of(panel).start * GROUP * self.words
    }

    /// Packs a panel, and sums its columns.
    ///
    /// # Safety
    /// `from` is the first of the group's weights, `to` has room for [`Panels::all_words`], and the processor has the instructions.
    pub(crate) unsafe fn pack(
        &self,
        problem: &Problem,
        panel: usize,
        (from, to): (*const u8, *mut i32),
        isa: Isa,
    ) {
        let groups = self.groups_of(panel);
        let columns = groups.start * GROUP..groups.end * GROUP;
        let (channels, taps) = (problem.channels, problem.taps());
        let flip = if problem.w.is_signed { 0 } else { 0x80 };
        let width = columns.len();
        // SAFETY: there is room for the panel and its sums.
        let (panel, sums) =
            unsafe { (to.add(self.place(panel)), to.add(self.panel_words() + columns.start)) };
        if problem.w.column == 1 && (taps == 1 || channels.is_multiple_of(WORD)) {
            let words = self.words;
            let task = Neighbours { problem, columns, flip, from, words, panel, sums };
            // SAFETY: the processor has the instructions, the weights have the columns, and the panel has
            // room.
            return unsafe { isa.run(task) };
        }
        for (j, column) in columns.enumerate() {
            if column >= problem.columns {
                // SAFETY: the column lies in the panel.
                unsafe {
                    (0..self.words).for_each(|word| panel.add(word * width + j).write(0));
                    sums.add(j).write(0);
                }
                continue;
            }
            let mut terms = Terms { to: panel.wrapping_add(j), width, word: [0; 4], term: 0, sum: 0 };
            for tap in 0..taps {
                let from = from.wrapping_add(column * problem.w.column + problem.tap(tap));
                // SAFETY: the weights have the column's channels, and the panel has room for its terms.
                unsafe { terms.add(from, channels, problem.w.channel, flip) };
            }
            // SAFETY: the panel has these words of the column.
            unsafe {
                terms.fill(self.words);
                sums.add(j).write(terms.sum);
            }
        }
    }
}

/// Terms of a word.
const WORD: usize = 4;

/// Columns that are contiguous in memory, packed sixteen words at a time.
struct Neighbours<'a> {
    problem: &'a Problem,
    columns: Range<usize>,
    flip: u8,
    from: *const u8,
    words: usize,
    panel: *mut i32,
    sums: *mut i32,
}

impl IsaTask for Neighbours<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let width = self.columns.len();
        for first in (0..width).step_by(GROUP) {
            // SAFETY: whoever makes the task has room for all of `columns`, which are whole groups, and `first` begins one.
            unsafe { self.group(self.columns.start + first, self.panel.add(first), self.sums.add(first)) };
        }
    }
}

impl Neighbours<'_> {
    /// Packs a group of columns.
    ///
    /// # Safety
    /// There is room for the words of the group's columns, and for their sums.
    #[inline(always)]
    unsafe fn group(&self, column: usize, to: *mut i32, to_sums: *mut i32) {
        let (problem, width) = (self.problem, self.columns.len());
        let count = problem.columns.saturating_sub(column).min(GROUP);
        let mut sums = [0_i32; GROUP];
        let mut word = 0;
        for tap in 0..problem.taps() {
            let from = self.from.wrapping_add(column + problem.tap(tap));
            for channel in (0..problem.channels).step_by(WORD) {
                let mut rows = [[0_u8; GROUP]; WORD];
                for (row, bytes) in rows.iter_mut().enumerate().take(problem.channels - channel) {
                    let from = from.wrapping_add((channel + row) * problem.w.channel);
                    // SAFETY: the weights have the columns in this row.
                    unsafe {
                        match count == GROUP {
                            true => {
                                *bytes =
                                    array::map(from.cast::<[u8; GROUP]>().read(), |byte| byte ^ self.flip)
                            }
                            false => copy(from, bytes.as_mut_ptr(), count, self.flip),
                        }
                    }
                }
                let words: [i32; GROUP] =
                    array::from_fn(|j| i32::from_le_bytes(array::map(rows, |row| row[j])));
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum += rows.iter().map(|row| i32::from(row[j].cast_signed())).sum::<i32>();
                }
                // SAFETY: the panel has the word of these columns.
                unsafe { to.add(word * width).cast::<[i32; GROUP]>().write(words) };
                word += 1;
            }
        }
        // SAFETY: there is room for the sums, and for all words of the columns.
        unsafe {
            (word..self.words).for_each(|word| to.add(word * width).cast::<[i32; GROUP]>().write([0; GROUP]));
            to_sums.cast::<[i32; GROUP]>().write(sums);
        }
    }
}

/// The terms of a column while they are packed into words.
struct Terms {
    to: *mut i32,
    width: usize,
    word: [u8; 4],
    term: usize,
    sum: i32,
}

impl Terms {
    /// Adds terms.
    ///
    /// # Safety
    /// `from` is readable for `count` bytes of this stride, and the panel has room for as many terms.
    #[inline(always)]
    unsafe fn add(&mut self, from: *const u8, count: usize, stride: usize, flip: u8) {
        let mut at = 0;
        // SAFETY: terms below `count` are readable, and their words lie in the panel.
        unsafe {
            while stride == 1 && self.term.is_multiple_of(4) && at + 4 <= count {
                let bytes = array::map(from.add(at).cast::<[u8; 4]>().read_unaligned(), |byte| byte ^ flip);
                self.sum += bytes.iter().map(|byte| i32::from(byte.cast_signed())).sum::<i32>();
                self.to.add(self.term / 4 * self.width).write(i32::from_le_bytes(bytes));
                self.term += 4;
                at += 4;
            }
            while at < count {
                let byte = from.add(at * stride).read() ^ flip;
                self.sum += i32::from(byte.cast_signed());
                self.push(byte);
                at += 1;
            }
        }
    }

    /// # Safety
    /// The panel has room for a word of four terms at `term`.
    #[inline(always)]
    unsafe fn push(&mut self, byte: u8) {
        self.word[self.term % 4] = byte;
        self.term += 1;
        if self.term.is_multiple_of(4) {
            // SAFETY: this function requires room for the word that ends with this term.
            unsafe { self.to.add((self.term / 4 - 1) * self.width).write(i32::from_le_bytes(self.word)) };
        }
    }

    /// Pads the column with zeros to this many words.
    ///
    /// # Safety
    /// The panel has `words` words in this column.
    unsafe fn fill(&mut self, words: usize) {
        while self.term < words * 4 {
            // SAFETY: this function requires `words` words, and the term is one of the last of them.
            unsafe { self.push(0) };
        }
    }
}
