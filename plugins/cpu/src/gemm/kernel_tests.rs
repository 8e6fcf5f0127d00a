use crate::gemm::context::Context;
use crate::gemm::kernel::{LONG_VECTORS, MAX_LINE, WIDE_ROWS};
use crate::gemm::tile::{Order, RegisterEpilogue, Tile};
use crate::simd::clip::Clip;
use crate::simd::isa::Isa;
use crate::testing::Random;

const DEPTH: usize = 20;

/// A tile with random operands, computed term by term.
struct Case {
    a: Vec<f32>,
    b: Vec<f32>,
    from: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
    taps: Vec<usize>,
    rows: usize,
    width: usize,
    order: Order,
}

impl Case {
    fn new(random: &mut Random, (rows, width): (usize, usize), order: Order, taps: &[usize]) -> Self {
        let reach = taps.iter().max().unwrap() + 1;
        // Small integers have exact sums in any order.
        let mut values = |len: usize| (0..len).map(|_| random.within(0, 8) as f32 - 4.0).collect();
        Self {
            a: values(rows * DEPTH * taps.len()),
            b: values(DEPTH * width + reach),
            from: values(rows * width),
            bias: values(rows),
            residual: values(rows * width),
            taps: taps.to_vec(),
            rows,
            width,
            order,
        }
    }

    fn expected(&self, with_all: bool, clip: Clip<f32>) -> Vec<f32> {
        let Self { taps, rows, width, .. } = self;
        let mut expected = Vec::new();
        for (r, j) in (0..*rows).flat_map(|r| (0..*width).map(move |j| (r, j))) {
            let mut sum = if with_all { self.from[r * width + j] } else { 0.0 };
            for term in 0..DEPTH * taps.len() {
                let a = match self.order {
                    Order::Rows => r * DEPTH * taps.len() + term,
                    Order::Panel => term * rows + r,
                };
                sum += self.a[a] * self.b[term / taps.len() * width + taps[term % taps.len()] + j];
            }
            if with_all {
                sum = clip.of(sum + self.bias[r] + self.residual[r * width + j]);
            }
            expected.push(sum);
        }
        expected
    }

    fn check(
        &self,
        kernel: &Context<f32>,
        vectors: usize,
        (with_all, prefetches, keeps): (bool, bool, bool),
    ) {
        let Self { taps, rows, width, order, .. } = self;
        let (mut results, mut kept) = (vec![f32::NAN; rows * width], vec![f32::NAN; DEPTH * width]);
        let clip = if prefetches { Clip::Clamp(-3.0, 6.0) } else { Clip::Relu };
        let mut tile = Tile {
            a: self.a.as_ptr(),
            order: *order,
            a_stride: if *order == Order::Rows { DEPTH * taps.len() } else { *rows },
            b: self.b.as_ptr(),
            b_stride: *width,
            taps,
            depth: DEPTH,
            prefetches,
            prefetches_results: prefetches,
            to: results.as_mut_ptr(),
            to_stride: *width,
            ..Tile::EMPTY
        };
        if with_all {
            (tile.from, tile.from_stride) = (self.from.as_ptr(), *width);
            tile.epilogue = RegisterEpilogue {
                bias: self.bias.as_ptr(),
                bias_stride: 1,
                residual: self.residual.as_ptr(),
                residual_stride: *width,
                clip,
                ..RegisterEpilogue::NONE
            };
        }
        if keeps {
            tile.keep = kept.as_mut_ptr();
        }
        // SAFETY: operands and results are as large as the tile.
        unsafe { kernel.run(&mut tile, *rows, vectors) };
        let name = format!("{rows} rows of {vectors} vectors, {order:?}, {taps:?}, {with_all}, {prefetches}");
        assert!(results == self.expected(with_all, clip), "{name}");
        assert!(!keeps || kept == self.b[..DEPTH * width], "{name}");
    }
}

/// Every micro-kernel computes the formula, with and without all that may be added, prefetched or copied.
#[test]
fn every_tile_is_the_sum_of_its_terms() {
    let random = &mut Random::new(5000);
    for isa in Isa::available() {
        let kernel = Context::<f32>::of(*isa);
        let sizes =
            (1..=kernel.rows).flat_map(|rows| (1..=kernel.vectors).map(move |vectors| (rows, vectors)));
        let (long_rows, vectors) = kernel.largest_for(LONG_VECTORS);
        let sizes = sizes.chain((1..=long_rows).map(|rows| (rows, vectors)));
        for (rows, vectors) in sizes {
            for (order, taps) in [Order::Rows, Order::Panel].into_iter().flat_map(|order| {
                [[0].as_slice(), &[3], &[0, 1, 5]].into_iter().map(move |taps| (order, taps))
            }) {
                let case = Case::new(random, (rows, vectors * kernel.lanes), order, taps);
                for options in [(false, false, false), (true, false, false), (true, true, false)] {
                    case.check(&kernel, vectors, options);
                }
                if taps == [0] {
                    case.check(&kernel, vectors, (true, true, true));
                }
            }
        }
        for (rows, vectors) in [(WIDE_ROWS, kernel.wide), (1, 3), (1, 5), (1, MAX_LINE)] {
            let case = Case::new(random, (rows, vectors * kernel.lanes), Order::Rows, &[0]);
            case.check(&kernel, vectors, (false, true, false));
            case.check(&kernel, vectors, (true, false, false));
        }
    }
}
