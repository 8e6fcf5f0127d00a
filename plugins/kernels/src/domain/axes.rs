//! Dimensions, ordered and merged for walking.

use super::Access;
use crate::builder::Builder;
use crate::form::Value;

/// Some dimensions of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axes {
    /// Elements along each, the innermost last.
    pub dims: Vec<usize>,
    /// For each dimension, those of the domain that it consists of: number, size, and how far its index counts.
    parts: Vec<Vec<usize>>,
}

impl Axes {
    /// The dimensions `axes` of a domain, the smallest strides of `guide` innermost. Dimensions that every access walks through as one
    /// are merged, unless indices are wanted.
    pub fn new(dims: &[usize], axes: &[usize], guide: &[usize], accesses: &[&Access], keeps: bool) -> Self {
        let mut order: Vec<usize> = axes.to_vec();
        if !keeps {
            order.retain(|axis| dims.get(*axis).is_some_and(|dim| *dim > 1));
        }
        let stride = |of: &[usize], axis: usize| of.get(axis).copied().unwrap_or(0);
        order.sort_by_key(|axis| std::cmp::Reverse(stride(guide, *axis)));
        let mut merged = Self { dims: Vec::new(), parts: Vec::new() };
        for axis in order {
            let dim = dims.get(axis).copied().unwrap_or(1);
            let before = merged.parts.last().and_then(|parts| parts.last()).copied();
            let continues = before.is_some_and(|before| {
                !keeps
                    && accesses.iter().all(|access| {
                        stride(&access.strides, before) == stride(&access.strides, axis).saturating_mul(dim)
                    })
            });
            match (merged.dims.last_mut(), merged.parts.last_mut()) {
                (Some(size), Some(parts)) if continues => {
                    *size *= dim;
                    parts.push(axis);
                }
                _ => {
                    merged.dims.push(dim);
                    merged.parts.push(vec![axis]);
                }
            }
        }
        merged
    }

    /// The number of indices.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// The stride of an access along each dimension.
    pub fn strides(&self, access: &Access) -> Vec<usize> {
        let innermost = |parts: &Vec<usize>| {
            parts.last().and_then(|axis| access.strides.get(*axis)).copied().unwrap_or(0)
        };
        self.parts.iter().map(innermost).collect()
    }

    /// The index along each dimension, from the number of an index.
    pub fn split(&self, b: &mut Builder, number: Value) -> Vec<Value> {
        let mut rest = number;
        let mut indices = Vec::with_capacity(self.dims.len());
        for (place, dim) in self.dims.iter().enumerate().rev() {
            if place == 0 {
                indices.push(rest);
            } else {
                let (quotient, remainder) = b.div_rem(rest, *dim);
                indices.push(remainder);
                rest = quotient;
            }
        }
        indices.reverse();
        indices
    }

    /// Where an access is at these indices.
    pub fn offset(&self, b: &mut Builder, access: &Access, indices: &[Value]) -> Value {
        let mut sum = b.number(0);
        for (index, stride) in indices.iter().zip(self.strides(access)) {
            let distance = b.mul(*index, stride);
            sum = b.add(sum, distance);
        }
        sum
    }

    /// The index along a dimension of the domain, if it was kept apart.
    pub fn index(&self, axis: usize, indices: &[Value]) -> Option<Value> {
        let place = self.parts.iter().position(|parts| parts.as_slice() == [axis])?;
        indices.get(place).copied()
    }
}
