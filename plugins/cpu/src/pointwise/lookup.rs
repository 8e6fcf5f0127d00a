//! Functions of a byte, looked up in a table.

use hipdnn_plugin_sdk::graph::DataType;

use crate::kernel::{Facts, Kernel, Refusal};
use crate::problem::Operand;
use crate::tensor::scratch::Shared;
use crate::threading::partition::{Threads, Workers};

/// The number of byte values.
pub(crate) const ENTRIES: usize = 256;

/// Estimated nanoseconds per element.
const TIME: f64 = 0.4;

/// How many bytes are looked up together: enough to hide the latency of loads.
const TOGETHER: usize = 16;

/// A byte for each byte value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    /// The type of the bytes that are looked up.
    pub(crate) from: DataType,
    /// Indexed by the byte's bits.
    pub(crate) entries: [u8; ENTRIES],
}

impl Table {
    /// The results in a type, indexed by the byte's value from the least on.
    pub(crate) fn by_value(&self, to: DataType) -> [i32; ENTRIES] {
        let first = if self.from == DataType::Int8 { 0x80 } else { 0 };
        std::array::from_fn(|at| {
            let entry = self.entries[at ^ first];
            if to == DataType::Int8 { i32::from(entry.cast_signed()) } else { i32::from(entry) }
        })
    }
}

/// A table as a kernel.
pub(crate) struct Lookup {
    table: Table,
    elements: usize,
    workers: Workers,
}

impl Lookup {
    /// Plans the function of a tensor of bytes, whose result has the same layout.
    pub(crate) fn plan(table: Table, from: Operand, to: Operand, threads: Threads) -> Result<Self, Refusal> {
        let elements: usize = from.layout.dims().iter().product();
        let pairs = || from.layout.dims().iter().zip(from.layout.strides());
        let reach: usize = pairs().map(|(dim, stride)| (dim - 1) * stride).sum();
        let are_alike = pairs().zip(to.layout.strides()).all(|((dim, own), other)| *dim == 1 || own == other);
        // If the elements fill their memory, no two share an address, since the result's do not.
        if !are_alike || from.layout.dims() != to.layout.dims() || reach + 1 != elements {
            return Err("the bytes have gaps, or a different layout than the results".to_owned());
        }
        let workers = threads.workers(elements as f64 * TIME, elements.div_ceil(1 << 12));
        Ok(Self { table, elements, workers })
    }
}

impl Kernel for Lookup {
    fn facts(&self) -> Facts {
        Facts::new("table of bytes", self.workers.threads())
    }

    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let [from, to] = [tensors[0], tensors[1]];
        let shared = Shared([from, to]);
        self.workers.run(|worker| {
            let share = self.workers.share(worker, self.elements);
            let entries = &self.table.entries;
            let mut at = share.start;
            while at < share.end {
                let count = TOGETHER.min(share.end - at);
                // SAFETY: both tensors have the elements, and each worker writes its own.
                unsafe {
                    let (from, to) = (shared.get(0).add(at), shared.get(1).add(at));
                    if count == TOGETHER {
                        let bytes = from.cast::<[u8; TOGETHER]>().read_unaligned();
                        to.cast::<[u8; TOGETHER]>()
                            .write_unaligned(bytes.map(|byte| entries[usize::from(byte)]));
                    } else {
                        for at in 0..count {
                            to.add(at).write(entries[usize::from(from.add(at).read())]);
                        }
                    }
                }
                at += count;
            }
        });
    }
}
