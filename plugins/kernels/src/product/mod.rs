//! Products of matrices: c = a · b for every index of a batch.

pub mod engine;
pub mod parts;
pub mod plan;
pub(crate) mod sums;
pub mod tiling;
mod transfer;
mod visit;

use crate::builder::Builder;
use crate::form::{Kernel, Memory, Pointer, Value};
use crate::scalar::Scalar;
use crate::target::Target;
use engine::{Along, Engine, Source};
use parts::Parts;
use plan::{Plan, Work};
use sums::Sums;

/// A kernel and its workgroups.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel.
    pub kernel: Kernel,
    /// The workgroups along each axis.
    pub grid: [u32; 3],
}

/// A launch as one of several.
#[derive(Clone, Debug)]
pub struct Call {
    /// The launch.
    pub launch: Launch,
    /// What its parameters are.
    pub passed: Vec<Passed>,
}

/// What is passed to a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// A tensor of the computation, by its place.
    Tensor(usize),
    /// The sums of parts of dot products, which one kernel leaves for the next.
    Sums,
}

/// Kernels that run one after the other.
#[derive(Clone, Debug)]
pub struct Launches {
    /// The kernels.
    pub all: Vec<Call>,
    /// The type and the number of the sums that they leave for each other, if any.
    pub sums: Option<(Scalar, usize)>,
}

/// A matrix in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// The type of elements.
    pub scalar: Scalar,
    /// The distance of rows, in elements.
    pub row: usize,
    /// The distance of columns.
    pub column: usize,
    /// For each dimension of the batch: how many indices of the result share a matrix, and the distance of matrices.
    pub batch: Vec<(usize, usize)>,
    /// What addresses are multiples of, in bytes.
    pub alignment: usize,
}

impl Matrix {
    /// The matrix with rows and columns exchanged.
    fn turned(&self) -> Self {
        Self { row: self.column, column: self.row, ..self.clone() }
    }

    /// The most neighbours, up to 16 bytes, that begin aligned where one of two distances is 1 and the other and the batch's are
    /// multiples.
    fn vector(&self, other: usize, length: usize) -> usize {
        let mut most = 16 / self.scalar.size();
        let bytes = |most: usize| most * self.scalar.size();
        let fits = |most: usize| {
            self.alignment.is_multiple_of(bytes(most))
                && other.is_multiple_of(most)
                && length.is_multiple_of(most)
                && self.batch.iter().all(|(_, stride)| stride.is_multiple_of(most))
        };
        while most > 1 && !fits(most) {
            most /= 2;
        }
        most
    }
}

/// What is done with each element of the result before it is stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Multiplies by a number.
    Scale(f64),
    /// Adds an element of another matrix, at the result's row, column and batch index.
    Add(Matrix),
    /// Applies a function.
    Apply(Function),
}

/// A function of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// max(x, 0).
    Relu,
    /// x Φ(x), by the error function.
    Gelu,
    /// Its approximation by tanh.
    GeluTanh,
    /// x / (1 + e^−x).
    Swish,
}

/// A product.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Length of the dot products.
    pub k: usize,
    /// The batch.
    pub batch: Vec<usize>,
    /// The left operand, m × k.
    pub a: Matrix,
    /// The right operand, k × n.
    pub b: Matrix,
    /// The result.
    pub c: Matrix,
    /// Its epilogue.
    pub steps: Vec<Step>,
}

impl Product {
    /// How many neighbours of the result are stored together.
    fn width(&self) -> usize {
        if self.c.column == 1 { self.c.vector(self.c.row, self.n) } else { 1 }
    }

    /// The same product as cᵀ = bᵀ · aᵀ.
    fn turned(&self) -> Self {
        let step = |step: &Step| match step {
            Step::Add(matrix) => Step::Add(matrix.turned()),
            other => other.clone(),
        };
        Self {
            m: self.n,
            n: self.m,
            k: self.k,
            batch: self.batch.clone(),
            a: self.b.turned(),
            b: self.a.turned(),
            c: self.c.turned(),
            steps: self.steps.iter().map(step).collect(),
        }
    }
}

/// The offset of a batch's matrix.
fn batch_offset(b: &mut Builder, index: &[Value], matrix: &Matrix) -> Value {
    let mut offset = b.number(0);
    for (index, (share, stride)) in index.iter().zip(&matrix.batch) {
        let own = b.div(*index, *share);
        let own = b.mul(own, *stride);
        offset = b.add(offset, own);
    }
    offset
}

/// Applies a function to a value of the type in which sums are computed.
pub fn apply(b: &mut Builder, function: Function, x: Value) -> Value {
    use crate::form::Unary;
    match function {
        Function::Relu => b.max(x, 0.0),
        Function::Gelu => {
            let scaled = b.mul(x, std::f64::consts::FRAC_1_SQRT_2);
            let erf = b.unary(Unary::Erf, scaled);
            let one = b.add(erf, 1.0);
            let half = b.mul(x, 0.5);
            b.mul(half, one)
        }
        Function::GeluTanh => {
            let square = b.mul(x, x);
            let cube = b.mul(square, x);
            let inner = b.mul(cube, 0.044_715);
            let inner = b.add(x, inner);
            let inner = b.mul(inner, 0.797_884_560_802_865_4);
            let tanh = b.unary(Unary::Tanh, inner);
            let one = b.add(tanh, 1.0);
            let half = b.mul(x, 0.5);
            b.mul(half, one)
        }
        Function::Swish => {
            let negative = b.unary(Unary::Neg, x);
            let power = b.unary(Unary::Exp, negative);
            let below = b.add(power, 1.0);
            b.div(x, below)
        }
    }
}

/// The type in which a tile's operands are held: that of both operands, or one that holds either.
pub(crate) fn operand_type(a: Scalar, b: Scalar) -> Option<Scalar> {
    let small =
        |scalar: Scalar| matches!(scalar, Scalar::F16 | Scalar::Bf16 | Scalar::Fp8E4m3 | Scalar::Fp8E5m2);
    match (a, b) {
        (Scalar::I64 | Scalar::I32 | Scalar::Bool, _) | (_, Scalar::I64 | Scalar::I32 | Scalar::Bool) => None,
        (a, b) if a == b => Some(a),
        (Scalar::F64, other) | (other, Scalar::F64) if other.is_float() => Some(Scalar::F64),
        (Scalar::F32, other) | (other, Scalar::F32) if small(other) => Some(Scalar::F32),
        (a, b) if small(a) && small(b) => Some(Scalar::F32),
        _ => None,
    }
}

/// Writes the kernels of a product; its tensors are a, b, c and the matrices that the steps add. Only if it `shares`, workgroups share dot
/// products; then their order of additions depends on m, n and the batch.
///
/// # Errors
/// What is not supported.
pub fn write(product: &Product, target: &Target, name: &str, shares: bool) -> Result<Launches, String> {
    let work = Work {
        m: product.m,
        n: product.n,
        k: product.k,
        batch: product.batch.iter().product(),
        operand: operand_of(product)?,
        gathered: false,
        shares,
    };
    let turned = is_turned(product);
    let work = if turned { Work { m: work.n, n: work.m, ..work } } else { work };
    write_as(product, target, name, &Plan::of(target, &work))
}

/// Neighbours in memory are neighbours along a row of tiles.
fn is_turned(product: &Product) -> bool {
    product.c.column != 1 && product.c.row == 1 && product.n > 1
}

fn operand_of(product: &Product) -> Result<Scalar, String> {
    operand_type(product.a.scalar, product.b.scalar)
        .ok_or_else(|| format!("a product of {} and {}", product.a.scalar.name(), product.b.scalar.name()))
}

/// As [`write()`], in this way.
///
/// # Errors
/// What is not supported.
pub fn write_as(product: &Product, target: &Target, name: &str, plan: &Plan) -> Result<Launches, String> {
    let turned = is_turned(product);
    let own = if turned { product.turned() } else { product.clone() };
    let tensors = if turned { [1, 0] } else { [0, 1] };
    let parts = Parts::of(own.k, plan.tiling.depth, plan.parts);
    let sums = (parts.count > 1).then(|| Sums {
        scalar: plan.tiling.shape.sum,
        parts: parts.count,
        batches: own.batch.iter().product(),
        m: own.m,
        n: own.n,
    });
    let mut all = vec![multiplying(&own, target, name, plan, (&parts, sums.as_ref()), tensors)?];
    if let Some(sums) = &sums {
        let mut b = Builder::new(format!("{name}_sum"), Sums::threads(target) as u32, target);
        let from = b.pointer(sums.scalar);
        let results = Results::declare(&mut b, &own, sums.scalar);
        let grid = sums.add(&mut b, from, own.width(), &mut |b, batch, row, column, values| {
            let indices = batch_indices(b, batch, &own.batch);
            let first = batch_offset(b, &indices, &own.c);
            results.store(b, &indices, first, [row, column], values);
        })?;
        let passed = [vec![Passed::Sums], results.passed()].concat();
        all.push(Call { launch: Launch { kernel: b.finish(), grid }, passed });
    }
    Ok(Launches { all, sums: sums.map(|sums| (sums.scalar, sums.count())) })
}

/// The indices of a batch.
fn batch_indices(b: &mut Builder, batch: Value, dims: &[usize]) -> Vec<Value> {
    let mut indices = vec![batch; dims.len()];
    let mut rest = batch;
    for (place, (index, dim)) in indices.iter_mut().zip(dims).enumerate().rev() {
        if place == 0 {
            *index = rest;
        } else {
            (rest, *index) = b.div_rem(rest, *dim);
        }
    }
    indices
}

/// The result and the tensors of its epilogue.
struct Results<'a> {
    product: &'a Product,
    sum: Scalar,
    c: Pointer,
    added: Vec<Option<Pointer>>,
}

impl<'a> Results<'a> {
    fn declare(b: &mut Builder, product: &'a Product, sum: Scalar) -> Self {
        let c = b.output(product.c.scalar);
        let added = product
            .steps
            .iter()
            .map(|step| if let Step::Add(matrix) = step { Some(b.pointer(matrix.scalar)) } else { None })
            .collect();
        Self { product, sum, c, added }
    }

    fn passed(&self) -> Vec<Passed> {
        (0..=self.added.iter().flatten().count()).map(|place| Passed::Tensor(2 + place)).collect()
    }

    /// Stores neighbours of a row, from sums.
    fn store(&self, b: &mut Builder, indices: &[Value], first: Value, at: [Value; 2], values: &[Value]) {
        let [row, column] = at;
        let c = &self.product.c;
        let own_row = b.mul(row, c.row);
        let own_column = b.mul(column, c.column);
        let place = b.add(first, own_row);
        let place = b.add(place, own_column);
        let mut stored = Vec::with_capacity(values.len());
        for (lane, value) in values.iter().enumerate() {
            let computed = if self.sum == Scalar::F64 { self.sum } else { Scalar::F32 };
            let mut value = *value;
            if !self.product.steps.is_empty() {
                value = b.convert(value, computed);
            }
            for (step, pointer) in self.product.steps.iter().zip(&self.added) {
                value = match (step, pointer) {
                    (Step::Scale(by), _) => b.mul(value, *by),
                    (Step::Apply(function), _) => apply(b, *function, value),
                    (Step::Add(matrix), Some(pointer)) => {
                        let first = batch_offset(b, indices, matrix);
                        let own = b.mul(row, matrix.row);
                        let place = b.add(first, own);
                        let column = b.add(column, lane);
                        let own = b.mul(column, matrix.column);
                        let place = b.add(place, own);
                        let other = b.load(Memory::Global(*pointer), place);
                        let other = b.convert(other, computed);
                        b.add(value, other)
                    }
                    (Step::Add(_), None) => value,
                };
            }
            stored.push(value);
        }
        engine::store(b, self.c, place, &stored, c.scalar);
    }
}

/// The kernel that multiplies. It leaves the sums of parts if there are such, else the results.
fn multiplying(
    product: &Product,
    target: &Target,
    name: &str,
    plan: &Plan,
    (parts, sums): (&Parts, Option<&Sums>),
    [first, second]: [usize; 2],
) -> Result<Call, String> {
    let Product { m, n, k, .. } = *product;
    let tiling = &plan.tiling;
    let mut b = Builder::new(name, tiling.threads(target), target);
    let [a_pointer, b_pointer] = [b.pointer(product.a.scalar), b.pointer(product.b.scalar)];
    let mut passed = vec![Passed::Tensor(first), Passed::Tensor(second)];
    let (down, across) = (m.div_ceil(tiling.rows()), n.div_ceil(tiling.columns()));
    let batches: usize = product.batch.iter().product();
    let of_part = down * across * batches;
    let (group, grid) = engine::groups(&mut b, of_part * parts.count)?;
    // Workgroups that run together have the same part, so that they share operands.
    let (part, group) = if parts.count == 1 { (b.number(0), group) } else { b.div_rem(group, of_part) };
    let (batch, tile) = b.div_rem(group, down * across);
    let (tile_row, tile_column) = engine::place(&mut b, tile, down, across);
    let first_row = b.mul(tile_row, tiling.rows());
    let first_column = b.mul(tile_column, tiling.columns());
    let indices = batch_indices(&mut b, batch, &product.batch);
    let [a_first, b_first] = [&product.a, &product.b].map(|matrix| batch_offset(&mut b, &indices, matrix));
    let place = |first: Value, major: usize, minor: usize| {
        move |b: &mut Builder, own: Value, k: Value| {
            let own = b.mul(own, major);
            let k = b.mul(k, minor);
            let place = b.add(first, own);
            (b.add(place, k), None)
        }
    };
    let source = |matrix: &Matrix, pointer, major: usize, minor: usize, length: usize| {
        let along = if minor == 1 || major != 1 { Along::K } else { Along::Own };
        let (near, other, count) = if along == Along::K { (minor, major, k) } else { (major, minor, length) };
        let vector = if near == 1 { matrix.vector(other, count) } else { 1 };
        (pointer, matrix.scalar, along, vector)
    };
    let (a_matrix, b_matrix) = (&product.a, &product.b);
    let a_place = place(a_first, a_matrix.row, a_matrix.column);
    let b_place = place(b_first, b_matrix.column, b_matrix.row);
    let of_a = source(a_matrix, a_pointer, a_matrix.row, a_matrix.column, m);
    let of_b = source(b_matrix, b_pointer, b_matrix.column, b_matrix.row, n);
    let make = |(pointer, scalar, along, vector), first, length, place| Source {
        pointer,
        scalar,
        along,
        vector,
        near: false,
        first,
        length,
        place,
    };
    let sources = [
        make(of_a, first_row, m, &a_place as &dyn Fn(&mut Builder, Value, Value) -> _),
        make(of_b, first_column, n, &b_place),
    ];
    let engine = Engine::new(&mut b, tiling, sources, parts, part);
    engine.run(&mut b);
    let firsts = [first_row, first_column];
    match sums {
        Some(sums) => {
            let to = b.output(sums.scalar);
            passed.push(Passed::Sums);
            engine.visit(&mut b, firsts, [m, n], sums.width(), &mut |b, row, column, values| {
                sums.keep(b, to, [part, batch], [row, column], values);
            });
        }
        None => {
            let results = Results::declare(&mut b, product, tiling.shape.sum);
            passed.extend(results.passed());
            let first = batch_offset(&mut b, &indices, &product.c);
            engine.visit(&mut b, firsts, [m, n], product.width(), &mut |b, row, column, values| {
                results.store(b, &indices, first, [row, column], values);
            });
        }
    }
    Ok(Call { launch: Launch { kernel: b.finish(), grid }, passed })
}

#[cfg(test)]
pub(crate) mod tests;
