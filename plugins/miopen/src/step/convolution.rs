//! Convolutions, by the solutions that MIOpen finds.

use std::ffi::{c_int, c_void};
use std::ptr;

use hipdnn_plugin_problem::Refusal;
use hipdnn_plugin_problem::problem::convolution::{Convolution, Direction};
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::graph::{Graph, Operation};

use super::{Design, Step, Tensors};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{
    CONVOLUTION, CONVOLUTION_DETERMINISTIC, CONVOLUTION_W, CONVOLUTION_X, CONVOLUTION_Y, DIRECTION_BACKWARD,
    DIRECTION_BACKWARD_WEIGHTS, DIRECTION_FORWARD, Miopen, MiopenError,
};
use crate::object::Object;
use crate::operand::{ImageLayout, Shape, image, int};
use crate::solution::{Solution, Subject, argument, describe};

/// A convolution in MIOpen's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionDesign {
    /// MIOpen's direction.
    pub(super) direction: c_int,
    x: Shape,
    w: Shape,
    /// The shape of y.
    pub(super) y: Shape,
    /// Places of x, w and y among the operation's tensors.
    pub(super) slots: [usize; 3],
    padding: Vec<c_int>,
    stride: Vec<c_int>,
    dilation: Vec<c_int>,
    groups: c_int,
}

impl ConvolutionDesign {
    /// The convolution that an operation asks for.
    ///
    /// # Errors
    /// The first thing that MIOpen does not do.
    pub fn of(graph: &Graph, operation: &Operation) -> Result<Self, Refusal> {
        let convolution = Convolution::of(graph, operation).ok_or("operation: is no convolution")??;
        let Convolution { x, w, y, spatial, .. } = &convolution;
        if convolution.mirrored {
            return Err("conv_mode: is CONVOLUTION, expected CROSS_CORRELATION".to_owned());
        }
        if *spatial > 3 {
            return Err(format!("x: has {spatial} spatial dimensions, expected at most 3"));
        }
        for (name, operand) in [("w", w), ("y", y)] {
            if operand.data_type != x.data_type {
                return Err(format!(
                    "{name}: data type is {}, expected {} as in x",
                    operand.data_type.name(),
                    x.data_type.name()
                ));
            }
        }
        for axis in 0..*spatial {
            let at = |values: &[usize]| values.get(axis).copied().unwrap_or_default();
            let window = at(&convolution.dilation) * (at(&convolution.window).saturating_sub(1)) + 1;
            // The convolution with as many zeros behind as before must have the same size.
            let symmetric = (at(&convolution.input) + 2 * at(&convolution.pre_padding))
                .checked_sub(window)
                .map(|room| room / at(&convolution.stride) + 1);
            if symmetric != Some(at(&convolution.output)) {
                return Err(format!(
                    "post_padding[{axis}]: makes the output {} long, expected one that is {} long as with pre_padding on both sides",
                    at(&convolution.output),
                    symmetric.map_or_else(|| "not".to_owned(), |size| size.to_string())
                ));
            }
        }
        let layout = ImageLayout::common(&[("x", x), ("w", w), ("y", y)])?;
        let numbers = |name: &str, values: &[usize], neutral: c_int| -> Result<Vec<c_int>, Refusal> {
            let mut ints =
                values.iter().take(*spatial).map(|value| int(name, *value)).collect::<Result<Vec<_>, _>>()?;
            // One dimension is computed as two, of which the first is 1.
            if *spatial == 1 {
                ints.insert(0, neutral);
            }
            Ok(ints)
        };
        Ok(Self {
            direction: match convolution.direction {
                Direction::Forward => DIRECTION_FORWARD,
                Direction::BackwardData => DIRECTION_BACKWARD,
                Direction::BackwardFilter => DIRECTION_BACKWARD_WEIGHTS,
            },
            x: image("x", x, layout)?,
            w: image("w", w, layout)?,
            y: image("y", y, layout)?,
            slots: [x.slot, w.slot, y.slot],
            padding: numbers("pre_padding", &convolution.pre_padding, 0)?,
            stride: numbers("stride", &convolution.stride, 1)?,
            dilation: numbers("dilation", &convolution.dilation, 1)?,
            groups: int("groups", convolution.groups)?,
        })
    }

    fn descriptor(&self, miopen: &Miopen, options: &Options) -> Result<Object, MiopenError> {
        let mut descriptor = ptr::null_mut();
        // SAFETY: the output is valid, and what is made is taken over at once.
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

    /// The problem that MIOpen looks for solutions of.
    ///
    /// # Errors
    /// MIOpen's.
    pub fn problem(&self, miopen: &Miopen, options: &Options) -> Result<Object, MiopenError> {
        let convolution = self.descriptor(miopen, options)?;
        let mut problem = ptr::null_mut();
        // SAFETY: the output is valid, and what is made is taken over at once.
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

impl Design for ConvolutionDesign {
    fn make(&self, ready: &Ready<'_>, options: &Options, saved: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        let subject = Subject::Convolution(self.clone());
        let solution = Solution::of(ready, options, subject, saved)?.ok_or_else(|| {
            PluginError::not_applicable("MIOpen finds no solution for the convolution with these settings")
        })?;
        Ok(Box::new(ConvolutionStep { solution, slots: self.slots }))
    }
}

struct ConvolutionStep {
    solution: Solution,
    slots: [usize; 3],
}

impl Step for ConvolutionStep {
    fn workspace_size(&self) -> usize {
        self.solution.workspace_size()
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
        let arguments = [argument(CONVOLUTION_X, x), argument(CONVOLUTION_W, w), argument(CONVOLUTION_Y, y)];
        // SAFETY: the caller vouches for the memory.
        unsafe { self.solution.run(ready, &arguments, workspace) }
    }
}
