//! Dropout of probabilities, block by block.

use crate::attention::scales::ScaleSource;
use crate::attention::scores::{Mask, ScoreBlock};
use crate::attention::shared::philox::philox;
use crate::attention::shared::sequences::Sequence;
use crate::kernel::Refusal;
use crate::pointwise::functions::Functions;
use crate::problem::attention::options::{Dropout as Options, Scale};
use crate::problem::attention::shape::{Integers, Shape};
use crate::simd::array::Each;
use crate::simd::isa::{Isa, IsaTask};
use crate::tensor::view::Pointers;

/// The factors of probabilities.
pub(crate) enum Dropout<T> {
    /// 0 or a constant factor, as a random generator decides.
    Random {
        /// Words of the generator below this drop a probability.
        least: u64,
        factor: T,
        seed: Integers,
        offset: Integers,
        heads: usize,
        queries: usize,
        keys: usize,
    },
    /// A mask times a scale.
    Mask(Mask<T>, ScaleSource<T>),
}

impl<T: Functions> Dropout<T> {
    pub(crate) fn of(options: &Options, shape: &Shape) -> Result<Self, Refusal> {
        Ok(match options {
            Options::Random { probability, seed, offset } => {
                let probability = f64::from(*probability);
                Self::Random {
                    // A word w drops if w / 2³² is below the probability; the product is exact.
                    least: (probability * 2.0_f64.powi(32)).ceil() as u64,
                    factor: T::from_f64(1.0 / (1.0 - probability)),
                    seed: *seed,
                    offset: *offset,
                    heads: shape.heads,
                    queries: shape.queries,
                    keys: shape.keys,
                }
            }
            Options::Mask { mask, scale } => {
                Self::Mask(Mask::of("dropout_mask", mask)?, ScaleSource::of(&Scale::Tensor(*scale))?)
            }
        })
    }

    /// Writes the factors of a block of scores over its bias.
    ///
    /// # Safety
    /// As [`Scores::apply`](crate::attention::scores::Scores::apply).
    pub(crate) unsafe fn factors(
        &self,
        isa: Isa,
        tensors: &[*mut u8],
        sequence: &Sequence,
        head: usize,
        block: &ScoreBlock<T>,
    ) {
        let ScoreBlock { row_stride, columns, queries, keys, added, .. } = block;
        let (row_stride, columns, rows) = (*row_stride, *columns, keys.len());
        match self {
            Self::Random { least, factor, seed, offset, heads, queries: all_queries, keys: all_keys } => {
                let row = (sequence.index * heads + head) * all_queries + sequence.first + queries.start;
                // SAFETY: the tensors are those of the operation, as this function requires; the block has room for its rows.
                unsafe {
                    let pointers = Pointers::new(tensors);
                    let [seed, offset] = [seed, offset].each(|integer| pointers.integer(integer, [0, 0]));
                    isa.run(RandomFactors {
                        to: *added,
                        row_stride,
                        rows,
                        columns,
                        first: (row * all_keys + keys.start) as u64,
                        column: *all_keys as u64,
                        upper: halves(offset.cast_unsigned()),
                        key: halves(seed.cast_unsigned()),
                        least: *least,
                        factor: *factor,
                    });
                }
            }
            Self::Mask(mask, scale) => {
                // SAFETY: the tensors are those of the operation, as this function requires; the block has room for its rows.
                unsafe {
                    let scale = scale.get(tensors);
                    let each = mask.load(isa, tensors, sequence, head, block);
                    isa.run(MaskFactors { to: *added, row_stride, rows, columns, each, scale });
                }
            }
        }
    }
}

fn halves(bits: u64) -> [u32; 2] {
    [bits as u32, (bits >> 32) as u32]
}

/// The generator's factors. The score at row r and column c has the index first + r + c · column.
struct RandomFactors<T> {
    to: *mut T,
    row_stride: usize,
    rows: usize,
    columns: usize,
    first: u64,
    column: u64,
    upper: [u32; 2],
    key: [u32; 2],
    least: u64,
    factor: T,
}

impl<T: Functions> IsaTask for RandomFactors<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { first, column, upper: [c, d], key, least, factor, .. } = self;
        let words = |index: u64| {
            let [a, b] = halves(index / 4);
            philox([a, b, c, d], key)
        };
        let of = |word: u32| if u64::from(word) >= least { factor } else { T::ZERO };
        let mut row = 0;
        while row < self.rows {
            let index = first + row as u64;
            // Four neighbours share a counter: the same four rows in all columns, if the stride permits.
            let (at, count) = match column % 4 {
                0 => ((index % 4) as usize, (4 - (index % 4) as usize).min(self.rows - row)),
                _ => (0, 1),
            };
            for query in 0..self.columns {
                let index = index + query as u64 * column;
                let words = words(index);
                // SAFETY: the creator of the task guarantees room for these values.
                unsafe {
                    let to = self.to.add(row * self.row_stride + query);
                    if column % 4 == 0 {
                        for (i, word) in words[at..at + count].iter().enumerate() {
                            to.add(i * self.row_stride).write(of(*word));
                        }
                    } else {
                        to.write(of(words[(index % 4) as usize]));
                    }
                }
            }
            row += count;
        }
    }
}

/// Factors of a mask, already loaded: one per score, or one per row in consecutive elements.
struct MaskFactors<T> {
    to: *mut T,
    row_stride: usize,
    rows: usize,
    columns: usize,
    each: bool,
    scale: T,
}

impl<T: Functions> IsaTask for MaskFactors<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // Starts at the last row, so that no factor is overwritten before it is read.
        for row in (0..self.rows).rev() {
            // SAFETY: the creator of the task guarantees these values, and room for as many.
            unsafe {
                let of_row = self.to.add(row).read();
                let to = std::slice::from_raw_parts_mut(self.to.add(row * self.row_stride), self.columns);
                match self.each {
                    true => to.iter_mut().for_each(|factor| *factor = *factor * self.scale),
                    false => to.fill(of_row * self.scale),
                }
            }
        }
    }
}

/// Multiplies values by their factors. Dropped values become -0 like masked scores; zeros stay unchanged.
pub(crate) struct Drop<T> {
    pub(crate) values: *mut T,
    pub(crate) factors: *const T,
    pub(crate) len: usize,
}

impl<T: Functions> IsaTask for Drop<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // SAFETY: the creator of the task guarantees these values.
        let (values, factors) = unsafe {
            let values = std::slice::from_raw_parts_mut(self.values, self.len);
            (values, std::slice::from_raw_parts(self.factors, self.len))
        };
        for (value, factor) in values.iter_mut().zip(factors) {
            let product = if *value == T::ZERO { *value } else { *value * *factor };
            *value = if *factor == T::ZERO { -T::ZERO } else { product };
        }
    }
}
