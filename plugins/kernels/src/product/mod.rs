//! Products of matrices: c = a · b for every index of a batch.

pub mod engine;
pub mod parts;
pub mod plan;
pub(crate) mod sums;
pub mod tiling;
mod transfer;
mod visit;

use crate::builder::Builder;
use crate::domain::{Epilogue, Finish};
use crate::form::{Kernel, Pointer, Value};
use crate::scalar::Scalar;
use crate::target::{Language, Target};
use engine::{Along, Engine, Source};
use parts::Parts;
use plan::{Plan, Sharing, Work};
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
    /// A parameter of the epilogue, by its place.
    Epilogue(usize),
}

/// Kernels that run one after the other.
#[derive(Clone, Debug)]
pub struct Launches {
    /// The kernels.
    pub all: Vec<Call>,
    /// The type and the number of the sums that they leave for each other, if any.
    pub sums: Option<(Scalar, usize)>,
}

impl Launches {
    /// With dot products in so many parts.
    pub(crate) fn in_parts(mut self, parts: usize) -> Self {
        for call in &mut self.all {
            call.launch.kernel.parts = parts as u32;
        }
        self
    }
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

/// A product.
#[derive(Clone, Debug)]
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
    /// What is stored instead of the result; its domain are the batch, rows and columns.
    pub epilogue: Option<Epilogue>,
}

impl Product {
    /// How many neighbours of the result are stored together.
    fn width(&self) -> usize {
        if self.c.column == 1 { self.c.vector(self.c.row, self.n) } else { 1 }
    }

    /// The same product as cᵀ = bᵀ · aᵀ.
    fn turned(&self) -> Self {
        Self {
            m: self.n,
            n: self.m,
            k: self.k,
            batch: self.batch.clone(),
            a: self.b.turned(),
            b: self.a.turned(),
            c: self.c.turned(),
            epilogue: self.epilogue.clone(),
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

/// The type in which a device holds operands of a type: 8-bit floats that it has no matrix instruction for in 16 bits, without loss.
pub(crate) fn held_as(operand: Scalar, target: &Target) -> Scalar {
    let has = |scalar: Scalar| target.shape(scalar).is_some_and(|shape| shape.is_matrix());
    match operand {
        Scalar::Fp8E4m3 | Scalar::Fp8E5m2 if target.language != Language::SpirV && !has(operand) => {
            // Bfloat16 has no subnormal numbers among them, which some matrix instructions take as 0.
            if has(Scalar::Bf16) { Scalar::Bf16 } else { Scalar::F16 }
        }
        _ => operand,
    }
}

/// Dot products that must not depend on the number of rows are divided as for a product of so many.
const ROWS: usize = 64;

/// Writes the kernels of a product; its tensors are a, b and c. Only if it `shares`, the parts of real dot products depend on m and the
/// batch; on n they always do.
///
/// # Errors
/// What is not supported.
pub fn write(product: &Product, target: &Target, name: &str, shares: bool) -> Result<Launches, String> {
    let (m, n) = if is_turned(product) { (product.n, product.m) } else { (product.m, product.n) };
    let work = Work {
        m,
        n,
        k: product.k,
        batch: product.batch.iter().product(),
        operand: held_as(operand_of(product)?, target),
        gathered: false,
        sharing: if shares {
            Sharing::Freely
        } else {
            // Also where it is turned: strides do not tell whether a single row is of such a result.
            Sharing::Like { m: ROWS, n: product.n, batch: 1 }
        },
    };
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
    let parts = plan.parts;
    let sums = (parts.sharers() > 1).then(|| Sums {
        scalar: plan.tiling.shape.sum,
        parts,
        batches: own.batch.iter().product(),
        m: own.m,
        n: own.n,
    });
    let mut all = vec![multiplying(&own, target, name, plan, (&parts, sums.as_ref()), turned)?];
    if let Some(sums) = &sums {
        let mut b = Builder::new(format!("{name}_sum"), Sums::threads(target) as u32, target);
        let from = b.pointer(sums.scalar);
        let (results, passed) = Results::declare(&mut b, &own, turned);
        let grid = sums.add(&mut b, from, own.width(), &mut |b, batch, row, column, values| {
            let indices = batch_indices(b, batch, &own.batch);
            let first = batch_offset(b, &indices, &own.c);
            results.store(b, (&indices, first), [row, column], values);
        })?;
        let passed = [vec![Passed::Sums], passed].concat();
        all.push(Call { launch: Launch { kernel: b.finish(), grid }, passed });
    }
    Ok(Launches { all, sums: sums.map(|sums| (sums.scalar, sums.count())) }.in_parts(parts.count))
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

/// What is passed for the parameters of an epilogue.
pub(crate) fn passed_to(epilogue: &Epilogue) -> Vec<Passed> {
    (0..epilogue.program.parameters.len()).map(Passed::Epilogue).collect()
}

/// Where results go.
enum Results<'a> {
    Stored(&'a Matrix, Pointer),
    /// To the epilogue; whether rows of the kernel are columns of the domain.
    Finished(Finish<'a>, bool),
}

impl<'a> Results<'a> {
    /// Also what is passed for them.
    fn declare(b: &mut Builder, product: &'a Product, is_turned: bool) -> (Self, Vec<Passed>) {
        match &product.epilogue {
            None => (Self::Stored(&product.c, b.output(product.c.scalar)), vec![Passed::Tensor(2)]),
            Some(epilogue) => (Self::Finished(epilogue.declare(b), is_turned), passed_to(epilogue)),
        }
    }

    /// Stores neighbours of a row, from sums.
    fn store(&self, b: &mut Builder, (indices, first): (&[Value], Value), at: [Value; 2], values: &[Value]) {
        let [row, column] = at;
        match self {
            Self::Stored(c, to) => {
                let own_row = b.mul(row, c.row);
                let own_column = b.mul(column, c.column);
                let place = b.add(first, own_row);
                let place = b.add(place, own_column);
                engine::store(b, *to, place, values, c.scalar);
            }
            Self::Finished(finish, is_turned) => {
                let own = if *is_turned { [column, row] } else { [row, column] };
                let near = indices.len() + usize::from(!is_turned);
                finish.store(b, &[indices, &own].concat(), near, values);
            }
        }
    }
}

/// The kernel that multiplies. It leaves the sums of parts if there are such, else the results.
fn multiplying(
    product: &Product,
    target: &Target,
    name: &str,
    plan: &Plan,
    (parts, sums): (&Parts, Option<&Sums>),
    is_turned: bool,
) -> Result<Call, String> {
    let Product { m, n, k, .. } = *product;
    let tiling = &plan.tiling;
    let mut b = Builder::new(name, tiling.threads(target), target);
    let [a_pointer, b_pointer] = [b.pointer(product.a.scalar), b.pointer(product.b.scalar)];
    let tensors = if is_turned { [1, 0] } else { [0, 1] };
    let mut passed = tensors.map(Passed::Tensor).to_vec();
    let (down, across) = (m.div_ceil(tiling.rows()), n.div_ceil(tiling.columns()));
    let batches: usize = product.batch.iter().product();
    let of_part = down * across * batches;
    let (group, grid) = engine::groups(&mut b, of_part * parts.sharers())?;
    // Workgroups that run together have the same part, so that they share operands.
    let (part, group) = if parts.sharers() == 1 { (b.number(0), group) } else { b.div_rem(group, of_part) };
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
            let (results, own) = Results::declare(&mut b, product, is_turned);
            passed.extend(own);
            let first = batch_offset(&mut b, &indices, &product.c);
            engine.visit(&mut b, firsts, [m, n], product.width(), &mut |b, row, column, values| {
                results.store(b, (&indices, first), [row, column], values);
            });
        }
    }
    Ok(Call { launch: Launch { kernel: b.finish(), grid }, passed })
}

#[cfg(test)]
pub(crate) mod tests;
