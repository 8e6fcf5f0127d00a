//! Devices with a Vulkan driver, described by what the driver says.

use super::{Fragment, Language, MatrixInstruction, MatrixShape, Target, plain};
use crate::scalar::Scalar;

/// A cooperative matrix that a device has, with subgroup scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CooperativeShape {
    /// Rows of the left operand.
    pub m: u32,
    /// Columns of the right operand.
    pub n: u32,
    /// Columns of the left operand.
    pub k: u32,
    /// The type of operands.
    pub operand: Scalar,
    /// The type of sums.
    pub sum: Scalar,
    /// Where the elements of A, B and the sum are, if a test told.
    pub fragments: Option<Box<[Fragment; 3]>>,
}

/// What a target needs to know of a Vulkan device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VulkanDevice {
    /// Its name.
    pub name: String,
    /// Threads of a subgroup.
    pub subgroup: u32,
    /// `maxComputeSharedMemorySize`.
    pub shared: usize,
    /// `maxComputeWorkGroupInvocations`.
    pub threads: u32,
    /// Compute units, or 0 if the driver does not tell.
    pub units: u32,
    /// The trusted matrix shapes, the best first.
    pub shapes: Vec<CooperativeShape>,
}

impl From<VulkanDevice> for Target {
    fn from(device: VulkanDevice) -> Self {
        use Scalar::{Bf16, F16, F32, Fp8E4m3, Fp8E5m2, I8, U8};
        let cooperative = |shape: &CooperativeShape| MatrixShape {
            m: shape.m,
            n: shape.n,
            k: shape.k,
            operand: shape.operand,
            sum: shape.sum,
            instruction: MatrixInstruction::Cooperative,
            fragments: shape.fragments.clone(),
        };
        let mut shapes: Vec<MatrixShape> = device.shapes.iter().map(cooperative).collect();
        let all = [F16, Bf16, F32, I8, U8, Fp8E4m3, Fp8E5m2];
        shapes.extend(all.map(|operand| plain::shape(device.subgroup, operand, plain::ROWS)));
        Self {
            name: device.name,
            language: Language::SpirV,
            subgroup: device.subgroup,
            shared: device.shared,
            // Drivers do not tell; units hold two of the largest workgroups at least.
            shared_of_unit: 2 * device.shared,
            threads: device.threads,
            registers: 128,
            registers_of_unit: 64,
            units: device.units,
            copies_beside: false,
            shapes,
            tiles: 0,
        }
    }
}
