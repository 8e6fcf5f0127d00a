//! Loads and stores.

use super::{Builder, Operand};
use crate::form::{Instruction, Memory, Parameter, Pointer, Shared, Value};
use crate::scalar::Scalar;

impl Builder {
    /// The type of a memory's elements.
    pub fn scalar_of(&self, memory: Memory) -> Scalar {
        match memory {
            Memory::Global(pointer) => match self.kernel.parameters.get(pointer.0 as usize) {
                Some(Parameter::Memory { scalar, .. } | Parameter::Number(scalar)) => *scalar,
                None => Scalar::I32,
            },
            Memory::Shared(shared) => {
                self.kernel.shared.get(shared.0 as usize).map_or(Scalar::I32, |array| array.scalar)
            }
        }
    }

    /// The element at `index`.
    pub fn load(&mut self, memory: Memory, index: impl Operand) -> Value {
        self.load_vector(memory, index, 1)
    }

    /// `lanes` elements from `index` on, a multiple of `lanes`.
    pub fn load_vector(&mut self, memory: Memory, index: impl Operand, lanes: usize) -> Value {
        let index = index.of(self, Scalar::I32.into());
        let type_ = self.scalar_of(memory).by(lanes as u8);
        self.align(memory, usize::from(type_.lanes) * type_.scalar.size());
        let out = self.value(type_);
        self.push(Instruction::Load { out, memory, index });
        out
    }

    /// Writes an element, or a vector's, at `index`.
    pub fn store(&mut self, memory: Memory, index: impl Operand, x: impl Operand) {
        let index = index.of(self, Scalar::I32.into());
        let scalar = self.scalar_of(memory);
        let x = x.of(self, scalar.into());
        let type_ = self.type_of(x);
        debug_assert_eq!(type_.scalar, scalar, "stored values have the memory's type");
        self.align(memory, usize::from(type_.lanes) * type_.scalar.size());
        self.push(Instruction::Store { memory, index, x });
    }

    /// Copies `bytes` from global to shared memory beside other work, or zeros where a condition does not hold.
    pub fn async_copy(
        &mut self,
        to: (Shared, Value),
        from: (Pointer, Value),
        bytes: usize,
        condition: Option<Value>,
    ) {
        self.async_copy_again(to, from, bytes, condition, false);
    }

    /// As [`Builder::async_copy`]; `near` if the workgroup soon reads it again.
    pub fn async_copy_again(
        &mut self,
        to: (Shared, Value),
        from: (Pointer, Value),
        bytes: usize,
        condition: Option<Value>,
        near: bool,
    ) {
        self.align(Memory::Global(from.0), bytes);
        self.push(Instruction::AsyncCopy {
            to: to.0,
            to_index: to.1,
            from: from.0,
            from_index: from.1,
            bytes: bytes as u8,
            condition,
            near,
        });
    }

    /// Ends a group of copies.
    pub fn async_commit(&mut self) {
        self.push(Instruction::AsyncCommit);
    }

    /// Waits until at most `pending` groups of copies are under way.
    pub fn async_wait(&mut self, pending: usize) {
        self.push(Instruction::AsyncWait { pending: pending as u8 });
    }

    fn align(&mut self, memory: Memory, bytes: usize) {
        if let Memory::Global(pointer) = memory
            && let Some(Parameter::Memory { alignment, .. }) =
                self.kernel.parameters.get_mut(pointer.0 as usize)
        {
            *alignment = bytes.max(*alignment);
        }
    }
}
