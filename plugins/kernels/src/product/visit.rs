//! The sums after the main loop.

use super::engine::{Engine, Visit};
use crate::builder::{At, Builder};
use crate::form::{Index, Memory, Order, Role, Value};

impl Engine<'_> {
    /// Calls `each` with the row, the column and the sums of neighbours of a row, up to `width`, for those inside the result.
    pub fn visit(
        &self,
        b: &mut Builder,
        [first_row, first_column]: [Value; 2],
        [rows, columns]: [usize; 2],
        width: usize,
        each: &mut Visit<'_>,
    ) {
        let shape = &self.tiling.shape;
        let [down, across] = self.tiling.tiles;
        let own = b.mul(self.group_row, shape.m as usize * down);
        let first_row = b.add(first_row, own);
        let own = b.mul(self.group_column, shape.n as usize * across);
        let first_column = b.add(first_column, own);
        let whole = rows.is_multiple_of(self.tiling.rows()) && columns.is_multiple_of(self.tiling.columns());
        let mut checked = |b: &mut Builder, row: Value, column: Value, values: &[Value]| {
            if whole {
                each(b, row, column, values);
                return;
            }
            let [below, before] = [b.less(row, rows), b.less(column, columns)];
            let inside = b.and(below, before);
            b.when(inside, |b| each(b, row, column, values));
        };
        let lane = b.index(Index::Lane);
        let fragment = shape.fragment(Role::Accumulator).filter(|_| !shape.is_opaque()).cloned();
        let Some(fragment) = fragment else {
            return self.visit_opaque(b, [first_row, first_column], lane, width, &mut checked);
        };
        let (lane_row, lane_column) = (b.lane_part(lane, fragment.row), b.lane_part(lane, fragment.column));
        let first_row = b.add(first_row, lane_row);
        let first_column = b.add(first_column, lane_column);
        for (number, sum) in self.sums.iter().enumerate() {
            let tile_row = number / across * shape.m as usize;
            let tile_column = number % across * shape.n as usize;
            let mut slot = 0;
            while let Some((row, column)) = fragment.slots.get(slot) {
                let mut count = width;
                let together = |count: usize| {
                    (fragment.column.factor as usize).is_multiple_of(count)
                        && (*column as usize).is_multiple_of(count)
                        && (1..count)
                            .all(|i| fragment.slots.get(slot + i) == Some(&(*row, column + i as u32)))
                };
                while count > 1 && !together(count) {
                    count /= 2;
                }
                let values: Vec<Value> = (slot..slot + count).map(|slot| b.tile_get(*sum, slot)).collect();
                let row = b.add(first_row, tile_row + *row as usize);
                let column = b.add(first_column, tile_column + *column as usize);
                checked(b, row, column, &values);
                slot += count;
            }
        }
    }

    /// As [`Engine::visit`], through shared memory.
    fn visit_opaque(
        &self,
        b: &mut Builder,
        [first_row, first_column]: [Value; 2],
        lane: Value,
        width: usize,
        each: &mut Visit<'_>,
    ) {
        let shape = &self.tiling.shape;
        let (m, n) = (shape.m as usize, shape.n as usize);
        let subgroups = self.tiling.groups.iter().product::<usize>();
        let most = 16 / shape.sum.size();
        let scratch = b.shared(shape.sum, subgroups * m * n);
        let subgroup = b.index(Index::Subgroup);
        let first = b.mul(subgroup, m * n);
        let across = self.tiling.tiles[1];
        let lanes = b.target().subgroup as usize;
        let width = width.min(most).min(n);
        for (number, sum) in self.sums.iter().enumerate() {
            b.barrier();
            let at = At {
                memory: Memory::Shared(scratch),
                index: first,
                stride: b.number(n),
                order: Order::Rows,
                aligned: most.min(n),
            };
            b.tile_store(*sum, at);
            b.barrier();
            for round in 0..(m * n / width).div_ceil(lanes) {
                let index = b.add(lane, round * lanes);
                let (row, near) = b.div_rem(index, n / width);
                let column = b.mul(near, width);
                let mut visit = |b: &mut Builder| {
                    let line = b.mul(row, n);
                    let place = b.add(first, line);
                    let place = b.add(place, column);
                    let whole = b.load_vector(Memory::Shared(scratch), place, width);
                    let values: Vec<Value> = (0..width).map(|lane| b.extract(whole, lane)).collect();
                    let row = b.add(row, number / across * m);
                    let row = b.add(first_row, row);
                    let column = b.add(column, number % across * n);
                    let column = b.add(first_column, column);
                    each(b, row, column, &values);
                };
                if (round + 1) * lanes > m * n / width {
                    let inside = b.less(index, m * n / width);
                    b.when(inside, &mut visit);
                } else {
                    visit(b);
                }
            }
        }
    }
}
