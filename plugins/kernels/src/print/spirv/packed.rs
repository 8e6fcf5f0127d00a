//! Vectors of elements of less than 32 bits, which stay packed in words until an element is needed.

use rspirv::spirv::Word;

use super::Printer;
use crate::form::Value;
use crate::scalar::{Scalar, Type};

/// The words of 32 bits that a vector of smaller elements fills, if it does.
pub(super) fn words(type_: Type) -> Option<usize> {
    let bytes = type_.scalar.size() * usize::from(type_.lanes);
    let is_packed = type_.scalar.size() < 4 && type_.scalar != Scalar::Bool && bytes.is_multiple_of(4);
    is_packed.then_some(bytes / 4)
}

impl Printer<'_> {
    /// The elements of a value.
    pub(super) fn value(&mut self, value: Value) -> Vec<Word> {
        match self.packed.get(&value.0).cloned() {
            Some(words) => {
                let type_ = self.type_of(value);
                // Again at each use: an earlier one may be in a block that does not reach this.
                self.unpack(&words, type_.scalar, usize::from(type_.lanes))
            }
            None => match self.rounded.get(&value.0).copied() {
                Some(float) => vec![self.half_of_float(self.type_of(value).scalar, float)],
                None => self.values.get(value.0 as usize).cloned().unwrap_or_default(),
            },
        }
    }

    /// An element of a value.
    pub(super) fn element(&mut self, value: Value, lane: usize) -> Word {
        match self.packed.get(&value.0).cloned() {
            Some(words) => self.unpack_one(&words, self.type_of(value).scalar, lane),
            None => match self.rounded.get(&value.0).copied() {
                Some(float) => self.half_of_float(self.type_of(value).scalar, float),
                None => {
                    let elements = self.values.get(value.0 as usize);
                    elements.and_then(|elements| elements.get(lane)).copied().unwrap_or_default()
                }
            },
        }
    }

    /// The only element of a value, or the first.
    pub(super) fn single(&mut self, value: Value) -> Word {
        self.element(value, 0)
    }

    /// The words of a vector.
    pub(super) fn words_of(&mut self, value: Value) -> Vec<Word> {
        match self.packed.get(&value.0) {
            Some(words) => words.clone(),
            None => {
                let elements = self.value(value);
                self.pack(&elements, self.type_of(value).scalar)
            }
        }
    }

    /// Assigns a vector by its words.
    pub(super) fn assign_words(&mut self, out: Value, words: Vec<Word>) {
        self.packed.insert(out.0, words);
    }
}
