//! Block-quantized matrices with 2, 4 or 8 bits per element, and a scale and zero point per block: their layout, and products with them.
//!
//! The hottest functions are compiled for several instruction sets; the processor's is chosen once.

#![expect(
    clippy::indexing_slicing,
    reason = "lengths are checked when a matrix is made; checks in the loops would cost time"
)]

#[cfg(target_arch = "x86_64")]
mod x86;

use std::borrow::Cow;
use std::ops::Range;

/// The layout of weights: n rows of k numbers of a few bits, in blocks that begin at a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The number of rows, which are columns of the product.
    pub n: usize,
    /// The numbers in a row.
    pub k: usize,
    /// The numbers in a block.
    pub size: usize,
    /// The bits per number: 2, 4 or 8.
    pub bits: usize,
}

/// The zero points.
#[derive(Clone, Debug)]
pub enum Zeros<'a> {
    /// The middle of the range.
    Middle,
    /// One per block, packed like the weights; rows begin at a byte.
    Packed(&'a [u8]),
    /// One per block.
    Floats(Cow<'a, [f32]>),
}

/// A matrix.
#[derive(Clone, Debug)]
pub struct Matrix<'a> {
    form: Form,
    bytes: &'a [u8],
    scales: Cow<'a, [f32]>,
    zeros: Zeros<'a>,
}

/// Block sizes are multiples of this.
const CHUNK: usize = 16;

/// Rows of the left operand multiplied at a time.
const ROWS: usize = 4;

impl Form {
    /// The layout, or why it is not supported.
    pub fn new(n: i64, k: i64, size: i64, bits: i64) -> Result<Self, String> {
        let whole =
            |number: i64| usize::try_from(number).ok().filter(|number| (1..=1 << 31).contains(number));
        let form = match (whole(n), whole(k), whole(size), bits) {
            (Some(n), Some(k), Some(size), 2) if size % CHUNK == 0 => Some(Self { n, k, size, bits: 2 }),
            (Some(n), Some(k), Some(size), 4) if size % CHUNK == 0 => Some(Self { n, k, size, bits: 4 }),
            (Some(n), Some(k), Some(size), 8) if size % CHUNK == 0 => Some(Self { n, k, size, bits: 8 }),
            _ => None,
        };
        form.ok_or_else(|| format!("{n} × {k} weights of {bits} bits in blocks of {size}"))
    }

    fn blocks(self) -> usize {
        self.k.div_ceil(self.size)
    }

    /// The bytes of the weights.
    pub fn bytes(self) -> usize {
        self.n * self.blocks() * self.block_bytes()
    }

    /// Numbers read at a time.
    fn chunk(self) -> usize {
        if self.bits == 4 && self.size.is_multiple_of(2 * CHUNK) { 2 * CHUNK } else { CHUNK }
    }

    fn block_bytes(self) -> usize {
        self.size * self.bits / 8
    }

    /// The number of scales.
    pub fn scales(self) -> usize {
        self.n * self.blocks()
    }

    /// The bytes of packed zero points.
    pub fn zero_bytes(self) -> usize {
        self.n * (self.blocks() * self.bits).div_ceil(8)
    }
}

impl<'a> Matrix<'a> {
    /// A matrix, if it has as many bytes, scales and zero points as its layout needs.
    pub fn new(
        form: Form,
        bytes: &'a [u8],
        scales: Cow<'a, [f32]>,
        zeros: Zeros<'a>,
    ) -> Result<Self, String> {
        let enough = match &zeros {
            Zeros::Middle => true,
            Zeros::Packed(bytes) => bytes.len() == form.zero_bytes(),
            Zeros::Floats(floats) => floats.len() == form.scales(),
        };
        if bytes.len() != form.bytes() || scales.len() != form.scales() || !enough {
            let (have, of, Form { n, k, .. }) = (bytes.len(), scales.len(), form);
            return Err(format!("{have} bytes and {of} scales, or other zeros, for {n} × {k} weights"));
        }
        Ok(Self { form, bytes, scales, zeros })
    }

    fn zero(&self, row: usize, block: usize) -> f32 {
        let Form { bits, .. } = self.form;
        match &self.zeros {
            Zeros::Middle => (1_u32 << (bits - 1)) as f32,
            Zeros::Floats(floats) => floats[row * self.form.blocks() + block],
            Zeros::Packed(bytes) => {
                let (row_bytes, bit) = (bytes.len() / self.form.n, block * bits);
                let byte = bytes[row * row_bytes + bit / 8];
                f32::from((byte >> (bit % 8)) & (0xff >> (8 - bits)))
            }
        }
    }

    fn block(&self, row: usize, block: usize) -> &[u8] {
        let (place, bytes) = (row * self.form.blocks() + block, self.form.block_bytes());
        &self.bytes[place * bytes..(place + 1) * bytes]
    }

    /// Unpacks the numbers of a row, as many as fit.
    pub fn row(&self, row: usize, to: &mut [f32]) {
        match self.form.bits {
            2 => self.row_of::<2, 4>(row, to),
            4 => self.row_of::<4, 2>(row, to),
            _ => self.row_of::<8, 1>(row, to),
        }
    }

    /// The same for a number of bits of which a byte has `EACH`.
    fn row_of<const BITS: usize, const EACH: usize>(&self, row: usize, to: &mut [f32]) {
        let mask = 0xff >> (8 - BITS);
        for (block, to) in to.chunks_mut(self.form.size).enumerate() {
            let (scale, zero) = (self.scales[row * self.form.blocks() + block], self.zero(row, block));
            let number = |byte: u8, at: usize| (f32::from((byte >> (at * BITS)) & mask) - zero) * scale;
            let bytes = self.block(row, block);
            let (whole, rest) = to.as_chunks_mut::<EACH>();
            for (byte, to) in bytes.iter().zip(&mut *whole) {
                *to = std::array::from_fn(|at| number(*byte, at));
            }
            let last = bytes.get(whole.len()).copied().unwrap_or(0);
            rest.iter_mut().enumerate().for_each(|(at, to)| *to = number(last, at));
        }
    }

    /// Multiplies rows with some columns of the product, and passes each element to `store` with its row and column.
    pub fn multiply(&self, rows: &Rows, columns: Range<usize>, store: &mut dyn FnMut(usize, usize, f32)) {
        let multiply = multiply_for_this_processor();
        // SAFETY: the function was chosen by the processor's features.
        unsafe { multiply(self, rows, columns, store) }
    }
}

/// Rows of the left operand in the order in which products read them: in each chunk, first what meets the lowest bits of all bytes, then
/// the next ones. The last block is padded with zeros.
pub struct Rows {
    numbers: Vec<f32>,
    count: usize,
    length: usize,
}

impl Rows {
    /// Rows for products with matrices of a layout; `read` returns element `at` of all rows in order.
    pub fn new(form: Form, count: usize, read: impl Fn(usize) -> f32) -> Self {
        let length = form.blocks() * form.size;
        let (each, size) = (8 / form.bits, form.chunk());
        let bytes = size / each;
        let mut numbers = vec![0.0; count * length];
        for (row, numbers) in numbers.chunks_exact_mut(length).enumerate() {
            for at in 0..form.k {
                let (chunk, inside) = (at / size, at % size);
                numbers[chunk * size + inside % each * bytes + inside / each] = read(row * form.k + at);
            }
        }
        Self { numbers, count, length }
    }

    fn row(&self, at: usize) -> &[f32] {
        &self.numbers[at * self.length..(at + 1) * self.length]
    }
}

type Store<'a> = &'a mut dyn FnMut(usize, usize, f32);
type Multiply = unsafe fn(&Matrix<'_>, &Rows, Range<usize>, Store<'_>);

#[cfg(target_arch = "x86_64")]
fn multiply_for_this_processor() -> Multiply {
    x86::multiply().unwrap_or(multiply::<false>)
}

#[cfg(not(target_arch = "x86_64"))]
fn multiply_for_this_processor() -> Multiply {
    multiply::<true>
}

#[inline(always)]
fn multiply<const FMA: bool>(matrix: &Matrix<'_>, a: &Rows, columns: Range<usize>, store: Store<'_>) {
    let whole = a.count / ROWS * ROWS;
    for column in columns {
        for first in (0..whole).step_by(ROWS) {
            let sums = of_bits::<FMA, ROWS>(matrix, a, first, column);
            sums.iter().enumerate().for_each(|(at, sum)| store(first + at, column, *sum));
        }
        for first in whole..a.count {
            let [sum] = of_bits::<FMA, 1>(matrix, a, first, column);
            store(first, column, sum);
        }
    }
}

#[inline(always)]
fn of_bits<const FMA: bool, const R: usize>(
    matrix: &Matrix<'_>,
    a: &Rows,
    first: usize,
    column: usize,
) -> [f32; R] {
    match (matrix.form.bits, matrix.form.chunk()) {
        (2, _) => column_of::<FMA, R, 2, 4, CHUNK>(matrix, a, first, column),
        (4, CHUNK) => column_of::<FMA, R, 4, 8, CHUNK>(matrix, a, first, column),
        (4, _) => column_of::<FMA, R, 4, 16, { 2 * CHUNK }>(matrix, a, first, column),
        _ => column_of::<FMA, R, 8, 16, CHUNK>(matrix, a, first, column),
    }
}

/// The products of some rows with a column of numbers of this many bits, read in chunks of these sizes.
#[inline(always)]
fn column_of<const FMA: bool, const R: usize, const BITS: usize, const BYTES: usize, const SIZE: usize>(
    matrix: &Matrix<'_>,
    a: &Rows,
    first: usize,
    column: usize,
) -> [f32; R] {
    let (blocks, size) = (matrix.form.blocks(), matrix.form.size);
    let rows: [&[f32]; R] = std::array::from_fn(|row| a.row(first + row));
    let mut totals = [[0.0_f32; SIZE]; R];
    let scales = &matrix.scales[column * blocks..(column + 1) * blocks];
    for (block, scale) in scales.iter().enumerate() {
        let zero = matrix.zero(column, block);
        let mut sums = [[0.0_f32; SIZE]; R];
        let (chunks, _) = matrix.block(column, block).as_chunks::<BYTES>();
        for (chunk, bytes) in chunks.iter().enumerate() {
            let numbers = unpacked::<BITS, BYTES, SIZE>(bytes, zero);
            let begin = block * size + chunk * SIZE;
            for (sums, row) in sums.iter_mut().zip(&rows) {
                add::<FMA, SIZE>(sums, &numbers, &row[begin..begin + SIZE]);
            }
        }
        for (totals, sums) in totals.iter_mut().zip(&sums) {
            add::<FMA, SIZE>(totals, sums, &[*scale; SIZE]);
        }
    }
    totals.map(|totals| totals.iter().sum())
}

/// The numbers of a chunk minus the zero point: first the lowest bits of all bytes.
#[inline(always)]
fn unpacked<const BITS: usize, const BYTES: usize, const SIZE: usize>(
    bytes: &[u8; BYTES],
    zero: f32,
) -> [f32; SIZE] {
    let mask = 0xff_u8 >> (8 - BITS);
    std::array::from_fn(|at| f32::from((bytes[at % BYTES] >> (at / BYTES * BITS)) & mask) - zero)
}

#[inline(always)]
fn add<const FMA: bool, const SIZE: usize>(to: &mut [f32; SIZE], x: &[f32; SIZE], y: &[f32]) {
    for ((to, x), y) in to.iter_mut().zip(x).zip(y) {
        *to = if FMA { x.mul_add(*y, *to) } else { x * y + *to };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(matrix: &Matrix<'_>, at: usize) -> Vec<f32> {
        let mut row = vec![f32::NAN; matrix.form.k];
        matrix.row(at, &mut row);
        row
    }

    #[test]
    fn weights_are_read_low_bits_first() {
        let form = Form::new(1, 18, 16, 4).unwrap();
        let mut bytes = vec![0x98; 16];
        bytes[0] = 0xf0;
        bytes[8] = 0x3a;
        let scales = Cow::Borrowed(&[2.0, 0.5][..]);
        let numbers = row(&Matrix::new(form, &bytes, scales.clone(), Zeros::Middle).unwrap(), 0);
        assert_eq!(numbers.len(), 18);
        assert_eq!((numbers[0], numbers[1], numbers[2], numbers[3]), (-16.0, 14.0, 0.0, 2.0));
        assert_eq!((numbers[16], numbers[17]), (1.0, -2.5));
        let numbers = row(&Matrix::new(form, &bytes, scales, Zeros::Packed(&[0x10])).unwrap(), 0);
        assert_eq!((numbers[0], numbers[1], numbers[16], numbers[17]), (0.0, 30.0, 4.5, 1.0));
    }

    #[test]
    fn forms_that_do_not_fit_are_refused() {
        for (n, k, size, bits) in [(2, 16, 16, 3), (2, 16, 8, 4), (0, 16, 16, 4), (2, -1, 16, 4)] {
            assert!(Form::new(n, k, size, bits).is_err());
        }
        let form = Form::new(2, 16, 16, 8).unwrap();
        let scales = Cow::Borrowed(&[1.0; 2][..]);
        assert!(Matrix::new(form, &[0; 31], scales.clone(), Zeros::Middle).is_err());
        assert!(Matrix::new(form, &[0; 32], scales.clone(), Zeros::Packed(&[0; 3])).is_err());
        assert!(Matrix::new(form, &[0; 32], scales, Zeros::Packed(&[0; 2])).is_ok());
    }

    #[test]
    fn products_are_those_of_the_numbers() {
        for (bits, size, k, count) in
            [(4, 32, 70, 1), (4, 64, 200, 6), (4, 16, 16, 6), (2, 16, 40, 5), (8, 48, 100, 4)]
        {
            let form = Form::new(5, k, size, bits).unwrap();
            let bytes: Vec<u8> = (0..form.bytes()).map(|at| (at * 37 % 251) as u8).collect();
            let scales: Vec<f32> = (0..form.scales()).map(|at| 0.25 + at as f32 / 16.0).collect();
            let zeros: Vec<f32> = (0..form.scales()).map(|at| at as f32 - 3.5).collect();
            let packed: Vec<u8> = (0..form.zero_bytes()).map(|at| (at * 91 % 241) as u8).collect();
            for zeros in [Zeros::Middle, Zeros::Packed(&packed), Zeros::Floats(Cow::Owned(zeros.clone()))] {
                let matrix = Matrix::new(form, &bytes, Cow::Borrowed(&scales), zeros).unwrap();
                let a = |at: usize| ((at * 29 % 17) as f32 - 8.0) / 8.0;
                let mut seen = 0;
                let rows = Rows::new(form, count, a);
                let mut all: Vec<Multiply> = vec![multiply_for_this_processor(), multiply::<false>];
                #[cfg(target_arch = "x86_64")]
                all.extend(x86::all());
                for multiply in &all {
                    let mut store = |row: usize, column: usize, have: f32| {
                        let b = self::row(&matrix, column);
                        let want: f64 = b
                            .iter()
                            .enumerate()
                            .map(|(at, b)| f64::from(*b) * f64::from(a(row * form.k + at)))
                            .sum();
                        let scale: f64 = b.iter().map(|b| f64::from(b.abs())).sum();
                        // Eight lanes at least add a part of the terms each.
                        let roundings = (form.k / 8 + 8) as f64;
                        let most = roundings * f64::from(f32::EPSILON) / 2.0 * scale;
                        assert!((f64::from(have) - want).abs() <= most, "{have} {want}");
                        seen += 1;
                    };
                    // SAFETY: the first was chosen by the processor's features; the other has no requirements.
                    unsafe { multiply(&matrix, &rows, 1..5, &mut store) };
                }
                assert_eq!(seen, 4 * count * all.len());
            }
        }
    }
}
