//! Execution on a GPU: inputs are copied to its memory, outputs from there. Constants, and what is between graphs, stay.

use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use hipdnn::hardware::{DeviceMemory, Gpu};

use super::slab::Slab;
use super::{Input, MISSING, Prepared, Subgraph, host};
use crate::failure::Result;
use crate::lowering::{Bound, Graphs, Host, Place, Work, elements};
use crate::threads::Parallel;

/// Tensors begin at multiples of this.
const ALIGNMENT: usize = 256;

/// What a subgraph has on a GPU.
pub struct OnGpu {
    gpu: Gpu,
    /// Inputs that never change, by their places.
    constants: Mutex<HashMap<usize, Arc<DeviceMemory>>>,
    /// Memory that no run uses.
    idle: Mutex<Vec<DeviceMemory>>,
}

/// What a program has on a GPU besides.
#[derive(Default)]
pub struct Copies {
    /// The inputs that graphs read.
    inputs: HashSet<usize>,
    /// The program's own elements.
    data: HashMap<usize, DeviceMemory>,
}

/// Where the tensors of a run are.
struct Run<'a> {
    inputs: &'a [Input],
    outputs: &'a [*mut c_void],
    prepared: &'a Prepared,
    block: &'a DeviceMemory,
    /// For inputs in the block, where they begin.
    of_inputs: HashMap<usize, usize>,
    constants: HashMap<usize, Arc<DeviceMemory>>,
    of_outputs: Vec<usize>,
}

impl Copies {
    /// Copies what a program has of its own.
    pub fn of(gpu: Gpu, graphs: &Graphs) -> Result<Self> {
        let mut copies = Self::default();
        for stage in &graphs.stages {
            let Work::Graph { bindings, .. } = &stage.work else { continue };
            for (_, place) in bindings {
                match place {
                    Place::Input(at, _) => drop(copies.inputs.insert(*at)),
                    Place::Data(at, _) if !copies.data.contains_key(at) => {
                        let Some(from) = graphs.data.get(at) else { continue };
                        let memory = DeviceMemory::new(gpu, from.bytes())?;
                        memory.upload(0, from.as_slice())?;
                        copies.data.insert(*at, memory);
                    }
                    _ => {}
                }
            }
        }
        Ok(copies)
    }
}

impl OnGpu {
    pub fn new(gpu: Gpu) -> Self {
        Self { gpu, constants: Mutex::default(), idle: Mutex::default() }
    }

    pub fn gpu(&self) -> Gpu {
        self.gpu
    }

    /// Executes a subgraph.
    ///
    /// # Safety
    /// Inputs and outputs have as many elements as their dimensions say.
    pub unsafe fn run(
        &self,
        subgraph: &Subgraph,
        prepared: &Prepared,
        inputs: &[Input],
        outputs: &[*mut c_void],
        parallel: Parallel<'_>,
    ) -> Result<()> {
        let mut end = (prepared.scratch + prepared.workspace).next_multiple_of(ALIGNMENT);
        let mut next = |bytes: usize| {
            let begin = end;
            end = (end + bytes).next_multiple_of(ALIGNMENT);
            begin
        };
        let (mut of_inputs, mut constants) = (HashMap::new(), HashMap::new());
        for (at, input) in inputs.iter().enumerate().filter(|(at, _)| prepared.copies.inputs.contains(at)) {
            if subgraph.is_constant(at) {
                // SAFETY: the caller vouches for the input.
                constants.insert(at, unsafe { self.constant(at, input) }?);
            } else {
                of_inputs.insert(at, next(bytes_of(input)));
            }
        }
        let sizes = subgraph.output_sizes(&prepared.outputs);
        let of_outputs = sizes.iter().map(|bytes| next(*bytes)).collect();
        let block = self.take(end)?;
        let run = Run { inputs, outputs, prepared, block: &block, of_inputs, constants, of_outputs };
        // SAFETY: the caller vouches for inputs and outputs.
        let done = unsafe { run.all(subgraph, &sizes, parallel) };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(block);
        done
    }

    /// An input that never changes, copied at the first run.
    ///
    /// # Safety
    /// The input has as many elements as its dimensions say.
    unsafe fn constant(&self, at: usize, input: &Input) -> Result<Arc<DeviceMemory>> {
        let mut constants = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = constants.get(&at) {
            return Ok(memory.clone());
        }
        let memory = Arc::new(DeviceMemory::new(self.gpu, bytes_of(input))?);
        // SAFETY: the caller vouches for the input.
        memory.upload(0, unsafe { slice(input) })?;
        constants.insert(at, memory.clone());
        Ok(memory)
    }

    /// Memory of at least so many bytes, used before if there is some.
    fn take(&self, bytes: usize) -> Result<DeviceMemory> {
        let taken = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match taken {
            Some(memory) if memory.bytes() >= bytes => Ok(memory),
            // What is too small makes room first.
            other => {
                drop(other);
                Ok(DeviceMemory::new(self.gpu, bytes)?)
            }
        }
    }
}

fn bytes_of(input: &Input) -> usize {
    let size = input.element.map_or(0, |element| element.size());
    usize::try_from(elements(&input.dims)).unwrap_or(0) * size
}

/// The bytes of an input.
///
/// # Safety
/// The input has as many elements as its dimensions say.
unsafe fn slice(input: &Input) -> &[u8] {
    match bytes_of(input) {
        0 => &[],
        // SAFETY: the caller vouches for the elements, and any bytes are bytes.
        bytes => unsafe { std::slice::from_raw_parts(input.data.cast(), bytes) },
    }
}

/// The bytes from the first element of a tensor to its last one.
fn extent(bound: &Bound) -> usize {
    if bound.dims.contains(&0) {
        return 0;
    }
    let last = bound.dims.iter().zip(&bound.strides).map(|(dim, stride)| (dim - 1) * stride).sum::<i64>();
    (usize::try_from(last).unwrap_or(0) + 1) * bound.element.size()
}

impl Run<'_> {
    /// # Safety
    /// Inputs and outputs have as many elements as their dimensions say.
    unsafe fn all(&self, subgraph: &Subgraph, sizes: &[usize], parallel: Parallel<'_>) -> Result<()> {
        for (at, begin) in &self.of_inputs {
            if let Some(input) = self.inputs.get(*at) {
                // SAFETY: the caller vouches for the input.
                self.block.upload(*begin, unsafe { slice(input) })?;
            }
        }
        let workspace = self.block.as_ptr().wrapping_byte_add(self.prepared.scratch);
        let address = |place: &Place| {
            let (memory, offset) = self.of(place)?;
            Some(memory.as_ptr().wrapping_byte_add(offset))
        };
        let on_host = |host: Host, tensors: (&[Bound], &Bound)| self.on_host(host, tensors, parallel);
        // SAFETY: tensors are views inside of memory of the GPU that has room for them, as the workspace has.
        unsafe { subgraph.execute_stages(self.prepared, workspace, &address, &on_host) }?;
        for ((to, begin), bytes) in self.outputs.iter().zip(&self.of_outputs).zip(sizes) {
            if *bytes > 0 {
                // SAFETY: the caller vouches for the output, which has so many bytes; they are only written.
                let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), *bytes) };
                self.block.download(*begin, to)?;
            }
        }
        Ok(())
    }

    /// The memory of the GPU that a place is in, and where.
    fn of(&self, place: &Place) -> Option<(&DeviceMemory, usize)> {
        match place {
            Place::Input(at, offset) => match self.constants.get(at) {
                Some(memory) => Some((memory, *offset)),
                None => Some((self.block, self.of_inputs.get(at)? + offset)),
            },
            Place::Output(at, offset) => Some((self.block, self.of_outputs.get(*at)? + offset)),
            Place::Scratch(offset) => Some((self.block, *offset)),
            Place::Data(at, offset) => Some((self.prepared.copies.data.get(at)?, *offset)),
        }
    }

    /// Computes on the host what it alone computes: with copies of what is on the GPU.
    fn on_host(
        &self,
        host: Host,
        (reads, writes): (&[Bound], &Bound),
        parallel: Parallel<'_>,
    ) -> std::result::Result<(), String> {
        let mut copies = Vec::with_capacity(reads.len() + 1);
        for bound in reads.iter().chain([writes]) {
            let own = match bound.place {
                Place::Input(at, offset) => {
                    self.inputs.get(at).map(|input| (input.data.cast_mut().cast::<u8>(), offset))
                }
                Place::Data(at, offset) => self.prepared.data.get(&at).map(|data| (data.as_ptr(), offset)),
                Place::Output(..) | Place::Scratch(_) => None,
            };
            copies.push(match own {
                Some((start, offset)) => (start.wrapping_add(offset), None),
                None => {
                    let (memory, offset) = self.of(&bound.place).ok_or(MISSING)?;
                    // Words, so that elements of every type are aligned.
                    let mut words = vec![0_u64; extent(bound).div_ceil(8)];
                    let start = words.as_mut_ptr().cast::<u8>();
                    // SAFETY: the words have at least as many bytes, of which any values are words.
                    let bytes = unsafe { std::slice::from_raw_parts_mut(start, extent(bound)) };
                    memory.download(offset, bytes).map_err(|error| error.to_string())?;
                    (start, Some(words))
                }
            });
        }
        let slabs = copies.iter().zip(reads).map(|((start, _), bound)| Slab::new(*start, bound));
        let slabs = slabs.collect::<Option<Vec<_>>>().ok_or(MISSING)?;
        let (start, words) = copies.last().ok_or(MISSING)?;
        let to = Slab::new(*start, writes).ok_or(MISSING)?;
        // SAFETY: the tensors lie in copies with room for them, or in what the application and the program have; the result's copy is its own.
        unsafe { host::run(host, &slabs, to, parallel) }?;
        let (Some(_), Some((memory, offset))) = (words, self.of(&writes.place)) else {
            return Err(MISSING.to_owned());
        };
        // SAFETY: the copy has so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast_const(), extent(writes)) };
        memory.upload(offset, bytes).map_err(|error| error.to_string())
    }
}
