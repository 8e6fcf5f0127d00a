//! Matrix tiles of the interpreter: whole matrices, one for each subgroup.

#![expect(
    clippy::indexing_slicing,
    reason = "tiles have an entry for each element of each subgroup, and places were checked against the shape"
)]

use super::element::convert;
use super::machine::{Machine, multiply_add};
use crate::form::{Instruction, Order, Role, Tile, Value};
use crate::target::MatrixShape;

/// A tile's description.
struct Kind<'a> {
    role: Role,
    shape: &'a MatrixShape,
    rows: usize,
    columns: usize,
}

impl<'a> Machine<'a, '_> {
    fn kind(&self, tile: Tile) -> Result<Kind<'a>, String> {
        let kernel = self.kernel;
        let missing = || format!("no tile {}", tile.0);
        let type_ = kernel.tiles.get(tile.0 as usize).ok_or_else(missing)?;
        let shape = kernel.shapes.get(type_.shape as usize).ok_or_else(missing)?;
        let (rows, columns) = shape.dims(type_.role);
        Ok(Kind { role: type_.role, shape, rows: rows as usize, columns: columns as usize })
    }

    /// A value that all lanes of a subgroup have in common.
    fn uniform(&self, value: Value, lanes: &[usize], what: &str) -> Result<i64, String> {
        let first = self.of(value, lanes[0]);
        if lanes.iter().any(|thread| self.of(value, *thread) != first) {
            return Err(format!("{what} differs among the lanes of a subgroup"));
        }
        Ok(first as i64)
    }

    pub(super) fn tile_instruction(
        &mut self,
        instruction: &Instruction,
        active: &[usize],
    ) -> Result<(), String> {
        let subgroup = self.kernel.subgroup as usize;
        for lanes in active.chunks(subgroup) {
            self.one(instruction, lanes)?;
        }
        Ok(())
    }

    fn one(&mut self, instruction: &Instruction, lanes: &[usize]) -> Result<(), String> {
        let group = lanes[0] / self.kernel.subgroup as usize;
        match instruction {
            Instruction::TileFill { tile, x } => {
                let Kind { rows, columns, .. } = self.kind(*tile)?;
                let cell = self.uniform(*x, lanes, "what fills a tile")? as u64;
                let size = rows * columns;
                self.tiles[tile.0 as usize][group * size..(group + 1) * size].fill(cell);
            }
            Instruction::TileLoad { tile, memory, index, stride, order, aligned }
            | Instruction::TileStore { tile, memory, index, stride, order, aligned } => {
                let Kind { role, shape, rows, columns } = self.kind(*tile)?;
                let first = self.uniform(*index, lanes, "a tile's index")?;
                let stride = self.uniform(*stride, lanes, "a tile's stride")?;
                let aligned = i64::from(*aligned).max(1);
                if first % aligned != 0 || stride % aligned != 0 {
                    return Err(format!(
                        "a tile at {first} with stride {stride} is not aligned to {aligned}"
                    ));
                }
                if self.store.scalar(*memory)? != shape.scalar(role) {
                    return Err(format!("a tile of {:?} in other memory", shape.scalar(role)));
                }
                let who = self.store.collective();
                let loads = matches!(instruction, Instruction::TileLoad { .. });
                for row in 0..rows {
                    for column in 0..columns {
                        let at = match order {
                            Order::Rows => first + row as i64 * stride + column as i64,
                            Order::Columns => first + column as i64 * stride + row as i64,
                        };
                        let own = group * rows * columns + row * columns + column;
                        if loads {
                            self.tiles[tile.0 as usize][own] = self.store.read(*memory, at, who)?;
                        } else {
                            let cell = self.tiles[tile.0 as usize][own];
                            self.store.write(*memory, at, cell, who, None)?;
                        }
                    }
                }
            }
            Instruction::TileMultiply { sum, a, b } => self.multiply(*sum, *a, *b, group)?,
            Instruction::TileMap { tile, element, body, result } => {
                let Kind { rows, columns, .. } = self.kind(*tile)?;
                let size = rows * columns;
                for first in (0..size).step_by(lanes.len()) {
                    for (lane, thread) in lanes.iter().enumerate() {
                        let at = group * size + (first + lane).min(size - 1);
                        self.values[element.0 as usize][*thread] = self.tiles[tile.0 as usize][at];
                    }
                    self.block(body, lanes)?;
                    for (lane, thread) in lanes.iter().enumerate().filter(|(lane, _)| first + lane < size) {
                        self.tiles[tile.0 as usize][group * size + first + lane] = self.of(*result, *thread);
                    }
                }
            }
            _ => return Err("an unknown instruction".to_owned()),
        }
        Ok(())
    }

    /// The place of a thread's slot among a tile's elements.
    pub(super) fn slot(&self, tile: Tile, thread: usize, slot: usize) -> Result<usize, String> {
        let Kind { role, shape, rows, columns } = self.kind(tile)?;
        let subgroup = self.kernel.subgroup as usize;
        let fragment = shape.fragment(role).ok_or("the places of a tile's elements are not known")?;
        if slot >= fragment.slots.len() {
            return Err(format!("slot {slot} of {}", fragment.slots.len()));
        }
        let (row, column) = fragment.at((thread % subgroup) as u32, slot);
        Ok(thread / subgroup * rows * columns + row as usize * columns + column as usize)
    }

    fn multiply(&mut self, sum: Tile, a: Tile, b: Tile, group: usize) -> Result<(), String> {
        let kinds = [self.kind(sum)?, self.kind(a)?, self.kind(b)?];
        let [shape, of_a, of_b] = [kinds[0].shape, kinds[1].shape, kinds[2].shape];
        let roles = kinds.map(|kind| kind.role);
        if shape != of_a || shape != of_b || roles != [Role::Accumulator, Role::A, Role::B] {
            return Err(format!("tiles {sum:?}, {a:?} and {b:?} do not multiply"));
        }
        let [m, n, k] = [shape.m as usize, shape.n as usize, shape.k as usize];
        let converted = |tile: Tile, size: usize| -> Vec<u64> {
            let cells = &self.tiles[tile.0 as usize][group * size..(group + 1) * size];
            cells.iter().map(|cell| convert(*cell, shape.operand, shape.sum)).collect()
        };
        let (a, b) = (converted(a, m * k), converted(b, k * n));
        for row in 0..m {
            for column in 0..n {
                let own = group * m * n + row * n + column;
                let mut total = self.tiles[sum.0 as usize][own];
                for i in 0..k {
                    total = multiply_add(a[row * k + i], b[i * n + column], total, shape.sum);
                }
                self.tiles[sum.0 as usize][own] = total;
            }
        }
        Ok(())
    }
}
