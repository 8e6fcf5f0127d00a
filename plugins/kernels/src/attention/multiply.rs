//! The products of queries, keys and values.

#![expect(
    clippy::indexing_slicing,
    reason = "tiles are in tables made with the kernel, of the sizes that loops run over"
)]

use super::forward::Forward;
use super::layout::Way;
use super::plan::{Plan, Staging};
use super::staging::Rows;
use crate::builder::{At, Builder};
use crate::form::{Memory, Order, Tile, Value};

impl Forward<'_> {
    pub(super) fn load(&self, b: &mut Builder, tile: Tile, rows: &Rows, first: Value, order: Order) {
        let stride = b.number(rows.stride);
        let first = rows.at(b, first);
        let aligned = (16 / self.plan.shape.operand.size()).min(self.plan.shape.k as usize);
        b.tile_load(tile, At { memory: Memory::Shared(rows.array), index: first, stride, order, aligned });
    }

    /// A tile of queries: the left operand as it lies, or the right one.
    fn load_queries(&self, b: &mut Builder, tile: Tile, number: usize, near: Value) {
        let (size, _) = self.plan.layout.sizes(&self.plan.shape);
        let row = b.add(self.own_query, number * size);
        let row = b.mul(row, self.q_rows.stride);
        let first = b.add(row, near);
        let order = if self.plan.layout.way == Way::Queries { Order::Rows } else { Order::Columns };
        self.load(b, tile, &self.q_rows, first, order);
    }

    /// Adds to the scores the products along elements from `near` on.
    fn score(&self, b: &mut Builder, rows: &Rows, queries: &[Tile], key: Tile, near: Value) {
        let Plan { shape, sizes, layout, .. } = self.plan;
        let (_, size) = layout.sizes(shape);
        for column in 0..sizes.keys / size {
            let first = b.add(near, column * size * rows.stride);
            let order = if layout.way == Way::Queries { Order::Columns } else { Order::Rows };
            self.load(b, key, rows, first, order);
            for (number, query) in queries.iter().enumerate() {
                self.multiply(b, self.scores[number][column], *query, key);
            }
        }
    }

    /// Adds to the output the products along keys from `near` on.
    pub(super) fn add_values(&self, b: &mut Builder, rows: &Rows, powers: &[Tile], value: Tile, near: Value) {
        let Plan { shape, layout, .. } = self.plan;
        let (_, size) = layout.sizes(shape);
        for column in 0..self.outputs[0].len() {
            let first = if layout.way == Way::Queries {
                let line = b.mul(near, rows.stride);
                b.add(line, column * size)
            } else {
                b.add(near, column * size * rows.stride)
            };
            self.load(b, value, rows, first, Order::Rows);
            for (number, own) in powers.iter().enumerate() {
                self.multiply(b, self.outputs[number][column], *own, value);
            }
        }
    }

    /// Tiles of queries, one for each tile of the subgroup: those of each step along their elements if a thread has registers for them,
    /// else of one step, which are loaded when they are needed.
    pub(super) fn hold(&self, b: &mut Builder) -> Vec<Vec<Tile>> {
        let Plan { shape, sizes, layout, depth, .. } = self.plan;
        let [of_queries, _] = layout.roles();
        let is_held = self.plan.is_held(b.target());
        let count = if is_held { depth / shape.k as usize } else { 1 };
        let queries: Vec<Vec<Tile>> =
            (0..count).map(|_| (0..sizes.tiles).map(|_| b.tile(of_queries, shape)).collect()).collect();
        if is_held {
            for (step, tiles) in queries.iter().enumerate() {
                for (number, tile) in tiles.iter().enumerate() {
                    let near = b.number(step * shape.k as usize);
                    self.load_queries(b, *tile, number, near);
                }
            }
        }
        queries
    }

    /// Adds all products of queries and keys.
    pub(super) fn score_all(&self, b: &mut Builder, rows: &Rows, held: &[Vec<Tile>], key: Tile) {
        let Plan { shape, depth, .. } = self.plan;
        if self.plan.is_held(b.target()) {
            for (step, tiles) in held.iter().enumerate() {
                let near = b.number(step * shape.k as usize);
                self.score(b, rows, tiles, key, near);
            }
            return;
        }
        // Unrolled only by NVIDIA's compilers: else loads would be moved ahead of each other until registers run out.
        let step = |b: &mut Builder, near: Value| {
            for (number, tile) in held[0].iter().enumerate() {
                self.load_queries(b, *tile, number, near);
            }
            self.score(b, rows, &held[0], key, near);
        };
        if self.plan.staging == Staging::Turns {
            for near in (0..*depth).step_by(shape.k as usize) {
                let near = b.number(near);
                step(b, near);
            }
            return;
        }
        b.for_range(0, *depth, shape.k, step);
    }

    fn multiply(&self, b: &mut Builder, sum: Tile, of_query: Tile, of_key: Tile) {
        match self.plan.layout.way {
            Way::Queries => b.tile_multiply(sum, of_query, of_key),
            Way::Keys => b.tile_multiply(sum, of_key, of_query),
        }
    }
}
