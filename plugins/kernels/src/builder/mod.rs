//! Writes kernels.
//!
//! ```
//! use hipdnn_kernels::form::{Index, Memory};
//! use hipdnn_kernels::{Builder, Scalar, Target};
//!
//! # fn write() -> Option<()> {
//! let mut b = Builder::new("twice", 256, &Target::of("gfx1100")?);
//! let x = b.pointer(Scalar::F32);
//! let y = b.output(Scalar::F32);
//! let [group, thread] = [b.index(Index::Group(0)), b.index(Index::Thread)];
//! let first = b.mul(group, 256);
//! let place = b.add(first, thread);
//! let inside = b.less(place, 1000);
//! b.when(inside, |b| {
//!     let own = b.load(Memory::Global(x), place);
//!     let twice = b.mul(own, 2.0);
//!     b.store(Memory::Global(y), place, twice);
//! });
//! let kernel = b.finish();
//! # assert_eq!(kernel.threads, 256);
//! # Some(())
//! # }
//! # assert_eq!(write(), Some(()));
//! ```

mod arithmetic;
mod memory;
mod tiles;

use std::collections::HashMap;

use crate::form::{
    Block, Constant, Index, Instruction, Kernel, Local, Parameter, Pointer, Shared, SharedArray, Value,
};
use crate::scalar::{Scalar, Type};
use crate::target::Target;

pub use tiles::At;

/// Writes one kernel. Operands are values or literals; literals take the other operand's type.
///
/// Types that do not match are mistakes of the kernel's author: [`Builder::finish`] gives a kernel that [`crate::interpret`] and the printers
/// would compute wrong, so every method checks them with an assertion in debug builds.
#[derive(Clone, Debug)]
pub struct Builder {
    kernel: Kernel,
    target: Target,
    blocks: Vec<Block>,
    constants: HashMap<u32, Constant>,
}

/// A value or a literal.
pub trait Operand {
    /// The value; literals become constants of the type `like`.
    fn of(self, builder: &mut Builder, like: Type) -> Value;

    /// The type, unless it is a literal.
    fn own_type(&self, builder: &Builder) -> Option<Type>;
}

impl Operand for Value {
    fn of(self, _: &mut Builder, _: Type) -> Value {
        self
    }

    fn own_type(&self, builder: &Builder) -> Option<Type> {
        Some(builder.kernel.type_of(*self))
    }
}

macro_rules! literals {
    ($($literal:ty)+) => {
        $(impl Operand for $literal {
            fn of(self, builder: &mut Builder, like: Type) -> Value {
                if like.scalar.is_float() {
                    builder.float(self as f64, like.scalar)
                } else {
                    builder.int(self as i64, like.scalar)
                }
            }

            fn own_type(&self, _: &Builder) -> Option<Type> {
                None
            }
        })+
    };
}

literals! { i32 u32 i64 usize f32 f64 }

impl Builder {
    /// A kernel whose workgroups have this many threads.
    pub fn new(name: impl Into<String>, threads: u32, target: &Target) -> Self {
        let kernel = Kernel {
            name: name.into(),
            threads,
            subgroup: target.subgroup,
            residents: 1,
            parts: 1,
            parameters: Vec::new(),
            shared: Vec::new(),
            locals: Vec::new(),
            tiles: Vec::new(),
            shapes: Vec::new(),
            values: Vec::new(),
            body: Vec::new(),
        };
        Self { kernel, target: target.clone(), blocks: vec![Vec::new()], constants: HashMap::new() }
    }

    /// The device that the kernel is for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The kernel.
    pub fn finish(mut self) -> Kernel {
        self.kernel.body = self.blocks.pop().unwrap_or_default();
        self.kernel
    }

    /// How many workgroups a compute unit should hold at once.
    pub fn residents(&mut self, residents: u32) {
        self.kernel.residents = residents;
    }

    /// The type of a value.
    pub fn type_of(&self, value: Value) -> Type {
        self.kernel.type_of(value)
    }

    pub(crate) fn push(&mut self, instruction: Instruction) {
        if let Some(block) = self.blocks.last_mut() {
            block.push(instruction);
        }
    }

    pub(crate) fn value(&mut self, type_: impl Into<Type>) -> Value {
        self.kernel.values.push(type_.into());
        Value(self.kernel.values.len() as u32 - 1)
    }

    /// The constant that a value is, if it is one.
    pub fn constant_of(&self, value: Value) -> Option<Constant> {
        self.constants.get(&value.0).copied()
    }

    fn constant(&mut self, constant: Constant, scalar: Scalar) -> Value {
        let out = self.value(scalar);
        self.constants.insert(out.0, constant);
        self.push(Instruction::Const { out, constant });
        out
    }

    /// A constant of a type for real numbers.
    pub fn float(&mut self, number: f64, scalar: Scalar) -> Value {
        self.constant(Constant::Float(number), scalar)
    }

    /// A constant of a type for whole numbers.
    pub fn int(&mut self, number: i64, scalar: Scalar) -> Value {
        self.constant(Constant::Int(number), scalar)
    }

    /// A constant `I32`, for indices.
    pub fn number(&mut self, number: usize) -> Value {
        self.int(number as i64, Scalar::I32)
    }

    /// A pointer to elements that the kernel reads.
    pub fn pointer(&mut self, scalar: Scalar) -> Pointer {
        self.parameter(Parameter::Memory { scalar, written: false, alignment: scalar.size() })
    }

    /// A pointer to elements that the kernel writes.
    pub fn output(&mut self, scalar: Scalar) -> Pointer {
        self.parameter(Parameter::Memory { scalar, written: true, alignment: scalar.size() })
    }

    /// Adds a parameter.
    pub fn parameter(&mut self, parameter: Parameter) -> Pointer {
        self.kernel.parameters.push(parameter);
        Pointer(self.kernel.parameters.len() as u32 - 1)
    }

    /// A number passed at execution: `F64` or `I64`.
    pub fn passed(&mut self, scalar: Scalar) -> Value {
        let parameter = self.parameter(Parameter::Number(scalar));
        self.passed_at(parameter)
    }

    /// The number that a parameter is.
    pub fn passed_at(&mut self, parameter: Pointer) -> Value {
        let out = match self.kernel.parameters.get(parameter.0 as usize) {
            Some(Parameter::Number(scalar)) => {
                let scalar = *scalar;
                self.value(scalar)
            }
            _ => self.value(Scalar::F64),
        };
        self.push(Instruction::Number { out, parameter });
        out
    }

    /// A shared array.
    pub fn shared(&mut self, scalar: Scalar, length: usize) -> Shared {
        self.kernel.shared.push(SharedArray { scalar, length });
        Shared(self.kernel.shared.len() as u32 - 1)
    }

    /// A number of the thread.
    pub fn index(&mut self, index: Index) -> Value {
        let out = self.value(Scalar::I32);
        self.push(Instruction::Index { out, index });
        out
    }

    /// A variable with its first value.
    pub fn local(&mut self, scalar: impl Into<Type>, first: impl Operand) -> Local {
        let type_ = scalar.into();
        self.kernel.locals.push(type_);
        let local = Local(self.kernel.locals.len() as u32 - 1);
        self.set(local, first);
        local
    }

    /// A variable's value.
    pub fn get(&mut self, local: Local) -> Value {
        let type_ = self.local_type(local);
        let out = self.value(type_);
        self.push(Instruction::Get { out, local });
        out
    }

    /// Assigns a variable.
    pub fn set(&mut self, local: Local, x: impl Operand) {
        let type_ = self.local_type(local);
        let x = x.of(self, type_);
        debug_assert_eq!(self.type_of(x), type_);
        self.push(Instruction::Set { local, x });
    }

    fn local_type(&self, local: Local) -> Type {
        self.kernel.locals.get(local.0 as usize).copied().unwrap_or(Scalar::I32.by(1))
    }

    fn block(&mut self, write: impl FnOnce(&mut Self)) -> Block {
        self.blocks.push(Vec::new());
        write(self);
        self.blocks.pop().unwrap_or_default()
    }

    /// Executes a block where a condition holds.
    pub fn when(&mut self, condition: Value, then: impl FnOnce(&mut Self)) {
        self.if_else(condition, then, |_| {});
    }

    /// Executes one of two blocks. A constant condition leaves only its block.
    pub fn if_else(
        &mut self,
        condition: Value,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        match self.constant_of(condition) {
            Some(Constant::Int(0)) => otherwise(self),
            Some(_) => then(self),
            None => {
                let then = self.block(then);
                let otherwise = self.block(otherwise);
                self.push(Instruction::If { condition, then, otherwise });
            }
        }
    }

    /// Executes a block with `I32`s from `start` up to below `end`, `step` apart.
    pub fn for_range(
        &mut self,
        start: impl Operand,
        end: impl Operand,
        step: impl Operand,
        body: impl FnOnce(&mut Self, Value),
    ) {
        let like = Scalar::I32.into();
        let [start, end, step] = [start.of(self, like), end.of(self, like), step.of(self, like)];
        let var = self.value(Scalar::I32);
        let body = self.block(|b| body(b, var));
        self.push(Instruction::For { var, start, end, step, body });
    }

    /// Waits for all threads of the workgroup.
    pub fn barrier(&mut self) {
        self.push(Instruction::Barrier);
    }
}
