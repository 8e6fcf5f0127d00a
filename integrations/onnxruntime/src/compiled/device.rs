//! Execution on a GPU. Constants, and tensors between graphs, stay there; inputs and outputs that are on the GPU are used in place, others
//! are copied to its memory and back.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use hipdnn::hardware::{DeviceMemory, Gpu};

use super::replay::Replays;
use super::staging::{self, Staging};
use super::{Input, MISSING, Output, Prepared, Ready, Subgraph, host};
use crate::failure::{Failure, Result};
use crate::library::OnStream;
use crate::lowering::{Bound, Graphs, Host, Place, Slab, Work, elements};
use crate::threads::Parallel;

/// The alignment of tensors.
const ALIGNMENT: usize = 256;

/// The alignment that plans assume.
const PLANNED: usize = 16;

/// A subgraph's state on a GPU.
pub struct OnGpu {
    gpu: Gpu,
    /// Constant inputs, by index.
    constants: Mutex<HashMap<usize, DeviceMemory>>,
    /// Host copies of constants that ONNX Runtime has on the GPU.
    on_host: Mutex<HashMap<usize, Words>>,
    /// Idle memory.
    idle: Mutex<Vec<Block>>,
    /// Memory of the host for results of host operations.
    results: staging::Idle,
}

/// A run's memory, and the captured runs with it.
struct Block {
    // Dropped before the memory.
    replays: Replays,
    memory: DeviceMemory,
    /// The stream of its last use, on which captured work starts soonest.
    stream: *mut c_void,
}

// SAFETY: the stream is only compared.
unsafe impl Send for Block {}

/// Bytes on the host, as words, so that elements of every type are aligned.
type Words = Arc<Vec<u64>>;

/// A program's additional data on a GPU.
#[derive(Default)]
pub struct Copies {
    /// The inputs that graphs read.
    inputs: HashSet<usize>,
    /// The program's own elements.
    data: HashMap<usize, DeviceMemory>,
}

/// The addresses of a run's tensors.
struct Run<'a> {
    on_gpu: &'a OnGpu,
    own: &'a OnStream,
    subgraph: &'a Subgraph,
    inputs: &'a [Input],
    outputs: &'a [Output],
    prepared: &'a Arc<Prepared>,
    block: *mut c_void,
    /// The inputs that graphs read.
    of_inputs: BTreeMap<usize, *mut c_void>,
    of_outputs: Vec<*mut c_void>,
    /// The bytes of each output.
    sizes: Vec<usize>,
}

/// Whether plans can use a tensor in place.
fn is_usable(is_on_gpu: bool, data: *const c_void) -> bool {
    is_on_gpu && data.addr().is_multiple_of(PLANNED)
}

impl Copies {
    /// Copies a program's own data.
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
        let (constants, on_host, idle, results) = Default::default();
        Self { gpu, constants, on_host, idle, results }
    }

    pub fn gpu(&self) -> Gpu {
        self.gpu
    }

    /// Copies bytes to the host, after the work before is done.
    ///
    /// # Safety
    /// `from` is GPU memory, and `to` host memory, of this many bytes.
    pub unsafe fn download(&self, to: *mut u8, from: *const c_void, bytes: usize) -> Result<()> {
        if bytes > 0 {
            // SAFETY: `from` is GPU memory, and `to` host memory, of this many bytes, as this function requires; the bytes are only
            // written.
            unsafe { self.gpu.download(std::slice::from_raw_parts_mut(to, bytes), from) }?;
        }
        Ok(())
    }

    /// Executes a subgraph.
    ///
    /// # Safety
    /// Inputs and outputs have as many elements as their dimensions say.
    pub unsafe fn run(
        &self,
        subgraph: &Subgraph,
        prepared: &Arc<Prepared>,
        (inputs, outputs): (&[Input], &[Output]),
        parallel: Parallel<'_>,
    ) -> Result<()> {
        subgraph.library.on_stream(self.gpu, |own, is_alone| {
            let mut end = (prepared.scratch + prepared.workspace).next_multiple_of(ALIGNMENT);
            let mut next = |bytes: usize| {
                let begin = end;
                end = (end + bytes).next_multiple_of(ALIGNMENT);
                begin
            };
            let (mut of_inputs, mut in_block) = (BTreeMap::new(), Vec::new());
            for (at, input) in inputs.iter().enumerate().filter(|(at, _)| prepared.copies.inputs.contains(at))
            {
                if is_usable(input.is_on_gpu, input.data) {
                    of_inputs.insert(at, input.data.cast_mut());
                } else if subgraph.is_constant(at) {
                    // SAFETY: inputs and outputs have as many elements as their dimensions say, as this function requires.
                    of_inputs.insert(at, unsafe { self.constant(own, at, input) }?);
                } else {
                    in_block.push((at, input, next(input.bytes())));
                }
            }
            let sizes = subgraph.output_sizes(&prepared.outputs);
            let elsewhere = subgraph.overlapping(prepared, inputs, outputs);
            let places = outputs.iter().zip(&sizes).zip(elsewhere).map(|((output, bytes), is_elsewhere)| {
                let is_in_place = !is_elsewhere && is_usable(output.is_on_gpu, output.data);
                if is_in_place { Err(output.data) } else { Ok(next(*bytes)) }
            });
            let places: Vec<std::result::Result<usize, *mut c_void>> = places.collect();
            let mut block = self.take(end, own.stream.as_ptr())?;
            let start = block.memory.as_ptr();
            let at = |begin: usize| start.wrapping_byte_add(begin);
            of_inputs.extend(in_block.iter().map(|(place, _, begin)| (*place, at(*begin))));
            let of_outputs = places.into_iter().map(|place| place.map_or_else(|data| data, at)).collect();
            let run = Run {
                on_gpu: self,
                own,
                subgraph,
                inputs,
                outputs,
                prepared,
                block: start,
                of_inputs,
                of_outputs,
                sizes,
            };
            let fill = || {
                // SAFETY: inputs and outputs have as many elements as their dimensions say, as this function requires; the block has room
                // for them.
                in_block.iter().try_for_each(|(_, input, begin)| unsafe { fill(own, at(*begin), input) })
            };
            // SAFETY: inputs and outputs have as many elements as their dimensions say, as this function requires.
            let done =
                fill().and_then(|()| unsafe { run.all(is_alone.then_some(&mut block.replays), parallel) });
            // Also after a failure: the block is no longer used, and ONNX Runtime considers results complete.
            let waited = own.stream.synchronize();
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(block);
            done.and(waited.map_err(Failure::from))
        })
    }

    /// A constant input, copied at the first run.
    ///
    /// # Safety
    /// The input has as many elements as its dimensions say.
    unsafe fn constant(&self, own: &OnStream, at: usize, input: &Input) -> Result<*mut c_void> {
        let mut constants = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = constants.get(&at) {
            return Ok(memory.as_ptr());
        }
        let memory = DeviceMemory::new(self.gpu, input.bytes())?;
        // SAFETY: the input has as many elements as its dimensions say, as this function requires; the memory has room for it.
        let filled = unsafe { fill(own, memory.as_ptr(), input) };
        // Other streams use it next.
        own.stream.synchronize()?;
        filled?;
        Ok(constants.entry(at).or_insert(memory).as_ptr())
    }

    /// A constant input on the GPU, as a host copy.
    ///
    /// # Safety
    /// The input has as many elements as its dimensions say.
    unsafe fn constant_on_host(&self, at: usize, input: &Input) -> Result<Words> {
        let mut known = self.on_host.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = known.get(&at) {
            return Ok(words.clone());
        }
        let mut words = vec![0_u64; input.bytes().div_ceil(8)];
        // SAFETY: the input has as many elements as its dimensions say, as this function requires; the words have room for it.
        unsafe { self.download(words.as_mut_ptr().cast(), input.data, input.bytes()) }?;
        let words = Arc::new(words);
        known.insert(at, words.clone());
        Ok(words)
    }

    /// Memory of at least this many bytes for a run on a stream, reused if possible.
    fn take(&self, bytes: usize, stream: *mut c_void) -> Result<Block> {
        let taken = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let known = idle.iter().rposition(|block| block.stream == stream);
            known.map(|at| idle.remove(at)).or_else(|| idle.pop())
        };
        match taken {
            Some(block) if block.memory.bytes() >= bytes => Ok(Block { stream, ..block }),
            // Free a block that is too small first.
            other => {
                drop(other);
                let memory = DeviceMemory::new(self.gpu, bytes)?;
                Ok(Block { replays: Replays::default(), memory, stream })
            }
        }
    }
}

/// Copies an input to GPU memory, ordered on a stream.
///
/// # Safety
/// The input has as many elements as its dimensions say, and the memory has room for them. Both stay until the stream was waited for.
unsafe fn fill(own: &OnStream, to: *mut c_void, input: &Input) -> Result<()> {
    let bytes = input.bytes();
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the input has as many elements as its dimensions say, and the memory has room for them, both until the stream was waited
    // for, as this function requires.
    let copied = unsafe {
        if input.is_on_gpu {
            own.stream.copy(to, input.data, bytes)
        } else {
            own.stream.upload(to, std::slice::from_raw_parts(input.data.cast(), bytes))
        }
    };
    copied.map_err(Failure::from)
}

/// Whether an operation writes every byte of a result, from its first element to its last. Appended rows leave those behind them.
fn is_filled(host: &Host, bound: &Bound) -> bool {
    let writes_all = matches!(host, Host::Copy | Host::Integers(_) | Host::Gather(_) | Host::Unpack(_));
    let bytes = usize::try_from(elements(&bound.dims)).unwrap_or(0) * bound.element.size();
    writes_all && bytes == extent(bound)
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
    /// Inputs and outputs have as many elements as their dimensions say, and are there until the stream was waited for.
    unsafe fn all(&self, replays: Option<&mut Replays>, parallel: Parallel<'_>) -> Result<()> {
        let workspace = self.block.wrapping_byte_add(self.prepared.scratch);
        let address = |place: &Place| self.of(place);
        let on_host = |host: &Host, tensors: (&[Bound], &[Bound])| self.on_host(host, tensors, parallel);
        let execute = |stages: &[Ready]| {
            let handle = &self.own.handle;
            // SAFETY: tensors are views inside of GPU memory that has room for them, and the workspace is large enough.
            unsafe { self.subgraph.execute_stages(handle, stages, workspace, &address, &on_host) }
        };
        let addresses = || self.of_inputs.values().chain(&self.of_outputs).copied().collect();
        match replays {
            // SAFETY: inputs and outputs have as many elements as their dimensions say, and are there until the stream was waited for, as
            // this function requires; the block lives as long.
            Some(replays) => unsafe { replays.run(self.own, self.prepared, addresses(), &execute) }?,
            // GPUs run captured work of several streams less well concurrently.
            None => execute(&self.prepared.stages)?,
        }
        for ((output, from), bytes) in self.outputs.iter().zip(&self.of_outputs).zip(&self.sizes) {
            if *bytes == 0 || *from == output.data {
                continue;
            }
            let stream = &self.own.stream;
            // SAFETY: inputs and outputs have as many elements as their dimensions say, and are there until the stream was waited for, as
            // this function requires; it has this many bytes, as has its place in the block.
            unsafe {
                if output.is_on_gpu {
                    stream.copy(output.data, *from, *bytes)?;
                } else {
                    stream.download(std::slice::from_raw_parts_mut(output.data.cast(), *bytes), *from)?;
                }
            }
        }
        Ok(())
    }

    /// The address of a place on the GPU.
    fn of(&self, place: &Place) -> Option<*mut c_void> {
        let (start, offset) = match place {
            Place::Input(at, offset) => (*self.of_inputs.get(at)?, *offset),
            Place::Output(at, offset) => (*self.of_outputs.get(*at)?, *offset),
            Place::Scratch(offset) => (self.block, *offset),
            Place::Data(at, offset) => (self.prepared.copies.data.get(at)?.as_ptr(), *offset),
        };
        Some(start.wrapping_byte_add(offset))
    }

    /// The address at which the host reads a tensor: its own memory, or a copy, which is returned, too.
    fn read(&self, bound: &Bound) -> Result<(*mut u8, Option<Words>)> {
        let missing = || Failure::ep(MISSING);
        let (from, bytes) = match bound.place {
            Place::Data(at, offset) => {
                let data = self.prepared.data.get(&at).ok_or_else(missing)?;
                return Ok((data.as_ptr().wrapping_add(offset), None));
            }
            Place::Input(at, offset) => {
                let input = self.inputs.get(at).ok_or_else(missing)?;
                if !input.is_on_gpu {
                    return Ok((input.data.cast_mut().cast::<u8>().wrapping_add(offset), None));
                }
                if self.subgraph.is_constant(at) {
                    // SAFETY: the input has as many elements as its dimensions say, which the caller of the subgraph guarantees.
                    let words = unsafe { self.on_gpu.constant_on_host(at, input) }?;
                    let start = words.as_ptr().cast_mut().cast::<u8>();
                    return Ok((start.wrapping_add(offset), Some(words)));
                }
                (input.data.wrapping_byte_add(offset), extent(bound))
            }
            Place::Output(..) | Place::Scratch(_) => {
                (self.of(&bound.place).ok_or_else(missing)?.cast_const(), extent(bound))
            }
        };
        let mut words = vec![0_u64; bytes.div_ceil(8)];
        let start = words.as_mut_ptr().cast::<u8>();
        // SAFETY: the tensor has this many bytes on the GPU, from its first element to its last, and the words have room for them.
        unsafe { self.on_gpu.download(start, from, bytes) }?;
        Ok((start, Some(Arc::new(words))))
    }

    /// Memory for a result of a host operation, with the bytes that are to be preserved.
    fn result(&self, host: &Host, bound: &Bound) -> Result<Staging> {
        let bytes = extent(bound);
        let memory = self.on_gpu.results.take(self.on_gpu.gpu, bytes)?;
        if !is_filled(host, bound) {
            let from = self.of(&bound.place).ok_or_else(|| Failure::ep(MISSING))?;
            // SAFETY: the tensor has this many bytes on the GPU, and the memory has room for them.
            unsafe { self.on_gpu.download(memory.as_ptr(), from, bytes) }?;
        }
        Ok(memory)
    }

    /// Computes a host operation, with copies of what is on the GPU.
    fn on_host(
        &self,
        host: &Host,
        (reads, writes): (&[Bound], &[Bound]),
        parallel: Parallel<'_>,
    ) -> std::result::Result<(), String> {
        let copies = reads.iter().map(|bound| self.read(bound)).collect::<Result<Vec<_>>>();
        let copies = copies.map_err(|failure| failure.text)?;
        let slabs = copies.iter().zip(reads).map(|((start, _), bound)| Slab::new(*start, bound));
        let slabs = slabs.collect::<Option<Vec<_>>>().ok_or(MISSING)?;
        if writes.iter().any(|of| !matches!(of.place, Place::Output(..) | Place::Scratch(_))) {
            return Err(MISSING.to_owned());
        }
        let results = writes.iter().map(|bound| self.result(host, bound)).collect::<Result<Vec<_>>>();
        let results = results.map_err(|failure| failure.text)?;
        let starts: Vec<*mut u8> = results.iter().map(Staging::as_ptr).collect();
        let to = starts.iter().zip(writes).map(|(start, bound)| Slab::new(*start, bound));
        let to = to.collect::<Option<Vec<_>>>().ok_or(MISSING)?;
        // SAFETY: the tensors are in copies with room for them, or in memory of the application and the program; the results' copies are
        // their own.
        unsafe { host::run(host, &slabs, &to, parallel) }?;
        for (start, bound) in starts.iter().zip(writes).filter(|(_, bound)| extent(bound) > 0) {
            let place = self.of(&bound.place).ok_or(MISSING)?;
            // SAFETY: the copy has this many bytes, and so has the tensor on the GPU.
            let sent = unsafe {
                let bytes = std::slice::from_raw_parts(start.cast_const(), extent(bound));
                self.on_gpu.gpu.upload(place, bytes)
            };
            sent.map_err(|error| error.to_string())?;
        }
        self.on_gpu.results.keep(results);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Element;

    #[test]
    fn results_that_are_filled_need_not_be_copied_before() {
        let bound = |dims: &[i64], strides: &[i64]| Bound {
            place: Place::Scratch(0),
            element: Element::Half,
            dims: dims.into(),
            strides: strides.into(),
        };
        let packed = bound(&[2, 3, 4], &[12, 4, 1]);
        assert!(is_filled(&Host::Gather(0), &packed) && is_filled(&Host::Copy, &bound(&[3, 4], &[1, 3])));
        assert!(!is_filled(&Host::Append, &packed));
        assert!(!is_filled(&Host::Copy, &bound(&[2, 4], &[8, 1])), "elements of others lie between its rows");
    }
}
