//! The main loop of products and convolutions: parts of both operands go through shared memory into tiles.

use super::parts::Parts;
use super::tiling::Tiling;
use crate::builder::{At, Builder};
use crate::form::{Index, Memory, Order, Pointer, Role, Shared, Tile, Value};
use crate::scalar::Scalar;
use crate::target::MatrixInstruction;

/// Along which index an operand's elements are neighbours in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// That of the dot product.
    K,
    /// Its own: a's rows, b's columns.
    Own,
}

/// The element of an operand at its own index and k: its index in memory, and a condition without which it is 0.
pub type Place<'a> = &'a dyn Fn(&mut Builder, Value, Value) -> (Value, Option<Value>);

/// What is done with a row, a column, and the sums from there on.
pub type Visit<'a> = dyn FnMut(&mut Builder, Value, Value, &[Value]) + 'a;

/// Where an operand's elements come from.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The memory.
    pub pointer: Pointer,
    /// The type there.
    pub scalar: Scalar,
    /// Which neighbours are fetched together.
    pub along: Along,
    /// How many of them.
    pub vector: usize,
    /// Whether the workgroup fetches elements several times.
    pub near: bool,
    /// The workgroup's first own index.
    pub first: Value,
    /// The number of own indices; others are 0.
    pub length: usize,
    /// Where an element is.
    pub place: Place<'a>,
}

/// An operand in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Stage {
    pub(super) array: Shared,
    /// Elements of one stage, the distance of its rows, and which way around it is.
    pub(super) size: usize,
    pub(super) stride: usize,
    pub(super) along: Along,
    /// Own indices.
    pub(super) own: usize,
}

/// The workgroup's index among `count`, and the grid, of at most 65535 along an axis.
///
/// # Errors
/// Too many.
pub fn groups(b: &mut Builder, count: usize) -> Result<(Value, [u32; 3]), String> {
    const MOST: usize = 65535;
    let x = b.index(Index::Group(0));
    if count <= MOST {
        return Ok((x, [count as u32, 1, 1]));
    }
    let down = count.div_ceil(MOST);
    if down > MOST || i32::try_from(count).is_err() {
        return Err(format!("{count} workgroups, expected at most 2147483647"));
    }
    let across = count.div_ceil(down);
    let y = b.index(Index::Group(1));
    let first = b.mul(y, across);
    let index = b.add(first, x);
    // Those beyond the last compute the last one's again: all reach every barrier, and write the same.
    let index = if across * down > count { b.min(index, count - 1) } else { index };
    Ok((index, [across as u32, down as u32, 1]))
}

/// The row and column of a rectangle, so that workgroups that run together share operands: bands of 8 rows.
pub fn place(b: &mut Builder, index: Value, down: usize, across: usize) -> (Value, Value) {
    const BAND: usize = 8;
    if down == 1 || across == 1 {
        let zero = b.number(0);
        return if down == 1 { (zero, index) } else { (index, zero) };
    }
    let (band, rest) = b.div_rem(index, BAND * across);
    let first = b.mul(band, BAND);
    if down.is_multiple_of(BAND) {
        let (column, row) = b.div_rem(rest, BAND);
        return (b.add(first, row), column);
    }
    let height = b.int(down as i64, Scalar::I32);
    let height = b.sub(height, first);
    let height = b.min(height, BAND);
    let column = b.div(rest, height);
    let row = b.rem(rest, height);
    (b.add(first, row), column)
}

/// Stores neighbours.
pub fn store(b: &mut Builder, pointer: Pointer, at: Value, values: &[Value], scalar: Scalar) {
    let whole = b.build(values);
    let whole = b.convert(whole, scalar);
    b.store(Memory::Global(pointer), at, whole);
}

/// The main loop.
pub struct Engine<'a> {
    pub(super) tiling: Tiling,
    pub(super) sources: [Source<'a>; 2],
    pub(super) stages: [Stage; 2],
    /// Whether copies go on beside the multiplications.
    beside: bool,
    pub(super) thread: Value,
    /// The first k of the workgroup's part, and the one after its last.
    first_k: Value,
    pub(super) end_k: Value,
    /// The length of dot products.
    k: usize,
    /// Whether the last stage goes beyond the end.
    pub(super) ragged: bool,
    pub(super) group_row: Value,
    pub(super) group_column: Value,
    pub(super) sums: Vec<Tile>,
    /// Where the workgroup computes several parts, their length, and the sums of one.
    in_turn: Option<(usize, Vec<Tile>)>,
    operands: [Vec<Tile>; 2],
}

impl<'a> Engine<'a> {
    /// Declares everything. The workgroup computes this part of the dot products, or all.
    pub fn new(
        b: &mut Builder,
        tiling: &Tiling,
        sources: [Source<'a>; 2],
        parts: &Parts,
        part: Value,
    ) -> Self {
        let operand = tiling.shape.operand;
        let copies = b.target().copies_beside;
        let copied = |source: &Source<'_>| {
            source.scalar == operand && matches!(source.vector * operand.size(), 4 | 8 | 16)
        };
        let turns = |source: &Source<'_>| {
            let wanted = match tiling.shape.instruction {
                // A thread's rectangle has neighbours.
                MatrixInstruction::Plain => Along::Own,
                // `ldmatrix` turns 16 bits.
                MatrixInstruction::MmaSync if operand.size() == 2 => source.along,
                MatrixInstruction::Cooperative => source.along,
                _ => Along::K,
            };
            (wanted, wanted != source.along)
        };
        let beside = copies && sources.iter().all(|source| copied(source) && !turns(source).1);
        let pad = 16 / operand.size();
        let owns = [tiling.rows(), tiling.columns()];
        let stage = |b: &mut Builder, source: &Source<'_>, own: usize| {
            let (along, _) = turns(source);
            let (lines, length) = if along == Along::K { (own, tiling.depth) } else { (tiling.depth, own) };
            let stride = length.next_multiple_of(pad) + pad;
            let size = lines * stride;
            Stage { array: b.shared(operand, size * tiling.stages), size, stride, along, own }
        };
        let [of_a, of_b] = &sources;
        let stages = [stage(b, of_a, owns[0]), stage(b, of_b, owns[1])];
        let thread = b.index(Index::Thread);
        let subgroup = b.index(Index::Subgroup);
        let (group_row, group_column) = b.div_rem(subgroup, tiling.groups[1]);
        let shape = &tiling.shape;
        let sums_of =
            |b: &mut Builder| (0..tiling.tiles[0] * tiling.tiles[1]).map(|_| b.sums(shape)).collect();
        let sums = sums_of(b);
        let in_turn = parts.in_turn().then(|| (parts.length, sums_of(b)));
        let operands = [(Role::A, tiling.tiles[0]), (Role::B, tiling.tiles[1])]
            .map(|(role, count)| (0..count).map(|_| b.tile(role, shape)).collect());
        let (first_k, end_k) = parts.range(b, part);
        Self {
            tiling: tiling.clone(),
            sources,
            stages,
            beside,
            thread,
            first_k,
            end_k,
            k: parts.k,
            ragged: !parts.k.is_multiple_of(tiling.depth),
            group_row,
            group_column,
            sums,
            in_turn,
            operands,
        }
    }

    /// Loads the tiles of a step of a stage.
    fn load(&self, b: &mut Builder, step: usize, firsts: &[Value]) {
        let shape = &self.tiling.shape;
        let pad = 16 / shape.operand.size();
        let sizes = [shape.m as usize, shape.n as usize];
        for which in 0..2 {
            let (Some(stage), Some(tiles), Some(first), Some(size), Some(count)) = (
                self.stages.get(which),
                self.operands.get(which),
                firsts.get(which),
                sizes.get(which),
                self.tiling.tiles.get(which),
            ) else {
                continue;
            };
            let group = if which == 0 { self.group_row } else { self.group_column };
            let own = b.mul(group, size * count);
            for (number, tile) in tiles.iter().enumerate() {
                let own = b.add(own, number * size);
                let k = b.number(step * shape.k as usize);
                let index = self.shared_place(b, stage, own, k, *first);
                let by_rows = (which == 0) == (stage.along == Along::K);
                let stride = b.number(stage.stride);
                let minor = if stage.along == Along::K { shape.k as usize } else { *size };
                let aligned = if minor.is_multiple_of(pad) { pad } else { minor.min(pad) };
                b.tile_load(
                    *tile,
                    At {
                        memory: Memory::Shared(stage.array),
                        index,
                        stride,
                        order: if by_rows { Order::Rows } else { Order::Columns },
                        aligned,
                    },
                );
            }
        }
    }

    /// Multiplies a stage.
    fn multiply(&self, b: &mut Builder, slot: Value) {
        let firsts: Vec<Value> = self.stages.iter().map(|stage| b.mul(slot, stage.size)).collect();
        for step in 0..self.tiling.depth / self.tiling.shape.k as usize {
            self.load(b, step, &firsts);
            let [left, right] = &self.operands;
            let sums = self.in_turn.as_ref().map_or(&self.sums, |(_, sums)| sums);
            for (row, a) in left.iter().enumerate() {
                for (column, other) in right.iter().enumerate() {
                    if let Some(sum) = sums.get(row * right.len() + column) {
                        b.tile_multiply(*sum, *a, *other);
                    }
                }
            }
        }
    }

    /// Multiplies the stage from `done` on, and adds the sums of a part where it ends there.
    fn multiply_next(&self, b: &mut Builder, slot: Value, done: Value) {
        self.multiply(b, slot);
        if let Some((length, sums)) = &self.in_turn {
            let after = b.add(done, self.tiling.depth);
            let rest = b.rem(after, *length);
            let ends = b.equal(rest, 0);
            b.when(ends, |b| self.add_part(b, sums));
        }
    }

    /// Adds the sums of a part to those of the parts before it, and begins another part.
    fn add_part(&self, b: &mut Builder, sums: &[Tile]) {
        let slots = self.tiling.shape.fragment(Role::Accumulator).map_or(0, |fragment| fragment.slots.len());
        for (total, sum) in self.sums.iter().zip(sums) {
            for slot in 0..slots {
                let [before, own] = [*total, *sum].map(|tile| b.tile_get(tile, slot));
                let all = b.add(before, own);
                b.tile_set(*total, slot, all);
            }
            b.tile_fill(*sum, 0);
        }
    }

    /// Adds the sums of the last part, if no stage has ended with it.
    fn add_last(&self, b: &mut Builder) {
        if let Some((length, sums)) = &self.in_turn
            && !self.k.next_multiple_of(self.tiling.depth).is_multiple_of(*length)
        {
            self.add_part(b, sums);
        }
    }

    /// Computes the sums.
    pub fn run(&self, b: &mut Builder) {
        let (depth, stages) = (self.tiling.depth, self.tiling.stages);
        let length = b.sub(self.end_k, self.first_k);
        if self.beside {
            for stage in 0..stages - 1 {
                let k = b.add(self.first_k, stage * depth);
                let slot = b.number(stage);
                self.copy(b, k, slot);
            }
            b.for_range(0, length, depth, |b, done| {
                b.async_wait(stages - 2);
                b.barrier();
                let turn = b.div(done, depth);
                let next = b.add(self.first_k, done);
                let next = b.add(next, (stages - 1) * depth);
                let slot = b.add(turn, stages - 1);
                let slot = b.rem(slot, stages);
                self.copy(b, next, slot);
                let slot = b.rem(turn, stages);
                self.multiply_next(b, slot, done);
            });
            b.async_wait(0);
            self.add_last(b);
            return;
        }
        let zero = b.number(0);
        let fetched = self.fetch(b, self.first_k);
        self.keep(b, &fetched, zero);
        b.barrier();
        b.for_range(0, length, depth, |b, done| {
            let turn = b.div(done, depth);
            let next = b.add(self.first_k, done);
            let next = b.add(next, depth);
            let fetched = self.fetch(b, next);
            let slot = b.rem(turn, stages);
            self.multiply_next(b, slot, done);
            if stages == 1 {
                b.barrier();
            }
            let after = b.add(turn, 1);
            let slot = b.rem(after, stages);
            self.keep(b, &fetched, slot);
            b.barrier();
        });
        self.add_last(b);
    }
}
