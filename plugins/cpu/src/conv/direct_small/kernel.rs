//! Forward convolution and backward data of small images, on vectors of output channels.

use hipdnn_plugin_sdk::graph::DataType;

use crate::conv::cost::Cost;
use crate::conv::direct_small::outputs::{are_inside, classes, in_plane, tiles, whole_plane};
use crate::conv::direct_small::planes::Planes;
use crate::conv::direct_small::tile::{AccumulatorTile, AccumulatorTileKernel, MAX_ROWS, copied, panels};
use crate::conv::epilogue::TileEpilogue;
use crate::conv::geometry::Block;
use crate::conv::implicit_gemm::kernel::ImplicitGemm;
use crate::conv::operands::{Operands, SubProblem};
use crate::gemm::pack::{Pack, PackSource, Store, pack_of};
use crate::kernel::{Facts, Kernel, Refusal};
use crate::pointwise::Epilogue;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::simd::vector::Float;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::row_converter::{all_finite, is_compute_type};
use crate::tensor::scratch::{Scratch, Shared, Tensors};
use crate::threading::partition::{Assignment, Workers};

/// The outputs of an image for which some channels are stored.
pub(crate) struct Image {
    pub(crate) index: usize,
    pub(crate) size: [usize; 3],
    /// Whether they are contiguous.
    pub(crate) flat: bool,
}

/// The fewest outputs in a block, if there are enough images.
pub(crate) const LEAST_COLUMNS: usize = 64;

/// Transposed rows have a multiple of this many elements.
pub(crate) const MAX_LANES: usize = 16;

/// A planned sub-problem.
pub(crate) struct Planned {
    pub(crate) part: SubProblem,
    pub(crate) classes: Vec<Class>,
    /// Outputs of an image.
    pub(crate) of_image: usize,
    /// Rows of its weights.
    pub(crate) rows: usize,
    /// Elements before its first panel in the packed weights.
    pub(crate) packed: usize,
}

/// Outputs that sum over the same taps.
pub(crate) struct Class {
    /// Offsets of a block's outputs in the planes, image by image.
    pub(crate) outputs: Vec<usize>,
    /// Their rows in the accumulators of a block.
    pub(crate) sums: Vec<usize>,
    /// How many there are in an image.
    pub(crate) of_image: usize,
    /// Offset of each term's input, channel by channel, and its row of weights.
    pub(crate) terms: Vec<usize>,
    pub(crate) rhs_rows: Vec<usize>,
}

/// A planned convolution of small images.
pub(crate) struct DirectSmall<T: 'static> {
    pub(crate) operands: Operands,
    pub(crate) isa: Isa,
    pub(crate) parts: Vec<Planned>,
    pub(crate) planes: Planes<T>,
    pub(crate) kernel: AccumulatorTileKernel<T>,
    /// Channel blocks in a panel of output channels, and panels.
    pub(crate) channel_blocks: usize,
    pub(crate) panels: usize,
    /// Images in a block.
    pub(crate) images: usize,
    pub(crate) workers: Workers,
    pub(crate) pack: Pack<T>,
    pub(crate) input_size: usize,
    pub(crate) weight_size: usize,
    pub(crate) store: Store<T>,
    pub(crate) store_size: usize,
    pub(crate) transpose: Pack<T>,
    /// Whether the output's dtype is the compute type.
    pub(crate) direct: bool,
    /// Elements of the packed weights.
    pub(crate) weights: usize,
    /// Rows of the accumulators of a block.
    pub(crate) columns: usize,
    /// Outputs per image, if the results of all sub-problems are in output order and stored together.
    pub(crate) whole: Option<usize>,
    pub(crate) tile_epilogue: Option<TileEpilogue>,
    /// Runs instead if padding meets weights that are NaN or infinite.
    pub(crate) exact: Option<ImplicitGemm<T>>,
    pub(crate) prepacked: Prepacked<T>,
}

/// Offsets in the scratch memory.
pub(crate) struct ScratchLayout {
    pub(crate) weights: usize,
    pub(crate) planes: usize,
    pub(crate) tile: usize,
    pub(crate) rows: usize,
}

impl<T: Float> DirectSmall<T> {
    /// Estimated nanoseconds on one thread.
    pub(crate) fn time(operands: &Operands, isa: Isa, constant_weights: bool) -> f64 {
        let (kernel, cost) = (AccumulatorTileKernel::<T>::of(isa), Cost::of::<T>(isa));
        let Operands { windows, parts, channels, rows, groups, .. } = operands;
        let outputs: f64 = parts.iter().map(|part| part.size.iter().product::<usize>() as f64).sum();
        let terms: f64 = parts
            .iter()
            .map(|part| part.size.iter().product::<usize>() as f64 * (part.taps.len() * channels) as f64)
            .sum();
        let (channel_blocks, panels) = panels(*rows, &kernel);
        let width = (channel_blocks * panels * kernel.channel_block) as f64;
        let (images, groups) = (windows.batch as f64, *groups as f64);
        let taps: usize = parts.iter().map(|part| part.taps.len()).sum();
        let packed = if constant_weights { 0.0 } else { (taps * channels) as f64 * width };
        let input = (channels * windows.input.iter().product::<usize>()) as f64;
        groups
            * (images * terms * width * cost.fused
                + images * input * copied(&cost, windows.input[2])
                + images * outputs * width * 2.0 * copied(&cost, windows.output[2])
                + packed * cost.copy)
    }

    /// Plans the convolution with its epilogue. `exact` is the fallback for weights that are NaN or infinite.
    #[inline(never)]
    pub(crate) fn plan(
        operands: Operands,
        isa: Isa,
        settings: Settings,
        spatial: usize,
        epilogue: Option<Epilogue>,
        exact: ImplicitGemm<T>,
    ) -> Result<Self, Refusal> {
        let kernel = AccumulatorTileKernel::<T>::of(isa);
        let work = Self::time(&operands, isa, settings.constant_weights);
        let Operands { windows, parts, groups, channels, rows, input, weights, output, .. } = &operands;
        let size = |part: &SubProblem| part.size.iter().product::<usize>();
        let largest = parts.iter().map(size).max().unwrap_or(1).max(1);
        let wanted = settings.threads.workers_for_reduction(work, usize::MAX).count();
        let least = LEAST_COLUMNS.div_ceil(largest).min(windows.batch.div_ceil(if wanted > 1 {
            3 * wanted
        } else {
            1
        }));
        // Twice as many images, if taps in the padding can then be skipped.
        let tiles = |images: usize| {
            let of_part = |part| tiles(&classes(windows, part, images, kernel.rows), images, kernel.rows);
            parts.iter().map(of_part).sum::<usize>()
        };
        let is_worth = 2 * least * 2 * wanted <= windows.batch && tiles(2 * least) * 20 < tiles(least) * 39;
        let images = if is_worth { 2 * least } else { least };
        let of_parts: Vec<_> = parts.iter().map(|part| classes(windows, part, images, kernel.rows)).collect();
        // Then images are read in place, and no weight meets padding.
        let inside = parts.iter().zip(&of_parts).all(|(part, classes)| are_inside(windows, part, classes));
        let planes = Planes::plan(windows, *input, *channels, (images, windows.output), inside)?;
        let (channel_blocks, panels) = panels(*rows, &kernel);
        let width = channel_blocks * kernel.channel_block;
        let whole = (parts.len() > 1).then(|| whole_plane(parts, &output.strides)).flatten();
        let mut packed = 0;
        let planned = parts.iter().zip(of_parts).map(|(part, classes)| {
            let (count, first) = (part.taps.len(), packed);
            packed += groups * panels * count * channels * width;
            let outputs = planes.outputs(images, part.size, windows.stride);
            let in_plane: Vec<usize> = in_plane(part, &output.strides).collect();
            let of_image = in_plane.len();
            let class = |(taps, members): (Vec<usize>, Vec<usize>)| {
                let all = || (0..images).flat_map(|image| members.iter().map(move |member| (image, *member)));
                let row = |(image, member): (usize, usize)| match whole {
                    None => image * of_image + member,
                    Some(all) => image * all + in_plane[member],
                };
                let pairs = || (0..*channels).flat_map(|channel| taps.iter().map(move |tap| (channel, *tap)));
                let term =
                    |(channel, tap): (usize, usize)| planes.term(channel, windows.taps[part.taps[tap].0]);
                Class {
                    outputs: all().map(|(image, member)| outputs[image * of_image + member]).collect(),
                    sums: all().map(row).collect(),
                    of_image: members.len(),
                    terms: pairs().map(term).collect(),
                    rhs_rows: pairs().map(|(channel, tap)| channel * count + tap).collect(),
                }
            };
            let classes = classes.into_iter().map(class).collect();
            Planned { part: part.clone(), classes, of_image, rows: count * channels, packed: first }
        });
        let parts: Vec<Planned> = planned.collect();
        let bytes = |data_type: DataType| data_type.size().unwrap_or(1);
        let pack = (kernel.pack_rhs)("w", weights.data_type)?;
        let store = (kernel.store)("y", output.data_type)?;
        let compute = if size_of::<T>() == 4 { DataType::Float } else { DataType::Double };
        let form = settings.shares_weights.then(|| {
            let form = operands.form("direct-small", pack as usize).on(isa).and([width, panels]);
            let form = form.and(parts.iter().flat_map(|part| [part.packed, part.rows]));
            form.and([bytes(weights.data_type), usize::from(planes.are_padded())])
        });
        Ok(Self {
            isa,
            kernel,
            channel_blocks,
            panels,
            images,
            workers: settings.threads.workers(work, windows.batch.div_ceil(images) * groups),
            pack,
            input_size: bytes(input.data_type),
            weight_size: bytes(weights.data_type),
            store,
            store_size: bytes(output.data_type),
            transpose: pack_of("sums", compute)?,
            direct: is_compute_type::<T>(output.data_type),
            weights: packed,
            columns: images * whole.unwrap_or(largest),
            whole,
            tile_epilogue: match &epilogue {
                Some(epilogue) => Some(TileEpilogue { block_epilogue: epilogue.plan()?, spatial }),
                None => None,
            },
            exact: planes.are_padded().then_some(exact),
            prepacked: Prepacked::new(packed, settings.constant_weights, form),
            planes,
            parts,
            operands,
        })
    }

    /// Elements in a row of a panel.
    pub(crate) fn width(&self) -> usize {
        self.channel_blocks * self.kernel.channel_block
    }

    pub(crate) fn layout(&self, scratch: &mut Scratch) -> ScratchLayout {
        let workers = self.workers.count();
        ScratchLayout {
            weights: scratch.area::<T>(self.weights, 1),
            planes: scratch.area::<T>(self.planes.elements(), workers),
            tile: scratch.area::<T>(self.columns * self.width(), workers),
            rows: scratch.area::<T>(self.columns.next_multiple_of(LEAST_COLUMNS) * self.width(), workers),
        }
    }

    /// Packs all weights: a row per panel and term, with zeros after the last channel. Returns whether they
    /// are finite, if that matters.
    ///
    /// # Safety
    /// `from` is the first weight; `to` is writable for all panels.
    pub(crate) unsafe fn pack(&self, from: *const u8, to: *mut T) -> bool {
        let Operands { groups, channels, rows, weights, .. } = &self.operands;
        let width = self.width();
        for planned in &self.parts {
            let taps = &planned.part.taps;
            let in_order = taps.iter().enumerate().all(|(tap, (_, offset))| tap == *offset)
                && weights.channel == taps.len();
            for unit in 0..groups * self.panels {
                let (group, panel) = (unit / self.panels, unit % self.panels);
                let first = (panel * width).min(*rows);
                let columns = (rows - first).min(width);
                // SAFETY: the tensor has the weights, and there is a row for each of its terms.
                unsafe {
                    let to = to.add(planned.packed + unit * planned.rows * width);
                    let first = from.add((group * weights.group + first * weights.row) * self.weight_size);
                    let matrix = |from: *const u8, rows: usize, row: usize, row_stride: usize| PackSource {
                        from,
                        rows,
                        row,
                        columns,
                        column: weights.row,
                        width,
                        row_stride,
                    };
                    if in_order {
                        (self.pack)(self.isa, &matrix(first, planned.rows, 1, width), to);
                        continue;
                    }
                    for (tap, (_, offset)) in taps.iter().enumerate() {
                        let from = first.add(offset * self.weight_size);
                        let copy = matrix(from, *channels, weights.channel, taps.len() * width);
                        (self.pack)(self.isa, &copy, to.add(tap * width));
                    }
                }
            }
        }
        // SAFETY: all weights are written.
        self.exact.is_none() || unsafe { all_finite(to, self.weights) }
    }
}

/// A worker's memory.
pub(crate) struct WorkerMemory<T> {
    pub(crate) tile: *mut T,
    pub(crate) rows: *mut T,
}

impl<T: Float> DirectSmall<T> {
    /// Computes all sub-problems for a block of images.
    ///
    /// # Safety
    /// `weights` are all packed weights, `planes` have the block's images, and the worker's memory and the
    /// tensors are as planned.
    pub(crate) unsafe fn multiply(
        &self,
        (group, block): (usize, &Block),
        weights: *const T,
        planes: *const T,
        worker: &WorkerMemory<T>,
        tensors: &[*mut u8],
    ) {
        let Operands { rows, output, .. } = &self.operands;
        let width = self.width();
        let store = |panel: usize, first: usize, of_image: usize, size: [usize; 3], flat: bool| {
            let row = (panel * width).min(*rows);
            let channels = (rows - row).min(width);
            let channel = (group * rows + row) * output.strides.channel + first;
            for image in 0..block.images {
                // SAFETY: the sums of the panel are there, and the tensor has the outputs.
                unsafe {
                    let to = tensors[output.slot].add(channel * self.store_size);
                    let from = worker.tile.add(image * of_image * width);
                    let image = Image { index: block.image + image, size, flat };
                    self.store(&image, channels, from, worker.rows, to);
                }
            }
        };
        if let Some(outputs) = self.whole {
            for panel in 0..self.panels {
                for planned in &self.parts {
                    // SAFETY: the planes have the block's images, and the worker's tile has room for the accumulators.
                    unsafe { self.sum(planned, (group, panel), block.images, weights, planes, worker.tile) };
                }
                store(panel, 0, outputs, [1, 1, outputs], true);
            }
            return;
        }
        for planned in self.parts.iter().filter(|planned| planned.of_image > 0) {
            let size = planned.part.size;
            let flat = output.strides.are_flat(size);
            for panel in 0..self.panels {
                // SAFETY: the planes have the block's images, and the worker's tile has room for the accumulators.
                unsafe { self.sum(planned, (group, panel), block.images, weights, planes, worker.tile) };
                store(panel, planned.part.first, planned.of_image, size, flat);
            }
        }
    }

    /// Computes the accumulators of a panel of one sub-problem.
    ///
    /// # Safety
    /// As [`DirectSmall::multiply`], and `tile` has room for the accumulators.
    pub(crate) unsafe fn sum(
        &self,
        planned: &Planned,
        (group, panel): (usize, usize),
        images: usize,
        weights: *const T,
        planes: *const T,
        tile: *mut T,
    ) {
        let width = self.width();
        for class in &planned.classes {
            let Class { terms, rhs_rows, .. } = class;
            let outputs = images * class.of_image;
            for from in (0..outputs).step_by(self.kernel.rows) {
                // Slots beyond the last row repeat it.
                let (mut rows, mut tile_offsets) = ([0; MAX_ROWS], [0; MAX_ROWS]);
                for (i, (row, offset)) in rows.iter_mut().zip(&mut tile_offsets).enumerate() {
                    let output = (from + i).min(outputs - 1);
                    (*row, *offset) = (class.outputs[output], class.sums[output] * width);
                }
                // SAFETY: the panel's weights are packed, and the tile has room for all outputs.
                unsafe {
                    let packed = planned.packed + (group * self.panels + panel) * planned.rows * width;
                    let sums = AccumulatorTile {
                        rows: &rows,
                        terms,
                        from: planes,
                        rhs: weights.add(packed),
                        rhs_rows,
                        tile,
                        tile_offsets: &tile_offsets,
                        add: false,
                    };
                    self.kernel.run(&sums, (self.kernel.rows, self.channel_blocks));
                }
            }
        }
    }
}

impl<T: Float> Kernel for DirectSmall<T> {
    fn facts(&self) -> Facts {
        Facts::tiled::<T>("direct-small", self.workers.threads(), [self.kernel.rows, self.kernel.lanes], 1)
    }

    fn scratch_size(&self) -> usize {
        Scratch::size_of(|scratch| self.layout(scratch))
            .max(self.exact.as_ref().map_or(0, Kernel::scratch_size))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { windows, groups, channels, rows, input, weights, .. } = &self.operands;
        let areas = self.layout(&mut Scratch::default());
        let source = tensors[weights.slot];
        // SAFETY: the tensor covers its weights, and the scratch memory has room for all panels, as the prepacked memory has.
        let (packed, finite) = unsafe {
            self.prepacked.get(source, scratch.add(areas.weights).cast::<T>(), |to| self.pack(source, to))
        };
        if let Some(exact) = self.exact.as_ref().filter(|_| !finite) {
            // SAFETY: the tensors are those of the operation; the scratch memory is large enough for either kernel.
            unsafe { exact.run(tensors, scratch) };
            return;
        }
        let shared = Tensors(tensors);
        let base = Shared([packed.cast_mut().cast(), scratch]);
        let (planes_size, tile_size) = (self.planes.elements(), self.columns * self.width());
        let rows_size = self.columns.next_multiple_of(LEAST_COLUMNS) * self.width();
        let blocks = windows.batch.div_ceil(self.images);
        let area = |offset: usize, worker: usize, elements: usize| {
            Scratch::of_worker::<T>(base.get(1), offset, worker, elements)
        };
        self.workers.for_each_part_with_state(
            groups * blocks,
            |Assignment { worker, part: unit, .. }, cleared: &mut bool| {
                let planes = area(areas.planes, worker, planes_size);
                if !std::mem::replace(cleared, true) {
                    // Images are copied into planes, whose zeros are kept.
                    // SAFETY: the planes are this worker's.
                    unsafe { planes.write_bytes(0, planes_size) };
                }
                let (group, image) = (unit / blocks, unit % blocks * self.images);
                let images = self.images.min(windows.batch - image);
                let block = Block { image, images, origin: [0; 3], size: windows.output };
                let own = WorkerMemory {
                    tile: area(areas.tile, worker, tile_size),
                    rows: area(areas.rows, worker, rows_size),
                };
                // SAFETY: the tensors cover the group and the images; no two blocks and groups write the same outputs.
                unsafe {
                    let from = shared.all()[input.slot]
                        .add(group * channels * input.strides.channel * self.input_size);
                    let planes = self.planes.fill(from, *channels, &block, planes);
                    let weights = base.get(0).cast::<T>().cast_const();
                    self.multiply((group, &block), weights, planes, &own, shared.all());
                    if let Some(tile_epilogue) = &self.tile_epilogue {
                        tile_epilogue.run(shared.all(), &block, group * rows..(group + 1) * rows);
                    }
                }
            },
        );
    }
}

/// The most bytes of a panel of weights, which stays in the L2 cache while all outputs are computed with it.
pub(crate) const RESIDENT: usize = 256 << 10;

/// With fewer outputs, packing the weights for each execution does not pay.
pub(crate) const WORTH_PACKING: usize = 128;

/// Refuses rows of outputs that fill a vector, outputs in one contiguous row, output channels that do not
/// fill a vector, and so many weights that another algorithm is faster.
pub(crate) fn suits<T: Float>(operands: &Operands, isa: Isa, settings: Settings) -> Result<(), Refusal> {
    let kernel = AccumulatorTileKernel::<T>::of(isa);
    let Operands { windows, parts, rows, channels, .. } = operands;
    let taps = parts.iter().map(|part| part.taps.len()).max().unwrap_or(0);
    let outputs = windows.batch * windows.output.iter().product::<usize>();
    let (channel_blocks, _) = panels(*rows, &kernel);
    let panel = taps * channels * channel_blocks * kernel.channel_block * size_of::<T>();
    if operands.between.is_some() || windows.output[2] >= kernel.lanes {
        return Err(format!("rows of {} outputs, expected less than {}", windows.output[2], kernel.lanes));
    }
    if taps <= 1 && windows.stride == [1; 3] {
        return Err("the outputs are one contiguous row".to_owned());
    }
    if rows * 2 <= kernel.lanes {
        return Err(format!("{rows} output channels in a group, expected more than {}", kernel.lanes / 2));
    }
    // Above this, a faster algorithm exists for a single sub-problem.
    if panel > RESIDENT || (panel == RESIDENT && parts.len() == 1) {
        return Err(format!("a panel of weights has {panel} bytes, expected less than {RESIDENT}"));
    }
    if !settings.constant_weights && outputs < WORTH_PACKING {
        return Err(format!("{outputs} outputs, expected at least {WORTH_PACKING} to pack weights for"));
    }
    Ok(())
}
