//! Products of groups of rows with their experts' matrices, and the gradient of the matrices.
//!
//! Sums are taken in double precision whatever the compute type, and rounded once.

use std::ops::Range;

use hipdnn_plugin_planner::problem::attention::shape::Integers;
use hipdnn_plugin_planner::problem::mixture::{Experts, Mixture, MixtureGradient, Routing, Rows};

use crate::kernel::{Kernel, Refusal};
use crate::reference::attention::sequences::integer;
use crate::reference::memory::{Memory, View};

pub(crate) fn plan(mixture: &Mixture) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(Products {
        token: Matrix::of("token", &mixture.token)?,
        weight: Matrices::of("weight", &mixture.weight)?,
        output: Matrix::of("output", &mixture.output)?,
        groups: Groups { first: mixture.first, rows: mixture.rows, experts: mixture.weight.dims[0] },
        routing: mixture.routing,
    }))
}

pub(crate) fn plan_gradient(gradient: &MixtureGradient) -> Result<Box<dyn Kernel>, Refusal> {
    let rows = gradient.token.dims[0];
    Ok(Box::new(Gradient {
        token: Matrix::of("token", &gradient.token)?,
        d_output: Matrix::of("doutput", &gradient.d_output)?,
        d_weight: Matrices::of("dweight", &gradient.d_weight)?,
        groups: Groups { first: gradient.first, rows, experts: gradient.d_weight.dims[0] },
    }))
}

/// The rows of each expert.
struct Groups {
    first: Integers,
    rows: usize,
    experts: usize,
}

impl Groups {
    fn count(&self) -> usize {
        self.first.dims[0]
    }

    /// # Safety
    /// `tensors` are the pointers of the operation, whose offsets were checked, and there is such a group.
    unsafe fn rows(&self, tensors: &[*mut u8], group: usize) -> Range<usize> {
        // SAFETY: passed on; offsets that were checked are not negative.
        let first = |group| unsafe { integer(&self.first, tensors, group, 0) as usize };
        first(group)..if group + 1 < self.count() { first(group + 1) } else { self.rows }
    }

    /// # Safety
    /// `tensors` are the pointers of the operation.
    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        let (mut least, most) = (0, self.rows as i64);
        for group in 0..self.count() {
            // SAFETY: there is an offset for each group.
            let first = unsafe { integer(&self.first, tensors, group, 0) };
            if !(least..=most).contains(&first) {
                return Err(format!("first_token_offset[{group}] is {first}, expected {least} to {most}"));
            }
            least = first;
        }
        Ok(())
    }
}

struct Matrix {
    memory: Memory<f64>,
    dims: [usize; 2],
    strides: [usize; 2],
}

impl Matrix {
    fn of(name: &str, rows: &Rows) -> Result<Self, Refusal> {
        Ok(Self { memory: Memory::of(name, &rows.operand)?, dims: rows.dims, strides: rows.strides })
    }

    fn at(&self, row: usize, column: usize) -> usize {
        row * self.strides[0] + column * self.strides[1]
    }
}

struct Matrices {
    memory: Memory<f64>,
    dims: [usize; 3],
    strides: [usize; 3],
}

impl Matrices {
    fn of(name: &str, experts: &Experts) -> Result<Self, Refusal> {
        Ok(Self { memory: Memory::of(name, &experts.operand)?, dims: experts.dims, strides: experts.strides })
    }

    fn at(&self, expert: usize, row: usize, column: usize) -> usize {
        expert * self.strides[0] + row * self.strides[1] + column * self.strides[2]
    }
}

struct Products {
    token: Matrix,
    weight: Matrices,
    output: Matrix,
    groups: Groups,
    routing: Routing,
}

impl Products {
    /// The row that is read for a row of the groups, and the row that is written.
    ///
    /// # Safety
    /// `tensors` are the pointers of the operation, whose routes were checked, and there is such a row.
    unsafe fn route(&self, tensors: &[*mut u8], row: usize) -> (usize, usize) {
        // SAFETY: passed on; indices that were checked are not negative.
        unsafe {
            match &self.routing {
                Routing::None => (row, row),
                Routing::Gather(index) => (integer(index, tensors, row, 0) as usize, row),
                Routing::Scatter { index, ks, top_k } => {
                    let token = integer(index, tensors, row, 0) as usize;
                    (row, token * top_k + integer(ks, tensors, row, 0) as usize)
                }
            }
        }
    }

    /// # Safety
    /// `tensors` are the pointers of the operation, and there is such a row.
    unsafe fn check_route(&self, tensors: &[*mut u8], row: usize) -> Result<(), Refusal> {
        let below = |name: &str, number: i64, end: usize| {
            if usize::try_from(number).is_ok_and(|number| number < end) {
                Ok(())
            } else {
                Err(format!("{name}[{row}] is {number}, expected 0 to {}", end.saturating_sub(1)))
            }
        };
        // SAFETY: the function called requires what this one requires.
        unsafe {
            match &self.routing {
                Routing::None => Ok(()),
                Routing::Gather(index) => {
                    below("token_index", integer(index, tensors, row, 0), self.token.dims[0])
                }
                Routing::Scatter { index, ks, top_k } => {
                    let (token, k) = (integer(index, tensors, row, 0), integer(ks, tensors, row, 0));
                    let rows = self.output.dims[0];
                    below("token_ks", k, *top_k)?;
                    below("token_index", token, rows.div_ceil(*top_k))?;
                    let written = token as usize * top_k + k as usize;
                    if written < rows {
                        return Ok(());
                    }
                    Err(format!(
                        "token_index[{row}] is {token} and token_ks[{row}] is {k}, which makes row {written}, expected 0 to {}",
                        rows - 1
                    ))
                }
            }
        }
    }
}

impl Kernel for Products {
    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        // SAFETY: passed on; the groups are checked before they are asked.
        unsafe {
            self.groups.check(tensors)?;
            for row in self.groups.rows(tensors, 0).start..self.groups.rows {
                self.check_route(tensors, row)?;
            }
        }
        Ok(())
    }

    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let [rows, columns] = self.output.dims;
        // SAFETY: the pointers are those of the operation, and what they say was checked.
        unsafe {
            let bind = |memory: &Memory<f64>| -> View<f64> { memory.bind(tensors) };
            let (token, weight, output) =
                (bind(&self.token.memory), bind(&self.weight.memory), bind(&self.output.memory));
            for row in 0..rows {
                for column in 0..columns {
                    output.set(self.output.at(row, column), 0.0);
                }
            }
            for group in 0..self.groups.count() {
                let expert = group % self.groups.experts;
                for row in self.groups.rows(tensors, group) {
                    let (from, to) = self.route(tensors, row);
                    for column in 0..columns {
                        let mut sum = 0.0;
                        for k in 0..self.token.dims[1] {
                            sum += token.get(self.token.at(from, k))
                                * weight.get(self.weight.at(expert, k, column));
                        }
                        output.set(self.output.at(to, column), sum);
                    }
                }
            }
        }
    }
}

struct Gradient {
    token: Matrix,
    d_output: Matrix,
    d_weight: Matrices,
    groups: Groups,
}

impl Kernel for Gradient {
    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        // SAFETY: the function called requires what this one requires.
        unsafe { self.groups.check(tensors) }
    }

    unsafe fn run(&self, tensors: &[*mut u8], _scratch: *mut u8) {
        let [experts, rows, columns] = self.d_weight.dims;
        // SAFETY: the pointers are those of the operation, and what they say was checked.
        unsafe {
            let bind = |memory: &Memory<f64>| -> View<f64> { memory.bind(tensors) };
            let (token, d_output, d_weight) =
                (bind(&self.token.memory), bind(&self.d_output.memory), bind(&self.d_weight.memory));
            for expert in 0..experts {
                for row in 0..rows {
                    for column in 0..columns {
                        let mut sum = 0.0;
                        for group in (expert..self.groups.count()).step_by(experts) {
                            for of in self.groups.rows(tensors, group) {
                                sum += token.get(self.token.at(of, row))
                                    * d_output.get(self.d_output.at(of, column));
                            }
                        }
                        d_weight.set(self.d_weight.at(expert, row, column), sum);
                    }
                }
            }
        }
    }
}
