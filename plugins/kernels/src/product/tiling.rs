//! The sizes of tiles, from a model of the device.

use crate::scalar::Scalar;
use crate::target::{Language, MatrixInstruction, MatrixShape, Target};

/// How a workgroup computes a rectangle of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// The matrix instruction.
    pub shape: MatrixShape,
    /// Its rectangles of each subgroup, down and across.
    pub tiles: [usize; 2],
    /// Subgroups down and across.
    pub groups: [usize; 2],
    /// How far along k one stage goes.
    pub depth: usize,
    /// Stages in shared memory.
    pub stages: usize,
}

impl Tiling {
    /// Rows of the result.
    pub fn rows(&self) -> usize {
        self.shape.m as usize * self.tiles[0] * self.groups[0]
    }

    /// Columns of the result.
    pub fn columns(&self) -> usize {
        self.shape.n as usize * self.tiles[1] * self.groups[1]
    }

    /// Threads of a workgroup.
    pub fn threads(&self, target: &Target) -> u32 {
        (self.groups[0] * self.groups[1]) as u32 * target.subgroup
    }

    /// Bytes of shared memory of all stages.
    pub fn shared(&self) -> usize {
        let size = self.shape.operand.size();
        let pad = 16 / size;
        // Either way around in memory, whichever is larger.
        let of = |own: usize| {
            ((own * (self.depth + pad)).max(self.depth * (own + pad)) * size).next_multiple_of(16)
        };
        self.stages * (of(self.rows()) + of(self.columns()))
    }

    /// The tiling for products of these sizes.
    pub fn of(target: &Target, operand: Scalar, m: usize, n: usize, batch: usize, k: usize) -> Self {
        let shape = match target.shape(operand) {
            Some(shape) if shape.sum == Scalar::F32 || shape.sum == Scalar::I32 => shape.clone(),
            _ => target.plain(operand),
        };
        let plain = shape.instruction == MatrixInstruction::Plain;
        let depth = if plain { 16 } else { (64 / operand.size()).max(shape.k as usize) };
        let stages = if target.copies_beside { 4 } else { 2 };
        let make = |tiles: [usize; 2], groups: [usize; 2]| Self {
            shape: shape.clone(),
            tiles,
            groups,
            depth: depth.min(k.next_multiple_of(shape.k as usize)),
            stages,
        };
        let whole: ([usize; 2], [usize; 2]) = match (target.language, shape.instruction) {
            (_, MatrixInstruction::Plain) => ([2, 1], [2, if target.subgroup > 32 { 2 } else { 4 }]),
            (Language::Cuda, _) => ([4, 4], [2, 2]),
            (_, MatrixInstruction::Mfma(_)) => ([4, 4], [2, 2]),
            _ => ([4, 2], [2, 4]),
        };
        let candidates = [
            whole,
            ([whole.0[0].div_ceil(2), whole.0[1]], whole.1),
            ([whole.0[0], whole.0[1].div_ceil(2)], whole.1),
            ([whole.0[0].div_ceil(2), whole.0[1].div_ceil(2)], whole.1),
            ([1, whole.0[1].div_ceil(2)], [1, 4]),
            ([1, 1], [1, 4]),
            ([1, 1], [2, 2]),
            ([1, 1], [1, 2]),
        ];
        let units = if target.units == 0 { 64 } else { target.units as usize };
        let mut best: Option<(f64, Self)> = None;
        for (tiles, groups) in candidates {
            let tiling = make(tiles, groups);
            if tiling.shared() > target.shared || tiling.threads(target) > target.threads {
                continue;
            }
            let (rows, columns) = (tiling.rows(), tiling.columns());
            let count = m.div_ceil(rows) * n.div_ceil(columns) * batch;
            let rounds = count.div_ceil(units) as f64;
            // A stage multiplies rows · columns and fetches rows + columns; a workgroup of few threads hides less.
            let fetch = (rows + columns) as f64 * 40.0;
            let hidden = 1.0 + 32.0 / f64::from(tiling.threads(target));
            let cost = rounds * ((rows * columns) as f64 + fetch) * hidden;
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, tiling));
            }
        }
        best.map_or_else(|| make([1, 1], [1, 1]), |(_, tiling)| tiling)
    }
}
