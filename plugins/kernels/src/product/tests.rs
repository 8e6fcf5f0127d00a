use super::parts::Parts;
use super::plan::Plan;
use super::{Function, Launches, Matrix, Passed, Product, Step, Work, operand_of, write, write_as};
use crate::interpret::{Argument, decode, encode, run};
use crate::scalar::Scalar;
use crate::target::{CooperativeShape, Target, VulkanDevice};

pub(crate) fn targets() -> Vec<Target> {
    let mut all: Vec<Target> = ["gfx1030", "gfx1100", "gfx1200", "gfx90a", "sm_75", "sm_90"]
        .map(|name| Target::of(name).unwrap())
        .into();
    // A driver of NVIDIA's, whose matrices are those of `mma.sync`.
    let shape = |m, n, k, operand| {
        let fragments = all.last().and_then(|target| target.shape(operand)?.fragments.clone());
        CooperativeShape { m, n, k, operand, sum: Scalar::F32, fragments }
    };
    let device = VulkanDevice {
        name: "vulkan".to_owned(),
        subgroup: 32,
        shared: 32 << 10,
        threads: 256,
        units: 0,
        shapes: vec![shape(16, 16, 16, Scalar::F16)],
    };
    all.push(device.into());
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

/// Runs kernels one after the other with these tensors.
pub(crate) fn run_all(launches: &Launches, target: &Target, tensors: &mut [Vec<u8>]) -> Result<(), String> {
    let mut sums = launches.sums.map_or_else(Vec::new, |(scalar, count)| vec![0xff; scalar.size() * count]);
    for call in &launches.all {
        let kernel = &call.launch.kernel;
        assert!(kernel.shared_bytes() <= target.shared, "{}", target.name);
        assert_eq!(kernel.parameters.len(), call.passed.len());
        let taken = |passed: &Passed| match *passed {
            Passed::Tensor(place) => std::mem::take(&mut tensors[place]),
            Passed::Sums => std::mem::take(&mut sums),
        };
        let mut bytes: Vec<Vec<u8>> = call.passed.iter().map(taken).collect();
        let mut arguments: Vec<Argument<'_>> =
            bytes.iter_mut().map(|bytes| Argument::Memory(bytes)).collect();
        run(kernel, call.launch.grid, &mut arguments)?;
        for (passed, bytes) in call.passed.iter().zip(bytes) {
            match *passed {
                Passed::Tensor(place) => tensors[place] = bytes,
                Passed::Sums => sums = bytes,
            }
        }
    }
    Ok(())
}

fn matrix(scalar: Scalar, rows: usize, columns: usize, turned: bool, batch: &[(usize, usize)]) -> Matrix {
    let (row, column) = if turned { (1, rows) } else { (columns, 1) };
    Matrix { scalar, row, column, batch: batch.to_vec(), alignment: 16 }
}

fn check(product: &Product, target: &Target) {
    check_written(product, target, &write(product, target, "product", true).unwrap());
}

/// The plan of a product with this many parts.
fn shared_by(product: &Product, target: &Target, parts: usize) -> Plan {
    let Product { m, n, k, .. } = *product;
    let batch = product.batch.iter().product();
    let work = Work { m, n, k, batch, operand: operand_of(product).unwrap(), gathered: false, shares: false };
    Plan { parts, ..Plan::of(target, &work) }
}

fn check_written(product: &Product, target: &Target, launches: &Launches) {
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
    let (a, left) = random(size(&product.a, m, k), product.a.scalar, 3);
    let (b, right) = random(size(&product.b, k, n), product.b.scalar, 5);
    let c = vec![0xff; size(&product.c, m, n) * product.c.scalar.size()];
    let mut added: Vec<(Vec<u8>, Vec<f64>)> = Vec::new();
    for step in &product.steps {
        if let Step::Add(own) = step {
            added.push(random(size(own, m, n), own.scalar, 7));
        }
    }
    let mut tensors = vec![a, b, c];
    tensors.extend(added.iter().map(|(bytes, _)| bytes.clone()));
    run_all(launches, target, &mut tensors)
        .unwrap_or_else(|error| panic!("{} {product:?}: {error}", target.name));
    let got = numbers(&tensors[2], product.c.scalar);
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

/// Workgroups share dot products; the last part is shorter, or all are equal.
#[test]
fn shared_dot_products() {
    for target in targets() {
        for (parts, k) in [(2, 128), (3, 200), (7, 450), (40, 640)] {
            for turned in [[false; 3], [true; 3]] {
                let mut product = plain(20, 24, k, Scalar::F16, turned);
                product.c.scalar = Scalar::Bf16;
                product.batch = vec![2];
                product.a.batch = vec![(1, 20 * k)];
                product.b.batch = vec![(2, 0)];
                product.c.batch = vec![(1, 480)];
                let bias =
                    Matrix { scalar: Scalar::F32, row: 0, column: 1, batch: vec![(1, 0)], alignment: 4 };
                product.steps = vec![Step::Scale(0.5), Step::Add(bias), Step::Apply(Function::Relu)];
                let plan = shared_by(&product, &target, parts);
                let launches = write_as(&product, &target, "product", &plan).unwrap();
                assert_eq!(launches.all.len(), 2);
                check_written(&product, &target, &launches);
            }
        }
        // Integers, doubles, and results that are no multiple of a vector.
        for (scalar, n) in [(Scalar::I8, 24), (Scalar::F64, 9), (Scalar::F32, 7)] {
            let product = plain(3, n, 300, scalar, [false; 3]);
            let plan = shared_by(&product, &target, 4);
            check_written(&product, &target, &write_as(&product, &target, "product", &plan).unwrap());
        }
    }
}

#[test]
fn parts_cover_dot_products() {
    for (k, depth, wanted) in
        [(1, 32, 1), (1, 32, 5), (64, 32, 2), (200, 32, 3), (1000, 16, 7), (1024, 64, 16)]
    {
        let parts = Parts::of(k, depth, wanted);
        assert!(parts.count <= wanted && parts.length.is_multiple_of(depth), "{parts:?}");
        assert!((parts.count - 1) * parts.length < k && parts.count * parts.length >= k, "{parts:?}");
    }
}

/// With few results and long dot products workgroups share these, unless they must not.
#[test]
fn long_dot_products_are_shared() {
    let target = Target::of("sm_90").unwrap();
    let product = plain(64, 64, 1 << 16, Scalar::F16, [false; 3]);
    let sums = |shares| write(&product, &target, "product", shares).unwrap().sums;
    let (scalar, count) = sums(true).unwrap();
    assert_eq!(scalar, Scalar::F32);
    assert!(count >= 64 * 64 * 100, "{count}");
    assert_eq!(sums(false), None);
    let product = plain(4096, 4096, 4096, Scalar::F16, [false; 3]);
    assert_eq!(write(&product, &target, "product", true).unwrap().sums, None);
}
