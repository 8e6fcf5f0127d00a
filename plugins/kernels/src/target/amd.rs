//! AMD's devices. Layouts are those of the instruction set documents of RDNA 3, RDNA 4 and CDNA 1 to 4.

use super::{Fragment, LanePart, Language, MatrixInstruction, MatrixShape, NONE, Target, part, plain};
use crate::scalar::Scalar;

/// Slots along one dimension: neighbours, or this far apart.
fn line(count: u32, step: u32, down: bool) -> Vec<(u32, u32)> {
    (0..count).map(|slot| if down { (slot * step, 0) } else { (0, slot * step) }).collect()
}

/// The fragments of 16 × 16 sums whose column is the lane's last four bits. Operands have `each` neighbours along k in a lane,
/// and `groups` groups of 16 lanes continue along k.
fn sixteen(each: u32, groups: u32, sum_row: LanePart, sum_step: u32, sums: u32) -> Box<[Fragment; 3]> {
    let along = if groups > 1 { part(16, groups, each) } else { NONE };
    let own = part(1, 16, 1);
    Box::new([
        Fragment { row: own, column: along, slots: line(each, 1, false) },
        Fragment { row: along, column: own, slots: line(each, 1, true) },
        Fragment { row: sum_row, column: own, slots: line(sums, sum_step, true) },
    ])
}

fn shape(
    k: u32,
    operand: Scalar,
    instruction: MatrixInstruction,
    fragments: Box<[Fragment; 3]>,
) -> MatrixShape {
    let sum = if matches!(operand, Scalar::I8 | Scalar::U8) { Scalar::I32 } else { Scalar::F32 };
    MatrixShape { m: 16, n: 16, k, operand, sum, instruction, fragments: Some(fragments) }
}

fn wmma_gfx11(operand: Scalar) -> MatrixShape {
    // Both halves of the wave hold the operands; they share the rows of sums in turn.
    shape(16, operand, MatrixInstruction::WmmaGfx11, sixteen(16, 1, part(16, 2, 1), 2, 8))
}

fn wmma_gfx12(operand: Scalar) -> MatrixShape {
    shape(16, operand, MatrixInstruction::WmmaGfx12, sixteen(8, 2, part(16, 2, 8), 1, 8))
}

/// An MFMA with 16 × 16 sums and `each` neighbours along k in each of four groups of lanes.
fn mfma(operand: Scalar, each: u32, name: &'static str) -> MatrixShape {
    shape(4 * each, operand, MatrixInstruction::Mfma(name), sixteen(each, 4, part(16, 4, 4), 1, 4))
}

pub(super) fn target(name: &str) -> Option<Target> {
    let digits = name.strip_prefix("gfx")?;
    let (major, minor) = digits.split_at_checked(digits.len().checked_sub(2)?)?;
    let major: u32 = major.parse().ok()?;
    let mut shapes = Vec::new();
    use Scalar::{Bf16, F16, F32, Fp8E4m3, Fp8E5m2, I8, U8};
    match (major, minor) {
        (9, "50") => {
            shapes.push(mfma(F16, 8, "f32_16x16x32_f16"));
            shapes.push(mfma(Bf16, 8, "f32_16x16x32_bf16"));
            shapes.push(mfma(F32, 1, "f32_16x16x4f32"));
            shapes.push(mfma(I8, 16, "i32_16x16x64_i8"));
            shapes.push(mfma(Fp8E4m3, 8, "f32_16x16x32_fp8_fp8"));
            shapes.push(mfma(Fp8E5m2, 8, "f32_16x16x32_bf8_bf8"));
        }
        // Its 8-bit floats are not OFP8.
        (9, "40" | "41" | "42") => {
            shapes.push(mfma(F16, 4, "f32_16x16x16f16"));
            shapes.push(mfma(Bf16, 4, "f32_16x16x16bf16_1k"));
            shapes.push(mfma(F32, 1, "f32_16x16x4f32"));
            shapes.push(mfma(I8, 8, "i32_16x16x32_i8"));
        }
        (9, "0a") => {
            shapes.push(mfma(F16, 4, "f32_16x16x16f16"));
            shapes.push(mfma(Bf16, 4, "f32_16x16x16bf16_1k"));
            shapes.push(mfma(F32, 1, "f32_16x16x4f32"));
            shapes.push(mfma(I8, 4, "i32_16x16x16i8"));
        }
        (9, "08") => {
            shapes.push(mfma(F16, 4, "f32_16x16x16f16"));
            shapes.push(mfma(Bf16, 2, "f32_16x16x8bf16"));
            shapes.push(mfma(F32, 1, "f32_16x16x4f32"));
            shapes.push(mfma(I8, 4, "i32_16x16x16i8"));
        }
        (11, _) => shapes.extend([F16, Bf16, I8, U8].map(wmma_gfx11)),
        (12, "00" | "01") => shapes.extend([F16, Bf16, I8, U8, Fp8E4m3, Fp8E5m2].map(wmma_gfx12)),
        _ => {}
    }
    let subgroup = if major >= 10 { 32 } else { 64 };
    shapes.extend(
        [F16, Bf16, F32, I8, U8, Fp8E4m3, Fp8E5m2]
            .map(|operand| plain::shape(subgroup, operand, plain::ROWS)),
    );
    let shared = if (major, minor) == (9, "50") { 160 << 10 } else { 64 << 10 };
    // MI25 to MI355, and the largest of each generation of graphics cards; two compute units of these share what a workgroup needs.
    let units = match (major, minor) {
        (9, "00" | "06") => 60,
        (9, "08") => 120,
        (9, "0a") => 104,
        (9, "40" | "41" | "42") => 304,
        (9, "50") => 256,
        (10, "10" | "11" | "12") => 20,
        (10, "30" | "31" | "32") => 40,
        (11, "00" | "01" | "02") => 48,
        (11, "50" | "51" | "52") => 20,
        (12, "00" | "01") => 32,
        _ => 0,
    };
    Some(Target {
        name: name.to_owned(),
        language: Language::Hip,
        subgroup,
        // hipRTC's static arrays end there.
        shared: 64 << 10,
        // RDNA: the workgroups of both compute units of a workgroup processor share 128 KiB.
        shared_of_unit: if major >= 10 { 128 << 10 } else { shared },
        threads: 1024,
        registers: 256,
        registers_of_unit: if major >= 10 { 256 } else { 128 },
        units,
        copies_beside: false,
        shapes,
        tiles: 0,
    })
}
