//! Runs a product: packs weights, reads parameters, copies x if needed, and distributes blocks among workers.

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::byte_kernel::{ByteKernel, MAX_ROWS};
use crate::gemm::byte_tile::GROUP;
use crate::gemm::session::Session;
use crate::int8::epilogue::Columns;
use crate::int8::product::{Own, Product, Run, STAGED, Staging};
use crate::int8::rows::{BLOCK, Rows};
use crate::int8::store::WIDTH;
use crate::kernel::{Facts, Kernel};
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::part;

/// Offsets of the areas of the scratch memory.
struct Areas {
    packed: usize,
    columns: usize,
    staged: usize,
    rows: usize,
    row_sums: usize,
    sums: usize,
    results: usize,
    offsets: usize,
}

/// The block whose rows a worker has packed.
#[derive(Default)]
struct State {
    filled: Option<(usize, usize)>,
}

impl Product {
    fn areas(&self, scratch: &mut Scratch) -> Areas {
        let workers = self.workers.count();
        let results = if self.is_straight() { 0 } else { self.rows_of_block * WIDTH * self.size() };
        Areas {
            packed: scratch.area::<i32>(self.problem.group_count() * self.panels.all_words(), 1),
            columns: scratch.area::<i32>(self.all_columns(), Columns::kinds(self.stages.rounds().count())),
            staged: scratch.area::<u8>(self.staging.as_ref().map_or(0, |staging| staging.bytes() + BLOCK), 1),
            rows: scratch.area::<u8>(self.rows_of_block * self.stride + BLOCK, workers),
            row_sums: scratch.area::<i32>(self.rows_of_block, workers),
            sums: scratch.area::<i32>(MAX_ROWS * WIDTH, workers),
            results: scratch.area::<u8>(results, workers),
            offsets: scratch.area::<usize>(2 * self.rows_of_block, workers),
        }
    }

    /// Packs all weights.
    ///
    /// # Safety
    /// `from` is the first weight, `to` has room for the panels of all groups, and the processor has the instructions.
    unsafe fn pack(&self, from: *mut u8, to: *mut i32) {
        let shared = Shared([from, to.cast()]);
        self.pack_workers.for_each_part(self.problem.group_count() * self.panels.panels, |_, index| {
            let (group, panel) = (index / self.panels.panels, index % self.panels.panels);
            // SAFETY: the tensor has the group's weights, and each panel is packed by one worker.
            unsafe {
                let from = shared.get(0).add(self.problem.group(group).w);
                let to = shared.get(1).cast::<i32>().add(group * self.panels.all_words());
                self.panels.pack(&self.problem, panel, (from, to), self.isa);
            }
        });
    }

    /// Writes the parameters of all columns.
    ///
    /// # Safety
    /// The tensors are those of the operation, `area` has room for each column's parameters, and `packed` are
    /// the weights.
    unsafe fn columns(&self, tensors: &[*mut u8], x_zero: i32, area: *mut u8, packed: *const i32) -> Columns {
        let all = Columns::of_area(area.cast(), Scratch::padded::<i32>(self.all_columns()));
        let x_zero = x_zero + i32::from(self.flip());
        let width = self.panels.groups * GROUP;
        for index in 0..self.problem.group_count() {
            let of_group = all.from(index * width);
            // SAFETY: there is room for the columns of each group, whose sums follow its panels.
            unsafe {
                let sums = packed.add(index * self.panels.all_words() + self.panels.panel_words());
                let problem = (&self.stages, &self.problem);
                of_group.write(problem, tensors, self.problem.group(index), sums, x_zero);
                of_group.clear(self.stages.rounds().count(), self.problem.columns, width);
            }
        }
        all
    }

    /// Copies x so that channels are contiguous.
    ///
    /// # Safety
    /// `from` is the first element of x, and `to` has room for the copy.
    unsafe fn stage(&self, staging: &Staging, from: *mut u8, to: *mut u8) {
        let shared = Shared([from, to]);
        let rows: usize = staging.positions.iter().map(|axis| axis.size).product();
        self.stage_workers.for_each_part(staging.parts(), |_, index| {
            let range = (index * STAGED, ((index + 1) * STAGED).min(rows));
            let rows = Rows {
                positions: &staging.positions,
                windows: None,
                channels: staging.channels,
                channel: staging.channel,
                from: shared.get(0),
                flip: self.flip(),
                outside: 0,
                range,
                to: shared.get(1).wrapping_add(range.0 * staging.channels),
                stride: staging.channels,
                len: staging.channels,
                has_room: false,
            };
            // SAFETY: the processor has the instructions, x has the positions, and each is copied by one worker.
            unsafe { self.isa.run(rows) };
        });
    }

    /// A worker's areas.
    fn own(&self, areas: &Areas, scratch: *mut u8, worker: usize) -> Own {
        let results = if self.is_straight() { 0 } else { self.rows_of_block * WIDTH * self.size() };
        Own {
            rows: Scratch::of_worker(scratch, areas.rows, worker, self.rows_of_block * self.stride + BLOCK),
            row_sums: Scratch::of_worker(scratch, areas.row_sums, worker, self.rows_of_block),
            sums: Scratch::of_worker(scratch, areas.sums, worker, MAX_ROWS * WIDTH),
            results: Scratch::of_worker(scratch, areas.results, worker, results),
            offsets: Scratch::of_worker(scratch, areas.offsets, worker, 2 * self.rows_of_block),
        }
    }
}

impl Kernel for Product {
    fn facts(&self) -> Facts {
        let ByteKernel { rows, groups, form, .. } = self.kernel;
        Facts {
            tile: format!("{rows} x {} int32, {}", groups * GROUP, form.name()),
            accumulator: Some(DataType::Int32),
            matrix: form.has_tiles(),
            ..Facts::new(self.algorithm, self.workers.threads())
        }
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.areas(scratch))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let problem = &self.problem;
        let areas = self.areas(&mut Scratch::default());
        let weights = tensors[problem.w.slot];
        // SAFETY: the tensors are those of the operation, and the scratch memory has the areas.
        let (packed, x_zero, columns) = unsafe {
            let (packed, _) = self.prepacked.get(weights, scratch.add(areas.packed).cast(), |to| {
                self.pack(weights, to);
                false
            });
            let x_zero = self.stages.x_zero(tensors);
            (packed, x_zero, self.columns(tensors, x_zero, scratch.add(areas.columns), packed))
        };
        // SAFETY: the tensors are those of the operation, and the parameters of all columns were written.
        let (numbers, post_ops) = unsafe {
            let (mut numbers, mut post_ops) = self.stages.numbers(problem.y.data_type, tensors);
            self.stages.fold((&mut numbers, &mut post_ops), columns, self.all_columns());
            (numbers, post_ops)
        };
        let mut x = tensors[problem.x.slot];
        if let Some(staging) = &self.staging {
            // SAFETY: the scratch memory has room for the copy.
            x = unsafe {
                let to = scratch.add(areas.staged);
                self.stage(staging, x, to);
                to
            };
        }
        let flip = self.flip();
        let outside = x_zero as u8 ^ flip;
        let run = Run { tensors: Tensors(tensors), numbers, post_ops, columns, flip, outside };
        let base = Shared([x, packed.cast_mut().cast(), scratch]);
        let parts = problem.group_count() * self.blocks * self.chunks;
        self.workers.for_each_part_with_state(parts, |assignment, state: &mut State| {
            let (chunk, at) = (assignment.part % self.chunks, assignment.part / self.chunks);
            let (group, block) = (at / self.blocks, at % self.blocks);
            let first = block * self.rows_of_block;
            let rows = first..(first + self.rows_of_block).min(problem.rows());
            let of = problem.group(group);
            let own = self.own(&areas, base.get(2), assignment.worker);
            let is_filled = state.filled.replace((group, block)) == Some((group, block));
            let _session = Session::of(self.kernel.form.has_tiles());
            // SAFETY: the tensors have the group's rows and columns, each worker has its own areas, and no
            // two parts share results.
            unsafe {
                let x = base.get(0).add(of.x).cast_const();
                let packed = base.get(1).cast::<i32>().add(group * self.panels.all_words()).cast_const();
                let panels = part(self.panels.panels, self.chunks, chunk);
                self.block(&run, (group, of), (rows, panels), (x, packed), &own, is_filled);
            }
        });
    }
}
