use super::{Function, Matrix, Product, Step, write};
use crate::interpret::{Argument, decode, encode, run};
use crate::scalar::Scalar;
use crate::target::{CooperativeShape, Target, VulkanDevice};

pub(crate) fn targets() -> Vec<Target> {
    let mut all: Vec<Target> = ["gfx1030", "gfx1100", "gfx1200", "gfx90a", "sm_75", "sm_90"]
        .map(|name| Target::of(name).unwrap())
        .into();
    let shape = |m, n, k, operand| CooperativeShape { m, n, k, operand, sum: Scalar::F32 };
    all.push(Target::from(VulkanDevice {
        name: "vulkan".to_owned(),
        subgroup: 32,
        shared: 32 << 10,
        threads: 256,
        shapes: vec![shape(16, 16, 16, Scalar::F16)],
    }));
    all
}

/// Numbers of a type as bytes.
pub(crate) fn random(count: usize, scalar: Scalar, seed: u64) -> (Vec<u8>, Vec<f64>) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let number = (state % 17) as f64 - 8.0;
        let number = if scalar.is_float() { number / 8.0 } else { number };
        let cell = if scalar.is_float() { number.to_bits() } else { number as i64 as u64 };
        bytes.extend(encode(cell, scalar).into_iter().take(scalar.size()));
        numbers.push(number);
    }
    (bytes, numbers)
}

pub(crate) fn numbers(bytes: &[u8], scalar: Scalar) -> Vec<f64> {
    let real = |bytes| {
        let cell = decode(bytes, scalar);
        if scalar.is_float() { f64::from_bits(cell) } else { cell as i64 as f64 }
    };
    bytes.chunks(scalar.size()).map(real).collect()
}

fn matrix(scalar: Scalar, rows: usize, columns: usize, turned: bool, batch: &[(usize, usize)]) -> Matrix {
    let (row, column) = if turned { (1, rows) } else { (columns, 1) };
    Matrix { scalar, row, column, batch: batch.to_vec(), alignment: 16 }
}

fn check(product: &Product, target: &Target) {
    let Product { m, n, k, .. } = *product;
    let batches: usize = product.batch.iter().product();
    let size = |own: &Matrix, rows: usize, columns: usize| {
        let batch: usize = own
            .batch
            .iter()
            .zip(&product.batch)
            .map(|((share, stride), dim)| (dim / share - 1) * stride)
            .sum();
        1 + (rows - 1) * own.row + (columns - 1) * own.column + batch
    };
    let (mut a, left) = random(size(&product.a, m, k), product.a.scalar, 3);
    let (mut b, right) = random(size(&product.b, k, n), product.b.scalar, 5);
    let mut c = vec![0xff; size(&product.c, m, n) * product.c.scalar.size()];
    let mut added: Vec<(Vec<u8>, Vec<f64>)> = Vec::new();
    for step in &product.steps {
        if let Step::Add(own) = step {
            added.push(random(size(own, m, n), own.scalar, 7));
        }
    }
    let launch = write(product, target, "product").unwrap();
    assert!(launch.kernel.shared_bytes() <= target.shared, "{} {product:?}", target.name);
    let mut arguments = vec![Argument::Memory(&mut a), Argument::Memory(&mut b), Argument::Memory(&mut c)];
    let mut bytes: Vec<Vec<u8>> = added.iter().map(|(bytes, _)| bytes.clone()).collect();
    arguments.extend(bytes.iter_mut().map(|bytes| Argument::Memory(bytes)));
    run(&launch.kernel, launch.grid, &mut arguments)
        .unwrap_or_else(|error| panic!("{} {product:?}: {error}", target.name));
    let got = numbers(&c, product.c.scalar);
    for batch in 0..batches {
        let offset = |own: &Matrix| {
            let mut rest = batch;
            let mut offset = 0;
            for ((share, stride), dim) in own.batch.iter().zip(&product.batch).rev() {
                offset += rest % dim / share * stride;
                rest /= dim;
            }
            offset
        };
        let at = |own: &Matrix, row: usize, column: usize| offset(own) + row * own.row + column * own.column;
        for row in 0..m {
            for column in 0..n {
                let mut sum: f64 =
                    (0..k).map(|i| left[at(&product.a, row, i)] * right[at(&product.b, i, column)]).sum();
                let mut others = added.iter();
                for step in &product.steps {
                    match step {
                        Step::Scale(by) => sum *= by,
                        Step::Add(own) => sum += others.next().unwrap().1[at(own, row, column)],
                        Step::Apply(Function::Relu) => sum = sum.max(0.0),
                        Step::Apply(_) => sum /= 1.0 + (-sum).exp(),
                    }
                }
                let was = got[at(&product.c, row, column)];
                let fits = (was - sum).abs() <= 0.01 * sum.abs().max(1.0);
                assert!(
                    fits,
                    "{} {product:?} [{batch}, {row}, {column}]: {was}, expected {sum}",
                    target.name
                );
            }
        }
    }
}

fn plain(m: usize, n: usize, k: usize, scalar: Scalar, turned: [bool; 3]) -> Product {
    let [a, b, c] = turned;
    Product {
        m,
        n,
        k,
        batch: Vec::new(),
        a: matrix(scalar, m, k, a, &[]),
        b: matrix(scalar, k, n, b, &[]),
        c: matrix(Scalar::F32, m, n, c, &[]),
        steps: Vec::new(),
    }
}

#[test]
fn products_of_all_layouts_and_types() {
    for target in targets() {
        for scalar in [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64, Scalar::I8, Scalar::Fp8E4m3] {
            for turned in 0..8 {
                // All layouts for one type, a few for the others.
                if turned % 6 != 0 && scalar != Scalar::F16 {
                    continue;
                }
                let turned = [turned & 1 != 0, turned & 2 != 0, turned & 4 != 0];
                check(&plain(40, 72, 56, scalar, turned), &target);
            }
        }
    }
}

#[test]
fn odd_sizes_batches_and_epilogues() {
    for target in targets() {
        for (m, n, k) in [(1, 33, 7), (17, 1, 65), (5, 6, 1), (130, 20, 24)] {
            check(&plain(m, n, k, Scalar::F16, [false; 3]), &target);
        }
        let mut product = plain(20, 24, 16, Scalar::Bf16, [false, true, false]);
        product.batch = vec![2, 3];
        product.a.batch = vec![(1, 3 * 320), (1, 320)];
        product.b.batch = vec![(2, 0), (1, 384)];
        product.c.batch = vec![(1, 3 * 480), (1, 480)];
        product.c.scalar = Scalar::Bf16;
        let bias =
            Matrix { scalar: Scalar::F32, row: 0, column: 1, batch: vec![(1, 0), (1, 0)], alignment: 4 };
        product.steps = vec![Step::Scale(0.5), Step::Add(bias), Step::Apply(Function::Relu)];
        check(&product, &target);
        // Mixed types, and strides along both.
        let mut product = plain(33, 18, 40, Scalar::F16, [false; 3]);
        product.b.scalar = Scalar::F32;
        product.a.row = 100;
        product.a.column = 2;
        product.c.column = 3;
        product.c.row = 60;
        check(&product, &target);
    }
}
