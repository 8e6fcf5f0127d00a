use super::*;
use crate::interpret::{self, Argument};
use crate::target::VulkanDevice;

fn target() -> Target {
    VulkanDevice {
        name: "a device".to_owned(),
        subgroup: 8,
        shared: 32 << 10,
        threads: 64,
        units: 0,
        shapes: Vec::new(),
    }
    .into()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

fn access(parameter: usize, strides: &[usize]) -> Access {
    Access { parameter, scalar: Scalar::F32, strides: strides.to_vec(), alignment: 16 }
}

const IN: Parameter = Parameter::Memory { scalar: Scalar::F32, written: false, alignment: 4 };
const OUT: Parameter = Parameter::Memory { scalar: Scalar::F32, written: true, alignment: 4 };

/// The second of two arrays after a program ran on the first.
fn run(program: &Program, x: &[f32], count: usize) -> Vec<f32> {
    let written = program.write("it", &target()).unwrap();
    let mut from: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut to = vec![0; 4 * count];
    let mut arguments = [Argument::Memory(&mut from), Argument::Memory(&mut to)];
    interpret::run(&written.kernel, written.groups, &mut arguments).unwrap();
    floats(&to)
}

#[test]
fn dense_elements_are_computed_side_by_side() {
    let mut program = Program { dims: vec![3, 40], parameters: vec![IN, OUT], ..Program::default() };
    let x = program.push(Origin::Load(access(0, &[40, 1])), Scalar::F32);
    let twice = program.compute(Scalar::F32, &[x], |b, x| b.mul(x[0], 2.0));
    program.stores.push(Store { value: twice, access: access(1, &[40, 1]) });
    let x: Vec<f32> = (0..120).map(|x| x as f32).collect();
    assert_eq!(run(&program, &x, 120), x.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
    let kernel = program.write("it", &target()).unwrap().kernel;
    let loads = |lanes| kernel.values.iter().any(|type_| type_.lanes == lanes);
    assert!(loads(4) && !loads(8), "a vector takes 16 bytes");
}

#[test]
fn rows_are_reduced_along_and_across_memory() {
    for (strides, of_rows) in [([50, 1], [1, 0]), ([1, 3], [1, 0])] {
        let mut program = Program {
            dims: vec![3, 50],
            reduced: Some(vec![false, true]),
            parameters: vec![IN, OUT],
            ..Program::default()
        };
        let x = program.push(Origin::Load(access(0, &strides)), Scalar::F32);
        let most = program.push(Origin::Reduce(Join::Greatest, x), Scalar::F32);
        let below = program.compute(Scalar::F32, &[x, most], |b, x| b.sub(x[0], x[1]));
        let sum = program.push(Origin::Reduce(Join::Sum, below), Scalar::F32);
        assert_eq!(program.nodes[sum].pass, 2);
        program.stores.push(Store { value: sum, access: access(1, &of_rows) });
        let at = |row: usize, column: usize| ((row * 7 + column * 13) % 50) as f32;
        let mut x = vec![0.0; 150];
        for row in 0..3 {
            for column in 0..50 {
                x[row * strides[0] + column * strides[1]] = at(row, column);
            }
        }
        let expected: Vec<f32> =
            (0..3).map(|row| (0..50).map(|column| at(row, column) - 49.0).sum()).collect();
        assert_eq!(run(&program, &x, 3), expected, "{strides:?}");
    }
}

#[test]
fn few_rows_occupy_all_compute_units() {
    let groups = |rows: usize, length: usize| {
        let mut program = Program {
            dims: vec![rows, length],
            reduced: Some(vec![false, true]),
            parameters: vec![IN, OUT],
            ..Program::default()
        };
        let x = program.push(Origin::Load(access(0, &[length, 1])), Scalar::F32);
        let sum = program.push(Origin::Reduce(Join::Sum, x), Scalar::F32);
        program.stores.push(Store { value: sum, access: access(1, &[1, 0]) });
        let x: Vec<f32> = (0..rows * length).map(|at| (at / length) as f32).collect();
        let expected: Vec<f32> = (0..rows).map(|row| (row * length) as f32).collect();
        assert_eq!(run(&program, &x, rows), expected);
        program.write("it", &target()).unwrap().groups[0]
    };
    // A subgroup has eight threads: four rows of two, or one of eight; a workgroup has 64 of them.
    assert_eq!([(64, 32), (64, 128), (640, 128)].map(|(rows, length)| groups(rows, length)), [16, 64, 80]);
}

#[test]
fn the_sum_of_a_row_does_not_depend_on_how_many_there_are_if_it_must_not() {
    const LENGTH: usize = 700;
    // Of magnitudes so different that each order of additions gives other bits.
    let value = |row: usize, column: usize| {
        let power = 10_f64.powi(((row * 31 + column * 17) % 29) as i32 - 14);
        if column.is_multiple_of(3) { -power } else { power / 3.0 }
    };
    // The interpreter rounds doubles only.
    let double = |parameter, strides: [usize; 3]| Access {
        scalar: Scalar::F64,
        alignment: 8,
        ..access(parameter, &strides)
    };
    let parameter =
        |written: bool| Parameter::Memory { scalar: Scalar::F64, written, alignment: size_of::<f64>() };
    // The sums of items with a row beside each other for each of some columns.
    let sums = |items: usize, columns: usize, is_invariant: bool| {
        let mut program = Program {
            dims: vec![items, LENGTH, columns],
            reduced: Some(vec![false, true, false]),
            parameters: vec![parameter(false), parameter(true)],
            is_invariant,
            ..Program::default()
        };
        // A dimension of one item has no stride.
        let item = |stride| if items == 1 { 0 } else { stride };
        let from = double(0, [item(LENGTH * columns), columns, usize::from(columns > 1)]);
        let x = program.push(Origin::Load(from), Scalar::F64);
        let sum = program.push(Origin::Reduce(Join::Sum, x), Scalar::F64);
        program.stores.push(Store { value: sum, access: double(1, [item(columns), 0, 1]) });
        let x = (0..items * LENGTH * columns).map(|place| value(place / columns, place % columns));
        let mut from: Vec<u8> = x.flat_map(f64::to_le_bytes).collect();
        let mut to = vec![0; 8 * items * columns];
        let written = program.write("it", &target()).unwrap();
        let mut arguments = [Argument::Memory(&mut from), Argument::Memory(&mut to)];
        interpret::run(&written.kernel, written.groups, &mut arguments).unwrap();
        to.truncate(8 * columns);
        to
    };
    for columns in [1, 3] {
        let alone = sums(1, columns, true);
        for items in [2, 7, 65] {
            assert_eq!(sums(items, columns, true), alone, "{items} items, {columns} columns");
        }
    }
    assert_ne!(sums(65, 3, false), sums(1, 3, false));
}

#[test]
fn transposed_elements_are_found_by_their_index() {
    let mut program = Program { dims: vec![4, 5], parameters: vec![IN, OUT], ..Program::default() };
    let x = program.push(Origin::Load(access(0, &[1, 4])), Scalar::F32);
    let row = program.push(Origin::Index(0), Scalar::F32);
    let sum = program.compute(Scalar::F32, &[x, row], |b, x| b.add(x[0], x[1]));
    program.stores.push(Store { value: sum, access: access(1, &[5, 1]) });
    let x: Vec<f32> = (0..20).map(|x| 10.0 * x as f32).collect();
    let expected: Vec<f32> = (0..20).map(|place| x[place / 5 + place % 5 * 4] + (place / 5) as f32).collect();
    assert_eq!(run(&program, &x, 20), expected);
}

#[test]
fn domains_beyond_32_bits_are_refused() {
    let program = Program { dims: vec![1 << 20, 1 << 20], parameters: vec![IN, OUT], ..Program::default() };
    assert!(program.write("it", &target()).unwrap_err().contains("more elements"));
}

/// A softmax of rows, in floats: vectors are read once where a thread can hold its part of a row, else once in each pass.
#[test]
fn rows_are_read_in_vectors_and_held() {
    for (width, expected) in [(1024, (1024 / 4) / 64), (4096, 3), (1023, 3)] {
        let strides = [width, 1];
        let mut program = Program {
            dims: vec![5, width],
            reduced: Some(vec![false, true]),
            parameters: vec![IN, OUT],
            ..Program::default()
        };
        let x = program.push(Origin::Load(access(0, &strides)), Scalar::F32);
        let most = program.push(Origin::Reduce(Join::Greatest, x), Scalar::F32);
        let below = program.compute(Scalar::F32, &[x, most], |b, x| b.sub(x[0], x[1]));
        let power = program.compute(Scalar::F32, &[below], |b, x| b.exp(x[0]));
        let sum = program.push(Origin::Reduce(Join::Sum, power), Scalar::F32);
        let share = program.compute(Scalar::F32, &[power, sum], |b, x| b.div(x[0], x[1]));
        program.stores.push(Store { value: share, access: access(1, &strides) });
        let x: Vec<f32> = (0..5 * width).map(|place| (place * 37 % 101) as f32 / 20.0).collect();
        let got = run(&program, &x, 5 * width);
        for (x, got) in x.chunks(width).zip(got.chunks(width)) {
            let sum: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
            // Each of 64 threads adds its part; then come the sums of the threads, the difference, the power and the quotient.
            let roundings = (width / 64 + 16) as f64;
            let near = |(x, got): (&f32, &f32)| {
                let exact = f64::from(*x).exp() / sum;
                (f64::from(*got) - exact).abs() <= roundings * f64::from(f32::EPSILON) / 2.0 * exact
            };
            assert!(x.iter().zip(got).all(near), "{width}");
        }
        let kernel = program.write("it", &target()).unwrap().kernel;
        let text = format!("{:?}", kernel.body);
        assert_eq!(text.matches("memory: Global(Pointer(0))").count(), expected, "{width}");
    }
}

/// A value of the row that was loaded before anything was reduced is stored once, not by each thread as a vector, which would
/// end behind the last row.
#[test]
fn values_of_rows_are_stored_in_their_places_alone() {
    let (rows, width) = (5, 64);
    let mut program = Program { dims: vec![rows, width], parameters: vec![IN, OUT], ..Program::default() };
    let x = program.push(Origin::Load(access(0, &[width, 1])), Scalar::F32);
    let first = program.push(Origin::Load(access(0, &[width, 0])), Scalar::F32);
    let twice = program.compute(Scalar::F32, &[first], |b, x| b.mul(x[0], 2.0));
    program.reduced = Some(vec![false, true]);
    program.push(Origin::Reduce(Join::Sum, x), Scalar::F32);
    program.stores.push(Store { value: twice, access: access(1, &[1, 0]) });
    let x: Vec<f32> = (0..rows * width).map(|place| (place * 37 % 101) as f32).collect();
    assert_eq!(run(&program, &x, rows), x.chunks(width).map(|row| 2.0 * row[0]).collect::<Vec<_>>());
}
