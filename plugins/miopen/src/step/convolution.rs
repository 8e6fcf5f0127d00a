//! Convolutions, computed by the solutions that MIOpen finds.

mod margin;

use std::ffi::{c_int, c_void};
use std::ptr;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::layout::storage_size;
use hipdnn_plugin_planner::problem::Operand;
use hipdnn_plugin_planner::problem::convolution::{Convolution, Direction, MAX_SPATIAL};
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::graph::DataType;

use super::{Design, Step, Tensors};
use crate::handle::Ready;
use crate::knob::{Options, PAD_IN_WORKSPACE};
use crate::miopen::{
    CONVOLUTION, CONVOLUTION_DETERMINISTIC, CONVOLUTION_W, CONVOLUTION_X, CONVOLUTION_Y, DIRECTION_BACKWARD,
    DIRECTION_BACKWARD_WEIGHTS, DIRECTION_FORWARD, Miopen, MiopenError,
};
use crate::object::Object;
use crate::operand::{ImageLayout, Shape, image, int, same_type, strides};
use crate::solution::{Solution, Subject, argument, describe};
use margin::{Margin, MarginStep};

/// A convolution described for MIOpen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionDesign {
    /// MIOpen's direction.
    pub(super) direction: c_int,
    x: Shape,
    w: Shape,
    /// The shape of y.
    pub(super) y: Shape,
    /// Slots of x, w and y among the operation's tensors.
    pub(super) slots: [usize; 3],
    padding: Vec<c_int>,
    stride: Vec<c_int>,
    dilation: Vec<c_int>,
    groups: c_int,
    /// The padding that MIOpen does not support, and the first dimension that has some.
    margin: Option<(Margin, usize)>,
}

/// How one spatial dimension of x is padded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Padding {
    /// By MIOpen, on both sides.
    both: usize,
    /// Additional zeros before and behind, added by the plugin.
    front: usize,
    back: usize,
}

impl Padding {
    /// The padding of a dimension of `input` elements that yields `output` windows.
    fn of(pre: usize, input: usize, window: usize, stride: usize, output: usize) -> Self {
        // Symmetric padding may yield the same size.
        let both_sides = pre.saturating_mul(2).saturating_add(input);
        let symmetric = both_sides.checked_sub(window).map(|room| room / stride + 1);
        if symmetric == Some(output) {
            return Self { both: pre, front: 0, back: 0 };
        }
        // Zeros that no window reaches are omitted.
        let reached = output.saturating_sub(1).saturating_mul(stride).saturating_add(window);
        let post = reached.saturating_sub(pre.saturating_add(input));
        let both = pre.min(post);
        Self { both, front: pre - both, back: post - both }
    }
}

impl ConvolutionDesign {
    /// A convolution.
    ///
    /// # Errors
    /// The first feature that MIOpen does not support.
    pub fn of(convolution: &Convolution) -> Result<Self, Refusal> {
        let Convolution { x, w, y, spatial, .. } = convolution;
        if convolution.mirrored {
            return Err("conv_mode: is CONVOLUTION, expected CROSS_CORRELATION".to_owned());
        }
        if *spatial > 3 {
            return Err(format!("x: has {spatial} spatial dimensions, expected at most 3"));
        }
        for (name, operand) in [("w", w), ("y", y)] {
            same_type(name, operand.data_type, "x", x.data_type)?;
        }
        let mut padding = [Padding::default(); MAX_SPATIAL];
        for (axis, padding) in padding.iter_mut().enumerate().take(*spatial) {
            let at = |values: &[usize]| values.get(axis).copied().unwrap_or_default();
            let window = at(&convolution.dilation) * (at(&convolution.window).saturating_sub(1)) + 1;
            *padding = Padding::of(
                at(&convolution.pre_padding),
                at(&convolution.input),
                window,
                at(&convolution.stride),
                at(&convolution.output),
            );
        }
        let layout = ImageLayout::common(&[("x", x), ("w", w), ("y", y)])?;
        let numbers = |name: &str, values: &[usize], neutral: c_int| -> Result<Vec<c_int>, Refusal> {
            let mut ints =
                values.iter().take(*spatial).map(|value| int(name, *value)).collect::<Result<Vec<_>, _>>()?;
            // One spatial dimension is treated as two, the first of size 1.
            if *spatial == 1 {
                ints.insert(0, neutral);
            }
            Ok(ints)
        };
        let image_of_x = image("x", x, layout)?;
        let (padded, margin) = match padding.iter().position(|padding| padding.front + padding.back > 0) {
            None => (image_of_x, None),
            Some(axis) => {
                let (padded, margin) =
                    with_margin(image_of_x, x, layout, padding.get(..*spatial).unwrap_or_default())?;
                (padded, Some((margin, axis)))
            }
        };
        Ok(Self {
            direction: match convolution.direction {
                Direction::Forward => DIRECTION_FORWARD,
                Direction::BackwardData => DIRECTION_BACKWARD,
                Direction::BackwardFilter => DIRECTION_BACKWARD_WEIGHTS,
            },
            x: padded,
            margin,
            w: image("w", w, layout)?,
            y: image("y", y, layout)?,
            slots: [x.slot, w.slot, y.slot],
            padding: numbers("pre_padding", &padding.map(|padding| padding.both), 0)?,
            stride: numbers("stride", &convolution.stride, 1)?,
            dilation: numbers("dilation", &convolution.dilation, 1)?,
            groups: int("groups", convolution.groups)?,
        })
    }

    /// Whether the plugin pads x itself.
    pub(super) fn has_margin(&self) -> bool {
        self.margin.is_some()
    }

    fn descriptor(&self, miopen: &Miopen, options: &Options) -> Result<Object, MiopenError> {
        let mut descriptor = ptr::null_mut();
        // SAFETY: the function writes only to the local `descriptor`, and the new object is owned at once.
        let object = unsafe {
            miopen.check(
                "miopenCreateConvolutionDescriptor",
                (miopen.miopenCreateConvolutionDescriptor)(&mut descriptor),
            )?;
            Object::new(descriptor, miopen.miopenDestroyConvolutionDescriptor)
        };
        // SAFETY: each array has as many numbers as there are spatial dimensions.
        unsafe {
            miopen.check(
                "miopenInitConvolutionNdDescriptor",
                (miopen.miopenInitConvolutionNdDescriptor)(
                    descriptor,
                    self.padding.len() as c_int,
                    self.padding.as_ptr(),
                    self.stride.as_ptr(),
                    self.dilation.as_ptr(),
                    CONVOLUTION,
                ),
            )?;
        }
        // SAFETY: `object` owns the descriptor, which the call above has initialized.
        unsafe {
            miopen.check(
                "miopenSetConvolutionGroupCount",
                (miopen.miopenSetConvolutionGroupCount)(descriptor, self.groups),
            )?;
            if options.deterministic {
                miopen.check(
                    "miopenSetConvolutionAttribute",
                    (miopen.miopenSetConvolutionAttribute)(descriptor, CONVOLUTION_DETERMINISTIC, 1),
                )?;
            }
            if let Some(mode) = options.find_mode {
                miopen.check(
                    "miopenSetConvolutionFindMode",
                    (miopen.miopenSetConvolutionFindMode)(descriptor, mode),
                )?;
            }
        }
        Ok(object)
    }
}

impl Subject for ConvolutionDesign {
    const MAY_FAIL: bool = false;

    fn problem(&self, miopen: &Miopen, options: &Options) -> Result<Object, MiopenError> {
        let convolution = self.descriptor(miopen, options)?;
        let mut problem = ptr::null_mut();
        // SAFETY: the function writes only to the local `problem`, and the new object is owned at once.
        let problem = unsafe {
            let status = (miopen.miopenCreateConvProblem)(&mut problem, convolution.get(), self.direction);
            miopen.check("miopenCreateConvProblem", status)?;
            Object::new(problem, miopen.miopenDestroyProblem)
        };
        for (id, shape) in [(CONVOLUTION_X, &self.x), (CONVOLUTION_W, &self.w), (CONVOLUTION_Y, &self.y)] {
            describe(miopen, &problem, id, &shape.descriptor(miopen)?)?;
        }
        Ok(problem)
    }
}

/// The image of x with zeros around it, and its copy operation.
fn with_margin(
    image_of_x: Shape,
    x: &Operand,
    layout: ImageLayout,
    padding: &[Padding],
) -> Result<(Shape, Margin), Refusal> {
    // MIOpen's strided copy has no kernel for bfloat16.
    if x.data_type == DataType::Bfloat16 {
        return Err("x: data type is bfloat16, expected float or half with asymmetric padding".to_owned());
    }
    let mut front = vec![0; image_of_x.dims.len()];
    let mut dims: Vec<usize> =
        image_of_x.dims.iter().map(|dim| usize::try_from(*dim).unwrap_or_default()).collect();
    // The spatial dimensions are the last ones, even if another one was prepended.
    let places = front.iter_mut().rev().zip(dims.iter_mut().rev());
    for ((front, dim), padding) in places.zip(padding.iter().rev()) {
        *front = padding.front;
        *dim = dim.saturating_add(padding.front).saturating_add(padding.back);
    }
    let elements = dims.iter().try_fold(1_usize, |product, dim| product.checked_mul(*dim));
    if elements.is_none_or(|elements| c_int::try_from(elements).is_err()) {
        return Err(format!(
            "x: dims {dims:?} with the padding, expected at most {} elements with asymmetric padding",
            c_int::MAX
        ));
    }
    let padded = Shape::new("x", x.data_type, &dims, &strides(&dims, layout))?;
    let margin = Margin::new(image_of_x, &padded, &front, storage_size(x.data_type, 1)?)?;
    Ok((padded, margin))
}

impl Design for ConvolutionDesign {
    fn check(&self, miopen: &Miopen) -> Result<(), PluginError> {
        self.margin.as_ref().map_or(Ok(()), |_| margin::check(miopen))
    }

    fn make(&self, ready: &Ready<'_>, options: &Options, saved: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        let mut options = options.clone();
        let margin = match &self.margin {
            Some((_, axis)) if options.keeps_padding => {
                return Err(PluginError::not_applicable(format!(
                    "post_padding[{axis}]: is not pre_padding[{axis}], which MIOpen pads by on both sides, and {PAD_IN_WORKSPACE} is 0"
                )));
            }
            Some((margin, _)) => Some(margin.make(ready.runtime.miopen)?),
            None => None,
        };
        // The padded image reduces the solution's workspace limit.
        if let (Some(margin), Some(limit)) = (&margin, &mut options.workspace_size_limit) {
            *limit = limit.checked_sub(margin.size()).ok_or_else(|| {
                PluginError::not_applicable(format!(
                    "x with its padding takes {} bytes of workspace, more than the limit of {limit}",
                    margin.size()
                ))
            })?;
        }
        let solution = Solution::of(ready, &options, self, saved)?.ok_or_else(|| {
            PluginError::not_applicable("MIOpen finds no solution for the convolution with these settings")
        })?;
        Ok(Box::new(ConvolutionStep { solution, slots: self.slots, direction: self.direction, margin }))
    }
}

struct ConvolutionStep {
    solution: Solution,
    slots: [usize; 3],
    direction: c_int,
    margin: Option<MarginStep>,
}

impl Step for ConvolutionStep {
    fn call(&self) -> &'static str {
        "miopenRunSolution"
    }

    fn workspace_size(&self) -> usize {
        self.margin.as_ref().map_or(0, MarginStep::size) + self.solution.workspace_size()
    }

    fn saved(&self) -> &[u8] {
        self.solution.saved()
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let [x, w, y] = self.slots.map(|slot| tensors.at(slot));
        let mut x_of_solution = x;
        let mut rest = workspace;
        if let Some(margin) = &self.margin {
            x_of_solution = workspace;
            rest = workspace.wrapping_byte_add(margin.size());
            if self.direction != DIRECTION_BACKWARD {
                // SAFETY: the workspace has room for the padded image, and the tensors are valid for their extent, as this function
                // requires.
                unsafe { margin.pad(ready, x, workspace) }?;
            }
        }
        let arguments =
            [argument(CONVOLUTION_X, x_of_solution), argument(CONVOLUTION_W, w), argument(CONVOLUTION_Y, y)];
        // SAFETY: the tensors are those of the problem, valid until the work is done, and the rest of the workspace has the solution's
        // size, as this function requires.
        unsafe { self.solution.run(ready, &arguments, rest) }?;
        match &self.margin {
            // SAFETY: x and the workspace are valid; the gradient of the zeros is not read.
            Some(margin) if self.direction == DIRECTION_BACKWARD => unsafe {
                margin.cut(ready, workspace, x)
            },
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asymmetric_padding_is_separated() {
        let of = |pre, input, window, stride, output| {
            let Padding { both, front, back } = Padding::of(pre, input, window, stride, output);
            [both, front, back]
        };
        assert_eq!(of(1, 5, 3, 1, 5), [1, 0, 0]);
        // More behind; more before.
        assert_eq!(of(0, 5, 3, 1, 4), [0, 0, 1]);
        assert_eq!(of(2, 5, 3, 1, 6), [1, 1, 0]);
        // Size 8 with a stride of 2: one zero behind yields as many windows as one before.
        assert_eq!(of(0, 8, 3, 2, 4), [0, 0, 1]);
        // As many windows fit without reaching the zero behind.
        assert_eq!(of(1, 8, 3, 2, 4), [1, 0, 0]);
        assert_eq!(of(3, 8, 3, 2, 5), [0, 3, 0]);
        // A window larger than the input.
        assert_eq!(of(0, 1, 4, 1, 1), [0, 0, 3]);
        // No overflow.
        assert_eq!(of(usize::MAX, 1, 1, 1, 1), [0, usize::MAX, 0]);
    }
}
