//! Loads and stores.

use rspirv::dr::Operand;
use rspirv::spirv::{Capability, Decoration, MemoryAccess, Op, StorageClass, Word};

use super::ids::{Kind, PointedTo, U32, U64};
use super::shared::Loaded;
use super::{Printer, packed};
use crate::form::{Instruction, Memory, Pointer, Shared, Value};
use crate::scalar::{Scalar, Type};

/// Bytes of the largest vector that is loaded at once.
const VECTOR: usize = 16;

impl Printer<'_> {
    pub(super) fn memory_instruction(&mut self, instruction: &Instruction) -> Result<(), String> {
        use Instruction as I;
        match instruction {
            I::Load { out, memory, index } => {
                let (type_, index) = (self.type_of(*out), self.index_of(*index));
                match self.load(*memory, index, type_)? {
                    Loaded::Words(words) if packed::words(type_).is_some() => self.assign_words(*out, words),
                    Loaded::Words(words) => {
                        let elements = self.unpack(&words, type_.scalar, usize::from(type_.lanes));
                        self.assign(*out, elements);
                    }
                    Loaded::Elements(elements) => self.assign(*out, elements),
                }
            }
            I::Store { memory, index, x } => {
                let (type_, index) = (self.type_of(*x), self.index_of(*index));
                let stored = match packed::words(type_) {
                    Some(_) => Loaded::Words(self.words_of(*x)),
                    None => Loaded::Elements(self.value(*x)),
                };
                self.store(*memory, index, type_, stored)?;
            }
            I::AsyncCopy { to, to_index, from, from_index, bytes, condition, .. } => {
                let places = (self.index_of(*to_index), self.index_of(*from_index));
                let condition = condition.map(|condition| self.single(condition));
                self.copy(*to, *from, places, usize::from(*bytes), condition)?;
            }
            // Copies are done when they return; the barrier behind the wait makes them visible.
            I::AsyncCommit | I::AsyncWait { .. } => {}
            other => return self.tile_instruction(other),
        }
        Ok(())
    }

    /// An index with its kind.
    fn index_of(&mut self, index: Value) -> (Word, Kind) {
        (self.single(index), self.kind(self.type_of(index).scalar))
    }

    /// An index some elements further.
    pub(super) fn further(&mut self, (index, kind): (Word, Kind), distance: usize) -> (Word, Kind) {
        if distance == 0 {
            return (index, kind);
        }
        let distance = self.constant(kind, distance as u64);
        (self.op(Op::IAdd, kind, &[index, distance]), kind)
    }

    /// The address of an element.
    fn address(&mut self, pointer: Pointer, (index, kind): (Word, Kind), size: usize) -> Word {
        let base = self.parameters.get(pointer.0 as usize).copied().unwrap_or_default();
        let wide = if kind == U64 { index } else { self.op(Op::SConvert, U64, &[index]) };
        let size = self.constant(U64, size as u64);
        let distance = self.op(Op::IMul, U64, &[wide, size]);
        self.op(Op::IAdd, U64, &[base, distance])
    }

    fn access(&mut self, address: Word, to: PointedTo) -> Word {
        self.op(Op::ConvertUToPtr, Kind::Pointer(StorageClass::PhysicalStorageBuffer, to), &[address])
    }

    /// How global memory is accessed. Its only writer is the thread or an earlier kernel.
    fn aligned(bytes: usize) -> [Operand; 2] {
        [Operand::MemoryAccess(MemoryAccess::ALIGNED), Operand::LiteralBit32(bytes as u32)]
    }

    /// Loads from an address.
    pub(super) fn load_word(&mut self, address: Word, to: PointedTo, alignment: usize) -> Word {
        let pointer = self.access(address, to);
        let kind: Option<Kind> = to.into();
        let type_ = self.type_id(kind.unwrap_or(U32));
        let operands = [vec![Operand::IdRef(pointer)], Self::aligned(alignment).to_vec()].concat();
        self.op_typed(Op::Load, type_, operands)
    }

    fn store_word(&mut self, address: Word, to: PointedTo, alignment: usize, word: Word) {
        let pointer = self.access(address, to);
        let operands =
            [vec![Operand::IdRef(pointer), Operand::IdRef(word)], Self::aligned(alignment).to_vec()].concat();
        self.act(Op::Store, operands);
    }

    /// Checks that the device has storage of this many bits, and declares its use.
    fn need_storage(&mut self, bits: u32) -> Result<(), String> {
        let f = self.features;
        let (has, name, capability) = match bits {
            8 => (f.storage_8_bit, "storageBuffer8BitAccess", Capability::StorageBuffer8BitAccess),
            16 => (f.storage_16_bit, "storageBuffer16BitAccess", Capability::StorageBuffer16BitAccess),
            _ => return Ok(()),
        };
        if !has {
            return Err(format!("the device lacks {name}"));
        }
        self.need(capability);
        Ok(())
    }

    /// Checks that the device computes with numbers of this many bits, and declares their use.
    pub(super) fn need_bits(&mut self, bits: u32) -> Result<(), String> {
        let (has, name, capability) = match bits {
            8 => (self.features.shader_int8, "shaderInt8", Capability::Int8),
            16 => (self.features.shader_int16, "shaderInt16", Capability::Int16),
            _ => return Ok(()),
        };
        if !has {
            return Err(format!("the device lacks {name}"));
        }
        self.need(capability);
        Ok(())
    }

    /// Loads the elements of a type.
    pub(super) fn load(
        &mut self,
        memory: Memory,
        index: (Word, Kind),
        type_: Type,
    ) -> Result<Loaded, String> {
        let (scalar, lanes) = (type_.scalar, usize::from(type_.lanes));
        let pointer = match memory {
            Memory::Shared(shared) => return self.load_shared(shared, index, type_),
            Memory::Global(pointer) => pointer,
        };
        self.need_double(scalar)?;
        let size = scalar.size();
        let address = self.address(pointer, index, size);
        if size == 8 {
            let load = |place: usize| {
                let distance = self.constant(U64, 8 * place as u64);
                let at = if place == 0 { address } else { self.op(Op::IAdd, U64, &[address, distance]) };
                let word = self.load_word(at, PointedTo::Int(64), 8);
                self.in_register(word, scalar)
            };
            return Ok(Loaded::Elements((0..lanes).map(load).collect()));
        }
        let bytes = size * lanes;
        if bytes.is_multiple_of(4) && bytes <= VECTOR {
            return Ok(Loaded::Words(self.load_words(address, bytes / 4)));
        }
        let bits = 8 * size as u32;
        self.need_storage(bits)?;
        let load = |place: usize| {
            let distance = self.constant(U64, (size * place) as u64);
            let at = if place == 0 { address } else { self.op(Op::IAdd, U64, &[address, distance]) };
            let word = self.load_word(at, PointedTo::Int(bits), size);
            self.in_register(word, scalar)
        };
        Ok(Loaded::Elements((0..lanes).map(load).collect()))
    }

    /// Loads one element.
    pub(super) fn load_one(
        &mut self,
        memory: Memory,
        index: (Word, Kind),
        scalar: Scalar,
    ) -> Result<Word, String> {
        let elements = match self.load(memory, index, scalar.into())? {
            Loaded::Words(words) => self.unpack(&words, scalar, 1),
            Loaded::Elements(elements) => elements,
        };
        Ok(elements.first().copied().unwrap_or_default())
    }

    fn load_words(&mut self, address: Word, count: usize) -> Vec<Word> {
        if count == 1 {
            return vec![self.load_word(address, PointedTo::Int(32), 4)];
        }
        let vector = self.load_word(address, PointedTo::Words(count as u32), 4 * count);
        self.words_in(vector, count)
    }

    /// The words of a vector, or of a word.
    pub(super) fn words_in(&mut self, vector: Word, count: usize) -> Vec<Word> {
        if count == 1 {
            return vec![vector];
        }
        let type_ = self.type_id(U32);
        let part = |place| {
            self.op_typed(
                Op::CompositeExtract,
                type_,
                vec![Operand::IdRef(vector), Operand::LiteralBit32(place)],
            )
        };
        (0..count as u32).map(part).collect()
    }

    /// The elements in words of 32 bits.
    pub(super) fn unpack(&mut self, words: &[Word], scalar: Scalar, lanes: usize) -> Vec<Word> {
        (0..lanes).map(|lane| self.unpack_one(words, scalar, lane)).collect()
    }

    /// An element in words of 32 bits.
    pub(super) fn unpack_one(&mut self, words: &[Word], scalar: Scalar, lane: usize) -> Word {
        let bits = 8 * scalar.size();
        let per = 32 / bits;
        let mut word = words.get(lane / per).copied().unwrap_or_default();
        if per > 1 {
            let [offset, count] = [lane % per * bits, bits].map(|number| self.int(number as i64));
            let op = if scalar == Scalar::I8 { Op::BitFieldSExtract } else { Op::BitFieldUExtract };
            word = self.op(op, U32, &[word, offset, count]);
        }
        match scalar {
            Scalar::F32 => self.op(Op::Bitcast, Kind::Float(32), &[word]),
            Scalar::Bool => {
                let zero = self.int(0);
                self.op(Op::INotEqual, Kind::Bool, &[word, zero])
            }
            _ => word,
        }
    }

    /// The words of 32 bits that hold elements.
    pub(super) fn pack(&mut self, elements: &[Word], scalar: Scalar) -> Vec<Word> {
        let bits = 8 * scalar.size();
        let own: Vec<Word> = elements.iter().map(|element| self.as_bits(*element, scalar)).collect();
        if bits == 32 {
            return own;
        }
        let join = |part: &[Word]| {
            let mut word = part.first().copied().unwrap_or_default();
            for (place, more) in part.iter().enumerate().skip(1) {
                let [offset, count] = [place * bits, bits].map(|number| self.int(number as i64));
                word = self.op(Op::BitFieldInsert, U32, &[word, *more, offset, count]);
            }
            word
        };
        own.chunks(32 / bits).map(join).collect()
    }

    /// A loaded word as a value.
    pub(super) fn in_register(&mut self, word: Word, scalar: Scalar) -> Word {
        match scalar {
            Scalar::F32 | Scalar::F64 => {
                let kind = self.kind(scalar);
                self.op(Op::Bitcast, kind, &[word])
            }
            Scalar::I32 | Scalar::I64 => word,
            Scalar::I8 => self.op(Op::SConvert, U32, &[word]),
            Scalar::Bool => {
                let wide = self.op(Op::UConvert, U32, &[word]);
                let zero = self.int(0);
                self.op(Op::INotEqual, Kind::Bool, &[wide, zero])
            }
            _ => self.op(Op::UConvert, U32, &[word]),
        }
    }

    /// A value's bits as a whole number of at least 32 bits.
    pub(super) fn as_bits(&mut self, element: Word, scalar: Scalar) -> Word {
        match scalar {
            Scalar::F32 => self.op(Op::Bitcast, U32, &[element]),
            Scalar::F64 => self.op(Op::Bitcast, U64, &[element]),
            Scalar::Bool => {
                let [one, zero] = [1, 0].map(|number| self.int(number));
                self.op(Op::Select, U32, &[element, one, zero])
            }
            _ => element,
        }
    }

    fn need_double(&mut self, scalar: Scalar) -> Result<(), String> {
        if scalar != Scalar::F64 {
            return Ok(());
        }
        if !self.features.shader_float64 {
            return Err("the device lacks shaderFloat64".to_owned());
        }
        self.need(Capability::Float64);
        Ok(())
    }

    /// Stores elements.
    pub(super) fn store(
        &mut self,
        memory: Memory,
        index: (Word, Kind),
        type_: Type,
        stored: Loaded,
    ) -> Result<(), String> {
        let (scalar, lanes) = (type_.scalar, usize::from(type_.lanes));
        let size = scalar.size();
        let pointer = match memory {
            Memory::Shared(shared) => return self.store_shared(shared, index, stored),
            Memory::Global(pointer) => pointer,
        };
        self.need_double(scalar)?;
        let address = self.address(pointer, index, size);
        let bytes = size * lanes;
        if size < 8 && bytes.is_multiple_of(4) && bytes <= VECTOR {
            let words = match stored {
                Loaded::Words(words) => words,
                Loaded::Elements(elements) => self.pack(&elements, scalar),
            };
            match *words.as_slice() {
                [word] => self.store_word(address, PointedTo::Int(32), 4, word),
                _ => {
                    let count = words.len() as u32;
                    let vector = self.op(Op::CompositeConstruct, Kind::Words(count), &words);
                    self.store_word(address, PointedTo::Words(count), bytes, vector);
                }
            }
            return Ok(());
        }
        let elements = match stored {
            Loaded::Words(words) => self.unpack(&words, scalar, lanes),
            Loaded::Elements(elements) => elements,
        };
        let bits = 8 * size as u32;
        self.need_storage(bits)?;
        for (place, element) in elements.iter().enumerate() {
            let distance = self.constant(U64, (size * place) as u64);
            let at = if place == 0 { address } else { self.op(Op::IAdd, U64, &[address, distance]) };
            let own = self.as_bits(*element, scalar);
            let word = if size < 4 { self.op(Op::UConvert, Kind::Int(bits), &[own]) } else { own };
            self.store_word(at, PointedTo::Int(bits), size, word);
        }
        Ok(())
    }

    /// Copies from global to shared memory; zeros where a condition does not hold.
    fn copy(
        &mut self,
        to: Shared,
        from: Pointer,
        (to_index, from_index): ((Word, Kind), (Word, Kind)),
        bytes: usize,
        condition: Option<Word>,
    ) -> Result<(), String> {
        let (scalar, _) = self.parameter_scalar(from.0);
        let type_ = scalar.by((bytes / scalar.size()).max(1) as u8);
        let Some(condition) = condition else {
            let loaded = self.load(Memory::Global(from), from_index, type_)?;
            return self.store(Memory::Shared(to), to_index, type_, loaded);
        };
        let kind = self.kind(scalar);
        let zeros = Loaded::Elements(vec![self.constant(kind, 0); usize::from(type_.lanes)]);
        self.either(
            condition,
            |p| {
                let loaded = p.load(Memory::Global(from), from_index, type_)?;
                p.store(Memory::Shared(to), to_index, type_, loaded)
            },
            |p| p.store(Memory::Shared(to), to_index, type_, zeros),
        )
    }

    /// Marks a result as computed without contracting it with others.
    pub(super) fn exact(&mut self, id: Word) -> Word {
        self.decorate(id, Decoration::NoContraction, Vec::new());
        id
    }
}
