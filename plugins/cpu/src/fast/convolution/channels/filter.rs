//! The gradient of the filter, with output channels along the vectors.
//!
//! The gradient of the output is transposed, so that each of its elements is a row of channels. Each lane has input channels
//! of its own, for which it goes through all images, so results do not depend on the number of lanes.

use std::sync::atomic::{AtomicBool, Ordering};

use hipdnn_plugin_sdk::graph::DataType;

use super::super::super::lanes::Lanes;
use super::super::super::level::Level;
use super::super::super::matmul::pack::{Copy, Pack, Store, Sums as Stored, copies_of};
use super::super::super::real::{FastReal, all_finite};
use super::super::super::scratch::{Scratch, Shared};
use super::super::super::settings::{Algorithm, Settings};
use super::super::filter::{Filter, Operands};
use super::super::shape::Cost;
use super::planes::Planes;
use super::tile::{MOST_ROWS, MOST_VECTORS, Sums, SumsKernel};
use super::{copied, panels};
use crate::kernel::{Kernel, Refusal};

/// Outputs of the images that are summed together, if there are as many.
const LEAST_OUTPUTS: usize = 256;

/// The gradient of a filter.
pub(in super::super) struct FilterChannels<T: 'static> {
    operands: Operands,
    level: Level,
    kernel: SumsKernel<T>,
    planes: Planes<T>,
    /// Where the outputs of a block's images begin in the planes, image by image.
    outputs: Vec<usize>,
    /// Outputs of an image, and images of a block.
    of_image: usize,
    images: usize,
    /// Vectors in a panel of output channels, and panels.
    vectors: usize,
    panels: usize,
    /// Input channels of a lane, at most.
    most: usize,
    lanes: Lanes,
    pack: Pack<T>,
    input_size: usize,
    gradient_size: usize,
    store: Store<T>,
    /// What computes where zeros stand for the padding and the output's gradient is not finite.
    exact: Option<Filter<T>>,
}

/// Offsets in the scratch memory.
struct Areas {
    planes: usize,
    gradients: usize,
    sums: usize,
}

/// Bytes of sums that stay in the second cache from one block of images to the next.
const RESIDENT: usize = 512 << 10;

/// Whether this form is for such a gradient: rows of outputs are shorter than a vector, and there are enough output channels
/// to fill one.
pub(in super::super) fn suits<T: FastReal>(operands: &Operands, level: Level, settings: Settings) -> bool {
    let kernel = SumsKernel::<T>::of(level);
    let Operands { windows, channels, rows, .. } = operands;
    let sums = channels * windows.taps.len() * rows.next_multiple_of(kernel.lanes);
    settings.convolution == Algorithm::Automatic
        && windows.output[2] < kernel.lanes
        && rows * 2 > kernel.lanes
        && sums * size_of::<T>() <= RESIDENT
}

impl<T: FastReal> FilterChannels<T> {
    pub(in super::super) fn plan(
        operands: Operands,
        level: Level,
        settings: Settings,
    ) -> Result<Self, Refusal> {
        let kernel = SumsKernel::<T>::of(level);
        let cost = Cost::of::<T>(level);
        let Operands { windows, groups, channels, rows, input, gradient, weights, taps } = &operands;
        let (vectors, panels) = panels(*rows, kernel.lanes, MOST_VECTORS);
        let width = vectors * panels * kernel.lanes;
        let of_image: usize = windows.output.iter().product();
        let outputs = (windows.batch * of_image) as f64;
        let pairs = (channels * taps.len()).next_multiple_of(kernel.rows);
        let copies = windows.batch * channels * windows.input.iter().product::<usize>();
        let work = *groups as f64
            * (outputs * (pairs * width) as f64 * cost.fused
                + copies as f64 * copied(&cost, windows.input[2])
                + outputs * width as f64 * copied(&cost, windows.output[2]));
        let lanes = settings.threads.lanes(work, *channels);
        let most = channels.div_ceil(lanes.count());
        let images = LEAST_OUTPUTS.div_ceil(of_image).min(windows.batch);
        let planes = Planes::plan(windows, *input, most, images)?;
        let outputs = planes.outputs(images, windows.output, windows.step);
        let exact = planes.are_padded().then(|| Filter::plan(operands.clone(), level, settings));
        let bytes = |data_type: DataType| data_type.size().unwrap_or(1);
        Ok(Self {
            level,
            kernel,
            outputs,
            of_image,
            images,
            vectors,
            panels,
            most,
            lanes,
            pack: copies_of("dy", gradient.data_type)?.0,
            input_size: bytes(input.data_type),
            gradient_size: bytes(gradient.data_type),
            store: copies_of("dw", weights.data_type)?.1,
            exact: exact.transpose()?,
            planes,
            operands,
        })
    }

    /// Numbers in a row of a panel.
    fn width(&self) -> usize {
        self.vectors * self.kernel.lanes
    }

    /// Numbers in a lane's planes, in its copy of the output's gradient, and in its sums.
    fn sizes(&self) -> [usize; 3] {
        let width = self.panels * self.width();
        let pairs = (self.most * self.operands.taps.len()).next_multiple_of(self.kernel.rows);
        [self.planes.numbers(), self.outputs.len() * width, pairs * width]
    }

    fn layout(&self, scratch: &mut Scratch) -> Areas {
        let [planes, gradients, sums] = self.sizes();
        let lanes = self.lanes.count();
        Areas {
            planes: scratch.area::<T>(planes, lanes),
            gradients: scratch.area::<T>(gradients, lanes),
            sums: scratch.area::<T>(sums, lanes),
        }
    }

    /// Copies the output's gradient of some images: for each panel and output a row of channels, zeros for those beyond the
    /// last.
    ///
    /// # Safety
    /// `from` is the group's first element, `to` has room for the rows.
    unsafe fn transpose(&self, from: *const u8, image: usize, images: usize, to: *mut T) {
        let Operands { windows, rows, gradient, .. } = &self.operands;
        let strides = &gradient.strides;
        let width = self.width();
        let [depth, height, _] = windows.output;
        // Outputs that follow each other are one line.
        let flat = strides.are_flat(windows.output);
        let lines = if flat { 1 } else { depth * height };
        let line = self.of_image / lines;
        for panel in 0..self.panels {
            let first = (panel * width).min(*rows);
            let columns = (rows - first).min(width);
            for number in 0..images * lines {
                let (n, at) = (number / lines, number % lines);
                let place = strides.offset(image + n, [at / height, at % height, 0]);
                // SAFETY: the tensor has the outputs, and the copy a row for each.
                unsafe {
                    let copy = Copy {
                        from: from.add((place + first * strides.channel) * self.gradient_size),
                        rows: line,
                        row: if flat { 1 } else { strides.spatial[2] },
                        columns,
                        column: strides.channel,
                        width,
                        pitch: width,
                    };
                    let row = panel * images * self.of_image + n * self.of_image + at * line;
                    (self.pack)(self.level, &copy, to.add(row * width));
                }
            }
        }
    }

    /// Adds the products of a block's images to the sums, or begins them; `channels` is a number of channels.
    ///
    /// # Safety
    /// Planes and gradients are those of the images, the sums have room for all rows.
    unsafe fn add(
        &self,
        (images, channels, add): (usize, usize, bool),
        planes: *const T,
        gradients: *const T,
        sums: *mut T,
    ) {
        let Operands { windows, .. } = &self.operands;
        let outputs = &self.outputs[..images * self.of_image];
        let (taps, width) = (windows.taps.len(), self.width());
        let pairs = channels * taps;
        let rounded = pairs.next_multiple_of(self.kernel.rows);
        for from in (0..pairs).step_by(self.kernel.rows) {
            // Rows beyond the last are computed like it.
            let mut places = [0; MOST_ROWS];
            for (i, place) in places.iter_mut().enumerate() {
                let pair = (from + i).min(pairs - 1);
                *place = self.planes.term(pair / taps, windows.taps[pair % taps]);
            }
            for panel in 0..self.panels {
                // SAFETY: the caller promises the memory.
                unsafe {
                    let right = gradients.add(panel * outputs.len() * width);
                    let tile = sums.add((panel * rounded + from) * width);
                    let sums = Sums { rows: &places, terms: outputs, from: planes, right, tile, add };
                    self.kernel.run(&sums, self.vectors);
                }
            }
        }
    }

    /// Writes the sums of some channels as weights.
    ///
    /// # Safety
    /// The sums are complete, `to` is the first channel's first weight of the group.
    unsafe fn store(&self, channels: usize, sums: *const T, to: *mut u8) {
        let Operands { rows, weights, taps, .. } = &self.operands;
        let width = self.width();
        let rounded = (channels * taps.len()).next_multiple_of(self.kernel.rows);
        let size = weights.data_type.size().unwrap_or(1);
        for panel in 0..self.panels {
            let first = (panel * width).min(*rows);
            for (tap, distance) in taps.iter().enumerate() {
                // SAFETY: the caller promises sums and weights.
                unsafe {
                    let sums = Stored {
                        from: sums.add((panel * rounded + tap) * width),
                        pitch: taps.len() * width,
                        rows: channels,
                        columns: (rows - first).min(width),
                        row: weights.channel,
                        column: weights.row,
                    };
                    (self.store)(self.level, &sums, to.add((distance + first * weights.row) * size));
                }
            }
        }
    }
}

impl<T: FastReal> Kernel for FilterChannels<T> {
    fn scratch_size(&self) -> usize {
        let mut scratch = Scratch::default();
        self.layout(&mut scratch);
        scratch.size().max(self.exact.as_ref().map_or(0, Kernel::scratch_size))
    }

    unsafe fn run(&self, tensors: &[*mut u8], scratch: *mut u8) {
        let Operands { windows, groups, channels, rows, input, gradient, weights, .. } = &self.operands;
        let areas = self.layout(&mut Scratch::default());
        let [planes_size, gradients_size, sums_size] = self.sizes();
        let base = Shared([tensors[input.slot], tensors[gradient.slot], tensors[weights.slot], scratch]);
        let weight_size = weights.data_type.size().unwrap_or(1);
        let finite = AtomicBool::new(true);
        self.lanes.run(|lane| {
            let own = self.lanes.share(lane, *channels);
            if own.is_empty() {
                return;
            }
            let area = |offset: usize, numbers: usize| {
                // SAFETY: the scratch memory has an area for each lane.
                unsafe { base.get(3).add(offset).cast::<T>().add(lane * Scratch::padded::<T>(numbers)) }
            };
            let planes = area(areas.planes, planes_size);
            let gradients = area(areas.gradients, gradients_size);
            let sums = area(areas.sums, sums_size);
            // SAFETY: the tensors cover all channels and images; the memory and the weights are this lane's.
            unsafe {
                // Images are copied into planes whose zeros stay.
                planes.write_bytes(0, planes_size);
                for group in 0..*groups {
                    let from = (group * channels + own.start) * input.strides.channel;
                    let from = base.get(0).add(from * self.input_size);
                    let dy = base.get(1).add(group * rows * gradient.strides.channel * self.gradient_size);
                    for image in (0..windows.batch).step_by(self.images) {
                        let images = self.images.min(windows.batch - image);
                        let filled = self.planes.fill(from, own.len(), (image, images), planes);
                        self.transpose(dy, image, images, gradients);
                        let numbers = images * self.of_image * self.panels * self.width();
                        if self.exact.is_some() && !all_finite(gradients, numbers) {
                            finite.store(false, Ordering::Relaxed);
                        }
                        self.add((images, own.len(), image > 0), filled, gradients, sums);
                    }
                    let first = group * weights.group + own.start * weights.channel;
                    self.store(own.len(), sums, base.get(2).add(first * weight_size));
                }
            }
        });
        if let Some(exact) = self.exact.as_ref().filter(|_| !finite.into_inner()) {
            // SAFETY: as the caller promises; there is scratch memory for either, and all weights are written again.
            unsafe { exact.run(tensors, scratch) };
        }
    }
}
