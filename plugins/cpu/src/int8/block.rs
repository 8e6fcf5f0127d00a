//! Blocks of rows: packs their rows, multiplies them with panels, and stores the results.

use std::ops::Range;

use crate::gemm::byte_kernel::MAX_ROWS;
use crate::gemm::byte_tile::{ByteTile, GROUP};
use crate::int8::epilogue::Columns;
use crate::int8::problem::Group;
use crate::int8::product::{Own, Product, Run};
use crate::int8::rows::{Counter, RowSums, Rows};
use crate::int8::store::{Added, Tile};
use crate::int8::transpose::{Matrix, transpose, transpose_words};
use crate::layout::MAX_RANK;

/// The position of a tile: its group, columns, first row in the block, and rows.
struct At {
    of: Group,
    columns: Range<usize>,
    first: usize,
    count: usize,
}

impl Product {
    /// Computes some panels of a block of rows.
    ///
    /// # Safety
    /// The tensors of the run are those of the operation; `x` is the first element of the group or of its
    /// copy, `packed` are its weights, and `own` are a worker's areas.
    pub(crate) unsafe fn block(
        &self,
        run: &Run<'_>,
        (group, of): (usize, Group),
        (rows, panels): (Range<usize>, Range<usize>),
        (x, packed): (*const u8, *const i32),
        own: &Own,
        is_filled: bool,
    ) {
        let in_place = self.in_place && rows.len().is_multiple_of(self.kernel.row_step);
        let x_stride = self.problem.positions.first().map_or(0, |axis| axis.x);
        let (a, a_stride) = match in_place {
            true => (x.wrapping_add(rows.start * x_stride), x_stride),
            false => (own.rows.cast_const(), self.stride),
        };
        if !is_filled {
            // SAFETY: the group has the rows, and the worker's areas have room for them.
            unsafe { self.fill(run, rows.clone(), x, (a, a_stride), in_place, own) };
        }
        // SAFETY: the worker's area has two offsets for each row, already written.
        let (offsets, added) = unsafe { own.offsets(self.rows_of_block, rows.len()) };
        let width = self.panels.groups * GROUP;
        for panel in panels {
            let groups = self.panels.groups_of(panel);
            let columns = groups.start * GROUP..(groups.end * GROUP).min(self.problem.columns);
            for first in (0..rows.len()).step_by(self.kernel.rows) {
                let count = (rows.len() - first).min(self.kernel.rows);
                let tile = ByteTile {
                    a: a.wrapping_add(first * a_stride),
                    a_stride,
                    is_signed: self.problem.x.is_signed && self.flip() == 0,
                    b: packed.wrapping_add(self.panels.place(panel)).cast(),
                    words: self.panels.words,
                    to: own.sums,
                    to_stride: groups.len() * GROUP,
                };
                // SAFETY: rows and panel are those of the tile, the area has room for its sums, and a session is open.
                unsafe { self.kernel.run(&tile, count, groups.len()) };
                let of_columns = run.columns.from(group * width + columns.start);
                let at = At { of, columns: columns.clone(), first, count };
                // SAFETY: the sums are those of the tile, and the tensors have its results.
                unsafe { self.finish(run, &at, of_columns, (offsets, added), own) };
            }
            if !self.is_straight() {
                // SAFETY: the results of the block's rows are in the worker's area.
                unsafe { self.spread(run, of, &rows, &columns, offsets, own) };
            }
            if let Some(epilogue) = &self.epilogue {
                let columns = of.columns + columns.start..of.columns + columns.end;
                self.boxes(group, &rows, columns, |origin, size| {
                    // SAFETY: the box was just computed.
                    unsafe { epilogue.run_on_box(run.tensors.all(), origin, size) };
                });
            }
        }
    }

    /// Packs a block's rows unless they are read in place, sums them if needed, and locates their results.
    ///
    /// # Safety
    /// As [`Product::block`].
    unsafe fn fill(
        &self,
        run: &Run<'_>,
        rows: Range<usize>,
        x: *const u8,
        (a, a_stride): (*const u8, usize),
        in_place: bool,
        own: &Own,
    ) {
        let problem = &self.problem;
        let task = Rows {
            positions: &problem.positions,
            windows: problem.windows.as_ref(),
            channels: problem.channels,
            channel: problem.x.channel,
            from: x,
            flip: if self.staging.is_some() { 0 } else { run.flip },
            outside: run.outside,
            range: (rows.start, rows.end),
            to: own.rows,
            stride: self.stride,
            len: self.panels.words * 4,
            has_room: self.staging.is_some(),
        };
        let is_signed = problem.x.is_signed && run.flip == 0;
        let (stride, count, to) = (a_stride, rows.len(), own.row_sums);
        let sums = RowSums { from: a, stride, len: problem.terms(), is_signed, rows: count, to };
        // SAFETY: the processor has the instructions; x has the rows, and the areas have room for them.
        unsafe {
            if !in_place {
                self.isa.run(task);
            }
            if self.stages.needs_row_sums(problem) {
                self.isa.run(sums);
            }
        }
        let (y, added) = problem.positions.last().map_or((0, 0), |axis| (axis.y, axis.added));
        let mut counter = Counter::new(&problem.positions, rows.start);
        let mut row = 0;
        while row < count {
            let run = counter.left().min(count - row);
            let first = [counter.offset(|axis| axis.y), counter.offset(|axis| axis.added)];
            for at in 0..run {
                // SAFETY: the area has two offsets for each row.
                unsafe {
                    own.offsets.add(row + at).write(first[0] + at * y);
                    own.offsets.add(self.rows_of_block + row + at).write(first[1] + at * added);
                }
            }
            counter.advance(run);
            row += run;
        }
    }

    /// The epilogue of a tile.
    ///
    /// # Safety
    /// The sums of the tile are in the worker's area, and the tensors have its results.
    unsafe fn finish(
        &self,
        run: &Run<'_>,
        at: &At,
        of_columns: Columns,
        (offsets, added): (&[usize], &[usize]),
        own: &Own,
    ) {
        let At { of, columns, first, count } = at;
        let (size, problem) = (self.size(), &self.problem);
        let tensors = run.tensors.all();
        let width = columns.len().next_multiple_of(GROUP);
        // Most tiles have a few rows only.
        let mut to = [std::ptr::null_mut(); MAX_ROWS];
        for (row, to) in to.iter_mut().enumerate().take(*count) {
            *to = if self.is_straight() {
                let offset = of.y + offsets[first + row] + columns.start * problem.y_column;
                tensors[problem.y.slot].wrapping_add(offset * size)
            } else {
                own.results.wrapping_add((first + row) * width * size)
            };
        }
        let residual = self.stages.residual();
        let mut rows = [std::ptr::null(); MAX_ROWS];
        if let Some(residual) = &residual {
            for (row, from) in rows.iter_mut().enumerate().take(*count) {
                let offset =
                    of.added + added[first + row] + columns.start * residual.strides[problem.column_axis];
                let size = residual.data_type.size().unwrap_or(1);
                *from = tensors[residual.slot].wrapping_add(offset * size).cast_const();
            }
        }
        let tile = Tile {
            sums: own.sums,
            stride: width,
            columns: columns.len(),
            to: &to[..*count],
            row_sums: match self.stages.needs_row_sums(problem) {
                true => own.row_sums.wrapping_add(*first),
                false => std::ptr::null(),
            },
            of_columns,
            is_one: false,
            has_bias: self.stages.bias.is_some(),
            numbers: &run.numbers,
            post_ops: &run.post_ops,
            added: residual.map(|residual| Added {
                data_type: residual.data_type,
                rows: &rows,
                column: residual.strides[problem.column_axis],
            }),
            kind: self.kind,
        };
        // SAFETY: the processor has the instructions, and all rows have the tile's columns.
        unsafe { tile.run(self.isa) };
    }

    /// Stores the results of a block whose columns are not contiguous.
    ///
    /// # Safety
    /// The results are in the worker's area, and y has their elements.
    unsafe fn spread(
        &self,
        run: &Run<'_>,
        of: Group,
        rows: &Range<usize>,
        columns: &Range<usize>,
        offsets: &[usize],
        own: &Own,
    ) {
        let (size, problem) = (self.size(), &self.problem);
        let width = columns.len().next_multiple_of(GROUP);
        let are_neighbours = problem.positions.last().is_none_or(|axis| axis.y == 1);
        let mut counter = Counter::new(&problem.positions, rows.start);
        let mut row = 0;
        while row < rows.len() {
            let run_of_rows = if are_neighbours { counter.left().min(rows.len() - row) } else { 1 };
            let offset = of.y + offsets[row] + columns.start * problem.y_column;
            // SAFETY: the rows of the run are contiguous in y, which has their columns.
            unsafe {
                let to = run.tensors.all()[problem.y.slot].add(offset * size);
                let from = own.results.add(row * width * size);
                if size == 1 {
                    let matrix = Matrix { from, stride: width, rows: run_of_rows, columns: columns.len() };
                    transpose(matrix, to, problem.y_column, 0);
                } else {
                    let (from, to) =
                        ((from.cast::<u32>().cast_const(), width), (to.cast(), problem.y_column));
                    transpose_words(from, [run_of_rows, columns.len()], to);
                }
            }
            counter.advance(run_of_rows);
            row += run_of_rows;
        }
    }

    /// Calls `f` with each box of the result that some rows and columns of a group form.
    fn boxes(
        &self,
        group: usize,
        rows: &Range<usize>,
        columns: Range<usize>,
        mut f: impl FnMut(&[usize], &[usize]),
    ) {
        let problem = &self.problem;
        let rank = problem.y.layout.rank();
        let of_group = Counter::new(&problem.groups, group);
        let axes = &problem.positions;
        let mut row = rows.start;
        while row < rows.end {
            let counter = Counter::new(axes, row);
            let (mut level, mut inner) = (axes.len() - 1, 1);
            while level > 0 && counter.at[level] == 0 && rows.end - row >= inner * axes[level].size {
                inner *= axes[level].size;
                level -= 1;
            }
            let count = (axes[level].size - counter.at[level]).min((rows.end - row) / inner);
            let (mut origin, mut size) = ([0; MAX_RANK], [1; MAX_RANK]);
            for (axis, at) in problem.groups.iter().zip(of_group.at) {
                origin[axis.of] = at;
            }
            for (index, axis) in axes.iter().enumerate() {
                origin[axis.of] = counter.at[index];
                size[axis.of] = match index.cmp(&level) {
                    std::cmp::Ordering::Less => 1,
                    std::cmp::Ordering::Equal => count,
                    std::cmp::Ordering::Greater => axis.size,
                };
            }
            (origin[problem.column_axis], size[problem.column_axis]) = (columns.start, columns.len());
            f(&origin[..rank], &size[..rank]);
            row += count * inner;
        }
    }
}
