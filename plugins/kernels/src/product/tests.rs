use super::parts::{Adder, Parts};
use super::plan::{Plan, Sharing};
use super::{Launches, Matrix, Passed, Product, Work, operand_of, write, write_as};
use crate::domain::{Access, Epilogue, Origin, Program, Store};
use crate::form::Parameter;
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

/// A number as a type holds it.
fn rounded(number: f64, scalar: Scalar) -> f64 {
    let cell = if scalar.is_float() { number.to_bits() } else { number as i64 as u64 };
    let bytes: Vec<u8> = encode(cell, scalar).into_iter().take(scalar.size()).collect();
    numbers(&bytes, scalar)[0]
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
            // They follow the result.
            Passed::Epilogue(place) => std::mem::take(&mut tensors[3 + place]),
        };
        let mut bytes: Vec<Vec<u8>> = call.passed.iter().map(taken).collect();
        let mut arguments: Vec<Argument<'_>> =
            bytes.iter_mut().map(|bytes| Argument::Memory(bytes)).collect();
        run(kernel, call.launch.grid, &mut arguments)?;
        for (passed, bytes) in call.passed.iter().zip(bytes) {
            match *passed {
                Passed::Tensor(place) => tensors[place] = bytes,
                Passed::Sums => sums = bytes,
                Passed::Epilogue(place) => tensors[3 + place] = bytes,
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
    let (operand, sharing) = (operand_of(product).unwrap(), Sharing::Never);
    let Plan { tiling, .. } = Plan::of(target, &Work { m, n, k, batch, operand, gathered: false, sharing });
    Plan { parts: Parts::of(k, tiling.depth, parts), tiling }
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
    // Those of the epilogue: a bias, what is added, and what is stored instead of c.
    let (bias, biases) = random(n, Scalar::F32, 7);
    let (added, others) = random(size(&product.c, m, n), Scalar::F16, 9);
    let mut tensors = vec![a, b, c.clone(), bias, added, c];
    run_all(launches, target, &mut tensors)
        .unwrap_or_else(|error| panic!("{} {product:?}: {error}", target.name));
    let got = numbers(&tensors[if product.epilogue.is_some() { 5 } else { 2 }], product.c.scalar);
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
                let place = at(&product.c, row, column);
                if product.epilogue.is_some() {
                    sum = rounded(sum, product.c.scalar);
                    sum = (0.5 * sum + biases[column] + others[place]).max(0.0);
                }
                // Sums of these numbers are exact.
                let expected = rounded(sum, product.c.scalar);
                assert_eq!(got[place], expected, "{} {product:?} [{batch}, {row}, {column}]", target.name);
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
        epilogue: None,
    }
}

/// max(c / 2 + a bias of columns + an element of another matrix with the layout of c, 0), with the layout of c.
fn epilogue(product: &Product) -> Epilogue {
    let c = &product.c;
    let mut strides: Vec<usize> = c.batch.iter().map(|(_, stride)| *stride).collect();
    strides.extend([c.row, c.column]);
    let along_columns = (0..strides.len()).map(|axis| usize::from(axis + 1 == strides.len())).collect();
    let access = |parameter, scalar, strides| Access { parameter, scalar, strides, alignment: 16 };
    let memory = |scalar: Scalar, written| Parameter::Memory { scalar, written, alignment: scalar.size() };
    let mut program = Program {
        dims: [product.batch.as_slice(), &[product.m, product.n]].concat(),
        parameters: vec![memory(Scalar::F32, false), memory(Scalar::F16, false), memory(c.scalar, true)],
        ..Program::default()
    };
    let sum = program.push(Origin::Given, Scalar::F32);
    let bias = program.push(Origin::Load(access(0, Scalar::F32, along_columns)), Scalar::F32);
    let other = program.push(Origin::Load(access(1, Scalar::F16, strides.clone())), Scalar::F32);
    let value = program.compute(Scalar::F32, &[sum, bias, other], |b, x| {
        let half = b.mul(x[0], 0.5);
        let moved = b.add(half, x[1]);
        let all = b.add(moved, x[2]);
        b.max(all, 0.0)
    });
    program.stores.push(Store { value, access: access(2, c.scalar, strides) });
    Epilogue { program, scalar: c.scalar }
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
        product.epilogue = Some(epilogue(&product));
        check(&product, &target);
        for turned in [[false; 3], [true; 3]] {
            let mut product = plain(24, 40, 16, Scalar::F16, turned);
            product.epilogue = Some(epilogue(&product));
            check(&product, &target);
        }
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
                product.epilogue = Some(epilogue(&product));
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
    // As for other numbers of rows, and in order: fewer.
    let (_, alike) = sums(false).unwrap();
    assert!((64 * 64 * 2..=64 * 64 * 32).contains(&alike), "{alike}");
    let product = plain(4096, 4096, 4096, Scalar::F16, [false; 3]);
    assert_eq!(write(&product, &target, "product", true).unwrap().sums, None);
}

/// Bytes of numbers whose sums are rounded.
pub(crate) fn rough(count: usize, scalar: Scalar) -> Vec<u8> {
    let number = |place: usize| (place as f64 * 0.7).sin() * 3_f64.powi((place % 5) as i32);
    (0..count)
        .flat_map(|place| encode(number(place).to_bits(), scalar).into_iter().take(scalar.size()))
        .collect()
}

/// The bytes of the result for rough operands.
fn results(product: &Product, target: &Target, launches: &Launches) -> Vec<u8> {
    let Product { m, n, k, .. } = *product;
    let scalar = product.a.scalar;
    let (a, b) = (rough(m * k, scalar), rough(k * n, scalar));
    let mut tensors = vec![a, b, vec![0xff; m * n * product.c.scalar.size()]];
    run_all(launches, target, &mut tensors).unwrap();
    tensors.swap_remove(2)
}

#[test]
fn a_workgroup_adds_parts_to_the_bits_of_several() {
    for target in targets() {
        for (scalar, k, count) in
            [(Scalar::F32, 200, 3), (Scalar::F32, 256, 4), (Scalar::F16, 450, 3), (Scalar::F64, 130, 2)]
        {
            let product =
                Product { c: matrix(scalar, 5, 24, false, &[]), ..plain(5, 24, k, scalar, [false; 3]) };
            let Plan { tiling, parts } = shared_by(&product, &target, count);
            if tiling.shape.is_opaque() {
                continue;
            }
            let of = |parts| {
                let plan = Plan { tiling: tiling.clone(), parts };
                let launches = write_as(&product, &target, "product", &plan).unwrap();
                (launches.all.len(), results(&product, &target, &launches))
            };
            let several = of(Parts { adder: Adder::Thread, ..parts });
            let (kernels, alone) = of(Parts { adder: Adder::Workgroup, ..parts });
            assert_eq!((several.0, kernels), (2, 1));
            assert!(several.1 == alone, "{} {scalar:?} {k}", target.name);
            // Another order of additions shows.
            let (_, whole) = of(Parts::of(k, tiling.depth, 1));
            assert!(scalar == Scalar::F16 || whole != alone, "{} {scalar:?} {k}", target.name);
        }
    }
}

#[test]
fn rows_have_the_same_bits_whatever_their_number() {
    for target in targets() {
        for (scalar, turned) in [(Scalar::F32, false), (Scalar::F32, true), (Scalar::F16, true)] {
            let mut first: Option<Vec<u8>> = None;
            for m in [1, 9, 33] {
                let mut product = plain(m, 8, 1100, scalar, [false; 3]);
                product.c = matrix(scalar, m, 8, turned, &[]);
                let launches = write(&product, &target, "product", false).unwrap();
                assert!(scalar == Scalar::F16 || launches.all[0].launch.kernel.parts > 1, "{}", target.name);
                let bytes = results(&product, &target, &launches);
                let size = scalar.size();
                let step = if turned { m * size } else { size };
                let row: Vec<u8> =
                    (0..8).flat_map(|column| bytes[column * step..][..size].to_vec()).collect();
                let first = first.get_or_insert_with(|| row.clone());
                assert!(*first == row, "{} {scalar:?} {turned} {m}", target.name);
            }
        }
    }
}

/// A single row is not seen to be of a result whose columns are contiguous, but has the parts of one of many such rows.
#[test]
fn rows_have_the_same_parts_whatever_their_layout() {
    for target in targets() {
        for (scalar, n, k) in [
            (Scalar::F32, 4096, 4096),
            (Scalar::F32, 8, 4096),
            (Scalar::F16, 96, 8192),
            (Scalar::F16, 4096, 4096),
        ] {
            let is_opaque = target.shape(scalar).is_some_and(|shape| shape.is_opaque());
            let mut all = Vec::new();
            for turned in [false, true] {
                for m in [1, 2, 64, 300] {
                    let mut product = plain(m, n, k, scalar, [false; 3]);
                    product.c = matrix(scalar, m, n, turned, &[]);
                    let launches = write(&product, &target, "product", false).unwrap();
                    all.push(launches.all[0].launch.kernel.parts);
                }
            }
            assert!(all.iter().all(|parts| *parts == all[0]), "{} {scalar:?} {n} {k}: {all:?}", target.name);
            assert!(is_opaque || n == 4096 || all[0] > 1, "{} {scalar:?} {n} {k}", target.name);
        }
    }
}

#[test]
fn tiles_are_ranked_and_the_last_is_followed_by_itself() {
    for mut target in targets() {
        let work = Work {
            m: 512,
            n: 512,
            k: 512,
            batch: 1,
            operand: Scalar::F16,
            gathered: false,
            sharing: Sharing::Never,
        };
        let mut plan = |tiles| {
            target.tiles = tiles;
            Plan::of(&target, &work).tiling
        };
        let all: Vec<_> = (0..32).map(&mut plan).collect();
        let count = all.iter().position(|tiling| *tiling == all[31]).unwrap() + 1;
        assert!(count > 2, "{count}");
        for (place, tiling) in all[..count].iter().enumerate() {
            assert!(!all[..place].contains(tiling), "{place}");
        }
        assert!(all[count..].iter().all(|tiling| *tiling == all[31]));
    }
}

/// Few rows are computed by workgroups that share dot products, many by workgroups that compute the same parts.
#[test]
fn the_parts_of_rows_do_not_depend_on_their_number() {
    for target in targets() {
        for operand in [Scalar::F32, Scalar::F16] {
            let sharing = Sharing::Like { m: 64, n: 256, batch: 1 };
            let plan = |m| {
                let work = Work { m, n: 256, k: 4096, batch: 1, operand, gathered: false, sharing };
                Plan::of(&target, &work)
            };
            let few = plan(16);
            if few.tiling.shape.is_opaque() {
                assert_eq!(few.parts.count, 1);
                continue;
            }
            assert_eq!(few.parts.adder, Adder::Thread, "{} {operand:?}", target.name);
            for m in [1, 64, 100, 1 << 10, 1 << 18] {
                let Parts { count, length, .. } = plan(m).parts;
                assert_eq!([count, length], [few.parts.count, few.parts.length], "{} {m}", target.name);
            }
            assert_eq!(plan(1 << 18).parts.adder, Adder::Workgroup, "{} {operand:?}", target.name);
        }
    }
}

/// Whole numbers have one sum in any order, so that they are always shared as is fastest.
#[test]
fn whole_numbers_are_shared_whatever_the_rows() {
    let target = Target::of("sm_90").unwrap();
    let product = Product {
        c: matrix(Scalar::I32, 64, 64, false, &[]),
        ..plain(64, 64, 1 << 16, Scalar::I8, [false; 3])
    };
    let sums = |shares| write(&product, &target, "product", shares).unwrap().sums;
    assert!(sums(true).is_some());
    assert_eq!(sums(false), sums(true));
}

/// Operands that are held in a wider type come in vectors of as many elements as 16 bytes of theirs have.
#[test]
fn no_vector_exceeds_16_bytes() {
    for target in targets() {
        for [left, right] in [
            [Scalar::F16, Scalar::F32],
            [Scalar::F32, Scalar::Bf16],
            [Scalar::Fp8E4m3; 2],
            [Scalar::Fp8E5m2, Scalar::F32],
        ] {
            let mut product = plain(40, 48, 64, left, [false; 3]);
            product.b.scalar = right;
            let launches = write(&product, &target, "product", false).unwrap();
            for type_ in &launches.all[0].launch.kernel.values {
                let bytes = usize::from(type_.lanes) * type_.scalar.size();
                assert!(bytes <= 16, "{} {left:?} {right:?}: {type_:?}", target.name);
            }
            check(&product, &target);
        }
    }
}
