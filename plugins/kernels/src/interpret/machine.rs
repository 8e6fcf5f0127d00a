//! A workgroup that executes a kernel.

#![expect(
    clippy::indexing_slicing,
    reason = "values have an entry for each thread, and subgroups are parts of the workgroup"
)]

use super::Argument;
use super::element::{binary, compare, convert, decode, encode, rounded, unary, wrapped};
use super::memory::{Array, Copies, Store};
use crate::form::{Binary, Block, Constant, Index, Instruction, Kernel, Value};
use crate::scalar::Scalar;

pub(super) struct Machine<'a, 'b> {
    pub(super) kernel: &'a Kernel,
    pub(super) store: Store<'a, 'b>,
    group: [u32; 3],
    /// Each value's elements: those of a thread side by side.
    pub(super) values: Vec<Vec<u64>>,
    locals: Vec<Vec<u64>>,
    /// The elements of each tile, row by row, for each subgroup.
    pub(super) tiles: Vec<Vec<u64>>,
}

impl<'a, 'b> Machine<'a, 'b> {
    pub(super) fn new(kernel: &'a Kernel, arguments: &'a mut [Argument<'b>], group: [u32; 3]) -> Self {
        let threads = kernel.threads as usize;
        let arrays = kernel.shared.iter().map(|array| Array::new(array.scalar, array.length)).collect();
        let subgroups = threads.div_ceil(kernel.subgroup as usize);
        let store = Store {
            arguments,
            parameters: &kernel.parameters,
            arrays,
            copies: vec![Copies::default(); threads],
            epoch: 1,
            others: kernel.threads,
        };
        let each = |types: &[crate::Type]| {
            types.iter().map(|type_| vec![0; threads * usize::from(type_.lanes)]).collect::<Vec<_>>()
        };
        let tile = |tile: &crate::form::TileType| {
            let (rows, columns) =
                kernel.shapes.get(tile.shape as usize).map_or((0, 0), |shape| shape.dims(tile.role));
            vec![0; (rows * columns) as usize * subgroups]
        };
        let mut machine = Self {
            kernel,
            store,
            group,
            values: each(&kernel.values),
            locals: each(&kernel.locals),
            tiles: kernel.tiles.iter().map(tile).collect(),
        };
        machine.constants(&kernel.body);
        machine
    }

    fn constants(&mut self, block: &Block) {
        for instruction in block {
            match instruction {
                Instruction::Const { out, constant } => {
                    let scalar = self.scalar(*out);
                    let cell = match constant {
                        Constant::Float(real) => rounded(*real, scalar),
                        Constant::Int(whole) => wrapped(*whole, scalar),
                    };
                    self.values[out.0 as usize].fill(cell);
                }
                Instruction::If { then, otherwise, .. } => {
                    self.constants(then);
                    self.constants(otherwise);
                }
                Instruction::For { body, .. } | Instruction::TileMap { body, .. } => self.constants(body),
                _ => {}
            }
        }
    }

    pub(super) fn run(&mut self) -> Result<(), String> {
        let all: Vec<usize> = (0..self.kernel.threads as usize).collect();
        self.block(&self.kernel.body, &all)
    }

    pub(super) fn scalar(&self, value: Value) -> Scalar {
        self.kernel.type_of(value).scalar
    }

    pub(super) fn lanes(&self, value: Value) -> usize {
        usize::from(self.kernel.type_of(value).lanes)
    }

    pub(super) fn of(&self, value: Value, thread: usize) -> u64 {
        self.values[value.0 as usize][thread * self.lanes(value)]
    }

    fn whole(&self, value: Value, thread: usize) -> i64 {
        self.of(value, thread) as i64
    }

    /// Sets an element-wise result.
    fn each(
        &mut self,
        active: &[usize],
        out: Value,
        mut of: impl FnMut(&Self, usize) -> Result<u64, String>,
    ) -> Result<(), String> {
        let lanes = self.lanes(out);
        for thread in active {
            for lane in 0..lanes {
                let cell = of(self, thread * lanes + lane)?;
                self.values[out.0 as usize][thread * lanes + lane] = cell;
            }
        }
        Ok(())
    }

    pub(super) fn block(&mut self, block: &Block, active: &[usize]) -> Result<(), String> {
        for instruction in block {
            self.instruction(instruction, active)?;
        }
        Ok(())
    }

    fn whole_groups(&self, active: &[usize], what: &str) -> Result<(), String> {
        let subgroup = self.kernel.subgroup as usize;
        let whole = active.chunks(subgroup).all(|lanes| {
            lanes.len() == subgroup
                && lanes[0] % subgroup == 0
                && lanes[subgroup - 1] == lanes[0] + subgroup - 1
        });
        if whole { Ok(()) } else { Err(format!("{what}: some lanes of a subgroup are absent")) }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each instruction")]
    fn instruction(&mut self, instruction: &Instruction, active: &[usize]) -> Result<(), String> {
        let value = |machine: &Self, value: Value, at: usize| machine.values[value.0 as usize][at];
        match instruction {
            Instruction::Const { .. } => Ok(()),
            Instruction::Unary { out, op, x } => {
                let scalar = self.scalar(*x);
                self.each(active, *out, |m, at| Ok(unary(*op, value(m, *x, at), scalar)))
            }
            Instruction::Binary { out, op, x, y } => {
                let scalar = self.scalar(*x);
                self.each(active, *out, |m, at| binary(*op, value(m, *x, at), value(m, *y, at), scalar))
            }
            Instruction::Fma { out, x, y, z } => {
                let scalar = self.scalar(*x);
                self.each(active, *out, |m, at| {
                    let [x, y, z] = [*x, *y, *z].map(|operand| value(m, operand, at));
                    Ok(multiply_add(x, y, z, scalar))
                })
            }
            Instruction::Compare { out, op, x, y } => {
                let scalar = self.scalar(*x);
                self.each(active, *out, |m, at| {
                    Ok(u64::from(compare(*op, value(m, *x, at), value(m, *y, at), scalar)))
                })
            }
            Instruction::Select { out, condition, x, y } => {
                let lanes = self.lanes(*out);
                self.each(active, *out, |m, at| {
                    let holds = value(m, *condition, at / lanes) != 0;
                    Ok(value(m, if holds { *x } else { *y }, at))
                })
            }
            Instruction::Convert { out, x } => {
                let (from, to) = (self.scalar(*x), self.scalar(*out));
                self.each(active, *out, |m, at| Ok(convert(value(m, *x, at), from, to)))
            }
            Instruction::Bits { out, x } => {
                let (from, to) = (self.kernel.type_of(*x), self.kernel.type_of(*out));
                if from.scalar.size() * usize::from(from.lanes) != to.scalar.size() * usize::from(to.lanes) {
                    return Err(format!("bits of {from:?} as {to:?}"));
                }
                for thread in active {
                    let lanes = usize::from(from.lanes);
                    let own = &self.values[x.0 as usize][thread * lanes..(thread + 1) * lanes];
                    let bytes: Vec<u8> = own
                        .iter()
                        .flat_map(|cell| encode(*cell, from.scalar).into_iter().take(from.scalar.size()))
                        .collect();
                    for (lane, bytes) in bytes.chunks(to.scalar.size()).enumerate() {
                        self.values[out.0 as usize][thread * usize::from(to.lanes) + lane] =
                            decode(bytes, to.scalar);
                    }
                }
                Ok(())
            }
            Instruction::Build { out, parts } => {
                let lanes = parts.len();
                self.each(active, *out, |m, at| Ok(value(m, parts[at % lanes], at / lanes)))
            }
            Instruction::Extract { out, x, lane } => {
                let lanes = self.lanes(*x);
                self.each(active, *out, |m, at| Ok(value(m, *x, at * lanes + usize::from(*lane))))
            }
            Instruction::Index { out, index } => {
                let subgroup = self.kernel.subgroup as usize;
                self.each(active, *out, |m, thread| {
                    Ok(match index {
                        Index::Thread => thread as u64,
                        Index::Group(axis) => u64::from(m.group[usize::from(*axis) % 3]),
                        Index::Lane => (thread % subgroup) as u64,
                        Index::Subgroup => (thread / subgroup) as u64,
                    })
                })
            }
            Instruction::Number { out, parameter } => {
                let cell = match self.store.arguments.get(parameter.0 as usize) {
                    Some(Argument::Float(real)) => real.to_bits(),
                    Some(Argument::Int(whole)) => *whole as u64,
                    _ => return Err(format!("parameter {} is no number", parameter.0)),
                };
                self.each(active, *out, |_, _| Ok(cell))
            }
            Instruction::Get { out, local } => {
                self.each(active, *out, |m, at| Ok(m.locals[local.0 as usize][at]))
            }
            Instruction::Set { local, x } => {
                let lanes = self.lanes(*x);
                for thread in active {
                    for at in thread * lanes..(thread + 1) * lanes {
                        self.locals[local.0 as usize][at] = self.values[x.0 as usize][at];
                    }
                }
                Ok(())
            }
            Instruction::Load { out, memory, index } => {
                let lanes = self.lanes(*out);
                for thread in active {
                    let first = self.whole(*index, *thread);
                    if first % lanes as i64 != 0 {
                        return Err(format!("{lanes} elements are loaded from {first} on"));
                    }
                    for lane in 0..lanes {
                        let cell = self.store.read(*memory, first + lane as i64, *thread as u32)?;
                        self.values[out.0 as usize][thread * lanes + lane] = cell;
                    }
                }
                Ok(())
            }
            Instruction::Store { memory, index, x } => {
                let lanes = self.lanes(*x);
                for thread in active {
                    let first = self.whole(*index, *thread);
                    if first % lanes as i64 != 0 {
                        return Err(format!("{lanes} elements are stored from {first} on"));
                    }
                    for lane in 0..lanes {
                        let cell = self.values[x.0 as usize][thread * lanes + lane];
                        self.store.write(*memory, first + lane as i64, cell, *thread as u32, None)?;
                    }
                }
                Ok(())
            }
            Instruction::AsyncCopy { to, to_index, from, from_index, bytes, condition, .. } => {
                let [to, from] = [crate::form::Memory::Shared(*to), crate::form::Memory::Global(*from)];
                let count = i64::from(*bytes) / self.store.scalar(from)?.size() as i64;
                for thread in active {
                    let (to_index, from_index) =
                        (self.whole(*to_index, *thread), self.whole(*from_index, *thread));
                    let holds = condition.is_none_or(|condition| self.of(condition, *thread) != 0);
                    if to_index % count != 0 || holds && from_index % count != 0 {
                        return Err(format!("{count} elements are copied from {from_index} to {to_index}"));
                    }
                    let who = *thread as u32;
                    let group = self.store.copies[*thread].committed;
                    for lane in 0..count {
                        let cell = if holds { self.store.read(from, from_index + lane, who)? } else { 0 };
                        self.store.write(to, to_index + lane, cell, who, Some((who, group)))?;
                    }
                }
                Ok(())
            }
            Instruction::AsyncCommit => {
                active.iter().for_each(|thread| self.store.copies[*thread].committed += 1);
                Ok(())
            }
            Instruction::AsyncWait { pending } => {
                for thread in active {
                    let copies = &mut self.store.copies[*thread];
                    copies.done = copies.done.max(copies.committed.saturating_sub(u32::from(*pending)));
                }
                Ok(())
            }
            Instruction::Barrier if active.len() != self.kernel.threads as usize => {
                Err("a barrier that some threads do not reach".to_owned())
            }
            Instruction::Barrier => {
                self.store.barrier();
                Ok(())
            }
            Instruction::ShuffleXor { out, x, mask } => {
                self.whole_groups(active, "a shuffle")?;
                let lanes = self.lanes(*x);
                self.each(active, *out, |m, at| {
                    let from = (at / lanes) ^ *mask as usize;
                    Ok(value(m, *x, from * lanes + at % lanes))
                })
            }
            Instruction::Shuffle { out, x, lane } => {
                self.whole_groups(active, "a shuffle")?;
                let (lanes, subgroup) = (self.lanes(*x), self.kernel.subgroup as usize);
                self.each(active, *out, |m, at| {
                    let thread = at / lanes;
                    let from = thread / subgroup * subgroup + m.whole(*lane, thread) as usize % subgroup;
                    Ok(value(m, *x, from * lanes + at % lanes))
                })
            }
            Instruction::If { condition, then, otherwise } => {
                let (yes, no): (Vec<usize>, Vec<usize>) =
                    active.iter().partition(|thread| self.of(*condition, **thread) != 0);
                if !yes.is_empty() {
                    self.block(then, &yes)?;
                }
                if no.is_empty() { Ok(()) } else { self.block(otherwise, &no) }
            }
            Instruction::For { var, start, end, step, body, .. } => {
                self.each(active, *var, |m, at| Ok(value(m, *start, at)))?;
                loop {
                    let still: Vec<usize> = active
                        .iter()
                        .copied()
                        .filter(|thread| self.whole(*var, *thread) < self.whole(*end, *thread))
                        .collect();
                    if still.is_empty() {
                        return Ok(());
                    }
                    self.block(body, &still)?;
                    self.each(&still, *var, |m, at| {
                        binary(Binary::Add, value(m, *var, at), value(m, *step, at), Scalar::I32)
                    })?;
                }
            }
            Instruction::TileGet { out, tile, slot } => {
                for thread in active {
                    let at = self.slot(*tile, *thread, usize::from(*slot))?;
                    self.values[out.0 as usize][*thread] = self.tiles[tile.0 as usize][at];
                }
                Ok(())
            }
            Instruction::TileSet { tile, slot, x } => {
                for thread in active {
                    let at = self.slot(*tile, *thread, usize::from(*slot))?;
                    self.tiles[tile.0 as usize][at] = self.of(*x, *thread);
                }
                Ok(())
            }
            _ => {
                self.whole_groups(active, "a tile")?;
                self.tile_instruction(instruction, active)
            }
        }
    }
}

pub(super) fn multiply_add(x: u64, y: u64, z: u64, scalar: Scalar) -> u64 {
    let real = f64::from_bits;
    match scalar {
        Scalar::F32 => f64::from((real(x) as f32).mul_add(real(y) as f32, real(z) as f32)).to_bits(),
        Scalar::F64 => real(x).mul_add(real(y), real(z)).to_bits(),
        _ => wrapped((x as i64).wrapping_mul(y as i64).wrapping_add(z as i64), scalar),
    }
}
