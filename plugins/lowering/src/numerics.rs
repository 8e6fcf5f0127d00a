//! What generated kernels do to numbers, beside what the planner tells of their nodes.

use hipdnn_kernels::Target;
use hipdnn_kernels::form::Kernel;
use hipdnn_kernels::target::Language;
use hipdnn_plugin_planner::numerics::{Engine, Errors, generated};
use hipdnn_plugin_sdk::Numerics;
use hipdnn_plugin_sdk::numerics::MatrixSums;

/// The largest errors in CUDA C++ Programming Guide, Mathematical Functions. In single precision `ex2.approx` is off by 2⁻²² (PTX ISA),
/// which also takes the place of e^x in softmax, of tanh in GELU, and is part of GELU's polynomial, off by 0.75e-7 of 1.
const CUDA: Errors = [
    &[("erf", 8), ("exp", 4), ("expm1", 1), ("log", 1), ("log1p", 1), ("sin", 2), ("tan", 4), ("tanh", 4)],
    &[("erf", 2), ("exp", 1), ("expm1", 1), ("log", 1), ("log1p", 1), ("sin", 2), ("tan", 2), ("tanh", 2)],
];

/// The largest errors that HIP's documentation has measured (HIP math API). GELU and softmax are computed as for CUDA; their 2^x is off by
/// 1 unit.
const HIP: Errors = [
    &[("erf", 8), ("exp", 2), ("expm1", 1), ("log", 2), ("log1p", 1), ("sin", 1), ("tan", 1), ("tanh", 2)],
    &[("erf", 4), ("exp", 1), ("expm1", 1), ("log", 1), ("log1p", 1), ("sin", 1), ("tan", 1), ("tanh", 1)],
];

/// In single precision e^x is 2^x of the device, which may be off by 3 + 2 |x| units (Vulkan, Precision and Operation of SPIR-V
/// Instructions), |x| up to 128, and two roundings. The others are the printer's own arithmetic, with divisions off by 2.5 units.
const SPIRV: Errors = [
    &[("erf", 16), ("exp", 261), ("log", 8), ("log1p", 16), ("tanh", 16)],
    &[("erf", 8), ("exp", 8), ("log", 8), ("log1p", 16), ("tanh", 8)],
];

/// The largest errors of functions in kernels of a language.
pub const fn errors(language: Language) -> Errors {
    match language {
        Language::Cuda => CUDA,
        Language::Hip => HIP,
        Language::SpirV => SPIRV,
    }
}

/// What all steps of such kernels do, with or without the knob for bits that do not depend on the batch.
pub const fn engine(language: Language, batch_invariant: bool) -> Engine {
    generated(batch_invariant, errors(language))
}

/// What a kernel does by itself: its matrix instructions, and the parts of its sums.
pub fn of_kernel(kernel: &Kernel, target: &Target) -> Numerics {
    let mut numerics = Numerics::default();
    if kernel.parts > 1 {
        numerics = numerics.parts(kernel.parts);
    }
    for shape in kernel.shapes.iter().filter(|shape| shape.is_matrix()) {
        let bits = target.bits_of_sums(shape);
        numerics = numerics.matrix_sums(bits.map(|bits| MatrixSums { terms: shape.k, bits }));
    }
    numerics
}

#[cfg(test)]
mod tests {
    use hipdnn_kernels::product::{self, Matrix, Product};
    use hipdnn_kernels::{Builder, Scalar};
    use hipdnn_plugin_sdk::numerics::note;

    use super::*;

    /// The kernels of c = a · b.
    fn told(architecture: &str, operand: Scalar, [m, n, k]: [usize; 3]) -> Vec<Numerics> {
        let target = Target::of(architecture).unwrap();
        let matrix = |scalar, row, column| Matrix { scalar, row, column, batch: Vec::new(), alignment: 16 };
        let [a, b] = [matrix(operand, k, 1), matrix(operand, 1, k)];
        let c = matrix(if operand == Scalar::I8 { Scalar::I32 } else { Scalar::F32 }, n, 1);
        let product = Product { m, n, k, batch: Vec::new(), a, b, c, epilogue: None };
        let launches = product::write(&product, &target, "p", true).unwrap();
        launches.all.iter().map(|call| of_kernel(&call.launch.kernel, &target)).collect()
    }

    #[test]
    fn matrix_instructions_tell_their_terms_and_bits() {
        for (architecture, operand, expected) in [
            ("sm_90", Scalar::F16, Some((16, 24))),
            ("sm_80", Scalar::Bf16, Some((16, 24))),
            ("sm_90", Scalar::Fp8E4m3, Some((32, 14))),
            ("sm_89", Scalar::Fp8E5m2, Some((32, 14))),
            ("gfx1100", Scalar::F16, Some((16, 24))),
            ("gfx942", Scalar::Bf16, Some((16, 24))),
            ("gfx908", Scalar::Bf16, Some((8, 24))),
            // Exact, and without instructions.
            ("sm_90", Scalar::I8, None),
            ("sm_90", Scalar::F32, None),
        ] {
            let told = told(architecture, operand, [64, 64, 64]);
            let sums = expected.map(|(terms, bits)| MatrixSums { terms, bits });
            assert_eq!(told[0].matrix_sums, sums, "{architecture} {operand:?}");
            let has_matrices = told[0].notes.contains(&note::TENSOR_CORE);
            assert_eq!(has_matrices, operand != Scalar::F32, "{architecture} {operand:?}");
        }
    }

    #[test]
    fn kernels_that_share_sums_tell_their_parts() {
        let whole = told("sm_90", Scalar::F16, [4096, 4096, 64]);
        assert_eq!((whole.len(), whole[0].parts), (1, None));
        let shared = told("sm_90", Scalar::F16, [64, 64, 1 << 16]);
        assert_eq!(shared.len(), 2);
        assert!(shared[0].parts > Some(1) && shared[0].parts == shared[1].parts, "{shared:?}");
        let target = Target::of("sm_90").unwrap();
        assert!(of_kernel(&Builder::new("none", 64, &target).finish(), &target).is_empty());
    }

    #[test]
    fn functions_have_errors_in_both_precisions() {
        for language in [Language::Cuda, Language::Hip, Language::SpirV] {
            for errors in errors(language) {
                assert!(errors.is_sorted_by_key(|(name, _)| *name), "{language:?}");
                for name in ["erf", "exp", "log", "log1p", "tanh"] {
                    assert!(
                        errors.iter().any(|(own, error)| *own == name && *error > 0),
                        "{language:?} {name}"
                    );
                }
            }
        }
    }
}
