//! The modules of a saved plan as bytes, so that a process that loads it neither writes them anew nor, with the same driver, compiles them.
//!
//! Numbers are little endian; lists begin with their length in 32 bits.

use hipdnn_kernels::print::spirv::Spirv;
use hipdnn_plugin_sdk::graph::{DataType, Graph};

use crate::bind::Binding;
use crate::code::{Code, Kernel, PARAMETERS, Slot, new_binding};

/// The first word of every module.
const MAGIC: u32 = 0x0723_0203;

/// Modules, and what a driver made of each.
#[derive(Debug, PartialEq, Eq)]
pub struct Saved {
    /// The modules.
    pub code: Code,
    /// The driver's data for each kernel; empty ones are not known.
    pub data: Vec<Vec<u8>>,
}

struct Writer(Vec<u8>);

impl Writer {
    fn words(&mut self, words: impl IntoIterator<Item = u32>) {
        for word in words {
            self.0.extend(word.to_le_bytes());
        }
    }

    fn long(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.words([bytes.len() as u32]);
        self.0.extend(bytes);
    }

    fn slot(&mut self, slot: Slot) {
        let (kind, number, [place, alignment], offset) = match slot {
            Slot::Bound(place, alignment) => (0, 0, [place, alignment], 0),
            Slot::Between(offset) => (1, 0, [0; 2], offset),
            Slot::Unmarked(place, alignment, offset) => (2, 0, [place, alignment], offset),
            Slot::Number(uid, data_type) => (3, data_type.wire(), [0; 2], uid.cast_unsigned()),
        };
        self.words([u32::from_le_bytes([kind, number, 0, 0]), place as u32, alignment as u32]);
        self.long(offset);
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    fn long(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.word()? as usize;
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A list whose elements are of at least so many bytes.
    fn list<T>(&mut self, bytes: usize, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.word()? as usize;
        // No more room than the bytes can fill.
        let mut list = Vec::with_capacity(count.min(self.0.len() / bytes));
        for _ in 0..count {
            list.push(read(self)?);
        }
        Some(list)
    }

    fn slot(&mut self, bindings: usize) -> Option<Slot> {
        let [kind, number, _, _] = self.word()?.to_le_bytes();
        let (place, alignment, offset) = (self.word()? as usize, self.word()? as usize, self.long()?);
        let is_bound = place < bindings && alignment > 0;
        match kind {
            0 if is_bound => Some(Slot::Bound(place, alignment)),
            1 => Some(Slot::Between(offset)),
            2 if is_bound => Some(Slot::Unmarked(place, alignment, offset)),
            3 => Some(Slot::Number(offset.cast_signed(), DataType::from_wire(number)?)),
            _ => None,
        }
    }

    fn binding(&mut self, graph: &Graph) -> Option<Binding> {
        let (uid, [reads, writes, is_optional, _]) =
            (self.long()?.cast_signed(), self.word()?.to_le_bytes().map(|flag| flag != 0));
        // The graph tells its size.
        let own = new_binding(graph.tensor(uid)?, is_optional).ok()?;
        Some(Binding { reads, writes, ..own })
    }

    fn kernel(&mut self, bindings: usize) -> Option<(Kernel, Vec<u8>)> {
        let name = std::str::from_utf8(self.bytes()?).ok()?.to_owned();
        let nodes = self.list(4, |reader| reader.word().map(|node| node as usize))?;
        let groups = [self.word()?, self.word()?, self.word()?];
        let [threads, parts] = [self.word()?, self.word()?];
        let [is_indirect, has_float_numbers, has_matrices, sizes] =
            self.word()?.to_le_bytes().map(|flag| flag != 0);
        let (subgroup, push_bytes) = (self.word()?, self.word()?);
        let words = self.list(4, Self::word)?;
        let slots = self.list(20, |reader| reader.slot(bindings))?;
        let data = self.bytes()?.to_vec();
        let bytes = 8 * slots.len();
        let is_whole = words.first() == Some(&MAGIC)
            && bytes <= PARAMETERS
            && push_bytes as usize == if is_indirect { 8 } else { bytes };
        let subgroup = sizes.then_some(subgroup);
        let module = Spirv { words, push_bytes, is_indirect, has_float_numbers, subgroup };
        let slots = slots.into();
        let kernel = Kernel { name, nodes, module, groups, threads, slots, has_matrices, parts };
        is_whole.then_some((kernel, data))
    }
}

impl Saved {
    /// The bytes, for what has this key.
    pub fn write(&self, key: u64) -> Vec<u8> {
        let Code { kernels, bindings, between } = &self.code;
        let mut to = Writer(Vec::new());
        to.long(key);
        to.long(*between);
        to.words([bindings.len() as u32]);
        for own in bindings {
            to.long(own.uid.cast_unsigned());
            to.words([u32::from_le_bytes([own.reads, own.writes, own.is_optional, false].map(u8::from))]);
        }
        to.words([kernels.len() as u32]);
        for (place, kernel) in kernels.iter().enumerate() {
            let module = &kernel.module;
            to.bytes(kernel.name.as_bytes());
            to.words([kernel.nodes.len() as u32]);
            to.words(kernel.nodes.iter().map(|node| *node as u32));
            to.words(kernel.groups);
            let flags = [
                module.is_indirect,
                module.has_float_numbers,
                kernel.has_matrices,
                module.subgroup.is_some(),
            ];
            let flags = u32::from_le_bytes(flags.map(u8::from));
            to.words([kernel.threads, kernel.parts, flags, module.subgroup.unwrap_or(0), module.push_bytes]);
            to.words([module.words.len() as u32]);
            to.words(module.words.iter().copied());
            to.words([kernel.slots.len() as u32]);
            for slot in &kernel.slots {
                to.slot(*slot);
            }
            to.bytes(self.data.get(place).map(Vec::as_slice).unwrap_or_default());
        }
        to.0
    }

    /// What was written for this key and graph; none for another key, or if the bytes are not whole.
    pub fn read(bytes: &[u8], key: u64, graph: &Graph) -> Option<Self> {
        let mut from = Reader(bytes);
        if from.long()? != key {
            return None;
        }
        let between = from.long()?;
        let bindings = from.list(12, |reader| reader.binding(graph))?;
        let both = from.list(44, |reader| reader.kernel(bindings.len()))?;
        let (kernels, data) = both.into_iter().unzip();
        from.0.is_empty().then_some(Self { code: Code { kernels, bindings, between }, data })
    }
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::Tensor;

    use super::*;

    fn graph() -> Graph {
        let tensor = |uid| Tensor::packed(uid, DataType::Half, &[3, 5]);
        Graph { tensors: vec![tensor(4), tensor(7)], ..Graph::default() }
    }

    fn saved() -> Saved {
        let slots = [
            Slot::Bound(0, 16),
            Slot::Between(256),
            Slot::Unmarked(1, 2, 512),
            Slot::Number(-9, DataType::Double),
        ];
        let module = Spirv {
            words: vec![MAGIC, 1, 2, 3],
            push_bytes: 32,
            is_indirect: false,
            has_float_numbers: true,
            subgroup: Some(32),
        };
        let kernel = Kernel {
            name: "kernel_0".to_owned(),
            nodes: vec![0, 2],
            module: module.clone(),
            groups: [7, 2, 1],
            threads: 64,
            slots: slots.into(),
            has_matrices: true,
            parts: 3,
        };
        let module = Spirv { push_bytes: 8, is_indirect: true, subgroup: None, ..module };
        let other = Kernel { module, name: "kernel_1".to_owned(), ..kernel.clone() };
        let binding = |place: usize, reads| Binding {
            reads,
            writes: !reads,
            ..new_binding(&graph().tensors[place], !reads).unwrap()
        };
        let bindings = vec![binding(0, true), binding(1, false)];
        Saved {
            code: Code { kernels: vec![kernel, other], bindings, between: 1024 },
            data: vec![b"of a driver".to_vec(), Vec::new()],
        }
    }

    #[test]
    fn modules_are_read_as_they_were_written_for_the_same_key_and_graph() {
        let bytes = saved().write(5);
        assert_eq!(Saved::read(&bytes, 5, &graph()), Some(saved()));
        assert_eq!(Saved::read(&bytes, 6, &graph()), None);
        assert_eq!(Saved::read(&bytes, 5, &Graph::default()), None);
    }

    #[test]
    fn bytes_that_are_not_whole_are_refused() {
        let bytes = saved().write(5);
        for size in 0..bytes.len() {
            assert_eq!(Saved::read(&bytes[..size], 5, &graph()), None, "{size}");
        }
        assert_eq!(Saved::read(&[&bytes[..], &[0]].concat(), 5, &graph()), None);
        let mut wrong = saved();
        wrong.code.kernels[0].module.push_bytes = 40;
        assert_eq!(Saved::read(&wrong.write(5), 5, &graph()), None);
        let mut wrong = saved();
        wrong.code.kernels[1].slots[0] = Slot::Bound(2, 16);
        assert_eq!(Saved::read(&wrong.write(5), 5, &graph()), None);
        let mut wrong = saved();
        wrong.code.kernels[1].module.words[0] = 0;
        assert_eq!(Saved::read(&wrong.write(5), 5, &graph()), None);
    }
}
