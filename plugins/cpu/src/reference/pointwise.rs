//! Pointwise operations, element by element.

use hipdnn_plugin_sdk::graph::{DataType, PointwiseMode};

use crate::dtype::element::ComputeType;
use crate::kernel::{Kernel, Refusal};
use crate::layout::{Layout, MAX_RANK, Walk};
use crate::pointwise::scalar::{ActivationParameters, Function, function};
use crate::problem::pointwise::{Activation, Pointwise};
use crate::reference::kernel::Reference;
use crate::tensor::view::{Memory, Pointers};

/// The result, and up to three operands with their strides over its dims.
struct Loops<R> {
    function: Function<R>,
    parameters: ActivationParameters<R>,
    layout: Layout,
    output: Memory<R>,
    inputs: [Option<Memory<R>>; 3],
    strides: [[usize; MAX_RANK]; 3],
}

/// The index along an axis, written as a double so that large ones are exact in any compute type.
struct Index {
    layout: Layout,
    axis: usize,
    output: Memory<f64>,
}

pub(crate) fn plan<R: ComputeType>(problem: Pointwise) -> Result<Box<dyn Kernel>, Refusal> {
    let layout = problem.output.layout;
    let Some(function) = function::<R>(problem.mode) else {
        let output = Memory::of_any("out_0", &problem.output)?;
        return Ok(Box::new(Index { layout, axis: problem.axis, output }));
    };
    let mut inputs = [None; 3];
    let mut strides = [[0; MAX_RANK]; 3];
    let operands = inputs.iter_mut().zip(&mut strides).zip(["in_0", "in_1", "in_2"]);
    for (input, ((memory, stride), name)) in problem.inputs.iter().zip(operands) {
        *memory = Some(Memory::of_any(name, &input.operand)?);
        *stride = input.strides;
    }
    let parameters = ActivationParameters::of(&problem.activation);
    let output = Memory::of_any("out_0", &problem.output)?;
    Ok(Box::new(Loops { function, parameters, layout, output, inputs, strides }))
}

/// Refuses modes without an exact meaning in integer and boolean compute types.
pub(crate) fn check_exact(problem: &Pointwise, compute: DataType) -> Result<(), Refusal> {
    use PointwiseMode as M;
    let of_both = problem.mode.is_logical()
        || matches!(
            problem.mode,
            M::Identity | M::Add | M::Mul | M::Max | M::Min | M::BinarySelect | M::GenIndex
        );
    let of_integers = matches!(
        problem.mode,
        M::Abs | M::Neg | M::Ceil | M::Floor | M::Sub | M::Div | M::AddSquare | M::ReluFwd | M::ReluBwd
    );
    if !(of_both || of_integers && compute == DataType::Int32) {
        let (mode, compute) = (problem.mode.name(), compute.name());
        return Err(format!(
            "operation: is {mode} in compute type {compute}, expected a floating-point compute type"
        ));
    }
    let Activation { lower_clip, upper_clip, lower_clip_slope, .. } = problem.activation;
    let numbers = [lower_clip, upper_clip.unwrap_or(0.0), lower_clip_slope];
    if matches!(problem.mode, M::ReluFwd | M::ReluBwd) && numbers.iter().any(|number| number.fract() != 0.0) {
        return Err(format!("clips and slope are {numbers:?}, expected integers in compute type int32"));
    }
    Ok(())
}

impl<R: ComputeType> Reference for Loops<R> {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let output = self.output.bind(tensors);
        let inputs = self.inputs.map(|input| input.map(|memory| memory.bind(tensors)));
        let [x, y, z] = &self.strides;
        for (_, [out_at, offsets @ ..]) in Walk::new(self.layout.dims(), [self.layout.strides(), x, y, z]) {
            let mut operands = [R::ZERO; 3];
            for ((operand, input), at) in operands.iter_mut().zip(&inputs).zip(offsets) {
                *operand = input.as_ref().map_or(R::ZERO, |input| input.get(at));
            }
            output.set(out_at, (self.function)(operands, &self.parameters));
        }
    }
}

impl Reference for Index {
    fn compute(&self, tensors: Pointers<'_>, _: &mut [f64]) {
        let output = self.output.bind(tensors);
        for (index, [at]) in Walk::new(self.layout.dims(), [self.layout.strides()]) {
            output.set(at, index.get(self.axis).copied().unwrap_or(0) as f64);
        }
    }
}
