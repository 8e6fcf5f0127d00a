//! The two operations: rows times matrices, and the gradient of the matrices.

use hipdnn_plugin_planner::problem::mixture::{Mixture, MixtureGradient, Routing};

use crate::dtype::element::{Compute, with_compute};
use crate::gemm::context::Context;
use crate::kernel::{Facts, Kernel, Refusal};
use crate::moe::groups::{Groups, Routes};
use crate::moe::panels::{Lhs, Matrix, Panels, compute_of};
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::scratch::{Scratch, Shared};
use crate::tensor::view::Pointers;
use crate::threading::partition::{Threads, part};

/// Plans the multiplication for an instruction set.
pub(crate) fn plan(
    mixture: &Mixture,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    let operands = [&mixture.token.operand, &mixture.weight.operand, &mixture.output.operand];
    Ok(with_compute!(compute_of(compute, operands), T => Box::new(Gemm::<T>::plan(mixture, isa, threads)?)))
}

/// Plans the gradient of the matrices for an instruction set.
pub(crate) fn plan_gradient(
    gradient: &MixtureGradient,
    compute: Compute,
    isa: Isa,
    threads: Threads,
) -> Result<Box<dyn Kernel>, Refusal> {
    let operands = [&gradient.token.operand, &gradient.d_output.operand, &gradient.d_weight.operand];
    Ok(
        with_compute!(compute_of(compute, operands), T => Box::new(Gradient::<T>::plan(gradient, isa, threads)?)),
    )
}

/// Copies of indices in the scratch memory.
///
/// # Safety
/// The area at the offset has room for `len` indices, and no one else uses it.
unsafe fn indices<'a>(scratch: *mut u8, offset: usize, len: usize) -> &'a mut [usize] {
    // SAFETY: the scratch memory and areas in it are aligned; this function requires the room, which is zeroed first.
    unsafe {
        let first = scratch.add(offset).cast::<usize>();
        first.write_bytes(0, len);
        std::slice::from_raw_parts_mut(first, len)
    }
}

struct Gemm<T: 'static> {
    token: Matrix<T>,
    weight: Matrix<T>,
    /// Stride of the experts' matrices.
    expert: usize,
    output: Matrix<T>,
    /// Terms of each sum, and rows of the output.
    depth: usize,
    results: usize,
    groups: Groups,
    routes: Routes,
    is_gathered: bool,
    is_scattered: bool,
    panels: Panels<T>,
}

impl<T: Float> Gemm<T> {
    fn plan(p: &Mixture, isa: Isa, threads: Threads) -> Result<Self, Refusal> {
        let ([_, depth], [results, columns]) = (p.token.dims, p.output.dims);
        let [expert, row, column] = p.weight.strides;
        let kernel = Context::of(isa);
        Ok(Self {
            token: Matrix::of("token", &p.token.operand, p.token.strides, &kernel)?,
            weight: Matrix::of("weight", &p.weight.operand, [row, column], &kernel)?,
            expert,
            output: Matrix::of("output", &p.output.operand, p.output.strides, &kernel)?,
            depth,
            results,
            groups: Groups::of(p),
            routes: Routes::of(p),
            is_gathered: matches!(p.routing, Routing::Gather(_)),
            is_scattered: matches!(p.routing, Routing::Scatter { .. }),
            panels: Panels::plan([p.rows, columns, 1], depth, depth as f64, isa, threads),
        })
    }

    /// Areas of indices: the first row of each group, the source and the target of each row, and 1 + the last
    /// row that writes each row of the output. Then the workers' areas.
    fn layout(&self, scratch: &mut Scratch) -> ([usize; 4], [usize; 3]) {
        let copies = self.copies().map(|len| scratch.area::<usize>(len, 1));
        (copies, self.panels.layout(scratch))
    }

    fn copies(&self) -> [usize; 4] {
        [self.groups.count() + 1, self.groups.rows, self.groups.rows, self.results]
    }
}

impl<T: Float> Kernel for Gemm<T> {
    fn facts(&self) -> Facts {
        self.panels.facts()
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        // SAFETY: this function requires the tensors of the kernel.
        let tensors = unsafe { Pointers::new(tensors) };
        self.groups.check(tensors)?;
        self.routes.check(tensors, &self.groups)
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let (copies, areas) = self.layout(&mut Scratch::default());
        let lens = self.copies();
        // SAFETY: the areas are disjoint, and this function requires the tensors of the kernel.
        let ([bounds, from, to, made_by], of_run) = unsafe {
            (std::array::from_fn(|copy| indices(scratch, copies[copy], lens[copy])), Pointers::new(tensors))
        };
        self.groups.copy(of_run, bounds);
        for row in bounds[0]..self.groups.rows {
            (from[row], to[row]) = self.routes.route(of_run, row);
            made_by[to[row]] = row + 1;
        }
        let (bounds, from, to, made_by) = (&*bounds, &*from, &*to, &*made_by);
        let base =
            Shared([tensors[self.token.slot], tensors[self.weight.slot], tensors[self.output.slot], scratch]);
        let Panels { row_blocks, panels, workers, .. } = self.panels;
        workers.for_each_part(row_blocks * panels, |worker, index| {
            let (block, panel) = (self.panels.block(index / panels), index % panels);
            let areas = self.panels.areas(areas, base.get(3), worker);
            let store = |skipped: usize, rows: usize, result: usize| {
                let to = self.output.at(base.get(2), 0, [result, 0]);
                // SAFETY: the output has the rows, which no other part writes, and the sums were computed.
                unsafe { self.panels.store((skipped, rows), panel, areas[2], (&self.output, to)) };
            };
            for group in 0..self.groups.count() {
                let rows = bounds[group].max(block.start)..bounds[group + 1].min(block.end);
                if rows.is_empty() {
                    continue;
                }
                let expert = group % self.groups.experts;
                let lhs =
                    if self.is_gathered { Lhs::Rows(&from[rows.clone()]) } else { Lhs::From(rows.start) };
                // SAFETY: rows, columns and terms are inside the operands, and the areas are the worker's.
                unsafe {
                    self.panels.sum(
                        rows.len(),
                        panel,
                        self.panels.blocks(0..self.depth),
                        ((&self.token, base.get(0)), &lhs),
                        (&self.weight, self.weight.at(base.get(1), expert * self.expert, [0; 2])),
                        areas,
                    );
                }
                if self.is_scattered {
                    for row in rows.clone().filter(|row| made_by[to[*row]] == row + 1) {
                        store(row - rows.start, 1, to[row]);
                    }
                } else {
                    store(0, rows.len(), rows.start);
                }
            }
            // Rows without a source are zeros. Blocks also divide the rows of the output.
            // SAFETY: the area has room for a row.
            unsafe { areas[2].write_bytes(0, self.panels.width()) };
            let results = part(self.results, row_blocks, index / panels);
            results.filter(|result| made_by[*result] == 0).for_each(|result| store(0, 1, result));
        });
    }
}

struct Gradient<T: 'static> {
    token: Matrix<T>,
    d_output: Matrix<T>,
    d_weight: Matrix<T>,
    /// Stride of the experts' matrices.
    expert: usize,
    groups: Groups,
    panels: Panels<T>,
}

impl<T: Float> Gradient<T> {
    fn plan(p: &MixtureGradient, isa: Isa, threads: Threads) -> Result<Self, Refusal> {
        let [experts, rows, columns] = p.d_weight.dims;
        let [expert, row, column] = p.d_weight.strides;
        let groups = Groups::of_gradient(p);
        let terms = groups.rows as f64 / experts as f64;
        let kernel = Context::of(isa);
        Ok(Self {
            token: Matrix::of("token", &p.token.operand, p.token.strides, &kernel)?,
            d_output: Matrix::of("doutput", &p.d_output.operand, p.d_output.strides, &kernel)?,
            d_weight: Matrix::of("dweight", &p.d_weight.operand, [row, column], &kernel)?,
            expert,
            panels: Panels::plan([rows, columns, experts], groups.rows, terms, isa, threads),
            groups,
        })
    }

    fn layout(&self, scratch: &mut Scratch) -> (usize, [usize; 3]) {
        (scratch.area::<usize>(self.groups.count() + 1, 1), self.panels.layout(scratch))
    }
}

impl<T: Float> Kernel for Gradient<T> {
    fn facts(&self) -> Facts {
        self.panels.facts()
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
    }

    unsafe fn check(&self, tensors: &[*mut u8]) -> Result<(), Refusal> {
        // SAFETY: this function requires the tensors of the kernel.
        self.groups.check(unsafe { Pointers::new(tensors) })
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let (copy, areas) = self.layout(&mut Scratch::default());
        // SAFETY: only the copy uses the area, and this function requires the tensors of the kernel.
        let (bounds, of_run) =
            unsafe { (indices(scratch, copy, self.groups.count() + 1), Pointers::new(tensors)) };
        self.groups.copy(of_run, bounds);
        let bounds = &*bounds;
        let base = Shared([
            tensors[self.token.slot],
            tensors[self.d_output.slot],
            tensors[self.d_weight.slot],
            scratch,
        ]);
        let Panels { row_blocks, panels, workers, .. } = self.panels;
        workers.for_each_part(self.groups.experts * row_blocks * panels, |worker, index| {
            let (panel, block) = (index % panels, index / panels % row_blocks);
            let (rows, expert) = (self.panels.block(block), index / panels / row_blocks);
            let areas = self.panels.areas(areas, base.get(3), worker);
            let own = (expert..self.groups.count()).step_by(self.groups.experts);
            let terms = own.flat_map(|group| self.panels.blocks(bounds[group]..bounds[group + 1]));
            let to = self.d_weight.at(base.get(2), expert * self.expert, [rows.start, 0]);
            // SAFETY: rows, columns and terms are inside the operands, the areas are the worker's, and no
            // other part writes these rows of the panel.
            unsafe {
                self.panels.sum(
                    rows.len(),
                    panel,
                    terms,
                    ((&self.token, base.get(0)), &Lhs::Columns(rows.start)),
                    (&self.d_output, base.get(1)),
                    areas,
                );
                self.panels.store((0, rows.len()), panel, areas[2], (&self.d_weight, to));
            }
        });
    }
}
