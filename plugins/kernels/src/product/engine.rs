//! The main loop of products and convolutions: parts of both operands go through shared memory into tiles.

use super::tiling::Tiling;
use crate::builder::{At, Builder};
use crate::form::{Index, Local, Memory, Order, Pointer, Role, Shared, Tile, Value};
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

/// What is done with the own index and the k of a vector, and the condition of fetching it.
type Fetch<'a> = dyn FnMut(&mut Builder, Value, Value, Option<Value>) + 'a;

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
    /// The workgroup's first own index.
    pub first: Value,
    /// The number of own indices; others are 0.
    pub length: usize,
    /// Where an element is.
    pub place: Place<'a>,
}

/// An operand in shared memory.
#[derive(Clone, Copy)]
struct Stage {
    array: Shared,
    /// Elements of one stage, the distance of its rows, and which way around it is.
    size: usize,
    stride: usize,
    along: Along,
    /// Own indices.
    own: usize,
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

/// A vector of zeros.
fn zeros(b: &mut Builder, scalar: Scalar, lanes: usize) -> Value {
    let zero = if scalar.is_float() { b.float(0.0, scalar) } else { b.int(0, scalar) };
    b.build(&vec![zero; lanes])
}

/// The main loop.
pub struct Engine<'a> {
    pub(super) tiling: Tiling,
    sources: [Source<'a>; 2],
    k: usize,
    stages: [Stage; 2],
    /// Whether copies go on beside the multiplications.
    beside: bool,
    thread: Value,
    pub(super) group_row: Value,
    pub(super) group_column: Value,
    pub(super) sums: Vec<Tile>,
    operands: [Vec<Tile>; 2],
}

impl<'a> Engine<'a> {
    /// Declares everything.
    pub fn new(b: &mut Builder, tiling: &Tiling, sources: [Source<'a>; 2], k: usize) -> Self {
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
        let sums = (0..tiling.tiles[0] * tiling.tiles[1]).map(|_| b.sums(shape)).collect();
        let operands = [(Role::A, tiling.tiles[0]), (Role::B, tiling.tiles[1])]
            .map(|(role, count)| (0..count).map(|_| b.tile(role, shape)).collect());
        Self {
            tiling: tiling.clone(),
            sources,
            k,
            stages,
            beside,
            thread,
            group_row,
            group_column,
            sums,
            operands,
        }
    }

    /// Calls `each` for every vector that a thread fetches, with its own index and its k in the stage.
    fn vectors(&self, b: &mut Builder, which: usize, each: &mut Fetch<'_>) {
        let (Some(source), Some(stage)) = (self.sources.get(which), self.stages.get(which)) else { return };
        let threads = b.target().subgroup as usize * self.tiling.groups.iter().product::<usize>();
        let depth = self.tiling.depth;
        let vector = source.vector;
        let across = if source.along == Along::K { depth / vector } else { stage.own / vector };
        let count = stage.own * depth / vector;
        for round in 0..count.div_ceil(threads) {
            let index = b.add(self.thread, round * threads);
            let (line, own) = b.div_rem(index, across);
            let near = b.mul(own, vector);
            let inside = ((round + 1) * threads > count).then(|| b.less(index, count));
            let (own, k) = if source.along == Along::K { (line, near) } else { (near, line) };
            each(b, own, k, inside);
        }
    }

    /// Where an element of the source is, and whether it is there.
    fn element(
        &self,
        b: &mut Builder,
        which: usize,
        [own, k, first_k]: [Value; 3],
    ) -> (Value, Option<Value>) {
        let Some(source) = self.sources.get(which) else { return (own, None) };
        let index = b.add(source.first, own);
        let place = b.add(first_k, k);
        let (at, condition) = (source.place)(b, index, place);
        let mut all = condition;
        let stage_own = self.stages.get(which).map_or(1, |stage| stage.own);
        let mut need = |b: &mut Builder, holds: Value| {
            all = Some(match all {
                Some(before) => b.and(before, holds),
                None => holds,
            });
        };
        if !source.length.is_multiple_of(stage_own) {
            let inside = b.less(index, source.length);
            need(b, inside);
        }
        // Later stages than the last are asked for, too.
        let inside = b.less(place, self.k);
        need(b, inside);
        (at, all)
    }

    /// The place of an element in shared memory.
    fn shared_place(&self, b: &mut Builder, stage: &Stage, own: Value, k: Value, first: Value) -> Value {
        let (line, near) = if stage.along == Along::K { (own, k) } else { (k, own) };
        let line = b.mul(line, stage.stride);
        let place = b.add(line, near);
        b.add(first, place)
    }

    /// Copies a stage beside other work.
    fn copy(&self, b: &mut Builder, first_k: Value, slot: Value) {
        for (which, (source, stage)) in self.sources.iter().zip(&self.stages).enumerate() {
            let first = b.mul(slot, stage.size);
            self.vectors(b, which, &mut |b, own, k, inside| {
                let body = |b: &mut Builder| {
                    let (at, there) = self.element(b, which, [own, k, first_k]);
                    let to = self.shared_place(b, stage, own, k, first);
                    let bytes = source.vector * source.scalar.size();
                    // An index that is not read may be anywhere, but not a pointer of another object.
                    let at = match there {
                        Some(there) => b.select(there, at, 0),
                        None => at,
                    };
                    b.async_copy((stage.array, to), (source.pointer, at), bytes, there);
                };
                match inside {
                    Some(inside) => b.when(inside, body),
                    None => body(b),
                }
            });
        }
        b.async_commit();
    }

    /// Loads a stage into variables.
    fn fetch(&self, b: &mut Builder, first_k: Value) -> [Vec<Local>; 2] {
        [0, 1].map(|which| {
            let mut all = Vec::new();
            let Some(source) = self.sources.get(which) else { return all };
            self.vectors(b, which, &mut |b, own, k, inside| {
                let type_ = source.scalar.by(source.vector as u8);
                let nothing = zeros(b, source.scalar, source.vector);
                let local = b.local(type_, nothing);
                let (at, there) = self.element(b, which, [own, k, first_k]);
                let there = match (there, inside) {
                    (Some(there), Some(inside)) => Some(b.and(there, inside)),
                    (there, inside) => there.or(inside),
                };
                let load = |b: &mut Builder| {
                    let value = b.load_vector(Memory::Global(source.pointer), at, source.vector);
                    b.set(local, value);
                };
                match there {
                    Some(there) => b.when(there, load),
                    None => load(b),
                }
                all.push(local);
            });
            all
        })
    }

    /// Stores fetched variables into a stage.
    fn keep(&self, b: &mut Builder, fetched: &[Vec<Local>; 2], slot: Value) {
        let operand = self.tiling.shape.operand;
        for (which, (source, stage)) in self.sources.iter().zip(&self.stages).enumerate() {
            let first = b.mul(slot, stage.size);
            let mut locals = fetched.get(which).into_iter().flatten();
            self.vectors(b, which, &mut |b, own, k, inside| {
                let Some(local) = locals.next() else { return };
                let body = |b: &mut Builder| {
                    let value = b.get(*local);
                    let value = self.in_operand_type(b, value, operand);
                    if stage.along == source.along {
                        let to = self.shared_place(b, stage, own, k, first);
                        b.store(Memory::Shared(stage.array), to, value);
                        return;
                    }
                    for lane in 0..source.vector {
                        let (own, k) = match source.along {
                            Along::K => (own, b.add(k, lane)),
                            Along::Own => (b.add(own, lane), k),
                        };
                        let to = self.shared_place(b, stage, own, k, first);
                        let element = b.extract(value, lane);
                        b.store(Memory::Shared(stage.array), to, element);
                    }
                };
                match inside {
                    Some(inside) => b.when(inside, body),
                    None => body(b),
                }
            });
        }
    }

    fn in_operand_type(&self, b: &mut Builder, value: Value, operand: Scalar) -> Value {
        let lanes = usize::from(b.type_of(value).lanes);
        // A vector of larger elements may exceed 16 bytes.
        if lanes * operand.size() <= 16 || b.type_of(value).scalar == operand {
            return b.convert(value, operand);
        }
        let parts: Vec<Value> = (0..lanes)
            .map(|lane| {
                let element = b.extract(value, lane);
                b.convert(element, operand)
            })
            .collect();
        b.build(&parts)
    }

    /// Multiplies a stage.
    fn multiply(&self, b: &mut Builder, slot: Value) {
        let shape = &self.tiling.shape;
        let pad = 16 / shape.operand.size();
        let sizes = [shape.m as usize, shape.n as usize];
        let firsts: Vec<Value> = self.stages.iter().map(|stage| b.mul(slot, stage.size)).collect();
        for step in 0..self.tiling.depth / shape.k as usize {
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
            let [left, right] = &self.operands;
            for (row, a) in left.iter().enumerate() {
                for (column, other) in right.iter().enumerate() {
                    if let Some(sum) = self.sums.get(row * right.len() + column) {
                        b.tile_multiply(*sum, *a, *other);
                    }
                }
            }
        }
    }

    /// Computes the sums.
    pub fn run(&self, b: &mut Builder) {
        let (depth, stages) = (self.tiling.depth, self.tiling.stages);
        if self.beside {
            for stage in 0..stages - 1 {
                let (k, slot) = (b.number(stage * depth), b.number(stage));
                self.copy(b, k, slot);
            }
            b.for_range(0, self.k, depth, |b, k| {
                b.async_wait(stages - 2);
                b.barrier();
                let turn = b.div(k, depth);
                let next = b.add(k, (stages - 1) * depth);
                let slot = b.add(turn, stages - 1);
                let slot = b.rem(slot, stages);
                self.copy(b, next, slot);
                let slot = b.rem(turn, stages);
                self.multiply(b, slot);
            });
            b.async_wait(0);
            return;
        }
        let zero = b.number(0);
        let fetched = self.fetch(b, zero);
        self.keep(b, &fetched, zero);
        b.barrier();
        b.for_range(0, self.k, depth, |b, k| {
            let turn = b.div(k, depth);
            let next = b.add(k, depth);
            let fetched = self.fetch(b, next);
            let slot = b.rem(turn, stages);
            self.multiply(b, slot);
            let after = b.add(turn, 1);
            let slot = b.rem(after, stages);
            self.keep(b, &fetched, slot);
            b.barrier();
        });
    }
}
