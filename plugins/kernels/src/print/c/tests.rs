use super::preamble;
use crate::builder::{At, Builder};
use crate::form::{Index, Instruction, Memory, Order, Role, Unary};
use crate::scalar::Scalar;
use crate::target::{Language, Target};

/// A kernel with every instruction, and tiles of every shape that the target has.
pub(crate) fn everything(target: &Target) -> crate::Kernel {
    let mut b = Builder::new("everything", 2 * target.subgroup, target);
    let [x, y] = [b.output(Scalar::F32), b.output(Scalar::F16)];
    let passed = b.passed(Scalar::F64);
    let shared = b.shared(Scalar::F32, 256);
    let thread = b.index(Index::Thread);
    let group = b.index(Index::Group(1));
    let lane = b.index(Index::Lane);
    let wave = b.index(Index::Subgroup);
    let place = b.add(thread, group);
    let place = b.add(place, wave);
    let own = b.load(Memory::Global(x), place);
    for op in [Unary::Exp2, Unary::Erf, Unary::Neg, Unary::Rsqrt, Unary::Tanh] {
        let r = b.unary(op, own);
        b.store(Memory::Global(x), place, r);
    }
    let quad = b.mul(thread, 4);
    let four = b.load_vector(Memory::Global(x), quad, 4);
    let halves = b.convert(four, Scalar::F16);
    b.store(Memory::Global(y), quad, halves);
    for scalar in
        [Scalar::Bf16, Scalar::Fp8E4m3, Scalar::Fp8E5m2, Scalar::I8, Scalar::I64, Scalar::F64, Scalar::Bool]
    {
        let there = b.convert(own, scalar);
        let back = b.convert(there, Scalar::F32);
        b.store(Memory::Shared(shared), thread, back);
    }
    b.async_copy((shared, quad), (x, quad), 16, None);
    b.async_commit();
    b.async_wait(0);
    b.barrier();
    let scale = b.convert(passed, Scalar::F32);
    let total = b.local(Scalar::F32, scale);
    b.for_range(0, 4, 1, |b, i| {
        let t = b.get(total);
        let i = b.convert(i, Scalar::F32);
        let sum = b.fma(t, i, 1.5);
        b.set(total, sum);
    });
    let t = b.get(total);
    let swapped = b.shuffle_xor(t, 16);
    let halves = b.convert(swapped, Scalar::F16);
    let other = b.shuffle(halves, lane);
    b.store(Memory::Global(y), place, other);
    for shape in &target.shapes.clone() {
        let memory = Memory::Global(b.output(shape.operand));
        let array = b.shared(shape.operand, 2048);
        let out = Memory::Global(b.output(shape.sum));
        let at = |b: &mut Builder, memory, order| At {
            memory,
            index: b.number(0),
            stride: b.number(16),
            order,
            aligned: 16,
        };
        let tiles = [b.tile(Role::A, shape), b.tile(Role::B, shape)];
        let sum = b.sums(shape);
        for order in [Order::Rows, Order::Columns] {
            for from in [memory, Memory::Shared(array)] {
                for tile in tiles {
                    let place = at(&mut b, from, order);
                    b.tile_load(tile, place);
                }
                b.tile_multiply(sum, tiles[0], tiles[1]);
            }
        }
        b.tile_map(sum, |b, element| b.add(element, 1));
        let first = b.tile_get(sum, 0);
        b.tile_set(sum, 1, first);
        let element = b.tile_get(tiles[0], 0);
        b.tile_set(tiles[1], 0, element);
        let place = at(&mut b, out, Order::Rows);
        b.tile_store(sum, place);
        let place = at(&mut b, memory, Order::Columns);
        b.tile_store(tiles[0], place);
    }
    b.finish()
}

#[test]
fn every_instruction_is_printed() {
    for architecture in
        ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1200", "sm_75", "sm_90"]
    {
        let target = Target::of(architecture).unwrap();
        let kernel = everything(&target);
        let text = super::kernel(&kernel, target.language);
        let count = |block: &[Instruction]| block.len();
        assert!(text.lines().count() > count(&kernel.body) / 2, "{text}");
        assert!(text.contains("__global__"), "{text}");
        // Where a folder is named, the sources are left there, for a compiler.
        if let Some(folder) = std::env::var_os("PRINTED_KERNELS") {
            let path = std::path::Path::new(&folder).join(format!("everything-{architecture}.cpp"));
            std::fs::write(path, preamble(target.language) + &text).unwrap();
        }
    }
    assert_ne!(preamble(Language::Hip), preamble(Language::Cuda));
}

/// Compilers may assume that numbers with a sign do not overflow.
#[test]
fn wide_whole_numbers_wrap() {
    for target in ["gfx1100", "sm_90"].map(|name| Target::of(name).unwrap()) {
        let mut b = crate::Builder::new("wide", 1, &target);
        let to = b.output(Scalar::I64);
        let (x, y) = (b.passed(Scalar::I64), b.passed(Scalar::I64));
        let [sum, difference, product] = [b.add(x, y), b.sub(x, y), b.mul(x, y)];
        for (place, value) in [sum, difference, product].into_iter().enumerate() {
            b.store(crate::form::Memory::Global(to), place, value);
        }
        let text = super::kernel(&b.finish(), target.language);
        for sign in ["+", "-", "*"] {
            let wraps = |line: &str| line.contains(&format!(" {sign} (unsigned long long)"));
            assert!(text.lines().any(wraps), "{sign}: {text}");
        }
    }
}
