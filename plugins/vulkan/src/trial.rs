//! A test of a matrix shape: a product of small whole numbers on the device, which is exact.

use hipdnn_kernels::builder::At;
use hipdnn_kernels::form::{Index, Kernel, Memory, Order, Role};
use hipdnn_kernels::print::spirv::{self, Features};
use hipdnn_kernels::target::CooperativeShape;
use hipdnn_kernels::{Builder, Scalar, Target};
use hipdnn_plugin_sdk::PluginError;

use crate::buffer::Buffer;
use crate::gpu::Gpu;
use crate::pipeline::Pipeline;
use crate::staging::Block;
use crate::target::{features, target};

/// Multiplies matrices of a shape, in both orders of memory.
///
/// # Errors
/// The driver's, or which element is wrong.
pub fn run(gpu: &Gpu, shape: &CooperativeShape) -> Result<(), PluginError> {
    [Order::Rows, Order::Columns].into_iter().try_for_each(|order| multiply(gpu, shape, order))
}

/// Elements of the largest vector that a number of them is a multiple of.
pub fn vector(count: usize, scalar: Scalar) -> usize {
    let most = 16 / scalar.size();
    most.min(1 << count.trailing_zeros())
}

/// Copies elements by the threads of a subgroup. In vectors, as kernels have them: they decide what shared arrays consist of.
pub fn copy(b: &mut Builder, count: usize, [from, to]: [Memory; 2], scalar: Scalar) {
    let (lane, lanes) = (b.index(Index::Lane), b.target().subgroup as usize);
    let vector = vector(count, scalar);
    for round in 0..(count / vector).div_ceil(lanes) {
        let place = b.add(lane, round * lanes);
        let inside = b.less(place, count / vector);
        b.when(inside, |b| {
            let place = b.mul(place, vector);
            let elements = b.load_vector(from, place, vector);
            b.store(to, place, elements);
        });
    }
}

/// The kernel: c = 2 · a · b, with one subgroup.
fn kernel(target: &Target, shape: &CooperativeShape, order: Order) -> Result<Kernel, PluginError> {
    let matrix = target.shape(shape.operand).cloned();
    let matrix = matrix.ok_or_else(|| PluginError::internal("a target without the shape that is tested"))?;
    let mut b = Builder::new("matrices", target.subgroup, target);
    let [m, n, k] = [shape.m, shape.n, shape.k].map(|size| size as usize);
    let from = [b.pointer(shape.operand), b.pointer(shape.operand)];
    let to = b.output(shape.sum);
    let held = [b.shared(shape.operand, m * k), b.shared(shape.operand, k * n)];
    let result = b.shared(shape.sum, m * n);
    for ((from, to), count) in from.into_iter().zip(held).zip([m * k, k * n]) {
        copy(&mut b, count, [Memory::Global(from), Memory::Shared(to)], shape.operand);
    }
    b.barrier();
    let at = |b: &mut Builder, shared, [rows, columns]: [usize; 2], scalar| {
        let stride = if order == Order::Rows { columns } else { rows };
        let aligned = vector(stride, scalar);
        At { memory: Memory::Shared(shared), index: b.number(0), stride: b.number(stride), order, aligned }
    };
    let [left, right] = [Role::A, Role::B].map(|role| b.tile(role, &matrix));
    let sum = b.sums(&matrix);
    for ((tile, shared), dims) in [left, right].into_iter().zip(held).zip([[m, k], [k, n]]) {
        let place = at(&mut b, shared, dims, shape.operand);
        b.tile_load(tile, place);
    }
    b.tile_multiply(sum, left, right);
    b.tile_multiply(sum, left, right);
    let place = at(&mut b, result, [m, n], shape.sum);
    b.tile_store(sum, place);
    b.barrier();
    copy(&mut b, m * n, [Memory::Shared(result), Memory::Global(to)], shape.sum);
    Ok(b.finish())
}

/// Small numbers without a pattern; not negative for types without a sign.
fn number(place: usize, scalar: Scalar) -> i32 {
    let mixed = (place as u32).wrapping_mul(0x9e37_79b9) >> 28;
    let number = mixed.cast_signed();
    if scalar == Scalar::U8 { number } else { number - 7 }
}

/// A whole number as the bytes of a type.
pub fn encoded(number: i32, scalar: Scalar) -> Vec<u8> {
    match scalar {
        Scalar::F16 => half::f16::from_f32(number as f32).to_le_bytes().to_vec(),
        Scalar::Bf16 => half::bf16::from_f32(number as f32).to_le_bytes().to_vec(),
        Scalar::F32 => (number as f32).to_le_bytes().to_vec(),
        // Its lower 8 bits.
        _ => vec![number as u8],
    }
}

fn multiply(gpu: &Gpu, shape: &CooperativeShape, order: Order) -> Result<(), PluginError> {
    let kernel = kernel(&target(&gpu.device.properties, vec![shape.clone()]), shape, order)?;
    let [m, n, k] = [shape.m, shape.n, shape.k].map(|size| size as usize);
    let numbers = [m * k, k * n].map(|count| {
        let first = if count == m * k { 0 } else { 1 << 10 };
        (0..count).map(|place| number(first + place, shape.operand)).collect::<Vec<i32>>()
    });
    let operands = numbers.each_ref().map(|numbers| -> Vec<u8> {
        numbers.iter().flat_map(|number| encoded(*number, shape.operand)).collect()
    });
    let cells = execute(gpu, &kernel, &operands, m * n)?;
    let [a, b] = &numbers;
    for row in 0..m {
        for column in 0..n {
            let of = |numbers: &[i32], [far, near]: [usize; 2], [rows, columns]: [usize; 2]| {
                let place = if order == Order::Rows { far * columns + near } else { near * rows + far };
                numbers.get(place).copied().unwrap_or_default()
            };
            let expected: i32 =
                (0..k).map(|i| 2 * of(a, [row, i], [m, k]) * of(b, [i, column], [k, n])).sum();
            let place = if order == Order::Rows { row * n + column } else { column * m + row };
            let bits = cells.get(place).copied().unwrap_or_default();
            let got = if shape.sum == Scalar::F32 { f32::from_bits(bits) } else { bits.cast_signed() as f32 };
            if got != expected as f32 {
                return Err(PluginError::internal(format!(
                    "a product of matrices, {order:?}, has {got} at row {row} and column {column}, expected {expected}"
                )));
            }
        }
    }
    Ok(())
}

/// Runs a kernel as [`execute_with`], with features that need no test.
///
/// # Errors
/// The driver's.
pub fn execute(gpu: &Gpu, kernel: &Kernel, read: &[Vec<u8>], count: usize) -> Result<Vec<u32>, PluginError> {
    execute_with(gpu, &features(&gpu.device.properties), kernel, read, count)
}

/// Runs a kernel of one workgroup on memory with these bytes and gives its last parameter, so many numbers of 32 bits. Those that it does
/// not write have all bits set.
///
/// # Errors
/// The driver's.
pub fn execute_with(
    gpu: &Gpu,
    features: &Features,
    kernel: &Kernel,
    read: &[Vec<u8>],
    count: usize,
) -> Result<Vec<u32>, PluginError> {
    let module = spirv::print(kernel, features).map_err(PluginError::internal)?;
    // SAFETY: the printer writes valid modules, with the features that the device has.
    let pipeline = unsafe { Pipeline::new(&gpu.device, &module) }?;
    let mut blocks = Vec::new();
    for bytes in read {
        blocks.push(written(gpu, bytes)?);
    }
    blocks.push(written(gpu, &vec![0xff; 4 * count])?);
    let addresses: Vec<u8> = blocks.iter().flat_map(|block| block.device.address.to_le_bytes()).collect();
    let copy = |recorder: &crate::work::Recorder<'_>, block: &Block, to_device: bool| {
        if let Some(host) = block.staged() {
            let sides: [&Buffer; 2] = if to_device { [host, &block.device] } else { [&block.device, host] };
            recorder.copy(sides[0], 0, sides[1], 0, host.bytes);
        }
    };
    let time = gpu.queue.submit(|recorder| {
        blocks.iter().for_each(|block| copy(recorder, block, true));
        recorder.then();
        recorder.launch(&pipeline, [1, 1, 1], &addresses);
        recorder.then();
        blocks.iter().for_each(|block| copy(recorder, block, false));
    })?;
    gpu.queue.wait(time)?;
    let result = blocks.last().ok_or_else(|| PluginError::internal("no result"))?;
    let cells = result.mapped()?.cast::<u32>();
    // SAFETY: the block has as many numbers of 32 bits, and no work uses it any more.
    let cells = (0..count).map(|place| unsafe { cells.add(place).read() }).collect();
    for block in blocks {
        gpu.give_back(block, time)?;
    }
    Ok(cells)
}

/// Memory with these bytes.
fn written(gpu: &Gpu, bytes: &[u8]) -> Result<Block, PluginError> {
    let block = gpu.block(bytes.len() as u64)?;
    // SAFETY: the block has as many bytes, and no work uses it yet.
    unsafe { block.mapped()?.copy_from_nonoverlapping(std::ptr::NonNull::from(bytes).cast(), bytes.len()) };
    Ok(block)
}
