//! The products of a block.

#![expect(
    clippy::indexing_slicing,
    reason = "sides and tiles are in tables made with the kernel, of the sizes that loops run over"
)]

use super::super::plan::Staging;
use super::super::staging::Rows;
use super::Of;
use super::sweep::{Block, Sweep};
use crate::builder::Builder;
use crate::form::{Order, Role, Tile, Value};

impl Sweep<'_> {
    /// Computes the products of a block's own rows and others.
    pub(super) fn multiply_block(&self, b: &mut Builder, block: &Block<'_>) {
        self.multiply_rows(b, block, 0, &self.scores);
        if self.of != Of::Values {
            self.multiply_rows(b, block, 1, &self.products);
        }
    }

    /// Adds what a block contributes.
    pub(super) fn add_block(&self, b: &mut Builder, block: &Block<'_>, sums: &[Vec<Tile>]) {
        if self.of == Of::Mask {
            return b.barrier();
        }
        let side = &block.others[usize::from(self.of == Of::Values)];
        let width = self.plan.part.unwrap_or(side.padded);
        let has_it =
            self.plan.part.is_none() && (self.of != Of::Values || self.plan.staging != Staging::InTurn);
        for start in (0..side.padded).step_by(width) {
            if !has_it {
                self.stage(b, side, block.other, self.plan.others, start);
                b.async_commit();
                b.async_wait(0);
            }
            // Only scores in shared memory and rows that were just copied are those of other threads.
            if !has_it || self.scratch.is_some() {
                b.barrier();
            }
            let rows = match self.plan.part {
                Some(_) => self.rows_of(side, self.plan.others, start),
                None => self.others_of(b, side, block.other),
            };
            self.multiply_scores(b, &rows, sums, start);
            if self.plan.staging != Staging::Beside {
                b.barrier();
            }
        }
    }

    /// Sets tiles to the products of own rows and others.
    fn multiply_rows(&self, b: &mut Builder, block: &Block<'_>, which: usize, tiles: &[Vec<Tile>]) {
        let (own, others) = (&block.own[which], &block.others[which]);
        let shape = &self.plan.shape;
        tiles.iter().flatten().for_each(|tile| b.tile_fill(*tile, 0));
        let left: Vec<Tile> = tiles.iter().map(|_| b.tile(Role::A, shape)).collect();
        let right = b.tile(Role::B, shape);
        let width = self.plan.part.unwrap_or(own.padded);
        for start in (0..own.padded).step_by(width) {
            if self.plan.part.is_some() {
                self.stage(b, own, block.first, self.plan.rows(), start);
            }
            if self.plan.staging == Staging::InTurn {
                self.stage(b, others, block.other, self.plan.others, start);
                b.async_commit();
                b.async_wait(0);
                b.barrier();
            }
            let from = self.rows_of(own, self.plan.rows(), start);
            let to = match self.plan.part {
                Some(_) => self.rows_of(others, self.plan.others, start),
                None => self.others_of(b, others, block.other),
            };
            let multiply = |b: &mut Builder, left: &[Tile], near: Value| {
                for column in 0..self.plan.others / shape.n as usize {
                    let at = b.add(near, column * shape.n as usize * to.stride);
                    self.load(b, right, &to, at, Order::Columns);
                    for (left, tiles) in left.iter().zip(tiles) {
                        b.tile_multiply(tiles[column], *left, right);
                    }
                }
            };
            let line = b.mul(self.own_row, from.stride);
            let load_left = |b: &mut Builder, left: &[Tile], near: Value| {
                let at = b.add(line, near);
                for (number, left) in left.iter().enumerate() {
                    let at = b.add(at, number * shape.m as usize * from.stride);
                    self.load(b, *left, &from, at, Order::Rows);
                }
            };
            if let [_, ..] = self.held[which][..] {
                for (step, left) in self.held[which].iter().enumerate() {
                    let near = b.number(step * shape.k as usize);
                    multiply(b, left, near);
                }
                continue;
            }
            let step = |b: &mut Builder, near: Value| {
                load_left(b, &left, near);
                multiply(b, &left, near);
            };
            // Compilers load one step's tiles beside the step before only where no loop divides them.
            if self.plan.staging == Staging::InTurn {
                b.for_range(0, from.elements, shape.k, step);
            } else {
                for near in (0..from.elements).step_by(shape.k as usize) {
                    let near = b.number(near);
                    step(b, near);
                }
            }
            if self.plan.part.is_some() {
                b.barrier();
            }
        }
    }

    /// Adds the products of scores and rows.
    fn multiply_scores(&self, b: &mut Builder, rows: &Rows, sums: &[Vec<Tile>], start: usize) {
        let shape = &self.plan.shape;
        let right = b.tile(Role::B, shape);
        let size = shape.n as usize;
        let multiply = |b: &mut Builder, left: &[Tile], near: Value| {
            let line = b.mul(near, rows.stride);
            for column in 0..rows.elements / size {
                let at = b.add(line, column * size);
                self.load(b, right, rows, at, Order::Rows);
                for (left, sums) in left.iter().zip(sums) {
                    b.tile_multiply(sums[start / size + column], *left, right);
                }
            }
        };
        let Some(scratch) = &self.scratch else {
            for step in 0..self.plan.others / shape.k as usize {
                let left: Vec<Tile> = self.operands.iter().map(|tiles| tiles[step]).collect();
                let near = b.number(step * shape.k as usize);
                multiply(b, &left, near);
            }
            return;
        };
        let left: Vec<Tile> = sums.iter().map(|_| b.tile(Role::A, shape)).collect();
        let line = b.mul(self.own_row, scratch.stride);
        b.for_range(0, self.plan.others, shape.k, |b, near| {
            let at = b.add(line, near);
            for (number, left) in left.iter().enumerate() {
                let at = b.add(at, number * shape.m as usize * scratch.stride);
                self.load(b, *left, scratch, at, Order::Rows);
            }
            multiply(b, &left, near);
        });
    }
}
