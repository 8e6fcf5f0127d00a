//! Dilated convolutions as convolutions without dilation: with a dilation d, outputs whose positions have the same
//! remainder modulo d meet only inputs with one remainder. These phases of the image are images of their own, with
//! longer strides, for which Winograd's algorithm is fast.

use hipdnn_plugin_sdk::graph::{PointwiseMode, Tensor};

use crate::conv::problem::Problem;
use crate::conv::shifted::{Plan, Shifted};
use crate::kernel::{Kernel, MAX_TENSORS, Refusal, algorithms};
use crate::layout::{Layout, MAX_RANK, element_bits};
use crate::pointwise::Epilogue;
use crate::pointwise::chain::{Chain, Operation};
use crate::problem::Operand;
use crate::problem::convolution::{Convolution, Direction};
use crate::settings::Algorithm;
use crate::simd::array::Each;

/// The most bytes of transformed filters, of which each kernel has its own.
const FILTERS: usize = 160 << 20;

/// Bytes of a transformed filter for each of its 9 elements: 36 values of single precision.
const TRANSFORMED: usize = 16;

/// Phases along an axis that have the same sizes.
struct Phases {
    /// The first output, and the first input that is not in the padding.
    output: usize,
    input: usize,
    /// How many phases, each one element after the one before.
    count: usize,
    /// The sizes of each.
    outputs: usize,
    inputs: usize,
    pre_padding: usize,
}

impl Phases {
    /// The phases of an axis; `None` if one has no input.
    fn of(c: &Convolution, axis: usize) -> Option<Vec<Self>> {
        let (dilation, padding) = (c.dilation[axis], c.pre_padding[axis]);
        let mut all: Vec<Self> = Vec::new();
        for output in 0..dilation.min(c.output[axis]) {
            // Its first window begins this many elements before the input, or inside.
            let before = padding.saturating_sub(output).div_ceil(dilation);
            let input = (output + before * dilation).checked_sub(padding)?;
            let inputs = c.input[axis].checked_sub(input)?.div_ceil(dilation);
            let outputs = (c.output[axis] - output).div_ceil(dilation);
            let phase = Self { output, input, count: 1, outputs, inputs, pre_padding: before };
            if inputs == 0 {
                return None;
            }
            match all.last_mut().filter(|last| last.continues_with(&phase)) {
                Some(last) => last.count += 1,
                None => all.push(phase),
            }
        }
        Some(all)
    }

    fn continues_with(&self, next: &Self) -> bool {
        let sizes = |phases: &Self| (phases.outputs, phases.inputs, phases.pre_padding);
        sizes(self) == sizes(next) && self.input + self.count == next.input
    }
}

/// A view of tensors [batch, channels, rows, columns] as [batch, channels, phases, rows, columns].
struct View<'a> {
    dilation: [usize; 2],
    phases: [&'a Phases; 2],
}

impl View<'_> {
    /// Whether phases of rows are in the place of images, since those of columns are the new dimension.
    fn has_two(&self) -> bool {
        self.dilation[0] > 1 && self.dilation[1] > 1
    }

    fn strides(&self, of: &[usize; MAX_RANK]) -> [usize; MAX_RANK] {
        let [batch, channel, row, column, ..] = *of;
        let mut strides = [0; MAX_RANK];
        strides[..5].copy_from_slice(&[
            if self.has_two() { row } else { batch },
            channel,
            if self.dilation[1] > 1 { column } else { row },
            row * self.dilation[0],
            column * self.dilation[1],
        ]);
        strides
    }

    fn operand(
        &self,
        operand: &Operand,
        [images, channels]: [usize; 2],
        size: [usize; 2],
    ) -> Result<Operand, Refusal> {
        let [rows, columns] = self.phases.map(|phases| phases.count);
        let batch = if self.has_two() { rows } else { images };
        let depth = if self.dilation[1] > 1 { columns } else { rows };
        let dims = [batch, channels, depth, size[0], size[1]].each(|dim| dim as i64);
        let strides = self.strides(&strides(operand));
        let strides: Vec<i64> = strides[..5].iter().map(|stride| *stride as i64).collect();
        let layout = Layout::of(&Tensor::new(0, operand.data_type, &dims, &strides))?;
        Ok(Operand { layout, ..*operand })
    }

    /// The convolution of these phases.
    fn convolution(&self, c: &Convolution) -> Result<Convolution, Refusal> {
        let [rows, columns] = self.phases;
        let (x, y) = ([rows.inputs, columns.inputs], [rows.outputs, columns.outputs]);
        let mut of = Convolution {
            x: self.operand(&c.x, [c.batch, c.groups * c.in_channels], x)?,
            y: self.operand(&c.y, [c.batch, c.groups * c.out_channels], y)?,
            spatial: 3,
            ..*c
        };
        let filter = c.w.layout.strides();
        let dims =
            [c.groups * c.out_channels, c.in_channels, 1, c.window[0], c.window[1]].each(|dim| dim as i64);
        let strides = [filter[0], filter[1], 1, filter[2], filter[3]].each(|stride| stride as i64);
        of.w.layout = Layout::of(&Tensor::new(0, c.w.data_type, &dims, &strides))?;
        let depth = of.x.layout.dims()[2];
        of.batch = of.x.layout.dims()[0];
        for (to, from) in [
            (&mut of.input, [depth, x[0], x[1]]),
            (&mut of.output, [depth, y[0], y[1]]),
            (&mut of.window, [1, c.window[0], c.window[1]]),
            (&mut of.stride, [1; 3]),
            (&mut of.dilation, [1; 3]),
            (&mut of.pre_padding, [0, rows.pre_padding, columns.pre_padding]),
        ] {
            to[..3].copy_from_slice(&from);
        }
        Ok(of)
    }
}

fn strides(operand: &Operand) -> [usize; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    strides[..operand.layout.rank()].copy_from_slice(operand.layout.strides());
    strides
}

/// Bytes of an element; none for parts of a byte.
fn size(operand: &Operand) -> Option<usize> {
    element_bits(operand.data_type).ok().filter(|bits| bits.is_multiple_of(8)).map(|bits| bits / 8)
}

/// Plans a dilated convolution, if `plan` chooses Winograd's algorithm for all of its phases.
pub(crate) fn plan(problem: &Problem<'_>, plan: Plan) -> Option<Box<dyn Kernel>> {
    let c = problem.convolution;
    let asked = problem.settings.convolution;
    let applies = c.direction == Direction::Forward
        && c.spatial == 2
        && c.window[..2] == [3, 3]
        && c.stride[..2] == [1, 1]
        && c.dilation[..2] != [1, 1]
        && c.in_channels > 1
        && matches!(asked, Algorithm::Automatic | Algorithm::Winograd | Algorithm::Winograd4);
    if !applies {
        return None;
    }
    let phases = [Phases::of(c, 0)?, Phases::of(c, 1)?];
    let filter = c.groups * c.out_channels * c.in_channels * 9 * TRANSFORMED;
    if phases[0].len() * phases[1].len() * filter > FILTERS {
        return None;
    }
    let parts = format!("{} phases", c.dilation[0] * c.dilation[1]);
    let mut all = Shifted { kernels: Vec::new(), runs: Vec::new(), parts };
    for rows in &phases[0] {
        for columns in &phases[1] {
            let view = View { dilation: [c.dilation[0], c.dilation[1]], phases: [rows, columns] };
            view.add_to(&mut all, problem, plan)?;
        }
    }
    Some(Box::new(all))
}

impl View<'_> {
    /// Adds the kernel of these phases.
    fn add_to(&self, all: &mut Shifted, problem: &Problem<'_>, plan: Plan) -> Option<()> {
        let (c, kernel) = (problem.convolution, all.kernels.len());
        let of = self.convolution(c).ok()?;
        let (mut chain, mut output) = (Chain::default(), c.y);
        if let Some(epilogue) = &problem.epilogue {
            chain = epilogue.chain.clone();
            let [rows, columns] = self.phases;
            let size = [rows.outputs, columns.outputs];
            output = self.operand(epilogue.output, [c.batch, c.groups * c.out_channels], size).ok()?;
            let is_of_elements = |operation: &Operation| matches!(operation, Operation::Pointwise(mode, _) if *mode != PointwiseMode::GenIndex);
            if !chain.steps.iter().all(|step| is_of_elements(&step.operation)) {
                return None;
            }
            for input in &mut chain.inputs {
                input.strides = self.strides(&input.strides);
            }
        }
        let epilogue = problem.epilogue.as_ref().map(|epilogue| Epilogue {
            chain: &chain,
            output: &output,
            ..*epilogue
        });
        let of = Problem::new(&of, problem.compute, problem.isa, problem.settings, epilogue);
        let planned = plan(&of).ok()?;
        let is_winograd =
            |name: &&str| [Algorithm::Winograd.name(), Algorithm::Winograd4.name()].contains(name);
        algorithms(&*planned).first().filter(|name| is_winograd(name))?;
        all.kernels.push(planned);
        // Phases of rows take the place of images.
        for image in 0..if self.has_two() { c.batch } else { 1 } {
            all.runs.push((kernel, self.offsets(c, problem.epilogue.as_ref(), image)?));
        }
        Some(())
    }

    /// Where each tensor's first phase begins, in bytes; `None` if a tensor is read at two places.
    fn offsets(
        &self,
        c: &Convolution,
        epilogue: Option<&Epilogue<'_>>,
        image: usize,
    ) -> Option<[usize; MAX_TENSORS]> {
        let [rows, columns] = self.phases;
        let mut offsets = [None; MAX_TENSORS];
        let mut add = |slot: usize, strides: &[usize; MAX_RANK], at: [usize; 2], size: usize| {
            let [batch, _, row, column, ..] = *strides;
            let offset = (image * batch + at[0] * row + at[1] * column) * size;
            let known = offsets.get_mut(slot)?;
            (*known.get_or_insert(offset) == offset).then_some(())
        };
        let outputs = [rows.output, columns.output];
        add(c.x.slot, &strides(&c.x), [rows.input, columns.input], size(&c.x)?)?;
        add(c.y.slot, &strides(&c.y), outputs, size(&c.y)?)?;
        add(c.w.slot, &[0; MAX_RANK], [0; 2], 1)?;
        if let Some(Epilogue { chain, output, .. }) = epilogue {
            add(output.slot, &strides(output), outputs, size(output)?)?;
            for input in &chain.inputs {
                let bits = element_bits(input.data_type).ok().filter(|bits| bits.is_multiple_of(8))?;
                add(input.slot, &input.strides, outputs, bits / 8)?;
            }
        }
        Some(offsets.map(Option::unwrap_or_default))
    }
}
