//! Partial loads and stores, and permutations, agree on every instruction set.

use crate::simd::isa::Isa;
use crate::simd::vector::{VectorTask, *};

struct Check;

impl<T: Float> VectorTask<T> for Check {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Vector<Scalar = T>>(self) {
        // SAFETY: run at the vector's instruction set.
        unsafe {
            Self::of::<T, V>();
            Self::of::<T, V::Half>();
        }
    }
}

impl Check {
    /// Checks the functions of one type of vector.
    ///
    /// # Safety
    /// The processor has the vector's instructions.
    #[inline(always)]
    unsafe fn of<T: Float, V: Vector<Scalar = T>>() {
        let n = V::LANES;
        let number = |i: usize| T::from_f64(i as f64);
        let from: Vec<T> = (0..4 * n).map(number).collect();
        let mut to = vec![T::from_f64(-1.0); 2 * n];
        for low in 0..=n {
            for high in 0..=n {
                // SAFETY: this function requires the instructions, and all indices lie inside the arrays.
                unsafe {
                    let lanes = V::lanes(low, high);
                    let inside = |i: usize| low <= i && i < high;
                    V::load_lanes(from.as_ptr().add(n), lanes).store(to.as_mut_ptr());
                    let read = |i: usize| if inside(i) { number(n + i) } else { T::ZERO };
                    assert!((0..n).all(|i| to[i] == read(i)), "reads {low}..{high} of {n}");
                    to.fill(T::ONE);
                    V::load(from.as_ptr().add(2)).store_lanes(to.as_mut_ptr(), lanes);
                    let written = |i: usize| if inside(i) { number(2 + i) } else { T::ONE };
                    assert!((0..2 * n).all(|i| to[i] == written(i)), "writes {low}..{high} of {n}");
                }
            }
        }
        // SAFETY: this function requires the instructions, and all indices lie inside the arrays.
        unsafe {
            let (a, b) = (V::load(from.as_ptr()), V::load(from.as_ptr().add(n)));
            let (even, odd) = a.unzip(b);
            for (vector, first) in [(even, 0), (odd, 1)] {
                vector.store(to.as_mut_ptr());
                assert!((0..n).all(|i| to[i] == number(2 * i + first)));
            }
            let (low, high) = even.zip(odd);
            for (vector, first) in [(low, 0), (high, n)] {
                vector.store(to.as_mut_ptr());
                assert!((0..n).all(|i| to[i] == number(first + i)));
            }
            b.following().store(to.as_mut_ptr());
            assert!((1..n).all(|i| to[i - 1] == number(n + i)));
        }
        // SAFETY: this function requires the instructions.
        let zero = unsafe { V::zero() };
        let nan = T::from_f64(f64::NAN);
        let inf = T::from_f64(f64::INFINITY);
        let clamped = |x: T| zero.broadcast(x).clamp(zero, zero.broadcast(number(6))).values()[n - 1];
        assert!(clamped(nan).is_nan());
        assert!(clamped(inf) == number(6) && clamped(-inf) == T::ZERO && clamped(number(3)) == number(3));
        for (x, than, larger) in [
            (nan, T::ONE, true),
            (nan, nan, false),
            (inf, nan, false),
            (T::ONE, T::ONE, false),
            (number(2), T::ONE, true),
            (-inf, T::ZERO, false),
        ] {
            let [x, than, one] = [x, than, T::ONE].map(|value| zero.broadcast(value));
            let result = x.where_larger(than, one, zero).values();
            assert!(result[n - 1] == if larger { T::ONE } else { T::ZERO });
        }
    }
}

#[test]
fn partial_loads_and_stores_touch_only_their_lanes() {
    for isa in Isa::available() {
        // SAFETY: the processor supports the instruction set.
        unsafe {
            isa.run_vectors::<f32, _>(Check);
            isa.run_vectors::<f64, _>(Check);
        }
    }
}
