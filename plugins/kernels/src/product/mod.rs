//! Products of matrices: c = a · b for every index of a batch.

pub mod engine;
pub mod tiling;
mod visit;

use crate::builder::Builder;
use crate::form::{Kernel, Memory, Pointer, Value};
use crate::scalar::Scalar;
use crate::target::Target;
use engine::{Along, Engine, Source};
use tiling::Tiling;

/// A kernel and its workgroups.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel.
    pub kernel: Kernel,
    /// The workgroups along each axis.
    pub grid: [u32; 3],
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

/// Writes the kernel of a product; its parameters are a, b, c and the matrices that the steps add.
///
/// # Errors
/// What is not supported.
pub fn write(product: &Product, target: &Target, name: &str) -> Result<Launch, String> {
    // Neighbours in memory are neighbours along a row of tiles.
    if product.c.column != 1 && product.c.row == 1 && product.n > 1 {
        return write_turned(&product.turned(), target, name, true);
    }
    write_turned(product, target, name, false)
}

fn write_turned(product: &Product, target: &Target, name: &str, turned: bool) -> Result<Launch, String> {
    let Product { m, n, k, .. } = *product;
    let operand = operand_type(product.a.scalar, product.b.scalar)
        .ok_or_else(|| format!("a product of {} and {}", product.a.scalar.name(), product.b.scalar.name()))?;
    let tiling = Tiling::of(target, operand, m, n, product.batch.iter().product(), k);
    let mut b = Builder::new(name, tiling.threads(target), target);
    let (a_pointer, b_pointer) = if turned {
        let second = b.pointer(product.b.scalar);
        (b.pointer(product.a.scalar), second)
    } else {
        (b.pointer(product.a.scalar), b.pointer(product.b.scalar))
    };
    let c_pointer = b.output(product.c.scalar);
    let added: Vec<Option<Pointer>> = product
        .steps
        .iter()
        .map(|step| if let Step::Add(matrix) = step { Some(b.pointer(matrix.scalar)) } else { None })
        .collect();
    let (down, across) = (m.div_ceil(tiling.rows()), n.div_ceil(tiling.columns()));
    let batches: usize = product.batch.iter().product();
    let (group, grid) = engine::groups(&mut b, down * across * batches)?;
    let (batch, tile) = b.div_rem(group, down * across);
    let (tile_row, tile_column) = engine::place(&mut b, tile, down, across);
    let first_row = b.mul(tile_row, tiling.rows());
    let first_column = b.mul(tile_column, tiling.columns());
    let mut indices = vec![batch; product.batch.len()];
    let mut rest = batch;
    for (index, dim) in indices.iter_mut().zip(&product.batch).rev() {
        (rest, *index) = b.div_rem(rest, *dim);
    }
    let [a_first, b_first, c_first] =
        [&product.a, &product.b, &product.c].map(|matrix| batch_offset(&mut b, &indices, matrix));
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
        first,
        length,
        place,
    };
    let sources = [
        make(of_a, first_row, m, &a_place as &dyn Fn(&mut Builder, Value, Value) -> _),
        make(of_b, first_column, n, &b_place),
    ];
    let engine = Engine::new(&mut b, &tiling, sources, k);
    engine.run(&mut b);
    let width = if product.c.column == 1 { product.c.vector(product.c.row, n) } else { 1 };
    let sum = tiling.shape.sum;
    engine.visit(&mut b, [first_row, first_column], [m, n], width, &mut |b, row, column, values| {
        let own_row = b.mul(row, product.c.row);
        let own_column = b.mul(column, product.c.column);
        let at = b.add(c_first, own_row);
        let at = b.add(at, own_column);
        let mut stored = Vec::with_capacity(values.len());
        for (lane, value) in values.iter().enumerate() {
            let computed = if sum == Scalar::F64 { sum } else { Scalar::F32 };
            let mut value = *value;
            if !product.steps.is_empty() {
                value = b.convert(value, computed);
            }
            for (step, pointer) in product.steps.iter().zip(&added) {
                value = match (step, pointer) {
                    (Step::Scale(by), _) => b.mul(value, *by),
                    (Step::Apply(function), _) => apply(b, *function, value),
                    (Step::Add(matrix), Some(pointer)) => {
                        let first = batch_offset(b, &indices, matrix);
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
        engine::store(b, c_pointer, at, &stored, product.c.scalar);
    });
    Ok(Launch { kernel: b.finish(), grid })
}

#[cfg(test)]
pub(crate) mod tests;
