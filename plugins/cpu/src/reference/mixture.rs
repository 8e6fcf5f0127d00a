//! Mixture of experts: each group of rows times the matrix of its expert, and the gradient of the matrices.
//!
//! Sums are in double precision for any compute type, and rounded once.

use std::ops::Range;

use hipdnn_plugin_planner::problem::attention::shape::Integers;
use hipdnn_plugin_planner::problem::mixture::{Experts, Mixture, MixtureGradient, Routing, Rows};

use crate::kernel::{Kernel, Refusal};
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers, Spread};

pub(crate) fn plan(mixture: &Mixture) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(Products {
        token: matrix("token", &mixture.token)?,
        weight: matrices("weight", &mixture.weight)?,
        output: matrix("output", &mixture.output)?,
        depth: mixture.token.dims[1],
        tokens: mixture.token.dims[0],
        results: mixture.output.dims,
        groups: Groups { first: mixture.first, rows: mixture.rows, experts: mixture.weight.dims[0] },
        routing: mixture.routing,
    }))
}

pub(crate) fn plan_gradient(gradient: &MixtureGradient) -> Result<Box<dyn Kernel>, Refusal> {
    let [experts, rows, columns] = gradient.d_weight.dims;
    Ok(Box::new(Gradient {
        token: matrix("token", &gradient.token)?,
        d_output: matrix("doutput", &gradient.d_output)?,
        d_weight: matrices("dweight", &gradient.d_weight)?,
        matrix: [rows, columns],
        groups: Groups { first: gradient.first, rows: gradient.token.dims[0], experts },
    }))
}

fn matrix(name: &str, rows: &Rows) -> Result<Spread<f64, 2>, Refusal> {
    Ok(Spread { memory: Memory::of(name, &rows.operand)?, strides: rows.strides })
}

fn matrices(name: &str, experts: &Experts) -> Result<Spread<f64, 3>, Refusal> {
    Ok(Spread { memory: Memory::of(name, &experts.operand)?, strides: experts.strides })
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

    /// The rows of a group, whose offsets were checked.
    fn rows(&self, tensors: Pointers<'_>, group: usize) -> Range<usize> {
        let first = |group| tensors.integer(&self.first, [group, 0]) as usize;
        first(group)..if group + 1 < self.count() { first(group + 1) } else { self.rows }
    }

    fn check(&self, tensors: Pointers<'_>) -> Result<(), Refusal> {
        let (mut least, most) = (0, self.rows as i64);
        for group in 0..self.count() {
            let first = tensors.integer(&self.first, [group, 0]);
            if !(least..=most).contains(&first) {
                return Err(format!("first_token_offset[{group}] is {first}, expected {least} to {most}"));
            }
            least = first;
        }
        Ok(())
    }
}

struct Products {
    token: Spread<f64, 2>,
    weight: Spread<f64, 3>,
    output: Spread<f64, 2>,
    /// Columns of `token`, its rows, and the dims of `output`.
    depth: usize,
    tokens: usize,
    results: [usize; 2],
    groups: Groups,
    routing: Routing,
}

impl Products {
    /// The row of `token` and the row of `output` for a row of the groups, whose routes were checked.
    fn route(&self, tensors: Pointers<'_>, row: usize) -> (usize, usize) {
        let integer = |integers: &Integers| tensors.integer(integers, [row, 0]) as usize;
        match &self.routing {
            Routing::None => (row, row),
            Routing::Gather(index) => (integer(index), row),
            Routing::Scatter { index, ks, top_k } => (row, integer(index) * top_k + integer(ks)),
        }
    }

    fn check_route(&self, tensors: Pointers<'_>, row: usize) -> Result<(), Refusal> {
        let below = |name: &str, number: i64, end: usize| {
            if usize::try_from(number).is_ok_and(|number| number < end) {
                Ok(())
            } else {
                Err(format!("{name}[{row}] is {number}, expected 0 to {}", end.saturating_sub(1)))
            }
        };
        let integer = |integers: &Integers| tensors.integer(integers, [row, 0]);
        match &self.routing {
            Routing::None => Ok(()),
            Routing::Gather(index) => below("token_index", integer(index), self.tokens),
            Routing::Scatter { index, ks, top_k } => {
                let (token, k) = (integer(index), integer(ks));
                let [rows, _] = self.results;
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

impl Reference for Products {
    fn check_values(&self, tensors: Pointers<'_>) -> Result<(), Refusal> {
        self.groups.check(tensors)?;
        (self.groups.rows(tensors, 0).start..self.groups.rows)
            .try_for_each(|row| self.check_route(tensors, row))
    }

    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let [rows, columns] = self.results;
        for row in 0..rows {
            for column in 0..columns {
                self.output.set(tensors, [row, column], 0.0);
            }
        }
        for group in 0..self.groups.count() {
            let expert = group % self.groups.experts;
            for row in self.groups.rows(tensors, group) {
                let (from, to) = self.route(tensors, row);
                for column in 0..columns {
                    let product = |k| {
                        self.token.get(tensors, [from, k]) * self.weight.get(tensors, [expert, k, column])
                    };
                    let sum = (0..self.depth).fold(0.0, |sum, k| sum + product(k));
                    self.output.set(tensors, [to, column], sum);
                }
            }
        }
    }
}

struct Gradient {
    token: Spread<f64, 2>,
    d_output: Spread<f64, 2>,
    d_weight: Spread<f64, 3>,
    /// Rows and columns of an expert's matrix.
    matrix: [usize; 2],
    groups: Groups,
}

impl Reference for Gradient {
    fn check_values(&self, tensors: Pointers<'_>) -> Result<(), Refusal> {
        self.groups.check(tensors)
    }

    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let [rows, columns] = self.matrix;
        for expert in 0..self.groups.experts {
            for row in 0..rows {
                for column in 0..columns {
                    let mut sum = 0.0;
                    for group in (expert..self.groups.count()).step_by(self.groups.experts) {
                        for of in self.groups.rows(tensors, group) {
                            sum +=
                                self.token.get(tensors, [of, row]) * self.d_output.get(tensors, [of, column]);
                        }
                    }
                    self.d_weight.set(tensors, [expert, row, column], sum);
                }
            }
        }
    }
}
