//! The arguments of a library call for a chain.

use std::ffi::c_void;

use super::Chain;
use crate::product::{MATRICES, Matrix};

/// The tensors of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tensors<T> {
    /// The left operand in the library's view.
    pub a: T,
    /// The right operand.
    pub b: T,
    /// The result.
    pub c: T,
    /// The summand of the matmul.
    pub summand: Option<T>,
    /// The vector that is added to each column.
    pub bias: Option<T>,
    /// Written by an activation that saves its input, or read by its gradient.
    pub auxiliary: Option<T>,
    /// The sums computed along with the matmul.
    pub sums: Option<T>,
    /// The single-precision numbers that scale the matmul.
    pub scales: [Option<T>; 2],
}

impl<T: Copy> Tensors<T> {
    /// All tensors except the scales.
    pub fn unscaled(&self) -> impl Iterator<Item = T> {
        let others = [self.summand, self.bias, self.auxiliary, self.sums];
        [self.a, self.b, self.c].into_iter().chain(others.into_iter().flatten())
    }

    /// All tensors.
    pub fn all(&self) -> impl Iterator<Item = T> {
        self.unscaled().chain(self.scales.into_iter().flatten())
    }

    /// The same structure with these values, in the order of [`Tensors::all`]; missing ones have their
    /// default.
    pub fn filled<U: Copy + Default>(&self, with: &[U]) -> Tensors<U> {
        let mut with = with.iter().copied();
        let mut next = || with.next().unwrap_or_default();
        Tensors {
            a: next(),
            b: next(),
            c: next(),
            summand: self.summand.map(|_| next()),
            bias: self.bias.map(|_| next()),
            auxiliary: self.auxiliary.map(|_| next()),
            sums: self.sums.map(|_| next()),
            scales: self.scales.map(|scale| scale.map(|_| next())),
        }
    }
}

/// A factor, which the libraries take by address.
#[derive(Clone, Copy, Debug)]
pub struct Scalar {
    single: f32,
    double: f64,
}

impl Scalar {
    /// A factor.
    pub fn new(value: f64) -> Self {
        Self { single: value as f32, double: value }
    }

    /// Its address, in the accumulator's type.
    pub fn address(&self, double: bool) -> *const c_void {
        if double { (&raw const self.double).cast() } else { (&raw const self.single).cast() }
    }
}

impl Chain {
    /// The factors alpha and beta.
    pub fn factors(&self) -> [Scalar; 2] {
        let of_summand = if self.product.summand.is_some() { 1.0 } else { 0.0 };
        [Scalar::new(f64::from_bits(self.alpha)), Scalar::new(of_summand)]
    }

    /// The addresses of a, b, the result, and the summand (the result if there is none). Other matrices are
    /// part of a description, not of a call.
    pub fn operands(&self, begins: &[usize; MATRICES], tensors: &Tensors<*mut c_void>) -> [*mut c_void; 4] {
        let product = &self.product;
        let [a, b, c, summand, _] = *begins;
        let at = |tensor: *mut c_void, elements: usize, matrix: &Matrix| {
            tensor.wrapping_byte_add(elements * matrix.data_type.size().unwrap_or(1))
        };
        let result = at(tensors.c, c, &product.c);
        let added = match (tensors.summand, &product.summand) {
            (Some(tensor), Some(matrix)) => at(tensor, summand, matrix),
            _ => result,
        };
        [at(tensors.a, a, &product.a), at(tensors.b, b, &product.b), result, added]
    }
}
