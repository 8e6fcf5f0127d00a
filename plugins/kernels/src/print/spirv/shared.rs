//! Shared arrays, in the largest units that every access is a multiple of.

use rspirv::dr::Operand;
use rspirv::spirv::{MemoryAccess, Op, StorageClass, Word};

use super::Printer;
use super::ids::{Kind, PointedTo, U32};
use crate::form::{Block, Instruction, Kernel, Memory, Shared};
use crate::scalar::{Scalar, Type};
use crate::target::MatrixInstruction;

/// Bytes of the largest unit.
const LARGEST: usize = 16;

/// The bytes of each array's units.
pub(super) fn units(kernel: &Kernel) -> Vec<usize> {
    let mut all = vec![LARGEST; kernel.shared.len()];
    narrow(kernel, &kernel.body, &mut all);
    for (unit, array) in all.iter_mut().zip(&kernel.shared) {
        // Words of 32 bits make units; numbers of 64 are one each.
        if *unit < 4 || array.scalar.size() == 8 {
            *unit = array.scalar.size();
        }
    }
    all
}

fn narrow(kernel: &Kernel, block: &Block, all: &mut [usize]) {
    use Instruction as I;
    for instruction in block {
        let (shared, bytes) = match instruction {
            I::If { then, otherwise, .. } => {
                narrow(kernel, then, all);
                narrow(kernel, otherwise, all);
                continue;
            }
            I::For { body, .. } | I::TileMap { body, .. } => {
                narrow(kernel, body, all);
                continue;
            }
            I::Load { out: x, memory: Memory::Shared(shared), .. }
            | I::Store { x, memory: Memory::Shared(shared), .. } => {
                let type_ = kernel.type_of(*x);
                (shared, type_.scalar.size() * usize::from(type_.lanes))
            }
            I::AsyncCopy { to, bytes, .. } => (to, usize::from(*bytes)),
            I::TileLoad { tile, memory: Memory::Shared(shared), aligned, .. }
            | I::TileStore { tile, memory: Memory::Shared(shared), aligned, .. } => {
                let shape = kernel
                    .tiles
                    .get(tile.0 as usize)
                    .and_then(|tile| Some((kernel.shapes.get(tile.shape as usize)?, tile.role)));
                let Some((shape, role)) = shape else { continue };
                let size = shape.scalar(role).size();
                let is_whole = shape.instruction == MatrixInstruction::Cooperative;
                (shared, if is_whole { usize::from(*aligned).max(1) * size } else { size })
            }
            _ => continue,
        };
        if let Some(unit) = all.get_mut(shared.0 as usize) {
            // The largest power of two that divides it.
            *unit = (*unit).min(1 << bytes.trailing_zeros());
        }
    }
}

impl Printer<'_> {
    /// The type and the bytes of an array's units.
    pub(super) fn shared_unit(&self, shared: Shared) -> Result<(Scalar, usize), String> {
        let place = shared.0 as usize;
        match (self.kernel.shared.get(place), self.units.get(place)) {
            (Some(array), Some(unit)) => Ok((array.scalar, *unit)),
            _ => Err("the kernel names a shared array that it does not have".to_owned()),
        }
    }

    /// The variable of an array, and what its units are.
    pub(super) fn shared_variable(&mut self, shared: Shared) -> Result<(Word, PointedTo), String> {
        let (scalar, unit) = self.shared_unit(shared)?;
        let to = match unit {
            8 | 16 if scalar.size() < 8 => PointedTo::Words(unit as u32 / 4),
            _ => PointedTo::Int(8 * unit as u32),
        };
        if let PointedTo::Int(bits) = to {
            self.need_bits(bits)?;
        }
        if let Some(variable) = self.shared.get(&shared.0) {
            return Ok((*variable, to));
        }
        let length = self.kernel.shared.get(shared.0 as usize).map_or(0, |array| array.length);
        let kind: Option<Kind> = to.into();
        let element = self.type_id(kind.unwrap_or(U32));
        let length = self.int((length * scalar.size()).div_ceil(unit) as i64);
        let type_ = self.declare(Op::TypeArray, None, vec![Operand::IdRef(element), Operand::IdRef(length)]);
        let class = StorageClass::Workgroup;
        let pointer = self.type_id(Kind::Pointer(class, PointedTo::Other(type_)));
        let variable = self.declare(Op::Variable, Some(pointer), vec![Operand::StorageClass(class)]);
        self.interface.push(variable);
        self.shared.insert(shared.0, variable);
        Ok((variable, to))
    }

    /// An index of elements as one of units.
    pub(super) fn in_units(&mut self, index: Word, scalar: Scalar, unit: usize) -> Word {
        let shift = (unit / scalar.size()).trailing_zeros();
        if shift == 0 { index } else { self.whole(Op::ShiftRightLogical, index, i64::from(shift)) }
    }

    /// A pointer to the unit of an element, and what it points to.
    pub(super) fn shared_at(&mut self, shared: Shared, index: Word) -> Result<(Word, PointedTo), String> {
        let (variable, to) = self.shared_variable(shared)?;
        let (scalar, unit) = self.shared_unit(shared)?;
        let index = self.in_units(index, scalar, unit);
        let kind = Kind::Pointer(StorageClass::Workgroup, to);
        Ok((self.op(Op::AccessChain, kind, &[variable, index]), to))
    }

    /// How memory that other threads see is accessed.
    pub(super) fn seen_by_others(&self) -> Vec<Operand> {
        match self.is_cooperative {
            true => vec![Operand::MemoryAccess(MemoryAccess::NON_PRIVATE_POINTER)],
            false => Vec::new(),
        }
    }

    /// The words of a vector in a shared array, or its elements if the array's units are smaller than a word.
    fn is_in_words(&self, shared: Shared) -> Result<bool, String> {
        let (scalar, unit) = self.shared_unit(shared)?;
        Ok(unit >= 4 && scalar.size() < 8)
    }

    /// Loads a vector: words if the array has such, else elements.
    pub(super) fn load_shared(
        &mut self,
        shared: Shared,
        (index, kind): (Word, Kind),
        type_: Type,
    ) -> Result<Loaded, String> {
        let (scalar, unit) = self.shared_unit(shared)?;
        let lanes = usize::from(type_.lanes);
        if !self.is_in_words(shared)? {
            let mut elements = Vec::with_capacity(lanes);
            for place in 0..lanes {
                let (index, _) = self.further((index, kind), place);
                let word = self.load_unit(shared, index)?;
                elements.push(self.in_register(word, scalar));
            }
            return Ok(Loaded::Elements(elements));
        }
        let mut words = Vec::new();
        for place in (0..lanes).step_by(unit / scalar.size()) {
            let (index, _) = self.further((index, kind), place);
            let loaded = self.load_unit(shared, index)?;
            words.extend(self.words_in(loaded, unit / 4));
        }
        Ok(Loaded::Words(words))
    }

    fn load_unit(&mut self, shared: Shared, index: Word) -> Result<Word, String> {
        let (at, to) = self.shared_at(shared, index)?;
        let kind: Option<Kind> = to.into();
        let type_ = self.type_id(kind.unwrap_or(U32));
        let operands = [vec![Operand::IdRef(at)], self.seen_by_others()].concat();
        Ok(self.op_typed(Op::Load, type_, operands))
    }

    fn store_unit(&mut self, shared: Shared, index: Word, unit: Word) -> Result<(), String> {
        let (at, _) = self.shared_at(shared, index)?;
        let operands = [vec![Operand::IdRef(at), Operand::IdRef(unit)], self.seen_by_others()].concat();
        self.act(Op::Store, operands);
        Ok(())
    }

    /// Stores a vector.
    pub(super) fn store_shared(
        &mut self,
        shared: Shared,
        (index, kind): (Word, Kind),
        stored: Loaded,
    ) -> Result<(), String> {
        let (scalar, unit) = self.shared_unit(shared)?;
        let is_in_words = self.is_in_words(shared)?;
        let words = match stored {
            Loaded::Elements(elements) if is_in_words => self.pack(&elements, scalar),
            Loaded::Words(words) if is_in_words => words,
            other => {
                let elements = match other {
                    Loaded::Elements(elements) => elements,
                    Loaded::Words(words) => self.unpack(&words, scalar, words.len() * 4 / scalar.size()),
                };
                for (place, element) in elements.into_iter().enumerate() {
                    let (index, _) = self.further((index, kind), place);
                    let bits = self.as_bits(element, scalar);
                    let narrow = Kind::Int(8 * scalar.size() as u32);
                    let word = if scalar.size() < 4 { self.op(Op::UConvert, narrow, &[bits]) } else { bits };
                    self.store_unit(shared, index, word)?;
                }
                return Ok(());
            }
        };
        for (place, part) in words.chunks(unit / 4).enumerate() {
            let (index, _) = self.further((index, kind), place * unit / scalar.size());
            let whole = match *part {
                [word] => word,
                _ => self.op(Op::CompositeConstruct, Kind::Words(part.len() as u32), part),
            };
            self.store_unit(shared, index, whole)?;
        }
        Ok(())
    }
}

/// A vector between memory and registers.
pub(super) enum Loaded {
    /// Its elements.
    Elements(Vec<Word>),
    /// Its words of 32 bits.
    Words(Vec<Word>),
}
