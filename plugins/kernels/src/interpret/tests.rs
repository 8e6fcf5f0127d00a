use crate::builder::Builder;
use crate::form::{Index, Memory, Order, Role};
use crate::interpret::{Argument, run};
use crate::scalar::Scalar;
use crate::target::Target;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_le_bytes()).collect()
}

fn target() -> Target {
    Target::of("gfx1100").unwrap()
}

#[test]
fn vectors_are_added() {
    let mut b = Builder::new("add", 64, &target());
    let [x, y] = [b.pointer(Scalar::F32), b.pointer(Scalar::F32)];
    let z = b.output(Scalar::F32);
    let [group, thread] = [b.index(Index::Group(0)), b.index(Index::Thread)];
    let first = b.mul(group, 64);
    let place = b.add(first, thread);
    let inside = b.less(place, 100);
    b.when(inside, |b| {
        let [p, q] = [b.load(Memory::Global(x), place), b.load(Memory::Global(y), place)];
        let sum = b.add(p, q);
        b.store(Memory::Global(z), place, sum);
    });
    let numbers: Vec<f32> = (0..100).map(|i| i as f32).collect();
    let (mut x, mut y, mut z) = (bytes(&numbers), bytes(&numbers), vec![0; 400]);
    let kernel = b.finish();
    run(
        &kernel,
        [2, 1, 1],
        &mut [Argument::Memory(&mut x), Argument::Memory(&mut y), Argument::Memory(&mut z)],
    )
    .unwrap();
    assert!(floats(&z).iter().enumerate().all(|(i, z)| *z == 2.0 * i as f32));
}

#[test]
fn missing_barriers_and_bounds_are_errors() {
    for mistake in ["none", "barrier", "bounds", "wait"] {
        let mut b = Builder::new("turn", 64, &target());
        let [x, y] = [b.pointer(Scalar::F32), b.output(Scalar::F32)];
        let shared = b.shared(Scalar::F32, 64);
        let thread = b.index(Index::Thread);
        if mistake == "wait" {
            b.async_copy((shared, thread), (x, thread), 4, None);
            b.async_commit();
        } else {
            let own = b.load(Memory::Global(x), thread);
            b.store(Memory::Shared(shared), thread, own);
        }
        if mistake != "barrier" {
            b.barrier();
        }
        let last = b.int(if mistake == "bounds" { 64 } else { 63 }, Scalar::I32);
        let other = b.sub(last, thread);
        let turned = b.load(Memory::Shared(shared), other);
        b.store(Memory::Global(y), thread, turned);
        let (mut x, mut y) = (bytes(&[1.0; 64]), vec![0; 256]);
        let result = run(&b.finish(), [1, 1, 1], &mut [Argument::Memory(&mut x), Argument::Memory(&mut y)]);
        assert_eq!(result.is_ok(), mistake == "none", "{mistake}: {result:?}");
    }
}

#[test]
fn lanes_exchange_and_loops_end() {
    let mut b = Builder::new("exchange", 32, &target());
    let y = b.output(Scalar::F32);
    let thread = b.index(Index::Thread);
    let total = b.local(Scalar::F32, 0.0);
    b.for_range(0, 10, 3, |b, i| {
        let i = b.convert(i, Scalar::F32);
        let before = b.get(total);
        let sum = b.add(before, i);
        b.set(total, sum);
    });
    let own = b.get(total);
    let lane = b.convert(thread, Scalar::F32);
    let swapped = b.shuffle_xor(lane, 1);
    let out = b.add(own, swapped);
    b.store(Memory::Global(y), thread, out);
    let mut y = vec![0; 128];
    run(&b.finish(), [1, 1, 1], &mut [Argument::Memory(&mut y)]).unwrap();
    let expected: Vec<f32> = (0..32).map(|i| 18.0 + (i ^ 1) as f32).collect();
    assert_eq!(floats(&y), expected);
}

/// A product of one tile, with each shape of each target, read from its slots as from memory.
#[test]
fn tiles_multiply_on_every_target() {
    for architecture in ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200", "sm_90"] {
        let target = Target::of(architecture).unwrap();
        for shape in target.shapes.iter().filter(|shape| shape.sum == Scalar::F32) {
            let [m, n, k] = [shape.m as usize, shape.n as usize, shape.k as usize];
            let mut b = Builder::new("tile", target.subgroup, &target);
            let [x, y] = [b.pointer(shape.operand), b.pointer(shape.operand)];
            let z = b.output(Scalar::F32);
            let [left, right] = [b.tile(Role::A, shape), b.tile(Role::B, shape)];
            let sum = b.sums(shape);
            let at = |b: &mut Builder, memory, stride, order| crate::builder::At {
                memory,
                index: b.number(0),
                stride: b.number(stride),
                order,
                aligned: 1,
            };
            let place = at(&mut b, Memory::Global(x), m, Order::Columns);
            b.tile_load(left, place);
            let place = at(&mut b, Memory::Global(y), n, Order::Rows);
            b.tile_load(right, place);
            b.tile_multiply(sum, left, right);
            b.tile_map(sum, |b, element| b.mul(element, 2.0));
            let fragment = b.fragment(sum).unwrap().clone();
            let lane = b.index(Index::Lane);
            let [row, column] = [b.lane_part(lane, fragment.row), b.lane_part(lane, fragment.column)];
            for (slot, (down, right)) in fragment.slots.iter().enumerate() {
                let element = b.tile_get(sum, slot);
                let [row, column] = [b.add(row, *down), b.add(column, *right)];
                let first = b.mul(row, n);
                let place = b.add(first, column);
                b.store(Memory::Global(z), place, element);
            }
            let encoded = |count: usize, seed: usize| -> (Vec<u8>, Vec<f64>) {
                let numbers: Vec<f64> = (0..count).map(|i| ((i * seed) % 7) as f64 - 3.0).collect();
                let cells = numbers.iter().flat_map(|number| {
                    super::encode(number.to_bits(), shape.operand).into_iter().take(shape.operand.size())
                });
                (cells.collect(), numbers)
            };
            let ((mut x, a), (mut y, w)) = (encoded(m * k, 5), encoded(k * n, 3));
            let mut z = vec![0; 4 * m * n];
            let kernel = b.finish();
            let mut arguments =
                [Argument::Memory(&mut x), Argument::Memory(&mut y), Argument::Memory(&mut z)];
            run(&kernel, [1, 1, 1], &mut arguments).unwrap();
            for (i, z) in floats(&z).iter().enumerate() {
                let expected: f64 = (0..k).map(|j| a[j * m + i / n] * w[j * n + i % n]).sum();
                assert_eq!(f64::from(*z), 2.0 * expected, "{architecture} {shape:?} {i}");
            }
            // Both printers accept it.
            let source = crate::print::c::kernel(&kernel, target.language);
            assert!(source.contains("t2"), "{source}");
        }
    }
}
