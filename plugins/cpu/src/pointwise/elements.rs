//! A chain of pointwise operations, chunk by chunk.

use hipdnn_plugin_planner::in_own_frame;

use crate::kernel::{Facts, Kernel, Refusal};
use crate::pointwise::chain::{Chain, Input, Value};
use crate::pointwise::functions::Functions;
use crate::pointwise::line::Applied;
use crate::pointwise::program::{Bindings, Program, REGISTERS};
use crate::problem::Operand;
use crate::simd::isa::Isa;
use crate::simd::stream::{is_worth, settle};
use crate::tensor::loop_nest::{Axes, LoopNest, Position};
use crate::tensor::row_converter::RowConverter;
use crate::tensor::scratch::Tensors;
use crate::threading::partition::{Threads, Workers};

/// Bytes of a buffer: few enough that all of them stay in the L1 cache.
const BYTES: usize = 2048;

/// A buffer.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Buffer(std::mem::MaybeUninit<[u8; BYTES]>);

impl Buffer {
    /// An uninitialized buffer.
    const EMPTY: Self = Self(std::mem::MaybeUninit::uninit());

    /// Its capacity in values.
    const fn len<T>() -> usize {
        BYTES / size_of::<T>()
    }

    /// Its first value.
    fn values<T>(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

/// How the inner loop reads an operand as contiguous values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// It is contiguous.
    InPlace,
    /// One value, repeated in a buffer.
    Repeated,
    /// One value, broadcast in registers.
    One,
    /// Converted or gathered into a buffer.
    Copied,
}

/// A tensor of the chain.
struct Memory<T> {
    slot: usize,
    run: RowConverter<T>,
    /// Whether the result overwrites it.
    replaced: bool,
    /// Whether the program reads one value of it per inner loop.
    one: bool,
}

impl<T: Functions> Memory<T> {
    fn of(input: &Input) -> Result<Self, Refusal> {
        let run = RowConverter::of_number(input.data_type)?;
        Ok(Self { slot: input.slot, run, replaced: input.replaced, one: false })
    }

    fn access(&self, stride: usize) -> Access {
        match stride {
            _ if self.one => Access::One,
            0 => Access::Repeated,
            1 if self.run.same && !self.replaced => Access::InPlace,
            _ => Access::Copied,
        }
    }
}

/// A planned chain of at most `N` tensors: its inputs and, last, its result.
pub(crate) struct Elements<T, const N: usize> {
    program: Program<T>,
    /// The dimensions, and the strides of the inputs and, last, of the result along them.
    axes: Box<Axes<N>>,
    nest: Box<LoopNest<N>>,
    inputs: Vec<Memory<T>>,
    output: Memory<T>,
    /// Whether the result is written with non-temporal stores.
    streamed: bool,
    /// Estimated nanoseconds per element on one thread.
    time: f64,
    workers: Workers,
}

/// Whether all readers of an input compute in registers and have another operand that is a row: then one
/// value of a broadcast input suffices.
fn is_for_registers<T: Functions>(chain: &Chain, input: usize, repeats: impl Fn(usize) -> bool) -> bool {
    let is_row =
        |value: &Value| matches!(*value, Value::Step(_)) || matches!(*value, Value::Input(i) if !repeats(i));
    let mut readers = chain.steps.iter().filter(|step| step.operands.contains(&Value::Input(input)));
    readers.all(|step| Applied::<T>::of(step).is_some() && step.operands.iter().any(is_row))
}

impl<T: Functions, const N: usize> Elements<T, N> {
    /// Plans a chain; an epilogue may run on any box of its shape.
    pub(crate) fn plan(
        chain: &Chain,
        output: &Operand,
        isa: Isa,
        threads: Threads,
        is_epilogue: bool,
    ) -> Result<Self, Refusal> {
        let count = chain.inputs.len();
        if count >= N {
            return Err(format!("a chain of {count} inputs, expected at most {}", N - 1));
        }
        // On the heap: with many operands these are some kilobytes each.
        let axes = in_own_frame(|| {
            let none = [0; crate::layout::MAX_RANK];
            let mut strides = [none.as_slice(); N];
            for (to, input) in strides.iter_mut().zip(&chain.inputs) {
                *to = &input.strides;
            }
            strides[N - 1] = output.layout.strides();
            Box::new(Axes::new(output.layout.dims(), strides, N - 1))
        });
        let nest = in_own_frame(|| Box::new(axes.nest()));
        let repeats = |input: usize| nest.inner_strides[input] == 0;
        // The inner loop of a box may differ.
        let is_one = |input: usize| {
            !is_epilogue && !is_short(&nest) && repeats(input) && is_for_registers::<T>(chain, input, repeats)
        };
        let program = Program::plan(chain, isa, is_one)?;
        let mut inputs = chain.inputs.iter().map(Memory::of).collect::<Result<Vec<_>, _>>()?;
        for (input_index, input) in inputs.iter_mut().enumerate() {
            input.one = is_one(input_index);
            // Operations in registers read a value before overwriting it.
            input.replaced &= !program.is_line();
        }
        let output = Memory {
            slot: output.slot,
            run: RowConverter::of_number(output.data_type)?,
            replaced: false,
            one: false,
        };
        let count_of = |access| {
            let inputs = inputs
                .iter()
                .zip(nest.inner_strides)
                .filter(|(input, stride)| input.access(*stride) == access);
            inputs.count() + usize::from(output.access(nest.inner_strides[N - 1]) == access)
        };
        let (copies, in_place) = (count_of(Access::Copied), count_of(Access::InPlace));
        let elements = nest.runs() * nest.len;
        let is_streamed = if is_short(&nest) {
            nest.is_contiguous(N - 1) && output.run.same && is_worth::<T>(2 * elements, elements)
        } else {
            in_place + count_of(Access::One) == inputs.len() + 1
                && is_worth::<T>(in_place * elements, nest.len)
        };
        let streamed = !is_epilogue && program.is_line() && is_streamed;
        let time = program.time + copies as f64;
        let workers = threads.workers(elements as f64 * time, elements.div_ceil(Buffer::len::<T>()));
        Ok(Self { program, axes, nest, inputs, output, streamed, time, workers })
    }

    /// Computes some elements of a nest, numbered in loop order; `base` is added to its offsets.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    unsafe fn part(
        &self,
        tensors: &[*mut u8],
        nest: &LoopNest<N>,
        base: [usize; N],
        elements: std::ops::Range<usize>,
    ) {
        if is_short(nest) && self.inputs.iter().all(|input| !input.one) {
            // SAFETY: this function requires the tensors.
            return unsafe { self.joined(tensors, nest, base, elements) };
        }
        let mut registers = [Buffer::EMPTY; REGISTERS];
        let mut buffers = [Buffer::EMPTY; N];
        let mut bindings = Bindings::null();
        for (register_index, register) in registers.iter_mut().enumerate() {
            *bindings.register(register_index) = register.values();
        }
        let mut access = [Access::InPlace; N];
        for ((access, input), stride) in access.iter_mut().zip(&self.inputs).zip(nest.inner_strides) {
            *access = input.access(stride);
        }
        let end_stride = nest.inner_strides[N - 1];
        let written_in_place = end_stride == 1 && self.output.run.same;
        let in_place = access.iter().all(|access| matches!(access, Access::InPlace | Access::One));
        let chunk = if self.program.is_single() && in_place && written_in_place {
            usize::MAX
        } else {
            Buffer::len::<T>()
        };
        bindings.streamed = self.streamed;
        // The offset of the element in a repeated operand's buffer, and its number of copies there.
        let mut repeated = [(usize::MAX, 0); N];
        let mut at = elements.start;
        let mut position = nest.position(at / nest.len);
        while at < elements.end {
            let first = at % nest.len;
            let end = nest.len.min(first + (elements.end - at));
            let mut from = first;
            while from < end {
                let len = (end - from).min(chunk);
                let offset = |i: usize| base[i] + position.offsets[i] + from * nest.inner_strides[i];
                for (i, input) in self.inputs.iter().enumerate() {
                    let base = tensors[input.slot].cast_const().wrapping_add(offset(i) * input.run.size);
                    let buffer = buffers[i].values::<T>();
                    // SAFETY: the elements are inside the tensor; chunks fit in the buffers unless every
                    // operand is used in place.
                    unsafe {
                        match access[i] {
                            Access::InPlace => *bindings.input(i) = base.cast_mut().cast(),
                            Access::One if repeated[i].0 != offset(i) => {
                                (input.run.load)(base, 0, bindings.one(i), 1);
                                repeated[i].0 = offset(i);
                            }
                            Access::One => {}
                            Access::Repeated => {
                                if repeated[i].0 != offset(i) || repeated[i].1 < len {
                                    (input.run.load)(base, 0, buffer, 1);
                                    fill(buffer, buffer.read(), len);
                                    repeated[i] = (offset(i), len);
                                }
                                *bindings.input(i) = buffer;
                            }
                            Access::Copied => {
                                (input.run.load)(base, nest.inner_strides[i], buffer, len);
                                *bindings.input(i) = buffer;
                            }
                        }
                    }
                }
                let to = tensors[self.output.slot].wrapping_add(offset(N - 1) * self.output.run.size);
                let out = if written_in_place { to.cast::<T>() } else { buffers[N - 1].values() };
                *bindings.out() = out;
                // SAFETY: the operands have `len` elements, and the result as many, or the buffer in its place.
                unsafe {
                    self.program.run(&mut bindings, len);
                    if !written_in_place {
                        (self.output.run.store)(out, to, end_stride, len);
                    }
                }
                from += len;
            }
            at += end - first;
            nest.advance(&mut position);
        }
        if self.streamed {
            settle();
        }
    }
}

impl<T: Functions, const N: usize> Elements<T, N> {
    /// The same for [short](is_short) inner loops: the program runs once over the elements of many runs.
    /// Operands with gaps are gathered first, and a result with gaps is scattered.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    unsafe fn joined(
        &self,
        tensors: &[*mut u8],
        nest: &LoopNest<N>,
        base: [usize; N],
        elements: std::ops::Range<usize>,
    ) {
        let mut registers = [Buffer::EMPTY; REGISTERS];
        let mut buffers = [Buffer::EMPTY; N];
        let mut bindings = Bindings::null();
        bindings.streamed = self.streamed;
        for (index, register) in registers.iter_mut().enumerate() {
            *bindings.register(index) = register.values();
        }
        let in_place = |tensor: usize, memory: &Memory<T>| {
            memory.run.same && !memory.replaced && nest.is_contiguous(tensor)
        };
        let mut has_gaps = [false; N];
        for (i, input) in self.inputs.iter().enumerate() {
            has_gaps[i] = !in_place(i, input);
        }
        let is_scattered = !in_place(N - 1, &self.output);
        let mut at = elements.start;
        while at < elements.end {
            let len = (elements.end - at).min(Buffer::len::<T>() - SLACK);
            for (i, input) in self.inputs.iter().enumerate() {
                let first = tensors[input.slot].wrapping_add((base[i] + at) * input.run.size);
                *bindings.input(i) = if has_gaps[i] { buffers[i].values() } else { first.cast() };
            }
            for piece in Pieces::new(nest, at, len) {
                for (i, input) in self.inputs.iter().enumerate().filter(|(i, _)| has_gaps[*i]) {
                    let from = (base[i] + piece.offsets[i]) * input.run.size;
                    let stride = nest.inner_strides[i];
                    // SAFETY: the elements are inside the tensor, and fit in the buffer besides its slack.
                    unsafe {
                        let to = buffers[i].values::<T>().add(piece.done);
                        gather(&input.run, tensors[input.slot].wrapping_add(from), stride, to, piece.len);
                    }
                }
            }
            let (result, size) = (tensors[self.output.slot], self.output.run.size);
            let first = result.wrapping_add((base[N - 1] + at) * size).cast::<T>();
            let out = if is_scattered { buffers[N - 1].values() } else { first };
            *bindings.out() = out;
            // SAFETY: the operands have `len` elements, and the result as many, or the buffer in its place.
            unsafe { self.program.run(&mut bindings, len) };
            for piece in Pieces::new(nest, at, if is_scattered { len } else { 0 }) {
                // SAFETY: the elements are inside the result, and the buffer has their values.
                unsafe {
                    let to = result.wrapping_add((base[N - 1] + piece.offsets[N - 1]) * size);
                    (self.output.run.store)(out.add(piece.done), to, nest.inner_strides[N - 1], piece.len);
                }
            }
            at += len;
        }
        if self.streamed {
            settle();
        }
    }
}

/// The longest inner loop whose runs are joined: starting the program costs as much as some hundred elements.
const SHORT: usize = 128;

/// Extra values in a buffer after the elements of joined runs: a few, so that runs are filled in whole steps,
/// and one vector, so that chunks of an aligned result are aligned.
const SLACK: usize = 16;

/// Whether the runs of the inner loop are joined.
fn is_short<const N: usize>(nest: &LoopNest<N>) -> bool {
    nest.len <= SHORT && nest.runs() > 1
}

/// A run of the inner loop, or a part of one.
struct Piece<const N: usize> {
    /// The offsets of its first element in each tensor.
    offsets: [usize; N],
    /// The number of elements in the parts before it.
    done: usize,
    len: usize,
}

/// The parts that make up some elements.
struct Pieces<'a, const N: usize> {
    nest: &'a LoopNest<N>,
    position: Position<N>,
    /// Elements of the current run before the next piece.
    first: usize,
    done: usize,
    len: usize,
}

impl<'a, const N: usize> Pieces<'a, N> {
    /// The parts of `len` elements from this one on.
    fn new(nest: &'a LoopNest<N>, at: usize, len: usize) -> Self {
        Self { nest, position: nest.position(at / nest.len), first: at % nest.len, done: 0, len }
    }
}

impl<const N: usize> Iterator for Pieces<'_, N> {
    type Item = Piece<N>;

    #[inline(always)]
    fn next(&mut self) -> Option<Piece<N>> {
        let len = (self.nest.len - self.first).min(self.len - self.done);
        if len == 0 {
            return None;
        }
        let mut offsets = self.position.offsets;
        for (offset, stride) in offsets.iter_mut().zip(self.nest.inner_strides) {
            *offset += self.first * stride;
        }
        let piece = Piece { offsets, done: self.done, len };
        self.done += len;
        self.first = 0;
        self.nest.advance(&mut self.position);
        Some(piece)
    }
}

/// Copies the elements of a piece into a buffer.
///
/// # Safety
/// The elements are readable, and `to` is writable for them and for [`SLACK`] values more.
#[inline(always)]
unsafe fn gather<T: Functions>(
    run: &RowConverter<T>,
    from: *const u8,
    stride: usize,
    to: *mut T,
    len: usize,
) {
    /// How many values are written together: few, since most parts are short.
    const STEP: usize = 4;

    // SAFETY: the elements are readable, and the last step ends within the slack, as this function requires.
    unsafe {
        match stride {
            0 => {
                (run.load)(from, 0, to, 1);
                let values = [to.read(); STEP];
                for at in (0..len).step_by(STEP) {
                    to.add(at).cast::<[T; STEP]>().write_unaligned(values);
                }
            }
            1 if run.same => {
                let whole = len - len % STEP;
                for at in (0..whole).step_by(STEP) {
                    let values = from.cast::<T>().add(at).cast::<[T; STEP]>().read_unaligned();
                    to.add(at).cast::<[T; STEP]>().write_unaligned(values);
                }
                for at in whole..len {
                    to.add(at).write_unaligned(from.cast::<T>().add(at).read_unaligned());
                }
            }
            _ => (run.load)(from, stride, to, len),
        }
    }
}

/// Writes a value `len` times.
///
/// # Safety
/// `to` is writable for `len` values.
unsafe fn fill<T: Copy>(to: *mut T, value: T, len: usize) {
    for i in 0..len {
        // SAFETY: the values are readable and writable, as this function requires.
        unsafe { to.add(i).write(value) };
    }
}

impl<T: Functions, const N: usize> Kernel for Elements<T, N> {
    fn facts(&self) -> Facts {
        Facts::new("element by element", self.workers.threads())
    }

    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let shared = Tensors(tensors);
        let elements = self.nest.runs() * self.nest.len;
        self.workers.run(|worker| {
            // SAFETY: this function requires the tensors; each worker computes its own elements.
            unsafe { self.part(shared.all(), &self.nest, [0; N], self.workers.share(worker, elements)) };
        });
    }
}

/// An epilogue on blocks of a kernel's results that are still in cache.
pub(crate) trait BlockEpilogue: Send + Sync {
    /// Computes a box of the results, which the kernel has written. Runs on the calling thread.
    ///
    /// # Safety
    /// As [`Kernel::run`]; the box is inside the dimensions of the result.
    unsafe fn run_on_box(&self, tensors: &[*mut u8], origin: &[usize], size: &[usize]);

    /// The same for some elements, numbered in memory order of the result.
    ///
    /// # Safety
    /// As [`BlockEpilogue::run_on_box`], for the elements.
    unsafe fn run_on_range(&self, tensors: &[*mut u8], elements: std::ops::Range<usize>);

    /// Estimated nanoseconds per element.
    fn time(&self) -> f64;
}

impl<T: Functions, const N: usize> BlockEpilogue for Elements<T, N> {
    unsafe fn run_on_box(&self, tensors: &[*mut u8], origin: &[usize], size: &[usize]) {
        let (nest, base) = self.axes.nest_of_box(origin, size);
        let elements = nest.runs() * nest.len;
        // SAFETY: the tensors are those of the operation, as this function requires.
        unsafe { self.part(tensors, &nest, base, 0..elements) };
    }

    unsafe fn run_on_range(&self, tensors: &[*mut u8], elements: std::ops::Range<usize>) {
        // SAFETY: the tensors are those of the operation, as this function requires.
        unsafe { self.part(tensors, &self.nest, [0; N], elements) };
    }

    fn time(&self) -> f64 {
        self.time
    }
}
