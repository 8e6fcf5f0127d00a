//! What a kernel multiplies for each byte that it reads from global memory, counted in its instructions.

use std::collections::HashMap;

use crate::form::{Block, Constant, Instruction, Kernel, Memory, Value};

/// Counts of a workgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Matrix instructions, or tiles of multiplications.
    pub multiplies: f64,
    /// Bytes read from global memory.
    pub bytes: f64,
}

impl Traffic {
    /// What a round of the outermost loop with multiplications does; of a kernel without such a loop, all that it does.
    pub fn of(kernel: &Kernel) -> Self {
        let mut counting = Counting { kernel, known: HashMap::new() };
        counting.learn(&kernel.body);
        counting.rounds(&kernel.body).unwrap_or_else(|| counting.block(&kernel.body))
    }
}

struct Counting<'a> {
    kernel: &'a Kernel,
    /// Constants.
    known: HashMap<Value, i64>,
}

impl Counting<'_> {
    fn learn(&mut self, block: &Block) {
        for instruction in block {
            match instruction {
                Instruction::Const { out, constant: Constant::Int(number) } => {
                    self.known.insert(*out, *number);
                }
                Instruction::If { then, otherwise, .. } => {
                    self.learn(then);
                    self.learn(otherwise);
                }
                Instruction::For { body, .. } | Instruction::TileMap { body, .. } => self.learn(body),
                _ => {}
            }
        }
    }

    /// A round of the first loop that multiplies.
    fn rounds(&self, block: &Block) -> Option<Traffic> {
        block.iter().find_map(|instruction| match instruction {
            Instruction::For { body, .. } => Some(self.block(body)).filter(|own| own.multiplies > 0.0),
            Instruction::If { then, otherwise, .. } => self.rounds(then).or_else(|| self.rounds(otherwise)),
            _ => None,
        })
    }

    fn block(&self, block: &Block) -> Traffic {
        let subgroups = f64::from(self.kernel.threads.div_ceil(self.kernel.subgroup.max(1)));
        let threads = f64::from(self.kernel.threads);
        let mut sum = Traffic::default();
        for instruction in block {
            let own = match instruction {
                Instruction::TileMultiply { .. } => Traffic { multiplies: subgroups, bytes: 0.0 },
                Instruction::Load { out, memory: Memory::Global(_), .. } => {
                    let loaded = self.kernel.type_of(*out);
                    let bytes = loaded.scalar.size() * loaded.lanes as usize;
                    Traffic { multiplies: 0.0, bytes: bytes as f64 * threads }
                }
                Instruction::AsyncCopy { bytes, .. } => {
                    Traffic { multiplies: 0.0, bytes: f64::from(*bytes) * threads }
                }
                Instruction::If { then, otherwise, .. } => {
                    // Few branches read memory; the longer one counts.
                    let (then, otherwise) = (self.block(then), self.block(otherwise));
                    Traffic {
                        multiplies: then.multiplies.max(otherwise.multiplies),
                        bytes: then.bytes.max(otherwise.bytes),
                    }
                }
                Instruction::For { start, end, step, body, .. } => {
                    let own = self.block(body);
                    let bounds = [start, end, step].map(|value| self.known.get(value).copied());
                    let rounds = match bounds {
                        [Some(start), Some(end), Some(step)] if step > 0 => {
                            (end - start).max(0) as u64 as f64 / step as f64
                        }
                        _ => 1.0,
                    };
                    Traffic { multiplies: own.multiplies * rounds.ceil(), bytes: own.bytes * rounds.ceil() }
                }
                _ => Traffic::default(),
            };
            sum.multiplies += own.multiplies;
            sum.bytes += own.bytes;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;
    use crate::form::Memory;
    use crate::scalar::Scalar;
    use crate::target::{Role, Target};

    #[test]
    fn rounds_of_the_loop_that_multiplies_are_counted() {
        let target = Target::of("gfx1100").unwrap();
        let shape = target.shape(Scalar::F16).unwrap().clone();
        let mut b = Builder::new("kernel", 64, &target);
        let (from, to) = (b.pointer(Scalar::F16), b.output(Scalar::F32));
        let [a, other] = [Role::A, Role::B].map(|role| b.tile(role, &shape));
        let sum = b.sums(&shape);
        let zero = b.number(0);
        // What is before the loop does not count.
        let before = b.load_vector(Memory::Global(from), zero, 8);
        let first = b.extract(before, 0);
        b.for_range(zero, 1024, 32, |b, k| {
            b.load_vector(Memory::Global(from), k, 8);
            b.for_range(0, 20, 8, |b, _| {
                b.load(Memory::Global(from), zero);
                b.tile_multiply(sum, a, other);
            });
        });
        let number = b.convert(first, Scalar::F32);
        b.store(Memory::Global(to), zero, number);
        let kernel = b.finish();
        // Two waves and 64 threads: 3 rounds of one, 16 bytes and 3 times 2.
        assert_eq!(Traffic::of(&kernel), Traffic { multiplies: 6.0, bytes: 64.0 * 22.0 });
    }
}
