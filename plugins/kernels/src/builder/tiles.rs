//! Matrix tiles.

use super::{Builder, Operand};
use crate::form::{Instruction, Memory, Order, Role, Tile, TileType, Value};
use crate::scalar::Scalar;
use crate::target::{Fragment, LanePart, MatrixShape};

/// A tile's place in memory.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The memory.
    pub memory: Memory,
    /// The index of the first element.
    pub index: Value,
    /// The distance of rows or columns.
    pub stride: Value,
    /// Which of them are neighbours.
    pub order: Order,
    /// What `index` and `stride` are multiples of.
    pub aligned: usize,
}

impl Builder {
    /// A tile. Its elements have no values yet.
    pub fn tile(&mut self, role: Role, shape: &MatrixShape) -> Tile {
        let place = self.kernel.shapes.iter().position(|known| known == shape);
        let place = place.unwrap_or_else(|| {
            self.kernel.shapes.push(shape.clone());
            self.kernel.shapes.len() - 1
        });
        self.kernel.tiles.push(TileType { role, shape: place as u32 });
        Tile(self.kernel.tiles.len() as u32 - 1)
    }

    /// A tile of sums that are 0.
    pub fn sums(&mut self, shape: &MatrixShape) -> Tile {
        let tile = self.tile(Role::Accumulator, shape);
        self.tile_fill(tile, 0);
        tile
    }

    fn type_and_shape(&self, tile: Tile) -> Option<(TileType, &MatrixShape)> {
        let type_ = *self.kernel.tiles.get(tile.0 as usize)?;
        Some((type_, self.kernel.shapes.get(type_.shape as usize)?))
    }

    /// The type of a tile's elements.
    pub fn tile_scalar(&self, tile: Tile) -> Scalar {
        self.type_and_shape(tile).map_or(Scalar::F32, |(type_, shape)| shape.scalar(type_.role))
    }

    /// Where a tile's elements are.
    pub fn fragment(&self, tile: Tile) -> Option<&Fragment> {
        let (type_, shape) = self.type_and_shape(tile)?;
        shape.fragment(type_.role)
    }

    /// Sets all elements.
    pub fn tile_fill(&mut self, tile: Tile, x: impl Operand) {
        let scalar = self.tile_scalar(tile);
        let x = x.of(self, scalar.into());
        self.push(Instruction::TileFill { tile, x });
    }

    /// Loads a tile.
    pub fn tile_load(&mut self, tile: Tile, at: At) {
        let At { memory, index, stride, order, aligned } = at;
        debug_assert_eq!(self.tile_scalar(tile), self.scalar_of(memory));
        self.push(Instruction::TileLoad { tile, memory, index, stride, order, aligned: aligned as u8 });
    }

    /// Stores a tile.
    pub fn tile_store(&mut self, tile: Tile, at: At) {
        let At { memory, index, stride, order, aligned } = at;
        debug_assert_eq!(self.tile_scalar(tile), self.scalar_of(memory));
        self.push(Instruction::TileStore { tile, memory, index, stride, order, aligned: aligned as u8 });
    }

    /// sum += a · b.
    pub fn tile_multiply(&mut self, sum: Tile, a: Tile, b: Tile) {
        self.push(Instruction::TileMultiply { sum, a, b });
    }

    /// The thread's element in a slot.
    pub fn tile_get(&mut self, tile: Tile, slot: usize) -> Value {
        let scalar = self.tile_scalar(tile);
        let out = self.value(scalar);
        self.push(Instruction::TileGet { out, tile, slot: slot as u16 });
        out
    }

    /// Replaces the thread's element in a slot.
    pub fn tile_set(&mut self, tile: Tile, slot: usize, x: Value) {
        debug_assert_eq!(self.tile_scalar(tile), self.type_of(x).scalar);
        self.push(Instruction::TileSet { tile, slot: slot as u16, x });
    }

    /// Replaces every element by a function of it alone.
    pub fn tile_map(&mut self, tile: Tile, map: impl FnOnce(&mut Self, Value) -> Value) {
        let scalar = self.tile_scalar(tile);
        let element = self.value(scalar);
        let mut result = element;
        let body = self.block(|b| result = map(b, element));
        self.push(Instruction::TileMap { tile, element, body, result });
    }

    /// The part of a row or column that depends on the lane.
    pub fn lane_part(&mut self, lane: Value, part: LanePart) -> Value {
        if part.factor == 0 || part.modulus == 1 {
            return self.number(0);
        }
        let shifted = self.div(lane, part.divisor);
        let covers = part.divisor * part.modulus >= self.kernel.subgroup;
        let own = if covers { shifted } else { self.rem(shifted, part.modulus) };
        self.mul(own, part.factor)
    }
}
