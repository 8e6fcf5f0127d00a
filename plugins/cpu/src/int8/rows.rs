//! Packs rows of operand A: the terms of each position in order, as unsigned bytes or unchanged.

use std::ops::Range;

use crate::int8::problem::{Axis, WINDOW, Window};
use crate::int8::transpose::{Matrix, transpose};
use crate::layout::MAX_RANK;
use crate::simd::array;
use crate::simd::array::Each;
use crate::simd::isa::IsaTask;

/// The sources of the rows of some positions.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) positions: &'a [Axis],
    /// The windows along the last positions.
    pub(crate) windows: Option<&'a [Window; WINDOW]>,
    /// Terms per element of the window, and their stride.
    pub(crate) channels: usize,
    pub(crate) channel: usize,
    /// The first element of x.
    pub(crate) from: *const u8,
    /// Each byte is combined with this by exclusive or.
    pub(crate) flip: u8,
    /// The value of elements outside x.
    pub(crate) outside: u8,
    /// The range of rows to make.
    pub(crate) range: (usize, usize),
    /// Their destination, stride and length; the rest is zeros.
    pub(crate) to: *mut u8,
    pub(crate) stride: usize,
    pub(crate) len: usize,
    /// Whether a whole block may be read after x and written after the last row.
    pub(crate) has_room: bool,
}

/// Bytes that are copied at once if there is room.
pub(crate) const BLOCK: usize = 64;

/// A position, counted along all axes.
pub(crate) struct Counter<'a> {
    axes: &'a [Axis],
    pub(crate) at: [usize; MAX_RANK],
}

impl<'a> Counter<'a> {
    pub(crate) fn new(axes: &'a [Axis], index: usize) -> Self {
        let mut counter = Self { axes, at: [0; MAX_RANK] };
        let mut rest = index;
        for (at, axis) in counter.at.iter_mut().zip(axes).rev() {
            *at = rest % axis.size;
            rest /= axis.size;
        }
        counter
    }

    /// Positions left on the last axis.
    pub(crate) fn left(&self) -> usize {
        let last = self.axes.len().wrapping_sub(1);
        self.axes.get(last).map_or(1, |axis| axis.size - self.at[last])
    }

    /// Advances, at most to the end of the last axis.
    #[inline(always)]
    pub(crate) fn advance(&mut self, by: usize) {
        let Some(last) = self.axes.len().checked_sub(1) else { return };
        self.at[last] += by;
        for axis in (1..=last).rev() {
            if self.at[axis] < self.axes[axis].size {
                return;
            }
            self.at[axis] = 0;
            self.at[axis - 1] += 1;
        }
    }

    /// The offset along all axes.
    #[inline(always)]
    pub(crate) fn offset(&self, stride: impl Fn(&Axis) -> usize) -> usize {
        self.at.iter().zip(self.axes).map(|(at, axis)| at * stride(axis)).sum()
    }
}

impl IsaTask for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (first, last) = self.range;
        match self.windows {
            Some(windows) => self.windowed(windows, first..last),
            None if self.channel == 1 || self.channels == 1 => self.contiguous(first..last),
            None => self.spread(first..last),
        }
    }
}

impl Rows<'_> {
    /// Rows of contiguous terms.
    #[inline(always)]
    fn contiguous(&self, rows: Range<usize>) {
        let rest = self.len - self.channels;
        let next = self.positions.last().map_or(0, |axis| axis.x);
        let mut counter = Counter::new(self.positions, rows.start);
        let mut row = 0;
        while row < rows.len() {
            let run = counter.left().min(rows.len() - row);
            let first = self.from.wrapping_add(counter.offset(|axis| axis.x));
            for at in 0..run {
                let to = self.to.wrapping_add((row + at) * self.stride);
                // SAFETY: the row lies in x and has room; with padding, there is room for a block after the
                // last.
                unsafe {
                    copy(first.add(at * next), to, self.channels, self.flip);
                    match rest {
                        0 => {}
                        1..=BLOCK => to.add(self.channels).cast::<[u8; BLOCK]>().write_unaligned([0; BLOCK]),
                        _ => to.add(self.channels).write_bytes(0, rest),
                    }
                }
            }
            counter.advance(run);
            row += run;
        }
    }

    /// Rows of terms that are not contiguous; contiguous positions are transposed.
    #[inline(always)]
    fn spread(&self, rows: Range<usize>) {
        let mut counter = Counter::new(self.positions, rows.start);
        let are_neighbours = self.positions.last().is_some_and(|axis| axis.x == 1);
        let mut row = 0;
        while row < rows.len() {
            let run = if are_neighbours { counter.left().min(rows.len() - row) } else { 1 };
            // SAFETY: the positions lie in x, and there is room for their rows.
            unsafe {
                let from = self.from.add(counter.offset(|axis| axis.x));
                let to = self.to.add(row * self.stride);
                if run > 1 {
                    let matrix = Matrix { from, stride: self.channel, rows: self.channels, columns: run };
                    transpose(matrix, to, self.stride, self.flip);
                } else {
                    for channel in 0..self.channels {
                        to.add(channel).write(from.add(channel * self.channel).read() ^ self.flip);
                    }
                }
                for row in 0..run {
                    to.add(row * self.stride + self.channels).write_bytes(0, self.len - self.channels);
                }
            }
            counter.advance(run);
            row += run;
        }
    }

    /// The elements of windows with contiguous channels.
    #[inline(always)]
    fn windowed(&self, windows: &[Window; WINDOW], rows: Range<usize>) {
        let spatial = self.positions.len() - 1;
        let [_, _, last] = windows;
        let are_dense = last.dilation == 1 && (last.x == self.channels || last.size == 1);
        let line = last.size * self.channels;
        let padding: usize = windows.iter().map(|window| window.padding * window.x).sum();
        let taps: usize = windows.iter().map(|window| window.size).product();
        // Lines shorter than a block, and the rest of a row, are whole blocks that the next ones overwrite.
        let in_blocks = self.has_room && are_dense && line <= BLOCK && self.flip == 0;
        let rest = self.len - taps * self.channels;
        let mut counter = Counter::new(self.positions, rows.start);
        for row in 0..rows.len() {
            let start: [isize; WINDOW] = array::from_fn(|i| {
                let at = (i + spatial).checked_sub(WINDOW).map_or(0, |axis| counter.at[1 + axis]);
                (at * windows[i].stride) as isize - windows[i].padding as isize
            });
            // The element at the window's first position, possibly before x.
            let from = self.from.wrapping_add(counter.offset(|axis| axis.x)).wrapping_sub(padding);
            let mut to = self.to.wrapping_add(row * self.stride);
            for d in 0..windows[0].size {
                for h in 0..windows[1].size {
                    let is_inside = [d, h].iter().zip(start).zip(windows).all(|((at, start), window)| {
                        let at = start + (at * window.dilation) as isize;
                        (0..window.input as isize).contains(&at)
                    });
                    let at = [d * windows[0].dilation * windows[0].x, h * windows[1].dilation * windows[1].x];
                    let from = from.wrapping_add(at[0] + at[1]);
                    // SAFETY: the row has room for the line; elements that are read lie in x.
                    unsafe {
                        let is_whole = start[2] >= 0 && start[2] + last.size as isize <= last.input as isize;
                        if in_blocks && is_inside && is_whole {
                            if line <= BLOCK / 2 {
                                block::<{ BLOCK / 2 }>(from, to, 0);
                            } else {
                                block::<BLOCK>(from, to, 0);
                            }
                        } else if !is_inside {
                            to.write_bytes(self.outside, line);
                        } else if are_dense {
                            self.dense_line(last, start[2], from, to);
                        } else {
                            self.line(last, start[2], from, to);
                        }
                        to = to.add(line);
                    }
                }
            }
            // SAFETY: the row has its whole length, or room for a block.
            unsafe {
                if in_blocks && rest <= BLOCK {
                    to.cast::<[u8; BLOCK]>().write_unaligned([0; BLOCK]);
                } else {
                    to.write_bytes(0, rest);
                }
            }
            counter.advance(1);
        }
    }

    /// A line of the window that is contiguous in x.
    ///
    /// # Safety
    /// `to` has room for the line, and the elements of it that lie in x are readable.
    #[inline(always)]
    unsafe fn dense_line(&self, window: &Window, start: isize, from: *const u8, to: *mut u8) {
        let size = window.size as isize;
        let begin = (-start).clamp(0, size) as usize;
        let end = ((window.input as isize - start).clamp(0, size) as usize).max(begin);
        let [begin, end, all] = [begin, end, window.size].each(|at| at * self.channels);
        // SAFETY: elements from `begin` to `end` lie in x, and `to` has room for all.
        unsafe {
            if begin > 0 {
                to.write_bytes(self.outside, begin);
            }
            copy(from.wrapping_add(begin), to.add(begin), end - begin, self.flip);
            if end < all {
                to.add(end).write_bytes(self.outside, all - end);
            }
        }
    }

    /// A line of the window, element by element.
    ///
    /// # Safety
    /// As [`Rows::dense_line`].
    #[inline(always)]
    unsafe fn line(&self, window: &Window, start: isize, from: *const u8, to: *mut u8) {
        for at in 0..window.size {
            let step = at * window.dilation;
            let is_inside = (0..window.input as isize).contains(&(start + step as isize));
            // SAFETY: an element inside lies in x, and `to` has room for the line.
            unsafe {
                let to = to.add(at * self.channels);
                if is_inside {
                    copy(from.wrapping_add(step * window.x), to, self.channels, self.flip);
                } else {
                    to.write_bytes(self.outside, self.channels);
                }
            }
        }
    }
}

/// Copies bytes, each combined with `flip` by exclusive or.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize, flip: u8) {
    let mut at = 0;
    // SAFETY: each step stays below `len`.
    unsafe {
        while at + 64 <= len {
            block::<64>(from.add(at), to.add(at), flip);
            at += 64;
        }
        while at + 16 <= len {
            block::<16>(from.add(at), to.add(at), flip);
            at += 16;
        }
    }
    // SAFETY: each block begins and ends within `len`.
    unsafe {
        // The rest is a last block, which may overlap copied bytes.
        match (len, len - at) {
            (_, 0) => {}
            (16.., _) => block::<16>(from.add(len - 16), to.add(len - 16), flip),
            (8.., _) => {
                block::<8>(from, to, flip);
                block::<8>(from.add(len - 8), to.add(len - 8), flip);
            }
            (4.., _) => {
                block::<4>(from, to, flip);
                block::<4>(from.add(len - 4), to.add(len - 4), flip);
            }
            _ => (0..len).for_each(|at| block::<1>(from.add(at), to.add(at), flip)),
        }
    }
}

/// # Safety
/// As [`copy`], for as many bytes as the block has.
#[inline(always)]
unsafe fn block<const LEN: usize>(from: *const u8, to: *mut u8, flip: u8) {
    // SAFETY: the bytes are readable, and there is room for them.
    unsafe {
        let bytes = from.cast::<[u8; LEN]>().read_unaligned();
        to.cast::<[u8; LEN]>().write_unaligned(array::map(bytes, |byte| byte ^ flip));
    }
}

/// The sum of each row's first `len` bytes.
pub(crate) struct RowSums {
    pub(crate) from: *const u8,
    pub(crate) stride: usize,
    pub(crate) len: usize,
    pub(crate) is_signed: bool,
    pub(crate) rows: usize,
    pub(crate) to: *mut i32,
}

impl IsaTask for RowSums {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for row in 0..self.rows {
            // SAFETY: the rows are readable, and there is room for a sum for each.
            unsafe {
                let terms = std::slice::from_raw_parts(self.from.add(row * self.stride), self.len);
                let sum: i32 = match self.is_signed {
                    true => terms.iter().map(|byte| i32::from(byte.cast_signed())).sum(),
                    false => terms.iter().map(|byte| i32::from(*byte)).sum(),
                };
                self.to.add(row).write(sum);
            }
        }
    }
}
