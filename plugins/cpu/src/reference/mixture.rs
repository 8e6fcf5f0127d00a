//! Mixture of experts: each group of rows times the matrix of its expert, and the gradient of the matrices.
//!
//! Sums are in double precision for any compute type, and rounded once.

use hipdnn_plugin_planner::problem::mixture::{Experts, Mixture, MixtureGradient, Rows};

use crate::kernel::{Kernel, Refusal};
use crate::moe::groups::{Groups, Routes};
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers, Spread};

pub(crate) fn plan(mixture: &Mixture) -> Result<Box<dyn Kernel>, Refusal> {
    Ok(Box::new(GroupedMatmul {
        token: matrix("token", &mixture.token)?,
        weight: matrices("weight", &mixture.weight)?,
        output: matrix("output", &mixture.output)?,
        depth: mixture.token.dims[1],
        results: mixture.output.dims,
        groups: Groups::of(mixture),
        routes: Routes::of(mixture),
    }))
}

pub(crate) fn plan_gradient(gradient: &MixtureGradient) -> Result<Box<dyn Kernel>, Refusal> {
    let [_, rows, columns] = gradient.d_weight.dims;
    Ok(Box::new(Gradient {
        token: matrix("token", &gradient.token)?,
        d_output: matrix("doutput", &gradient.d_output)?,
        d_weight: matrices("dweight", &gradient.d_weight)?,
        matrix: [rows, columns],
        groups: Groups::of_gradient(gradient),
    }))
}

fn matrix(name: &str, rows: &Rows) -> Result<Spread<f64, 2>, Refusal> {
    Ok(Spread { memory: Memory::of(name, &rows.operand)?, strides: rows.strides })
}

fn matrices(name: &str, experts: &Experts) -> Result<Spread<f64, 3>, Refusal> {
    Ok(Spread { memory: Memory::of(name, &experts.operand)?, strides: experts.strides })
}

struct GroupedMatmul {
    token: Spread<f64, 2>,
    weight: Spread<f64, 3>,
    output: Spread<f64, 2>,
    /// Columns of `token`, and the dims of `output`.
    depth: usize,
    results: [usize; 2],
    groups: Groups,
    routes: Routes,
}

impl Reference for GroupedMatmul {
    fn check_values(&self, tensors: Pointers<'_>) -> Result<(), Refusal> {
        self.groups.check(tensors)?;
        self.routes.check(tensors, &self.groups)
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
                let (from, to) = self.routes.route(tensors, row);
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
