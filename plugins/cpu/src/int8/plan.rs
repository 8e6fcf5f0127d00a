//! Plans how a product is divided into blocks of rows, panels of columns and workers.

use hipdnn_plugin_sdk::graph::DataType;

use crate::gemm::byte_kernel::{ByteKernel, Form, MAX_ROWS};
use crate::gemm::byte_tile::GROUP;
use crate::int8::epilogue::{MAX_POST_OPS, Round, Stages};
use crate::int8::panels::Panels;
use crate::int8::problem::{Axis, Problem, WINDOW};
use crate::int8::product::{self, Product, Staging};
use crate::int8::store::Kind;
use crate::kernel::Refusal;
use crate::pointwise::elements::BlockEpilogue;
use crate::settings::Settings;
use crate::simd::isa::Isa;
use crate::tensor::prepacked::Prepacked;
use crate::tensor::store::PackedForm;

/// Bytes of a block of rows: half of the L2 cache.
const BLOCK: usize = 768 << 10;

/// The most rows in a block.
const BLOCK_ROWS: usize = 256;

/// The most words of packed weights, rounded up to groups of columns.
const MAX_WORDS: f64 = 1e12;

/// Row strides at which the rows of a tile compete for few sets of the L1 cache.
const CROWDED: usize = 1024;

/// Estimated nanoseconds to pack a byte of weights, to copy a byte of x, and to finish a result.
const PACK: f64 = 1.0;
const COPY: f64 = 0.03;
const FINISH: f64 = 0.2;

/// The kind of results for an output type.
pub(crate) fn kind_of(stages: &Stages, output: DataType) -> Result<Kind, Refusal> {
    let quantize = stages.scaled.as_ref().map(|scaled| scaled.quantize);
    let kind = match (output, quantize) {
        (DataType::Int32, None) => Kind::Accumulators,
        (DataType::Int8 | DataType::Uint8, None) => Kind::Bytes { is_signed: output == DataType::Int8 },
        (DataType::Float, Some(None)) => Kind::Floats,
        (DataType::Int8 | DataType::Uint8, Some(quantize)) => {
            quantize.map_or(Kind::Quantized { divides: false, round: Round::Cut }, |quantize| {
                Kind::Quantized { divides: quantize.divides, round: quantize.round }
            })
        }
        (other, _) => {
            return Err(format!("y: data type is {}, expected int32, int8, uint8 or float", other.name()));
        }
    };
    let count = stages.post_ops.len();
    if count > MAX_POST_OPS || (count > 0 && !matches!(kind, Kind::Quantized { .. })) {
        return Err(format!("{count} stages after bytes, expected at most {MAX_POST_OPS}, after a scale"));
    }
    Ok(kind)
}

impl Product {
    /// Plans a product with its stages, or with an epilogue on blocks of its result.
    pub(crate) fn plan(
        algorithm: &'static str,
        mut problem: Problem,
        stages: Stages,
        epilogue: Option<Box<dyn BlockEpilogue>>,
        (isa, form): (Isa, Option<Form>),
        settings: Settings,
    ) -> Result<Self, Refusal> {
        let kind = kind_of(&stages, problem.y.data_type)?;
        if let Some(residual) = stages.residual() {
            problem.add(&residual.strides);
        }
        if epilogue.is_none() {
            problem.merge();
        }
        let rows = problem.rows();
        let sizes = [rows, problem.columns, problem.terms(), problem.group_count()];
        if sizes.contains(&0) {
            return Err(format!("rows, columns, terms and groups are {sizes:?}, expected at least 1"));
        }
        let kernel = ByteKernel::of(form.unwrap_or_else(|| Form::fastest(isa, rows)));
        let panels = Panels::of(&problem, kernel.groups, kernel.terms);
        // Rounded up to whole tiles, the weights of many small groups grow considerably.
        let words = problem.group_count() as f64 * panels.groups as f64 * (panels.words + 1) as f64;
        if words > MAX_WORDS {
            return Err(format!(
                "packed weights have {words:e} groups of words, expected at most {MAX_WORDS:e}"
            ));
        }
        let staging = Staging::of(&mut problem);
        let groups = problem.group_count();
        let len = panels.words * 4;
        let in_place = problem.windows.is_none()
            && staging.is_none()
            && (problem.x.channel == 1 || problem.channels == 1)
            && problem.positions.len() <= 1
            && problem.terms() == len
            && (kernel.takes_signed || !problem.x.is_signed);
        let stride = if len.is_multiple_of(CROWDED) { len + 64 } else { len };
        let computed = (rows * panels.groups * GROUP) as f64 * groups as f64;
        let time =
            computed * (len as f64 * kernel.form.time() + FINISH) + (rows * len * groups) as f64 * COPY;
        let wanted = settings.threads.workers(time, usize::MAX).count();
        let most = (BLOCK / stride / MAX_ROWS * MAX_ROWS).clamp(MAX_ROWS, BLOCK_ROWS);
        let blocks = rows.div_ceil(most).max(wanted.div_ceil(groups).min(rows / kernel.rows)).max(1);
        let rows_of_block = rows.div_ceil(blocks).next_multiple_of(kernel.rows);
        let blocks = rows.div_ceil(rows_of_block);
        let chunks = wanted.div_ceil(groups * blocks).min(panels.panels);
        let workers = settings.threads.workers(time, groups * blocks * chunks);
        let packed = groups * panels.all_words();
        let packed_form = settings.shares_weights.then(|| packed_form(&problem, &panels).on(isa));
        let pack_time = (groups * panels.panel_words() * 4) as f64 * PACK;
        let staged = staging.as_ref().map_or(0, |staging| staging.parts());
        let stage_time = (staged * product::STAGED * problem.channels) as f64 * COPY * 4.0;
        Ok(Self {
            algorithm,
            stages,
            epilogue,
            kind,
            isa,
            kernel,
            panels,
            in_place,
            stride,
            rows_of_block,
            blocks,
            chunks,
            workers,
            pack_workers: settings.threads.workers(pack_time, groups * panels.panels),
            stage_workers: settings.threads.workers(stage_time, staged.max(1)),
            prepacked: Prepacked::in_large_pages(packed, settings.constant_weights, packed_form),
            staging,
            problem,
        })
    }
}

/// The packed form of the weights.
fn packed_form(problem: &Problem, panels: &Panels) -> PackedForm {
    let Problem { w, channels, columns, mirrored, .. } = problem;
    let of_panels = [panels.groups, panels.panels, panels.words];
    let form = PackedForm::new("int8", 0).and(of_panels).and([*channels, *columns, w.channel, w.column]);
    let form = form.and([usize::from(w.is_signed), usize::from(*mirrored), problem.groups.len()]);
    let form = form.and(problem.groups.iter().flat_map(|axis| [axis.size, axis.w]));
    form.and(problem.windows.iter().flatten().flat_map(|window| [window.size, window.w]))
}

impl Staging {
    /// The copy of x that a problem needs: if it has a window and channels that are not contiguous. The
    /// problem then reads the copy.
    pub(crate) fn of(problem: &mut Problem) -> Option<Self> {
        let windows = problem.windows.as_mut()?;
        if problem.x.channel == 1 || problem.channels * problem.groups.len().max(1) == 1 {
            return None;
        }
        let groups: usize = problem.groups.iter().map(|axis| axis.size).product();
        let channels = problem.channels * groups;
        let spatial = problem.positions.len() - 1;
        let batch = problem.positions[0];
        // The strides of a dense copy, innermost first.
        let mut stride = channels;
        let mut positions = Vec::new();
        for i in (WINDOW - spatial..WINDOW).rev() {
            let window = &mut windows[i];
            let axis = &mut problem.positions[1 + i + spatial - WINDOW];
            positions.push(Axis { size: window.input, x: window.x, y: stride, ..*axis });
            window.x = stride;
            axis.x = window.stride * stride;
            stride *= window.input;
        }
        positions.push(Axis { y: stride, ..batch });
        problem.positions[0].x = stride;
        for axis in &mut problem.groups {
            axis.x = problem.channels;
        }
        positions.reverse();
        let staging = Self { positions: merged(positions), channels, channel: problem.x.channel };
        problem.x.channel = 1;
        Some(staging)
    }
}

/// Merges neighbouring axes that are contiguous in x.
fn merged(axes: Vec<Axis>) -> Vec<Axis> {
    let mut merged: Vec<Axis> = Vec::new();
    for axis in axes.into_iter().filter(|axis| axis.size > 1) {
        match merged.last_mut() {
            Some(outer) if outer.x == axis.x * axis.size => {
                *outer = Axis { size: outer.size * axis.size, ..axis };
            }
            _ => merged.push(axis),
        }
    }
    merged
}
