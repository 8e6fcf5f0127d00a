//! The loops over numbers that lie side by side.

use super::super::vector::{Lanewise, Vector};
use crate::element::Real;

/// Sums that are computed next to each other, so that an addition does not wait for the one before.
const SUMS: usize = 4;

/// Adds up `value` for all indices below `len`: `vector` yields the values of a vector's lanes from an index on.
///
/// # Safety
/// The processor has the vector's instructions, and the closures can be called with all indices.
#[inline(always)]
pub(in crate::fast) unsafe fn total<V: Vector, const N: usize>(
    len: usize,
    vector: impl Fn(usize, [V; N]) -> [V; N],
    number: impl Fn(usize, [V::Number; N]) -> [V::Number; N],
) -> [V::Number; N] {
    // SAFETY: the caller promises the instructions.
    unsafe {
        let mut sums = [[V::zero(); N]; SUMS];
        let mut at = 0;
        while at + SUMS * V::LANES <= len {
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = vector(at + i * V::LANES, *sum);
            }
            at += SUMS * V::LANES;
        }
        while at + V::LANES <= len {
            sums[0] = vector(at, sums[0]);
            at += V::LANES;
        }
        let one = V::splat(V::Number::ONE);
        let [a, b, c, d] = sums;
        let mut result = [V::Number::ZERO; N];
        for (i, result) in result.iter_mut().enumerate() {
            *result = a[i].mul_add(one, b[i]).mul_add(one, c[i].mul_add(one, d[i])).sum();
        }
        while at < len {
            result = number(at, result);
            at += 1;
        }
        result
    }
}

/// Σ x.
///
/// # Safety
/// The processor has the vector's instructions, and `len` numbers are readable.
#[inline(always)]
pub(in crate::fast) unsafe fn sum<V: Vector>(x: *const V::Number, len: usize) -> V::Number {
    // SAFETY: the caller promises instructions and numbers.
    unsafe {
        let [sum] = total::<V, 1>(
            len,
            |i, [sum]| [sum.lanewise(Lanewise::Add, V::load(x.add(i)))],
            |i, [sum]| [sum + x.add(i).read_unaligned()],
        );
        sum
    }
}

/// Σ (x - mean) and Σ (x - mean)².
///
/// # Safety
/// As [`sum`].
#[inline(always)]
pub(in crate::fast) unsafe fn deviations<V: Vector>(
    x: *const V::Number,
    mean: V::Number,
    len: usize,
) -> [V::Number; 2] {
    // SAFETY: the caller promises instructions and numbers.
    unsafe {
        // Additions have units of their own besides those of multiplications.
        let means = V::splat(mean);
        total::<V, 2>(
            len,
            |i, [sum, squares]| {
                let apart = V::load(x.add(i)).lanewise(Lanewise::Sub, means);
                [sum.lanewise(Lanewise::Add, apart), apart.mul_add(apart, squares)]
            },
            |i, [sum, squares]| {
                let apart = x.add(i).read_unaligned() - mean;
                [sum + apart, apart * apart + squares]
            },
        )
    }
}

/// Σ dy and Σ dy · (x - mean).
///
/// # Safety
/// As [`sum`], for both.
#[inline(always)]
pub(super) unsafe fn gradient_sums<V: Vector>(
    dy: *const V::Number,
    x: *const V::Number,
    mean: V::Number,
    len: usize,
) -> [V::Number; 2] {
    // SAFETY: the caller promises instructions and numbers.
    unsafe {
        let one = V::splat(V::Number::ONE);
        let minus = V::splat(-mean);
        total::<V, 2>(
            len,
            |i, [sum, product]| {
                let dy = V::load(dy.add(i));
                let apart = V::load(x.add(i)).mul_add(one, minus);
                [dy.mul_add(one, sum), dy.mul_add(apart, product)]
            },
            |i, [sum, product]| {
                let dy = dy.add(i).read_unaligned();
                [sum + dy, dy * (x.add(i).read_unaligned() - mean) + product]
            },
        )
    }
}

/// y = (x - mean) · factor + summand.
///
/// # Safety
/// As [`sum`], and `y` is writable for `len` numbers.
#[inline(always)]
pub(super) unsafe fn scale<V: Vector>(
    x: *const V::Number,
    [mean, factor, summand]: [V::Number; 3],
    y: *mut V::Number,
    len: usize,
) {
    // SAFETY: the caller promises instructions and numbers.
    unsafe {
        let one = V::splat(V::Number::ONE);
        let [minus, factors, summands] = [V::splat(-mean), V::splat(factor), V::splat(summand)];
        let mut at = 0;
        while at + V::LANES <= len {
            let apart = V::load(x.add(at)).mul_add(one, minus);
            apart.mul_add(factors, summands).store(y.add(at));
            at += V::LANES;
        }
        while at < len {
            y.add(at).write_unaligned((x.add(at).read_unaligned() - mean) * factor + summand);
            at += 1;
        }
    }
}

/// What the gradient of a channel's input is made of: dx = factor · (dy - bias - (x - mean) · slope).
#[derive(Clone, Copy)]
pub(super) struct Gradient<T> {
    pub(super) mean: T,
    pub(super) factor: T,
    pub(super) bias: T,
    pub(super) slope: T,
}

/// dx of one channel.
///
/// # Safety
/// As [`sum`] for both, and `dx` is writable for `len` numbers.
#[inline(always)]
pub(super) unsafe fn gradient<V: Vector>(
    dy: *const V::Number,
    x: *const V::Number,
    by: &Gradient<V::Number>,
    dx: *mut V::Number,
    len: usize,
) {
    // SAFETY: the caller promises instructions and numbers.
    unsafe {
        let one = V::splat(V::Number::ONE);
        let zero = V::zero();
        let [minus, factor] = [V::splat(-by.mean), V::splat(by.factor)];
        let [bias, slope] = [V::splat(-by.bias), V::splat(-by.slope)];
        let mut at = 0;
        while at + V::LANES <= len {
            let apart = V::load(x.add(at)).mul_add(one, minus);
            let dy = V::load(dy.add(at)).mul_add(one, bias);
            apart.mul_add(slope, dy).mul_add(factor, zero).store(dx.add(at));
            at += V::LANES;
        }
        while at < len {
            let apart = x.add(at).read_unaligned() - by.mean;
            let dy = dy.add(at).read_unaligned() - by.bias;
            dx.add(at).write_unaligned(by.factor * (dy - apart * by.slope));
            at += 1;
        }
    }
}

/// Calls `vector` for every whole vector below `len`, and `number` for what is left.
///
/// # Safety
/// The closures can be called with all indices.
#[inline(always)]
unsafe fn each<V: Vector>(len: usize, mut vector: impl FnMut(usize), mut number: impl FnMut(usize)) {
    let mut at = 0;
    while at + V::LANES <= len {
        vector(at);
        at += V::LANES;
    }
    while at < len {
        number(at);
        at += 1;
    }
}

/// sums += x, channel by channel.
///
/// # Safety
/// The processor has the vector's instructions; `len` numbers of x are readable, and of `sums` writable.
#[inline(always)]
pub(super) unsafe fn add_row<V: Vector>(x: *const V::Number, sums: *mut V::Number, len: usize) {
    // SAFETY: the caller promises instructions and numbers.
    unsafe {
        let one = V::splat(V::Number::ONE);
        each::<V>(
            len,
            |i| V::load(x.add(i)).mul_add(one, V::load(sums.add(i))).store(sums.add(i)),
            |i| sums.add(i).write(sums.add(i).read() + x.add(i).read_unaligned()),
        );
    }
}

/// sums += x - mean and squares += (x - mean)², channel by channel.
///
/// # Safety
/// As [`add_row`], for all.
#[inline(always)]
pub(super) unsafe fn add_deviations<V: Vector>(
    x: *const V::Number,
    means: *const V::Number,
    [sums, squares]: [*mut V::Number; 2],
    len: usize,
) {
    // SAFETY: the caller promises instructions and numbers.
    unsafe {
        let one = V::splat(V::Number::ONE);
        let minus = V::splat(-V::Number::ONE);
        each::<V>(
            len,
            |i| {
                let apart = V::load(means.add(i)).mul_add(minus, V::load(x.add(i)));
                apart.mul_add(one, V::load(sums.add(i))).store(sums.add(i));
                apart.mul_add(apart, V::load(squares.add(i))).store(squares.add(i));
            },
            |i| {
                let apart = x.add(i).read_unaligned() - means.add(i).read();
                sums.add(i).write(sums.add(i).read() + apart);
                squares.add(i).write(apart * apart + squares.add(i).read());
            },
        );
    }
}

/// sums += dy and products += dy · (x - mean), channel by channel.
///
/// # Safety
/// As [`add_row`], for all.
#[inline(always)]
pub(super) unsafe fn add_gradients<V: Vector>(
    dy: *const V::Number,
    x: *const V::Number,
    means: *const V::Number,
    [sums, products]: [*mut V::Number; 2],
    len: usize,
) {
    // SAFETY: the caller promises instructions and numbers.
    unsafe {
        let one = V::splat(V::Number::ONE);
        let minus = V::splat(-V::Number::ONE);
        each::<V>(
            len,
            |i| {
                let dy = V::load(dy.add(i));
                let apart = V::load(means.add(i)).mul_add(minus, V::load(x.add(i)));
                dy.mul_add(one, V::load(sums.add(i))).store(sums.add(i));
                dy.mul_add(apart, V::load(products.add(i))).store(products.add(i));
            },
            |i| {
                let dy = dy.add(i).read_unaligned();
                let apart = x.add(i).read_unaligned() - means.add(i).read();
                sums.add(i).write(sums.add(i).read() + dy);
                products.add(i).write(dy * apart + products.add(i).read());
            },
        );
    }
}

/// y = (x - mean) · factor + summand, channel by channel.
///
/// # Safety
/// As [`add_row`], and `y` is writable.
#[inline(always)]
pub(super) unsafe fn scale_row<V: Vector>(
    x: *const V::Number,
    [means, factors, summands]: [*const V::Number; 3],
    y: *mut V::Number,
    len: usize,
) {
    // SAFETY: the caller promises instructions and numbers.
    unsafe {
        let minus = V::splat(-V::Number::ONE);
        each::<V>(
            len,
            |i| {
                let apart = V::load(means.add(i)).mul_add(minus, V::load(x.add(i)));
                apart.mul_add(V::load(factors.add(i)), V::load(summands.add(i))).store(y.add(i));
            },
            |i| {
                let apart = x.add(i).read_unaligned() - means.add(i).read();
                y.add(i).write_unaligned(apart * factors.add(i).read() + summands.add(i).read());
            },
        );
    }
}

/// dx, channel by channel; mean, factor, bias and slope as in [`Gradient`].
///
/// # Safety
/// As [`add_row`], and `dx` is writable.
#[inline(always)]
pub(super) unsafe fn gradient_row<V: Vector>(
    dy: *const V::Number,
    x: *const V::Number,
    [means, factors, biases, slopes]: [*const V::Number; 4],
    dx: *mut V::Number,
    len: usize,
) {
    // SAFETY: the caller promises instructions and numbers.
    unsafe {
        let minus = V::splat(-V::Number::ONE);
        let zero = V::zero();
        each::<V>(
            len,
            |i| {
                let apart = V::load(means.add(i)).mul_add(minus, V::load(x.add(i)));
                let dy = V::load(biases.add(i)).mul_add(minus, V::load(dy.add(i)));
                let slope = V::load(slopes.add(i)).mul_add(minus, zero);
                apart.mul_add(slope, dy).mul_add(V::load(factors.add(i)), zero).store(dx.add(i));
            },
            |i| {
                let apart = x.add(i).read_unaligned() - means.add(i).read();
                let dy = dy.add(i).read_unaligned() - biases.add(i).read();
                dx.add(i).write_unaligned(factors.add(i).read() * (dy - apart * slopes.add(i).read()));
            },
        );
    }
}
