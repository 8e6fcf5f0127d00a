//! Matrix tiles by ordinary instructions: each thread holds a rectangle of sums.

use super::{Fragment, MatrixInstruction, MatrixShape, NONE, part};
use crate::scalar::Scalar;

/// Rows and columns of a thread's rectangle, and how many columns of A are held at once.
pub(super) const ROWS: u32 = 4;
const COLUMNS: u32 = 8;
const DEPTH: u32 = 4;

/// The shape for subgroups of 8, 16, 32 or 64 threads, with this many rows of a thread.
pub(super) fn shape(subgroup: u32, operand: Scalar, rows: u32) -> MatrixShape {
    let across = match subgroup {
        0..=8 => 2,
        9..=32 => 4,
        _ => 8,
    };
    let down = (subgroup / across).max(1);
    let sum = match operand {
        Scalar::I8 | Scalar::U8 => Scalar::I32,
        Scalar::F64 => Scalar::F64,
        _ => Scalar::F32,
    };
    let rectangle = |down: u32, columns: u32, by_rows: bool| -> Vec<(u32, u32)> {
        if by_rows {
            (0..down).flat_map(|r| (0..columns).map(move |c| (r, c))).collect()
        } else {
            (0..columns).flat_map(|c| (0..down).map(move |r| (r, c))).collect()
        }
    };
    let (row, column) = (part(across, down, rows), part(1, across, COLUMNS));
    let a = Fragment { row, column: NONE, slots: rectangle(rows, DEPTH, false) };
    let b = Fragment { row: NONE, column, slots: rectangle(DEPTH, COLUMNS, true) };
    let sums = Fragment { row, column, slots: rectangle(rows, COLUMNS, true) };
    MatrixShape {
        m: down * rows,
        n: across * COLUMNS,
        k: DEPTH,
        operand,
        sum,
        instruction: MatrixInstruction::Plain,
        fragments: Some(Box::new([a, b, sums])),
    }
}
