//! The typed form of a kernel.
//!
//! Every value is assigned once and is visible in its block and the blocks inside it; constants are visible everywhere. Locals and tiles
//! are the only variables.
//! All threads of a workgroup reach a [`Instruction::Barrier`], and all threads of a subgroup each shuffle and
//! tile instruction, together, except for [`Instruction::TileGet`] and [`Instruction::TileSet`].

use crate::scalar::{Scalar, Type};
use crate::target::MatrixShape;
pub use crate::target::Role;

/// A value: its place in [`Kernel::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value(pub u32);

/// A mutable variable of each thread: its place in [`Kernel::locals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Local(pub u32);

/// A parameter: its place in [`Kernel::parameters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pointer(pub u32);

/// An array that the threads of a workgroup share: its place in [`Kernel::shared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shared(pub u32);

/// A matrix that the threads of a subgroup hold together: its place in [`Kernel::tiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile(pub u32);

/// Instructions in order.
pub type Block = Vec<Instruction>;

/// A kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name, an identifier of C.
    pub name: String,
    /// Threads of a workgroup, in one dimension.
    pub threads: u32,
    /// Threads of a subgroup.
    pub subgroup: u32,
    /// How many workgroups a compute unit should hold at once; registers are limited to fit.
    pub residents: u32,
    /// The most parts that a sum is divided into, whose sums kernels or threads leave for each other.
    pub parts: u32,
    /// What is passed, 8 bytes each.
    pub parameters: Vec<Parameter>,
    /// Shared arrays. They do not overlap and are aligned to 16 bytes.
    pub shared: Vec<SharedArray>,
    /// The types of locals.
    pub locals: Vec<Type>,
    /// The types of tiles.
    pub tiles: Vec<TileType>,
    /// The matrix shapes of tiles.
    pub shapes: Vec<MatrixShape>,
    /// The types of values.
    pub values: Vec<Type>,
    /// What is executed.
    pub body: Block,
}

impl Kernel {
    /// Bytes of all shared arrays.
    pub fn shared_bytes(&self) -> usize {
        self.shared.iter().map(|array| (array.length * array.scalar.size()).next_multiple_of(16)).sum()
    }

    /// The type of a value.
    pub fn type_of(&self, value: Value) -> Type {
        self.values.get(value.0 as usize).copied().unwrap_or(Type { scalar: Scalar::I32, lanes: 1 })
    }
}

/// A parameter of a kernel. Each takes 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// The address of elements in global memory.
    Memory {
        /// Their type.
        scalar: Scalar,
        /// Whether the kernel writes there.
        written: bool,
        /// What the address is a multiple of, in bytes.
        alignment: usize,
    },
    /// A number: `F64` or `I64`.
    Number(Scalar),
}

/// An array in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedArray {
    /// The type of elements.
    pub scalar: Scalar,
    /// Their number.
    pub length: usize,
}

/// The type of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileType {
    /// What it is for.
    pub role: Role,
    /// Its place in [`Kernel::shapes`].
    pub shape: u32,
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Neighbours of a row are neighbours in memory: (r, c) is at r * stride + c.
    Rows,
    /// Neighbours of a column are: (r, c) is at c * stride + r.
    Columns,
}

/// Where elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// In global memory, from a parameter on.
    Global(Pointer),
    /// In a shared array.
    Shared(Shared),
}

/// A constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    /// Of a type for real numbers.
    Float(f64),
    /// Of a type for whole numbers, or 0 and 1 for false and true.
    Int(i64),
}

/// A function of one value. The result has its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// −x.
    Neg,
    /// |x|.
    Abs,
    /// e^x.
    Exp,
    /// 2^x, with the device's fast instruction.
    Exp2,
    /// ln x.
    Log,
    /// √x.
    Sqrt,
    /// 1 / √x.
    Rsqrt,
    /// 1 / x.
    Reciprocal,
    /// The hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// The sine.
    Sin,
    /// The cosine.
    Cos,
    /// The largest whole number up to x.
    Floor,
    /// The smallest whole number from x.
    Ceil,
    /// Not, for `Bool`, or of all bits.
    Not,
}

/// A function of two values of one type. The result has their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// x + y; whole numbers of 64 bits wrap, those of 32 bits must not overflow. So do differences and products.
    Add,
    /// x − y.
    Sub,
    /// x · y.
    Mul,
    /// x / y; whole numbers are not negative.
    Div,
    /// The remainder of whole numbers that are not negative.
    Rem,
    /// The lesser; a NaN if either is.
    Min,
    /// The greater; a NaN if either is.
    Max,
    /// The lesser; the other if one is a NaN.
    MinNumber,
    /// The greater; the other if one is a NaN.
    MaxNumber,
    /// x to the power y.
    Pow,
    /// And, of bits or `Bool`.
    And,
    /// Or.
    Or,
    /// Exclusive or.
    Xor,
    /// Shift to the left.
    Shl,
    /// Shift to the right, with zeros.
    Shr,
}

/// A comparison. A NaN is unequal to all and neither less nor greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A number of the thread, an `I32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// The thread in its workgroup.
    Thread,
    /// The workgroup along an axis, 0 to 2.
    Group(u8),
    /// The thread in its subgroup.
    Lane,
    /// The subgroup in its workgroup.
    Subgroup,
}

/// An instruction. `out` is assigned here, once.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "operands are named by what they are")]
pub enum Instruction {
    /// A constant.
    Const { out: Value, constant: Constant },
    /// A function of one value.
    Unary { out: Value, op: Unary, x: Value },
    /// A function of two values.
    Binary { out: Value, op: Binary, x: Value, y: Value },
    /// x · y + z, rounded once.
    Fma { out: Value, x: Value, y: Value, z: Value },
    /// A comparison, a `Bool`.
    Compare { out: Value, op: Comparison, x: Value, y: Value },
    /// x where the condition holds, else y.
    Select { out: Value, condition: Value, x: Value, y: Value },
    /// x in the type of `out`, each element of a vector: to the nearest, ties to even; whole numbers from real ones toward zero,
    /// saturated, 0 for a NaN. 8-bit floats saturate at the largest finite value.
    Convert { out: Value, x: Value },
    /// The bits of x as another type of the same size.
    Bits { out: Value, x: Value },
    /// A vector of these elements.
    Build { out: Value, parts: Vec<Value> },
    /// An element of a vector.
    Extract { out: Value, x: Value, lane: u8 },
    /// A number of the thread.
    Index { out: Value, index: Index },
    /// A parameter that is a number.
    Number { out: Value, parameter: Pointer },
    /// A variable's value.
    Get { out: Value, local: Local },
    /// Assigns a variable.
    Set { local: Local, x: Value },
    /// Elements from `index` on. `index` counts elements of the memory's type and is a multiple of the vector's length.
    Load { out: Value, memory: Memory, index: Value },
    /// Writes elements from `index` on.
    Store { memory: Memory, index: Value, x: Value },
    /// Copies `bytes` (4, 8 or 16) from global to shared memory; they are there after [`Instruction::AsyncWait`] and a barrier. Both places are
    /// aligned to `bytes`. Where `condition` does not hold, zeros are written and nothing is read. `near`: the workgroup reads much of it again
    /// soon, so that a cache beside it may keep it.
    AsyncCopy {
        to: Shared,
        to_index: Value,
        from: Pointer,
        from_index: Value,
        bytes: u8,
        condition: Option<Value>,
        near: bool,
    },
    /// Ends a group of copies.
    AsyncCommit,
    /// Waits until at most `pending` of the last groups of copies of this thread are under way.
    AsyncWait { pending: u8 },
    /// Waits for all threads of the workgroup; what they wrote before is seen after it.
    Barrier,
    /// The value of the lane whose number differs in the bits of `mask`.
    ShuffleXor { out: Value, x: Value, mask: u32 },
    /// The value of the lane `lane`, an `I32`.
    Shuffle { out: Value, x: Value, lane: Value },
    /// One of two blocks.
    If { condition: Value, then: Block, otherwise: Block },
    /// `var` from `start` by `step` while less than `end`; all `I32`. `step` is positive.
    For { var: Value, start: Value, end: Value, step: Value, body: Block },
    /// Sets all elements; x has the type of the tile's elements.
    TileFill { tile: Tile, x: Value },
    /// Loads a tile from `index` on. Memory and tile have the same type of elements; `index` and `stride` are multiples of `aligned`.
    TileLoad { tile: Tile, memory: Memory, index: Value, stride: Value, order: Order, aligned: u8 },
    /// Stores a tile, as [`Instruction::TileLoad`] loads it.
    TileStore { tile: Tile, memory: Memory, index: Value, stride: Value, order: Order, aligned: u8 },
    /// sum += a · b.
    TileMultiply { sum: Tile, a: Tile, b: Tile },
    /// The thread's element `slot` of a tile ([`crate::target::Fragment`] says which it is).
    TileGet { out: Value, tile: Tile, slot: u16 },
    /// Replaces the thread's element `slot`.
    TileSet { tile: Tile, slot: u16, x: Value },
    /// Replaces every element of a tile by a block's result. The block sees the element as `element`, computes on no other tile, and gives
    /// `result`. On cooperative matrices it is executed for each slot of the thread in order. For tiles whose elements' places are not known.
    TileMap { tile: Tile, element: Value, body: Block, result: Value },
}
