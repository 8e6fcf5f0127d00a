//! Convolutions, by the solutions that MIOpen finds.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Arc, LazyLock};

use hipdnn_plugin_problem::Refusal;
use hipdnn_plugin_problem::problem::convolution::{Convolution, Direction};
use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::graph::{Graph, Operation};
use parking_lot::Mutex;

use super::{Design, Step, Tensors};
use crate::handle::Ready;
use crate::knob::Options;
use crate::miopen::{
    CONVOLUTION, CONVOLUTION_DETERMINISTIC, CONVOLUTION_W, CONVOLUTION_X, CONVOLUTION_Y, DIRECTION_BACKWARD,
    DIRECTION_BACKWARD_WEIGHTS, DIRECTION_FORWARD, Miopen, MiopenError, miopenTensorArgument_t,
};
use crate::object::Object;
use crate::operand::{ImageLayout, Shape, image, int};

/// Solutions that were found in this process, saved, by device and problem: looking for them compiles and times kernels.
static FOUND: LazyLock<Mutex<HashMap<Key, Arc<[u8]>>>> = LazyLock::new(Mutex::default);

/// What decides which solution is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    device: c_int,
    design: ConvolutionDesign,
    options: Options,
}

/// A convolution in MIOpen's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionDesign {
    direction: c_int,
    x: Shape,
    w: Shape,
    y: Shape,
    slots: [usize; 3],
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

    /// The best solution that MIOpen finds.
    fn find(&self, ready: &Ready<'_>, options: &Options) -> Result<Object, PluginError> {
        let miopen = ready.runtime.miopen;
        let convolution = self.descriptor(miopen, options)?;
        let mut problem = ptr::null_mut();
        // SAFETY: the output is valid, and what is made is taken over at once.
        let problem = unsafe {
            let status = (miopen.miopenCreateConvProblem)(&mut problem, convolution.get(), self.direction);
            miopen.check("miopenCreateConvProblem", status)?;
            Object::new(problem, miopen.miopenDestroyProblem)
        };
        for (id, shape) in [(CONVOLUTION_X, &self.x), (CONVOLUTION_W, &self.w), (CONVOLUTION_Y, &self.y)] {
            let descriptor = shape.descriptor(miopen)?;
            // SAFETY: both are alive, and the problem copies the descriptor.
            let status =
                unsafe { (miopen.miopenSetProblemTensorDescriptor)(problem.get(), id, descriptor.get()) };
            miopen.check("miopenSetProblemTensorDescriptor", status)?;
        }
        let find_options = find_options(miopen, options)?;
        let mut solution = ptr::null_mut();
        let mut count = 0;
        // SAFETY: there is room for one solution, which is taken over at once.
        unsafe {
            let status = (miopen.miopenFindSolutions)(
                ready.handle(),
                problem.get(),
                find_options.get(),
                &mut solution,
                &mut count,
                1,
            );
            miopen.check("miopenFindSolutions", status)?;
            if count == 0 || solution.is_null() {
                return Err(PluginError::not_applicable(
                    "MIOpen finds no solution for the convolution with these settings",
                ));
            }
            Ok(Object::new(solution, miopen.miopenDestroySolution))
        }
    }
}

fn find_options(miopen: &Miopen, options: &Options) -> Result<Object, MiopenError> {
    let mut find_options = ptr::null_mut();
    // SAFETY: the output is valid, and what is made is taken over at once.
    let object = unsafe {
        miopen.check("miopenCreateFindOptions", (miopen.miopenCreateFindOptions)(&mut find_options))?;
        Object::new(find_options, miopen.miopenDestroyFindOptions)
    };
    // SAFETY: the options are alive.
    unsafe {
        miopen.check(
            "miopenSetFindOptionTuning",
            (miopen.miopenSetFindOptionTuning)(find_options, c_int::from(options.benchmarking)),
        )?;
        // Saved solutions then spare another process the compiler, too.
        miopen.check(
            "miopenSetFindOptionAttachBinaries",
            (miopen.miopenSetFindOptionAttachBinaries)(find_options, 1),
        )?;
        if let Some(limit) = options.workspace_size_limit {
            miopen.check(
                "miopenSetFindOptionWorkspaceLimit",
                (miopen.miopenSetFindOptionWorkspaceLimit)(find_options, limit),
            )?;
        }
    }
    Ok(object)
}

/// The bytes of a solution.
fn save(miopen: &Miopen, solution: &Object) -> Result<Vec<u8>, MiopenError> {
    let mut size = 0;
    // SAFETY: the output is valid.
    miopen.check("miopenGetSolutionSize", unsafe {
        (miopen.miopenGetSolutionSize)(solution.get(), &mut size)
    })?;
    let mut bytes = vec![0_u8; size];
    // SAFETY: there is room for the size that MIOpen said.
    miopen.check("miopenSaveSolution", unsafe {
        (miopen.miopenSaveSolution)(solution.get(), bytes.as_mut_ptr().cast())
    })?;
    Ok(bytes)
}

fn load(miopen: &Miopen, bytes: &[u8]) -> Result<Object, MiopenError> {
    let mut solution = ptr::null_mut();
    // SAFETY: the bytes are valid for their length, and what is made is taken over at once.
    unsafe {
        let status = (miopen.miopenLoadSolution)(&mut solution, bytes.as_ptr().cast(), bytes.len());
        miopen.check("miopenLoadSolution", status)?;
        Ok(Object::new(solution, miopen.miopenDestroySolution))
    }
}

impl Design for ConvolutionDesign {
    fn make(&self, ready: &Ready<'_>, options: &Options, saved: &[u8]) -> Result<Box<dyn Step>, PluginError> {
        let miopen = ready.runtime.miopen;
        let key = Key { device: ready.device, design: self.clone(), options: options.clone() };
        let known = match saved {
            [] => FOUND.lock().get(&key).cloned(),
            saved => Some(saved.into()),
        };
        let (solution, bytes) = match known {
            Some(bytes) => (load(miopen, &bytes)?, bytes),
            None => {
                let solution = self.find(ready, options)?;
                let bytes: Arc<[u8]> = save(miopen, &solution)?.into();
                FOUND.lock().insert(key, Arc::clone(&bytes));
                (solution, bytes)
            }
        };
        let mut workspace_size = 0;
        // SAFETY: the output is valid.
        miopen.check("miopenGetSolutionWorkspaceSize", unsafe {
            (miopen.miopenGetSolutionWorkspaceSize)(solution.get(), &mut workspace_size)
        })?;
        let limit = options.workspace_size_limit.unwrap_or(usize::MAX);
        if workspace_size > limit {
            return Err(PluginError::not_applicable(format!(
                "MIOpen's best solution needs {workspace_size} bytes of workspace, more than the limit of {limit}"
            )));
        }
        Ok(Box::new(ConvolutionStep {
            solution: Mutex::new(solution),
            bytes,
            workspace_size,
            slots: self.slots,
        }))
    }
}

struct ConvolutionStep {
    /// MIOpen does not say that threads may run one solution at the same time.
    solution: Mutex<Object>,
    /// The saved solution. MIOpen saves only what it found itself, not what it loaded.
    bytes: Arc<[u8]>,
    workspace_size: usize,
    slots: [usize; 3],
}

impl Step for ConvolutionStep {
    fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    fn saved(&self) -> &[u8] {
        &self.bytes
    }

    unsafe fn run(
        &self,
        ready: &Ready<'_>,
        tensors: &Tensors<'_>,
        workspace: *mut c_void,
    ) -> Result<(), PluginError> {
        let [x, w, y] = self.slots;
        let argument = |id: c_uint, slot| miopenTensorArgument_t {
            id,
            descriptor: ptr::null_mut(),
            buffer: tensors.at(slot),
        };
        let arguments = [argument(CONVOLUTION_X, x), argument(CONVOLUTION_W, w), argument(CONVOLUTION_Y, y)];
        let miopen = ready.runtime.miopen;
        let solution = self.solution.lock();
        // SAFETY: the solution is alive, and the caller vouches for the memory.
        let status = unsafe {
            (miopen.miopenRunSolution)(
                ready.handle(),
                solution.get(),
                arguments.len(),
                arguments.as_ptr(),
                workspace,
                self.workspace_size,
            )
        };
        Ok(miopen.check("miopenRunSolution", status)?)
    }
}
