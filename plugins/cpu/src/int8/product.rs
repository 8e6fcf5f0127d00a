//! A planned int8 product, and the data that its run shares.

use crate::gemm::byte_kernel::ByteKernel;
use crate::gemm::byte_tile::GROUP;
use crate::int8::epilogue::{Columns, MAX_POST_OPS, Stages};
use crate::int8::panels::Panels;
use crate::int8::problem::{Axis, Problem};
use crate::int8::requantization::{BoundPostOp, Requantization};
use crate::int8::store::Kind;
use crate::pointwise::elements::BlockEpilogue;
use crate::simd::isa::Isa;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::scratch::Tensors;
use crate::threading::partition::Workers;

/// A copy of x with contiguous channels.
pub(crate) struct Staging {
    pub(crate) positions: Vec<Axis>,
    pub(crate) channels: usize,
    pub(crate) channel: usize,
}

/// Positions per part of the copy.
pub(crate) const STAGED: usize = 512;

impl Staging {
    /// Positions of x.
    pub(crate) fn positions(&self) -> usize {
        self.positions.iter().map(|axis| axis.size).product()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.positions() * self.channels
    }

    pub(crate) fn parts(&self) -> usize {
        self.positions().div_ceil(STAGED)
    }
}

/// A planned int8 product.
pub(crate) struct Product {
    pub(crate) algorithm: &'static str,
    pub(crate) problem: Problem,
    pub(crate) stages: Stages,
    pub(crate) epilogue: Option<Box<dyn BlockEpilogue>>,
    pub(crate) kind: Kind,
    pub(crate) isa: Isa,
    pub(crate) kernel: ByteKernel,
    pub(crate) panels: Panels,
    pub(crate) staging: Option<Staging>,
    /// Whether operand A is read in place, except for rows that do not fill a tile.
    pub(crate) in_place: bool,
    /// Bytes between packed rows.
    pub(crate) stride: usize,
    pub(crate) rows_of_block: usize,
    pub(crate) blocks: usize,
    /// Parts of the panels of a block.
    pub(crate) chunks: usize,
    pub(crate) workers: Workers,
    pub(crate) pack_workers: Workers,
    pub(crate) stage_workers: Workers,
    pub(crate) prepacked: Prepacked<i32>,
}

/// The data that a run's workers share.
pub(crate) struct Run<'a> {
    pub(crate) tensors: Tensors<'a>,
    pub(crate) numbers: Requantization,
    pub(crate) post_ops: [Option<BoundPostOp<'a>>; MAX_POST_OPS],
    pub(crate) columns: Columns,
    /// Bytes of x are combined with this by exclusive or, when x is copied or its rows are packed.
    pub(crate) flip: u8,
    pub(crate) outside: u8,
}

/// A worker's areas.
pub(crate) struct Own {
    pub(crate) rows: *mut u8,
    pub(crate) row_sums: *mut i32,
    pub(crate) sums: *mut i32,
    pub(crate) results: *mut u8,
    pub(crate) offsets: *mut usize,
}

impl Own {
    /// The offsets of some rows in y and in the residual.
    ///
    /// # Safety
    /// `offsets` points to two times `most` offsets, of each of which the first `rows` were written.
    pub(crate) unsafe fn offsets(&self, most: usize, rows: usize) -> (&[usize], &[usize]) {
        // SAFETY: the area has two offsets for each of the most rows, of which these were written.
        unsafe {
            (
                std::slice::from_raw_parts(self.offsets, rows),
                std::slice::from_raw_parts(self.offsets.add(most), rows),
            )
        }
    }
}

impl Product {
    /// Bytes of an element of the result.
    pub(crate) fn size(&self) -> usize {
        match self.kind {
            Kind::Accumulators | Kind::Floats => 4,
            Kind::Bytes { .. } | Kind::Quantized { .. } => 1,
        }
    }

    /// Whether the columns of a row are contiguous in the result.
    pub(crate) fn is_straight(&self) -> bool {
        self.problem.y_column == 1 || self.problem.columns == 1
    }

    /// Columns of all groups.
    pub(crate) fn all_columns(&self) -> usize {
        self.problem.group_count() * self.panels.groups * GROUP
    }

    /// What bytes of x are combined with by exclusive or, so that the form can multiply them.
    pub(crate) fn flip(&self) -> u8 {
        if self.problem.x.is_signed && !self.kernel.takes_signed { 0x80 } else { 0 }
    }
}
