//! The order in which a kernel's threads iterate over its domain.

#![expect(
    clippy::indexing_slicing,
    reason = "axes run below the rank of the domain, and each walk has strides for every access"
)]

use hipdnn_plugin_planner::layout::MAX_RANK;

use super::strip::Strip;
use super::value::{Access, Place};

/// Maximum number of bytes that a thread loads or stores at once.
const VECTOR: usize = 16;
/// Maximum number of elements of a vector.
const LANES: usize = 8;
/// Threads per workgroup.
const BLOCK: usize = 256;
/// Minimum number of threads of a workgroup with adjacent rows: small workgroups leave few threads idle at
/// the end.
const SHORT_BLOCK: usize = 128;
/// Maximum number of threads of a workgroup.
const LONG_BLOCK: usize = 1024;
/// Minimum number of threads per row, if the row is long enough.
const LEAST: usize = 32;
/// Numbers of threads with adjacent rows, if rows are contiguous in memory: the maximum, and one that reads
/// 32 bytes of float.
const NEIGHBOURS: usize = 64;
const FEW_NEIGHBOURS: usize = 8;
/// Number of 4-byte elements that such a thread reads at once.
const READS: usize = 8;
/// Size of a tile in indices and vectors, if two accesses are contiguous along different dimensions:
/// consecutive threads write 32 contiguous elements of one, and a workgroup reads 8 adjacent vectors of the
/// other.
const TILE: (usize, usize) = (32, 8);
/// Numbers of threads, and of workgroups, that keep a device busy.
pub const MANY: usize = 1 << 16;
const MANY_BLOCKS: usize = 256;

/// Dimensions that are traversed as one linear index, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axes {
    /// Size of each.
    pub dims: Vec<usize>,
    /// For each access its strides along them.
    pub strides: Vec<Vec<usize>>,
}

impl Axes {
    /// These dimensions of the domain in the order of `guide`'s memory; neighbours are merged if that changes
    /// no access.
    fn new(axes: &[usize], dims: &[usize], accesses: &[Access], guide: &[usize; MAX_RANK]) -> Self {
        let mut order: Vec<usize> = axes.iter().copied().filter(|axis| dims[*axis] > 1).collect();
        // Stable, so that dimensions along which the guide is broadcast keep their order.
        order.sort_by_key(|axis| std::cmp::Reverse(guide[*axis]));
        let mut joined = Self { dims: Vec::new(), strides: vec![Vec::new(); accesses.len()] };
        for axis in order {
            let dim = dims[axis];
            let joins = accesses.iter().zip(&joined.strides).all(|(access, strides)| {
                strides.last().is_some_and(|outer| *outer == access.strides[axis] * dim)
            });
            if joins && let Some(last) = joined.dims.last_mut() {
                *last *= dim;
                for (access, strides) in accesses.iter().zip(&mut joined.strides) {
                    if let Some(last) = strides.last_mut() {
                        *last = access.strides[axis];
                    }
                }
            } else {
                joined.dims.push(dim);
                for (access, strides) in accesses.iter().zip(&mut joined.strides) {
                    strides.push(access.strides[axis]);
                }
            }
        }
        joined
    }

    /// The same in tiles, if an access is contiguous along a dimension other than the innermost, which is
    /// vectorized.
    fn tiled(self, accesses: &[Access], lanes: usize) -> Self {
        let Some(inner) = self.dims.len().checked_sub(1) else { return self };
        let other = accesses.iter().zip(&self.strides).find_map(|(access, strides)| {
            let is_across = matches!(access.place, Place::Memory(_)) && strides[inner] > 1;
            strides[..inner].iter().position(|stride| is_across && *stride == 1)
        });
        let Some(other) = other else { return self };
        let width = TILE.1 * lanes;
        if !self.dims[other].is_multiple_of(TILE.0) || !self.dims[inner].is_multiple_of(width) {
            return self;
        }
        let rest: Vec<usize> = (0..inner).filter(|axis| *axis != other).collect();
        let split =
            |of: &[usize], tiles: [usize; 5]| rest.iter().map(|axis| of[*axis]).chain(tiles).collect();
        let tiles = [self.dims[other] / TILE.0, self.dims[inner] / width, TILE.1, TILE.0, lanes];
        let strides = self.strides.iter().map(|of| {
            split(of, [of[other] * TILE.0, of[inner] * width, of[inner] * lanes, of[other], of[inner]])
        });
        Self { dims: split(&self.dims, tiles), strides: strides.collect() }
    }

    /// The number of indices.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// The stride of an access along the innermost dimension, 0 if there are no dimensions.
    pub fn innermost(&self, access: usize) -> usize {
        self.strides[access].last().copied().unwrap_or(0)
    }

    /// Whether an access is the same element for all indices.
    pub fn repeats(&self, access: usize) -> bool {
        self.strides[access].iter().all(|stride| *stride == 0)
    }
}

/// How threads share the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The dimensions that are not reduced; none if nothing is reduced.
    pub rows: Axes,
    /// The other dimensions.
    pub elements: Axes,
    /// Elements that a thread takes at once.
    pub lanes: usize,
    /// Threads per row; without rows, per workgroup.
    pub threads: usize,
    /// Rows per workgroup.
    pub rows_at_once: usize,
    /// Whether adjacent threads process adjacent elements of one row rather than adjacent rows.
    pub along_row: bool,
    /// How often a thread takes `lanes` elements.
    pub rounds: usize,
    /// Whether there are rows.
    pub reduces: bool,
    /// Whether the elements that a thread takes at once are a strip, which lie apart.
    pub strips: bool,
}

impl Walk {
    /// The walk over a domain. With `one_by_one` no thread takes several elements at once. Threads share a row as if there were as many
    /// as `assumed`, if any.
    pub fn for_rows(
        assumed: Option<usize>,
        dims: &[usize],
        reduced: Option<&[bool]>,
        accesses: &[Access],
        one_by_one: bool,
    ) -> Self {
        let all: Vec<usize> = (0..dims.len()).collect();
        let (rows, elements): (Vec<usize>, Vec<usize>) = match reduced {
            None => (Vec::new(), all),
            Some(reduced) => all.into_iter().partition(|axis| !reduced[*axis]),
        };
        // The access that covers most of the domain decides which elements are contiguous.
        let covers = |access: &Access| {
            let covered = (0..dims.len()).filter(|axis| access.strides[*axis] > 0);
            covered.map(|axis| dims[axis]).product::<usize>()
        };
        let memory = accesses.iter().filter(|access| matches!(access.place, Place::Memory(_)));
        let guide = memory.rev().max_by_key(|access| covers(access));
        let size = guide.and_then(|access| access.data_type.size()).unwrap_or(1);
        let guide = guide.map_or([0; MAX_RANK], |access| access.strides);
        let nearest = |axes: &[usize]| {
            let strides = axes.iter().filter(|axis| dims[**axis] > 1).map(|axis| guide[*axis]);
            strides.filter(|stride| *stride > 0).min().unwrap_or(usize::MAX)
        };
        let along_row = nearest(&elements) <= nearest(&rows);
        let rows = Axes::new(&rows, dims, accesses, &guide);
        let elements = Axes::new(&elements, dims, accesses, &guide);
        let lanes = if along_row && !one_by_one { lanes(&rows, &elements, accesses) } else { 1 };
        let reduces = reduced.is_some();
        let elements = if lanes > 1 && !reduces { elements.tiled(accesses, lanes) } else { elements };
        let items = elements.count() / lanes;
        let count = assumed.unwrap_or(rows.count());
        let (threads, rows_at_once) = if !reduces {
            (BLOCK, 1)
        } else if along_row {
            along(count, items)
        } else {
            across(count, items, size)
        };
        let rounds = if reduces { items.div_ceil(threads) } else { 1 };
        Self { rows, elements, lanes, threads, rows_at_once, along_row, rounds, reduces, strips: false }
    }

    /// The walk in strips: the channels of a workgroup outermost, then positions, the channels, and the elements of a strip.
    pub fn in_strips(dims: &[usize], accesses: &[Access], strip: &Strip) -> Self {
        const CHANNEL: usize = 1;
        let position = |axis: usize| {
            let step = if axis == strip.axis { strip.count } else { 1 };
            (axis, dims[axis] / step, step)
        };
        let mut parts = vec![(CHANNEL, dims[CHANNEL] / strip.channels, strip.channels)];
        parts.extend((0..dims.len()).filter(|axis| *axis != CHANNEL).map(position));
        parts.extend([(CHANNEL, strip.channels, 1), (strip.axis, strip.count, 1)]);
        let strides = accesses
            .iter()
            .map(|access| parts.iter().map(|(axis, _, step)| access.strides[*axis] * step).collect());
        let elements =
            Axes { dims: parts.iter().map(|(_, dim, _)| *dim).collect(), strides: strides.collect() };
        let rows = Axes { dims: Vec::new(), strides: vec![Vec::new(); accesses.len()] };
        Self {
            rows,
            elements,
            lanes: strip.count,
            threads: strip.threads,
            rows_at_once: 1,
            along_row: true,
            rounds: 1,
            reduces: false,
            strips: true,
        }
    }

    /// Size in bytes of an access's vectors; none if its elements are accessed one by one.
    pub fn vector(&self, place: usize, access: &Access) -> Option<usize> {
        let is_memory = matches!(access.place, Place::Memory(_)) && !self.strips;
        let side_by_side = is_memory && self.elements.innermost(place) == 1;
        if self.lanes > 1 && side_by_side { Some(self.lanes * access.data_type.size()?) } else { None }
    }

    /// Threads per workgroup.
    pub fn block(&self) -> usize {
        self.threads * self.rows_at_once
    }

    /// Number of workgroups.
    pub fn grid(&self) -> usize {
        if self.reduces {
            self.rows.count().div_ceil(self.rows_at_once)
        } else {
            (self.elements.count() / self.lanes).div_ceil(self.threads)
        }
    }
}

/// Threads per row of `items` reads, and rows per workgroup. Each thread has two reads in flight, or four if
/// that avoids the larger workgroups; more threads if there are too few rows.
fn along(rows: usize, items: usize) -> (usize, usize) {
    let most = items.next_power_of_two();
    let mut threads = (most / 2).min(SHORT_BLOCK).max(most / 4).max(1);
    while threads < most && threads.saturating_mul(rows) < MANY {
        threads *= 2;
    }
    threads = threads.clamp(LEAST.min(most), LONG_BLOCK);
    (threads, SHORT_BLOCK.div_ceil(threads))
}

/// The same if adjacent threads process adjacent rows, for elements of `size` bytes. Threads take more of
/// small elements, as long as there are enough threads, so that equally many bytes are in flight.
fn across(rows: usize, items: usize, size: usize) -> (usize, usize) {
    let mut neighbours = rows.next_power_of_two().min(NEIGHBOURS);
    while neighbours > FEW_NEIGHBOURS && rows / neighbours < MANY_BLOCKS {
        neighbours /= 2;
    }
    let mut threads = items.div_ceil(READS).next_power_of_two().min(LONG_BLOCK / neighbours);
    if size < 4 && threads > 1 && (threads / 2).saturating_mul(rows) >= MANY {
        threads /= 2;
    }
    (threads, neighbours.max(BLOCK / threads))
}

/// How many contiguous elements all accesses can take at once.
fn lanes(rows: &Axes, elements: &Axes, accesses: &[Access]) -> usize {
    let Some(innermost) = elements.dims.last() else { return 1 };
    let side_by_side: Vec<(usize, &Access)> = accesses
        .iter()
        .enumerate()
        .filter(|(place, access)| matches!(access.place, Place::Memory(_)) && elements.innermost(*place) == 1)
        .collect();
    let mut lanes = if side_by_side.is_empty() { 1 } else { LANES };
    let size = |access: &Access| access.data_type.size().unwrap_or(VECTOR);
    while lanes > 1 {
        let fits = innermost.is_multiple_of(lanes)
            && side_by_side.iter().all(|(place, access)| {
                let inner = elements.strides[*place].len() - 1;
                let others = elements.strides[*place][..inner].iter().chain(&rows.strides[*place]);
                lanes * size(access) <= VECTOR
                    && access.alignment.is_multiple_of(lanes * size(access))
                    && others.clone().all(|stride| stride.is_multiple_of(lanes))
            });
        if fits {
            break;
        }
        lanes /= 2;
    }
    lanes
}

#[cfg(test)]
mod tests {
    use hipdnn_plugin_sdk::graph::DataType;

    use super::*;

    fn access(data_type: DataType, strides: &[usize], alignment: usize) -> Access {
        let mut all = [0; MAX_RANK];
        all[..strides.len()].copy_from_slice(strides);
        Access { place: Place::Memory(1), data_type, strides: all, alignment }
    }

    #[test]
    fn dense_dimensions_merge_into_one_of_vectors() {
        let whole = access(DataType::Float, &[60, 20, 5, 1], 16);
        let walk = Walk::for_rows(None, &[2, 3, 4, 5], None, &[whole.clone(), whole], false);
        assert_eq!((walk.elements.dims.as_slice(), walk.lanes), ([120].as_slice(), 4));
        let channel = access(DataType::Float, &[0, 1, 0, 0], 16);
        let whole = access(DataType::Float, &[60, 1, 15, 3], 16);
        let walk = Walk::for_rows(None, &[2, 3, 4, 5], None, &[whole, channel], false);
        assert_eq!((walk.elements.dims.as_slice(), walk.lanes), ([40, 3].as_slice(), 1));
        assert_eq!(walk.elements.strides, [[3, 1], [0, 1]]);
    }

    #[test]
    fn transposing_kernels_walk_in_tiles() {
        let by_rows = access(DataType::Float, &[4096, 64, 1], 16);
        let by_columns = access(DataType::Float, &[4096, 1, 64], 16);
        let walk = Walk::for_rows(None, &[3, 64, 64], None, &[by_rows.clone(), by_columns], false);
        assert_eq!((walk.elements.dims.as_slice(), walk.lanes), ([3, 2, 2, 8, 32, 4].as_slice(), 4));
        assert_eq!(walk.elements.strides, [[4096, 2048, 32, 4, 64, 1], [4096, 32, 2048, 256, 1, 64]]);
        let short = access(DataType::Float, &[1, 48], 16);
        let walk =
            Walk::for_rows(None, &[48, 64], None, &[access(DataType::Float, &[64, 1], 16), short], false);
        assert_eq!(walk.elements.dims, [48, 64]);
    }

    #[test]
    fn vectors_are_as_long_as_size_stride_and_alignment_let_them() {
        let lanes = |data_type, dims: &[usize], strides: &[usize], alignment| {
            Walk::for_rows(None, dims, None, &[access(data_type, strides, alignment)], false).lanes
        };
        assert_eq!(lanes(DataType::Half, &[64], &[1], 16), 8);
        assert_eq!(lanes(DataType::Uint8, &[64], &[1], 16), 8);
        assert_eq!(lanes(DataType::Half, &[64], &[1], 4), 2);
        assert_eq!(lanes(DataType::Double, &[64], &[1], 16), 2);
        assert_eq!(lanes(DataType::Float, &[8, 6], &[6, 1], 16), 4);
        assert_eq!(lanes(DataType::Float, &[8, 6], &[8, 1], 16), 2);
        assert_eq!(lanes(DataType::Float, &[8, 4], &[5, 1], 16), 1);
        assert_eq!(lanes(DataType::Float, &[64], &[2], 16), 1);
    }

    #[test]
    fn rows_are_shared_by_threads_with_adjacent_reads() {
        let x = access(DataType::Float, &[256, 1], 16);
        let inner = Walk::for_rows(None, &[100, 256], Some(&[false, true]), std::slice::from_ref(&x), false);
        assert!(inner.along_row);
        assert_eq!((inner.lanes, inner.threads, inner.rows_at_once, inner.grid()), (4, 64, 2, 50));
        let outer = Walk::for_rows(None, &[100, 256], Some(&[true, false]), &[x], false);
        assert!(!outer.along_row);
        assert_eq!((outer.lanes, outer.threads, outer.rows_at_once, outer.grid()), (1, 16, 16, 16));
        assert_eq!(outer.rounds, 7);
        let long = access(DataType::Float, &[1], 16);
        let long = Walk::for_rows(None, &[1 << 20], Some(&[true]), &[long], false);
        assert_eq!((long.block(), long.rounds, long.grid()), (1024, 256, 1));
    }
    #[test]
    fn threads_have_two_or_four_reads_in_flight_if_there_are_enough_rows() {
        let of = |data_type, rows: usize, columns: usize| {
            let x = access(data_type, &[columns, 1], 16);
            let walk = Walk::for_rows(None, &[rows, columns], Some(&[false, true]), &[x], false);
            (walk.threads, walk.rows_at_once, walk.rounds)
        };
        assert_eq!(of(DataType::Bfloat16, 16384, 1024), (64, 2, 2));
        assert_eq!(of(DataType::Float, 16384, 1024), (128, 1, 2));
        assert_eq!(of(DataType::Bfloat16, 8192, 8192), (256, 1, 4));
        assert_eq!(of(DataType::Float, 8192, 8192), (512, 1, 4));
        assert_eq!(of(DataType::Float, 64, 1024), (256, 1, 1));
        assert_eq!(of(DataType::Float, 1 << 20, 31), (32, 4, 1));
        assert_eq!(of(DataType::Float, 1 << 20, 2), (1, 128, 1));
        assert_eq!(of(DataType::Float, 8, 100_000), (1024, 1, 25));
    }

    #[test]
    fn few_neighbouring_rows_are_many_workgroups() {
        let of = |data_type, places: usize, channels: usize| {
            let x = access(data_type, &[channels, 1], 16);
            let walk = Walk::for_rows(None, &[places, channels], Some(&[true, false]), &[x], false);
            (walk.threads, walk.rows_at_once, walk.grid())
        };
        assert_eq!(of(DataType::Float, 3584, 64), (128, 8, 8));
        assert_eq!(of(DataType::Float, 56, 1 << 16), (8, 64, 1 << 10));
        assert_eq!(of(DataType::Float, 1, 3), (1, 256, 1));
        // Half as many threads have the same number of bytes in flight, except if threads are few.
        assert_eq!(of(DataType::Half, 56, 1 << 16), (4, 64, 1 << 10));
        assert_eq!(of(DataType::Half, 3584, 64), (128, 8, 8));
    }
}
