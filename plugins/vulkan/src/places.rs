//! Where the elements of cooperative matrices are, as a test tells.
//!
//! Vulkan leaves it to the driver which thread holds which element. Kernels that compute on rows of a matrix need to know. So a kernel loads
//! matrices whose elements are the numbers of their rows, and of their columns, and each thread stores what it got.

use ash::vk::SubgroupFeatureFlags;
use hipdnn_kernels::builder::At;
use hipdnn_kernels::form::{Index, Kernel, Memory, Order, Role};
use hipdnn_kernels::target::{CooperativeShape, Fragment};
use hipdnn_kernels::{Builder, Scalar, Target};
use hipdnn_plugin_sdk::PluginError;

use crate::gpu::Gpu;
use crate::target::target;
use crate::trial::{copy, encoded, execute, vector};

const ROLES: [Role; 3] = [Role::A, Role::B, Role::Accumulator];

/// The most slots of a thread.
const SLOTS: usize = 64;

fn dims(shape: &CooperativeShape, role: Role) -> (u32, u32) {
    match role {
        Role::A => (shape.m, shape.k),
        Role::B => (shape.k, shape.n),
        Role::Accumulator => (shape.m, shape.n),
    }
}

fn scalar(shape: &CooperativeShape, role: Role) -> Scalar {
    if role == Role::Accumulator { shape.sum } else { shape.operand }
}

/// The fragments of a shape for kernels that exchange numbers within subgroups; none where kernels cannot, or do not know threads' elements.
///
/// # Errors
/// The driver's.
pub fn find(gpu: &Gpu, shape: &CooperativeShape) -> Result<Option<Box<[Fragment; 3]>>, PluginError> {
    let properties = &gpu.device.properties;
    let shuffles = properties.subgroup_operations.contains(SubgroupFeatureFlags::SHUFFLE);
    let computes = shape.sum == Scalar::F32 && (shape.operand == Scalar::F16 || properties.features.int16);
    if !shuffles || !computes {
        return Ok(None);
    }
    let mut found = Vec::new();
    for role in ROLES {
        let places = places(gpu, shape, role, Order::Rows)?;
        // A driver that chooses places for each kernel would choose others here.
        if places != self::places(gpu, shape, role, Order::Columns)? {
            return Ok(None);
        }
        match Fragment::from_places(&places, dims(shape, role), role == Role::Accumulator) {
            Some(fragment) => found.push(fragment),
            None => return Ok(None),
        }
    }
    Ok(<[Fragment; 3]>::try_from(found).ok().map(Box::new))
}

/// The row and column of each slot of each lane.
fn places(
    gpu: &Gpu,
    shape: &CooperativeShape,
    role: Role,
    order: Order,
) -> Result<Vec<Vec<(u32, u32)>>, PluginError> {
    let lanes = gpu.device.properties.subgroup as usize;
    let (rows, columns) = dims(shape, role);
    let kernel = kernel(&target(&gpu.device.properties, vec![shape.clone()]), shape, role, order)?;
    let numbers = [0, 1].map(|which| -> Vec<u8> {
        let (major, minor) = if order == Order::Rows { (rows, columns) } else { (columns, rows) };
        let all = (0..major).flat_map(|major| (0..minor).map(move |minor| (major, minor)));
        let of = |(major, minor)| {
            let (row, column) = if order == Order::Rows { (major, minor) } else { (minor, major) };
            if which == 0 { row } else { column }
        };
        all.flat_map(|place| encoded(of(place) as i32, scalar(shape, role))).collect()
    });
    let cells = execute(gpu, &kernel, &numbers, 2 * SLOTS * lanes)?;
    let cell = |which: usize, lane: usize, slot: usize| {
        let bits = cells.get((which * SLOTS + slot) * lanes + lane).copied().filter(|bits| *bits != u32::MAX);
        bits.map(|bits| f32::from_bits(bits) as u32)
    };
    let place =
        |lane: usize| (0..SLOTS).map_while(move |slot| Some((cell(0, lane, slot)?, cell(1, lane, slot)?)));
    Ok((0..lanes).map(|lane| place(lane).collect()).collect())
}

/// The kernel: each thread stores its elements of two matrices, slot by slot.
fn kernel(
    target: &Target,
    shape: &CooperativeShape,
    role: Role,
    order: Order,
) -> Result<Kernel, PluginError> {
    let matrix = target.shape(shape.operand).cloned();
    let matrix = matrix.ok_or_else(|| PluginError::internal("a target without the shape that is tested"))?;
    let mut b = Builder::new("places", target.subgroup, target);
    let scalar = scalar(shape, role);
    let (rows, columns) = dims(shape, role);
    let count = (rows * columns) as usize;
    let from = [b.pointer(scalar), b.pointer(scalar)];
    let to = b.output(Scalar::F32);
    let lane = b.index(Index::Lane);
    let lanes = target.subgroup as usize;
    for (which, from) in from.into_iter().enumerate() {
        let held = b.shared(scalar, count);
        copy(&mut b, count, [Memory::Global(from), Memory::Shared(held)], scalar);
        b.barrier();
        let tile = b.tile(role, &matrix);
        let stride = if order == Order::Rows { columns } else { rows };
        let aligned = vector(stride as usize, scalar);
        let (index, stride) = (b.number(0), b.number(stride as usize));
        b.tile_load(tile, At { memory: Memory::Shared(held), index, stride, order, aligned });
        let slot = b.local(Scalar::I32, 0);
        b.tile_map(tile, |b, element| {
            let own = b.get(slot);
            let inside = b.less(own, SLOTS);
            b.when(inside, |b| {
                let line = b.add(own, which * SLOTS);
                let line = b.mul(line, lanes);
                let at = b.add(line, lane);
                let number = b.convert(element, Scalar::F32);
                b.store(Memory::Global(to), at, number);
            });
            let next = b.add(own, 1);
            b.set(slot, next);
            element
        });
    }
    Ok(b.finish())
}
