//! Sequences anywhere give the bits of sequences at even distances.

use super::super::gradients::{self, Gradients, Of};
use super::super::tests::{attention, some, tensor};
use super::super::{Attention, Band, Start, Tensor, write};
use crate::interpret::{Argument, run};
use crate::product::tests::{numbers, random};
use crate::scalar::Scalar;
use crate::target::Target;

const QUERIES: [usize; 2] = [17, 10];
const KEYS: [usize; 2] = [30, 44];
/// The most of them.
const MOST: [usize; 2] = [20, 44];
/// Elements of a unit of offsets, and units between sequences.
const MULTIPLIER: usize = 8;
const GAP: usize = 2;

/// Where each sequence's rows are: the first element, and the distance of rows.
type Places = Vec<(usize, usize)>;

/// A tensor of sequences in memory.
struct Rows {
    tensor: Tensor,
    bytes: Vec<u8>,
    /// Offsets or page table.
    start: Option<Vec<u8>>,
}

/// The bytes of a row of all heads.
fn row_bytes(tensor: &Tensor) -> usize {
    tensor.strides[2] * tensor.scalar.size()
}

fn integers(all: &[i64], scalar: Scalar) -> Vec<u8> {
    let of = |own: &i64| own.to_le_bytes().into_iter().take(scalar.size()).collect::<Vec<u8>>();
    all.iter().flat_map(of).collect()
}

/// Offsets of sequences of these lengths, in elements.
fn ragged(tensor: &Tensor, lengths: [usize; 2]) -> Places {
    let row = tensor.strides[2];
    let mut places = Vec::new();
    let mut next = 0;
    for length in lengths {
        places.push((next, row));
        next = (next + length * row).next_multiple_of(MULTIPLIER) + GAP * MULTIPLIER;
    }
    places
}

impl Rows {
    /// Rows at even distances as ragged ones, with gaps that no kernel may read or write.
    fn ragged(even: &Tensor, bytes: &[u8], lengths: [usize; 2]) -> Self {
        let size = even.scalar.size();
        let places = ragged(even, lengths);
        let extent = places.last().map_or(0, |(first, row)| first + lengths[1] * row);
        // The tensor has room for the most rows of one sequence.
        let extent = extent.max(even.strides[0]);
        let mut own = vec![0xff; extent * size];
        for (sequence, (first, _)) in places.iter().enumerate() {
            let from = sequence * even.strides[0] * size;
            let length = lengths[sequence] * row_bytes(even);
            own[first * size..][..length].copy_from_slice(&bytes[from..][..length]);
        }
        let offsets: Vec<i64> = places.iter().map(|(first, _)| (first / MULTIPLIER) as i64).collect();
        let end = extent.div_ceil(MULTIPLIER) as i64;
        let start = Start::Ragged { offsets: (Scalar::I64, 1), multiplier: MULTIPLIER, extent };
        let offsets = integers(&[offsets[0], offsets[1], end], Scalar::I64);
        Self { tensor: Tensor { start, ..*even }, bytes: own, start: Some(offsets) }
    }

    /// Rows at even distances in pages.
    fn paged(even: &Tensor, bytes: &[u8], rows: usize) -> Self {
        let columns = MOST[1].div_ceil(rows);
        let pages = 2 * columns + 1;
        let (row, page) = (row_bytes(even), rows * row_bytes(even));
        let mut own = vec![0xff; pages * page];
        let mut table = Vec::new();
        for (sequence, keys) in KEYS.into_iter().enumerate() {
            for column in 0..columns {
                // Backwards, and none is the first.
                let entry = pages - 1 - (sequence * columns + column);
                table.push(entry as i64);
                let first = column * rows;
                let count = rows.min(keys.saturating_sub(first));
                let from = sequence * even.strides[0] * even.scalar.size() + first * row;
                own[entry * page..][..count * row].copy_from_slice(&bytes[from..][..count * row]);
            }
        }
        let start = Start::Paged { rows, pages: [pages, columns], strides: [columns, 1] };
        let strides = [rows * even.strides[2], even.strides[1], even.strides[2], even.strides[3]];
        let tensor = Tensor { strides, start, ..*even };
        Self { tensor, bytes: own, start: Some(integers(&table, Scalar::I32)) }
    }

    fn even(tensor: &Tensor, bytes: &[u8]) -> Self {
        Self { tensor: *tensor, bytes: bytes.to_vec(), start: None }
    }

    fn arguments<'a>(&'a mut self, all: &mut Vec<Argument<'a>>) {
        all.push(Argument::Memory(&mut self.bytes));
        all.extend(self.start.as_mut().map(|bytes| Argument::Memory(bytes)));
    }
}

/// Checks that rows are those at even distances, and that nothing else was written.
fn check(got: &[u8], places: &Places, even: &Tensor, expected: &[u8], lengths: [usize; 2], what: &str) {
    let size = even.scalar.size();
    let mut left = got.to_vec();
    for (sequence, (first, _)) in places.iter().enumerate() {
        let length = lengths[sequence] * row_bytes(even);
        let from = sequence * even.strides[0] * size;
        assert_eq!(got[first * size..][..length], expected[from..][..length], "{what}, sequence {sequence}");
        left[first * size..][..length].fill(0xff);
    }
    assert!(left.iter().all(|byte| *byte == 0xff), "{what}: rows that belong to no sequence were written");
}

fn of_sequences() -> Attention {
    let mut own = attention(Scalar::F16, [MOST[0], MOST[1], 16, 16]);
    own.lengths = Some([(Scalar::I32, 1); 2]);
    own.band = Band { left: None, right: Some(0), bottom_right: true };
    own.o = tensor(Scalar::F16, [2, 2, MOST[0], 16]);
    own.statistics = [own.statistics[0], None, None];
    own
}

/// The output and statistics of an attention.
fn forward(
    attention: &Attention,
    target: &Target,
    [q, k, v]: [&mut Rows; 3],
    results: [&mut Rows; 2],
    lengths: [[i64; 2]; 2],
) -> Result<(), String> {
    let mut attention = attention.clone();
    [attention.q, attention.k, attention.v] = [q.tensor, k.tensor, v.tensor];
    let [o, stats] = results;
    attention.o = o.tensor;
    attention.statistics[0] = Some(stats.tensor);
    let launch = write(&attention, target, "attention").unwrap();
    let mut lengths = lengths.map(|own| integers(&own, Scalar::I32));
    let mut arguments = Vec::new();
    for rows in [q, k, v, o] {
        rows.arguments(&mut arguments);
    }
    arguments.extend(lengths.iter_mut().map(|bytes| Argument::Memory(bytes)));
    stats.arguments(&mut arguments);
    run(&launch.kernel, launch.grid, &mut arguments)
}

const LENGTHS: [[i64; 2]; 2] = [[QUERIES[0] as i64, QUERIES[1] as i64], [KEYS[0] as i64, KEYS[1] as i64]];

fn nothing(tensor: &Tensor) -> Vec<u8> {
    vec![0xff; 2 * tensor.strides[0] * tensor.scalar.size()]
}

#[test]
fn ragged_and_paged_sequences() {
    for (place, target) in some().into_iter().enumerate() {
        let own = of_sequences();
        let stats = own.statistics[0].unwrap();
        let bytes = |tensor: &Tensor, seed| random(2 * tensor.strides[0], Scalar::F16, seed).0;
        let [q, k, v] =
            [(&own.q, 1), (&own.k, 2), (&own.v, 3)].map(|(tensor, seed)| (tensor, bytes(tensor, seed)));
        let even = |(tensor, bytes): &(&Tensor, Vec<u8>)| Rows::even(tensor, bytes);
        let [mut o, mut rows] = [&own.o, &stats].map(|tensor| Rows::even(tensor, &nothing(tensor)));
        let all = [&mut even(&q), &mut even(&k), &mut even(&v)];
        forward(&own, &target, all, [&mut o, &mut rows], LENGTHS).unwrap();
        // Pages of a row, of some rows, of as many as a block has, and of more.
        for page in [None, Some([1, 12, 64][place % 3]), Some(256)] {
            let of_keys = |(tensor, bytes): &(&Tensor, Vec<u8>)| match page {
                Some(page) => Rows::paged(tensor, bytes, page),
                None => Rows::ragged(tensor, bytes, KEYS),
            };
            let mut all = [Rows::ragged(q.0, &q.1, QUERIES), of_keys(&k), of_keys(&v)];
            let mut results = [&own.o, &stats].map(|tensor| Rows::ragged(tensor, &nothing(tensor), QUERIES));
            let ([q, k, v], [to_o, to_rows]) = (all.each_mut(), results.each_mut());
            forward(&own, &target, [q, k, v], [to_o, to_rows], LENGTHS).unwrap();
            for (got, expected) in results.iter().zip([&o, &rows]) {
                let what = format!("{}, pages of {page:?}, {:?}", target.name, expected.tensor);
                let places = ragged(&expected.tensor, QUERIES);
                check(&got.bytes, &places, &expected.tensor, &expected.bytes, QUERIES, &what);
            }
            // Integers beyond the tensors are limited; the interpreter refuses to go beyond memory.
            for wrong in [i64::MAX, i64::MIN, 1 << 20] {
                let scalar =
                    |tensor: &Tensor| if tensor.start == Start::Even { Scalar::I32 } else { Scalar::I64 };
                for rows in all.iter_mut().chain(&mut results) {
                    let is_paged = matches!(rows.tensor.start, Start::Paged { .. });
                    let scalar = if is_paged { Scalar::I32 } else { scalar(&rows.tensor) };
                    let start = rows.start.as_mut().unwrap();
                    let count = start.len() / scalar.size();
                    let wrong = if scalar == Scalar::I32 {
                        wrong.clamp(i32::MIN.into(), i32::MAX.into())
                    } else {
                        wrong
                    };
                    *start = integers(&vec![wrong; count], scalar);
                }
                let length = wrong.clamp(i32::MIN.into(), i32::MAX.into());
                let ([q, k, v], [to_o, to_rows]) = (all.each_mut(), results.each_mut());
                forward(&own, &target, [q, k, v], [to_o, to_rows], [[length; 2]; 2]).unwrap();
            }
        }
    }
}

#[test]
fn packed_queries() {
    for target in some() {
        let mut own = of_sequences();
        // All queries, and some that belong to no sequence.
        own.queries = QUERIES[0] + QUERIES[1] + 3;
        own.q = tensor(Scalar::F16, [2, 2, own.queries, 16]);
        own.o = own.q;
        let stats = tensor(Scalar::F32, [2, 2, own.queries, 1]);
        let bytes = |tensor: &Tensor, seed| random(2 * tensor.strides[0], Scalar::F16, seed).0;
        let [q, k, v] =
            [(&own.q, 1), (&own.k, 2), (&own.v, 3)].map(|(tensor, seed)| (*tensor, bytes(tensor, seed)));
        let even = |(tensor, bytes): &(Tensor, Vec<u8>)| Rows::even(tensor, bytes);
        let [mut o, mut rows] = [&own.o, &stats].map(|tensor| Rows::even(tensor, &nothing(tensor)));
        let all = [&mut even(&q), &mut even(&k), &mut even(&v)];
        forward(&own, &target, all, [&mut o, &mut rows], LENGTHS).unwrap();
        let packed = |from: &Rows| {
            let length = own.queries * row_bytes(&from.tensor);
            let mut bytes = Vec::new();
            for (sequence, own) in QUERIES.iter().enumerate() {
                let first = sequence * from.tensor.strides[0] * from.tensor.scalar.size();
                bytes.extend(&from.bytes[first..][..own * row_bytes(&from.tensor)]);
            }
            bytes.resize(length, 0);
            Rows { tensor: Tensor { start: Start::Packed, ..from.tensor }, bytes, start: None }
        };
        let mut of_q = packed(&even(&q));
        let mut results = [packed(&o), packed(&rows)];
        let minus = f32::NEG_INFINITY.to_le_bytes();
        let unused = 3 * row_bytes(&stats);
        let first = results[1].bytes.len() - unused;
        results[1].bytes[first..].chunks_mut(4).for_each(|row| row.copy_from_slice(&minus));
        let expected = results.each_ref().map(|rows| rows.bytes.clone());
        results.iter_mut().for_each(|rows| rows.bytes.fill(0xff));
        let [to_o, to_rows] = results.each_mut();
        let all = [&mut of_q, &mut even(&k), &mut even(&v)];
        forward(&own, &target, all, [to_o, to_rows], LENGTHS).unwrap();
        for (got, expected) in results.iter().zip(expected) {
            assert_eq!(got.bytes, expected, "{}", target.name);
        }
    }
}

#[test]
fn gradients_of_ragged_sequences() {
    for target in some() {
        let own = of_sequences();
        let stats = own.statistics[0].unwrap();
        let real = Scalar::F32;
        let strides = [2 * MOST[0], MOST[0], 1, 1];
        let sums = Tensor { scalar: real, strides, alignment: 8, start: Start::Even };
        let seeded = |tensor: &Tensor, seed| random(2 * tensor.strides[0], tensor.scalar, seed);
        let [q, k, v, o, d_o] = [(&own.q, 1), (&own.k, 2), (&own.v, 3), (&own.o, 4), (&own.o, 5)]
            .map(|(tensor, seed)| (tensor, seeded(tensor, seed)));
        let of_stats: Vec<u8> =
            (0..2 * stats.strides[0]).flat_map(|at| (3.0 + (at % 5) as f32 / 4.0).to_le_bytes()).collect();
        let mut lengths = LENGTHS.map(|own| integers(&own, Scalar::I32));
        let mut sum_bytes = vec![0xff; 2 * sums.strides[0] * 4];
        let mut of_o = Rows::ragged(o.0, &o.1.0, QUERIES);
        let mut of_d_o = Rows::ragged(d_o.0, &d_o.1.0, QUERIES);
        let of_ragged = |stats: Tensor| Gradients {
            attention: Attention {
                q: Rows::ragged(q.0, &q.1.0, QUERIES).tensor,
                k: Rows::ragged(k.0, &k.1.0, KEYS).tensor,
                v: Rows::ragged(v.0, &v.1.0, KEYS).tensor,
                o: of_o.tensor,
                ..own.clone()
            },
            stats,
            d_o: of_d_o.tensor,
            sums,
        };
        let mut of_rows = Rows::ragged(&stats, &of_stats, QUERIES);
        let ragged_ones = of_ragged(of_rows.tensor);
        let even_ones = Gradients { attention: own.clone(), stats, d_o: *d_o.0, sums };
        let written = gradients::row_sums(&ragged_ones, &target, "sums").unwrap();
        let mut arguments = Vec::new();
        of_o.arguments(&mut arguments);
        of_d_o.arguments(&mut arguments);
        arguments.push(Argument::Memory(&mut sum_bytes));
        arguments.extend(lengths.iter_mut().map(|bytes| Argument::Memory(bytes)));
        run(&written.kernel, written.groups, &mut arguments).unwrap();
        for (place, sum) in numbers(&sum_bytes, real).into_iter().enumerate() {
            let [sequence, head, query] = [place / (2 * MOST[0]), place / MOST[0] % 2, place % MOST[0]];
            if query < QUERIES[sequence] {
                let at = sequence * own.o.strides[0] + head * own.o.strides[1] + query * own.o.strides[2];
                let expected: f64 = (0..16).map(|i| o.1.1[at + i] * d_o.1.1[at + i]).sum();
                // Sums of these numbers are exact.
                assert_eq!(sum, expected, "{} {place}", target.name);
            }
        }
        for (of, like, heads, own_lengths) in
            [(Of::Queries, &own.q, 2, QUERIES), (Of::Keys, &own.k, 1, KEYS), (Of::Values, &own.v, 1, KEYS)]
        {
            let mut all = Vec::new();
            for (gradients, is_ragged) in [(&even_ones, false), (&ragged_ones, true)] {
                let place = |(tensor, (bytes, _)): &(&Tensor, (Vec<u8>, Vec<f64>)), lengths| {
                    if is_ragged { Rows::ragged(tensor, bytes, lengths) } else { Rows::even(tensor, bytes) }
                };
                let [mut q, mut k, mut v, mut d_o] =
                    [place(&q, QUERIES), place(&k, KEYS), place(&v, KEYS), place(&d_o, QUERIES)];
                let mut rows = if is_ragged {
                    Rows::ragged(&stats, &of_stats, QUERIES)
                } else {
                    Rows::even(&stats, &of_stats)
                };
                let empty = nothing(like);
                let mut to = if is_ragged {
                    Rows::ragged(like, &empty, own_lengths)
                } else {
                    Rows::even(like, &empty)
                };
                let launch =
                    gradients::write(gradients, of, &to.tensor, [2, heads], &target, "gradient").unwrap();
                let mut arguments = Vec::new();
                for own in [&mut q, &mut k, &mut v, &mut d_o, &mut rows] {
                    own.arguments(&mut arguments);
                }
                arguments.push(Argument::Memory(&mut sum_bytes));
                to.arguments(&mut arguments);
                arguments.extend(lengths.iter_mut().map(|bytes| Argument::Memory(bytes)));
                run(&launch.kernel, launch.grid, &mut arguments).unwrap();
                all.push(to.bytes);
            }
            let what = format!("{} {of:?}", target.name);
            check(&all[1], &ragged(like, own_lengths), like, &all[0], own_lengths, &what);
        }
        drop(of_rows.start.take());
    }
}
