//! Devices as data: what kernels are written for.

mod amd;
mod nvidia;
mod places;
mod plain;
mod vulkan;

use crate::scalar::Scalar;

pub use vulkan::{CooperativeShape, VulkanDevice};

/// The language that a kernel is printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    /// C++ for hipRTC.
    Hip,
    /// C++ for NVRTC.
    Cuda,
    /// SPIR-V for Vulkan, with 64-bit buffer addresses.
    SpirV,
}

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its architecture: `gfx1100`, `sm_90`, or a Vulkan device's name.
    pub name: String,
    /// The language of its kernels.
    pub language: Language,
    /// Threads of a subgroup.
    pub subgroup: u32,
    /// Bytes of shared memory of a workgroup.
    pub shared: usize,
    /// Bytes of shared memory of a compute unit.
    pub shared_of_unit: usize,
    /// Threads of a workgroup, at most.
    pub threads: u32,
    /// Registers of 32 bits of a thread, at most.
    pub registers: u32,
    /// Registers of a compute unit, in thousands of 32 bits.
    pub registers_of_unit: u32,
    /// Compute units of the architecture's usual device, or 0. Kernels depend on it, so for HIP and CUDA it is not that of the device at
    /// hand: plans made ahead of time have the same kernels.
    pub units: u32,
    /// Whether [`crate::form::Instruction::AsyncCopy`] goes on beside other work; elsewhere it is an ordinary copy.
    pub copies_beside: bool,
    /// Its matrix instructions, the best first.
    pub shapes: Vec<MatrixShape>,
    /// Which tiles products and convolutions have: 0 those that a model of the device finds best, 1 the next, and so on to the last.
    pub tiles: usize,
}

/// Which matrix of a matrix instruction a tile is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The left operand, m × k.
    A,
    /// The right operand, k × n.
    B,
    /// The sum, m × n.
    Accumulator,
}

/// A matrix instruction: m × k by k × n.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    /// Rows of the left operand.
    pub m: u32,
    /// Columns of the right operand.
    pub n: u32,
    /// Columns of the left operand.
    pub k: u32,
    /// The type of both operands' elements.
    pub operand: Scalar,
    /// The type of sums.
    pub sum: Scalar,
    /// The instruction.
    pub instruction: MatrixInstruction,
    /// Where the elements of A, B and the sum are; none if the device does not tell.
    pub fragments: Option<Box<[Fragment; 3]>>,
}

/// An instruction that multiplies matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixInstruction {
    /// WMMA of RDNA 3.
    WmmaGfx11,
    /// WMMA of RDNA 4.
    WmmaGfx12,
    /// MFMA, by the end of the builtin's name after `__builtin_amdgcn_mfma_`.
    Mfma(&'static str),
    /// `mma.sync`, two instructions side by side.
    MmaSync,
    /// Multiplications and additions of each thread.
    Plain,
    /// A cooperative matrix of Vulkan.
    Cooperative,
}

/// A part of an index that depends on the lane: lane / `divisor` % `modulus` * `factor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LanePart {
    /// What the lane is divided by.
    pub divisor: u32,
    /// How many different values there are.
    pub modulus: u32,
    /// What each is multiplied by.
    pub factor: u32,
}

impl LanePart {
    /// The part of a lane.
    pub fn at(self, lane: u32) -> u32 {
        lane / self.divisor % self.modulus * self.factor
    }
}

/// Which elements of a tile each thread of a subgroup holds. Slot s of lane l is at row `row.at(l) + slots[s].0` and column
/// `column.at(l) + slots[s].1`. Operands may be held by several lanes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// What the lane adds to the row.
    pub row: LanePart,
    /// What the lane adds to the column.
    pub column: LanePart,
    /// The slots' rows and columns.
    pub slots: Vec<(u32, u32)>,
}

impl Fragment {
    /// The place of a slot.
    pub fn at(&self, lane: u32, slot: usize) -> (u32, u32) {
        let (row, column) = self.slots.get(slot).copied().unwrap_or_default();
        (self.row.at(lane) + row, self.column.at(lane) + column)
    }
}

impl MatrixShape {
    /// Rows and columns of a tile.
    pub fn dims(&self, role: Role) -> (u32, u32) {
        match role {
            Role::A => (self.m, self.k),
            Role::B => (self.k, self.n),
            Role::Accumulator => (self.m, self.n),
        }
    }

    /// The type of a tile's elements.
    pub fn scalar(&self, role: Role) -> Scalar {
        if role == Role::Accumulator { self.sum } else { self.operand }
    }

    /// Where a tile's elements are.
    pub fn fragment(&self, role: Role) -> Option<&Fragment> {
        let [a, b, sum] = self.fragments.as_deref()?;
        Some(match role {
            Role::A => a,
            Role::B => b,
            Role::Accumulator => sum,
        })
    }

    /// Whether only memory tells products which element is which, also where attention knows it: stores of neighbours are wider so.
    pub fn is_opaque(&self) -> bool {
        self.instruction == MatrixInstruction::Cooperative
    }

    /// Whether the device has an instruction for it.
    pub fn is_matrix(&self) -> bool {
        self.instruction != MatrixInstruction::Plain
    }
}

impl Target {
    /// The target of an architecture of AMD or NVIDIA: `gfx1100` (what follows a colon is ignored), `sm_90`.
    pub fn of(architecture: &str) -> Option<Self> {
        let name = architecture.split(':').next().unwrap_or_default();
        match name.strip_prefix("sm_") {
            Some(number) => {
                let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
                Some(nvidia::target(name, digits.parse().ok()?))
            }
            None => amd::target(name),
        }
    }

    /// Compute units; a usual number if it is not known.
    pub fn units_or_usual(&self) -> usize {
        if self.units == 0 { 64 } else { self.units as usize }
    }

    /// Whether kernels should be small: the compilers of CPUs, whose subgroups are short, take long for others.
    pub fn wants_small_kernels(&self) -> bool {
        self.language == Language::SpirV && self.subgroup <= 8
    }

    /// The significant bits that a matrix instruction keeps of products and sums, at least; none if that is not known.
    ///
    /// NVIDIA's cut what is below: 14 bits of 8-bit floats on Hopper and Ada (DeepSeek-V3, arXiv:2412.19437, 3.3.2), which also holds
    /// for later ones, that keep more, and 24 of others (Khattak, Mikaitis, Accurate Models of NVIDIA Tensor Cores,
    /// arXiv:2512.07004). AMD's add in single precision.
    pub fn bits_of_sums(&self, shape: &MatrixShape) -> Option<u32> {
        let is_small = matches!(shape.operand, Scalar::Fp8E4m3 | Scalar::Fp8E5m2);
        match shape.instruction {
            _ if shape.sum != Scalar::F32 => None,
            MatrixInstruction::MmaSync if is_small => Some(14),
            MatrixInstruction::MmaSync
            | MatrixInstruction::WmmaGfx11
            | MatrixInstruction::WmmaGfx12
            | MatrixInstruction::Mfma(_) => Some(24),
            // A driver's own.
            MatrixInstruction::Cooperative | MatrixInstruction::Plain => None,
        }
    }

    /// The best matrix shape for operands of a type. Every target has one for f16, bf16, f32, i8 and u8.
    pub fn shape(&self, operand: Scalar) -> Option<&MatrixShape> {
        self.shapes.iter().find(|shape| shape.operand == operand)
    }

    /// The shape of ordinary instructions for operands of a type.
    pub fn plain(&self, operand: Scalar) -> MatrixShape {
        plain::shape(self.subgroup, operand, plain::ROWS)
    }

    /// The same with half as many rows, for kernels whose rows are long.
    pub fn narrow(&self, operand: Scalar) -> MatrixShape {
        plain::shape(self.subgroup, operand, plain::ROWS / 2)
    }
}

const fn part(divisor: u32, modulus: u32, factor: u32) -> LanePart {
    LanePart { divisor, modulus, factor }
}

/// A lane part that is 0.
const NONE: LanePart = part(1, 1, 0);

#[cfg(test)]
mod tests;
