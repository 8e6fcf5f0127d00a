//! NVIDIA's devices. Layouts are those of the PTX document's `mma.sync`.

use super::{Fragment, Language, MatrixInstruction, MatrixShape, Target, part, plain};
use crate::scalar::Scalar;

/// Two instructions of 16 × 8 sums side by side, with four bytes along k in a register.
fn mma(operand: Scalar, sum: Scalar) -> MatrixShape {
    let each = 4 / operand.size() as u32;
    let half = 4 * each;
    let (across, down) = (part(1, 4, each), part(4, 8, 1));
    let registers = |places: [(u32, u32); 4], along_column: bool, each: u32| {
        let of = |(row, column): (u32, u32)| {
            (0..each).map(move |i| if along_column { (row, column + i) } else { (row + i, column) })
        };
        places.into_iter().flat_map(of).collect::<Vec<_>>()
    };
    let a = Fragment {
        row: down,
        column: across,
        slots: registers([(0, 0), (8, 0), (0, half), (8, half)], true, each),
    };
    let b = Fragment {
        row: across,
        column: down,
        slots: registers([(0, 0), (half, 0), (0, 8), (half, 8)], false, each),
    };
    let sums = Fragment {
        row: down,
        column: part(1, 4, 2),
        slots: registers([(0, 0), (8, 0), (0, 8), (8, 8)], true, 2),
    };
    MatrixShape {
        m: 16,
        n: 16,
        k: 2 * half,
        operand,
        sum,
        instruction: MatrixInstruction::MmaSync,
        fragments: Some(Box::new([a, b, sums])),
    }
}

pub(super) fn target(name: &str, number: u32) -> Target {
    use Scalar::{Bf16, F16, F32, Fp8E4m3, Fp8E5m2, I8, I32, U8};
    let mut shapes = Vec::new();
    if number >= 80 {
        shapes.extend([mma(F16, F32), mma(Bf16, F32), mma(I8, I32), mma(U8, I32)]);
    }
    if number >= 89 {
        shapes.extend([mma(Fp8E4m3, F32), mma(Fp8E5m2, F32)]);
    }
    shapes.extend(
        [F16, Bf16, F32, I8, U8, Fp8E4m3, Fp8E5m2].map(|operand| plain::shape(32, operand, plain::ROWS)),
    );
    let shared = match number {
        90.. => 227 << 10,
        80 | 87 => 163 << 10,
        86 | 89 => 99 << 10,
        75 => 64 << 10,
        _ => 96 << 10,
    };
    // A100, H100, B200 and the largest of the smaller ones.
    let units = match number {
        70..75 => 80,
        75 => 68,
        80 => 108,
        86 => 84,
        87 | 88 => 16,
        89 => 128,
        90 => 132,
        100..110 => 148,
        110..120 => 20,
        120.. => 170,
        _ => 0,
    };
    Target {
        name: name.to_owned(),
        language: Language::Cuda,
        subgroup: 32,
        shared: if number >= 120 { 99 << 10 } else { shared },
        shared_of_unit: shared,
        threads: 1024,
        registers: 255,
        registers_of_unit: 64,
        units,
        copies_beside: number >= 80,
        shapes,
        tiles: 0,
    }
}
