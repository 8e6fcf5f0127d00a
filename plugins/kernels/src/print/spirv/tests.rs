use std::io::Write;
use std::process::{Command, Stdio};

use super::*;
use crate::Builder;
use crate::form::{Binary, Comparison, Constant, Index, Instruction, Memory, Role, Unary};
use crate::product::parts::{Adder, Parts};
use crate::product::plan::{Plan, Sharing, Work};
use crate::product::{Matrix, Product, write_as};
use crate::target::{CooperativeShape, Target, VulkanDevice};

const ALL: Features = Features {
    shader_float64: true,
    shader_float16: true,
    shader_int16: true,
    shader_int8: true,
    storage_16_bit: true,
    storage_8_bit: true,
    signed_zero_inf_nan_preserve_float32: true,
    shader_rounding_mode_rte_float16: true,
    shader_denorm_preserve_float16: true,
    cooperative_matrix: true,
    shader_bfloat16_cooperative_matrix: true,
    shader_bfloat16_type: false,
    max_push_constants_size: 128,
};

fn target() -> Target {
    let name = "a device".to_owned();
    VulkanDevice { name, subgroup: 32, shared: 32 << 10, threads: 1024, units: 0, shapes: Vec::new() }.into()
}

/// Whether `spirv-val` knows cooperative matrices: from 2023.4 on, matrices of bfloat16 from 2025.2 on.
fn knows(what: &str) -> bool {
    let said = Command::new("spirv-val").arg("--version").output();
    let text = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let version = text.split_once("SPIRV-Tools v").map_or("", |(_, version)| version);
    version.split_whitespace().next().unwrap_or_default() >= what
}

/// What `spirv-val` says of a module; nothing where it is not installed.
fn validate(words: &[u32]) -> Result<(), String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let started = Command::new("spirv-val")
        .args(["--target-env", "vulkan1.2", "--scalar-block-layout", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else { return Ok(()) };
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let said = child.wait_with_output().unwrap();
    if said.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said.stderr).into_owned()) }
}

fn check(kernel: &Kernel) -> Spirv {
    let printed = print(kernel, &ALL).unwrap();
    if let Err(message) = validate(&printed.words) {
        panic!("{message}\n{kernel:?}");
    }
    printed
}

const SCALARS: [Scalar; 11] = [
    Scalar::F16,
    Scalar::Bf16,
    Scalar::F32,
    Scalar::F64,
    Scalar::Fp8E4m3,
    Scalar::Fp8E5m2,
    Scalar::I8,
    Scalar::U8,
    Scalar::I32,
    Scalar::I64,
    Scalar::Bool,
];

#[test]
fn every_conversion_between_memory_and_memory_is_valid() {
    for from in SCALARS {
        for to in SCALARS {
            for lanes in [1, 2, 4] {
                let mut b = Builder::new("convert", 64, &target());
                let [x, y] = [b.pointer(from), b.output(to)];
                let thread = b.index(Index::Thread);
                let place = b.mul(thread, lanes);
                let own = b.load_vector(Memory::Global(x), place, lanes);
                let made = b.convert(own, to);
                b.store(Memory::Global(y), place, made);
                check(&b.finish());
            }
        }
    }
}

#[test]
fn every_function_is_valid() {
    use Unary as U;
    let real = [
        U::Neg,
        U::Abs,
        U::Exp,
        U::Exp2,
        U::Log,
        U::Sqrt,
        U::Rsqrt,
        U::Reciprocal,
        U::Tanh,
        U::Erf,
        U::Sin,
        U::Cos,
        U::Floor,
        U::Ceil,
    ];
    for (scalar, functions) in [
        (Scalar::F32, &real[..]),
        (Scalar::F64, &real),
        (Scalar::I32, &[U::Neg, U::Abs, U::Not]),
        (Scalar::I64, &[U::Neg]),
    ] {
        for function in functions {
            let mut b = Builder::new("function", 64, &target());
            let [x, y] = [b.pointer(scalar), b.output(scalar)];
            let thread = b.index(Index::Thread);
            let own = b.load(Memory::Global(x), thread);
            let made = b.unary(*function, own);
            b.store(Memory::Global(y), thread, made);
            check(&b.finish());
        }
    }
    use Binary as B;
    let real = [B::Add, B::Sub, B::Mul, B::Div, B::Min, B::Max, B::MinNumber, B::MaxNumber, B::Pow];
    let whole =
        [B::Add, B::Sub, B::Mul, B::Div, B::Rem, B::Min, B::Max, B::And, B::Or, B::Xor, B::Shl, B::Shr];
    for (scalar, functions) in
        [(Scalar::F32, &real[..]), (Scalar::F64, &real), (Scalar::I32, &whole), (Scalar::I64, &whole)]
    {
        for function in functions {
            let mut b = Builder::new("function", 64, &target());
            let [x, y] = [b.pointer(scalar), b.output(scalar)];
            let thread = b.index(Index::Thread);
            let own = b.load(Memory::Global(x), thread);
            let made = b.binary(*function, own, own);
            let less = b.compare(Comparison::Less, made, own);
            let chosen = b.select(less, made, own);
            b.store(Memory::Global(y), thread, chosen);
            check(&b.finish());
        }
    }
}

/// A kernel with a loop, a branch, shared memory, subgroups, locals and a passed number.
fn mixed(parameters: usize) -> Kernel {
    let mut b = Builder::new("mixed", 64, &target());
    let [x, y] = [b.pointer(Scalar::F16), b.output(Scalar::F32)];
    for _ in 2..parameters {
        b.pointer(Scalar::F32);
    }
    let number = b.passed(Scalar::F64);
    let shared = b.shared(Scalar::F32, 64);
    let halves = b.shared(Scalar::F16, 64);
    let thread = b.index(Index::Thread);
    let sum = b.local(Scalar::F32, 0.0);
    b.for_range(0, 10, 1, |b, i| {
        let row = b.mul(i, 64);
        let place = b.add(row, thread);
        let own = b.load(Memory::Global(x), place);
        b.store(Memory::Shared(halves), thread, own);
        let own = b.convert(own, Scalar::F32);
        let so_far = b.get(sum);
        let more = b.add(so_far, own);
        b.set(sum, more);
    });
    let own = b.get(sum);
    let other = b.shuffle_xor(own, 1);
    b.store(Memory::Shared(shared), thread, other);
    b.barrier();
    let first = b.less(thread, 1);
    b.if_else(
        first,
        |b| {
            let zero = b.number(0);
            let own = b.load(Memory::Shared(shared), zero);
            let factor = b.convert(number, Scalar::F32);
            let scaled = b.mul(own, factor);
            b.store(Memory::Global(y), zero, scaled);
        },
        |_| {},
    );
    b.finish()
}

#[test]
fn flow_shared_memory_and_subgroups_are_valid() {
    let printed = check(&mixed(2));
    assert_eq!((printed.push_bytes, printed.is_indirect, printed.has_float_numbers), (24, false, false));
    let printed = check(&mixed(40));
    assert_eq!((printed.push_bytes, printed.is_indirect), (8, true));
}

#[test]
fn what_a_device_lacks_is_named() {
    let mut b = Builder::new("half", 64, &target());
    let [x, y] = [b.pointer(Scalar::F16), b.output(Scalar::F64)];
    let thread = b.index(Index::Thread);
    let own = b.load(Memory::Global(x), thread);
    let own = b.convert(own, Scalar::F64);
    b.store(Memory::Global(y), thread, own);
    let kernel = b.finish();
    let refused = |features| print(&kernel, &features).unwrap_err();
    assert!(refused(Features { storage_16_bit: false, ..ALL }).contains("storageBuffer16BitAccess"));
    assert!(refused(Features { shader_float64: false, ..ALL }).contains("shaderFloat64"));
}

#[test]
fn a_number_needs_no_doubles() {
    let features = Features { shader_float64: false, ..ALL };
    let printed = print(&mixed(2), &features).unwrap();
    validate(&printed.words).unwrap();
    assert!(printed.has_float_numbers);
}

#[test]
fn constants_have_the_bits_of_their_type() {
    let mut b = Builder::new("constants", 1, &target());
    let y = b.output(Scalar::F16);
    let one = b.float(1.5, Scalar::F16);
    let zero = b.number(0);
    b.store(Memory::Global(y), zero, one);
    let kernel = b.finish();
    assert!(matches!(kernel.body.first(), Some(Instruction::Const { constant: Constant::Float(_), .. })));
    let words = check(&kernel).words;
    assert!(words.contains(&0x3e00), "the bits of 1.5 as a half");
}

/// A product of operands of a type, row by row or column by column.
fn product(scalar: Scalar, size: usize, by_columns: [bool; 2]) -> Product {
    let matrix = |scalar, by_columns| {
        let (row, column) = if by_columns { (1, size) } else { (size, 1) };
        Matrix { scalar, row, column, batch: Vec::new(), alignment: 16 }
    };
    let [a, b] = by_columns.map(|by_columns| matrix(scalar, by_columns));
    let c = matrix(if scalar.is_float() { scalar } else { Scalar::I32 }, false);
    Product { m: size, n: size, k: size, batch: Vec::new(), a, b, c, epilogue: None }
}

#[test]
fn products_of_cooperative_matrices_are_valid() {
    use Scalar::{Bf16, F16, F32, I8, I32, U8};
    let shapes = [
        (32, [16, 16, 16], F16, F32),
        (8, [8, 8, 8], F16, F32),
        (32, [16, 16, 16], Bf16, F32),
        (64, [16, 16, 32], I8, I32),
        (32, [16, 8, 32], U8, I32),
    ];
    for (subgroup, [m, n, k], operand, sum) in shapes {
        let shapes = vec![CooperativeShape { m, n, k, operand, sum, fragments: None }];
        let name = "matrices".to_owned();
        let device = VulkanDevice { name, subgroup, shared: 48 << 10, threads: 1024, units: 0, shapes };
        let target: Target = device.into();
        // Sizes with and without vectors of 16 bytes, and with shared dot products.
        for (size, parts) in [(512, 1), (33, 1), (1024, 4)] {
            for by_columns in [[false, false], [true, false], [false, true]] {
                let product = product(operand, size, by_columns);
                let (m, n, k, sharing) = (size, size, size, Sharing::Never);
                let work = Work { m, n, k, batch: 1, operand, gathered: false, sharing };
                let Plan { tiling, .. } = Plan::of(&target, &work);
                let plan = Plan { parts: Parts::of(k, tiling.depth, parts), tiling };
                let kernel =
                    write_as(&product, &target, "product", &plan).unwrap().all.remove(0).launch.kernel;
                let refused = print(&kernel, &Features { cooperative_matrix: false, ..ALL }).unwrap_err();
                assert!(refused.contains("cooperativeMatrix"), "{refused}");
                let printed = print(&kernel, &ALL).unwrap();
                assert_eq!(printed.subgroup, Some(subgroup));
                let needed = if operand == Bf16 { "2025.2" } else { "2023.4" };
                if let Err(message) = if knows(needed) { validate(&printed.words) } else { Ok(()) } {
                    panic!("{operand:?} {size} {by_columns:?}: {message}");
                }
            }
        }
    }
}

#[test]
fn parts_that_a_workgroup_adds_are_valid() {
    let target = target();
    for (operand, k) in [(Scalar::F32, 512), (Scalar::F16, 330), (Scalar::F64, 330)] {
        let product = product(operand, k, [false, false]);
        let work = Work { m: k, n: k, k, batch: 1, operand, gathered: false, sharing: Sharing::Never };
        let Plan { tiling, .. } = Plan::of(&target, &work);
        let parts = Parts { adder: Adder::Workgroup, ..Parts::of(k, tiling.depth, 3) };
        let launches = write_as(&product, &target, "product", &Plan { tiling, parts }).unwrap();
        assert_eq!((launches.all.len(), launches.all[0].launch.kernel.parts), (1, 3), "{operand:?}");
        check(&launches.all[0].launch.kernel);
    }
}

/// A device with the fragments of `mma.sync`, as drivers of NVIDIA have them.
fn with_fragments(operand: Scalar) -> Target {
    let fragments = Target::of("sm_90").unwrap().shape(operand).unwrap().fragments.clone();
    let shapes = vec![CooperativeShape { m: 16, n: 16, k: 16, operand, sum: Scalar::F32, fragments }];
    let name = "matrices".to_owned();
    VulkanDevice { name, subgroup: 32, shared: 48 << 10, threads: 1024, units: 0, shapes }.into()
}

#[test]
fn attention_on_cooperative_matrices_is_valid() {
    for operand in [Scalar::F16, Scalar::Bf16] {
        for depth in [64, 128, 256] {
            let own = crate::attention::tests::attention(operand, [200, 200, depth, depth]);
            let kernel = crate::attention::write(&own, &with_fragments(operand), "attention").unwrap().kernel;
            for shader_bfloat16_type in [false, true] {
                let printed = print(&kernel, &Features { shader_bfloat16_type, ..ALL }).unwrap();
                assert_eq!(printed.subgroup, Some(32), "{operand:?} {depth}");
                let needed = if operand == Scalar::Bf16 { "2025.2" } else { "2023.4" };
                if let Err(message) = if knows(needed) { validate(&printed.words) } else { Ok(()) } {
                    panic!("{operand:?} {depth} {shader_bfloat16_type}: {message}");
                }
            }
        }
    }
}

#[test]
fn kernels_that_share_keys_are_valid() {
    let name = "plain".to_owned();
    let plain =
        VulkanDevice { name, subgroup: 32, shared: 48 << 10, threads: 1024, units: 0, shapes: Vec::new() };
    for (operand, target) in [(Scalar::F32, plain.into()), (Scalar::F16, with_fragments(Scalar::F16))] {
        let own = crate::attention::tests::attention(operand, [2, 4096, 64, 64]);
        let parts = crate::attention::parts::count(&own, &target);
        assert!(parts > 1, "{parts}");
        let shared = crate::attention::parts::write(&own, &target, "attention", parts).unwrap();
        for launch in [shared.first, shared.second] {
            let printed = print(&launch.kernel, &ALL).unwrap();
            if let Err(message) = if knows("2023.4") { validate(&printed.words) } else { Ok(()) } {
                panic!("{}: {message}", launch.kernel.name);
            }
        }
    }
}

#[test]
fn every_element_of_a_cooperative_matrix_is_reached() {
    for operand in [Scalar::F16, Scalar::Bf16] {
        let target = with_fragments(operand);
        let shape = target.shape(operand).unwrap();
        for role in [Role::A, Role::Accumulator] {
            let mut b = Builder::new("elements", 32, &target);
            let y = b.output(Scalar::F32);
            let tile = b.tile(role, shape);
            b.tile_fill(tile, 1.0);
            let first = b.tile_get(tile, 0);
            b.tile_set(tile, 1, first);
            b.tile_map(tile, |b, element| {
                let zero = b.number(0);
                let number = b.convert(element, Scalar::F32);
                b.store(Memory::Global(y), zero, number);
                element
            });
            let printed = print(&b.finish(), &ALL).unwrap();
            let needed = if operand == Scalar::Bf16 { "2025.2" } else { "2023.4" };
            if let Err(message) = if knows(needed) { validate(&printed.words) } else { Ok(()) } {
                panic!("{operand:?} {role:?}: {message}");
            }
        }
    }
}

/// A kernel that doubles vectors of a type in float.
fn doubled(scalar: Scalar) -> Kernel {
    doubled_by(scalar, 8)
}

fn doubled_by(scalar: Scalar, lanes: usize) -> Kernel {
    let mut b = Builder::new("halves", 64, &target());
    let [x, y] = [b.pointer(scalar), b.output(scalar)];
    let thread = b.index(Index::Thread);
    let place = b.mul(thread, lanes);
    let own = b.load_vector(Memory::Global(x), place, lanes);
    let parts: Vec<_> = (0..lanes)
        .map(|lane| {
            let half = b.extract(own, lane);
            let wide = b.convert(half, Scalar::F32);
            let twice = b.mul(wide, 2.0);
            b.convert(twice, scalar)
        })
        .collect();
    let all = b.build(&parts);
    b.store(Memory::Global(y), place, all);
    b.finish()
}

fn count(kernel: &Kernel, features: &Features, op: Op) -> usize {
    let module = rspirv::dr::load_words(print(kernel, features).unwrap().words).unwrap();
    module.all_inst_iter().filter(|instruction| instruction.class.opcode == op).count()
}

#[test]
fn pairs_of_halves_are_rounded_at_once() {
    let kernel = doubled(Scalar::F16);
    check(&kernel);
    assert_eq!(count(&kernel, &ALL, Op::FConvert), 4);
    let without = Features { shader_rounding_mode_rte_float16: false, ..ALL };
    assert_eq!(count(&kernel, &without, Op::FConvert), 0);
}

#[test]
fn pairs_of_bfloats_are_joined_as_they_are_rounded() {
    let kernel = doubled(Scalar::Bf16);
    check(&kernel);
    assert_eq!(count(&kernel, &ALL, Op::BitwiseOr), 4);
    assert_eq!(count(&kernel, &ALL, Op::BitFieldInsert), 0);
}

#[test]
fn pairs_of_bfloats_are_rounded_at_once_where_the_device_has_the_type() {
    let with = Features { shader_bfloat16_type: true, ..ALL };
    for lanes in [1, 8] {
        let kernel = doubled_by(Scalar::Bf16, lanes);
        if knows("2025.2") {
            validate(&print(&kernel, &with).unwrap().words).unwrap();
        }
        assert_eq!(count(&kernel, &with, Op::FConvert), lanes.div_ceil(2));
        assert_eq!(count(&kernel, &with, Op::Select), 0);
    }
}

#[test]
fn a_rounding_between_operations_is_not_left_to_conversions() {
    for (scalar, lanes) in [(Scalar::F16, 1), (Scalar::F16, 8), (Scalar::Bf16, 1), (Scalar::Bf16, 8)] {
        let mut b = Builder::new("rounded", 64, &target());
        let [x, y] = [b.pointer(Scalar::F32), b.output(Scalar::F32)];
        let place = b.number(0);
        let own = b.load_vector(Memory::Global(x), place, lanes);
        let half = b.convert(own, scalar);
        let back = b.convert(half, Scalar::F32);
        b.store(Memory::Global(y), place, back);
        let kernel = b.finish();
        let features = Features { shader_bfloat16_type: knows("2025.2"), ..ALL };
        validate(&print(&kernel, &features).unwrap().words).unwrap();
        let module = rspirv::dr::load_words(print(&kernel, &features).unwrap().words).unwrap();
        let unpacks = |instruction: &&rspirv::dr::Instruction| {
            let op = Operand::LiteralExtInstInteger(rspirv::spirv::GlslStd450Op::UnpackHalf2x16 as u32);
            instruction.operands.contains(&op)
        };
        assert_eq!(module.all_inst_iter().filter(unpacks).count(), 0, "{scalar:?} {lanes}");
        let rounds = if scalar == Scalar::F16 { Op::FSub } else { Op::BitFieldUExtract };
        assert_eq!(count(&kernel, &features, rounds), lanes, "{scalar:?}");
    }
}
