//! The execution of a fused node.

use std::ffi::c_void;
use std::ptr;

use crate::compiled::{Chain, Input, Output, Residence};
use crate::failure::{Failure, Result};
use crate::gpu::{Copies, is_on_gpu};
use crate::model::Element;
use crate::ort::*;
use crate::threads;

/// Executes a fused node. ONNX Runtime accesses its first member.
#[repr(C)]
pub(super) struct Compute {
    base: OrtNodeComputeInfo,
    ort: Ort,
    subgraph: Chain,
}

impl Compute {
    /// One per subgraph; ONNX Runtime returns it for release.
    pub(super) fn create(ort: Ort, subgraph: Chain) -> *mut OrtNodeComputeInfo {
        let base =
            OrtNodeComputeInfo { ort_version_supported: ort.version, create_state, compute, release_state };
        Box::into_raw(Box::new(Self { base, ort, subgraph })).cast()
    }

    fn run(&self, context: *mut OrtKernelContext) -> Result<()> {
        let (ort, api) = (self.ort, self.ort.api);
        let count = self.subgraph.model().inputs.len();
        let mut copies = Copies::new(ort);
        // SAFETY: the context is alive during the call, as are all values that it returns.
        let inputs = (0..count).map(|at| unsafe { self.input(context, at, &mut copies) });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let output = |at: usize, dims: &[i64]| {
            // SAFETY: the context is alive, the dimensions have the given number, and the value is that of the output.
            unsafe {
                let value = ort.value("making an output", ptr::null_mut(), |to| {
                    api.KernelContext_GetOutput(context, at, dims.as_ptr(), dims.len(), to)
                })?;
                let data = ort.value("the memory of an output", ptr::null_mut(), |to| {
                    api.GetTensorMutableData(value, to)
                })?;
                if self.may_be_on_gpu() {
                    return Ok(Output { data, is_on_gpu: is_on_gpu(ort, value) });
                }
                Ok(Output { data: copies.output(value, data)?, is_on_gpu: false })
            }
        };
        // The engine's threads, if possible: the session's would poll beside them afterwards.
        let (threads, most) = self.subgraph.loops();
        let parallel = |count: usize, work: &(dyn Fn(usize) + Sync)| {
            // SAFETY: the context is that of this call.
            let of_session = || unsafe { threads::each(ort, context, count, work) };
            threads.and_then(|threads| threads.each(count, most, work)).unwrap_or_else(of_session)
        };
        // SAFETY: ONNX Runtime's tensors have as many elements as their shapes say, in the requested memory.
        let execute = || unsafe { self.subgraph.execute(&inputs, &parallel, output) };
        match self.subgraph.threads() {
            // SAFETY: the context is that of this call.
            Some(threads) => unsafe { threads.lend(ort, context, execute) },
            None => execute(),
        }?;
        // SAFETY: the run has ended, and ONNX Runtime's values live as long as the call.
        unsafe { copies.send() }
    }

    /// # Safety
    /// The context is that of a call on this thread.
    unsafe fn input(&self, context: *mut OrtKernelContext, at: usize, copies: &mut Copies) -> Result<Input> {
        let (ort, api) = (self.ort, self.ort.api);
        // SAFETY: the context is that of a call, as this function requires, and the function writes only to the local that `value`
        // passes.
        let value =
            ort.value("an input", ptr::null(), |to| unsafe { api.KernelContext_GetInput(context, at, to) })?;
        if value.is_null() {
            return Err(Failure::ep(format!("hipDNN: input {at} is absent")));
        }
        let (element, dims) = if ort.version >= 24 {
            let (mut kind, mut dims, mut count) = (0, ptr::null(), 0);
            // SAFETY: the value is alive during the call, and so are the dimensions that it points to.
            let status = unsafe {
                api.GetTensorElementTypeAndShapeDataReference(
                    value,
                    &raw mut kind,
                    &raw mut dims,
                    &raw mut count,
                )
            };
            ort.check(status, "the shape of an input")?;
            let dims = if count == 0 || dims.is_null() {
                Vec::new()
            } else {
                // SAFETY: ONNX Runtime points to as many dimensions as it says.
                unsafe { std::slice::from_raw_parts(dims, count) }.to_vec()
            };
            (kind, dims)
        } else {
            // SAFETY: the value is alive during the call; we release its description.
            unsafe {
                let info =
                    ort.value("an input's type", ptr::null_mut(), |to| api.GetTensorTypeAndShape(value, to))?;
                let element = ort.value("an input's type", 0, |to| api.GetTensorElementType(info, to));
                let dims = ort.array(
                    "an input's shape",
                    0_i64,
                    |count| api.GetDimensionsCount(info, count),
                    |items, count| api.GetDimensions(info, items, count),
                );
                api.ReleaseTensorTypeAndShapeInfo(info);
                (element?, dims?)
            }
        };
        // SAFETY: the value is an input of this call, alive until it returns.
        let data =
            ort.value("an input's memory", ptr::null(), |to| unsafe { api.GetTensorData(value, to) })?;
        // SAFETY: the value is an input of this call, alive until it returns.
        let (data, is_on_gpu) = unsafe {
            if self.may_be_on_gpu() {
                (data, is_on_gpu(ort, value))
            } else {
                (copies.input(value, data)?, false)
            }
        };
        Ok(Input { dims, element: Element::from_onnx(element), data, is_on_gpu })
    }

    /// Whether tensors may be in GPU memory.
    fn may_be_on_gpu(&self) -> bool {
        self.subgraph.residence() == Residence::Gpu
    }
}

/// # Safety
/// ONNX Runtime calls this with information of this library's provider; pointers are valid as its interface says.
unsafe extern "C" fn create_state(
    info: *mut OrtNodeComputeInfo,
    _: *mut OrtNodeComputeContext,
    state: *mut *mut c_void,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes the result of `compile`. Runs share it, so no other state is needed.
    let ort = unsafe { (*info.cast::<Compute>()).ort };
    guard(ort, "CreateState", || {
        if state.is_null() {
            return Err(Failure::argument("CreateState: the output is null"));
        }
        // SAFETY: `state` is not null, as was checked above, and callers pass one that is writable.
        unsafe { state.write(info.cast()) };
        Ok(())
    })
}

/// # Safety
/// ONNX Runtime calls this with information of this library's provider; pointers are valid as its interface says.
unsafe extern "C" fn compute(
    info: *mut OrtNodeComputeInfo,
    _: *mut c_void,
    context: *mut OrtKernelContext,
) -> *mut OrtStatus {
    // SAFETY: ONNX Runtime passes what `compile` made, which lives until it is released; it is never changed.
    let compute = unsafe { &*info.cast::<Compute>() };
    guard(compute.ort, "Compute", || compute.run(context))
}

extern "C" fn release_state(_: *mut OrtNodeComputeInfo, _: *mut c_void) {}
