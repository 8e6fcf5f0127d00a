//! Chains with reductions, such as softmax, row by row. A row is reduced to one value.
//!
//! Rows are short enough that the results of all operations on one stay in the L1 or L2 cache: tensors are
//! read once and the result is written once.

use crate::kernel::{Facts, Kernel, Refusal};
use crate::layout::MAX_RANK;
use crate::pointwise::chain::Chain;
use crate::pointwise::functions::{ColumnFunction, Functions, RowFunction};
use crate::pointwise::program::{Bindings, Program, SPREADS};
use crate::pointwise::softmax::Softmax;
use crate::pointwise::softmax_columns::SoftmaxColumns;
use crate::problem::Operand;
use crate::simd::isa::Isa;
use crate::tensor::loop_nest::LoopNest;
use crate::tensor::row::Row;
use crate::tensor::row_converter::RowConverter;
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Threads, Workers};

/// The longest row whose results still stay in the L2 cache.
pub(crate) const LONGEST: usize = 1 << 15;

/// The longest row of a softmax that reads and writes tensors in place: three passes over it beat five operations.
const LONGEST_IN_PLACE: usize = 1 << 20;

/// How many rows of a softmax are converted together.
const TOGETHER: usize = 4;

/// Inputs and results.
const TENSORS: usize = crate::pointwise::chain::MAX_INPUTS + 1;

// There are buffers for an input, the repeated values and the result.
const _: () = assert!(TOGETHER <= SPREADS + 2);

/// How a row of a tensor is read or written.
enum Access<T> {
    /// One element per element of the row.
    Row(Box<Row<T>>),
    /// One element for the whole row.
    One(usize, RowConverter<T>),
}

/// A softmax of columns: adjacent rows of the chain are contiguous.
#[derive(Clone, Copy)]
struct Columns<T> {
    input: usize,
    /// Strides within a row of the input and the result.
    strides: [usize; 2],
    run: ColumnFunction<T>,
}

/// A planned chain with reductions.
pub(crate) struct Rows<T> {
    program: Program<T>,
    inputs: Vec<Access<T>>,
    output: Access<T>,
    /// The loops over rows, for each input and, last, the result.
    nest: LoopNest<TENSORS>,
    /// Elements of a row.
    len: usize,
    /// The input and the function, if the chain is a softmax of contiguous rows.
    softmax: Option<(usize, RowFunction<T>)>,
    /// Whether that reads and writes the tensors themselves.
    in_place: bool,
    /// The softmax of adjacent columns, if the chain is one.
    columns: Option<Columns<T>>,
    workers: Workers,
    /// Whether results must not depend on the number of rows.
    is_invariant: bool,
}

impl<T: Functions> Rows<T> {
    /// Plans a chain with reductions over the dimensions of `dims` that `reduced` marks.
    pub(crate) fn plan(
        chain: &Chain,
        dims: &[usize],
        reduced: &[bool],
        output: &Operand,
        isa: Isa,
        threads: Threads,
    ) -> Result<Self, Refusal> {
        let count = chain.inputs.len();
        if count >= TENSORS {
            return Err(format!("a chain of {count} inputs, expected at most {}", TENSORS - 1));
        }
        let pick = |of_axes: &[usize], within: bool| -> Vec<usize> {
            let kept = of_axes.iter().zip(reduced).filter(|(_, reduced)| **reduced == within);
            kept.map(|(index, _)| *index).collect()
        };
        let len: usize = pick(dims, true).iter().product();
        let too_long = |most: usize| Err(format!("a row of {len} elements, expected at most {most}"));
        if len > LONGEST_IN_PLACE {
            return too_long(LONGEST_IN_PLACE);
        }
        let input_is_one = |input: usize| {
            let strides = chain.inputs.get(input).map(|input| input.strides).unwrap_or_default();
            (0..dims.len()).all(|axis| !reduced[axis] || dims[axis] == 1 || strides[axis] == 0)
        };
        let program = Program::<T>::plan(chain, isa, input_is_one)?;
        let one = program.one.is_some();
        let mut end = [0; MAX_RANK];
        end[..output.layout.rank()].copy_from_slice(output.layout.strides());
        // Rows are in the order of the result, or of the first input if the result has one element per row.
        let by = if one { chain.inputs.first().map_or(end, |input| input.strides) } else { end };
        let by = pick(&by[..dims.len()], true);
        let access = |slot, data_type, strides: &[usize], one: bool| -> Result<Access<T>, Refusal> {
            let within = pick(&strides[..dims.len()], true);
            let fold_row = pick(dims, true);
            let shared = within.iter().zip(&fold_row).all(|(stride, dim)| *stride == 0 || *dim == 1);
            if one || shared {
                return Ok(Access::One(slot, RowConverter::of_number(data_type)?));
            }
            Ok(Access::Row(Box::new(Row::of(slot, data_type, &fold_row, &by, &within)?)))
        };
        let inputs =
            chain.inputs.iter().map(|input| access(input.slot, input.data_type, &input.strides, false));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let mut strides = vec![vec![0; dims.len() - by.len()]; TENSORS];
        for (to, input) in strides.iter_mut().zip(&chain.inputs) {
            *to = pick(&input.strides[..dims.len()], false);
        }
        strides[TENSORS - 1] = pick(&end[..dims.len()], false);
        let outer = pick(dims, false);
        let nest = LoopNest::new(&outer, std::array::from_fn(|i| strides[i].as_slice()), TENSORS - 1);
        let rows = nest.runs() * nest.len;
        let workers = threads.workers(rows as f64 * (len as f64 * program.time + 50.0), rows);
        let output = access(output.slot, output.data_type, &end, one)?;
        let is_run = |access: &Access<T>| matches!(access, Access::Row(row) if row.is_run());
        let softmax =
            program.softmax().filter(|(input, _)| is_run(&output) && inputs.get(*input).is_some_and(is_run));
        let is_direct = |access: &Access<T>| matches!(access, Access::Row(row) if row.direct);
        let in_place =
            softmax.is_some_and(|(input, _)| is_direct(&output) && inputs.get(input).is_some_and(is_direct));
        if len > LONGEST && !in_place {
            return too_long(LONGEST);
        }
        let columns = program.softmax().filter(|_| softmax.is_none()).and_then(|(input, _)| {
            let (Access::Row(from), Access::Row(to)) = (inputs.get(input)?, &output) else { return None };
            let strides = [from.column()?, to.column()?];
            let are_columns = nest.inner_strides[input] == 1 && nest.inner_strides[TENSORS - 1] == 1;
            are_columns.then_some(Columns { input, strides, run: T::SOFTMAX_COLUMNS? })
        });
        let is_invariant = threads.batch_invariant;
        Ok(Self { program, inputs, output, nest, len, softmax, in_place, columns, workers, is_invariant })
    }

    /// Computes the softmax of rows that are columns in memory.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    unsafe fn columns(&self, tensors: &[*mut u8], columns: Columns<T>, rows: std::ops::Range<usize>) {
        let (Access::Row(from), Access::Row(to)) = (&self.inputs[columns.input], &self.output) else {
            return;
        };
        let nest = &self.nest;
        let mut row = rows.start;
        while row < rows.end {
            let first = row % nest.len;
            let offsets = nest.position(row / nest.len).offsets;
            let count = (nest.len - first).min(rows.end - row);
            // SAFETY: this function requires the tensors, which have the rows.
            unsafe {
                let x = from.first(tensors, offsets[columns.input] + first).cast_const().cast();
                let y = to.first(tensors, offsets[TENSORS - 1] + first).cast();
                let of = SoftmaxColumns { x, y, len: self.len, columns: count, strides: columns.strides };
                (columns.run)(self.program.isa, of);
            }
            row += count;
        }
    }

    /// Values of a row's buffer.
    fn row_stride(&self) -> usize {
        Scratch::padded::<T>(self.len)
    }

    /// Values of a worker's buffers: a row for each input, register and repeated value, and one for the result.
    fn room(&self) -> usize {
        if self.in_place {
            return 0;
        }
        (self.inputs.len() + self.program.registers + SPREADS + 1) * self.row_stride()
    }

    /// Computes the softmax of rows: those with one stride together, but at most [`TOGETHER`] if converted.
    ///
    /// # Safety
    /// As [`Kernel::run`]; rows of the input and the result are contiguous, and the buffer has room for
    /// converted ones.
    unsafe fn softmax(
        &self,
        tensors: &[*mut u8],
        (input, run): (usize, RowFunction<T>),
        rows: std::ops::Range<usize>,
        buffer: *mut T,
    ) {
        let (Access::Row(from), Access::Row(to)) = (&self.inputs[input], &self.output) else { return };
        let (nest, len) = (&self.nest, self.len);
        let most = if from.direct && to.direct { usize::MAX } else { TOGETHER };
        let mut row = rows.start;
        while row < rows.end {
            let first = row % nest.len;
            let position = nest.position(row / nest.len);
            let offset = |tensor: usize, row: usize| {
                position.offsets[tensor] + (first + row) * nest.inner_strides[tensor]
            };
            let count = (nest.len - first).min(rows.end - row).min(most);
            let (mut x, mut y) = ((buffer.cast_const(), len), (buffer, len));
            // SAFETY: the input has the rows, and the buffer room for converted ones.
            unsafe {
                if from.direct {
                    x = (
                        from.first(tensors, offset(input, 0)).cast_const().cast(),
                        nest.inner_strides[input],
                    );
                } else if nest.inner_strides[input] == len {
                    from.load(tensors, offset(input, 0), buffer, count * len);
                } else {
                    (0..count)
                        .for_each(|row| from.load(tensors, offset(input, row), buffer.add(row * len), len));
                }
            }
            // SAFETY: the result has the rows, and if they are converted, the buffer has them.
            unsafe {
                if to.direct {
                    y = (to.first(tensors, offset(TENSORS - 1, 0)).cast(), nest.inner_strides[TENSORS - 1]);
                }
                let (strides, is_invariant) = ([x.1, y.1], self.is_invariant);
                run(self.program.isa, Softmax { x: x.0, y: y.0, len, rows: count, strides, is_invariant });
                match (to.direct, nest.inner_strides[TENSORS - 1]) {
                    (true, _) => {}
                    (false, inner) if inner == len => {
                        to.store(tensors, offset(TENSORS - 1, 0), buffer, count * len);
                    }
                    (false, _) => (0..count).for_each(|row| {
                        to.store(tensors, offset(TENSORS - 1, row), buffer.add(row * len), len);
                    }),
                }
            }
            row += count;
        }
    }

    /// Computes the row whose first elements have these offsets.
    ///
    /// # Safety
    /// As [`Kernel::run`]; `buffers` has [`Rows::room`] values, and `bindings` has registers and spreads in them.
    #[inline(always)]
    unsafe fn row(
        &self,
        tensors: &[*mut u8],
        offsets: &[usize; TENSORS],
        buffers: *mut T,
        bindings: &mut Bindings<T>,
    ) {
        let buffer = |index: usize| buffers.wrapping_add(index * self.row_stride());
        for (index, input) in self.inputs.iter().enumerate() {
            // SAFETY: the input has the row, and its buffer room for it.
            unsafe {
                match input {
                    Access::Row(row) => {
                        let values = row.values(tensors, offsets[index], buffer(index));
                        *bindings.input(index) = values.cast_mut();
                    }
                    Access::One(slot, run) => {
                        let from = tensors[*slot].add(offsets[index] * run.size);
                        (run.load)(from, 0, bindings.one(index), 1);
                    }
                }
            }
        }
        let (end, last) = (offsets[TENSORS - 1], buffer(self.inputs.len()));
        // SAFETY: the result has the row, for which there is a buffer, and the program's rows are bound.
        unsafe {
            match (&self.output, self.program.one) {
                (Access::Row(row), None) => {
                    let out = row.target(tensors, end, last);
                    *bindings.out() = out;
                    self.program.run(bindings, self.len);
                    row.written(tensors, end, out);
                }
                (Access::One(slot, run), Some(one)) => {
                    self.program.run(bindings, self.len);
                    (run.store)(&raw const bindings.ones[one], tensors[*slot].add(end * run.size), 1, 1);
                }
                // A row with one element.
                (Access::One(slot, run), None) => {
                    *bindings.out() = last;
                    self.program.run(bindings, self.len);
                    (run.store)(last, tensors[*slot].add(end * run.size), 1, 1);
                }
                // Never planned.
                (Access::Row(_), Some(_)) => {}
            }
        }
    }
}

impl<T: Functions> Kernel for Rows<T> {
    fn facts(&self) -> Facts {
        let name = match (self.softmax.is_some(), self.columns.is_some()) {
            (true, _) => "softmax of rows",
            (false, true) => "softmax of columns",
            (false, false) => "row by row",
        };
        Facts::new(name, self.workers.threads())
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| scratch.area::<T>(self.room(), self.workers.count()))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let (shared, buffers) = (Tensors(tensors), Shared([scratch]));
        let rows = self.nest.runs() * self.nest.len;
        self.workers.run(|worker| {
            let rows = self.workers.share(worker, rows);
            // SAFETY: the scratch memory has buffers for each worker.
            let buffers =
                unsafe { buffers.get(0).cast::<T>().add(worker * Scratch::padded::<T>(self.room())) };
            if let Some(softmax) = self.softmax {
                // SAFETY: this function requires the tensors; each worker computes its own rows.
                unsafe { self.softmax(shared.all(), softmax, rows, buffers) };
                return;
            }
            if let Some(columns) = self.columns {
                // SAFETY: this function requires the tensors; no two workers share a row.
                unsafe { self.columns(shared.all(), columns, rows) };
                return;
            }
            let mut bindings = Bindings::null();
            // SAFETY: there is room for all of these after the rows of the inputs and the result.
            let buffer =
                |index: usize| unsafe { buffers.add((self.inputs.len() + 1 + index) * self.row_stride()) };
            for register in 0..self.program.registers {
                *bindings.register(register) = buffer(register);
            }
            for spread in 0..SPREADS {
                *bindings.spread(spread) = buffer(self.program.registers + spread);
            }
            let mut elements = crate::tensor::loop_nest::Elements::new(&self.nest, rows);
            while let Some(offsets) = elements.next() {
                // SAFETY: this function requires the tensors; each worker computes its own rows.
                unsafe { self.row(shared.all(), &offsets, buffers, &mut bindings) };
            }
        });
    }
}
