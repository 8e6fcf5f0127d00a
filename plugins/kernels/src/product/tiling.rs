//! The sizes of tiles.

use crate::target::{MatrixShape, Target};

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

    /// Bytes of shared memory: all stages, and a tile of sums of each subgroup where only memory tells which is which.
    pub fn shared(&self) -> usize {
        let size = self.shape.operand.size();
        let pad = 16 / size;
        // Either way around in memory, whichever is larger.
        let of = |own: usize| {
            ((own * (self.depth + pad)).max(self.depth * (own + pad)) * size).next_multiple_of(16)
        };
        let sums = match self.shape.is_opaque() {
            false => 0,
            true => {
                (self.shape.m * self.shape.n) as usize
                    * self.shape.sum.size()
                    * self.groups.iter().product::<usize>()
            }
        };
        self.stages * (of(self.rows()) + of(self.columns())) + sums
    }
}
