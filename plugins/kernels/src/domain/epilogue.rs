//! What is computed from each element of a result before it is stored.

use super::elements::{VECTOR, needs_indices};
use super::{Access, Origin, Passed, Place, Program, Scope, declare};
use crate::builder::Builder;
use crate::form::Value;
use crate::scalar::Scalar;

/// A program without reductions whose domain is a result: [`Origin::Given`] is its element.
#[derive(Clone, Debug)]
pub struct Epilogue {
    /// The program.
    pub program: Program,
    /// The type that the result is rounded to before the program goes on.
    pub scalar: Scalar,
}

impl Epilogue {
    /// Declares the program's parameters.
    pub(crate) fn declare(&self, b: &mut Builder) -> Finish<'_> {
        Finish { epilogue: self, pointers: declare(b, &self.program) }
    }
}

/// An epilogue in a kernel.
pub(crate) struct Finish<'a> {
    epilogue: &'a Epilogue,
    pointers: Vec<Passed>,
}

impl Finish<'_> {
    /// Computes and stores what follows from neighbours along the dimension `near`, of which the first has these indices. The index along
    /// `near` is a multiple of their number.
    pub(crate) fn store(&self, b: &mut Builder, indices: &[Value], near: usize, values: &[Value]) {
        if !needs_indices(&self.epilogue.program) {
            return self.store_together(b, indices, near, values);
        }
        for (lane, value) in values.iter().enumerate() {
            let mut own = indices.to_vec();
            if let Some(index) = own.get_mut(near) {
                *index = b.add(*index, lane);
            }
            self.store_together(b, &own, near, &[*value]);
        }
    }

    fn store_together(&self, b: &mut Builder, indices: &[Value], near: usize, values: &[Value]) {
        let Epilogue { program, scalar } = self.epilogue;
        let rounded: Vec<Value> = values.iter().map(|value| b.convert(*value, *scalar)).collect();
        let given = |b: &mut Builder, to| rounded.iter().map(|value| b.convert(*value, to)).collect();
        let known = program.nodes.iter().map(|node| {
            let is_given = matches!(node.origin, Origin::Given);
            is_given.then(|| given(b, node.scalar))
        });
        let known = known.collect();
        let lanes = values.len();
        let zero = b.number(0);
        let stride = |access: &Access, axis: usize| access.strides.get(axis).copied().unwrap_or(0);
        let fits = |access: &Access, count: usize| {
            let bytes = count * access.scalar.size();
            let mut others = access.strides.iter().enumerate().filter(|(axis, _)| *axis != near);
            stride(access, near) == 1
                && bytes <= VECTOR
                && access.alignment.is_multiple_of(bytes)
                && others.all(|(_, stride)| stride.is_multiple_of(count))
        };
        let together = |access: &Access| {
            let mut count = lanes;
            while count > 1 && !(lanes.is_multiple_of(count) && fits(access, count)) {
                count /= 2;
            }
            count.max(1)
        };
        let mut scope = Scope {
            program,
            pointers: &self.pointers,
            known,
            lanes,
            place: Place {
                indices: &|_, axis| indices.get(axis).copied().unwrap_or(zero),
                offset: &|b, access| {
                    let mut sum = zero;
                    for (axis, index) in indices.iter().enumerate() {
                        let own = b.mul(*index, stride(access, axis));
                        sum = b.add(sum, own);
                    }
                    sum
                },
                apart: &|access| stride(access, near),
                together: &together,
            },
        };
        for store in &program.stores {
            scope.store(b, store);
        }
    }
}
