//! Many products of matrices narrower than a vector: a row of the result is some lanes of one register.

use crate::gemm::context::Context;
use crate::kernel::{Facts, Kernel};
use crate::matmul::problem::Problem;
use crate::simd::array::Each;
use crate::simd::isa::Isa;
use crate::simd::vector::{Float, Vector, VectorTask};
use crate::tensor::row_converter::is_compute_type;
use crate::tensor::scratch::Tensors;
use crate::threading::partition::{Threads, Workers};

/// With at most this many multiplications per product, the GEMM's overhead exceeds its work.
const MOST: usize = 8 << 10;

/// How many products; their offsets are stored.
const PRODUCTS: std::ops::RangeInclusive<usize> = 4..=1 << 14;

/// How many rows are computed together.
const TOGETHER: usize = 8;

/// The planned products.
pub(crate) struct Small<T> {
    isa: Isa,
    workers: Workers,
    problem: Problem,
    /// The offsets of each product's matrices in a, b and c.
    places: Vec<[usize; 3]>,
    compute: std::marker::PhantomData<fn() -> T>,
}

impl<T: Float> Small<T> {
    /// Plans products without an epilogue; `None` if they are few, large, wide, or not contiguous
    /// compute-type rows.
    pub(crate) fn plan(problem: &Problem, isa: Isa, threads: Threads) -> Option<Self> {
        let Problem { a, b, c, m, n, k, matrices, .. } = problem;
        let lanes = Context::<T>::of(isa).lanes;
        let are_values = [a, b, c].iter().all(|of| is_compute_type::<T>(of.data_type));
        let are_rows = *n == 1 || (b.column == 1 && c.column == 1);
        let size = m.saturating_mul(*n).saturating_mul(*k);
        if !are_values || !are_rows || *n > lanes || size > MOST || !PRODUCTS.contains(matrices) {
            return None;
        }
        let places = (0..*matrices).map(|matrix| problem.offsets(matrix)).collect();
        let work = (m.next_multiple_of(TOGETHER) * k) as f64 * 0.25 + 20.0;
        let workers = threads.workers(work * *matrices as f64, matrices / 2);
        Some(Self { isa, workers, problem: problem.clone(), places, compute: std::marker::PhantomData })
    }
}

impl<T: Float> Kernel for Small<T> {
    fn facts(&self) -> Facts {
        Facts::new("small matrices", self.workers.threads())
    }

    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let shared = Tensors(tensors);
        self.workers.run(|worker| {
            let Problem { a, b, c, .. } = &self.problem;
            let products = self.workers.share(worker, self.places.len());
            let [a, b, c] = [a.slot, b.slot, c.slot].each(|slot| shared.all()[slot].cast::<T>());
            let places = self.places.get(products).unwrap_or_default();
            let task = Products { problem: &self.problem, places, a, b, c };
            // SAFETY: this function requires the tensors; each worker writes its own matrices.
            unsafe { self.isa.run_vectors::<T, _>(task) };
        });
    }
}

/// Some products.
struct Products<'a, T> {
    problem: &'a Problem,
    places: &'a [[usize; 3]],
    a: *const T,
    b: *const T,
    c: *mut T,
}

impl<T: Float> VectorTask<T> for Products<'_, T> {
    type Output = ();

    // As many columns as the plan counts on.
    const HAS_WIDE_DOUBLES: bool = true;

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        let m = self.problem.m;
        for [a, b, c] in self.places {
            let mut row = 0;
            while row < m {
                // SAFETY: the tensors have the matrices, and these their rows.
                unsafe {
                    let product = Products {
                        a: self.a.add(a + row * self.problem.a.row),
                        b: self.b.add(*b),
                        c: self.c.add(c + row * self.problem.c.row),
                        ..self
                    };
                    if m - row > TOGETHER / 2 {
                        product.rows::<V, TOGETHER>((m - row).min(TOGETHER));
                    } else {
                        product.rows::<V, { TOGETHER / 2 }>(m - row);
                    }
                }
                row += TOGETHER;
            }
        }
    }
}

impl<T: Float> Products<'_, T> {
    /// The first rows of a product: `present` of `ROWS`. The last one stands in for absent rows.
    ///
    /// # Safety
    /// The processor has the vector's instructions, and the matrices have the rows.
    #[inline(always)]
    unsafe fn rows<V: Vector<Scalar = T>, const ROWS: usize>(&self, present: usize) {
        let Problem { a, b, c, n, k, .. } = self.problem;
        let mut rows = [self.a; ROWS];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = row.wrapping_add(r.min(present - 1) * a.row);
        }
        // SAFETY: the matrices have the terms and the columns, as this function requires.
        unsafe {
            let lanes = V::lanes(0, *n);
            let mut sums = [V::zero(); ROWS];
            for term in 0..*k {
                let columns = V::load_lanes(self.b.add(term * b.row), lanes);
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum = V::splat(row.add(term * a.column).read_unaligned()).mul_add(columns, *sum);
                }
            }
            for (r, sum) in sums.iter().enumerate().take(present) {
                sum.store_lanes(self.c.add(r * c.row), lanes);
            }
        }
    }
}
